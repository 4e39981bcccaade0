//! The formula in literal loops, with the standard library's exp and ln in f64.

use super::{SoftmaxCrossEntropyBackward, SoftmaxCrossEntropyForward};
use crate::element::Float;
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{for_each_plane, input, output, store};

/// A row's maximum and the sum of its exponentials relative to that; NaN if one of the logits is.
fn sum_exp<D: Float>(row: &[D]) -> (f64, f64) {
    let larger = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
    let top = row.iter().fold(f64::NEG_INFINITY, |top, x| larger(top, x.widen()));
    (top, row.iter().map(|x| (x.widen() - top).exp()).sum())
}

/// The column that a label names, if there is one.
fn column(label: i32, columns: usize) -> Option<usize> {
    usize::try_from(label).ok().filter(|&column| column < columns)
}

/// `loss[r] = scale · (ln Σ exp(x[r, k]) − x[r, label])`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn forward<D: Float>(
    _: &SoftmaxCrossEntropyForward<D>,
    args: &<SoftmaxCrossEntropyForward<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
) {
    let (logits, labels, loss, b, k, scale) = *args;
    let (rows, columns) = (i64::from(b), k as usize);
    // SAFETY: by this function's contract.
    let (logits, labels, loss) =
        unsafe { (input(logits, rows * i64::from(k)), input(labels, rows), output(loss, rows)) };
    for_each_plane(loss, 1, &|r, to| {
        let row = &logits[r * columns..][..columns];
        let (top, sum) = sum_exp(row);
        let value = column(labels[r], columns)
            .map_or(f64::NAN, |label| scale * (sum.ln() + (top - row[label].widen())));
        to[0].write(D::narrow(value));
    });
}

/// `dx[r, k] = scale · (exp(x[r, k]) / Σ exp(x[r, j]) − [k = label])`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward<D: Float>(
    _: &SoftmaxCrossEntropyBackward<D>,
    args: &<SoftmaxCrossEntropyBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (logits, labels, dlogits, b, k, scale) = *args;
    let (rows, total, columns) = (i64::from(b), i64::from(b) * i64::from(k), k as usize);
    // SAFETY: by this function's contract.
    let (logits, labels, dlogits) =
        unsafe { (input(logits, total), input(labels, rows), output(dlogits, total)) };
    for_each_plane(dlogits, columns, &|r, gradient| {
        let row = &logits[r * columns..][..columns];
        let (top, sum) = sum_exp(row);
        let label = column(labels[r], columns);
        let scale = if label.is_some() { scale } else { f64::NAN };
        for (column, (to, x)) in gradient.iter_mut().zip(row).enumerate() {
            let expected = f64::from(label == Some(column));
            let share = (x.widen() - top).exp() / sum;
            // SAFETY: a caller who accumulates gave an initialised gradient.
            unsafe { store(to, scale * (share - expected), options.accumulate) };
        }
    });
}
