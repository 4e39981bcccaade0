//! Conversion between float types, a kernel for each target.

pub(super) mod checked;

use crate::element::Float;
use crate::error::Result;
use crate::kernel::{Kernel, LaunchOptions, kernel};
use crate::ops::memory::{for_each_stretch, input, output};
use crate::plan::Plan;

kernel! {
    /// Converts floats to IEEE halves.
    ///
    /// **Formula.** `y[i] = x[i]`, rounded to nearest, ties to even, once; beyond the range it is infinite.
    ///
    /// **Shapes**, in elements: `x` and `y` are `[b, n]`, contiguous; a tensor of any shape is one such.
    ///
    /// **Written**: all of `y`. **Determinism**: exact; a NaN stays one, its payload does not.
    ///
    /// **Errors**: negative extents; what every launch checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `x.to(torch.float16)`. **Bytes moved**: `b · n` times both elements' sizes.
    CastToF16("cast_to_f16", Float) {
        /// Elements of the result, laid end to end, that a block covers.
        block_size: Positive,
    }
    args(x: *mut D, y: *mut half::f16, b: i32, n: i32)
    plan(plan_cast)
    reference(reference)
}

kernel! {
    /// Converts floats to bfloat16.
    ///
    /// **Formula.** `y[i] = x[i]`, rounded to nearest, ties to even, once; beyond the range it is infinite.
    ///
    /// **Shapes**, in elements: `x` and `y` are `[b, n]`, contiguous; a tensor of any shape is one such.
    ///
    /// **Written**: all of `y`. **Determinism**: exact; a NaN stays one, its payload does not.
    ///
    /// **Errors**: negative extents; what every launch checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `x.to(torch.bfloat16)`. **Bytes moved**: `b · n` times both elements' sizes.
    CastToBf16("cast_to_bf16", Float) {
        /// Elements of the result, laid end to end, that a block covers.
        block_size: Positive,
    }
    args(x: *mut D, y: *mut half::bf16, b: i32, n: i32)
    plan(plan_cast)
    reference(reference)
}

kernel! {
    /// Converts floats to f32.
    ///
    /// **Formula.** `y[i] = x[i]`, rounded to nearest, ties to even, once; beyond the range it is infinite.
    ///
    /// **Shapes**, in elements: `x` and `y` are `[b, n]`, contiguous; a tensor of any shape is one such.
    ///
    /// **Written**: all of `y`. **Determinism**: exact; a NaN stays one, its payload does not.
    ///
    /// **Errors**: negative extents; what every launch checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `x.to(torch.float32)`. **Bytes moved**: `b · n` times both elements' sizes.
    CastToF32("cast_to_f32", Float) {
        /// Elements of the result, laid end to end, that a block covers.
        block_size: Positive,
    }
    args(x: *mut D, y: *mut f32, b: i32, n: i32)
    plan(plan_cast)
    reference(reference)
}

kernel! {
    /// Converts floats to f64.
    ///
    /// **Formula.** `y[i] = x[i]`, rounded to nearest, ties to even, once; beyond the range it is infinite.
    ///
    /// **Shapes**, in elements: `x` and `y` are `[b, n]`, contiguous; a tensor of any shape is one such.
    ///
    /// **Written**: all of `y`. **Determinism**: exact; a NaN stays one, its payload does not.
    ///
    /// **Errors**: negative extents; what every launch checks (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `x.to(torch.float64)`. **Bytes moved**: `b · n` times both elements' sizes.
    CastToF64("cast_to_f64", Float) {
        /// Elements of the result, laid end to end, that a block covers.
        block_size: Positive,
    }
    args(x: *mut D, y: *mut f64, b: i32, n: i32)
    plan(plan_cast)
    reference(reference)
}

/// What the four kernels have in common.
trait Cast {
    fn block_size(&self) -> i32;
}

macro_rules! block_sizes {
    ($($kernel:ident),*) => { $(
        impl<D: Float> Cast for $kernel<D> {
            fn block_size(&self) -> i32 {
                self.block_size
            }
        }
    )* };
}

block_sizes!(CastToF16, CastToBf16, CastToF32, CastToF64);

fn plan_cast<D: Float, T: Float>(
    kernel: &impl Cast,
    args: &(*mut D, *mut T, i32, i32),
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (x, y, b, n) = *args;
    plan.not_negative(&[("b", b), ("n", n)])?;
    plan.reject_rows(options)?;
    plan.reject_accumulate(options)?;
    let total = plan.volume("x", &[i64::from(b), i64::from(n)])?;
    plan.reads("x", x, total)?;
    plan.writes("y", y, total, options)?;
    plan.sweeps(total, i64::from(kernel.block_size()));
    Ok(())
}

/// The formula in a literal loop.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
unsafe fn reference<D: Float, T: Float>(
    _: &impl Kernel,
    args: &(*mut D, *mut T, i32, i32),
    _: &LaunchOptions<'_>,
) {
    let (x, y, b, n) = *args;
    let total = i64::from(b) * i64::from(n);
    // SAFETY: by this function's contract.
    let (x, y) = unsafe { (input(x, total), output(y, total)) };
    for_each_stretch(y, &|first, y| {
        for (to, value) in y.iter_mut().zip(&x[first..]) {
            to.write(T::narrow(value.widen()));
        }
    });
}
