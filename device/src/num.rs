//! Element types and what kernels do with them.

use crate::gpu;

/// An IEEE half, kept as its bits: stable host builds have no `f16`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct F16(pub u16);

/// A bfloat16, kept as its bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Bf16(pub u16);

/// An element of a tensor.
///
/// Sums run in [`Acc`](Num::Acc) and are rounded to the element once: f16 and bf16 accumulate in f32, f32
/// and f64 in themselves with fused multiply-adds, integers wrap.
pub trait Num: Copy {
    /// What sums are kept in.
    type Acc: Copy;

    /// The empty sum.
    const ZERO: Self::Acc;

    /// The element's value; exact.
    fn widen(self) -> Self::Acc;

    /// The nearest element, ties to even.
    fn narrow(sum: Self::Acc) -> Self;

    /// `a + b`.
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;

    /// `a · b + sum`, rounded once.
    fn mul_add(a: Self, b: Self, sum: Self::Acc) -> Self::Acc;
}

/// Stores a result: overwrites, or adds to what is there and rounds once more.
///
/// # Safety
/// `to` is valid for a read and a write of one element, and no other thread touches it.
#[inline(always)]
pub unsafe fn put<E: Num>(to: *mut E, sum: E::Acc, accumulate: u32) {
    // SAFETY: by this function's contract.
    unsafe {
        let sum = if accumulate == 0 { sum } else { E::add(E::widen(*to), sum) };
        *to = E::narrow(sum);
    }
}

/// Moves one element: copies its bits, or adds it to what is there.
///
/// # Safety
/// `from` is valid for a read, `to` for a read and a write of one element, and no other thread touches
/// `to`.
#[inline(always)]
pub unsafe fn copy_or_add<E: Num>(from: *const E, to: *mut E, accumulate: u32) {
    // SAFETY: by this function's contract.
    unsafe {
        let value = *from;
        *to = if accumulate == 0 { value } else { E::narrow(E::add(E::widen(*to), E::widen(value))) };
    }
}

macro_rules! integer {
    ($($ty:ty),*) => { $(
        impl Num for $ty {
            type Acc = $ty;
            const ZERO: $ty = 0;

            #[inline(always)]
            fn widen(self) -> $ty {
                self
            }

            #[inline(always)]
            fn narrow(sum: $ty) -> $ty {
                sum
            }

            #[inline(always)]
            fn add(a: $ty, b: $ty) -> $ty {
                a.wrapping_add(b)
            }

            #[inline(always)]
            fn mul_add(a: $ty, b: $ty, sum: $ty) -> $ty {
                a.wrapping_mul(b).wrapping_add(sum)
            }
        }
    )* };
}

integer!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! float {
    ($ty:ty, $acc:ty, $fma:path, $widen:expr, $narrow:expr) => {
        impl Num for $ty {
            type Acc = $acc;
            const ZERO: $acc = 0.0;

            #[inline(always)]
            fn widen(self) -> $acc {
                $widen(self)
            }

            #[inline(always)]
            fn narrow(sum: $acc) -> $ty {
                $narrow(sum)
            }

            #[inline(always)]
            fn add(a: $acc, b: $acc) -> $acc {
                a + b
            }

            #[inline(always)]
            fn mul_add(a: $ty, b: $ty, sum: $acc) -> $acc {
                $fma(a.widen(), b.widen(), sum)
            }
        }
    };
}

float!(f32, f32, gpu::fma_f32, |x| x, |x| x);
float!(f64, f64, gpu::fma_f64, |x| x, |x| x);
float!(F16, f32, gpu::fma_f32, |x: F16| gpu::f16_to_f32(x.0), |x| F16(gpu::f32_to_f16(x)));
float!(Bf16, f32, gpu::fma_f32, |x: Bf16| f32::from_bits(u32::from(x.0) << 16), bf16_from_f32);

/// Rounds to nearest even in integers: the same bits as `cvt.rn.bf16.f32`, which needs `sm_80`.
#[inline(always)]
fn bf16_from_f32(value: f32) -> Bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    Bf16(if value.is_nan() { 0x7fff } else { rounded as u16 })
}
