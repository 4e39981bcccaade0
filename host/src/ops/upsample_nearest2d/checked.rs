//! Enlargement of images, on tensors.

use super::{UpsampleNearest2dBackward, UpsampleNearest2dForward};
use crate::device::Stream;
use crate::element::{Element, Num};
use crate::error::{Error, Result};
use crate::ops::run::{Beta, Call, cached, contiguous, dims, extents, same_shape};
use crate::tensor::{Tensor, TensorMut, TensorRef};

const BLOCK: i32 = 1024;

fn enlarged(op: &'static str, [b, c, h, w]: [usize; 4], scale: [usize; 2]) -> Result<[usize; 4]> {
    let times = |name, extent: usize, scale: usize| {
        extent.checked_mul(scale).ok_or(Error::Extent { op, name, value: extent })
    };
    Ok([b, c, times("h", h, scale[0])?, times("w", w, scale[1])?])
}

/// Each element of the last two dimensions repeated `scale` times, as [`UpsampleNearest2dForward`] says.
///
/// # Errors
/// [`Shape`](Error::Shape), [`NotContiguous`](Error::NotContiguous), and what every operation checks.
pub fn upsample_nearest2d<'a, D: Element>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    scale: [usize; 2],
) -> Result<Tensor<D>> {
    const OP: &str = "upsample_nearest2d";
    let x = x.into();
    let mut y =
        Tensor::uninitialised(stream, &enlarged(OP, dims(OP, "x", x.shape(), "[B, C, H, W]")?, scale)?)?;
    upsample_nearest2d_into(stream, x, scale, &mut y)?;
    Ok(y)
}

/// [`upsample_nearest2d`] to a tensor that is there.
///
/// # Errors
/// As [`upsample_nearest2d`].
pub fn upsample_nearest2d_into<'a, 'b, D: Element>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    scale: [usize; 2],
    y: impl Into<TensorMut<'b, D>>,
) -> Result<()> {
    const OP: &str = "upsample_nearest2d";
    let (x, y) = (x.into(), y.into());
    let small = dims(OP, "x", x.shape(), "[B, C, H, W]")?;
    same_shape(OP, "y", y.shape(), &enlarged(OP, small, scale)?, "x enlarged")?;
    contiguous(OP, "x", &x)?;
    contiguous(OP, "y", &y.as_ref())?;
    let [b, c, h, w, oh, ow, scale_h, scale_w] = numbers(OP, x.shape(), y.shape(), scale)?;
    let constants = [scale_h, scale_w, BLOCK];
    let kernel = cached(&constants, || UpsampleNearest2dForward::<D>::try_new(scale_h, scale_w, BLOCK))?;
    let uses = [x.reads("x"), y.writes("y")];
    Call::new(stream).run(&kernel, (x.pointer(), y.pointer(), b, c, h, w, oh, ow), &uses)
}

/// The gradient of [`upsample_nearest2d`], as [`UpsampleNearest2dBackward`] says.
///
/// # Errors
/// As [`upsample_nearest2d`]; extents of dy that are no multiples of the scales.
pub fn upsample_nearest2d_backward<'a, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    scale: [usize; 2],
) -> Result<Tensor<D>> {
    const OP: &str = "upsample_nearest2d_backward";
    let dy = dy.into();
    let [b, c, oh, ow] = dims(OP, "dy", dy.shape(), "[B, C, OH, OW]")?;
    let small = |extent: usize, scale: usize| extent.checked_div(scale).unwrap_or(0);
    let mut dx = Tensor::uninitialised(stream, &[b, c, small(oh, scale[0]), small(ow, scale[1])])?;
    upsample_nearest2d_backward_into(stream, dy, scale, &mut dx, Beta::Overwrite)?;
    Ok(dx)
}

/// [`upsample_nearest2d_backward`] to a tensor that is there.
///
/// # Errors
/// As [`upsample_nearest2d`].
pub fn upsample_nearest2d_backward_into<'a, 'b, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    scale: [usize; 2],
    dx: impl Into<TensorMut<'b, D>>,
    beta: Beta,
) -> Result<()> {
    const OP: &str = "upsample_nearest2d_backward";
    let (dy, dx) = (dy.into(), dx.into());
    let small = dims(OP, "dx", dx.shape(), "[B, C, H, W]")?;
    same_shape(OP, "dy", dy.shape(), &enlarged(OP, small, scale)?, "dx enlarged")?;
    contiguous(OP, "dy", &dy)?;
    contiguous(OP, "dx", &dx.as_ref())?;
    let [b, c, h, w, oh, ow, scale_h, scale_w] = numbers(OP, dx.shape(), dy.shape(), scale)?;
    let constants = [scale_h, scale_w, BLOCK];
    let kernel = cached(&constants, || UpsampleNearest2dBackward::<D>::try_new(scale_h, scale_w, BLOCK))?;
    let uses = [dy.reads("dy"), dx.writes("dx")];
    Call::new(stream).beta(beta).run(&kernel, (dy.pointer(), dx.pointer(), b, c, h, w, oh, ow), &uses)
}

fn numbers(op: &'static str, small: &[usize], large: &[usize], scale: [usize; 2]) -> Result<[i32; 8]> {
    let named = [
        ("b", small[0]),
        ("c", small[1]),
        ("h", small[2]),
        ("w", small[3]),
        ("oh", large[2]),
        ("ow", large[3]),
        ("scale_h", scale[0]),
        ("scale_w", scale[1]),
    ];
    extents(op, named)
}
