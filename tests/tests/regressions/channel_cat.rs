//! Channel cat.

use cotangent::verify::{Case, Check};
use cotangent::{DType, Stream, Tensor, ops};
use cotangent_tests::suite;

use crate::common::{PLACES, equals, holds, large_gpu, matches, numbers, streams};

/// Beyond one launch's worth of inputs, later ones were joined along the wrong dimension; here each of 200 inputs of
/// different sizes lies where it should, and so does its gradient.
#[test]
fn pytorch_164849_cat_of_many_inputs() {
    let counts: Vec<usize> = (0..200).map(|i| 1 + i * 5 % 7).collect();
    let total: usize = counts.iter().sum();
    let mut offset = 0;
    for (i, &count) in counts.iter().enumerate() {
        let extents = [count as i32, total as i32, offset as i32];
        let x = numbers(i as u64, 2 * count, 255);
        let mut y = vec![f64::NAN; 2 * total];
        for (row, x) in x.chunks_exact(count).enumerate() {
            y[row * total + offset..][..count].copy_from_slice(x);
        }
        let case = Case::new("channel_cat_forward", &[64], &extents).rows(2);
        equals(case, &[("x", &x)], &[("y", &y)]);
        let dy: Vec<f64> = y.iter().map(|y| if y.is_nan() { 9.0 } else { *y }).collect();
        let case = Case::new("channel_cat_backward", &[64], &extents).rows(2);
        equals(case, &[("dy", &dy)], &[("dx", &x)]);
        offset += count;
    }
    for stream in streams() {
        let element = |input: usize, row: usize, column: usize| (input * 100 + row * 50 + column) as i32;
        let inputs: Vec<_> = (0..200)
            .map(|input| {
                let count = counts[input];
                let rows = (0..2).flat_map(|row| (0..count).map(move |column| element(input, row, column)));
                Tensor::from_slice(&stream, &rows.collect::<Vec<_>>(), &[2, count]).unwrap()
            })
            .collect();
        let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
        let joined = ops::channel_cat(&stream, &views).unwrap().to_vec(&stream).unwrap();
        let right = (0..2).flat_map(|row| {
            let counts = &counts;
            (0..200).flat_map(move |input| (0..counts[input]).map(move |column| element(input, row, column)))
        });
        assert_eq!(joined, right.collect::<Vec<_>>());
    }
}

/// Two loads at once from an address that only one element's alignment held; here every offset and base is right.
#[test]
fn tvm_8540_vector_load_from_an_odd_offset() {
    let x: Vec<f64> = (1..=6).map(f64::from).collect();
    let case = |name| Case::new(name, &[64], &[2, 3, 1]).rows(3);
    let untouched = f64::NAN;
    let y = [untouched, 1.0, 2.0, untouched, 3.0, 4.0, untouched, 5.0, 6.0];
    equals(case("channel_cat_forward"), &[("x", &x)], &[("y", &y)]);
    let dy = [9.0, 1.0, 2.0, 9.0, 3.0, 4.0, 9.0, 5.0, 6.0];
    equals(case("channel_cat_backward"), &[("dy", &dy)], &[("dx", &x)]);
    for name in ["channel_cat_forward", "channel_cat_backward"] {
        for offsets in [[0, 1], [1, 0], [1, 1], [3, 2]] {
            let check = Check::Reference(case(name).offsets(&offsets));
            holds(&check);
            // The report's type, beside those of every check.
            for place in PLACES.iter() {
                cotangent::verify::run(place, &check, DType::F16)
                    .unwrap_or_else(|failure| panic!("{check}: {failure}"));
            }
        }
    }
}

/// A result of more than 4 GiB was silently wrong; here every part of it is right. On a GPU alone, but for a small one.
#[test]
fn pytorch_169163_cat_beyond_4_gib() {
    for stream in streams() {
        joins_spread_patterns(&stream, [3, 5], 7);
    }
    let (rows, wide, scale) = (8, 275, 1000);
    if let Some(stream) = large_gpu(12 << 30, "a cat of more than 2^32 bytes") {
        joins_spread_patterns(&stream, [rows as usize, wide as usize], scale as usize);
    }
    // What a launch will touch is known without a GPU.
    let chunk = wide * scale * scale;
    let case = Case::new("channel_cat_forward", &[1024], &[chunk, 2 * chunk, chunk]).rows(rows);
    let plan = suite::prepared(&case, DType::U8).unwrap();
    assert_eq!(plan.touched()[1].bytes, 4_400_000_000);
}

/// Joins two inputs of rows × channels, each channel a square of one number, and parts them again.
fn joins_spread_patterns(stream: &Stream, [rows, wide]: [usize; 2], scale: usize) {
    let patterns: Vec<Vec<u8>> =
        (0..2).map(|input| (0..rows * wide).map(|i| (i * 7 + input * 31) as u8).collect()).collect();
    let inputs: Vec<_> = patterns
        .iter()
        .map(|pattern| {
            let small = Tensor::from_slice(stream, pattern, &[rows, wide, 1, 1]).unwrap();
            ops::upsample_nearest2d(stream, &small, [scale, scale]).unwrap()
        })
        .collect();
    let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
    let joined = ops::channel_cat(stream, &views).unwrap();
    drop(inputs);
    // Whole squares, some of each row and input, the first and the last among them.
    let channels = [0, 1, wide / 2, wide - 1];
    for row in 0..rows {
        for (input, pattern) in patterns.iter().enumerate() {
            for channel in channels {
                let square = joined.narrow(0, row, 1).unwrap().narrow(1, input * wide + channel, 1).unwrap();
                let square = square.to_vec(stream).unwrap();
                assert!(
                    square.iter().all(|&byte| byte == pattern[row * wide + channel]),
                    "{row} {input} {channel}"
                );
            }
        }
    }
    let parts = ops::channel_cat_backward(stream, &joined, &[wide; 2]).unwrap();
    for (part, pattern) in parts.iter().zip(&patterns) {
        for row in 0..rows {
            for channel in channels {
                let square = part.narrow(0, row, 1).unwrap().narrow(1, channel, 1).unwrap();
                let square = square.to_vec(stream).unwrap();
                assert!(square.iter().all(|&byte| byte == pattern[row * wide + channel]), "{row} {channel}");
            }
        }
    }
}

/// A row of one element between two others, and rows that are all of the result: neighbours are left alone.
#[test]
fn cat_leaves_the_other_inputs_columns_alone() {
    for [chunk, total, offset] in [[1, 3, 1], [1, 1, 0], [7, 7, 0], [5, 8, 3], [16, 33, 17]] {
        matches(Case::new("channel_cat_forward", &[32], &[chunk, total, offset]).rows(5).offsets(&[1, 3]));
    }
}
