//! The formula in literal loops.

use super::{ReluBackward, ReluForward};
use crate::element::Float;
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{copy_or_add, for_each_stretch, input, output};

/// `y[i] = max(x[i], 0)`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn forward<D: Float>(
    _: &ReluForward<D>,
    args: &<ReluForward<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
) {
    let (x, y, b, n) = *args;
    let total = i64::from(b) * i64::from(n);
    // SAFETY: by this function's contract.
    let (x, y) = unsafe { (input(x, total), output(y, total)) };
    for_each_stretch(y, &|first, y| {
        for (to, &value) in y.iter_mut().zip(&x[first..]) {
            to.write(if value.widen() <= 0.0 { D::narrow(0.0) } else { value });
        }
    });
}

/// `dx[i] = dy[i]` where `y[i]` is above zero or NaN, else zero.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward<D: Float>(
    _: &ReluBackward<D>,
    args: &<ReluBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, y, dx, b, n) = *args;
    let total = i64::from(b) * i64::from(n);
    // SAFETY: by this function's contract.
    let (dy, y, dx) = unsafe { (input(dy, total), input(y, total), output(dx, total)) };
    for_each_stretch(dx, &|first, dx| {
        for ((to, &gradient), &value) in dx.iter_mut().zip(&dy[first..]).zip(&y[first..]) {
            let gradient = if value.widen() <= 0.0 { D::narrow(0.0) } else { gradient };
            // SAFETY: a caller who accumulates gave an initialised dx.
            unsafe { copy_or_add(to, gradient, options.accumulate) };
        }
    });
}
