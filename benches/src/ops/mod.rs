//! The operations: what each case moves and computes, and the shapes that are measured.

pub mod channel_cat;
pub mod constant_pad1d;
pub mod conv2d;
pub mod flatten;
pub mod upsample_nearest2d;

use cotangent::DType;

use crate::case::{Case, Size};

/// What every shape is measured in.
const COMMON: [DType; 2] = [DType::F32, DType::Bf16];

/// What large aligned shapes are measured in, besides.
const OTHER: [DType; 2] = [DType::U8, DType::F64];

/// Elements of a row, as channels-last tensors have them.
const SHORT_ROWS: [i32; 4] = [3, 7, 64, 130];

/// An operation's cases.
pub type Cases = fn(Size) -> Vec<Case>;

/// Every operation's stem and cases.
pub const ALL: [(&str, Cases); 5] = [
    ("flatten", flatten::cases),
    ("channel_cat", channel_cat::cases),
    ("constant_pad1d", constant_pad1d::cases),
    ("conv2d", conv2d::cases),
    ("upsample_nearest2d", upsample_nearest2d::cases),
];

/// Runs the body with `$element` as the Rust type of an element type that is measured.
macro_rules! typed {
    ($dtype:expr, $element:ident => $body:expr) => {
        match $dtype {
            cotangent::DType::U8 => {
                type $element = u8;
                $body
            }
            cotangent::DType::F16 => {
                type $element = half::f16;
                $body
            }
            cotangent::DType::Bf16 => {
                type $element = half::bf16;
                $body
            }
            cotangent::DType::F32 => {
                type $element = f32;
                $body
            }
            cotangent::DType::F64 => {
                type $element = f64;
                $body
            }
            other => unreachable!("no case is of type {other}"),
        }
    };
}

use typed;
