//! What moves bits: equal in every one of them.

use cotangent::DType;
use cotangent::verify::{self, HostBuffer, encode};

use crate::data::{Case, Golden, input, output, update, volume};
use crate::places::case_everywhere;

/// Runs a copy everywhere, and compares the last buffer's bytes.
fn copies(
    golden: &Golden,
    case: &Case,
    result: &str,
    kernel: &verify::Case,
    scalar: &[u8],
    buffers: &[HostBuffer],
) {
    let dtype = case.dtype();
    let right = golden.result(case, result, dtype);
    let what = format!("{}, {result}", case.id);
    case_everywhere(&what, kernel, dtype, scalar, buffers, |_, place, after| {
        let got = &after.last().expect("an output").bytes;
        assert_eq!(got.len(), right.len(), "{what}");
        let wrong = (0..right.len()).find(|&byte| got[byte] != right[byte]);
        assert!(wrong.is_none(), "{what}, on {place}: byte {wrong:?} of {} differs", right.len());
    });
}

#[test]
fn flatten_matches_golden() {
    let golden = Golden::open("flatten");
    for case in &golden.cases {
        let dtype = case.dtype();
        let [b, n, stride_b, stride_n] = <[i32; 4]>::try_from(&*case.extents).expect("four extents");
        let span = ((b - 1) * stride_b + (n - 1) * stride_n + 1) as usize;
        let forward = verify::Case::new("flatten_forward", &[2, 32], &case.extents);
        let buffers =
            [input("x", dtype, case.bits("x", span)), output("y", dtype, volume(&case.extents[..2]))];
        copies(&golden, case, "y", &forward, &[], &buffers);
        if golden.find(case, "dx", dtype).is_some() {
            let backward = verify::Case::new("flatten_backward", &[4, 16], &case.extents);
            let dy = case.bits("dy", volume(&case.extents[..2]));
            let dx = if case.id.contains("permuted") {
                output("dx", dtype, span)
            } else {
                update("dx", dtype, case.bits("dx", span))
            };
            copies(&golden, case, "dx", &backward, &[], &[input("dy", dtype, dy), dx]);
        }
    }
}

#[test]
fn channel_cat_matches_golden() {
    let golden = Golden::open("channel_cat");
    for case in &golden.cases {
        let dtype = case.dtype();
        let total: i32 = case.chunks.iter().sum();
        let y = golden.result(case, "y", dtype);
        let dy = case.bits("dy", y.len() / dtype.size());
        let mut offset = 0;
        for (i, &chunk) in case.chunks.iter().enumerate() {
            let extents = [chunk, total, offset];
            let backward = verify::Case::new("channel_cat_backward", &[64], &extents).rows(case.rows);
            let elements = case.rows as usize * chunk as usize;
            let buffers = [input("dy", dtype, dy.clone()), output("dx", dtype, elements)];
            copies(&golden, case, &format!("dx{i}"), &backward, &[], &buffers);

            // Of y, a launch writes its chunk's columns and leaves the others: these hold the golden's inverse.
            let size = dtype.size();
            let columns = offset as usize * size..(offset + chunk) as usize * size;
            let ours = |byte: usize| columns.contains(&(byte % (total as usize * size)));
            let before: Vec<u8> = y.iter().map(|byte| !byte).collect();
            let right: Vec<u8> =
                (0..y.len()).map(|byte| if ours(byte) { y[byte] } else { before[byte] }).collect();
            let forward = verify::Case::new("channel_cat_forward", &[64], &extents).rows(case.rows);
            let x = case.bits(&format!("x{i}"), elements);
            let buffers = [input("x", dtype, x), update("y", dtype, before)];
            case_everywhere(&case.id, &forward, dtype, &[], &buffers, |_, place, after| {
                assert!(after[1].bytes == right, "{}, input {i}, on {place}", case.id);
            });
            offset += chunk;
        }
    }
}

#[test]
fn constant_pad1d_matches_golden() {
    let golden = Golden::open("constant_pad1d");
    for case in &golden.cases {
        let dtype = case.dtype();
        let [b, c, len, ol] = <[i32; 4]>::try_from(&*case.extents).expect("four extents");
        let constants = [case.pads[0], case.pads[1], 64];
        let (small, large) = (volume(&[b, c, len]), volume(&[b, c, ol]));
        let value = encode(dtype, &case.below("value", 100, 1));
        let forward = verify::Case::new("constant_pad1d_forward", &constants, &case.extents);
        let buffers = [input("input", dtype, case.bits("x", small)), output("output", dtype, large)];
        copies(&golden, case, "y", &forward, &value, &buffers);
        let backward = verify::Case::new("constant_pad1d_backward", &constants, &case.extents);
        let buffers = [input("dy", dtype, case.bits("dy", large)), output("dx", dtype, small)];
        copies(&golden, case, "dx", &backward, &[], &buffers);
    }
}

#[test]
fn upsample_nearest2d_fwd_matches_golden() {
    let golden = Golden::open("upsample_nearest2d");
    for case in &golden.cases {
        let dtype: DType = case.dtype();
        let constants = [case.scales[0], case.scales[1], 64];
        let forward = verify::Case::new("upsample_nearest2d_forward", &constants, &case.extents);
        let (small, large) =
            (volume(&case.extents[..4]), golden.result(case, "y", dtype).len() / dtype.size());
        let buffers = [input("x", dtype, case.bits("x", small)), output("y", dtype, large)];
        copies(&golden, case, "y", &forward, &[], &buffers);
    }
}
