//! The formulae in literal loops: rayon over planes of the result, the innermost loop along rows.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward};
use crate::element::Num;
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{for_each_plane, input, output, store};

/// A convolution's numbers, as sizes.
pub(super) struct Conv {
    pub(super) kh: usize,
    pub(super) kw: usize,
    pub(super) stride_h: usize,
    pub(super) stride_w: usize,
    pub(super) pad_h: usize,
    pub(super) pad_w: usize,
    pub(super) b: usize,
    pub(super) c_in: usize,
    pub(super) c_out: usize,
    pub(super) cig: usize,
    pub(super) cog: usize,
    pub(super) h: usize,
    pub(super) w: usize,
    pub(super) oh: usize,
    pub(super) ow: usize,
}

macro_rules! conv {
    ($kernel:ident, $b:ident, $c_in:ident, $c_out:ident, $h:ident, $wd:ident, $oh:ident, $ow:ident) => {
        Conv {
            kh: $kernel.kh as usize,
            kw: $kernel.kw as usize,
            stride_h: $kernel.stride_h as usize,
            stride_w: $kernel.stride_w as usize,
            pad_h: $kernel.pad_h as usize,
            pad_w: $kernel.pad_w as usize,
            b: $b as usize,
            c_in: $c_in as usize,
            c_out: $c_out as usize,
            cig: ($c_in / $kernel.g) as usize,
            cog: ($c_out / $kernel.g) as usize,
            h: $h as usize,
            w: $wd as usize,
            oh: $oh as usize,
            ow: $ow as usize,
        }
    };
}

/// The output positions o whose input position `o·stride + tap − pad` lies inside `0..extent`.
fn inside(outputs: usize, stride: usize, tap: usize, pad: usize, extent: usize) -> Range<usize> {
    let first = pad.saturating_sub(tap).div_ceil(stride);
    // The last input position is extent − 1, so o·stride < extent + pad − tap.
    let end = (extent + pad).saturating_sub(tap).div_ceil(stride).min(outputs);
    first.min(end)..end
}

// The three innermost loops. Neighbouring elements get a loop of their own, which the compiler turns into vectors;
// `step_by(1)` it leaves as it is.

/// `sums[o] += x[o·stride] · w`.
fn gather<D: Num>(sums: &mut [D::Sum], x: &[D], stride: usize, w: D) {
    let add = |sum: &mut D::Sum, value: D| *sum = D::mul_add(value, w, *sum);
    if stride == 1 {
        sums.iter_mut().zip(x).for_each(|(sum, &value)| add(sum, value));
    } else {
        sums.iter_mut().zip(x.iter().step_by(stride)).for_each(|(sum, &value)| add(sum, value));
    }
}

/// `sums[o·stride] += dy[o] · w`.
fn scatter<D: Num>(sums: &mut [D::Sum], dy: &[D], stride: usize, w: D) {
    let add = |sum: &mut D::Sum, value: D| *sum = D::mul_add(value, w, *sum);
    if stride == 1 {
        sums.iter_mut().zip(dy).for_each(|(sum, &value)| add(sum, value));
    } else {
        sums.iter_mut().step_by(stride).zip(dy).for_each(|(sum, &value)| add(sum, value));
    }
}

/// `sums[o] += dy[o] · x[o·stride]`.
fn products<D: Num>(sums: &mut [D::Sum], dy: &[D], x: &[D], stride: usize) {
    let add = |sum: &mut D::Sum, gradient: D, value: D| *sum = D::mul_add(gradient, value, *sum);
    let sums = sums.iter_mut().zip(dy);
    if stride == 1 {
        sums.zip(x).for_each(|((sum, &gradient), &value)| add(sum, gradient, value));
    } else {
        sums.zip(x.iter().step_by(stride)).for_each(|((sum, &gradient), &value)| add(sum, gradient, value));
    }
}

impl Conv {
    pub(super) fn rows(&self, i: usize) -> Range<usize> {
        inside(self.oh, self.stride_h, i, self.pad_h, self.h)
    }

    pub(super) fn columns(&self, j: usize) -> Range<usize> {
        inside(self.ow, self.stride_w, j, self.pad_w, self.w)
    }

    /// Where in a plane of x the row `line` of the output meets tap (i, j), first at `columns.start`.
    fn start(&self, line: usize, i: usize, j: usize, columns: &Range<usize>) -> usize {
        (line * self.stride_h + i - self.pad_h) * self.w + columns.start * self.stride_w + j - self.pad_w
    }

    fn x_len(&self) -> i64 {
        (self.b * self.c_in * self.h * self.w) as i64
    }

    fn y_len(&self) -> i64 {
        (self.b * self.c_out * self.oh * self.ow) as i64
    }

    fn w_len(&self) -> i64 {
        (self.c_out * self.cig * self.kh * self.kw) as i64
    }

    fn forward<D: Num>(&self, x: &[D], w: &[D], y: &mut [MaybeUninit<D>]) {
        if self.runs_along(self.cog) {
            return self.forward_along_channels(x, w, y);
        }
        let (image, filter) = (self.h * self.w, self.kh * self.kw);
        for_each_plane(y, self.oh * self.ow, &|bc, y| {
            let (batch, co) = (bc / self.c_out, bc % self.c_out);
            let mut sums = vec![D::Sum::default(); y.len()];
            for n in 0..self.cig {
                let ci = co / self.cog * self.cig + n;
                let x = &x[(batch * self.c_in + ci) * image..][..image];
                let w = &w[(co * self.cig + n) * filter..][..filter];
                for i in 0..self.kh {
                    for j in 0..self.kw {
                        let columns = self.columns(j);
                        for line in self.rows(i) {
                            if columns.is_empty() {
                                continue;
                            }
                            let x = &x[self.start(line, i, j, &columns)..];
                            let sums = &mut sums[line * self.ow..][columns.clone()];
                            gather(sums, x, self.stride_w, w[i * self.kw + j]);
                        }
                    }
                }
            }
            for (to, sum) in y.iter_mut().zip(sums) {
                to.write(D::narrow(sum));
            }
        });
    }

    /// # Safety
    /// To accumulate, `dx` is initialised.
    unsafe fn dx<D: Num>(&self, dy: &[D], w: &[D], dx: &mut [MaybeUninit<D>], accumulate: bool) {
        if self.runs_along(self.cig) {
            // SAFETY: by this function's contract.
            return unsafe { self.dx_along_channels(dy, w, dx, accumulate) };
        }
        let (result, filter) = (self.oh * self.ow, self.kh * self.kw);
        for_each_plane(dx, (self.h * self.w).max(1), &|bc, dx| {
            let (batch, ci) = (bc / self.c_in, bc % self.c_in);
            let mut sums = vec![D::Sum::default(); dx.len()];
            for n in 0..self.cog {
                let co = ci / self.cig * self.cog + n;
                let dy = &dy[(batch * self.c_out + co) * result..][..result];
                let w = &w[(co * self.cig + ci % self.cig) * filter..][..filter];
                for i in 0..self.kh {
                    for j in 0..self.kw {
                        let columns = self.columns(j);
                        for line in self.rows(i) {
                            if columns.is_empty() {
                                continue;
                            }
                            let sums = &mut sums[self.start(line, i, j, &columns)..];
                            let dy = &dy[line * self.ow..][columns.clone()];
                            scatter(sums, dy, self.stride_w, w[i * self.kw + j]);
                        }
                    }
                }
            }
            for (to, sum) in dx.iter_mut().zip(sums) {
                // SAFETY: by this function's contract.
                unsafe { store(to, sum, accumulate) };
            }
        });
    }

    /// # Safety
    /// To accumulate, `dw` is initialised.
    unsafe fn dw<D: Num>(&self, dy: &[D], x: &[D], dw: &mut [MaybeUninit<D>], accumulate: bool) {
        if self.runs_along(self.cog) {
            // SAFETY: by this function's contract.
            return unsafe { self.dw_along_channels(dy, x, dw, accumulate) };
        }
        let (result, image) = (self.oh * self.ow, self.h * self.w);
        for_each_plane(dw, self.kh * self.kw, &|filter, dw| {
            let (co, n) = (filter / self.cig, filter % self.cig);
            let ci = co / self.cog * self.cig + n;
            // A sum for each output column, so that neighbours in the loop do not wait for each other.
            let mut sums = vec![D::Sum::default(); self.ow];
            for (tap, to) in dw.iter_mut().enumerate() {
                let (i, j) = (tap / self.kw, tap % self.kw);
                let columns = self.columns(j);
                sums.fill(D::Sum::default());
                for batch in 0..self.b {
                    let dy = &dy[(batch * self.c_out + co) * result..][..result];
                    let x = &x[(batch * self.c_in + ci) * image..][..image];
                    for line in self.rows(i) {
                        if columns.is_empty() {
                            continue;
                        }
                        let x = &x[self.start(line, i, j, &columns)..];
                        let dy = &dy[line * self.ow..][columns.clone()];
                        products(&mut sums[columns.clone()], dy, x, self.stride_w);
                    }
                }
                let sum = sums.iter().fold(D::Sum::default(), |total, &sum| D::add(total, sum));
                // SAFETY: by this function's contract.
                unsafe { store(to, sum, accumulate) };
            }
        });
    }
}

/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn forward<D: Num>(
    kernel: &Conv2dForward<D>,
    args: &<Conv2dForward<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
) {
    let (x, w, y, b, c_in, c_out, h, wd, oh, ow) = *args;
    let conv = conv!(kernel, b, c_in, c_out, h, wd, oh, ow);
    // SAFETY: by this function's contract.
    unsafe { conv.forward(input(x, conv.x_len()), input(w, conv.w_len()), output(y, conv.y_len())) };
}

/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward<D: Num>(
    kernel: &Conv2dBackward<D>,
    args: &<Conv2dBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, x, w, dx, dw, b, c_in, c_out, h, wd, oh, ow) = *args;
    let conv = conv!(kernel, b, c_in, c_out, h, wd, oh, ow);
    // SAFETY: by this function's contract.
    unsafe {
        let (dy, x, w) = (input(dy, conv.y_len()), input(x, conv.x_len()), input(w, conv.w_len()));
        conv.dx(dy, w, output(dx, conv.x_len()), options.accumulate);
        conv.dw(dy, x, output(dw, conv.w_len()), options.accumulate);
    }
}

/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward_dx<D: Num>(
    kernel: &Conv2dBackwardDx<D>,
    args: &<Conv2dBackwardDx<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, w, dx, b, c_in, c_out, h, wd, oh, ow) = *args;
    let conv = conv!(kernel, b, c_in, c_out, h, wd, oh, ow);
    // SAFETY: by this function's contract.
    unsafe {
        let (dy, w) = (input(dy, conv.y_len()), input(w, conv.w_len()));
        conv.dx(dy, w, output(dx, conv.x_len()), options.accumulate);
    }
}

/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward_dw<D: Num>(
    kernel: &Conv2dBackwardDw<D>,
    args: &<Conv2dBackwardDw<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, x, dw, b, c_in, c_out, h, wd, oh, ow) = *args;
    let conv = conv!(kernel, b, c_in, c_out, h, wd, oh, ow);
    // SAFETY: by this function's contract.
    unsafe {
        let (dy, x) = (input(dy, conv.y_len()), input(x, conv.x_len()));
        conv.dw(dy, x, output(dw, conv.w_len()), options.accumulate);
    }
}
