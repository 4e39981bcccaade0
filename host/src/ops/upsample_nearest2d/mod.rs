//! Nearest-neighbour upsampling by whole factors, and its gradient.

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
    /// Repeats each element over a `scale_h × scale_w` window.
    ///
    /// **Formula.** `y[b, c, oh, ow] = x[b, c, oh / scale_h, ow / scale_w]`, divisions rounded down.
    ///
    /// **Shapes**, in elements: `x` is `[B, C, H, W]`, `y` is `[B, C, OH, OW]`, both contiguous (NCHW), with
    /// `OH = H · scale_h` and `OW = W · scale_w`.
    ///
    /// **Written**: all of `y`.
    ///
    /// **Determinism**: a copy, bit for bit, NaN payloads included.
    ///
    /// **Errors**: negative extents; an `OH` or `OW` that does not follow from the rest; what every launch
    /// checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `torch.nn.functional.interpolate(x, scale_factor=(scale_h, scale_w), mode="nearest")`.
    /// **Bytes moved**: `B · C · (H · W + OH · OW) · size`.
    UpsampleNearest2dForward("upsample_nearest2d_forward", Element) {
        /// Rows of y a row of x.
        scale_h: Positive,
        /// Columns of y a column of x.
        scale_w: Positive,
        /// Elements of y's rows, laid end to end, that a block covers.
        block_ow: Positive,
    }
    recommended(scale_h, scale_w; vector_block::<D>())
    args(x: *mut D, y: *mut D, b: i32, c: i32, h: i32, w: i32, oh: i32, ow: i32)
    plan(plan_forward)
    reference(reference::forward)
}

kernel! {
    /// The gradient of [`UpsampleNearest2dForward`] with respect to its input.
    ///
    /// **Formula.** `dx[b, c, ih, iw] = Σ dy[b, c, ih·scale_h + i, iw·scale_w + j]` over `i < scale_h`,
    /// `j < scale_w`.
    ///
    /// **Shapes**, in elements: `dy` is `[B, C, OH, OW]`, `dx` is `[B, C, H, W]`, both contiguous (NCHW).
    ///
    /// **Written**: all of `dx`; with [`accumulate`](LaunchOptions::accumulate), `dx += …`.
    ///
    /// **Determinism**: every window is summed in a fixed order. f16 and bf16 sum in f32 and round once; f32
    /// and f64 sum in themselves; integers wrap.
    ///
    /// **Errors**: as for [`UpsampleNearest2dForward`].
    ///
    /// **PyTorch**: `torch.ops.aten.upsample_nearest2d_backward`. **Bytes moved**:
    /// `B · C · (H · W + OH · OW) · size`.
    UpsampleNearest2dBackward("upsample_nearest2d_backward", Num) {
        /// Rows of y a row of x.
        scale_h: Positive,
        /// Columns of y a column of x.
        scale_w: Positive,
        /// Elements of dx's rows, laid end to end, that a block covers.
        block_iw: Positive,
    }
    recommended(scale_h, scale_w; vector_block::<D>())
    args(dy: *mut D, dx: *mut D, b: i32, c: i32, h: i32, w: i32, oh: i32, ow: i32)
    plan(plan_backward)
    reference(reference::backward)
}

/// Checks the extents; returns the elements of the small and of the large tensor.
fn check(plan: &Plan, scale: [i32; 2], extents: [(&'static str, i32); 6]) -> Result<(i64, i64)> {
    plan.not_negative(&extents)?;
    let [b, c, h, w, oh, ow] = extents.map(|(_, value)| value);
    let [tall, wide] = [i64::from(h) * i64::from(scale[0]), i64::from(w) * i64::from(scale[1])];
    plan.equal("oh", oh, "must be h · scale_h =", tall)?;
    plan.equal("ow", ow, "must be w · scale_w =", wide)?;
    let [b, c, h, w] = [b, c, h, w].map(i64::from);
    let small = plan.volume("the small tensor", &[b, c, h, w])?;
    Ok((small, plan.volume("the large tensor", &[b, c, tall, wide])?))
}

fn plan_forward<D: Element>(
    kernel: &UpsampleNearest2dForward<D>,
    args: &<UpsampleNearest2dForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (x, y, b, c, h, w, oh, ow) = *args;
    let extents = [("b", b), ("c", c), ("h", h), ("w", w), ("oh", oh), ("ow", ow)];
    let (small, large) = check(plan, [kernel.scale_h, kernel.scale_w], extents)?;
    plan.reject_rows(options)?;
    plan.reject_accumulate(options)?;
    plan.reads("x", x, small)?;
    plan.writes("y", y, large, options)?;
    plan.hidden(&Divisor64(i64::from(ow)));
    plan.hidden(&Divisor64(plan.vectors_per_row(y, i64::from(ow), i64::from(ow))));
    plan.hidden(&Divisor64(i64::from(kernel.scale_h)));
    // Where rows lie on boundaries, those that repeat each other are made together.
    let together = (y as u64 | (ow as u64 * size_of::<D>() as u64)).is_multiple_of(16);
    let made = if together { large / i64::from(kernel.scale_h) } else { large };
    plan.sweeps_vectors(made, i64::from(kernel.block_ow), 2);
    plan.computes(large);
    Ok(())
}

fn plan_backward<D: Num>(
    kernel: &UpsampleNearest2dBackward<D>,
    args: &<UpsampleNearest2dBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, dx, b, c, h, w, oh, ow) = *args;
    let extents = [("b", b), ("c", c), ("h", h), ("w", w), ("oh", oh), ("ow", ow)];
    let (small, large) = check(plan, [kernel.scale_h, kernel.scale_w], extents)?;
    plan.reject_rows(options)?;
    plan.reads("dy", dy, large)?;
    plan.writes("dx", dx, small, options)?;
    plan.hidden(&Divisor64(i64::from(w)));
    plan.hidden_accumulate(options);
    plan.sweeps_vectors(small, i64::from(kernel.block_iw), 1);
    Ok(())
}
