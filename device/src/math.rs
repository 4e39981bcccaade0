//! Real arithmetic with exp and ln: `core` has neither for a GPU, and no libdevice is linked.
//!
//! **exp.** `x = n·ln 2 + r` with `n` the nearest integer and `|r| ≤ ln 2 / 2`; ln 2 is subtracted in two parts
//! (Cody and Waite), so that r keeps its bits. exp r is its Taylor polynomial in fused multiply-adds (degree 7
//! in f32, 13 in f64: the rest is below a tenth of a unit in the last place), and 2ⁿ is multiplied on in two
//! halves, so that overflow and subnormal results come out right.
//!
//! **ln.** `x = 2ⁿ·m` with m in `[√½, √2)`. With `f = m − 1` and `s = f / (2 + f)`, `ln m = 2·artanh s`, written as
//! `f − (f²/2 − s·(f²/2 + R))` with R an even polynomial in s, which keeps all bits of a small f (the scheme of
//! fdlibm's `log`).
//!
//! `tests/tests/ops_math.rs` measures both against f64 over a dense sweep.

use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::gpu;
use crate::num::{Bf16, F16, Num};

/// What sums of floats are kept in: f32 or f64.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Below every number.
    const NEG_INFINITY: Self;
    /// No number.
    const NAN: Self;

    /// The nearest number, for scalars that a launch carries.
    fn from_f64(value: f64) -> Self;

    /// The nearest f32.
    fn to_f32(self) -> f32;

    /// An f32 that rounds on to fewer bits as this number would: towards zero, with the last bit set if that lost
    /// anything.
    fn to_odd_f32(self) -> f32;

    /// The number; exact.
    fn to_f64(self) -> f64;

    /// Whether it is minus zero or below. In integers: of a comparison of floats and a choice by it, ptxas makes a maximum,
    /// which loses the bits of a NaN.
    fn is_below_zero(self) -> bool;

    /// `a · b + c` with one rounding.
    fn fma(a: Self, b: Self, c: Self) -> Self;

    /// e to the power of x.
    #[must_use]
    fn exp(self) -> Self;

    /// The natural logarithm.
    #[must_use]
    fn ln(self) -> Self;
}

/// A floating-point element.
pub trait Float: Num<Acc: Real> {}

impl Float for F16 {}
impl Float for Bf16 {}
impl Float for f32 {}
impl Float for f64 {}

/// The larger of two numbers, or NaN if either is.
#[inline(always)]
pub fn max<R: Real>(a: R, b: R) -> R {
    // A comparison with NaN is false.
    if b > a || is_nan(b) { b } else { a }
}

/// Whether it is no number.
#[inline(always)]
pub fn is_nan<R: Real>(a: R) -> bool {
    a.partial_cmp(&a).is_none()
}

macro_rules! real {
    (
        $ty:ident, $bits:ident, $int:ident, $fma:path;
        fraction $fraction:literal, bias $bias:literal, magic $magic:literal;
        exp from $lowest:literal to $highest:literal, ln2 $ln2_high:literal + $ln2_low:literal,
        taylor [$($taylor:expr),+];
        ln scale $scale:literal by 2^$scale_bits:literal, artanh [$($artanh:expr),+]
    ) => {
        impl Real for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $ty::NEG_INFINITY;
            const NAN: Self = $ty::NAN;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $ty
            }

            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn to_odd_f32(self) -> f32 {
                let nearest = self as f32;
                let back = nearest as $ty;
                if is_nan(self) || back.to_bits() == self.to_bits() {
                    return nearest;
                }
                let outside = back.abs() > self.abs();
                f32::from_bits((nearest.to_bits() - u32::from(outside)) | 1)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn is_below_zero(self) -> bool {
                // From minus zero to minus infinity.
                self.to_bits().wrapping_sub($ty::to_bits(-0.0)) <= $ty::INFINITY.to_bits()
            }

            #[inline(always)]
            fn fma(a: Self, b: Self, c: Self) -> Self {
                $fma(a, b, c)
            }

            #[inline(always)]
            fn exp(self) -> Self {
                // Beyond these the result is zero or infinite; NaN passes both comparisons.
                let x = if self > $highest { $highest } else { self };
                let x = if x < $lowest { $lowest } else { x };
                // Adding 1.5·2^fraction rounds to an integer and leaves it in the low bits.
                let shifted = $fma(x, core::$ty::consts::LOG2_E, $magic);
                let n = (shifted.to_bits() as $int).wrapping_sub(($magic as $ty).to_bits() as $int);
                let whole = shifted - $magic;
                let r = $fma(whole, -$ln2_low, $fma(whole, -$ln2_high, x));
                let mut p: $ty = 0.0;
                $( p = $fma(p, r, $taylor); )+
                let power = |n: $int| {
                    $ty::from_bits((n.wrapping_add($bias).wrapping_shl($fraction)) as $bits)
                };
                let half = n >> 1;
                p * power(half) * power(n.wrapping_sub(half))
            }

            #[inline(always)]
            fn ln(self) -> Self {
                if self <= 0.0 || self.to_bits() >= $ty::INFINITY.to_bits() {
                    // Zero, infinity and NaN by their limits; below zero there is none.
                    let limit = if self < 0.0 { $ty::NAN } else { self };
                    return if self == 0.0 { $ty::NEG_INFINITY } else { limit };
                }
                let small = self < $ty::MIN_POSITIVE;
                let x = if small { self * $scale } else { self };
                let root = core::$ty::consts::FRAC_1_SQRT_2.to_bits() as $int;
                let bits = x.to_bits() as $int;
                let n = bits.wrapping_sub(root) >> $fraction;
                let m = $ty::from_bits(bits.wrapping_sub(n << $fraction) as $bits);
                let n = (if small { n - $scale_bits } else { n }) as $ty;
                let f = m - 1.0;
                let s = f / (2.0 + f);
                let z = s * s;
                let mut series: $ty = 0.0;
                $( series = $fma(series, z, $artanh); )+
                let half_square = 0.5 * f * f;
                let correction = $fma(s, half_square + z * series, n * $ln2_low);
                $fma(n, $ln2_high, f - (half_square - correction))
            }
        }
    };
}

// The high part of ln 2 has so few bits that its products with n are exact.
real! {
    f32, u32, i32, gpu::fma_f32;
    fraction 23, bias 127, magic 12_582_912.0;
    exp from -104.0 to 89.0, ln2 0.693_359_4 + -2.121_944_4e-4,
    taylor [
        1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0
    ];
    ln scale 8_388_608.0 by 2^23, artanh [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]
}

real! {
    f64, u64, i64, gpu::fma_f64;
    fraction 52, bias 1023, magic 6_755_399_441_055_744.0;
    exp from -746.0 to 710.0, ln2 0.693_147_180_369_123_8 + 1.908_214_929_270_587_7e-10,
    taylor [
        1.0 / 6_227_020_800.0, 1.0 / 479_001_600.0, 1.0 / 39_916_800.0, 1.0 / 3_628_800.0, 1.0 / 362_880.0,
        1.0 / 40_320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0
    ];
    ln scale 4_503_599_627_370_496.0 by 2^52, artanh [
        2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0,
        2.0 / 3.0
    ]
}
