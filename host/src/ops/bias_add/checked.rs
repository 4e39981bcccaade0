//! A bias for each channel, on tensors.

use super::{BiasAddBackward, BiasAddForward};
use crate::device::Stream;
use crate::element::Num;
use crate::error::{Error, Result};
use crate::ops::run::{Beta, Call, cached, contiguous, extents, same_shape, two_factors};
use crate::tensor::{Tensor, TensorMut, TensorRef};

const BLOCK: i32 = 1024;
const THREADS: i32 = 256;

/// Batch, channels and the two factors of the rest.
fn problem(op: &'static str, name: &'static str, shape: &[usize]) -> Result<([i32; 4], usize)> {
    let [b, c, rest @ ..] = shape else {
        let need = "it must have a batch and channels".to_owned();
        return Err(Error::Shape { op, name, have: shape.to_vec(), need });
    };
    let [batch, channels] = extents(op, [("b", *b), ("c", *c)])?;
    let [h, w] = two_factors(op, rest)?;
    Ok(([batch, channels, h, w], *c))
}

/// `x[b, c, …] + bias[c]`, as [`BiasAddForward`] says.
///
/// # Errors
/// [`Shape`](Error::Shape), [`NotContiguous`](Error::NotContiguous), and what every operation checks.
pub fn bias_add<'a, 'b, D: Num>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    bias: impl Into<TensorRef<'b, D>>,
) -> Result<Tensor<D>> {
    let x = x.into();
    let mut y = Tensor::uninitialised(stream, x.shape())?;
    bias_add_into(stream, x, bias, &mut y)?;
    Ok(y)
}

/// [`bias_add`] to a tensor that is there.
///
/// # Errors
/// As [`bias_add`].
pub fn bias_add_into<'a, 'b, 'c, D: Num>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    bias: impl Into<TensorRef<'b, D>>,
    y: impl Into<TensorMut<'c, D>>,
) -> Result<()> {
    const OP: &str = "bias_add";
    let (x, bias, y) = (x.into(), bias.into(), y.into());
    let ([b, c, h, w], channels) = problem(OP, "x", x.shape())?;
    same_shape(OP, "bias", bias.shape(), &[channels], "[C] of x")?;
    same_shape(OP, "y", y.shape(), x.shape(), "x")?;
    contiguous(OP, "x", &x)?;
    contiguous(OP, "bias", &bias)?;
    contiguous(OP, "y", &y.as_ref())?;
    let kernel = cached(&[BLOCK], || BiasAddForward::<D>::try_new(BLOCK))?;
    let uses = [x.reads("x"), bias.reads("bias"), y.writes("y")];
    Call::new(stream).run(&kernel, (x.pointer(), bias.pointer(), y.pointer(), b, c, h, w), &uses)
}

/// The gradient of [`bias_add`] with respect to the bias, as [`BiasAddBackward`] says. (With respect to x it is `dy`.)
///
/// # Errors
/// As [`bias_add`].
pub fn bias_add_backward<'a, D: Num>(stream: &Stream, dy: impl Into<TensorRef<'a, D>>) -> Result<Tensor<D>> {
    let dy = dy.into();
    let (_, channels) = problem("bias_add_backward", "dy", dy.shape())?;
    let mut dbias = Tensor::uninitialised(stream, &[channels])?;
    bias_add_backward_into(stream, dy, &mut dbias, Beta::Overwrite)?;
    Ok(dbias)
}

/// [`bias_add_backward`] to a tensor that is there.
///
/// # Errors
/// As [`bias_add`].
pub fn bias_add_backward_into<'a, 'b, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    dbias: impl Into<TensorMut<'b, D>>,
    beta: Beta,
) -> Result<()> {
    const OP: &str = "bias_add_backward";
    let (dy, dbias) = (dy.into(), dbias.into());
    let (problem, channels) = problem(OP, "dy", dy.shape())?;
    same_shape(OP, "dbias", dbias.shape(), &[channels], "[C] of dy")?;
    sum_channels(OP, stream, dy, &dbias, problem, beta)
}

/// The sum of all elements, to a tensor of one element: a bias gradient with a single channel.
///
/// # Errors
/// As [`bias_add`].
pub fn sum_into<'a, 'b, D: Num>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    sum: impl Into<TensorMut<'b, D>>,
    beta: Beta,
) -> Result<()> {
    const OP: &str = "sum";
    let (x, sum) = (x.into(), sum.into());
    same_shape(OP, "sum", sum.shape(), &[1], "a sum")?;
    let [b, n] = two_factors(OP, x.shape())?;
    sum_channels(OP, stream, x, &sum, [b, 1, 1, n], beta)
}

fn sum_channels<D: Num>(
    op: &'static str,
    stream: &Stream,
    dy: TensorRef<'_, D>,
    dbias: &TensorMut<'_, D>,
    [b, c, h, w]: [i32; 4],
    beta: Beta,
) -> Result<()> {
    contiguous(op, "dy", &dy)?;
    contiguous(op, "dbias", &dbias.as_ref())?;
    let kernel = cached(&[THREADS], || BiasAddBackward::<D>::try_new(THREADS))?;
    let uses = [dy.reads("dy"), dbias.writes("dbias")];
    Call::new(stream).beta(beta).run(&kernel, (dy.pointer(), dbias.pointer(), b, c, h, w), &uses)
}
