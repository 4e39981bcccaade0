//! Verification of what a launch left in memory, element by element against the formula.

use cotangent::DType;
use cotangent::verify::{SplitMix64, decode};
use rayon::prelude::*;

use crate::case::{Case, Expected, Math};
use crate::error::{Error, Result};
use crate::pattern::Pattern;
use crate::place::Place;

/// What outputs hold before a launch: NaN, or all ones.
pub const POISON: u8 = 0xff;

/// Terms that the host sums for one output at most, or nearly so.
const TERMS: u64 = 1 << 22;

/// Elements of an output that are looked at, at least and at most.
const ELEMENTS: (u64, u64) = (24, 1 << 15);

/// Windows of neighbouring elements that an output is looked at through.
const WINDOWS: u64 = 48;

/// A pad's value.
pub const FILL: f64 = 1.5;

/// Compares an output that starts at byte `start` of the place's block: all of a small one, of a large one its
/// ends, places around row starts, and places anywhere.
///
/// # Errors
/// [`Error::Wrong`] with the first difference, and what the driver answers.
pub fn output(place: &dyn Place, case: &Case, buffer: usize, start: u64, inputs: &Pattern) -> Result<()> {
    let elements = case.problem.buffers(case.direction)[buffer].elements;
    let size = case.dtype.size();
    for (first, count) in windows(case, buffer, elements) {
        let mut bytes = vec![0; count as usize * size];
        place.download(start + first * size as u64, &mut bytes)?;
        let wrong = bytes.par_chunks_exact(size).enumerate().find_map_first(|(number, found)| {
            let index = first + number as u64;
            let expected = case.problem.expect(case.direction, buffer, index, inputs);
            compare(case, found, expected, inputs)
                .map(|what| format!("element {index} of buffer {buffer} {what}"))
        });
        if let Some(what) = wrong {
            return Err(Error::Wrong(what));
        }
    }
    Ok(())
}

/// First element and length of what is looked at.
fn windows(case: &Case, buffer: usize, elements: u64) -> Vec<(u64, u64)> {
    let terms = case.problem.terms(case.direction, buffer);
    let looked_at = (TERMS / terms).clamp(ELEMENTS.0, ELEMENTS.1);
    if elements <= looked_at {
        return vec![(0, elements)];
    }
    let count = WINDOWS.min(looked_at / 4);
    let width = looked_at / count;
    let last = elements - width;
    let row = case.problem.row(case.direction, buffer);
    let mut random = SplitMix64::from_text(&case.to_string());
    (0..count)
        .map(|number| match number {
            0 => 0,
            1 => last,
            _ if number % 2 == 0 => (random.below(elements / row) * row).saturating_sub(width / 2).min(last),
            _ => random.below(last + 1),
        })
        .map(|first| (first, width))
        .collect()
}

/// What is wrong with an element, if anything is.
fn compare(case: &Case, found: &[u8], expected: Expected, inputs: &Pattern) -> Option<String> {
    let dtype = case.dtype;
    let differs = |expected: &[u8]| {
        (found != expected).then(|| {
            let values = [found, expected].map(|bytes| decode(dtype, bytes)[0]);
            format!("is {:?} ({found:02x?}), not {:?} ({expected:02x?})", values[0], values[1])
        })
    };
    match expected {
        Expected::Untouched => differs(&vec![POISON; dtype.size()]),
        Expected::Copy { buffer, index } => differs(inputs.element(buffer, index)),
        Expected::Fill => differs(&cotangent::verify::encode(dtype, &[FILL])),
        Expected::Sum { exact, magnitude, terms } => {
            let found = decode(dtype, found)[0];
            let (error, bound) = if dtype.is_float() {
                ((found - exact).abs(), bound(dtype, case.math, exact, magnitude, terms))
            } else {
                // Integers wrap; both are exact in f64.
                let modulus = 2_f64.powi(8 * dtype.size() as i32);
                ((found - exact).rem_euclid(modulus), 0.0)
            };
            // Written so that a NaN is wrong.
            let right = error <= bound;
            (!right).then(|| format!("is {found:?}, not {exact:?}, and the bound is {bound:.2e}"))
        }
    }
}

/// How far a rounded sum may be from the exact one: the roundings of the additions, which largely cancel in long
/// sums (a bound with n in the place of its root would let a missing row of terms pass), those of TF32 operands,
/// which do so too, and one to the element.
///
/// Source: N. J. Higham and T. Mary, "A new approach to probabilistic rounding error analysis", 2019.
fn bound(dtype: DType, math: Math, exact: f64, magnitude: f64, terms: u64) -> f64 {
    let unit = |bits: i32| 2_f64.powi(-bits);
    let (sums, element) = match dtype {
        DType::F16 => (unit(23), unit(11)),
        DType::Bf16 => (unit(23), unit(8)),
        DType::F32 => (unit(24), 0.0),
        // The host sums in the same type.
        _ => (unit(52), 0.0),
    };
    let terms = terms as f64;
    // The smallest denormal of f16 is larger than the rounding of a tiny result.
    let smallest = if dtype == DType::F16 { unit(25) } else { 0.0 };
    // Two operands of 10 bits of fraction a product, rounded or cut off.
    let products = if math == Math::Tf32 { 2.0 * unit(10) * magnitude / terms.max(1.0) } else { 0.0 };
    terms.min(8.0 + terms.sqrt()) * (sums * magnitude + products) + element * exact.abs() + smallest
}

#[cfg(test)]
mod tests {
    use super::*;
    use cotangent::verify::encode;

    /// A case of this type; which one does not matter.
    fn case(dtype: DType) -> Case {
        let mut case = crate::ops::flatten::cases(crate::case::Size::Tiny).swap_remove(0);
        case.dtype = dtype;
        case
    }

    fn sum(dtype: DType, found: f64, exact: f64) -> Option<String> {
        let expected = Expected::Sum { exact, magnitude: 4.0, terms: 4 };
        compare(&case(dtype), &encode(dtype, &[found]), expected, &Pattern::new(dtype))
    }

    #[test]
    fn sums_are_right_within_roundings_alone() {
        assert_eq!(sum(DType::F32, 1.0, 1.0 + 4e-7), None);
        assert!(sum(DType::F32, 1.0, 1.0 + 2e-6).is_some());
        assert_eq!(sum(DType::Bf16, 1.0, 1.003), None);
        assert!(sum(DType::Bf16, 1.0, 1.01).is_some());
        assert!(sum(DType::F32, f64::NAN, 1.0).is_some());
        assert_eq!(sum(DType::U8, 4.0, 260.0), None);
        assert!(sum(DType::U8, 5.0, 260.0).is_some());
    }

    #[test]
    fn a_missing_row_of_terms_is_seen() {
        // A filter's gradient on the largest shape sums 8·256² products of numbers between −1 and 1, whose
        // magnitudes are 1/4 in the mean; a row of 256 of them adds up to 16/3 typically.
        let terms = 8 * 256 * 256;
        let bound = |math| bound(DType::F32, math, 240.0, terms as f64 / 4.0, terms);
        assert!(bound(Math::Ieee) < 16.0 / 3.0 * 1.1, "{}", bound(Math::Ieee));
        assert!(bound(Math::Tf32) < 16.0 / 3.0 * 1.2, "{}", bound(Math::Tf32));
    }

    #[test]
    fn copies_and_what_is_left_alone_compare_bits() {
        let (case, inputs) = (case(DType::F32), Pattern::new(DType::F32));
        let copy = Expected::Copy { buffer: 0, index: 7 };
        assert_eq!(compare(&case, inputs.element(0, 7), copy, &inputs), None);
        assert!(compare(&case, inputs.element(0, 8), copy, &inputs).is_some());
        assert_eq!(compare(&case, &[POISON; 4], Expected::Untouched, &inputs), None);
        assert!(compare(&case, &[0; 4], Expected::Untouched, &inputs).is_some());
        assert_eq!(compare(&case, &1.5_f32.to_ne_bytes(), Expected::Fill, &inputs), None);
    }
}
