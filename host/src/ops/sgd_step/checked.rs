//! A step of gradient descent on tensors.

use super::SgdStep;
use crate::device::Stream;
use crate::element::Float;
use crate::error::Result;
use crate::ops::run::{Call, cached, contiguous, same_shape, two_factors};
use crate::tensor::{TensorMut, TensorRef};

const BLOCK: i32 = 1024;

/// Steps the weights `w` against their gradient, as [`SgdStep`] says. `numbers` is
/// `[rate, momentum, weight_decay, grad_scale]`, on the device; `copy`, where there is one, gets the new weights in the
/// gradient's type.
///
/// # Errors
/// [`Shape`](crate::Error::Shape), [`NotContiguous`](crate::Error::NotContiguous), and what every operation checks.
#[allow(clippy::needless_pass_by_value, reason = "outputs are given by value everywhere")]
pub fn sgd_step<'a, 'b, 'c, 'd, D: Float>(
    stream: &Stream,
    w: impl Into<TensorMut<'a, D::Master>>,
    velocity: impl Into<TensorMut<'b, D::Master>>,
    dw: impl Into<TensorRef<'c, D>>,
    copy: Option<TensorMut<'_, D>>,
    numbers: impl Into<TensorRef<'d, D::Master>>,
) -> Result<()> {
    const OP: &str = "sgd_step";
    let (w, velocity, dw, numbers) = (w.into(), velocity.into(), dw.into(), numbers.into());
    same_shape(OP, "velocity", velocity.shape(), w.shape(), "w")?;
    same_shape(OP, "dw", dw.shape(), w.shape(), "w")?;
    same_shape(OP, "numbers", numbers.shape(), &[4], "[rate, momentum, weight_decay, grad_scale]")?;
    contiguous(OP, "w", &w.as_ref())?;
    contiguous(OP, "velocity", &velocity.as_ref())?;
    contiguous(OP, "dw", &dw)?;
    contiguous(OP, "numbers", &numbers)?;
    let [b, n] = two_factors(OP, w.shape())?;
    let kernel = cached(&[BLOCK], || SgdStep::<D>::try_new(BLOCK))?;
    let uses = [w.writes("w"), velocity.writes("velocity"), dw.reads("dw"), numbers.reads("numbers")];
    let args = |copied| (w.pointer(), velocity.pointer(), dw.pointer(), copied, numbers.pointer(), b, n);
    let Some(copy) = copy else {
        return Call::new(stream).run(&kernel, args(std::ptr::null_mut()), &uses);
    };
    same_shape(OP, "copy", copy.shape(), w.shape(), "w")?;
    contiguous(OP, "copy", &copy.as_ref())?;
    let [w, velocity, dw, numbers] = uses;
    Call::new(stream).run(&kernel, args(copy.pointer()), &[w, velocity, dw, numbers, copy.writes("copy")])
}
