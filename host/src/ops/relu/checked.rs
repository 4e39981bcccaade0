//! The rectifier on tensors.

use super::{ReluBackward, ReluForward};
use crate::device::Stream;
use crate::element::Float;
use crate::error::Result;
use crate::ops::run::{Beta, Call, cached, contiguous, same_shape, two_factors};
use crate::tensor::{Tensor, TensorMut, TensorRef};

const BLOCK: i32 = 1024;

/// `max(x, 0)`, as [`ReluForward`] says.
///
/// # Errors
/// [`NotContiguous`](crate::Error::NotContiguous), and what every operation checks.
pub fn relu<'a, D: Float>(stream: &Stream, x: impl Into<TensorRef<'a, D>>) -> Result<Tensor<D>> {
    let x = x.into();
    let mut y = Tensor::uninitialised(stream, x.shape())?;
    relu_into(stream, x, &mut y)?;
    Ok(y)
}

/// [`relu`] to a tensor that is there.
///
/// # Errors
/// As [`relu`]; [`Shape`](crate::Error::Shape).
pub fn relu_into<'a, 'b, D: Float>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    y: impl Into<TensorMut<'b, D>>,
) -> Result<()> {
    const OP: &str = "relu";
    let (x, y) = (x.into(), y.into());
    same_shape(OP, "y", y.shape(), x.shape(), "x")?;
    contiguous(OP, "x", &x)?;
    contiguous(OP, "y", &y.as_ref())?;
    let [b, n] = two_factors(OP, x.shape())?;
    let kernel = cached(&[BLOCK], || ReluForward::<D>::try_new(BLOCK))?;
    let uses = [x.reads("x"), y.writes("y")];
    Call::new(stream).run(&kernel, (x.pointer(), y.pointer(), b, n), &uses)
}

/// The gradient of [`relu`], as [`ReluBackward`] says; `y` is the forward's output, or its input.
///
/// # Errors
/// As [`relu_into`].
pub fn relu_backward<'a, 'b, D: Float>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    y: impl Into<TensorRef<'b, D>>,
) -> Result<Tensor<D>> {
    let (dy, y) = (dy.into(), y.into());
    let mut dx = Tensor::uninitialised(stream, dy.shape())?;
    relu_backward_into(stream, dy, y, &mut dx, Beta::Overwrite)?;
    Ok(dx)
}

/// [`relu_backward`] to a tensor that is there.
///
/// # Errors
/// As [`relu_into`].
pub fn relu_backward_into<'a, 'b, 'c, D: Float>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    y: impl Into<TensorRef<'b, D>>,
    dx: impl Into<TensorMut<'c, D>>,
    beta: Beta,
) -> Result<()> {
    const OP: &str = "relu_backward";
    let (dy, y, dx) = (dy.into(), y.into(), dx.into());
    same_shape(OP, "y", y.shape(), dy.shape(), "dy")?;
    same_shape(OP, "dx", dx.shape(), dy.shape(), "dy")?;
    contiguous(OP, "dy", &dy)?;
    contiguous(OP, "y", &y)?;
    contiguous(OP, "dx", &dx.as_ref())?;
    let [b, n] = two_factors(OP, dy.shape())?;
    let kernel = cached(&[BLOCK], || ReluBackward::<D>::try_new(BLOCK))?;
    let uses = [dy.reads("dy"), y.reads("y"), dx.writes("dx")];
    let args = (dy.pointer(), y.pointer(), dx.pointer(), b, n);
    Call::new(stream).beta(beta).run(&kernel, args, &uses)
}
