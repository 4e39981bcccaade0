//! A bias for each channel, and its gradient.

pub(super) mod checked;
mod reference;

use crate::element::Num;
use crate::error::Result;
use crate::kernel::{Kernel, LaunchOptions, kernel};
use crate::launch::Divisor64;
use crate::plan::Plan;

kernel! {
    /// Adds a bias to each channel, NCHW.
    ///
    /// **Formula.** `y[b, c, h, w] = x[b, c, h, w] + bias[c]`, rounded once.
    ///
    /// **Shapes**, in elements: `x` and `y` are `[B, C, H, W]`, `bias` is `[C]`, all contiguous.
    ///
    /// **Written**: all of `y`.
    ///
    /// **Determinism**: one addition an element; integers wrap.
    ///
    /// **Errors**: negative extents; what every launch checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `x + bias.view(1, -1, 1, 1)`. The gradient with respect to `x` is `dy` itself.
    /// **Bytes moved**: `2 · B · C · H · W · size`.
    BiasAddForward("bias_add_forward", Num) {
        /// Elements of the result, laid end to end, that a block covers.
        block_size: Positive,
    }
    args(x: *mut D, bias: *mut D, y: *mut D, b: i32, c: i32, h: i32, w: i32)
    plan(plan_forward)
    reference(reference::forward)
}

kernel! {
    /// The gradient of [`BiasAddForward`] with respect to the bias.
    ///
    /// **Formula.** `dbias[c] = Σ dy[b, c, h, w]` over b, h and w.
    ///
    /// **Shapes**, in elements: `dy` is `[B, C, H, W]`, `dbias` is `[C]`, both contiguous.
    ///
    /// **Written**: all of `dbias`; zero for an empty batch. With
    /// [`accumulate`](LaunchOptions::accumulate), `dbias += …`.
    ///
    /// **Determinism**: a block sums a channel, each of its threads a part and a tree the threads, in an order that
    /// follows from the shape. f16 and bf16 sum in f32 and round once; integers wrap.
    ///
    /// **Errors**: as for [`BiasAddForward`].
    ///
    /// **PyTorch**: `dy.sum((0, 2, 3))`. **Bytes moved**: `B · C · H · W · size`.
    BiasAddBackward("bias_add_backward", Num) {
        /// Threads of a block at most (256 are the limit): a block sums a channel.
        block_size: Positive,
    }
    args(dy: *mut D, dbias: *mut D, b: i32, c: i32, h: i32, w: i32)
    plan(plan_backward)
    reference(reference::backward)
}

fn check(plan: &Plan, options: &LaunchOptions<'_>, [b, c, h, w]: [i32; 4]) -> Result<i64> {
    plan.not_negative(&[("b", b), ("c", c), ("h", h), ("w", w)])?;
    plan.reject_rows(options)?;
    plan.volume("the tensor", &[b, c, h, w].map(i64::from))
}

fn plan_forward<D: Num>(
    kernel: &BiasAddForward<D>,
    args: &<BiasAddForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (x, bias, y, b, c, h, w) = *args;
    let total = check(plan, options, [b, c, h, w])?;
    plan.reject_accumulate(options)?;
    plan.reads("x", x, total)?;
    plan.reads("bias", bias, if total == 0 { 0 } else { i64::from(c) })?;
    plan.writes("y", y, total, options)?;
    plan.hidden(&Divisor64(i64::from(h) * i64::from(w)));
    plan.hidden(&Divisor64(i64::from(c)));
    plan.sweeps_vectors(total, i64::from(kernel.block_size), 4);
    Ok(())
}

fn plan_backward<D: Num>(
    kernel: &BiasAddBackward<D>,
    args: &<BiasAddBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, dbias, b, c, h, w) = *args;
    let total = check(plan, options, [b, c, h, w])?;
    plan.reads("dy", dy, total)?;
    plan.writes("dbias", dbias, i64::from(c), options)?;
    plan.hidden(&Divisor64(i64::from(h) * i64::from(w)));
    plan.hidden_accumulate(options);
    let items = if c == 0 { 0 } else { total / i64::from(c) };
    // Sums of f16 and bf16 are f32.
    let size = size_of::<D>().max(if D::DTYPE.is_float() { 4 } else { 1 });
    plan.rows(i64::from(c), i64::from(c), items, kernel.block_size, size);
    Ok(())
}
