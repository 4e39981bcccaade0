//! Channel concatenation of one input into the joined tensor, and the gradient's way back.

pub(super) mod checked;
mod reference;
#[cfg(feature = "verify")]
mod verify;

#[cfg(feature = "verify")]
pub(crate) use verify::SUBJECTS;

use crate::element::{Element, Num};
use crate::error::{Error, Result};
use crate::kernel::{Kernel, LaunchOptions, kernel};
use crate::launch::{Divisor64, vector_block};
use crate::plan::Plan;

kernel! {
    /// Writes one input's channels into the joined tensor.
    ///
    /// **Formula.** `y[r·c_total + chunk_offset + c] = x[r·chunk_c + c]` for every row `r` and `c < chunk_c`.
    ///
    /// **Shapes**, in elements: `x` is `[rows, chunk_c]`, `y` is `[rows, c_total]`, both contiguous. The number
    /// of rows is a [launch option](LaunchOptions::rows). One launch serves one input; inputs may differ in
    /// size. For NCHW tensors, `rows = B` and channels count `H·W` elements each.
    ///
    /// **Written**: the chunk's columns of `y`; the others are left alone.
    ///
    /// **Determinism**: a copy, bit for bit, NaN payloads included.
    ///
    /// **Errors**: negative sizes; `chunk_offset + chunk_c > c_total`; no rows given; what every launch checks
    /// (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `torch.cat`, an input at a time. **Bytes moved**: `2 · rows · chunk_c · size`.
    ChannelCatForward("channel_cat_forward", Element) {
        /// Elements of the chunk's rows, laid end to end, that a block covers.
        block_size: Positive,
    }
    recommended(; vector_block::<D>())
    args(x: *mut D, y: *mut D, chunk_c: i32, c_total: i32, chunk_offset: i32)
    plan(plan_forward)
    reference(reference::forward)
}

kernel! {
    /// Takes one input's gradient out of the joined tensor's.
    ///
    /// **Formula.** `dx[r·chunk_c + c] = dy[r·c_total + chunk_offset + c]` for every row `r` and `c < chunk_c`.
    ///
    /// **Shapes**, in elements: `dy` is `[rows, c_total]`, `dx` is `[rows, chunk_c]`, both contiguous. The number
    /// of rows is a [launch option](LaunchOptions::rows).
    ///
    /// **Written**: all of `dx`; with [`accumulate`](LaunchOptions::accumulate), `dx += …`, rounded once.
    ///
    /// **Determinism**: a copy, bit for bit, or one addition an element.
    ///
    /// **Errors**: as for [`ChannelCatForward`].
    ///
    /// **PyTorch**: `dy.narrow(1, chunk_offset, chunk_c).contiguous()`. **Bytes moved**:
    /// `2 · rows · chunk_c · size`.
    ChannelCatBackward("channel_cat_backward", Num) {
        /// Elements of the chunk's rows, laid end to end, that a block covers.
        block_size: Positive,
    }
    recommended(; vector_block::<D>())
    args(dy: *mut D, dx: *mut D, chunk_c: i32, c_total: i32, chunk_offset: i32)
    plan(plan_backward)
    reference(reference::backward)
}

/// Checks the extents; returns rows and the elements of the chunk and of the joined tensor.
fn check(
    plan: &Plan,
    kernel: &'static str,
    chunk_c: i32,
    c_total: i32,
    chunk_offset: i32,
    options: &LaunchOptions<'_>,
) -> Result<(i64, i64, i64)> {
    let rows = options.rows.ok_or(Error::Option { kernel, option: "rows", rule: "is needed" })?;
    plan.check(rows >= 0, "rows", rows, "must be at least", 0)?;
    plan.not_negative(&[("chunk_c", chunk_c), ("c_total", c_total), ("chunk_offset", chunk_offset)])?;
    let end = i64::from(chunk_offset) + i64::from(chunk_c);
    plan.check(
        end <= i64::from(c_total),
        "c_total",
        c_total,
        "must be at least chunk_offset + chunk_c =",
        end,
    )?;
    let chunk = plan.volume("the chunk", &[rows, i64::from(chunk_c)])?;
    let joined = plan.volume("the joined tensor", &[rows, i64::from(c_total)])?;
    Ok((rows, chunk, joined))
}

fn plan_forward<D: Element>(
    kernel: &ChannelCatForward<D>,
    args: &<ChannelCatForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (x, y, chunk_c, c_total, chunk_offset) = *args;
    let (rows, chunk, joined) = check(plan, kernel.name, chunk_c, c_total, chunk_offset, options)?;
    plan.reject_accumulate(options)?;
    plan.reads("x", x, chunk)?;
    plan.writes("y", y, if chunk == 0 { 0 } else { joined }, options)?;
    let window = y.wrapping_add(chunk_offset as usize);
    let pieces = plan.pieces_per_row(window, [rows, i64::from(chunk_c)], i64::from(c_total), options);
    plan.hidden(&rows);
    plan.hidden(&Divisor64(i64::from(chunk_c)));
    plan.hidden(&Divisor64(pieces));
    plan.sweeps_rows(chunk, i64::from(kernel.block_size), 2, options);
    Ok(())
}

fn plan_backward<D: Num>(
    kernel: &ChannelCatBackward<D>,
    args: &<ChannelCatBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, dx, chunk_c, c_total, chunk_offset) = *args;
    let (rows, chunk, joined) = check(plan, kernel.name, chunk_c, c_total, chunk_offset, options)?;
    plan.reads("dy", dy, if chunk == 0 { 0 } else { joined })?;
    plan.writes("dx", dx, chunk, options)?;
    plan.hidden(&rows);
    plan.hidden(&Divisor64(i64::from(chunk_c)));
    plan.hidden_accumulate(options);
    plan.sweeps_rows(chunk, i64::from(kernel.block_size), 2, options);
    Ok(())
}
