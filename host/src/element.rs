//! Element types of tensors, and the arithmetic that the CPU references do with them.

use half::{bf16, f16};
use std::fmt;
use std::str::FromStr;

use crate::kernels::Family;

/// An element type, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DType {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl DType {
    /// Every element type.
    pub const ALL: [Self; 12] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
    ];

    /// Its Rust name: `i8` … `u64`, `f16`, `bf16`, `f32`, `f64`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Bytes an element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The kind of module that serves it in a family of kernels.
    pub const fn kind(self, family: Family) -> &'static str {
        match (family, self) {
            (Family::Copy, _) => match self.size() {
                1 => "b8",
                2 => "b16",
                4 => "b32",
                _ => "b64",
            },
            (Family::Arithmetic, Self::U8) => "i8",
            (Family::Arithmetic, Self::U16) => "i16",
            (Family::Arithmetic, Self::U32) => "i32",
            (Family::Arithmetic, Self::U64) => "i64",
            (Family::Arithmetic | Family::Float | Family::Single | Family::F32, other) => other.name(),
        }
    }

    /// The type's name in device code.
    pub(crate) const fn device_name(self) -> &'static str {
        match self {
            Self::F16 => "F16",
            Self::Bf16 => "Bf16",
            other => other.name(),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|dtype| dtype.name()).collect();
            format!("no element type is called {name:?}; they are {}", names.join(", "))
        })
    }
}

mod sealed {
    /// Closes the set of element types, each of which can be a kernel's parameter.
    pub trait Sealed: crate::launch::IntoParam {}
}

/// An element of a tensor: plain bits of a known type, for which every bit pattern is a value.
pub trait Element: sealed::Sealed + Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The type as a value.
    const DTYPE: DType;
}

/// An element with the arithmetic of the CPU references.
///
/// Sums run in [`Sum`](Num::Sum) and are rounded to the element once: floats sum in `f64`, integers wrap.
pub trait Num: Element {
    /// What sums are kept in.
    type Sum: Copy + Default + Send + Sync;

    /// The element's value; exact.
    fn widen(self) -> Self::Sum;

    /// The nearest element, ties to even.
    fn narrow(sum: Self::Sum) -> Self;

    /// `a + b`.
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;

    /// `sum + a · b`.
    fn mul_add(a: Self, b: Self, sum: Self::Sum) -> Self::Sum;

    /// The nearest element to a small number; for tests and checks that make data.
    fn from_f64(value: f64) -> Self;

    /// The value as `f64`; integers beyond 2⁵³ are rounded.
    fn to_f64(self) -> f64;
}

macro_rules! integer {
    ($($ty:ident $dtype:ident),*) => { $(
        impl sealed::Sealed for $ty {}

        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }

        impl Num for $ty {
            type Sum = $ty;

            fn widen(self) -> $ty {
                self
            }

            fn narrow(sum: $ty) -> $ty {
                sum
            }

            fn add(a: $ty, b: $ty) -> $ty {
                a.wrapping_add(b)
            }

            fn mul_add(a: $ty, b: $ty, sum: $ty) -> $ty {
                sum.wrapping_add(a.wrapping_mul(b))
            }

            fn from_f64(value: f64) -> $ty {
                value as i64 as $ty
            }

            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )* };
}

integer!(i8 I8, i16 I16, i32 I32, i64 I64, u8 U8, u16 U16, u32 U32, u64 U64);

macro_rules! float {
    ($($ty:ident $dtype:ident $widen:expr, $narrow:expr);* $(;)?) => { $(
        impl sealed::Sealed for $ty {}

        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }

        impl Num for $ty {
            type Sum = f64;

            fn widen(self) -> f64 {
                $widen(self)
            }

            fn narrow(sum: f64) -> $ty {
                $narrow(sum)
            }

            fn add(a: f64, b: f64) -> f64 {
                a + b
            }

            fn mul_add(a: $ty, b: $ty, sum: f64) -> f64 {
                sum + a.widen() * b.widen()
            }

            fn from_f64(value: f64) -> $ty {
                $narrow(value)
            }

            fn to_f64(self) -> f64 {
                $widen(self)
            }
        }
    )* };
}

/// An f32 that rounds on to 16 bits as `x` itself would: towards zero, with the last bit set if that lost anything.
///
/// The conversions of `half` round twice on the way from f64, or drop low bits.
fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    if x.is_nan() || back.to_bits() == x.to_bits() {
        return nearest;
    }
    let outside = back.abs() > x.abs();
    f32::from_bits((nearest.to_bits() - u32::from(outside)) | 1)
}

float! {
    f16 F16 f16::to_f64, |x: f64| f16::from_f32(to_odd(x));
    bf16 Bf16 bf16::to_f64, |x: f64| bf16::from_f32(to_odd(x));
    f32 F32 f64::from, |x: f64| x as f32;
    f64 F64 |x: f64| x, |x: f64| x;
}

/// A floating-point element, for operations that integers have not.
pub trait Float: Num<Sum = f64> {
    /// What weights of this type are trained in: f32 for 16-bit floats, else the type itself.
    type Master: Float;
}

impl Float for f16 {
    type Master = f32;
}

impl Float for bf16 {
    type Master = f32;
}

impl Float for f32 {
    type Master = f32;
}

impl Float for f64 {
    type Master = f64;
}
