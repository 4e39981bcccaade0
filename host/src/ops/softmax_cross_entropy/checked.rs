//! Cross entropy on tensors.

use super::{SoftmaxCrossEntropyBackward, SoftmaxCrossEntropyForward};
use crate::device::Stream;
use crate::element::Float;
use crate::error::Result;
use crate::ops::run::{Beta, Call, cached, contiguous, dims, extents, same_shape};
use crate::tensor::{Tensor, TensorMut, TensorRef};

const THREADS: i32 = 256;

/// The loss of each row, times `scale`, as [`SoftmaxCrossEntropyForward`] says; with `scale = 1/B`,
/// [`sum_into`](crate::ops::sum_into) makes the mean of them. A label outside `0..K` makes its row's loss NaN.
///
/// # Errors
/// [`Shape`](crate::Error::Shape), [`NotContiguous`](crate::Error::NotContiguous), and what every operation checks.
pub fn softmax_cross_entropy<'a, 'b, D: Float>(
    stream: &Stream,
    logits: impl Into<TensorRef<'a, D>>,
    labels: impl Into<TensorRef<'b, i32>>,
    scale: f64,
) -> Result<Tensor<D>> {
    let (logits, labels) = (logits.into(), labels.into());
    let mut loss = Tensor::uninitialised(stream, labels.shape())?;
    softmax_cross_entropy_into(stream, logits, labels, scale, &mut loss)?;
    Ok(loss)
}

/// [`softmax_cross_entropy`] to a tensor that is there.
///
/// # Errors
/// As [`softmax_cross_entropy`].
pub fn softmax_cross_entropy_into<'a, 'b, 'c, D: Float>(
    stream: &Stream,
    logits: impl Into<TensorRef<'a, D>>,
    labels: impl Into<TensorRef<'b, i32>>,
    scale: f64,
    loss: impl Into<TensorMut<'c, D>>,
) -> Result<()> {
    const OP: &str = "softmax_cross_entropy";
    let (logits, labels, loss) = (logits.into(), labels.into(), loss.into());
    let [rows, columns] = dims(OP, "logits", logits.shape(), "[B, K]")?;
    same_shape(OP, "labels", labels.shape(), &[rows], "[B] of logits")?;
    same_shape(OP, "loss", loss.shape(), &[rows], "[B] of logits")?;
    contiguous(OP, "logits", &logits)?;
    contiguous(OP, "labels", &labels)?;
    contiguous(OP, "loss", &loss.as_ref())?;
    let [b, k] = extents(OP, [("b", rows), ("k", columns)])?;
    let kernel = cached(&[THREADS], || SoftmaxCrossEntropyForward::<D>::try_new(THREADS))?;
    let uses = [logits.reads("logits"), labels.reads("labels"), loss.writes("loss")];
    let args = (logits.pointer(), labels.pointer(), loss.pointer(), b, k, scale);
    Call::new(stream).run(&kernel, args, &uses)
}

/// The gradient of the sum of [`softmax_cross_entropy`]'s losses, as [`SoftmaxCrossEntropyBackward`] says.
///
/// # Errors
/// As [`softmax_cross_entropy`].
pub fn softmax_cross_entropy_backward<'a, 'b, D: Float>(
    stream: &Stream,
    logits: impl Into<TensorRef<'a, D>>,
    labels: impl Into<TensorRef<'b, i32>>,
    scale: f64,
) -> Result<Tensor<D>> {
    let logits = logits.into();
    let mut dlogits = Tensor::uninitialised(stream, logits.shape())?;
    softmax_cross_entropy_backward_into(stream, logits, labels, scale, &mut dlogits, Beta::Overwrite)?;
    Ok(dlogits)
}

/// [`softmax_cross_entropy_backward`] to a tensor that is there.
///
/// # Errors
/// As [`softmax_cross_entropy`].
pub fn softmax_cross_entropy_backward_into<'a, 'b, 'c, D: Float>(
    stream: &Stream,
    logits: impl Into<TensorRef<'a, D>>,
    labels: impl Into<TensorRef<'b, i32>>,
    scale: f64,
    dlogits: impl Into<TensorMut<'c, D>>,
    beta: Beta,
) -> Result<()> {
    const OP: &str = "softmax_cross_entropy_backward";
    let (logits, labels, dlogits) = (logits.into(), labels.into(), dlogits.into());
    let [rows, columns] = dims(OP, "logits", logits.shape(), "[B, K]")?;
    same_shape(OP, "labels", labels.shape(), &[rows], "[B] of logits")?;
    same_shape(OP, "dlogits", dlogits.shape(), logits.shape(), "logits")?;
    contiguous(OP, "logits", &logits)?;
    contiguous(OP, "labels", &labels)?;
    contiguous(OP, "dlogits", &dlogits.as_ref())?;
    let [b, k] = extents(OP, [("b", rows), ("k", columns)])?;
    let kernel = cached(&[THREADS], || SoftmaxCrossEntropyBackward::<D>::try_new(THREADS))?;
    let uses = [logits.reads("logits"), labels.reads("labels"), dlogits.writes("dlogits")];
    let args = (logits.pointer(), labels.pointer(), dlogits.pointer(), b, k, scale);
    Call::new(stream).beta(beta).run(&kernel, args, &uses)
}
