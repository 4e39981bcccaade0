//! The formula in literal loops.

use super::{BiasAddBackward, BiasAddForward};
use crate::element::Num;
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{for_each_plane, input, output, store};

/// `y[b, c, h, w] = x[b, c, h, w] + bias[c]`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn forward<D: Num>(
    _: &BiasAddForward<D>,
    args: &<BiasAddForward<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
) {
    let (x, bias, y, b, c, h, w) = *args;
    let image = i64::from(h) * i64::from(w);
    let total = i64::from(b) * i64::from(c) * image;
    // SAFETY: by this function's contract.
    let (x, bias, y) = unsafe { (input(x, total), input(bias, c.into()), output(y, total)) };
    let (image, channels) = (image as usize, c as usize);
    // A batch is a plane here: images alone are too small to be worth a task.
    for_each_plane(y, channels * image, &|batch, y| {
        let x = &x[batch * channels * image..];
        for ((y, x), bias) in y.chunks_exact_mut(image).zip(x.chunks_exact(image)).zip(bias) {
            for (to, value) in y.iter_mut().zip(x) {
                to.write(D::narrow(D::add(value.widen(), bias.widen())));
            }
        }
    });
}

/// `dbias[c] = Σ dy[b, c, h, w]`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward<D: Num>(
    _: &BiasAddBackward<D>,
    args: &<BiasAddBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, dbias, b, c, h, w) = *args;
    let image = i64::from(h) * i64::from(w);
    // SAFETY: by this function's contract.
    let (dy, dbias) = unsafe { (input(dy, i64::from(b) * i64::from(c) * image), output(dbias, c.into())) };
    let (image, channels) = (image as usize, c as usize);
    for_each_plane(dbias, 1, &|channel, to| {
        let mut sum = D::Sum::default();
        for batch in 0..b as usize {
            for value in &dy[(batch * channels + channel) * image..][..image] {
                sum = D::add(sum, value.widen());
            }
        }
        // SAFETY: a caller who accumulates gave an initialised dbias.
        unsafe { store(&mut to[0], sum, options.accumulate) };
    });
}
