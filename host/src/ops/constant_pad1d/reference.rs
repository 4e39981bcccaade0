//! The formula in literal loops.

use super::{ConstantPad1dBackward, ConstantPad1dForward};
use crate::element::{Element, Num};
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{copy_or_add, for_each_plane, input, output};

/// `y[r, o] = x[r, o − pad_left]`, or `value` outside.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn forward<D: Element>(
    kernel: &ConstantPad1dForward<D>,
    args: &<ConstantPad1dForward<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
) {
    let (x, y, b, c, l, ol, value) = *args;
    let rows = i64::from(b) * i64::from(c);
    // SAFETY: by this function's contract.
    let (x, y) = unsafe { (input(x, rows * i64::from(l)), output(y, rows * i64::from(ol))) };
    let (l, left) = (l as usize, i64::from(kernel.pad_left));
    for_each_plane(y, ol as usize, &|row, y| {
        let x = &x[row * l..(row + 1) * l];
        for (o, to) in (0_i64..).zip(y) {
            let inside = usize::try_from(o - left).ok().and_then(|i| x.get(i));
            to.write(*inside.unwrap_or(&value));
        }
    });
}

/// `dx[r, i] = dy[r, i + pad_left]`, or zero outside.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward<D: Num>(
    kernel: &ConstantPad1dBackward<D>,
    args: &<ConstantPad1dBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, dx, b, c, l, ol) = *args;
    let rows = i64::from(b) * i64::from(c);
    // SAFETY: by this function's contract.
    let (dy, dx) = unsafe { (input(dy, rows * i64::from(ol)), output(dx, rows * i64::from(l))) };
    let (ol, left) = (ol as usize, i64::from(kernel.pad_left));
    for_each_plane(dx, l as usize, &|row, dx| {
        let dy = &dy[row * ol..(row + 1) * ol];
        for (i, to) in (0_i64..).zip(dx) {
            match usize::try_from(i + left).ok().and_then(|o| dy.get(o)) {
                // SAFETY: a caller who accumulates gave an initialised dx.
                Some(&value) => unsafe { copy_or_add(to, value, options.accumulate) },
                None if options.accumulate => {}
                None => {
                    to.write(D::default());
                }
            }
        }
    });
}
