//! The formula in literal loops.

use std::mem::MaybeUninit;

use super::{FlattenBackward, FlattenForward, span};
use crate::element::{Element, Num};
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{copy_or_add, for_each, for_each_plane, input, output};

/// `y[b, n] = x[b·stride_ib + n·stride_in]`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn forward<D: Element>(
    _: &FlattenForward<D>,
    args: &<FlattenForward<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
) {
    let (x, y, b, n, stride_ib, stride_in) = *args;
    // SAFETY: by this function's contract.
    let (x, y) =
        unsafe { (input(x, span(b, n, stride_ib, stride_in)), output(y, i64::from(b) * i64::from(n))) };
    for_each_plane(y, n as usize, &|i, row| {
        for (j, to) in row.iter_mut().enumerate() {
            to.write(x[i * stride_ib as usize + j * stride_in as usize]);
        }
    });
}

/// The strided gradient, shared by the rows' tasks.
struct Strided<D>(*mut MaybeUninit<D>);

// SAFETY: the checks refuse strides that send two (b, n) to one element, so no two tasks share one.
unsafe impl<D: Send> Sync for Strided<D> {}

impl<D> Strided<D> {
    /// # Safety
    /// `offset` is inside dx, and no other reference to that element lives.
    #[allow(clippy::mut_from_ref)]
    unsafe fn at(&self, offset: usize) -> &mut MaybeUninit<D> {
        // SAFETY: by this function's contract.
        unsafe { &mut *self.0.add(offset) }
    }
}

/// `dx[b·stride_dxb + n·stride_dxn] = dy[b, n]`.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn backward<D: Num>(
    _: &FlattenBackward<D>,
    args: &<FlattenBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
) {
    let (dy, dx, b, n, stride_dxb, stride_dxn) = *args;
    // SAFETY: by this function's contract.
    let dy = unsafe { input(dy, i64::from(b) * i64::from(n)) };
    let dx = Strided(dx.cast::<MaybeUninit<D>>());
    let n = n as usize;
    for_each(b as usize, &|i| {
        for (j, &value) in dy[i * n..][..n].iter().enumerate() {
            let offset = i * stride_dxb as usize + j * stride_dxn as usize;
            // SAFETY: `i < b` and `j < n` keep the offset inside dx, and the checks made the offsets all
            // different. A caller who accumulates gave an initialised dx.
            unsafe { copy_or_add(dx.at(offset), value, options.accumulate) };
        }
    });
}
