//! The right answers, from the references at a wider type, and how far a result may be from them.
//!
//! Bits that are copied, and integers, which wrap, go through the reference for `i64`: the low bits of its
//! results are the right ones. Floats that are summed go through the reference for `f64`, twice: the second
//! time with the magnitudes of everything, which gives Σ|terms|, from which the bound follows.

use super::case::Case;
use super::data::{bits, decode, from_bits, with_element};
use super::erased::Call;
use super::failure::Failure;
use super::subject::{Role, Spec, Subject};
use crate::device::Device;
use crate::element::{DType, Num};
use crate::kernel::LaunchOptions;

/// The right answer for one output.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// These bytes exactly.
    Exact(Vec<u8>),
    /// These values, each with the largest error allowed; NaNs and infinities by class.
    Near(Vec<(f64, f64)>),
}

/// Whether a case sums anything.
pub(super) fn sums(specs: &[Spec]) -> bool {
    specs.iter().any(|spec| matches!(spec.role, Role::Output { terms: 1.., .. }))
}

/// The right answers for every output, from what each argument holds before the launch. Elements that the
/// contract leaves alone are meaningless in them.
pub(super) fn expected(
    subject: &Subject,
    case: &Case,
    dtype: DType,
    specs: &[Spec],
    before: &[Vec<u8>],
) -> Result<Vec<Expected>, Failure> {
    let outputs = specs.iter().enumerate().filter_map(|(i, spec)| match spec.role {
        Role::Output { terms, .. } => Some((i, terms)),
        _ => None,
    });
    if !(dtype.is_float() && sums(specs)) {
        let words: Vec<_> = before.iter().map(|bytes| bits(dtype, bytes)).collect();
        let after = wide(subject, case, DType::I64, specs, words)?;
        return Ok(outputs.map(|(i, _)| Expected::Exact(from_bits(dtype, &after[i]))).collect());
    }
    let run = |map: fn(f64) -> f64| {
        let words = before
            .iter()
            .map(|bytes| decode(dtype, bytes).into_iter().map(|value| map(value).to_bits()).collect());
        wide(subject, case, DType::F64, specs, words.collect())
    };
    let (values, magnitudes) = (run(|value| value)?, run(f64::abs)?);
    let near = outputs.map(|(i, terms)| {
        let pairs = values[i].iter().zip(&magnitudes[i]);
        Expected::Near(
            pairs
                .map(|(&value, &magnitude)| {
                    let value = f64::from_bits(value);
                    (value, bound(dtype, terms, f64::from_bits(magnitude), value))
                })
                .collect(),
        )
    });
    Ok(near.collect())
}

/// Runs the reference for `i64` or `f64` on words, and returns what every argument then holds.
fn wide(
    subject: &Subject,
    case: &Case,
    dtype: DType,
    specs: &[Spec],
    mut words: Vec<Vec<u64>>,
) -> Result<Vec<Vec<u64>>, Failure> {
    let kernel = (subject.build)(dtype, &case.constants)?;
    let mut options = LaunchOptions::new().accumulate(case.accumulate);
    options.rows = case.rows;
    let mut scalar = Vec::new();
    let mut addresses = Vec::new();
    for (spec, words) in specs.iter().zip(&mut words) {
        match spec.role {
            Role::Scalar => scalar.extend(words.iter().flat_map(|word| word.to_le_bytes())),
            _ => addresses.push(words.as_mut_ptr().expose_provenance() as u64),
        }
    }
    let call = Call { kernel: &*kernel, extents: &case.extents, scalar: &scalar, options };
    // SAFETY: the words are as many as the contract's elements, which `check` compared with what the launch
    // touches; nothing else uses them until the launch has ended.
    unsafe { call.launch(&Device::cpu(), &addresses)? };
    Ok(words)
}

/// How far a sum of `terms` terms may be from the exact one.
///
/// Summed in any order with fused multiply-adds, the error is at most γ·Σ|terms| with γ = n·u / (1 − n·u), u
/// being the accumulation type's unit roundoff, and half its smallest denormal for each operation that
/// underflows. The reference's own error has the same form with f64's u. The 16-bit floats are summed in f32, on
/// tensor cores too, which truncate: u is then twice as large. Rounding to the narrower element adds half a unit
/// in its last place, or half its smallest denormal.
///
/// Source: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, sections 3.1 and 4.2.
pub fn bound(dtype: DType, terms: u64, magnitude: f64, value: f64) -> f64 {
    let wide = (f64::EPSILON / 2.0, f64::from_bits(1));
    let single = (f64::from(f32::EPSILON) / 2.0, f64::from(f32::from_bits(1)));
    let truncated = (2.0 * single.0, 2.0 * single.1);
    let (accumulator, element) = match dtype {
        DType::F64 => (wide, None),
        DType::F32 => (single, None),
        DType::F16 => {
            (truncated, Some((half::f16::EPSILON.to_f64() / 2.0, half::f16::from_bits(1).to_f64())))
        }
        DType::Bf16 => {
            (single, Some((half::bf16::EPSILON.to_f64() / 2.0, half::bf16::from_bits(1).to_f64())))
        }
        _ => return 0.0,
    };
    let n = terms as f64;
    let sum = |(roundoff, denormal): (f64, f64)| {
        n * roundoff / (1.0 - n * roundoff) * magnitude + n * denormal / 2.0
    };
    let error = sum(accumulator) + sum(wide);
    let rounding =
        element.map_or(0.0, |(roundoff, denormal)| roundoff * (value.abs() + error) + denormal / 2.0);
    if terms == 0 { 0.0 } else { error + rounding }
}

/// The element's value after rounding, to tell which class a number is of at its type.
pub(super) fn rounded(dtype: DType, value: f64) -> f64 {
    with_element!(dtype, D => <D as Num>::from_f64(value).to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_is_what_the_formula_says() {
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-5;
        // Four terms of one in f32: 4·2⁻²⁴·4, and next to nothing for f64.
        assert!(near(bound(DType::F32, 4, 4.0, 4.0), 4.0 * 2.0_f64.powi(-24) * 4.0));
        // In f16 the rounding of the result, 2⁻¹¹·4, comes on top.
        let rounding = 2.0_f64.powi(-11) * 4.0 + 2.0_f64.powi(-25);
        assert!(near(bound(DType::F16, 4, 4.0, 4.0), 4.0 * 2.0_f64.powi(-23) * 4.0 + rounding));
        // In f64 the reference is no better than the result.
        assert!(near(bound(DType::F64, 4, 4.0, 4.0), 2.0 * 4.0 * 2.0_f64.powi(-53) * 4.0));
        assert_eq!(bound(DType::F32, 0, 0.0, 0.0).to_bits(), 0);
        assert_eq!(bound(DType::I32, 9, 9.0, 9.0).to_bits(), 0);
    }
}
