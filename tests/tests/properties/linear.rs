//! Every kernel is linear in its inputs, and a backward is its forward's adjoint.

use cotangent::DType;
use cotangent::verify::{Check, Grid, kernels, run};
use proptest::prelude::*;

use crate::common::{
    added, any_case, at, bits, elements, everywhere, floats, input_bytes, integers, is_portable, results,
    words,
};

/// Kernels that are linear in their second input too, with the first held still.
const BILINEAR: [&str; 3] = ["conv2d_forward", "conv2d_backward_dx", "conv2d_backward_dw"];

/// A(a·x + b·y) = a·A x + b·A y, exactly, in integers that wrap.
#[test]
fn integers_are_linear() {
    for name in kernels() {
        let values = (any_case(name), integers(), any::<u64>(), any::<[u64; 2]>(), any::<bool>());
        everywhere(&values, |place, (case, dtype, seed, [a, b], second)| {
            if !is_portable(place) {
                return Ok(());
            }
            let dtype = *dtype;
            let varied = usize::from(*second && BILINEAR.contains(&name));
            let x: Vec<_> =
                input_bytes(case, dtype).iter().zip(*seed..).map(|(&n, seed)| bits(seed, n)).collect();
            let mut y = x.clone();
            y[varied] = bits(!seed, x[varied].len());
            let combined = |x: &[u8], y: &[u8]| {
                let pairs = words(dtype, x).into_iter().zip(words(dtype, y));
                elements(dtype, pairs.map(|(x, y)| a.wrapping_mul(x).wrapping_add(b.wrapping_mul(y))))
            };
            let mut both = x.clone();
            both[varied] = combined(&x[varied], &y[varied]);
            let [of_x, of_y, of_both] = [&x, &y, &both].map(|inputs| results(place, case, dtype, inputs));
            for ((of_x, of_y), of_both) in of_x?.iter().zip(&of_y?).zip(&of_both?) {
                prop_assert_eq!(of_both, &combined(of_x, of_y), "{}, {}", case, dtype);
            }
            Ok(())
        });
    }
}

/// A gradient that is added is the sum of what was there and the gradient, exactly, in integers that wrap.
#[test]
fn added_gradients_are_sums() {
    for name in kernels().into_iter().filter(|name| name.contains("backward")) {
        everywhere(&(any_case(name), integers(), any::<u64>()), |place, (case, dtype, seed)| {
            if !is_portable(place) {
                return Ok(());
            }
            let inputs: Vec<_> =
                input_bytes(case, *dtype).iter().zip(*seed..).map(|(&n, seed)| bits(seed, n)).collect();
            let gradients = results(place, case, *dtype, &inputs)?;
            let before: Vec<_> =
                gradients.iter().zip(!*seed..).map(|(gradient, seed)| bits(seed, gradient.len())).collect();
            let after = added(place, case, *dtype, &inputs, &before)?;
            for ((gradient, before), after) in gradients.iter().zip(&before).zip(&after) {
                let pairs = words(*dtype, gradient).into_iter().zip(words(*dtype, before));
                let right = elements(*dtype, pairs.map(|(one, two)| one.wrapping_add(two)));
                prop_assert_eq!(after, &right, "{}, {}", case, dtype);
            }
            Ok(())
        });
    }
}

/// A(±2ᵏ·x) = ±2ᵏ·A x, exactly, in f32: the same roundings happen.
#[test]
fn floats_scale_by_powers_of_two() {
    for name in kernels() {
        let values = (any_case(name), any::<u64>(), -20..20_i32, any::<bool>());
        everywhere(&values, |place, (case, seed, exponent, negative)| {
            // A grid of one's own is one for the portable kernel.
            let case = case.clone().grid(Grid::Own);
            if !place.adds(&case, DType::F32) {
                return Ok(());
            }
            let factor = 2.0_f32.powi(*exponent) * if *negative { -1.0 } else { 1.0 };
            let inputs: Vec<Vec<f32>> = input_bytes(&case, DType::F32)
                .iter()
                .zip(*seed..)
                .map(|(&n, seed)| floats(seed, n))
                .collect();
            let bytes =
                |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
            let plain: Vec<_> = inputs.iter().map(|values| bytes(values)).collect();
            let mut scaled = plain.clone();
            scaled[0] = bytes(&inputs[0].iter().map(|value| factor * value).collect::<Vec<_>>());
            let [plain, scaled] = [plain, scaled].map(|inputs| results(place, &case, DType::F32, &inputs));
            for (plain, scaled) in plain?.iter().zip(&scaled?) {
                for (one, other) in plain.chunks_exact(4).zip(scaled.chunks_exact(4)) {
                    let [one, other] = [one, other].map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                    prop_assert_eq!(factor * one, other, "{}, times {}", case, factor);
                }
            }
            Ok(())
        });
    }
}

/// ⟨A x, y⟩ = ⟨x, Aᵀ y⟩, exactly in integers, and within the bound of the sums in floats.
#[test]
fn backwards_are_adjoint() {
    for name in kernels().into_iter().filter(|name| name.contains("backward")) {
        let dtypes = prop_oneof![integers(), Just(DType::F32), Just(DType::F16), Just(DType::F64)];
        everywhere(&(any_case(name), dtypes), |place, (case, dtype)| {
            let check = Check::Adjoint(at(place, case));
            if place.adds(check.case(), *dtype) {
                run(place, &check, *dtype)
                    .map_err(|failure| TestCaseError::fail(format!("{check}: {failure}")))?;
            }
            Ok(())
        });
    }
}
