//! The formulae again, for images whose rows are too short to be worth a loop: the innermost loop runs along channels,
//! over copies in which channels lie side by side. Each element is summed in one order, whatever the threads do.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::reference::Conv;
use crate::element::Num;
use crate::ops::memory::{for_each_plane, store};

/// Rows of so many elements and more get a loop of their own.
const LONG_ROW: usize = 16;

/// Channels that make an innermost loop worth while.
const CHANNELS: usize = 8;

impl Conv {
    /// Whether loops along `channels` beat loops along rows.
    pub(super) fn runs_along(&self, channels: usize) -> bool {
        self.w.min(self.ow) < LONG_ROW && channels >= CHANNELS
    }

    /// Calls `visit` for each place of the output that meets tap (i, j), with its number and that of the pixel there.
    fn places(&self, i: usize, j: usize, mut visit: impl FnMut(usize, usize)) {
        let columns = self.columns(j);
        for line in self.rows(i) {
            let row = (line * self.stride_h + i - self.pad_h) * self.w;
            for column in columns.clone() {
                visit(line * self.ow + column, row + column * self.stride_w + j - self.pad_w);
            }
        }
    }

    /// The result, batch by batch: every pixel's value meets the filters of all output channels of its group.
    pub(super) fn forward_along_channels<D: Num>(&self, x: &[D], w: &[D], y: &mut [MaybeUninit<D>]) {
        let (image, result, taps) = (self.h * self.w, self.oh * self.ow, self.kh * self.kw);
        // [group][input channel of it][tap][output channel of it]
        let filters = transposed(w, self.cog, self.cig * taps);
        for_each_plane(y, self.c_out * result, &|batch, y| {
            let mut sums = vec![D::Sum::default(); y.len()];
            for ci in 0..self.c_in {
                let x = &x[(batch * self.c_in + ci) * image..][..image];
                let first = ci / self.cig * self.cog;
                for tap in 0..taps {
                    let filter = &filters[(ci * taps + tap) * self.cog..][..self.cog];
                    self.places(tap / self.kw, tap % self.kw, |place, pixel| {
                        add(&mut sums[place * self.c_out + first..][..self.cog], x[pixel], filter);
                    });
                }
            }
            for (at, to) in y.iter_mut().enumerate() {
                to.write(D::narrow(sums[at % result * self.c_out + at / result]));
            }
        });
    }

    /// The gradient of the image, batch by batch: every dy meets the filters of all input channels of its group.
    ///
    /// # Safety
    /// To accumulate, `dx` is initialised.
    pub(super) unsafe fn dx_along_channels<D: Num>(
        &self,
        dy: &[D],
        w: &[D],
        dx: &mut [MaybeUninit<D>],
        accumulate: bool,
    ) {
        let (image, result, taps) = (self.h * self.w, self.oh * self.ow, self.kh * self.kw);
        // [output channel][tap][input channel of its group]
        let filters = transposed(w, self.cig, taps);
        for_each_plane(dx, (self.c_in * image).max(1), &|batch, dx| {
            let mut sums = vec![D::Sum::default(); dx.len()];
            for co in 0..self.c_out {
                let dy = &dy[(batch * self.c_out + co) * result..][..result];
                let first = co / self.cog * self.cig;
                for tap in 0..taps {
                    let filter = &filters[(co * taps + tap) * self.cig..][..self.cig];
                    self.places(tap / self.kw, tap % self.kw, |place, pixel| {
                        add(&mut sums[pixel * self.c_in + first..][..self.cig], dy[place], filter);
                    });
                }
            }
            for (at, to) in dx.iter_mut().enumerate() {
                // SAFETY: by this function's contract.
                unsafe { store(to, sums[at % image * self.c_in + at / image], accumulate) };
            }
        });
    }

    /// The gradient of the filters, input channel by input channel: every pixel's value meets dy of all output
    /// channels of its group.
    ///
    /// # Safety
    /// To accumulate, `dw` is initialised.
    pub(super) unsafe fn dw_along_channels<D: Num>(
        &self,
        dy: &[D],
        x: &[D],
        dw: &mut [MaybeUninit<D>],
        accumulate: bool,
    ) {
        let (image, result, taps) = (self.h * self.w, self.oh * self.ow, self.kh * self.kw);
        // [batch][place][output channel]
        let gradients = transposed(dy, self.c_out, result);
        let channel = |ci: usize| {
            let first = ci / self.cig * self.cog;
            let mut sums = vec![D::Sum::default(); taps * self.cog];
            for batch in 0..self.b {
                let x = &x[(batch * self.c_in + ci) * image..][..image];
                for (tap, sums) in sums.chunks_exact_mut(self.cog).enumerate() {
                    self.places(tap / self.kw, tap % self.kw, |place, pixel| {
                        let dy = &gradients[(batch * result + place) * self.c_out + first..][..self.cog];
                        add(sums, x[pixel], dy);
                    });
                }
            }
            sums
        };
        let sums: Vec<_> = (0..self.c_in).into_par_iter().map(channel).collect();
        for (at, to) in dw.iter_mut().enumerate() {
            let (filter, tap) = (at / taps, at % taps);
            let (co, n) = (filter / self.cig, filter % self.cig);
            let ci = co / self.cog * self.cig + n;
            // SAFETY: by this function's contract.
            unsafe { store(to, sums[ci][tap * self.cog + co % self.cog], accumulate) };
        }
    }
}

/// `sums[c] += value · factors[c]`.
fn add<D: Num>(sums: &mut [D::Sum], value: D, factors: &[D]) {
    for (sum, &factor) in sums.iter_mut().zip(factors) {
        *sum = D::mul_add(value, factor, *sum);
    }
}

/// Matrices of `rows × columns` elements, end to end, each with its columns as rows.
fn transposed<D: Num>(matrices: &[D], rows: usize, columns: usize) -> Vec<D> {
    let mut all = Vec::with_capacity(matrices.len());
    if rows * columns > 0 {
        for matrix in matrices.chunks_exact(rows * columns) {
            for column in 0..columns {
                all.extend((0..rows).map(|row| matrix[row * columns + column]));
            }
        }
    }
    all
}
