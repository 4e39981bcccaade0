//! Nearest-neighbour upsampling by whole factors, NCHW: `[B, C, H, W] -> [B, C, H·sh, W·sw]`.
//!
//! Forward `y[oh, ow] = x[oh / sh, ow / sw]`; backward sums each window,
//! `dx[ih, iw] = Σ_{i<sh, j<sw} dy[ih·sh + i, iw·sw + j]`.
//!
//! Mapping: one thread an output element; a block covers `block_ow` (backward: `block_iw`) consecutive
//! elements of the rows laid end to end.

use crate::divmod::{FastDivmod, FastDivmod64};
use crate::num::{Num, put};
use crate::sweep::for_each_index;

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
    for_each_index(b as u64 * c as u64 * oh as u64 * ow as u64, block_ow, |index| {
        let (r, column) = row.divmod(index);
        let (bc, line) = plane.divmod(r);
        let ih = u64::from(scale_h.div(line as u32));
        let iw = u64::from(scale_w.div(column as u32));
        let from = (bc * h as u64 + ih) * w as u64 + iw;
        // SAFETY: `index < b·c·oh·ow`; `line < oh = h·scale_h` and `column < ow = w·scale_w` bound ih and iw.
        unsafe { *y.add(index as usize) = *x.add(from as usize) };
    });
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
    // A row of dx is the sum of `scale_h` rows of dy that follow each other, since oh = h · scale_h.
    let _ = oh;
    for_each_index(b as u64 * c as u64 * h as u64 * w as u64, block_iw, |index| {
        let (r, iw) = row.divmod(index);
        let window = r * scale_h as u64 * ow as u64 + iw * scale_w as u64;
        let mut sum = E::ZERO;
        let mut i = 0;
        while i < scale_h {
            let mut j = 0;
            while j < scale_w {
                let from = window + i as u64 * ow as u64 + j as u64;
                // SAFETY: the window lies inside dy, since `r < b·c·h` and `iw < w`.
                sum = E::add(sum, unsafe { *dy.add(from as usize) }.widen());
                j += 1;
            }
            i += 1;
        }
        // SAFETY: `index < b·c·h·w`, and no other thread has this index.
        unsafe { put(dx.add(index as usize), sum, accumulate) };
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
