//! Flattening of tensors, and copies of views.

use super::{FlattenBackward, FlattenForward};
use crate::device::Stream;
use crate::element::{Element, Num};
use crate::error::Result;
use crate::ops::run::{Beta, Call, cached, contiguous as expect_contiguous, extents, same_shape};
use crate::tensor::{Layout, Tensor, TensorMut, TensorRef, not_contiguous};

const TILE: [i32; 2] = [64, 64];

/// Rows and columns of a layout whose trailing dimensions step like one: `[b, n, stride_b, stride_n]`.
fn matrix(op: &'static str, name: &'static str, layout: &Layout) -> Result<[i32; 4]> {
    let flat = layout.flatten().map_err(|_| not_contiguous(op, name, layout))?;
    let [b, n] = [flat.shape()[0], flat.shape()[1]];
    let [stride_b, stride_n] = [flat.strides()[0], flat.strides()[1]];
    // A stride that is never taken need not fit.
    let stride_b = if b > 1 { stride_b } else { 0 };
    let stride_n = if n > 1 { stride_n } else { 1 };
    extents(op, [("b", b), ("n", n), ("stride_b", stride_b), ("stride_n", stride_n)])
}

/// All dimensions but the first as one, in a new tensor, as [`FlattenForward`] says. The first dimension may step as it
/// likes, and so may the others together; [`TensorRef::flatten`] views the same without a copy where it can.
///
/// # Errors
/// [`NotContiguous`](crate::Error::NotContiguous) where the trailing dimensions do not step like one, and what every operation
/// checks.
pub fn flatten<'a, D: Element>(stream: &Stream, x: impl Into<TensorRef<'a, D>>) -> Result<Tensor<D>> {
    let x = x.into();
    let mut y = Tensor::uninitialised(stream, &flat_shape(x.shape()))?;
    flatten_into(stream, x, &mut y)?;
    Ok(y)
}

fn flat_shape(shape: &[usize]) -> [usize; 2] {
    [shape.first().copied().unwrap_or(1), shape.iter().skip(1).product()]
}

/// [`flatten`] to a tensor that is there.
///
/// # Errors
/// As [`flatten`]; [`Shape`](crate::Error::Shape).
pub fn flatten_into<'a, 'b, D: Element>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    y: impl Into<TensorMut<'b, D>>,
) -> Result<()> {
    const OP: &str = "flatten";
    let (x, y) = (x.into(), y.into());
    same_shape(OP, "y", y.shape(), &flat_shape(x.shape()), "x flattened")?;
    expect_contiguous(OP, "y", &y.as_ref())?;
    let [b, n, stride_b, stride_n] = matrix(OP, "x", x.layout())?;
    let kernel = cached(&TILE, || FlattenForward::<D>::try_new(TILE[0], TILE[1]))?;
    let uses = [x.reads("x"), y.writes("y")];
    Call::new(stream).run(&kernel, (x.pointer(), y.pointer(), b, n, stride_b, stride_n), &uses)
}

/// The gradient of [`flatten`] for an input of this shape, in a new tensor, as [`FlattenBackward`] says.
///
/// # Errors
/// As [`flatten`].
pub fn flatten_backward<'a, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    shape: &[usize],
) -> Result<Tensor<D>> {
    let mut dx = Tensor::uninitialised(stream, shape)?;
    flatten_backward_into(stream, dy, &mut dx, Beta::Overwrite)?;
    Ok(dx)
}

/// [`flatten_backward`] to a tensor that is there; between its elements nothing is touched.
///
/// # Errors
/// As [`flatten`]; [`AliasingStrides`](crate::Error::AliasingStrides).
pub fn flatten_backward_into<'a, 'b, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    dx: impl Into<TensorMut<'b, D>>,
    beta: Beta,
) -> Result<()> {
    const OP: &str = "flatten_backward";
    let (dy, dx) = (dy.into(), dx.into());
    same_shape(OP, "dy", dy.shape(), &flat_shape(dx.shape()), "dx flattened")?;
    expect_contiguous(OP, "dy", &dy)?;
    let [b, n, stride_b, stride_n] = matrix(OP, "dx", dx.layout())?;
    let kernel = cached(&TILE, || FlattenBackward::<D>::try_new(TILE[0], TILE[1]))?;
    let uses = [dy.reads("dy"), dx.writes("dx")];
    let args = (dy.pointer(), dx.pointer(), b, n, stride_b, stride_n);
    Call::new(stream).beta(beta).run(&kernel, args, &uses)
}

/// A copy of a view whose elements are row-major without gaps.
///
/// # Errors
/// [`Extent`](crate::Error::Extent) for strides beyond 32 bits, and what every operation checks.
pub fn contiguous<'a, D: Element>(stream: &Stream, x: impl Into<TensorRef<'a, D>>) -> Result<Tensor<D>> {
    let x = x.into();
    let mut y = Tensor::uninitialised(stream, x.shape())?;
    contiguous_into(stream, x, &mut y)?;
    Ok(y)
}

/// [`contiguous`] to a tensor that is there: one launch a matrix of the view's last two steps.
///
/// # Errors
/// As [`contiguous`]; [`Shape`](crate::Error::Shape).
pub fn contiguous_into<'a, 'b, D: Element>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    y: impl Into<TensorMut<'b, D>>,
) -> Result<()> {
    const OP: &str = "contiguous";
    let (x, y) = (x.into(), y.into());
    same_shape(OP, "y", y.shape(), x.shape(), "x")?;
    expect_contiguous(OP, "y", &y.as_ref())?;
    if x.is_empty() {
        return Ok(());
    }
    let (outer, [(rows, stride_b), (columns, stride_n)]) = x.layout().matrices();
    let named = [("b", rows), ("n", columns), ("stride_b", stride_b), ("stride_n", stride_n)];
    let [b, n, stride_b, stride_n] = extents(OP, named)?;
    let kernel = cached(&TILE, || FlattenForward::<D>::try_new(TILE[0], TILE[1]))?;
    let uses = [x.reads("x"), y.writes("y")];
    let matrices: usize = outer.iter().map(|&(extent, _)| extent).product();
    for number in 0..matrices {
        let mut rest = number;
        let offset: usize = outer.iter().rev().fold(0, |offset, &(extent, stride)| {
            let at = rest % extent;
            rest /= extent;
            offset + at * stride
        });
        let from = x.pointer().wrapping_add(offset);
        let to = y.pointer().wrapping_add(number * rows * columns);
        Call::new(stream).run(&kernel, (from, to, b, n, stride_b, stride_n), &uses)?;
    }
    Ok(())
}
