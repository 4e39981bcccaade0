//! Cross entropy of a softmax, for classes given as labels, and its gradient.

pub(super) mod checked;
mod reference;

use crate::element::Float;
use crate::error::Result;
use crate::kernel::{Kernel, LaunchOptions, kernel};
use crate::plan::Plan;

kernel! {
    /// The loss of each row: how far the softmax of its logits is from its label.
    ///
    /// **Formula.** `loss[r] = scale · (ln Σ exp(logits[r, k]) − logits[r, labels[r]])`, with all exponents taken
    /// relative to the row's maximum. With `scale = 1/B` the losses add up to their mean.
    ///
    /// **Shapes**, in elements: `logits` is `[B, K]`, `labels` and `loss` are `[B]`, all contiguous.
    ///
    /// **Written**: all of `loss`.
    ///
    /// **Edge rules**: a label outside `0..K` makes the row's loss NaN and is never followed to memory. NaN among a
    /// row's logits, or +∞, makes its loss NaN.
    ///
    /// **Determinism**: threads sum a row in parts and a tree joins them, in an order that follows from the shape.
    /// f16, bf16 and f32 compute in f32, with an exp and a ln of this crate (`device/src/math.rs`).
    ///
    /// **Errors**: negative extents; what every launch checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `torch.nn.functional.cross_entropy(logits, labels, reduction="none")`.
    /// **Bytes moved**: `B · K · size`.
    SoftmaxCrossEntropyForward("softmax_cross_entropy_forward", Float) {
        /// Threads of a block at most (256 are the limit): a block takes a row.
        block_size: Positive,
    }
    args(logits: *mut D, labels: *mut i32, loss: *mut D, b: i32, k: i32, scale: f64)
    plan(plan_forward)
    reference(reference::forward)
}

kernel! {
    /// The gradient of the sum of [`SoftmaxCrossEntropyForward`]'s losses.
    ///
    /// **Formula.** `dlogits[r, k] = scale · (exp(logits[r, k]) / Σ exp(logits[r, j]) − [k = labels[r]])`.
    ///
    /// **Shapes**, in elements: `logits` and `dlogits` are `[B, K]`, `labels` is `[B]`, all contiguous.
    ///
    /// **Written**: all of `dlogits`; with [`accumulate`](LaunchOptions::accumulate), `dlogits += …`.
    ///
    /// **Edge rules, determinism, errors**: as for [`SoftmaxCrossEntropyForward`]; a label outside `0..K` makes the
    /// row's gradient NaN.
    ///
    /// **PyTorch**: `scale * (logits.softmax(1) - one_hot(labels, K))`. **Bytes moved**: `2 · B · K · size`.
    SoftmaxCrossEntropyBackward("softmax_cross_entropy_backward", Float) {
        /// Threads of a block at most (256 are the limit): a block takes a row.
        block_size: Positive,
    }
    args(logits: *mut D, labels: *mut i32, dlogits: *mut D, b: i32, k: i32, scale: f64)
    plan(plan_backward)
    reference(reference::backward)
}

fn check(plan: &Plan, options: &LaunchOptions<'_>, b: i32, k: i32) -> Result<i64> {
    plan.not_negative(&[("b", b), ("k", k)])?;
    plan.reject_rows(options)?;
    plan.volume("logits", &[i64::from(b), i64::from(k)])
}

/// Bytes of what a row is summed in.
fn sum_bytes<D: Float>() -> usize {
    size_of::<D::Master>()
}

fn plan_forward<D: Float>(
    kernel: &SoftmaxCrossEntropyForward<D>,
    args: &<SoftmaxCrossEntropyForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (logits, labels, loss, b, k, _) = *args;
    let total = check(plan, options, b, k)?;
    plan.reject_accumulate(options)?;
    plan.reads("logits", logits, total)?;
    plan.reads("labels", labels, i64::from(b))?;
    plan.writes("loss", loss, i64::from(b), options)?;
    plan.rows(i64::from(b), i64::from(b), i64::from(k), kernel.block_size, sum_bytes::<D>());
    Ok(())
}

fn plan_backward<D: Float>(
    kernel: &SoftmaxCrossEntropyBackward<D>,
    args: &<SoftmaxCrossEntropyBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (logits, labels, dlogits, b, k, _) = *args;
    let total = check(plan, options, b, k)?;
    plan.reads("logits", logits, total)?;
    plan.reads("labels", labels, i64::from(b))?;
    plan.writes("dlogits", dlogits, total, options)?;
    plan.hidden_accumulate(options);
    plan.rows(total, i64::from(b), i64::from(k), kernel.block_size, sum_bytes::<D>());
    Ok(())
}
