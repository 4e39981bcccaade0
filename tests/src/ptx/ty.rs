//! Scalar types of PTX.

use std::fmt;

/// A scalar type, as a suffix such as `.u32` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// A predicate.
    Pred,
    /// Untyped bits.
    B(u32),
    /// An unsigned integer.
    U(u32),
    /// A signed integer.
    S(u32),
    /// IEEE half precision.
    F16,
    /// Two halves in 32 bits, the first in the low bits.
    F16x2,
    /// The upper half of a single.
    Bf16,
    /// Two `bf16` in 32 bits, the first in the low bits.
    Bf16x2,
    /// A single with ten mantissa bits, in 32 bits.
    Tf32,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Ty {
    /// The type that a suffix without its dot names, if it names one.
    #[must_use]
    pub fn from_suffix(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "pred" => Self::Pred,
            "b8" => Self::B(8),
            "b16" => Self::B(16),
            "b32" => Self::B(32),
            "b64" => Self::B(64),
            "b128" => Self::B(128),
            "u8" => Self::U(8),
            "u16" => Self::U(16),
            "u32" => Self::U(32),
            "u64" => Self::U(64),
            "s8" => Self::S(8),
            "s16" => Self::S(16),
            "s32" => Self::S(32),
            "s64" => Self::S(64),
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// Its size in bits; a predicate has one.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B(bits) | Self::U(bits) | Self::S(bits) => bits,
            Self::F16 | Self::Bf16 => 16,
            Self::F16x2 | Self::Bf16x2 | Self::Tf32 | Self::F32 => 32,
            Self::F64 => 64,
        }
    }

    /// Its size in bytes in memory.
    #[must_use]
    pub fn bytes(self) -> usize {
        (self.bits() as usize).div_ceil(8)
    }

    /// Whether it is a signed integer.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S(_))
    }

    /// Whether it is an integer or plain bits.
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self, Self::B(_) | Self::U(_) | Self::S(_))
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pred => f.write_str("pred"),
            Self::B(bits) => write!(f, "b{bits}"),
            Self::U(bits) => write!(f, "u{bits}"),
            Self::S(bits) => write!(f, "s{bits}"),
            Self::F16 => f.write_str("f16"),
            Self::F16x2 => f.write_str("f16x2"),
            Self::Bf16 => f.write_str("bf16"),
            Self::Bf16x2 => f.write_str("bf16x2"),
            Self::Tf32 => f.write_str("tf32"),
            Self::F32 => f.write_str("f32"),
            Self::F64 => f.write_str("f64"),
        }
    }
}
