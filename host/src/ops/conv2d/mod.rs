//! 2-D convolution and its two gradients.

mod blocked;
mod blocked_dw;
mod channels;
pub(super) mod checked;
mod depthwise;
mod few;
mod few_dw;
mod few_mma;
mod patch;
mod patch_dw;
mod patch_tile;
mod plan;
mod pointwise;
mod prepare;
mod reference;
mod small;
mod tiled;
mod variants;
#[cfg(feature = "verify")]
mod verify;

#[cfg(feature = "verify")]
pub(crate) use verify::SUBJECTS;

use crate::element::Num;
use crate::kernel::kernel;

kernel! {
    /// 2-D convolution (cross-correlation), NCHW.
    ///
    /// **Formula.** `y[b, co, oh, ow] = Σ x[b, ci, ih, iw] · w[co, ci′, i, j]` over the input channels ci of co's
    /// group (ci′ counts them from zero), `i < kh` and `j < kw`, with `ih = oh·stride_h + i − pad_h` and
    /// `iw = ow·stride_w + j − pad_w`; taps outside the image count as zero. On a GPU an infinity or a NaN in `w` may be
    /// multiplied with such a zero, which gives NaN; in `x` they reach what they meet and nothing else.
    ///
    /// **Shapes**, in elements: `x` is `[B, C_in, H, W]`, `w` is `[C_out, C_in/g, kh, kw]`, `y` is
    /// `[B, C_out, OH, OW]`, all contiguous, with `OH = (H + 2·pad_h − kh)/stride_h + 1` rounded down, and OW
    /// alike.
    ///
    /// **Written**: all of `y`.
    ///
    /// **Determinism**: every element is summed in a fixed order. f16 and bf16 sum in f32 and round once; f32
    /// and f64 sum in themselves with fused multiply-adds; integers wrap.
    ///
    /// **Errors**: negative extents; groups that do not divide the channels; a kernel larger than the padded
    /// image; an `OH` or `OW` that does not follow from the rest; what every launch checks (null, misaligned,
    /// short or overlapping buffers).
    ///
    /// **PyTorch**: `torch.nn.functional.conv2d`. **Operations**: `2 · B · C_out · OH · OW · (C_in/g) · kh · kw`.
    Conv2dForward("conv2d_forward", Num) {
        /// Rows of the filter.
        kh: Positive,
        /// Columns of the filter.
        kw: Positive,
        /// Rows of x between rows of y.
        stride_h: Positive,
        /// Columns of x between columns of y.
        stride_w: Positive,
        /// Rows of zeros above and below the image.
        pad_h: NotNegative,
        /// Columns of zeros left and right of the image.
        pad_w: NotNegative,
        /// Groups.
        g: Positive,
        /// Elements of the result, laid end to end, that a block covers.
        block_ow: Positive,
    }
    recommended(kh, kw, stride_h, stride_w, pad_h, pad_w, g; 128)
    args(x: *mut D, w: *mut D, y: *mut D, b: i32, c_in: i32, c_out: i32, h: i32, wd: i32, oh: i32, ow: i32)
    plan(plan::forward)
    variants(variants::forward_workspace, variants::forward)
    reference(reference::forward)
}

kernel! {
    /// Both gradients of [`Conv2dForward`] in one launch.
    ///
    /// **Formula.** `dx` as [`Conv2dBackwardDx`] and `dw` as [`Conv2dBackwardDw`] compute them.
    ///
    /// **Shapes**: as theirs.
    ///
    /// **Written**: all of `dx` and all of `dw`; neither need be zeroed first. With
    /// [`accumulate`](crate::LaunchOptions::accumulate), both are added to. (A comparable kernel is specified as
    /// an accumulation into zeroed buffers; this one gives the same result on those.)
    ///
    /// **Determinism, errors**: as theirs. **PyTorch**: `torch.ops.aten.convolution_backward`.
    /// **Operations**: `4 · B · C_out · OH · OW · (C_in/g) · kh · kw`.
    Conv2dBackward("conv2d_backward", Num) {
        /// Rows of the filter.
        kh: Positive,
        /// Columns of the filter.
        kw: Positive,
        /// Rows of x between rows of y.
        stride_h: Positive,
        /// Columns of x between columns of y.
        stride_w: Positive,
        /// Rows of zeros above and below the image.
        pad_h: NotNegative,
        /// Columns of zeros left and right of the image.
        pad_w: NotNegative,
        /// Groups.
        g: Positive,
        /// Elements of the results, laid end to end, that a block covers.
        block_ow: Positive,
    }
    recommended(kh, kw, stride_h, stride_w, pad_h, pad_w, g; 128)
    args(
        dy: *mut D, x: *mut D, w: *mut D, dx: *mut D, dw: *mut D,
        b: i32, c_in: i32, c_out: i32, h: i32, wd: i32, oh: i32, ow: i32,
    )
    plan(plan::backward)
    variants(variants::backward_workspace, variants::backward)
    reference(reference::backward)
}

kernel! {
    /// The gradient of [`Conv2dForward`] with respect to its input (dgrad).
    ///
    /// **Formula.** `dx[b, ci, ih, iw] = Σ dy[b, co, oh, ow] · w[co, ci′, i, j]` over the output channels co of ci's
    /// group and the taps with `ih = oh·stride_h + i − pad_h` and `iw = ow·stride_w + j − pad_w`.
    ///
    /// **Shapes**, in elements: `dy` is `[B, C_out, OH, OW]`, `w` is `[C_out, C_in/g, kh, kw]`, `dx` is
    /// `[B, C_in, H, W]`, all contiguous.
    ///
    /// **Written**: all of `dx`; elements that no tap meets get zero. With
    /// [`accumulate`](crate::LaunchOptions::accumulate), `dx += …`.
    ///
    /// **Determinism, errors**: as for [`Conv2dForward`]. **PyTorch**: `torch.nn.grad.conv2d_input`.
    /// **Operations**: `2 · B · C_out · OH · OW · (C_in/g) · kh · kw`.
    Conv2dBackwardDx("conv2d_backward_dx", Num) {
        /// Rows of the filter.
        kh: Positive,
        /// Columns of the filter.
        kw: Positive,
        /// Rows of x between rows of y.
        stride_h: Positive,
        /// Columns of x between columns of y.
        stride_w: Positive,
        /// Rows of zeros above and below the image.
        pad_h: NotNegative,
        /// Columns of zeros left and right of the image.
        pad_w: NotNegative,
        /// Groups.
        g: Positive,
        /// Elements of the result, laid end to end, that a block covers.
        block_ow: Positive,
    }
    recommended(kh, kw, stride_h, stride_w, pad_h, pad_w, g; 128)
    args(
        dy: *mut D, w: *mut D, dx: *mut D,
        b: i32, c_in: i32, c_out: i32, h: i32, wd: i32, oh: i32, ow: i32,
    )
    plan(plan::backward_dx)
    variants(variants::backward_dx_workspace, variants::backward_dx)
    reference(reference::backward_dx)
}

kernel! {
    /// The gradient of [`Conv2dForward`] with respect to its filter (wgrad).
    ///
    /// **Formula.** `dw[co, ci′, i, j] = Σ dy[b, co, oh, ow] · x[b, ci, ih, iw]` over b, oh and ow, with
    /// `ih = oh·stride_h + i − pad_h` and `iw = ow·stride_w + j − pad_w` inside the image. On a GPU an infinity or a NaN in
    /// `dy` may be multiplied with a pad's zero, which gives NaN.
    ///
    /// **Shapes**, in elements: `dy` is `[B, C_out, OH, OW]`, `x` is `[B, C_in, H, W]`, `dw` is
    /// `[C_out, C_in/g, kh, kw]`, all contiguous.
    ///
    /// **Written**: all of `dw`; for an empty batch it is all zeros. With
    /// [`accumulate`](crate::LaunchOptions::accumulate), `dw += …`.
    ///
    /// **Determinism, errors**: as for [`Conv2dForward`]; each output row is summed first, then the rows.
    /// **PyTorch**: `torch.nn.grad.conv2d_weight`.
    /// **Operations**: `2 · B · C_out · OH · OW · (C_in/g) · kh · kw`.
    Conv2dBackwardDw("conv2d_backward_dw", Num) {
        /// Rows of the filter.
        kh: Positive,
        /// Columns of the filter.
        kw: Positive,
        /// Rows of x between rows of y.
        stride_h: Positive,
        /// Columns of x between columns of y.
        stride_w: Positive,
        /// Rows of zeros above and below the image.
        pad_h: NotNegative,
        /// Columns of zeros left and right of the image.
        pad_w: NotNegative,
        /// Groups.
        g: Positive,
        /// Elements of the result, laid end to end, that a block covers.
        block_ow: Positive,
    }
    recommended(kh, kw, stride_h, stride_w, pad_h, pad_w, g; 128)
    args(
        dy: *mut D, x: *mut D, dw: *mut D,
        b: i32, c_in: i32, c_out: i32, h: i32, wd: i32, oh: i32, ow: i32,
    )
    plan(plan::backward_dw)
    variants(variants::backward_dw_workspace, variants::backward_dw)
    reference(reference::backward_dw)
}
