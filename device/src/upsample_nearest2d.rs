//! Nearest-neighbour upsampling by whole factors, NCHW: `[B, C, H, W] -> [B, C, H·sh, W·sw]`.
//!
//! Forward `y[oh, ow] = x[oh / sh, ow / sw]`; backward sums each window,
//! `dx[ih, iw] = Σ_{i<sh, j<sw} dy[ih·sh + i, iw·sw + j]`.
//!
//! Mapping: one thread a 16-byte vector of the output. A vector inside one row, for horizontal scales up to 4,
//! is made from whole vectors of the input; the rest goes element by element. A block covers `block_ow`
//! (backward: `block_iw`) consecutive elements of the output's rows laid end to end.

use crate::divmod::{FastDivmod, FastDivmod64};
use crate::gpu::{load_if, store16_if};
use crate::num::{Num, put};
use crate::sweep::{for_each_batch, for_each_index};
use crate::vector::{Readable, Unaligned, lane, lanes, set_lane};

/// The input of an upsampling, and how to find an output row's source in it.
#[derive(Clone, Copy)]
pub struct Enlarged<E> {
    /// The input's first element.
    pub x: *const E,
    /// Rows and columns of an input plane.
    pub h: u64,
    /// Columns of an input plane.
    pub w: u64,
    /// Divides by the rows of an output plane.
    pub plane: FastDivmod64,
    /// Rows of the output a row of the input.
    pub scale_h: FastDivmod,
    /// Columns of the output a column of the input.
    pub scale_w: FastDivmod,
}

impl<E: Num> Enlarged<E> {
    /// The input row that output row `r` repeats.
    #[inline(always)]
    pub fn row(&self, r: u64) -> *const E {
        let (bc, line) = self.plane.divmod(r);
        let ih = u64::from(self.scale_h.div(line as u32));
        self.x.wrapping_add(((bc * self.h + ih) * self.w) as usize)
    }

    /// A vector of output row `r` from column `c` on, for a horizontal scale of `SCALE`.
    #[inline(always)]
    pub fn expand<const SCALE: usize>(words: &[u32; 4], phase: usize) -> [u32; 4] {
        // With `phase = c % SCALE`, lane j shows element `(phase + j) / SCALE`, which is one of two.
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
}

/// Copies each element of `x` over its `scale_h × scale_w` window of `y`.
///
/// # Safety
/// `x` is valid for reads of `b · c · h · w` elements, `y` for writes of `b · c · oh · ow`; they do not overlap;
/// `oh = h · scale_h`, `ow = w · scale_w`. `row` divides by `ow` and `plane` by `oh`.
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
    plane: FastDivmod64,
    scale_h: FastDivmod,
    scale_w: FastDivmod,
    block_ow: i32,
) {
    let size = size_of::<E>() as u64;
    let lanes = lanes::<E>() as u64;
    let total = b as u64 * c as u64 * oh as u64 * ow as u64;
    let source = Enlarged { x, h: h as u64, w: w as u64, plane, scale_h, scale_w };
    let readable = Readable::new(x, b as u64 * c as u64 * h as u64 * w as u64);
    // Elements by which the first vector starts before the output.
    let skew = (y as u64 & 15) / size;
    let tile = (block_ow as u64).div_ceil(lanes);
    for_each_batch::<2>((total + skew).div_ceil(lanes), tile, |first, step, end| {
        let begin = |u: u64| {
            let index = ((first + u * step) * lanes).wrapping_sub(skew);
            let (r, column) = row.divmod(if index < total { index } else { 0 });
            let (iw, phase) = scale_w.divmod(column as u32);
            let address = source.row(r).wrapping_add(iw as usize) as u64;
            // Bitwise, so that no branch parts the loads.
            let take = (first + u * step < end)
                & (index < total)
                & (index.wrapping_add(lanes) <= total)
                & (column + lanes <= row.divisor())
                & (scale_w.divisor() <= 4)
                & readable.covers(address);
            // SAFETY: a vector's elements start at the first one's source, and the vectors around that lie in x.
            (index, phase as usize, unsafe { Unaligned::load_if(take, address) })
        };
        let finish = |(index, phase, load): (u64, usize, Unaligned)| {
            let words = load.words::<E>();
            let words = match scale_w.divisor() {
                1 => words,
                2 => Enlarged::<E>::expand::<2>(&words, phase),
                3 => Enlarged::<E>::expand::<3>(&words, phase),
                _ => Enlarged::<E>::expand::<4>(&words, phase),
            };
            // SAFETY: a vector inside the output lies on a boundary and belongs to this thread.
            unsafe { store16_if(load.taken(), y.wrapping_add(index as usize).cast(), words) };
        };
        let (near, far) = (begin(0), begin(1));
        finish(near);
        finish(far);
        let mut u = 0;
        while u < 2 {
            let (index, load) = if u == 0 { (near.0, near.2) } else { (far.0, far.2) };
            if first + u * step < end && !load.taken() {
                // SAFETY: the vector is this thread's.
                unsafe { enlarge_piecemeal(&source, y, total, row, index) };
            }
            u += 1;
        }
    });
}

/// Fills one vector element by element; its index wraps when the vector starts before the output.
///
/// # Safety
/// As for [`upsample_nearest2d_forward`], and no other thread has this vector.
#[inline(always)]
pub unsafe fn enlarge_piecemeal<E: Num>(
    source: &Enlarged<E>,
    y: *mut E,
    total: u64,
    row: FastDivmod64,
    index: u64,
) {
    let lanes = lanes::<E>() as u64;
    let whole = index < total && index + lanes <= total;
    let first = if index < total { index } else { 0 };
    let (mut r, mut c) = row.divmod(first);
    let mut from = source.row(r);
    let mut words = [0; 4];
    let mut j = 0;
    while j < lanes {
        let at = index.wrapping_add(j);
        if at < total {
            // SAFETY: the element's source lies in x, and the element is this thread's.
            unsafe {
                let place = from.wrapping_add(source.scale_w.div(c as u32) as usize);
                let element = load_if(true, place, E::narrow(E::ZERO));
                if whole {
                    set_lane(&mut words, j as usize, element);
                } else {
                    *y.wrapping_add(at as usize) = element;
                }
            }
            c += 1;
            if c == row.divisor() {
                (r, c) = (r + 1, 0);
                from = source.row(r);
            }
        }
        j += 1;
    }
    // SAFETY: a vector inside the output lies on a boundary.
    unsafe { store16_if(whole, y.wrapping_add(index as usize).cast(), words) };
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
    pub unsafe fn sums<const SCALE: usize>(&self, window: *const E) -> [u32; 4] {
        let lanes = lanes::<E>();
        let mut sums = [E::ZERO; 16];
        let mut line = window as u64;
        let mut i = 0;
        while i < self.scale_h {
            // SAFETY: by this function's contract; a vector that the scale does not reach is not taken.
            let load = |p: usize| unsafe { Unaligned::load_if(p < SCALE, line + 16 * p as u64) };
            let loads = [load(0), load(1), load(2), load(3)];
            let mut add = |p: usize| {
                let words = loads[p].words::<E>();
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

/// Rows of dx shorter than this many bytes go element by element: too few of their vectors are whole.
pub const SHORT_ROW: u64 = 64;

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
    let tile = (block_iw as u64).div_ceil(lanes);
    for_each_batch::<1>((total + skew).div_ceil(lanes), tile, |vector, _, _| {
        let index = (vector * lanes).wrapping_sub(skew);
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
                let words = match scale_w {
                    1 => windows.sums::<1>(window),
                    2 => windows.sums::<2>(window),
                    3 => windows.sums::<3>(window),
                    _ => windows.sums::<4>(window),
                };
                store16_if(true, dx.wrapping_add(index as usize).cast(), words);
            }
        } else {
            let mut j = 0;
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
    hidden(row: FastDivmod64, plane: FastDivmod64)
    constants(scale_h: FastDivmod, scale_w: FastDivmod, block_ow: i32)
} }

entry! { arithmetic upsample_nearest2d_backward {
    args(dy: *mut E, dx: *mut E, b: i32, c: i32, h: i32, w: i32, oh: i32, ow: i32)
    hidden(row: FastDivmod64, accumulate: u32)
    constants(scale_h: i32, scale_w: i32, block_iw: i32)
} }
