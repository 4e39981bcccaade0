//! The formula in literal loops.

use super::{ChannelCatBackward, ChannelCatForward};
use crate::element::{Element, Num};
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{copy_or_add, for_each_plane, input, output};

/// `y[r, chunk_offset + c] = x[r, c]`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn forward<D: Element>(
    _: &ChannelCatForward<D>,
    args: &<ChannelCatForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (x, y, chunk_c, c_total, chunk_offset) = *args;
    let rows = options.rows.unwrap_or(0);
    // SAFETY: by this function's contract.
    let (x, y) = unsafe { (input(x, rows * i64::from(chunk_c)), output(y, rows * i64::from(c_total))) };
    let (chunk_c, first) = (chunk_c as usize, chunk_offset as usize);
    for_each_plane(y, c_total as usize, &|row, joined| {
        for (to, &value) in joined[first..].iter_mut().zip(&x[row * chunk_c..][..chunk_c]) {
            to.write(value);
        }
    });
}

/// `dx[r, c] = dy[r, chunk_offset + c]`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward<D: Num>(
    _: &ChannelCatBackward<D>,
    args: &<ChannelCatBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, dx, chunk_c, c_total, chunk_offset) = *args;
    let rows = options.rows.unwrap_or(0);
    // SAFETY: by this function's contract.
    let (dy, dx) = unsafe { (input(dy, rows * i64::from(c_total)), output(dx, rows * i64::from(chunk_c))) };
    let (c_total, first) = (c_total as usize, chunk_offset as usize);
    for_each_plane(dx, chunk_c as usize, &|row, chunk| {
        for (to, &value) in chunk.iter_mut().zip(&dy[row * c_total + first..]) {
            // SAFETY: a caller who accumulates gave an initialised dx.
            unsafe { copy_or_add(to, value, options.accumulate) };
        }
    });
}
