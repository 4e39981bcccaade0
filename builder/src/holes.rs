//! Specialization constants' holes: their tokens and the canonical values of the resource table.
//!
//! A hole is the instruction `mov.b32 %rN, __spec_<name>;`. A divisor constant has two more, for its magic
//! number and its shift (`device/src/divmod.rs`).

use crate::manifest::Canonical;
use crate::ptx::replace_identifiers;

/// What every hole's token starts with.
pub const PREFIX: &str = "__spec_";

/// The tokens that a constant may appear as: its value, and for a divisor its magic number and shift.
#[must_use]
pub fn tokens(constant: &str, divisor: bool) -> Vec<String> {
    let value = format!("{PREFIX}{constant}");
    if divisor {
        let (magic, shift) = (format!("{value}_magic"), format!("{value}_shift"));
        vec![value, magic, shift]
    } else {
        vec![value]
    }
}

/// The canonical value of a constant whose `entry!` block gives none: a usual size for the name.
#[must_use]
pub fn usual_value(name: &str) -> u32 {
    match name {
        "kh" | "kw" => 3,
        "scale_h" | "scale_w" => 2,
        "block_b" | "block_n" => 32,
        _ if name.starts_with("block") => 128,
        _ => 1,
    }
}

/// Magic number and shift of a divisor, as the launch computes them: with `l = ⌈log2 d⌉`,
/// `⌈2^(31+l) / d⌉` and `l`.
#[must_use]
pub fn magic_and_shift(divisor: u32) -> (u32, u32) {
    let divisor = divisor.max(1);
    let shift = 32 - (divisor - 1).leading_zeros();
    let magic = (1_u64 << (31 + shift)).div_ceil(u64::from(divisor));
    (magic as u32, shift)
}

/// The module with every hole filled by its constant's canonical value.
#[must_use]
pub fn fill(ptx: &str, constants: &[Canonical]) -> String {
    let mut values: Vec<(String, u32)> = Vec::new();
    for constant in constants {
        let (magic, shift) = magic_and_shift(constant.value);
        let tokens = tokens(&constant.constant, constant.divisor);
        values.extend(tokens.into_iter().zip([constant.value, magic, shift]));
    }
    replace_identifiers(ptx, |token| {
        values.iter().find(|(t, _)| t == token).map(|(_, value)| value.to_string())
    })
}
