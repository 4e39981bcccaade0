//! The rectifier and its gradient.

pub(super) mod checked;
mod reference;

use crate::element::Float;
use crate::error::Result;
use crate::kernel::{Kernel, LaunchOptions, kernel};
use crate::plan::Plan;

kernel! {
    /// Replaces what is below zero by zero.
    ///
    /// **Formula.** `y[i] = max(x[i], 0)`; NaN stays NaN, and −0 becomes 0.
    ///
    /// **Shapes**, in elements: `x` and `y` are `[b, n]`, contiguous; a tensor of any shape is one such.
    ///
    /// **Written**: all of `y`.
    ///
    /// **Determinism**: exact.
    ///
    /// **Errors**: negative extents; what every launch checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `torch.relu`. **Bytes moved**: `2 · b · n · size`.
    ReluForward("relu_forward", Float) {
        /// Elements of the result, laid end to end, that a block covers.
        block_size: Positive,
    }
    args(x: *mut D, y: *mut D, b: i32, n: i32)
    plan(plan_forward)
    reference(reference::forward)
}

kernel! {
    /// The gradient of [`ReluForward`].
    ///
    /// **Formula.** `dx[i] = dy[i]` where `y[i] > 0` or NaN, else 0. The forward's `x` may stand for `y`: both are
    /// above zero in the same places.
    ///
    /// **Shapes**, in elements: `dy`, `y` and `dx` are `[b, n]`, contiguous.
    ///
    /// **Written**: all of `dx`; with [`accumulate`](LaunchOptions::accumulate), `dx += …`, rounded once.
    ///
    /// **Determinism**: exact, or one addition an element.
    ///
    /// **Errors**: as for [`ReluForward`].
    ///
    /// **PyTorch**: `torch.ops.aten.threshold_backward` with threshold 0. **Bytes moved**: `3 · b · n · size`.
    ReluBackward("relu_backward", Float) {
        /// Elements of the result, laid end to end, that a block covers.
        block_size: Positive,
    }
    args(dy: *mut D, y: *mut D, dx: *mut D, b: i32, n: i32)
    plan(plan_backward)
    reference(reference::backward)
}

fn check(plan: &Plan, options: &LaunchOptions<'_>, b: i32, n: i32) -> Result<i64> {
    plan.not_negative(&[("b", b), ("n", n)])?;
    plan.reject_rows(options)?;
    plan.volume("the tensor", &[i64::from(b), i64::from(n)])
}

fn plan_forward<D: Float>(
    kernel: &ReluForward<D>,
    args: &<ReluForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (x, y, b, n) = *args;
    let total = check(plan, options, b, n)?;
    plan.reject_accumulate(options)?;
    plan.reads("x", x, total)?;
    plan.writes("y", y, total, options)?;
    plan.sweeps_vectors(total, i64::from(kernel.block_size), 4);
    Ok(())
}

fn plan_backward<D: Float>(
    kernel: &ReluBackward<D>,
    args: &<ReluBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, y, dx, b, n) = *args;
    let total = check(plan, options, b, n)?;
    plan.reads("dy", dy, total)?;
    plan.reads("y", y, total)?;
    plan.writes("dx", dx, total, options)?;
    plan.hidden_accumulate(options);
    plan.sweeps_vectors(total, i64::from(kernel.block_size), 4);
    Ok(())
}
