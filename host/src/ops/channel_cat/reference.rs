//! The formula in literal loops.

use rayon::prelude::*;

use super::{ChannelCatBackward, ChannelCatForward};
use crate::element::{Element, Num};
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{copy_or_add, input, output};

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
    let first = chunk_offset as usize;
    let rows = y.par_chunks_exact_mut(c_total as usize).zip(x.par_chunks_exact(chunk_c as usize));
    rows.for_each(|(joined, chunk)| {
        for (to, &value) in joined[first..].iter_mut().zip(chunk) {
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
    let first = chunk_offset as usize;
    let rows = dx.par_chunks_exact_mut(chunk_c as usize).zip(dy.par_chunks_exact(c_total as usize));
    rows.for_each(|(chunk, joined)| {
        for (to, &value) in chunk.iter_mut().zip(&joined[first..]) {
            // SAFETY: a caller who accumulates gave an initialised dx.
            unsafe { copy_or_add(to, value, options.accumulate) };
        }
    });
}
