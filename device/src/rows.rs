//! Rows copied in whole vectors, whatever the alignment of either side.
//!
//! Two shapes serve every operation that moves rows. [`gather_rows`] fills a contiguous output: row r takes a
//! piece of row r of the source, and a constant outside it. [`scatter_rows`] fills a window of each row of a
//! wider output. Both store 16-byte vectors on 16-byte boundaries; a source that lies differently is loaded as
//! two aligned vectors and shifted. Vectors that cross a row's end or a tensor's edge go element by element.

use crate::divmod::FastDivmod64;
use crate::gpu::{load_if, opaque, store_if, store16_if};
use crate::num::{Num, copy_or_add};
use crate::sweep::{for_each_batch, for_each_index};
use crate::vector::{Readable, Unaligned, lane, lanes, set_lane};

/// Vectors that a thread keeps in flight.
pub const BATCH: u64 = 2;

/// Calls `make` for each place in a batch. Written out: arrays that a loop indexes can land in local memory.
#[inline(always)]
pub fn batch<T>(make: impl Fn(u64) -> T) -> [T; BATCH as usize] {
    [make(0), make(1)]
}

/// The places in a batch whose vector was not loaded whole, as bits.
#[inline(always)]
pub fn piecemeal(loads: &[Unaligned; BATCH as usize]) -> u32 {
    let bit = |u: usize| u32::from(!loads[u].taken()) << u;
    bit(0) | bit(1)
}

/// Rows shorter than this many bytes are scattered by elements: too few of their vectors are whole.
pub const SHORT_ROW: u64 = 64;

/// Where the elements of a contiguous output come from: column `c` of row `r` is column `c − shift` of row r of
/// the source when that is below `valid`, else `fill`.
#[derive(Clone, Copy)]
pub struct Rows<E> {
    /// The source's first element.
    pub from: *const E,
    /// Elements between its rows.
    pub pitch: u64,
    /// Columns by which the source lies to the right of the output.
    pub shift: i64,
    /// Columns of a source row.
    pub valid: u64,
    /// The source's elements, all of them.
    pub len: u64,
    /// The value outside the source.
    pub fill: E,
}

impl<E: Num> Rows<E> {
    /// The element for column `c` of row `r`, if the source has it.
    #[inline(always)]
    fn place(&self, r: u64, c: u64) -> Option<*const E> {
        let column = c as i64 - self.shift;
        // A negative column is a huge unsigned one.
        ((column as u64) < self.valid)
            .then(|| self.from.wrapping_add((r * self.pitch + column as u64) as usize))
    }
}

/// Fills the `total` elements at `to`, rows of `row` elements end to end, from `source`; or adds to them, where
/// the source has an element, when `accumulate` is not zero.
///
/// A block covers `block` elements, rounded up to whole vectors.
///
/// # Safety
/// The source's rows are readable as [`Rows`] says, and `to` is valid for reads and writes of `total` elements;
/// they do not overlap.
#[inline(always)]
pub unsafe fn gather_rows<E: Num>(
    source: Rows<E>,
    to: *mut E,
    total: u64,
    row: FastDivmod64,
    accumulate: u32,
    block: i32,
) {
    if accumulate != 0 {
        for_each_index(total, block, |index| {
            let (r, c) = row.divmod(index);
            if let Some(from) = source.place(r, c) {
                // SAFETY: the source has this element, `index < total`, and no other thread has this index.
                unsafe { copy_or_add(from, to.add(index as usize), accumulate) };
            }
        });
        return;
    }
    let size = size_of::<E>() as u64;
    let lanes = lanes::<E>() as u64;
    let readable = Readable::new(source.from, source.len);
    // Elements by which the first vector starts before the output.
    let skew = (to as u64 & 15) / size;
    let vectors = (total + skew).div_ceil(lanes);
    let tile = (block as u64).div_ceil(lanes);
    // Then every vector's source lies on a boundary too.
    let first_column = (source.from as u64).wrapping_sub((source.shift as u64).wrapping_mul(size));
    let aligned = (to as u64 | first_column | (source.pitch * size) | (row.divisor() * size)) & 15 == 0;
    for_each_batch::<BATCH>(vectors, tile, |first, step, end| {
        let starts = |u: u64| ((first + u * step) * lanes).wrapping_sub(skew);
        let loads = batch(|u| {
            let index = starts(u);
            let (r, c) = row.divmod(if index < total { index } else { 0 });
            let column = c as i64 - source.shift;
            let address = (source.from as u64)
                .wrapping_add((r * source.pitch).wrapping_add(column as u64).wrapping_mul(size));
            // Bitwise, so that no branch parts the loads of a batch.
            let take = (first + u * step < end)
                & (index < total)
                & (index.wrapping_add(lanes) <= total)
                & (c + lanes <= row.divisor())
                & (column >= 0)
                & (column.wrapping_add(lanes as i64) as u64 <= source.valid)
                & readable.covers(address);
            // SAFETY: the vector lies in one row of the source, and the vectors around it in the source.
            unsafe { Unaligned::load_if(take, address) }
        });
        let store = |u: u64, words: [u32; 4]| {
            let place = to.wrapping_add(starts(u) as usize).cast::<u8>();
            // SAFETY: a whole vector lies inside the output, on a boundary, and belongs to this thread.
            unsafe { store16_if(loads[u as usize].taken(), place, words) };
        };
        if aligned {
            batch(|u| store(u, loads[u as usize].aligned_words()));
        } else {
            batch(|u| store(u, loads[u as usize].words::<E>()));
        }
        let mut rest = piecemeal(&loads);
        while rest != 0 {
            let u = u64::from(rest.trailing_zeros());
            rest &= rest - 1;
            if first + u * step < end {
                // SAFETY: the vector is this thread's.
                unsafe { gather_piecemeal(&source, to, total, row, starts(u)) };
            }
        }
    });
}

/// Fills one vector element by element; its index wraps when the vector starts before the output.
///
/// # Safety
/// As for [`gather_rows`], and no other thread has this vector.
#[inline(always)]
unsafe fn gather_piecemeal<E: Num>(source: &Rows<E>, to: *mut E, total: u64, row: FastDivmod64, index: u64) {
    let lanes = lanes::<E>() as u64;
    if index < total && index + lanes <= total {
        let (r, mut c) = row.divmod(index);
        let mut from =
            source.from.wrapping_offset((r * source.pitch) as isize + c as isize - source.shift as isize);
        let mut words = [0; 4];
        let mut lane = 0;
        while lane < lanes {
            let inside = ((c as i64 - source.shift) as u64) < source.valid;
            // SAFETY: the source is readable in its rows' valid columns.
            set_lane(&mut words, lane as usize, unsafe { load_if(inside, from, source.fill) });
            c += 1;
            from = from.wrapping_add(1);
            if c == row.divisor() {
                c = 0;
                from = from.wrapping_offset(source.pitch as isize - row.divisor() as isize);
            }
            lane += 1;
        }
        // SAFETY: a vector inside the output lies on a boundary.
        unsafe { store16_if(true, to.wrapping_add(index as usize).cast(), words) };
    } else {
        // Rare: the output's first and last vector. A bound that rustc cannot see keeps this short.
        let (mut lane, lanes) = (0, u64::from(opaque(lanes as u32)));
        while lane < lanes {
            let index = index.wrapping_add(lane);
            if index < total {
                let (r, c) = row.divmod(index);
                let from = source.place(r, c);
                // SAFETY: the source has the element, and the output has the index.
                unsafe { *to.add(index as usize) = from.map_or(source.fill, |from| *from) };
            }
            lane += 1;
        }
    }
}

/// Copies row `r` of the contiguous `from`, `row` elements long, to `to + r · pitch`; or adds it, when
/// `accumulate` is not zero. What lies between the windows is left alone.
///
/// `vectors` is how many aligned vectors a window can touch. A block covers `block` elements, rounded up to
/// whole vectors.
///
/// # Safety
/// `from` is valid for reads of `rows · row` elements, `to` for reads and writes of `row` elements at each
/// multiple of `pitch` below `rows · pitch`; they do not overlap.
#[inline(always)]
pub unsafe fn scatter_rows<E: Num>(
    from: *const E,
    to: *mut E,
    rows: u64,
    row: FastDivmod64,
    pitch: u64,
    vectors: FastDivmod64,
    accumulate: u32,
    block: i32,
) {
    let size = size_of::<E>() as u64;
    let lanes = lanes::<E>() as u64;
    let width = row.divisor();
    let total = rows * width;
    if accumulate != 0 || width * size < SHORT_ROW {
        // SAFETY: by this function's contract.
        unsafe { scatter_elements(from, to, total, row, pitch, accumulate, block) };
        return;
    }
    let readable = Readable::new(from, total);
    let tile = (block as u64).div_ceil(lanes);
    // Then every window starts on a boundary, and so does its source.
    let aligned = (to as u64 | from as u64 | (pitch * size) | (width * size)) & 15 == 0;
    for_each_batch::<BATCH>(rows * vectors.divisor(), tile, |first, step, end| {
        // The row, the window's start as an address, and the column where the vector starts; it wraps when
        // that lies before the window.
        let places = |u: u64| {
            let (r, vector) = vectors.divmod(first + u * step);
            let window = to as u64 + r * pitch * size;
            (r, window, (vector * lanes).wrapping_sub((window & 15) / size))
        };
        let loads = batch(|u| {
            let (r, _, column) = places(u);
            let address = (from as u64).wrapping_add((r * width).wrapping_add(column).wrapping_mul(size));
            // Bitwise, so that no branch parts the loads of a batch.
            let take = (first + u * step < end)
                & (column < width)
                & (column.wrapping_add(lanes) <= width)
                & readable.covers(address);
            // SAFETY: the vector lies in one row, and the vectors around it in the source.
            unsafe { Unaligned::load_if(take, address) }
        });
        let store = |u: u64, words: [u32; 4]| {
            let (_, window, column) = places(u);
            let place = window.wrapping_add(column.wrapping_mul(size)) as *mut u8;
            // SAFETY: a whole vector lies inside the window, on a boundary, and belongs to this thread.
            unsafe { store16_if(loads[u as usize].taken(), place, words) };
        };
        if aligned {
            batch(|u| store(u, loads[u as usize].aligned_words()));
        } else {
            batch(|u| store(u, loads[u as usize].words::<E>()));
        }
        let mut rest = piecemeal(&loads);
        while rest != 0 {
            let u = u64::from(rest.trailing_zeros());
            rest &= rest - 1;
            if first + u * step < end {
                let (r, window, column) = places(u);
                let inside = |lane: u64| column.wrapping_add(lane) < width;
                let at = |lane: u64| (r * width).wrapping_add(column.wrapping_add(lane)) as usize;
                // SAFETY: the elements that are inside lie in the row, and their vector is this thread's.
                unsafe { move_lanes(inside, |lane| from.wrapping_add(at(lane)), window as *mut E, column) };
            }
        }
    });
}

/// Moves those elements of a vector that are `inside`, from wherever they lie to `to` from `column` on. All of
/// them are loaded before the first is stored.
///
/// # Safety
/// The elements that are inside are valid for reads at their source and for writes at `to`, and belong to this
/// thread.
#[inline(always)]
pub unsafe fn move_lanes<E: Num>(
    inside: impl Fn(u64) -> bool,
    from: impl Fn(u64) -> *const E,
    to: *mut E,
    column: u64,
) {
    let zero = E::narrow(E::ZERO);
    let mut words = [0; 4];
    let mut j = 0;
    while j < lanes::<E>() as u64 {
        // SAFETY: by this function's contract.
        set_lane(&mut words, j as usize, unsafe { load_if(inside(j), from(j), zero) });
        j += 1;
    }
    j = 0;
    while j < lanes::<E>() as u64 {
        let place = to.wrapping_add(column.wrapping_add(j) as usize);
        // SAFETY: by this function's contract.
        unsafe { store_if(inside(j), place, lane::<E>(&words, j as usize)) };
        j += 1;
    }
}

/// [`scatter_rows`] element by element: for rows too short to hold whole vectors, and to accumulate.
///
/// # Safety
/// As for [`scatter_rows`]; `total` counts the source's elements.
#[inline(always)]
unsafe fn scatter_elements<E: Num>(
    from: *const E,
    to: *mut E,
    total: u64,
    row: FastDivmod64,
    pitch: u64,
    accumulate: u32,
    block: i32,
) {
    for_each_batch::<BATCH>(total, block as u64, |first, step, end| {
        // Items past the end read the first element again, so that the loads need no branch.
        let elements = batch(|u| {
            let index = first + u * step;
            // SAFETY: the index is below `total`.
            unsafe { *from.add((if index < end { index } else { first }) as usize) }
        });
        let place = |u: u64| {
            let index = first + u * step;
            let (r, c) = row.divmod(if index < end { index } else { first });
            (index < end, to.wrapping_add((r * pitch + c) as usize))
        };
        if accumulate == 0 {
            batch(|u| {
                let (take, to) = place(u);
                // SAFETY: the element lies in its row's window and is this thread's.
                unsafe { store_if(take, to, elements[u as usize]) };
            });
        } else {
            batch(|u| {
                if let (true, to) = place(u) {
                    // SAFETY: as above.
                    unsafe { copy_or_add(&raw const elements[u as usize], to, accumulate) };
                }
            });
        }
    });
}
