//! Rectifier: `y = max(x, 0)`, and its gradient `dx = dy` where `y > 0`, else zero.
//!
//! The tensors are rows of columns, `[B, N]`, end to end. Mapping: one thread a 16-byte vector, several in flight,
//! as [`crate::map`] says.

use crate::map::zip;
use crate::math::{Float, Real};
use crate::num::put;
use crate::sweep::for_each_index;

/// Replaces what is below zero by zero; NaN stays.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn relu_forward<E: Float>(x: *mut E, y: *mut E, b: i32, n: i32, block_size: i32) {
    let rectify = |_, x: E, _| if x.widen().is_below_zero() { E::narrow(E::Acc::ZERO) } else { x };
    // SAFETY: by this function's contract.
    unsafe { zip(x, x, y, b as u64 * n as u64, block_size, rectify) };
}

/// Passes the gradient on where `y`, or the forward's `x`, is above zero or NaN; elsewhere it is zero.
///
/// # Safety
/// `dy` and `y` are valid for reads and `dx` for reads and writes of `b · n` elements; `dx` overlaps neither.
#[inline(always)]
pub unsafe fn relu_backward<E: Float>(
    dy: *mut E,
    y: *mut E,
    dx: *mut E,
    b: i32,
    n: i32,
    accumulate: u32,
    block_size: i32,
) {
    let total = b as u64 * n as u64;
    let gradient = |_, dy: E, y: E| if y.widen() <= E::Acc::ZERO { E::narrow(E::Acc::ZERO) } else { dy };
    // SAFETY: by this function's contract.
    unsafe {
        if accumulate == 0 {
            zip(dy, y, dx, total, block_size, gradient);
        } else {
            for_each_index(total, block_size, |i| {
                let i = i as usize;
                put(dx.add(i), gradient(0, *dy.add(i), *y.add(i)).widen(), accumulate);
            });
        }
    }
}

entry! { float relu_forward {
    args(x: *mut E, y: *mut E, b: i32, n: i32)
    hidden()
    constants(block_size: i32)
} }

entry! { float relu_backward {
    args(dy: *mut E, y: *mut E, dx: *mut E, b: i32, n: i32)
    hidden(accumulate: u32)
    constants(block_size: i32)
} }
