//! Rows copied in whole vectors, whatever the alignment of either side.
//!
//! Two shapes serve every operation that moves rows. [`gather_rows`] fills a contiguous output: row r takes a
//! piece of row r of the source, and a constant outside it. [`scatter_rows`] fills a window of each row of a
//! wider output. Both store 16-byte vectors on 16-byte boundaries; a source that lies differently is loaded as
//! two aligned vectors and shifted. Vectors that cross a row's end or a tensor's edge go element by element.
//!
//! A few elements, for each of which there is a thread, go one by one: a small launch waits for every instruction before
//! its load, and for nothing else.
//!
//! A row has fewer than 2³¹ elements, so that columns have 32 bits. A column before the row's first wraps, and fails
//! every comparison with the row's length as it should.

use crate::divmod::FastDivmod64;
use crate::gpu::{block_dim_x, load_if, opaque, store_if, store16_if};
use crate::num::{Num, copy_or_add};
use crate::sweep::{Batch, for_each_batch, for_each_index, has_a_thread_each};
use crate::vector::{Readable, Unaligned, lane, lanes, set_lane};

/// Vectors that a thread keeps in flight.
pub const BATCH: u32 = 2;

/// Calls `make` for each place in a batch. Written out: arrays that a loop indexes can land in local memory.
#[inline(always)]
pub fn batch<T>(make: impl Fn(u32) -> T) -> [T; BATCH as usize] {
    [make(0), make(1)]
}

/// The places of a batch that have a vector which is not `taken` whole, as bits.
#[inline(always)]
pub fn piecemeal(items: Batch, taken: [bool; BATCH as usize]) -> u32 {
    let bit = |u: u32| u32::from(items.has(u) & !taken[u as usize]) << u;
    bit(0) | bit(1)
}

/// Moves the vectors of a batch that are `taken` from addresses to 16-byte boundaries. Where all of them are `aligned`, so
/// are the addresses.
///
/// # Safety
/// For each vector that is taken, the memory around its source is readable as [`Readable::covers`] says, and its 16 bytes
/// at `to` are valid for writes and belong to this thread.
#[inline(always)]
pub unsafe fn move_vectors<E>(
    taken: [bool; BATCH as usize],
    aligned: bool,
    from: impl Fn(u32) -> u64,
    to: impl Fn(u32) -> u64,
) {
    let take = |u: u32| taken[u as usize];
    // SAFETY: by this function's contract.
    let store = |u: u32, words: [u32; 4]| unsafe { store16_if(take(u), to(u) as *mut u8, words) };
    // Each case has loads of its own: one that only one case needs would be moved there, and wait for the others.
    if aligned {
        // SAFETY: by this function's contract.
        let loads = batch(|u| unsafe { Unaligned::load_aligned_if(take(u), from(u)) });
        batch(|u| store(u, loads[u as usize].aligned_words()));
    } else {
        // SAFETY: by this function's contract.
        let loads = batch(|u| unsafe { Unaligned::load_if(take(u), from(u)) });
        batch(|u| store(u, loads[u as usize].words::<E>()));
    }
}

/// Calls `visit` with each place whose bit is set, in one copy of its code.
#[inline(always)]
pub fn for_each_place(mut places: u32, mut visit: impl FnMut(u32)) {
    while places != 0 {
        visit(places.trailing_zeros());
        places &= places - 1;
    }
}

/// Rows shorter than this many bytes go by elements: too few of their vectors are whole.
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
    pub shift: i32,
    /// Columns of a source row.
    pub valid: u32,
    /// The source's elements, all of them.
    pub len: u64,
    /// The value outside the source.
    pub fill: E,
}

impl<E: Num> Rows<E> {
    /// The source's column for column `c` of the output, if it is below `valid`.
    #[inline(always)]
    #[must_use]
    pub fn column(&self, c: u32) -> u32 {
        // What lies before the source's first column is beyond all of them.
        c.wrapping_sub(self.shift as u32)
    }

    /// Whether the source has column `c` of row `r`, and where.
    #[inline(always)]
    fn place(&self, r: u64, c: u32) -> (bool, *const E) {
        let column = self.column(c);
        let index = (r * self.pitch).wrapping_add(u64::from(column));
        (column < self.valid, self.from.wrapping_add(index as usize))
    }
}

/// Fills the `total` elements at `to`, rows of `row` elements end to end, from `source`; or adds to them, where
/// the source has an element, when `accumulate` is not zero.
///
/// A block covers `block` elements, rounded up to whole vectors.
///
/// # Safety
/// The source's rows are readable as [`Rows`] says, and `to` is valid for reads and writes of `total` elements, a
/// multiple of `row`; they do not overlap.
#[inline(always)]
pub unsafe fn gather_rows<E: Num>(
    source: Rows<E>,
    to: *mut E,
    total: u64,
    row: FastDivmod64,
    accumulate: u32,
    block: i32,
) {
    let width = row.divisor() as u32;
    if accumulate != 0 || has_a_thread_each(total) {
        let tile = if accumulate == 0 { block_dim_x() as i32 } else { block };
        for_each_index(total, tile, |index| {
            let (r, c) = row.divmod(index);
            let (inside, from) = source.place(r, c as u32);
            // SAFETY: the source has this element, `index < total`, and no other thread has this index.
            unsafe {
                let value = load_if(inside, from, source.fill);
                if accumulate == 0 {
                    *to.add(index as usize) = value;
                } else if inside {
                    copy_or_add(&raw const value, to.add(index as usize), accumulate);
                }
            }
        });
        return;
    }
    let size = size_of::<E>() as u64;
    let lanes = lanes::<E>() as u32;
    let readable = Readable::new(source.from, source.len);
    // Elements by which the first vector starts before the output.
    let skew = (to as u64 & 15) / size;
    let vectors = (total + skew).div_ceil(u64::from(lanes));
    let tile = (block as u32).div_ceil(lanes);
    // Then every vector's source lies on a boundary too.
    let first_column = (source.from as u64).wrapping_sub((i64::from(source.shift) as u64).wrapping_mul(size));
    let aligned = (to as u64 | first_column | (source.pitch * size) | (u64::from(width) * size)) & 15 == 0;
    for_each_batch::<BATCH>(vectors, tile, |items| {
        // It wraps when the vector starts before the output.
        let start = |u: u32| (items.item(u) * u64::from(lanes)).wrapping_sub(skew);
        let places = batch(|u| {
            let index = start(u);
            let (r, c) = row.divmod(if index < total { index } else { 0 });
            let (c, column) = (c as u32, source.column(c as u32));
            let at = (r * source.pitch).wrapping_add(u64::from(column));
            let address = (source.from as u64).wrapping_add(at.wrapping_mul(size));
            // Bitwise, so that no branch parts the loads of a batch.
            let take = items.has(u)
                & (index < total)
                & (c + lanes <= width)
                & (column < source.valid)
                & (column.wrapping_add(lanes) <= source.valid)
                & readable.surrounds(address);
            (take, address)
        });
        let taken = [places[0].0, places[1].0];
        let rest = piecemeal(items, taken);
        let place = |u: u32| (to as u64).wrapping_add(start(u).wrapping_mul(size));
        // SAFETY: a taken vector lies in one row of the source, the vectors around it in the source, and it in the output.
        unsafe { move_vectors::<E>(taken, aligned, |u| places[u as usize].1, place) };
        for_each_place(rest, |u| {
            // SAFETY: the vector is this thread's.
            unsafe { gather_piecemeal(&source, to, total, row, start(u)) };
        });
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
        let (r, c) = row.divmod(index);
        let (mut c, width) = (c as u32, row.divisor() as u32);
        let mut from =
            source.from.wrapping_offset((r * source.pitch) as isize + c as isize - source.shift as isize);
        let mut words = [0; 4];
        let mut lane = 0;
        while lane < lanes {
            let inside = source.column(c) < source.valid;
            // SAFETY: the source is readable in its rows' valid columns.
            set_lane(&mut words, lane as usize, unsafe { load_if(inside, from, source.fill) });
            c += 1;
            from = from.wrapping_add(1);
            if c == width {
                c = 0;
                from = from.wrapping_offset(source.pitch as isize - width as isize);
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
                let (inside, from) = source.place(r, c as u32);
                // SAFETY: the source has the element, and the output has the index.
                unsafe { *to.add(index as usize) = load_if(inside, from, source.fill) };
            }
            lane += 1;
        }
    }
}

/// Copies row `r` of the contiguous `from`, `row` elements long, to `to + r · pitch`; or adds it, when
/// `accumulate` is not zero. What lies between the windows is left alone.
///
/// `pieces` is how many aligned vectors a window can touch, or `row`: then elements move one by one, which is right for
/// rows too short to hold whole vectors, and to accumulate. A block covers `block` elements, rounded up to whole vectors.
///
/// # Safety
/// `from` is valid for reads of `rows · row` elements, `to` for reads and writes of `row` elements at each
/// multiple of `pitch` below `rows · pitch`; they do not overlap. `pieces` is `row` where `accumulate` is not zero.
#[inline(always)]
pub unsafe fn scatter_rows<E: Num>(
    from: *const E,
    to: *mut E,
    rows: u64,
    row: FastDivmod64,
    pitch: u64,
    pieces: FastDivmod64,
    accumulate: u32,
    block: i32,
) {
    let size = size_of::<E>() as u64;
    let width = row.divisor() as u32;
    let total = rows * u64::from(width);
    let by_element = pieces.divisor() == row.divisor();
    // One loop serves vectors and elements, which are vectors of one lane on any boundary.
    let across = if by_element { 1 } else { lanes::<E>() as u32 };
    let boundary = if by_element { 0 } else { 15 };
    let tile = if by_element { BATCH * block_dim_x() } else { (block as u32).div_ceil(lanes::<E>() as u32) };
    let readable = Readable::new(from, total);
    // Then every window starts on a boundary, and so does its source.
    let aligned = (to as u64 | from as u64 | (pitch * size) | (u64::from(width) * size)) & 15 == 0;
    for_each_batch::<BATCH>(rows * pieces.divisor(), tile, |items| {
        let first = pieces.divmod(items.item(0));
        let cells = [first, pieces.advance(first, items.step)];
        // Where each vector comes from and goes to, as addresses, and its column, which wraps when it lies before the
        // window.
        let places = batch(|u| {
            let (r, piece) = cells[u as usize];
            let window = to as u64 + r * pitch * size;
            let column = (piece as u32 * across).wrapping_sub((window as u32 & boundary) / size as u32);
            let offset = i64::from(column as i32) as u64;
            let source =
                (from as u64).wrapping_add((r * u64::from(width)).wrapping_add(offset).wrapping_mul(size));
            (source, window.wrapping_add(offset.wrapping_mul(size)), column)
        });
        if by_element {
            let zero = E::narrow(E::ZERO);
            // SAFETY: the element lies in its row.
            let loaded = batch(|u| unsafe { load_if(items.has(u), places[u as usize].0 as *const E, zero) });
            batch(|u| {
                let to = places[u as usize].1 as *mut E;
                if accumulate == 0 {
                    // SAFETY: the element lies in its row's window and is this thread's.
                    unsafe { store_if(items.has(u), to, loaded[u as usize]) };
                } else if items.has(u) {
                    // SAFETY: as above.
                    unsafe { copy_or_add(&raw const loaded[u as usize], to, accumulate) };
                }
            });
            return;
        }
        let lanes = lanes::<E>() as u32;
        let taken = batch(|u| {
            let (source, _, column) = places[u as usize];
            // Bitwise, so that no branch parts the loads of a batch.
            items.has(u)
                & (column < width)
                & (column.wrapping_add(lanes) <= width)
                & readable.surrounds(source)
        });
        let rest = piecemeal(items, taken);
        // SAFETY: a taken vector lies in one row, the vectors around it in the source, and it in its row's window.
        unsafe { move_vectors::<E>(taken, aligned, |u| places[u as usize].0, |u| places[u as usize].1) };
        for_each_place(rest, |u| {
            let (source, place, column) = if u == 0 { places[0] } else { places[1] };
            let inside = |lane: u32| column.wrapping_add(lane) < width;
            // SAFETY: the elements that are inside lie in the row, and their vector is this thread's.
            unsafe { move_lanes(inside, source as *const E, place as *mut E) };
        });
    });
}

/// Moves those elements of a vector that are `inside`. All of them are loaded before the first is stored.
///
/// # Safety
/// The elements that are inside are valid for reads at `from` and for writes at `to`, and belong to this thread.
#[inline(always)]
pub unsafe fn move_lanes<E: Num>(inside: impl Fn(u32) -> bool, from: *const E, to: *mut E) {
    let zero = E::narrow(E::ZERO);
    let mut words = [0; 4];
    let mut j = 0;
    while j < lanes::<E>() as u32 {
        let from = from.wrapping_add(j as usize);
        // SAFETY: by this function's contract.
        set_lane(&mut words, j as usize, unsafe { load_if(inside(j), from, zero) });
        j += 1;
    }
    j = 0;
    while j < lanes::<E>() as u32 {
        let to = to.wrapping_add(j as usize);
        // SAFETY: by this function's contract.
        unsafe { store_if(inside(j), to, lane::<E>(&words, j as usize)) };
        j += 1;
    }
}
