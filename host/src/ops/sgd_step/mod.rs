//! A step of stochastic gradient descent.

pub(super) mod checked;
mod reference;

use crate::element::Float;
use crate::error::Result;
use crate::kernel::{Kernel, LaunchOptions, kernel};
use crate::plan::Plan;

kernel! {
    /// Steps weights against their gradient, with momentum and weight decay.
    ///
    /// **Formula.** `g = grad_scale · dw + weight_decay · w`; `velocity ← momentum · velocity + g`;
    /// `w ← w − rate · velocity`; `copy ← w`, rounded to D.
    ///
    /// **Shapes**, in elements: `w`, `velocity`, `dw` and `copy` are `[b, n]`, contiguous; a tensor of any shape is one
    /// such. `numbers` is `[rate, momentum, weight_decay, grad_scale]`; it lies in device memory, so that a recorded
    /// step can be replayed with others. `w`, `velocity` and `numbers` are [`Float::Master`]: f32 for 16-bit gradients.
    /// A null `copy` is none.
    ///
    /// **Written**: all of `w` and `velocity`, and of `copy` where there is one.
    ///
    /// **Determinism**: a fixed sequence of fused multiply-adds an element.
    ///
    /// **Errors**: negative extents; what every launch checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `torch.optim.SGD(lr, momentum, weight_decay=…)`, with a first `velocity` of zeros.
    SgdStep("sgd_step", Float) {
        /// Elements that a block covers.
        block_size: Positive,
    }
    args(
        w: *mut D::Master, velocity: *mut D::Master, dw: *mut D, copy: *mut D, numbers: *mut D::Master,
        b: i32, n: i32,
    )
    plan(plan_step)
    reference(reference::step)
}

fn plan_step<D: Float>(
    kernel: &SgdStep<D>,
    args: &<SgdStep<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (w, velocity, dw, copy, numbers, b, n) = *args;
    plan.not_negative(&[("b", b), ("n", n)])?;
    plan.reject_rows(options)?;
    plan.reject_accumulate(options)?;
    let total = plan.volume("the tensor", &[i64::from(b), i64::from(n)])?;
    plan.updates("w", w, total)?;
    plan.updates("velocity", velocity, total)?;
    plan.reads("dw", dw, total)?;
    plan.writes("copy", copy, if copy.is_null() { 0 } else { total }, options)?;
    plan.reads("numbers", numbers, if total == 0 { 0 } else { 4 })?;
    plan.hidden(&u32::from(!copy.is_null()));
    plan.sweeps(total, i64::from(kernel.block_size));
    Ok(())
}
