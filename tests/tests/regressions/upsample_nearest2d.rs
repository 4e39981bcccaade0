//! Nearest-neighbour upsampling.

use cotangent::ops::{self, Beta};
use cotangent::verify::Case;
use cotangent::{DType, Stream, Tensor};
use cotangent_tests::suite;
use half::f16;

use crate::common::{equals, large_gpu, numbers, streams};

/// The gradient of a result beyond 2³¹ elements was zero; here it is the sum of each window. On a GPU alone, but for a
/// small one.
#[test]
fn pytorch_117011_upsample_backward_beyond_2_31_elements() {
    for stream in streams() {
        sums_its_own_copies(&stream, [3, 2, 5, 6]);
    }
    if let Some(stream) = large_gpu(5 << 30, "an upsampling to more than 2^31 elements") {
        sums_its_own_copies(&stream, [1025, 2, 256, 256]);
    }
    // What a launch will touch is known without a GPU.
    let large = [1025_u64, 2, 1024, 1024].iter().product::<u64>();
    assert!(large > 1 << 31);
    for (name, buffer) in [("upsample_nearest2d_forward", 1), ("upsample_nearest2d_backward", 0)] {
        let case = Case::new(name, &[4, 4, 256], &[1025, 2, 256, 256, 1024, 1024]);
        let plan = suite::prepared(&case, DType::F16).unwrap();
        assert_eq!(plan.touched()[buffer].bytes, 2 * large);
    }
}

/// The gradient of an upsampling by 4 × 4 that is given the result itself: sixteen times the input.
fn sums_its_own_copies(stream: &Stream, shape: [usize; 4]) {
    // Sums are below 1024, and exact.
    let x: Vec<f16> =
        (0..shape.iter().product()).map(|i: usize| f16::from_f32((i * 7 % 61) as f32)).collect();
    let y = {
        let x = Tensor::from_slice(stream, &x, &shape).unwrap();
        ops::upsample_nearest2d(stream, &x, [4, 4]).unwrap()
    };
    let dx = ops::upsample_nearest2d_backward(stream, &y, [4, 4]).unwrap().to_vec(stream).unwrap();
    let wrong = (0..x.len()).find(|&i| dx[i].to_f32() != 16.0 * x[i].to_f32());
    assert_eq!(wrong, None);
}

/// A plane of one pixel gave a grid without blocks; here every copy is there, and the gradient is their sum.
#[test]
fn pytorch_22526_upsample_of_a_single_pixel() {
    let x = numbers(1, 1024, 28);
    let y: Vec<f64> = x.iter().flat_map(|&x| [x; 9]).collect();
    let sums: Vec<f64> = x.iter().map(|x| 9.0 * x).collect();
    let extents = [4, 256, 1, 1, 3, 3];
    equals(Case::new("upsample_nearest2d_forward", &[3, 3, 256], &extents), &[("x", &x)], &[("y", &y)]);
    equals(Case::new("upsample_nearest2d_backward", &[3, 3, 256], &extents), &[("dy", &y)], &[("dx", &sums)]);
}

/// Gradients landed on a neighbouring pixel; here each of them, alone in its image, lands on the one that it came from.
#[test]
fn pytorch_38985_upsample_gradients_land_on_their_pixel() {
    for (scale, h, w) in [(2, 3, 4), (3, 2, 3)] {
        let (oh, ow) = (h * scale, w * scale);
        let images = oh * ow;
        let (mut dy, mut dx) = (vec![0.0; images * images], vec![0.0; images * h * w]);
        for at in 0..images {
            dy[at * images + at] = 1.0;
            dx[at * h * w + at / ow / scale * w + at % ow / scale] = 1.0;
        }
        let extents = [images, 1, h, w, oh, ow].map(|extent| extent as i32);
        let scale = scale as i32;
        let case = Case::new("upsample_nearest2d_backward", &[scale, scale, 64], &extents);
        equals(case, &[("dy", &dy)], &[("dx", &dx)]);
    }
}

/// The gradient of a tensor that was used twice overwrote the first use's; here the second is added when asked to be.
#[test]
fn candle_pr_3507_upsample_gradient_is_added() {
    let (dy, before) = (numbers(1, 2 * 24, 10), numbers(2, 12, 200));
    let after: Vec<f64> = (0..12)
        .map(|at| {
            let (plane, line, column) = (at / 6, at / 3 % 2, at % 3);
            let first = plane * 24 + line * 12 + column * 2;
            before[at] + dy[first] + dy[first + 1] + dy[first + 6] + dy[first + 7]
        })
        .collect();
    let case = Case::new("upsample_nearest2d_backward", &[2, 2, 64], &[1, 2, 2, 3, 4, 6]).accumulate(true);
    equals(case, &[("dy", &dy), ("dx", &before)], &[("dx", &after)]);
    for stream in streams() {
        let dy = Tensor::from_slice(&stream, &[1.0_f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2]).unwrap();
        let mut dx = ops::upsample_nearest2d_backward(&stream, &dy, [2, 2]).unwrap();
        ops::upsample_nearest2d_backward_into(&stream, &dy, [2, 2], &mut dx, Beta::Accumulate).unwrap();
        assert_eq!(dx.to_vec(&stream).unwrap(), [20.0]);
    }
}
