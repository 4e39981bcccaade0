//! What is taken apart and put together again is what it was.

use cotangent::DType;
use cotangent::verify::Case;
use cotangent_tests::executor::Place;
use proptest::prelude::*;

use crate::common::{
    any_case, bits, conv2d, elements, everywhere, input_bytes, integers, is_portable, launch, results, words,
};

/// The only result of a launch.
fn result(place: &Place, case: &Case, dtype: DType, inputs: &[Vec<u8>]) -> Result<Vec<u8>, TestCaseError> {
    Ok(results(place, case, dtype, inputs)?.swap_remove(0))
}

/// A tensor parted into chunks of any sizes, and joined again.
#[test]
fn cat_of_narrows_is_the_tensor() {
    let values = (0..5_i64, prop::collection::vec(0..20_i32, 1..6), integers(), any::<u64>(), 1..100_i32);
    everywhere(&values, |place, (rows, chunks, dtype, seed, block)| {
        if !is_portable(place) {
            return Ok(());
        }
        let total: i32 = chunks.iter().sum();
        let tensor = bits(*seed, *rows as usize * total as usize * dtype.size());
        // What is not written yet is the inverse.
        let mut joined: Vec<u8> = tensor.iter().map(|byte| !byte).collect();
        let mut offset = 0;
        for &chunk in chunks {
            let extents = [chunk, total, offset];
            let part = Case::new("channel_cat_backward", &[*block], &extents).rows(*rows);
            let part = result(place, &part, *dtype, std::slice::from_ref(&tensor))?;
            let join = Case::new("channel_cat_forward", &[*block], &extents).rows(*rows);
            let after =
                launch(
                    place,
                    &join,
                    *dtype,
                    0.0,
                    |name, _| {
                        if name == "x" { part.clone() } else { joined.clone() }
                    },
                )?;
            joined.clone_from(&after[1]);
            offset += chunk;
        }
        prop_assert!(joined == tensor, "{:?}, {} rows", chunks, rows);
        Ok(())
    });
}

/// A row that is cropped and padded again has its middle, and the pad's value where it was cropped; a gradient that goes
/// through a pad comes back as it was.
#[test]
fn pad_of_crop_is_the_middle() {
    let values = (any_case("constant_pad1d_forward"), integers(), any::<u64>(), 0..100_i32);
    everywhere(&values, |place, (case, dtype, seed, value)| {
        if !is_portable(place) {
            return Ok(());
        }
        let [b, c, _, _] = <[i32; 4]>::try_from(&*case.extents).expect("four extents");
        let [left, right, block] = <[i32; 3]>::try_from(&*case.constants).expect("three constants");
        let (left, right, len) = (left.abs(), right.abs(), case.extents[2] + left.abs() + right.abs());
        let (rows, size) = ((b * c) as usize, dtype.size());
        let x = bits(*seed, rows * len as usize * size);
        let inner = len - left - right;
        let crop = Case::new("constant_pad1d_forward", &[-left, -right, block], &[b, c, len, inner]);
        let cropped = result(place, &crop, *dtype, std::slice::from_ref(&x))?;
        let pad = Case::new("constant_pad1d_forward", &[left, right, block], &[b, c, inner, len]);
        let after = launch(place, &pad, *dtype, f64::from(*value), |name, bytes| {
            if name == "input" { cropped.clone() } else { vec![0x6b; bytes] }
        })?;
        let middle = left..len - right;
        let right: Vec<u64> = words(*dtype, &x)
            .into_iter()
            .zip((0..len).cycle())
            .map(|(element, at)| if middle.contains(&at) { element } else { *value as u64 })
            .collect();
        prop_assert!(words(*dtype, &after[1]) == right, "{}", pad);
        let back = Case { kernel: "constant_pad1d_backward", ..pad };
        prop_assert!(result(place, &back, *dtype, &[after[1].clone()])? == cropped, "{}", back);
        Ok(())
    });
}

/// The gradient of an upsampling that is given the result itself: each element as often as it was copied.
#[test]
fn upsample_backward_of_upsample_counts_the_copies() {
    let values = (any_case("upsample_nearest2d_forward"), integers(), any::<u64>());
    everywhere(&values, |place, (case, dtype, seed)| {
        if !is_portable(place) {
            return Ok(());
        }
        let x = bits(*seed, input_bytes(case, *dtype)[0]);
        let y = result(place, case, *dtype, std::slice::from_ref(&x))?;
        let back = Case { kernel: "upsample_nearest2d_backward", ..case.clone() };
        let copies = (case.constants[0] * case.constants[1]) as u64;
        let counted = elements(*dtype, words(*dtype, &x).into_iter().map(|x| x.wrapping_mul(copies)));
        prop_assert!(result(place, &back, *dtype, &[y])? == counted, "{}", case);
        Ok(())
    });
}

/// A strided matrix that is flattened and put back is itself where it has elements, and untouched elsewhere.
#[test]
fn flatten_backward_of_flatten_is_the_matrix() {
    everywhere(&(any_case("flatten_forward"), integers(), any::<u64>()), |place, (case, dtype, seed)| {
        if !is_portable(place) {
            return Ok(());
        }
        let x = bits(*seed, input_bytes(case, *dtype)[0]);
        let y = result(place, case, *dtype, std::slice::from_ref(&x))?;
        let back = Case { kernel: "flatten_backward", ..case.clone() };
        let gaps: Vec<u8> = x.iter().map(|byte| !byte).collect();
        let after =
            launch(place, &back, *dtype, 0.0, |name, _| if name == "dy" { y.clone() } else { gaps.clone() })?;
        let [b, n, stride_b, stride_n] = <[i32; 4]>::try_from(&*case.extents).expect("four extents");
        let mut right = words(*dtype, &gaps);
        for (i, j) in (0..b).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let at = (i * stride_b + j * stride_n) as usize;
            right[at] = words(*dtype, &x)[at];
        }
        prop_assert!(words(*dtype, &after[1]) == right, "{}", case);
        Ok(())
    });
}

/// A batch in two parts: results and dx lie one behind the other, and the two dw add up.
#[test]
fn conv2d_of_two_batches_is_that_of_both() {
    let values = (conv2d("conv2d_forward"), 0..3_i32, integers(), any::<u64>());
    everywhere(&values, |place, (case, more, dtype, seed)| {
        if !is_portable(place) {
            return Ok(());
        }
        let named = |kernel, b| {
            let mut case = Case { kernel, ..case.clone() };
            case.extents[0] = b;
            case
        };
        let (first, both) = (case.extents[0], case.extents[0] + more);
        for name in ["conv2d_forward", "conv2d_backward_dx", "conv2d_backward_dw"] {
            let [parts @ .., whole] = [first, *more, both].map(|b| named(name, b));
            let lengths = parts.each_ref().map(|part| input_bytes(part, *dtype));
            let all: Vec<_> =
                input_bytes(&whole, *dtype).iter().zip(*seed..).map(|(&n, seed)| bits(seed, n)).collect();
            // The filter is the same for all; it is the second input of the products with one.
            let has_filter = name != "conv2d_backward_dw";
            let input = |i: usize, part: usize| {
                if i == 1 && has_filter {
                    all[1].clone()
                } else if part == 0 {
                    all[i][..lengths[0][i]].to_vec()
                } else {
                    all[i][all[i].len() - lengths[1][i]..].to_vec()
                }
            };
            let of_part =
                |part: usize| result(place, &parts[part], *dtype, &[input(0, part), input(1, part)]);
            let (one, two, whole) = (of_part(0)?, of_part(1)?, result(place, &whole, *dtype, &all)?);
            let right = if has_filter {
                [one, two].concat()
            } else {
                let pairs = words(*dtype, &one).into_iter().zip(words(*dtype, &two));
                elements(*dtype, pairs.map(|(one, two)| one.wrapping_add(two)))
            };
            prop_assert!(whole == right, "{} of {} and {}", name, parts[0], more);
        }
        Ok(())
    });
}
