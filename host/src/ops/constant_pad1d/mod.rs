//! Constant padding of the last dimension, and its gradient.

pub(super) mod checked;
mod reference;
#[cfg(feature = "verify")]
mod verify;

#[cfg(feature = "verify")]
pub(crate) use verify::SUBJECTS;

use crate::element::{Element, Num};
use crate::error::Result;
use crate::kernel::{Kernel, LaunchOptions, kernel};
use crate::launch::{Divisor64, vector_block};
use crate::plan::Plan;

kernel! {
    /// Pads the last dimension with a constant.
    ///
    /// **Formula.** `y[b, c, o] = x[b, c, o − pad_left]` where `0 ≤ o − pad_left < L`, else `value`.
    ///
    /// **Shapes**, in elements: `input` is `[B, C, L]`, `output` is `[B, C, OL]`, both contiguous, with
    /// `OL = L + pad_left + pad_right`. A negative pad crops.
    ///
    /// **Written**: all of `output`.
    ///
    /// **Determinism**: a copy, bit for bit, NaN payloads included.
    ///
    /// **Errors**: negative extents; an `OL` that does not follow from the rest; what every launch checks
    /// (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `torch.nn.functional.pad(x, (pad_left, pad_right), value=value)`. **Bytes moved**:
    /// `B · C · (L + OL) · size` for pads that are not negative.
    ConstantPad1dForward("constant_pad1d_forward", Element) {
        /// Elements before each row; negative to crop.
        pad_left: Any,
        /// Elements after each row; negative to crop.
        pad_right: Any,
        /// Elements of the output's rows, laid end to end, that a block covers.
        block_ol: Positive,
    }
    recommended(pad_left, pad_right; vector_block::<D>())
    args(input: *mut D, output: *mut D, b: i32, c: i32, l: i32, ol: i32, value: D)
    plan(plan_forward)
    reference(reference::forward)
}

kernel! {
    /// The gradient of [`ConstantPad1dForward`] with respect to its input.
    ///
    /// **Formula.** `dx[b, c, i] = dy[b, c, i + pad_left]` where `0 ≤ i + pad_left < OL`, else zero: an element
    /// that a negative pad cropped has no gradient.
    ///
    /// **Shapes**, in elements: `dy` is `[B, C, OL]`, `dx` is `[B, C, L]`, both contiguous.
    ///
    /// **Written**: all of `dx`; with [`accumulate`](LaunchOptions::accumulate), `dx += …`, rounded once.
    ///
    /// **Determinism**: a copy, bit for bit, or one addition an element.
    ///
    /// **Errors**: as for [`ConstantPad1dForward`].
    ///
    /// **PyTorch**: `torch.nn.functional.pad(dy, (-pad_left, -pad_right))`. **Bytes moved**:
    /// `2 · B · C · L · size` for pads that are not negative.
    ConstantPad1dBackward("constant_pad1d_backward", Num) {
        /// Elements before each row; negative to crop.
        pad_left: Any,
        /// Elements after each row; negative to crop.
        pad_right: Any,
        /// Elements of dx's rows, laid end to end, that a block covers.
        block_ol: Positive,
    }
    recommended(pad_left, pad_right; vector_block::<D>())
    args(dy: *mut D, dx: *mut D, b: i32, c: i32, l: i32, ol: i32)
    plan(plan_backward)
    reference(reference::backward)
}

/// Checks the extents; returns the elements of the unpadded and of the padded tensor.
fn check(plan: &Plan, pads: [i32; 2], b: i32, c: i32, l: i32, ol: i32) -> Result<(i64, i64)> {
    plan.not_negative(&[("b", b), ("c", c), ("l", l), ("ol", ol)])?;
    let [b, c, long] = [b, c, l].map(i64::from);
    let padded = long + i64::from(pads[0]) + i64::from(pads[1]);
    plan.equal("ol", ol, "must be l + pad_left + pad_right =", padded)?;
    let bare = plan.volume("the unpadded tensor", &[b, c, long])?;
    Ok((bare, plan.volume("the padded tensor", &[b, c, padded])?))
}

fn plan_forward<D: Element>(
    kernel: &ConstantPad1dForward<D>,
    args: &<ConstantPad1dForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (input, output, b, c, l, ol, _) = *args;
    let (bare, padded) = check(plan, [kernel.pad_left, kernel.pad_right], b, c, l, ol)?;
    plan.reject_rows(options)?;
    plan.reject_accumulate(options)?;
    plan.reads("input", input, bare)?;
    plan.writes("output", output, padded, options)?;
    plan.hidden(&Divisor64(i64::from(ol)));
    plan.sweeps_rows(padded, i64::from(kernel.block_ol), 2, options);
    Ok(())
}

fn plan_backward<D: Num>(
    kernel: &ConstantPad1dBackward<D>,
    args: &<ConstantPad1dBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, dx, b, c, l, ol) = *args;
    let (bare, padded) = check(plan, [kernel.pad_left, kernel.pad_right], b, c, l, ol)?;
    plan.reject_rows(options)?;
    plan.reads("dy", dy, padded)?;
    plan.writes("dx", dx, bare, options)?;
    plan.hidden(&Divisor64(i64::from(l)));
    plan.hidden_accumulate(options);
    plan.sweeps_rows(bare, i64::from(kernel.block_ol), 2, options);
    Ok(())
}
