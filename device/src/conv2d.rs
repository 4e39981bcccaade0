//! 2-D convolution (cross-correlation), NCHW, and its two gradients.
//!
//! With `x[B, C_in, H, W]`, `w[C_out, C_in/g, kh, kw]`, `ih = oh·stride_h + i − pad_h` and
//! `iw = ow·stride_w + j − pad_w` (taps outside the image count as zero):
//!
//! - forward `y[b, co, oh, ow] = Σ_{ci, i, j} x[b, ci, ih, iw] · w[co, ci, i, j]`
//! - dgrad `dx[b, ci, ih, iw] = Σ_{co, i, j} dy[b, co, oh, ow] · w[co, ci, i, j]`
//! - wgrad `dw[co, ci, i, j] = Σ_{b, oh, ow} dy[b, co, oh, ow] · x[b, ci, ih, iw]`
//!
//! where ci runs over the input channels, and co over the output channels, of the same group.
//!
//! Mapping: one thread an element of the result, which it sums by itself in a fixed order; a block covers
//! `block_ow` consecutive elements of the result.

use crate::divmod::{FastDivmod, FastDivmod64};
use crate::num::{Num, put};
use crate::sweep::for_each_index;

/// Channels that are summed by themselves before they join the total, which keeps the rounding error near that of the
/// longer of the two sums instead of that of their product.
pub const SUMMED: i32 = 8;

/// The convolution of `x` with `w`.
///
/// # Safety
/// `x` is valid for reads of `b·c_in·h·wd` elements, `w` of `c_out·(c_in/g)·kh·kw`, `y` for writes of
/// `b·c_out·oh·ow`; y overlaps neither. The extents agree, `row` divides by `ow`, `plane` by `oh`, `channel`
/// by `c_out` and `group` by `c_out / g`.
#[inline(always)]
pub unsafe fn conv2d_forward<E: Num>(
    x: *mut E,
    w: *mut E,
    y: *mut E,
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    wd: i32,
    oh: i32,
    ow: i32,
    row: FastDivmod64,
    plane: FastDivmod64,
    channel: FastDivmod64,
    group: FastDivmod,
    kh: i32,
    kw: i32,
    stride_h: i32,
    stride_w: i32,
    pad_h: i32,
    pad_w: i32,
    g: FastDivmod,
    block_ow: i32,
) {
    let cig = g.div(c_in as u32) as i32;
    for_each_index(b as u64 * c_out as u64 * oh as u64 * ow as u64, block_ow, |index| {
        let (r, column) = row.divmod(index);
        let (bc, line) = plane.divmod(r);
        let (batch, co) = channel.divmod(bc);
        let first_ci = i64::from(group.div(co as u32)) * i64::from(cig);
        let top = line as i64 * i64::from(stride_h) - i64::from(pad_h);
        let left = column as i64 * i64::from(stride_w) - i64::from(pad_w);
        let (mut total, mut sum) = (E::ZERO, E::ZERO);
        let mut ci = 0;
        while ci < cig {
            let image = (batch as i64 * i64::from(c_in) + first_ci + i64::from(ci)) * i64::from(h);
            let taps = (co as i64 * i64::from(cig) + i64::from(ci)) * i64::from(kh);
            let mut i = 0;
            while i < kh {
                let ih = top + i64::from(i);
                if ih >= 0 && ih < i64::from(h) {
                    let x_row = (image + ih) * i64::from(wd);
                    let w_row = (taps + i64::from(i)) * i64::from(kw);
                    let mut j = 0;
                    while j < kw {
                        let iw = left + i64::from(j);
                        if iw >= 0 && iw < i64::from(wd) {
                            // SAFETY: ci, ih, iw are inside the image and ci, i, j inside the filter.
                            unsafe {
                                let value = *x.offset((x_row + iw) as isize);
                                let tap = *w.offset((w_row + i64::from(j)) as isize);
                                sum = E::mul_add(value, tap, sum);
                            }
                        }
                        j += 1;
                    }
                }
                i += 1;
            }
            ci += 1;
            if ci % SUMMED == 0 {
                total = E::add(total, sum);
                sum = E::ZERO;
            }
        }
        // SAFETY: `index < b·c_out·oh·ow`, and no other thread has this index.
        unsafe { put(y.add(index as usize), E::add(total, sum), 0) };
    });
}

/// One element of dx, the `index`-th of `[B, C_in, H, W]`.
///
/// Only taps that meet an output element are visited: with `ih + pad_h = q·stride_h + r`, they are
/// `i = r, r + stride_h, …`, which meet the output rows `q, q − 1, …`.
///
/// # Safety
/// As for [`conv2d_backward_dx`], and `index < b·c_in·h·wd`.
#[inline(always)]
pub unsafe fn dx_element<E: Num>(
    index: u64,
    dy: *mut E,
    w: *mut E,
    c_out: i32,
    oh: i32,
    ow: i32,
    in_row: FastDivmod64,
    in_plane: FastDivmod64,
    in_channel: FastDivmod64,
    in_group: FastDivmod64,
    kh: i32,
    kw: i32,
    stride_h: FastDivmod,
    stride_w: FastDivmod,
    pad_h: i32,
    pad_w: i32,
    g: FastDivmod,
) -> E::Acc {
    let cig = in_group.divisor() as i64;
    let cog = g.div(c_out as u32) as i64;
    let (r, iw) = in_row.divmod(index);
    let (bc, ih) = in_plane.divmod(r);
    let (batch, ci) = in_channel.divmod(bc);
    let (which, ci) = in_group.divmod(ci);
    let (last_oh, first_i) = stride_h.divmod(ih as u32 + pad_h as u32);
    let (last_ow, first_j) = stride_w.divmod(iw as u32 + pad_w as u32);
    let first_co = which as i64 * cog;
    let (mut total, mut sum) = (E::ZERO, E::ZERO);
    let mut n = 0;
    while n < cog {
        let co = first_co + n;
        let gradient = (batch as i64 * i64::from(c_out) + co) * i64::from(oh);
        let taps = (co * cig + ci as i64) * i64::from(kh);
        let (mut i, mut line) = (first_i as i32, last_oh as i32);
        while i < kh && line >= 0 {
            if line < oh {
                let dy_row = (gradient + i64::from(line)) * i64::from(ow);
                let w_row = (taps + i64::from(i)) * i64::from(kw);
                let (mut j, mut column) = (first_j as i32, last_ow as i32);
                while j < kw && column >= 0 {
                    if column < ow {
                        // SAFETY: co, line, column are inside dy and co, ci, i, j inside the filter.
                        unsafe {
                            let value = *dy.offset((dy_row + i64::from(column)) as isize);
                            let tap = *w.offset((w_row + i64::from(j)) as isize);
                            sum = E::mul_add(value, tap, sum);
                        }
                    }
                    j += stride_w.divisor() as i32;
                    column -= 1;
                }
            }
            i += stride_h.divisor() as i32;
            line -= 1;
        }
        n += 1;
        if n % i64::from(SUMMED) == 0 {
            total = E::add(total, sum);
            sum = E::ZERO;
        }
    }
    E::add(total, sum)
}

/// One element of dw, the `index`-th of `[C_out, C_in/g, kh, kw]`.
///
/// Each output row is summed by itself before it joins the total, which keeps the rounding error near
/// that of the longer of the two sums instead of that of their product.
///
/// # Safety
/// As for [`conv2d_backward_dw`], and `index < c_out·(c_in/g)·kh·kw`.
#[inline(always)]
pub unsafe fn dw_element<E: Num>(
    index: u64,
    dy: *mut E,
    x: *mut E,
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    wd: i32,
    oh: i32,
    ow: i32,
    in_group: FastDivmod64,
    out_group: FastDivmod,
    taps: FastDivmod64,
    kw: FastDivmod,
    stride_h: i32,
    stride_w: i32,
    pad_h: i32,
    pad_w: i32,
) -> E::Acc {
    let (filter, tap) = taps.divmod(index);
    let (i, j) = kw.divmod(tap as u32);
    let (co, ci) = in_group.divmod(filter);
    let ci = u64::from(out_group.div(co as u32)) * in_group.divisor() + ci;
    let top = i64::from(i) - i64::from(pad_h);
    let left = i64::from(j) - i64::from(pad_w);
    let mut total = E::ZERO;
    let mut batch = 0;
    while batch < b {
        let gradient = (i64::from(batch) * i64::from(c_out) + co as i64) * i64::from(oh);
        let image = (i64::from(batch) * i64::from(c_in) + ci as i64) * i64::from(h);
        let mut line = 0;
        while line < oh {
            let ih = i64::from(line) * i64::from(stride_h) + top;
            if ih >= 0 && ih < i64::from(h) {
                let dy_row = (gradient + i64::from(line)) * i64::from(ow);
                let x_row = (image + ih) * i64::from(wd);
                let mut sum = E::ZERO;
                let mut column = 0;
                while column < ow {
                    let iw = i64::from(column) * i64::from(stride_w) + left;
                    if iw >= 0 && iw < i64::from(wd) {
                        // SAFETY: co, line, column are inside dy and ci, ih, iw inside the image.
                        unsafe {
                            let value = *dy.offset((dy_row + i64::from(column)) as isize);
                            sum = E::mul_add(value, *x.offset((x_row + iw) as isize), sum);
                        }
                    }
                    column += 1;
                }
                total = E::add(total, sum);
            }
            line += 1;
        }
        batch += 1;
    }
    total
}

/// dx and dw together: the elements of dx, then those of dw, in one sweep.
///
/// # Safety
/// As for [`conv2d_backward_dx`] and [`conv2d_backward_dw`] together.
#[inline(always)]
pub unsafe fn conv2d_backward<E: Num>(
    dy: *mut E,
    x: *mut E,
    w: *mut E,
    dx: *mut E,
    dw: *mut E,
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    wd: i32,
    oh: i32,
    ow: i32,
    in_row: FastDivmod64,
    in_plane: FastDivmod64,
    in_channel: FastDivmod64,
    in_group: FastDivmod64,
    out_group: FastDivmod,
    taps: FastDivmod64,
    accumulate: u32,
    kh: i32,
    kw: FastDivmod,
    stride_h: FastDivmod,
    stride_w: FastDivmod,
    pad_h: i32,
    pad_w: i32,
    g: FastDivmod,
    block_ow: i32,
) {
    let dx_len = b as u64 * c_in as u64 * h as u64 * wd as u64;
    let dw_len = c_out as u64 * in_group.divisor() * taps.divisor();
    let (sh, sw) = (stride_h.divisor() as i32, stride_w.divisor() as i32);
    for_each_index(dx_len + dw_len, block_ow, |index| {
        // SAFETY: the index is inside dx, or inside dw after it, and no other thread has it.
        unsafe {
            if index < dx_len {
                let sum = dx_element(
                    index,
                    dy,
                    w,
                    c_out,
                    oh,
                    ow,
                    in_row,
                    in_plane,
                    in_channel,
                    in_group,
                    kh,
                    kw.divisor() as i32,
                    stride_h,
                    stride_w,
                    pad_h,
                    pad_w,
                    g,
                );
                put(dx.add(index as usize), sum, accumulate);
            } else {
                let index = index - dx_len;
                let sum = dw_element(
                    index, dy, x, b, c_in, c_out, h, wd, oh, ow, in_group, out_group, taps, kw, sh, sw,
                    pad_h, pad_w,
                );
                put(dw.add(index as usize), sum, accumulate);
            }
        }
    });
}

/// The gradient with respect to x (dgrad), stored or added.
///
/// # Safety
/// `dy` is valid for reads of `b·c_out·oh·ow` elements, `w` of `c_out·(c_in/g)·kh·kw`, `dx` for reads and writes
/// of `b·c_in·h·wd`; dx overlaps neither. The extents agree, `in_row` divides by `wd`, `in_plane` by `h`,
/// `in_channel` by `c_in` and `in_group` by `c_in / g`.
#[inline(always)]
pub unsafe fn conv2d_backward_dx<E: Num>(
    dy: *mut E,
    w: *mut E,
    dx: *mut E,
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    wd: i32,
    oh: i32,
    ow: i32,
    in_row: FastDivmod64,
    in_plane: FastDivmod64,
    in_channel: FastDivmod64,
    in_group: FastDivmod64,
    accumulate: u32,
    kh: i32,
    kw: i32,
    stride_h: FastDivmod,
    stride_w: FastDivmod,
    pad_h: i32,
    pad_w: i32,
    g: FastDivmod,
    block_ow: i32,
) {
    for_each_index(b as u64 * c_in as u64 * h as u64 * wd as u64, block_ow, |index| {
        // SAFETY: `index < b·c_in·h·wd`, and no other thread has this index.
        unsafe {
            let sum = dx_element(
                index, dy, w, c_out, oh, ow, in_row, in_plane, in_channel, in_group, kh, kw, stride_h,
                stride_w, pad_h, pad_w, g,
            );
            put(dx.add(index as usize), sum, accumulate);
        }
    });
}

/// The gradient with respect to w (wgrad), stored or added; all zeros for an empty batch.
///
/// # Safety
/// `dy` is valid for reads of `b·c_out·oh·ow` elements, `x` of `b·c_in·h·wd`, `dw` for reads and writes of
/// `c_out·(c_in/g)·kh·kw`; dw overlaps neither. The extents agree, `in_group` divides by `c_in / g`,
/// `out_group` by `c_out / g` and `taps` by `kh · kw`.
#[inline(always)]
pub unsafe fn conv2d_backward_dw<E: Num>(
    dy: *mut E,
    x: *mut E,
    dw: *mut E,
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    wd: i32,
    oh: i32,
    ow: i32,
    in_group: FastDivmod64,
    out_group: FastDivmod,
    taps: FastDivmod64,
    accumulate: u32,
    kh: i32,
    kw: FastDivmod,
    stride_h: i32,
    stride_w: i32,
    pad_h: i32,
    pad_w: i32,
    g: i32,
    block_ow: i32,
) {
    // The taps' and groups' divisors carry these two; they are constants of the kernel all the same.
    let _ = (kh, g);
    let dw_len = c_out as u64 * in_group.divisor() * taps.divisor();
    for_each_index(dw_len, block_ow, |index| {
        // SAFETY: `index < c_out·(c_in/g)·kh·kw`, and no other thread has this index.
        unsafe {
            let sum = dw_element(
                index, dy, x, b, c_in, c_out, h, wd, oh, ow, in_group, out_group, taps, kw, stride_h,
                stride_w, pad_h, pad_w,
            );
            put(dw.add(index as usize), sum, accumulate);
        }
    });
}

entry! { arithmetic conv2d_forward {
    args(x: *mut E, w: *mut E, y: *mut E, b: i32, c_in: i32, c_out: i32, h: i32, wd: i32, oh: i32, ow: i32)
    hidden(row: FastDivmod64, plane: FastDivmod64, channel: FastDivmod64, group: FastDivmod)
    constants(
        kh: i32, kw: i32, stride_h: i32, stride_w: i32, pad_h: i32, pad_w: i32, g: FastDivmod, block_ow: i32
    )
} }

entry! { arithmetic conv2d_backward {
    args(
        dy: *mut E, x: *mut E, w: *mut E, dx: *mut E, dw: *mut E,
        b: i32, c_in: i32, c_out: i32, h: i32, wd: i32, oh: i32, ow: i32
    )
    hidden(
        in_row: FastDivmod64, in_plane: FastDivmod64, in_channel: FastDivmod64, in_group: FastDivmod64,
        out_group: FastDivmod, taps: FastDivmod64, accumulate: u32
    )
    constants(
        kh: i32, kw: FastDivmod, stride_h: FastDivmod, stride_w: FastDivmod, pad_h: i32, pad_w: i32,
        g: FastDivmod, block_ow: i32
    )
} }

entry! { arithmetic conv2d_backward_dx {
    args(
        dy: *mut E, w: *mut E, dx: *mut E,
        b: i32, c_in: i32, c_out: i32, h: i32, wd: i32, oh: i32, ow: i32
    )
    hidden(
        in_row: FastDivmod64, in_plane: FastDivmod64, in_channel: FastDivmod64, in_group: FastDivmod64,
        accumulate: u32
    )
    constants(
        kh: i32, kw: i32, stride_h: FastDivmod, stride_w: FastDivmod, pad_h: i32, pad_w: i32,
        g: FastDivmod, block_ow: i32
    )
} }

entry! { arithmetic conv2d_backward_dw {
    args(
        dy: *mut E, x: *mut E, dw: *mut E,
        b: i32, c_in: i32, c_out: i32, h: i32, wd: i32, oh: i32, ow: i32
    )
    hidden(in_group: FastDivmod64, out_group: FastDivmod, taps: FastDivmod64, accumulate: u32)
    constants(
        kh: i32, kw: FastDivmod, stride_h: i32, stride_w: i32, pad_h: i32, pad_w: i32, g: i32, block_ow: i32
    )
} }
