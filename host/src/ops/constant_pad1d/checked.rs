//! Padding of the last dimension, on tensors.

use super::{ConstantPad1dBackward, ConstantPad1dForward};
use crate::device::Stream;
use crate::element::{Element, Num};
use crate::error::{Error, Result};
use crate::ops::run::{Beta, Call, cached, contiguous, extent, same_shape, two_factors};
use crate::tensor::{Tensor, TensorMut, TensorRef};

const BLOCK: i32 = 1024;

/// A shape with another last extent.
fn resized(op: &'static str, name: &'static str, shape: &[usize], by: i64) -> Result<Vec<usize>> {
    let wrong = |need: String| Error::Shape { op, name, have: shape.to_vec(), need };
    let Some((&last, _)) = shape.split_last() else {
        return Err(wrong("it must have a dimension to pad".to_owned()));
    };
    let Ok(new) = usize::try_from(last as i64 + by) else {
        return Err(wrong(format!("its last extent and the pads of {by} in all must not be negative")));
    };
    let mut resized = shape.to_vec();
    resized[shape.len() - 1] = new;
    Ok(resized)
}

fn total(pads: [i32; 2]) -> i64 {
    i64::from(pads[0]) + i64::from(pads[1])
}

/// Elements of `value` before and behind each row of the last dimension, as [`ConstantPad1dForward`] says. Negative
/// pads crop.
///
/// # Errors
/// [`Shape`](Error::Shape), [`NotContiguous`](Error::NotContiguous), and what every operation checks.
pub fn constant_pad1d<'a, D: Element>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    pads: [i32; 2],
    value: D,
) -> Result<Tensor<D>> {
    let x = x.into();
    let shape = resized("constant_pad1d", "x", x.shape(), total(pads))?;
    let mut y = Tensor::uninitialised(stream, &shape)?;
    constant_pad1d_into(stream, x, pads, value, &mut y)?;
    Ok(y)
}

/// [`constant_pad1d`] to a tensor that is there.
///
/// # Errors
/// As [`constant_pad1d`].
pub fn constant_pad1d_into<'a, 'b, D: Element>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    pads: [i32; 2],
    value: D,
    y: impl Into<TensorMut<'b, D>>,
) -> Result<()> {
    const OP: &str = "constant_pad1d";
    let (x, y) = (x.into(), y.into());
    same_shape(OP, "y", y.shape(), &resized(OP, "x", x.shape(), total(pads))?, "x with its pads")?;
    contiguous(OP, "x", &x)?;
    contiguous(OP, "y", &y.as_ref())?;
    let [b, c, l, ol] = numbers(OP, x.shape(), y.shape())?;
    let constants = [pads[0], pads[1], BLOCK];
    let kernel = cached(&constants, || ConstantPad1dForward::<D>::try_new(pads[0], pads[1], BLOCK))?;
    let uses = [x.reads("x"), y.writes("y")];
    Call::new(stream).run(&kernel, (x.pointer(), y.pointer(), b, c, l, ol, value), &uses)
}

/// The gradient of [`constant_pad1d`], as [`ConstantPad1dBackward`] says.
///
/// # Errors
/// As [`constant_pad1d`].
pub fn constant_pad1d_backward<'a, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    pads: [i32; 2],
) -> Result<Tensor<D>> {
    let dy = dy.into();
    let shape = resized("constant_pad1d_backward", "dy", dy.shape(), -total(pads))?;
    let mut dx = Tensor::uninitialised(stream, &shape)?;
    constant_pad1d_backward_into(stream, dy, pads, &mut dx, Beta::Overwrite)?;
    Ok(dx)
}

/// [`constant_pad1d_backward`] to a tensor that is there.
///
/// # Errors
/// As [`constant_pad1d`].
pub fn constant_pad1d_backward_into<'a, 'b, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    pads: [i32; 2],
    dx: impl Into<TensorMut<'b, D>>,
    beta: Beta,
) -> Result<()> {
    const OP: &str = "constant_pad1d_backward";
    let (dy, dx) = (dy.into(), dx.into());
    same_shape(OP, "dy", dy.shape(), &resized(OP, "dx", dx.shape(), total(pads))?, "dx with its pads")?;
    contiguous(OP, "dy", &dy)?;
    contiguous(OP, "dx", &dx.as_ref())?;
    let [b, c, l, ol] = numbers(OP, dx.shape(), dy.shape())?;
    let constants = [pads[0], pads[1], BLOCK];
    let kernel = cached(&constants, || ConstantPad1dBackward::<D>::try_new(pads[0], pads[1], BLOCK))?;
    let uses = [dy.reads("dy"), dx.writes("dx")];
    Call::new(stream).beta(beta).run(&kernel, (dy.pointer(), dx.pointer(), b, c, l, ol), &uses)
}

/// The leading extents in two factors, and both last ones.
fn numbers(op: &'static str, narrow: &[usize], wide: &[usize]) -> Result<[i32; 4]> {
    let last = narrow.len() - 1;
    let [b, c] = two_factors(op, &narrow[..last])?;
    Ok([b, c, extent(op, "l", narrow[last])?, extent(op, "ol", wide[last])?])
}
