//! Channel concatenation of tensors.

use super::{ChannelCatBackward, ChannelCatForward};
use crate::device::Stream;
use crate::element::{Element, Num};
use crate::error::{Error, Result};
use crate::ops::run::{Beta, Call, cached, contiguous, extents};
use crate::tensor::{Tensor, TensorMut, TensorRef};

const BLOCK: i32 = 1024;

/// The shape of one input's tensor with other channels.
fn with_channels(
    op: &'static str,
    name: &'static str,
    shape: &[usize],
    channels: usize,
) -> Result<Vec<usize>> {
    if shape.len() < 2 {
        let need = "it must have a batch and channels".to_owned();
        return Err(Error::Shape { op, name, have: shape.to_vec(), need });
    }
    let mut with = shape.to_vec();
    with[1] = channels;
    Ok(with)
}

/// Fails unless the inputs' shapes, side by side along the channels, make the joined one.
fn check<'a>(op: &'static str, joined: &[usize], inputs: impl Iterator<Item = &'a [usize]>) -> Result<()> {
    with_channels(op, "the joined tensor", joined, 0)?;
    let mut channels = 0;
    for shape in inputs {
        let count = shape.get(1).copied().unwrap_or(0);
        let need = with_channels(op, "the joined tensor", joined, count)?;
        if shape != need {
            let need = format!("its extents but for the channels must be those of {joined:?}");
            return Err(Error::Shape { op, name: "an input", have: shape.to_vec(), need });
        }
        channels += count;
    }
    if channels == joined[1] {
        return Ok(());
    }
    let need = format!("the inputs have {channels} channels in all");
    Err(Error::Shape { op, name: "the joined tensor", have: joined.to_vec(), need })
}

/// The inputs side by side along dimension 1, as [`ChannelCatForward`] says: any number of them, of different sizes.
///
/// # Errors
/// [`Shape`](Error::Shape), also for no inputs; [`NotContiguous`](Error::NotContiguous), and what every operation
/// checks.
pub fn channel_cat<D: Element>(stream: &Stream, inputs: &[TensorRef<'_, D>]) -> Result<Tensor<D>> {
    const OP: &str = "channel_cat";
    let none = || Error::Shape { op: OP, name: "inputs", have: Vec::new(), need: "one is needed".to_owned() };
    let first = inputs.first().ok_or_else(none)?.shape();
    let channels = inputs.iter().map(|input| input.shape().get(1).copied().unwrap_or(0)).sum();
    let mut y = Tensor::uninitialised(stream, &with_channels(OP, "an input", first, channels)?)?;
    channel_cat_into(stream, inputs, &mut y)?;
    Ok(y)
}

/// [`channel_cat`] to a tensor that is there.
///
/// # Errors
/// As [`channel_cat`].
pub fn channel_cat_into<'b, D: Element>(
    stream: &Stream,
    inputs: &[TensorRef<'_, D>],
    y: impl Into<TensorMut<'b, D>>,
) -> Result<()> {
    const OP: &str = "channel_cat";
    let y = y.into();
    check(OP, y.shape(), inputs.iter().map(TensorRef::shape))?;
    contiguous(OP, "y", &y.as_ref())?;
    inputs.iter().try_for_each(|input| contiguous(OP, "an input", input))?;
    let kernel = cached(&[BLOCK], || ChannelCatForward::<D>::try_new(BLOCK))?;
    let mut offset = 0;
    for input in inputs {
        let [chunk, total, start] = columns(OP, y.shape(), input.shape()[1], offset)?;
        let args = (input.pointer(), y.pointer(), chunk, total, start);
        let uses = [input.reads("an input"), y.writes("y")];
        Call::new(stream).rows(y.shape()[0]).run(&kernel, args, &uses)?;
        offset += input.shape()[1];
    }
    Ok(())
}

/// The gradient of [`channel_cat`]: each input's, as [`ChannelCatBackward`] says. `channels` has the inputs' channels.
///
/// # Errors
/// As [`channel_cat`].
pub fn channel_cat_backward<'a, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    channels: &[usize],
) -> Result<Vec<Tensor<D>>> {
    let dy = dy.into();
    let shape = |&count: &usize| with_channels("channel_cat_backward", "dy", dy.shape(), count);
    let mut parts = channels
        .iter()
        .map(|count| Tensor::uninitialised(stream, &shape(count)?))
        .collect::<Result<Vec<_>>>()?;
    let mut outputs: Vec<_> = parts.iter_mut().map(Tensor::view_mut).collect();
    channel_cat_backward_into(stream, dy, &mut outputs, Beta::Overwrite)?;
    drop(outputs);
    Ok(parts)
}

/// [`channel_cat_backward`] to tensors that are there.
///
/// # Errors
/// As [`channel_cat`].
pub fn channel_cat_backward_into<'a, D: Num>(
    stream: &Stream,
    dy: impl Into<TensorRef<'a, D>>,
    dx: &mut [TensorMut<'_, D>],
    beta: Beta,
) -> Result<()> {
    const OP: &str = "channel_cat_backward";
    let dy = dy.into();
    check(OP, dy.shape(), dx.iter().map(TensorMut::shape))?;
    contiguous(OP, "dy", &dy)?;
    dx.iter().try_for_each(|part| contiguous(OP, "a part of dx", &part.as_ref()))?;
    let kernel = cached(&[BLOCK], || ChannelCatBackward::<D>::try_new(BLOCK))?;
    let mut offset = 0;
    for part in dx {
        let [chunk, total, start] = columns(OP, dy.shape(), part.shape()[1], offset)?;
        let args = (dy.pointer(), part.pointer(), chunk, total, start);
        let uses = [dy.reads("dy"), part.writes("a part of dx")];
        Call::new(stream).beta(beta).rows(dy.shape()[0]).run(&kernel, args, &uses)?;
        offset += part.shape()[1];
    }
    Ok(())
}

/// Elements of a row of the chunk, of the joined tensor, and before the chunk.
fn columns(op: &'static str, joined: &[usize], channels: usize, offset: usize) -> Result<[i32; 3]> {
    let image: usize = joined[2..].iter().product();
    extents(
        op,
        [("chunk_c", channels * image), ("c_total", joined[1] * image), ("chunk_offset", offset * image)],
    )
}
