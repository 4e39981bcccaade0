//! Conversion of tensors.

use super::{CastToBf16, CastToF16, CastToF32, CastToF64};
use crate::device::Stream;
use crate::element::{DType, Float};
use crate::error::{Error, Result};
use crate::ops::run::{Call, cached, contiguous, same_shape, two_factors};
use crate::tensor::{Tensor, TensorMut, TensorRef};

const BLOCK: i32 = 1024;

/// The elements in another float type, rounded to nearest.
///
/// # Errors
/// [`NotContiguous`](Error::NotContiguous), and what every operation checks.
pub fn cast<'a, D: Float, T: Float>(stream: &Stream, x: impl Into<TensorRef<'a, D>>) -> Result<Tensor<T>> {
    let x = x.into();
    let mut y = Tensor::uninitialised(stream, x.shape())?;
    cast_into(stream, x, &mut y)?;
    Ok(y)
}

/// [`cast`] to a tensor that is there. The gradient of a cast is the cast of the gradient.
///
/// # Errors
/// As [`cast`]; [`Shape`](Error::Shape).
pub fn cast_into<'a, 'b, D: Float, T: Float>(
    stream: &Stream,
    x: impl Into<TensorRef<'a, D>>,
    y: impl Into<TensorMut<'b, T>>,
) -> Result<()> {
    const OP: &str = "cast";
    let (x, y) = (x.into(), y.into());
    same_shape(OP, "y", y.shape(), x.shape(), "x")?;
    contiguous(OP, "x", &x)?;
    contiguous(OP, "y", &y.as_ref())?;
    let [b, n] = two_factors(OP, x.shape())?;
    let uses = [x.reads("x"), y.writes("y")];
    let call = Call::new(stream);
    // The target's pointer is of the type that the arm names.
    macro_rules! run {
        ($kernel:ident) => {{
            let kernel = cached(&[BLOCK], || $kernel::<D>::try_new(BLOCK))?;
            call.run(&kernel, (x.pointer(), y.pointer().cast(), b, n), &uses)
        }};
    }
    match T::DTYPE {
        DType::F16 => run!(CastToF16),
        DType::Bf16 => run!(CastToBf16),
        DType::F32 => run!(CastToF32),
        DType::F64 => run!(CastToF64),
        other => Err(Error::MissingModule { kernel: OP, dtype: other.name() }),
    }
}
