//! The formula in literal loops.

use super::{UpsampleNearest2dBackward, UpsampleNearest2dForward};
use crate::element::{Element, Num};
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{for_each_plane, input, output, store};

/// `y[b, c, oh, ow] = x[b, c, oh / scale_h, ow / scale_w]`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn forward<D: Element>(
    kernel: &UpsampleNearest2dForward<D>,
    args: &<UpsampleNearest2dForward<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
) {
    let (x, y, b, c, h, w, oh, ow) = *args;
    let planes = i64::from(b) * i64::from(c);
    let (small, large) = (i64::from(h) * i64::from(w), i64::from(oh) * i64::from(ow));
    // SAFETY: by this function's contract.
    let (x, y) = unsafe { (input(x, planes * small), output(y, planes * large)) };
    let (w, ow) = (w as usize, ow as usize);
    let (scale_h, scale_w) = (kernel.scale_h as usize, kernel.scale_w as usize);
    let small = small as usize;
    for_each_plane(y, large as usize, &|plane, y| {
        let x = &x[plane * small..][..small];
        for (line, row) in y.chunks_exact_mut(ow).enumerate() {
            let x = &x[line / scale_h * w..][..w];
            for (window, &value) in row.chunks_exact_mut(scale_w).zip(x) {
                for to in window {
                    to.write(value);
                }
            }
        }
    });
}

/// `dx[b, c, ih, iw] = Σ dy[b, c, ih·scale_h + i, iw·scale_w + j]`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward<D: Num>(
    kernel: &UpsampleNearest2dBackward<D>,
    args: &<UpsampleNearest2dBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, dx, b, c, h, w, oh, ow) = *args;
    let planes = i64::from(b) * i64::from(c);
    let (small, large) = (i64::from(h) * i64::from(w), i64::from(oh) * i64::from(ow));
    // SAFETY: by this function's contract.
    let (dy, dx) = unsafe { (input(dy, planes * large), output(dx, planes * small)) };
    let (w, ow) = (w as usize, ow as usize);
    let (scale_h, scale_w) = (kernel.scale_h as usize, kernel.scale_w as usize);
    let large = large as usize;
    for_each_plane(dx, small as usize, &|plane, dx| {
        let dy = &dy[plane * large..][..large];
        let mut sums = vec![D::Sum::default(); w];
        for (ih, row) in dx.chunks_exact_mut(w).enumerate() {
            sums.fill(D::Sum::default());
            for line in dy[ih * scale_h * ow..].chunks_exact(ow).take(scale_h) {
                for (sum, window) in sums.iter_mut().zip(line.chunks_exact(scale_w)) {
                    for &value in window {
                        *sum = D::add(*sum, value.widen());
                    }
                }
            }
            for (to, &sum) in row.iter_mut().zip(&sums) {
                // SAFETY: a caller who accumulates gave an initialised dx.
                unsafe { store(to, sum, options.accumulate) };
            }
        }
    });
}
