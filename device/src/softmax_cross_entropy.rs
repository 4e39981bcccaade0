//! Cross entropy of a softmax: `loss[r] = scale · (ln Σ exp(x[r, k]) − x[r, label[r]])`, and its gradient
//! `dx[r, k] = scale · (exp(x[r, k]) / Σ exp(x[r, j]) − [k = label[r]])`.
//!
//! Exponentials are of the distance to the row's maximum, so nothing overflows. A label that is no column makes
//! the row's loss and gradient NaN, and is never followed to memory.
//!
//! Mapping: a block takes a row at a time; its threads take neighbouring columns, and trees join the threads.

use crate::gpu::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
use crate::math::{Float, Real, max};
use crate::num::put;
use crate::reduce::across_block;

/// Calls `visit` with the first element of each of the block's rows, the row's number, its maximum, the sum of its
/// exponentials and its label.
///
/// # Safety
/// As for the kernels below.
#[inline(always)]
pub unsafe fn for_each_row<E: Float>(
    logits: *mut E,
    labels: *mut i32,
    b: i32,
    k: i32,
    mut visit: impl FnMut(*mut E, u64, E::Acc, E::Acc, i32),
) {
    let columns = k as u64;
    let step = u64::from(block_dim_x());
    let mut r = u64::from(block_idx_x());
    while r < b as u64 {
        let row = logits.wrapping_add((r * columns) as usize);
        // SAFETY: by this function's contract; the loops over rows run alike in all threads.
        unsafe {
            let mut top = E::Acc::NEG_INFINITY;
            let mut column = u64::from(thread_idx_x());
            while column < columns {
                top = max(top, (*row.add(column as usize)).widen());
                column += step;
            }
            let top = across_block(top, max);
            let mut sum = E::Acc::ZERO;
            let mut column = u64::from(thread_idx_x());
            while column < columns {
                sum = sum + ((*row.add(column as usize)).widen() - top).exp();
                column += step;
            }
            let sum = across_block(sum, |a, b| a + b);
            visit(row, r, top, sum, *labels.add(r as usize));
        }
        r += u64::from(grid_dim_x());
    }
}

/// The loss of each row.
///
/// # Safety
/// `logits` is valid for reads of `b · k` elements, `labels` for reads of `b` and `loss` for writes of `b`; `loss`
/// overlaps neither. The launch gave shared memory for a sum of each thread.
#[inline(always)]
pub unsafe fn softmax_cross_entropy_forward<E: Float>(
    logits: *mut E,
    labels: *mut i32,
    loss: *mut E,
    b: i32,
    k: i32,
    scale: f64,
    block_size: i32,
) {
    // The launch has as many threads a block as this says.
    let _ = block_size;
    // SAFETY: by this function's contract; a label is followed only where it names a column.
    unsafe {
        for_each_row(logits, labels, b, k, |row, r, top, sum, label| {
            if thread_idx_x() == 0 {
                let value = if (label as u32) < k as u32 {
                    (sum.ln() + (top - (*row.add(label as usize)).widen())) * E::Acc::from_f64(scale)
                } else {
                    E::Acc::NAN
                };
                *loss.add(r as usize) = E::narrow(value);
            }
        });
    }
}

/// The gradient of the losses' sum.
///
/// # Safety
/// `logits` is valid for reads of `b · k` elements, `labels` for reads of `b` and `dlogits` for reads and writes of
/// `b · k`; `dlogits` overlaps neither. The launch gave shared memory for a sum of each thread.
#[inline(always)]
pub unsafe fn softmax_cross_entropy_backward<E: Float>(
    logits: *mut E,
    labels: *mut i32,
    dlogits: *mut E,
    b: i32,
    k: i32,
    scale: f64,
    accumulate: u32,
    block_size: i32,
) {
    // The launch has as many threads a block as this says.
    let _ = block_size;
    // SAFETY: by this function's contract; each thread has its own columns.
    unsafe {
        for_each_row(logits, labels, b, k, |row, r, top, sum, label| {
            let scale = if (label as u32) < k as u32 { E::Acc::from_f64(scale) } else { E::Acc::NAN };
            let gradient = dlogits.wrapping_add((r * k as u64) as usize);
            let mut column = u64::from(thread_idx_x());
            while column < k as u64 {
                let share = ((*row.add(column as usize)).widen() - top).exp() / sum;
                let expected = if column == label as u64 { E::Acc::ONE } else { E::Acc::ZERO };
                put(gradient.add(column as usize), (share - expected) * scale, accumulate);
                column += u64::from(block_dim_x());
            }
        });
    }
}

entry! { float softmax_cross_entropy_forward {
    args(logits: *mut E, labels: *mut i32, loss: *mut E, b: i32, k: i32, scale: f64)
    hidden()
    constants(block_size: i32)
    barriers(6)
} }

entry! { float softmax_cross_entropy_backward {
    args(logits: *mut E, labels: *mut i32, dlogits: *mut E, b: i32, k: i32, scale: f64)
    hidden(accumulate: u32)
    constants(block_size: i32)
    barriers(6)
} }
