//! Nearest-neighbour upsampling by whole factors, NCHW: `[B, C, H, W] -> [B, C, H·sh, W·sw]`.
//!
//! Forward `y[oh, ow] = x[oh / sh, ow / sw]`; backward sums each window,
//! `dx[ih, iw] = Σ_{i<sh, j<sw} dy[ih·sh + i, iw·sw + j]`.
//!
//! Mapping: one thread a 16-byte vector of the output. A vector inside one row, for horizontal scales up to 4,
//! is made from whole vectors of the input; the rest goes element by element. A block covers `block_ow`
//! (backward: `block_iw`) consecutive elements of the output's rows laid end to end; the forward pass counts
//! rows that repeat each other once where they lie on boundaries.

use crate::divmod::{FastDivmod, FastDivmod64};
use crate::gpu::{load_if, opaque, store16_if};
use crate::num::{Num, put};
use crate::rows::{BATCH, SHORT_ROW, batch, for_each_place, piecemeal};
use crate::sweep::{Batch, for_each_batch, for_each_index};
use crate::vector::{Readable, Unaligned, lane, lanes, set_lane};

/// The input of an upsampling. An output row repeats input row `r / scale_h`: planes need no division, since
/// their rows follow each other on both sides.
#[derive(Clone, Copy)]
pub struct Enlarged<E> {
    /// The input's first element.
    pub x: *const E,
    /// Columns of an input row.
    pub w: u64,
    /// Columns of the output a column of the input.
    pub scale_w: FastDivmod,
    /// The input's elements, as memory.
    pub readable: Readable,
}

impl<E: Num> Enlarged<E> {
    /// The source of column `c` of an output row that repeats input row `r`.
    #[inline(always)]
    pub fn place(&self, r: u64, c: u64) -> *const E {
        self.x.wrapping_add((r * self.w + u64::from(self.scale_w.div(c as u32))) as usize)
    }

    /// Starts the load of the vector from column `c` on, if it can be had as a whole.
    ///
    /// # Safety
    /// When taken, the row is inside the input.
    #[inline(always)]
    pub unsafe fn load_if(&self, take: bool, r: u64, c: u64) -> Unaligned {
        let address = self.place(r, c) as u64;
        let take = take & (self.scale_w.divisor() <= 4) & self.readable.covers(address);
        // SAFETY: a vector needs no more elements than it has lanes, from its first one's source on.
        unsafe { Unaligned::load_if(take, address) }
    }

    /// A vector from column `c` on, made from the one that starts at its source.
    #[inline(always)]
    pub fn expand(&self, words: [u32; 4], c: u64) -> [u32; 4] {
        let (_, phase) = self.scale_w.divmod(c as u32);
        match self.scale_w.divisor() {
            1 => words,
            2 => expand_by::<E, 2>(&words, phase as usize),
            3 => expand_by::<E, 3>(&words, phase as usize),
            _ => expand_by::<E, 4>(&words, phase as usize),
        }
    }
}

/// Repeats elements `SCALE` times from `phase` repetitions into the first one: lane j shows element
/// `(phase + j) / SCALE`, which is one of two.
#[inline(always)]
pub fn expand_by<E: Num, const SCALE: usize>(words: &[u32; 4], phase: usize) -> [u32; 4] {
    let mut expanded = [0; 4];
    let mut j = 0;
    while j < lanes::<E>() {
        let (near, rest) = (j / SCALE, j % SCALE);
        let far = lane::<E>(words, near + 1);
        let near = lane::<E>(words, near);
        set_lane(&mut expanded, j, if phase + rest >= SCALE { far } else { near });
        j += 1;
    }
    expanded
}

/// Copies each element of `x` over its `scale_h × scale_w` window of `y`.
///
/// Where the output's rows lie on 16-byte boundaries, a thread makes a vector once and stores it to the
/// `scale_h` rows that repeat it. Elsewhere the output is one row of vectors.
///
/// # Safety
/// `x` is valid for reads of `b · c · h · w` elements, `y` for writes of `b · c · oh · ow`; they do not overlap;
/// `oh = h · scale_h`, `ow = w · scale_w`. `row` divides by `ow`, `vectors` by the number of aligned vectors that an
/// output row can touch, `tall` by `scale_h`.
#[inline(always)]
pub unsafe fn upsample_nearest2d_forward<E: Num>(
    x: *mut E,
    y: *mut E,
    b: i32,
    c: i32,
    h: i32,
    w: i32,
    oh: i32,
    ow: i32,
    row: FastDivmod64,
    vectors: FastDivmod64,
    tall: FastDivmod64,
    scale_h: i32,
    scale_w: FastDivmod,
    block_ow: i32,
) {
    let (lanes, size) = (lanes::<E>() as u64, size_of::<E>() as u64);
    let (w, width) = (w as u64, ow as u64);
    let rows = b as u64 * c as u64 * h as u64;
    let source = Enlarged { x, w, scale_w, readable: Readable::new(x, rows * w) };
    let tile = (block_ow as u32).div_ceil(lanes as u32);
    // SAFETY: by this function's contract.
    unsafe {
        if (y as u64 | (width * size)) & 15 == 0 {
            for_each_batch::<2>(rows * vectors.divisor(), tile, |items| {
                enlarge_aligned(source, y, vectors, scale_h, width, items);
            });
        } else {
            let total = b as u64 * c as u64 * oh as u64 * width;
            // Elements by which the first vector starts before the output.
            let skew = (y as u64 & 15) / size;
            for_each_batch::<BATCH>((total + skew).div_ceil(lanes), tile, |items| {
                enlarge_flat(source, y, row, tall, total, skew, items);
            });
        }
    }
}

/// A pair of vectors, each for all the rows that repeat it.
///
/// # Safety
/// As for [`upsample_nearest2d_forward`], with rows of y on boundaries; the vectors are this thread's.
#[inline(always)]
pub unsafe fn enlarge_aligned<E: Num>(
    source: Enlarged<E>,
    y: *mut E,
    vectors: FastDivmod64,
    scale_h: i32,
    width: u64,
    items: Batch,
) {
    let lanes = lanes::<E>() as u64;
    let place = |u: u32| {
        let (r, vector) = vectors.divmod(items.item_or_first(u));
        (items.has(u), r, vector * lanes)
    };
    let load = |u: u32| {
        let (take, r, column) = place(u);
        // SAFETY: the row is inside the input.
        unsafe { source.load_if(take, r, column) }
    };
    let finish = |u: u32, load: Unaligned| {
        let (take, r, column) = place(u);
        let mut words = source.expand(load.words::<E>(), column);
        if take && !load.taken() {
            words = [0; 4];
            let mut j = 0;
            while j < lanes {
                let zero = E::narrow(E::ZERO);
                // SAFETY: the column is inside the row.
                set_lane(&mut words, j as usize, unsafe { load_if(true, source.place(r, column + j), zero) });
                j += 1;
            }
        }
        let mut to = y.wrapping_add((r * scale_h as u64 * width + column) as usize);
        let mut i = 0;
        while i < scale_h {
            // SAFETY: the vector lies in its row, on a boundary, and is this thread's.
            unsafe { store16_if(take, to.cast(), words) };
            to = to.wrapping_add(width as usize);
            i += 1;
        }
    };
    // More in flight would cost more registers than it hides latency: the stores are most of the traffic.
    let (near, far) = (load(0), load(1));
    finish(0, near);
    finish(1, far);
}

/// A batch of vectors of the output's rows laid end to end, which need not lie on boundaries; a vector that reaches from
/// one row into the next is put together element by element.
///
/// # Safety
/// As for [`upsample_nearest2d_forward`]; the vectors are this thread's, and the first starts `skew` elements before y.
#[inline(always)]
pub unsafe fn enlarge_flat<E: Num>(
    source: Enlarged<E>,
    y: *mut E,
    row: FastDivmod64,
    tall: FastDivmod64,
    total: u64,
    skew: u64,
    items: Batch,
) {
    let lanes = lanes::<E>() as u64;
    // An index before the output wraps.
    let starts = |u: u32| (items.item(u) * lanes).wrapping_sub(skew);
    let loads = batch(|u| {
        let index = starts(u);
        let (r, c) = row.divmod(if index < total { index } else { 0 });
        let take = items.has(u)
            & (index < total)
            & (index.wrapping_add(lanes) <= total)
            & (c + lanes <= row.divisor());
        // SAFETY: the row is inside the input.
        unsafe { source.load_if(take, tall.div(r), c) }
    });
    batch(|u| {
        let index = starts(u);
        let (_, c) = row.divmod(if index < total { index } else { 0 });
        let load = loads[u as usize];
        let words = source.expand(load.words::<E>(), c);
        // SAFETY: the vector lies inside the output, on a boundary, and is this thread's.
        unsafe { store16_if(load.taken(), y.wrapping_add(index as usize).cast(), words) };
    });
    for_each_place(piecemeal(items, [loads[0].taken(), loads[1].taken()]), |u| {
        // SAFETY: the vector is this thread's.
        unsafe { enlarge_piecemeal(source, y, row, tall, total, starts(u)) };
    });
}

/// One vector element by element; its index wraps when it starts before the output.
///
/// # Safety
/// As for [`enlarge_flat`].
#[inline(always)]
pub unsafe fn enlarge_piecemeal<E: Num>(
    source: Enlarged<E>,
    y: *mut E,
    row: FastDivmod64,
    tall: FastDivmod64,
    total: u64,
    index: u64,
) {
    let lanes = lanes::<E>() as u64;
    if index < total && index + lanes <= total {
        let (r, column) = row.divmod(index);
        let (line, mut repeated) = tall.divmod(r);
        let (_, mut phase) = source.scale_w.divmod(column as u32);
        let mut from = source.place(line, column);
        let mut left = row.divisor() - column;
        let mut words = [0; 4];
        let mut lane = 0;
        while lane < lanes {
            let zero = E::narrow(E::ZERO);
            // SAFETY: the row is inside the input.
            set_lane(&mut words, lane as usize, unsafe { load_if(true, from, zero) });
            phase += 1;
            if phase == source.scale_w.divisor() {
                phase = 0;
                from = from.wrapping_add(1);
            }
            left -= 1;
            if left == 0 {
                // The next output row repeats the same input row, or takes the one that follows it.
                left = row.divisor();
                repeated += 1;
                if repeated == tall.divisor() {
                    repeated = 0;
                } else {
                    from = from.wrapping_sub(source.w as usize);
                }
            }
            lane += 1;
        }
        // SAFETY: a vector inside the output lies on a boundary.
        unsafe { store16_if(true, y.wrapping_add(index as usize).cast(), words) };
    } else {
        // Rare: the output's first and last vector. A bound that rustc cannot see keeps this short.
        let (mut lane, lanes) = (0, u64::from(opaque(lanes as u32)));
        while lane < lanes {
            let index = index.wrapping_add(lane);
            if index < total {
                let (r, column) = row.divmod(index);
                // SAFETY: the input has the element, and the output has the index.
                unsafe { *y.add(index as usize) = *source.place(tall.div(r), column) };
            }
            lane += 1;
        }
    }
}

/// The gradient of an upsampling and its shape.
#[derive(Clone, Copy)]
pub struct Windows<E> {
    /// The gradient's first element.
    pub dy: *const E,
    /// Columns of dy.
    pub ow: u64,
    /// Rows of a window.
    pub scale_h: i32,
    /// Columns of a window.
    pub scale_w: i32,
}

impl<E: Num> Windows<E> {
    /// The first element of the window of column `iw` in row `r` of dx.
    #[inline(always)]
    pub fn first(&self, r: u64, iw: u64) -> *const E {
        self.dy.wrapping_add((r * self.scale_h as u64 * self.ow + iw * self.scale_w as u64) as usize)
    }

    /// The sum of one window, row by row.
    ///
    /// # Safety
    /// The window lies inside dy.
    #[inline(always)]
    pub unsafe fn sum(&self, window: *const E) -> E::Acc {
        let mut sum = E::ZERO;
        let mut line = window;
        let mut i = 0;
        while i < self.scale_h {
            let mut j = 0;
            while j < self.scale_w {
                // SAFETY: by this function's contract.
                sum = E::add(sum, unsafe { *line.wrapping_add(j as usize) }.widen());
                j += 1;
            }
            line = line.wrapping_add(self.ow as usize);
            i += 1;
        }
        sum
    }

    /// The sums of a vector's windows, which are `SCALE` columns wide and start at `window`: each in the same
    /// order as [`sum`](Windows::sum).
    ///
    /// # Safety
    /// The windows and the aligned vectors around them lie inside dy.
    #[inline(always)]
    pub unsafe fn sums<const SCALE: usize, const ALIGNED: bool>(&self, window: *const E) -> [u32; 4] {
        let lanes = lanes::<E>();
        let mut sums = [E::ZERO; 16];
        let mut line = window as u64;
        let mut i = 0;
        while i < self.scale_h {
            // SAFETY: by this function's contract; a vector that the scale does not reach is not taken.
            let load = |p: usize| unsafe {
                if ALIGNED {
                    Unaligned::load_aligned_if(p < SCALE, line + 16 * p as u64)
                } else {
                    Unaligned::load_if(p < SCALE, line + 16 * p as u64)
                }
            };
            let loads = [load(0), load(1), load(2), load(3)];
            let mut add = |p: usize| {
                let words = if ALIGNED { loads[p].aligned_words() } else { loads[p].words::<E>() };
                let mut q = 0;
                while q < lanes && p < SCALE {
                    let value = lane::<E>(&words, q).widen();
                    sums[(p * lanes + q) / SCALE] = E::add(sums[(p * lanes + q) / SCALE], value);
                    q += 1;
                }
            };
            add(0);
            add(1);
            add(2);
            add(3);
            line += self.ow * size_of::<E>() as u64;
            i += 1;
        }
        let mut words = [0; 4];
        let mut j = 0;
        while j < lanes {
            set_lane(&mut words, j, E::narrow(sums[j]));
            j += 1;
        }
        words
    }
}

/// Sums each `scale_h × scale_w` window of `dy`, row by row, and stores or adds it.
///
/// # Safety
/// `dy` is valid for reads of `b · c · oh · ow` elements, `dx` for reads and writes of `b · c · h · w`; they do
/// not overlap; `oh = h · scale_h`, `ow = w · scale_w`. `row` divides by `w`.
#[inline(always)]
pub unsafe fn upsample_nearest2d_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    b: i32,
    c: i32,
    h: i32,
    w: i32,
    oh: i32,
    ow: i32,
    row: FastDivmod64,
    accumulate: u32,
    scale_h: i32,
    scale_w: i32,
    block_iw: i32,
) {
    let size = size_of::<E>() as u64;
    let lanes = lanes::<E>() as u64;
    let total = b as u64 * c as u64 * h as u64 * w as u64;
    // A row of dx is the sum of `scale_h` rows of dy that follow each other, since oh = h · scale_h.
    let windows = Windows { dy, ow: ow as u64, scale_h, scale_w };
    let element = |index: u64| {
        let (r, iw) = row.divmod(index);
        // SAFETY: `index < total`; the window lies inside dy, and no other thread has this index.
        unsafe { put(dx.add(index as usize), windows.sum(windows.first(r, iw)), accumulate) };
    };
    if accumulate != 0 || scale_w > 4 || row.divisor() * size < SHORT_ROW {
        for_each_index(total, block_iw, element);
        return;
    }
    let readable = Readable::new(dy, b as u64 * c as u64 * oh as u64 * ow as u64);
    let skew = (dx as u64 & 15) / size;
    let tile = (block_iw as u32).div_ceil(lanes as u32);
    // Then every window starts on a boundary.
    let aligned = (dy as u64 | (ow as u64 * size) | dx as u64 | (row.divisor() * size)) & 15 == 0;
    for_each_batch::<1>((total + skew).div_ceil(lanes), tile, |items| {
        let index = (items.item(0) * lanes).wrapping_sub(skew);
        let (r, iw) = row.divmod(if index < total { index } else { 0 });
        let window = windows.first(r, iw);
        let last = windows.first(r, iw + lanes).wrapping_add(((scale_h - 1) as u64 * ow as u64) as usize);
        let whole = index < total
            && index + lanes <= total
            && iw + lanes <= row.divisor()
            && readable.covers(window as u64)
            && readable.covers((last as u64).wrapping_sub(16));
        if whole {
            // SAFETY: the vector lies in one row of dx on a boundary, its windows and the vectors around them in dy.
            unsafe {
                let words = match (scale_w, aligned) {
                    (1, true) => windows.sums::<1, true>(window),
                    (2, true) => windows.sums::<2, true>(window),
                    (3, true) => windows.sums::<3, true>(window),
                    (_, true) => windows.sums::<4, true>(window),
                    (1, false) => windows.sums::<1, false>(window),
                    (2, false) => windows.sums::<2, false>(window),
                    (3, false) => windows.sums::<3, false>(window),
                    (_, false) => windows.sums::<4, false>(window),
                };
                store16_if(true, dx.wrapping_add(index as usize).cast(), words);
            }
        } else {
            // A bound that rustc cannot see keeps this short.
            let (mut j, lanes) = (0, u64::from(opaque(lanes as u32)));
            while j < lanes {
                if index.wrapping_add(j) < total {
                    element(index.wrapping_add(j));
                }
                j += 1;
            }
        }
    });
}

entry! { copy upsample_nearest2d_forward {
    args(x: *mut E, y: *mut E, b: i32, c: i32, h: i32, w: i32, oh: i32, ow: i32)
    hidden(row: FastDivmod64, vectors: FastDivmod64, tall: FastDivmod64)
    constants(scale_h: i32, scale_w: FastDivmod, block_ow: i32)
} }

entry! { arithmetic upsample_nearest2d_backward {
    args(dy: *mut E, dx: *mut E, b: i32, c: i32, h: i32, w: i32, oh: i32, ow: i32)
    hidden(row: FastDivmod64, accumulate: u32)
    constants(scale_h: i32, scale_w: i32, block_iw: i32)
} }
