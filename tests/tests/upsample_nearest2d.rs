//! Nearest-neighbour upsampling by whole factors, and its gradient.

use approx::assert_relative_eq;
use cotangent::launch::Launch;
use cotangent::verify::{Case, Check};
use cotangent::{Device, Kernel, LaunchOptions, UpsampleNearest2dBackward, UpsampleNearest2dForward};
use cotangent_tests::random::{self, data, grid, offsets};
use cotangent_tests::rejects_edits;
use cotangent_tests::suite::{self, nowhere, refused};
use proptest::prelude::*;

#[test]
fn upsample_nearest2d_fwd_matches_reference() {
    suite::matches_reference("upsample_nearest2d_forward");
}

#[test]
fn upsample_nearest2d_bwd_matches_reference() {
    suite::matches_reference("upsample_nearest2d_backward");
}

#[test]
fn upsample_nearest2d_fwd_equals_literal() {
    suite::equals_literals("upsample_nearest2d_forward");
    let device = Device::cpu();
    let x = device.upload(&[1_i64, 2, 3, 4, 5, 6]).unwrap();
    let y = device.zeros::<i64>(12).unwrap();
    // Two planes of one row each: rows twice, columns as they are.
    let kernel = UpsampleNearest2dForward::<i64>::new(2, 1, 64);
    // SAFETY: x has 2·1·1·3 elements, y 2·1·2·3.
    unsafe { device.launch(&kernel, (x.as_ptr(), y.as_ptr(), 2, 1, 1, 3, 2, 3), &LaunchOptions::new()) }
        .unwrap();
    assert_eq!(y.to_vec().unwrap(), [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]);
}

#[test]
fn upsample_nearest2d_bwd_equals_literal() {
    suite::equals_literals("upsample_nearest2d_backward");
    let device = Device::cpu();
    let dy = device.upload(&[1_i64, 2, 3, 10, 20, 30, 4, 5, 6, 40, 50, 60]).unwrap();
    let dx = device.upload(&[99_i64; 6]).unwrap();
    let kernel = UpsampleNearest2dBackward::<i64>::new(2, 1, 64);
    // SAFETY: dy has 2·1·2·3 elements, dx 2·1·1·3.
    unsafe { device.launch(&kernel, (dy.as_ptr(), dx.as_ptr(), 2, 1, 1, 3, 2, 3), &LaunchOptions::new()) }
        .unwrap();
    assert_eq!(dx.to_vec().unwrap(), [11, 22, 33, 44, 55, 66]);
}

#[test]
fn upsample_nearest2d_bwd_sums_a_large_window() {
    // 99 · 101 times a tenth: a sum in f32 would be off by far more than its last place.
    let device = Device::cpu();
    let dy = device.upload(&vec![0.1_f32; 9999]).unwrap();
    let dx = device.zeros::<f32>(1).unwrap();
    let kernel = UpsampleNearest2dBackward::<f32>::new(99, 101, 64);
    // SAFETY: dy has 99·101 elements, dx one.
    unsafe { device.launch(&kernel, (dy.as_ptr(), dx.as_ptr(), 1, 1, 1, 1, 99, 101), &LaunchOptions::new()) }
        .unwrap();
    assert_relative_eq!(dx.to_vec().unwrap()[0], 999.9, max_relative = f32::EPSILON);
}

#[test]
fn upsample_nearest2d_bwd_accumulates() {
    let device = Device::cpu();
    let dy = device.upload(&[0.5_f32, 1.5, 2.0, 4.0]).unwrap();
    let dx = device.upload(&[10.0_f32, 20.0]).unwrap();
    let kernel = UpsampleNearest2dBackward::<f32>::new(1, 2, 64);
    let args = (dy.as_ptr(), dx.as_ptr(), 1, 1, 1, 2, 1, 4);
    for _ in 0..2 {
        // SAFETY: dy has 4 elements, dx 2.
        unsafe { device.launch(&kernel, args, &LaunchOptions::new().accumulate(true)) }.unwrap();
    }
    assert_eq!(dx.to_vec().unwrap(), [14.0, 32.0]);
    // SAFETY: as above.
    unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
    assert_eq!(dx.to_vec().unwrap(), [2.0, 6.0]);
}

#[test]
fn upsample_nearest2d_fwd_is_deterministic() {
    suite::is_deterministic(&Case::new("upsample_nearest2d_forward", &[2, 3, 64], &[2, 3, 5, 11, 10, 33]));
}

#[test]
fn upsample_nearest2d_bwd_is_deterministic() {
    let case = Case::new("upsample_nearest2d_backward", &[2, 3, 64], &[2, 3, 5, 11, 10, 33]);
    suite::is_deterministic(&case);
    suite::is_deterministic(&case.accumulate(true));
}

#[test]
fn upsample_nearest2d_bwd_puts_every_gradient_on_its_pixel() {
    // One-hot gradients, every position: exactly the pixel under it gets the gradient.
    for (scale, h, w) in [(2, 3, 4), (3, 2, 3)] {
        let device = Device::cpu();
        let kernel = UpsampleNearest2dBackward::<i32>::new(scale, scale, 64);
        let (oh, ow) = (h * scale, w * scale);
        for at in 0..oh * ow {
            let mut one_hot = vec![0_i32; (oh * ow) as usize];
            one_hot[at as usize] = 1;
            let (dy, dx) = (device.upload(&one_hot).unwrap(), device.zeros::<i32>((h * w) as usize).unwrap());
            let args = (dy.as_ptr(), dx.as_ptr(), 1, 1, h, w, oh, ow);
            // SAFETY: dy has oh · ow elements, dx h · w.
            unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
            let pixel = (at / ow / scale * w + at % ow / scale) as usize;
            let hit: Vec<_> = (0..).zip(dx.to_vec().unwrap()).filter(|&(_, value)| value != 0).collect();
            assert_eq!(hit, [(pixel, 1)]);
        }
    }
}

prop_compose! {
    fn any_case(kernel: &'static str)(
        b in 0..4_i32, c in 0..4_i32, h in 0..12_i32, w in 0..40_i32, scale_h in 1..5_i32, scale_w in 1..7_i32,
        block in 1..300_i32, grid in grid(), offsets in offsets(), data in data(),
    ) -> Case {
        Case::new(kernel, &[scale_h, scale_w, block], &[b, c, h, w, h * scale_h, w * scale_w])
            .grid(grid).offsets(&offsets).data(data)
    }
}

proptest! {
    #![proptest_config(random::config())]

    #[test]
    fn upsample_nearest2d_fwd_matches_formula(case in any_case("upsample_nearest2d_forward")) {
        let [b, c, h, w, oh, ow] = <[i32; 6]>::try_from(&*case.extents).unwrap();
        let [scale_h, scale_w, block] = <[i32; 3]>::try_from(&*case.constants).unwrap();
        let input: Vec<u32> = (0..(b * c * h * w) as u32).collect();
        let device = Device::cpu();
        let (x, y) = (device.upload(&input).unwrap(), device.zeros::<u32>((b * c * oh * ow) as usize).unwrap());
        let kernel = UpsampleNearest2dForward::<u32>::new(scale_h, scale_w, block);
        // SAFETY: the buffers have b · c · h · w and b · c · oh · ow elements.
        unsafe { device.launch(&kernel, (x.as_ptr(), y.as_ptr(), b, c, h, w, oh, ow), &LaunchOptions::new()) }
            .unwrap();
        for (at, value) in (0..).zip(y.to_vec().unwrap()) {
            let (column, line, plane) = (at % ow, at / ow % oh, at / ow / oh);
            let from = (plane * h + line / scale_h) * w + column / scale_w;
            prop_assert_eq!(value, input[from as usize]);
        }
    }
}

#[test]
fn upsample_nearest2d_fwd_stays_in_bounds() {
    random::on_cpu(any_case("upsample_nearest2d_forward"), Check::Reference);
    random::on_device(any_case("upsample_nearest2d_forward"), Check::Reference);
}

#[test]
fn upsample_nearest2d_bwd_stays_in_bounds() {
    random::on_cpu(any_case("upsample_nearest2d_backward"), Check::Reference);
    random::on_device(any_case("upsample_nearest2d_backward"), Check::Reference);
    let accumulated = any_case("upsample_nearest2d_backward").prop_map(|case| case.accumulate(true));
    random::on_device(accumulated, Check::Reference);
}

#[test]
fn upsample_nearest2d_bwd_is_adjoint() {
    suite::is_adjoint("upsample_nearest2d_backward");
    random::on_cpu(any_case("upsample_nearest2d_backward"), Check::Adjoint);
}

/// Both directions with scales 2 and 3, planned with the same numbers.
fn both([b, c, h, w, oh, ow]: [i32; 6], options: &LaunchOptions<'_>) -> [cotangent::Result<Launch>; 2] {
    let args = (nowhere(1), nowhere(2), b, c, h, w, oh, ow);
    [
        UpsampleNearest2dForward::<f64>::new(2, 3, 64).prepare(&args, options),
        UpsampleNearest2dBackward::<f64>::new(2, 3, 64).prepare(&args, options),
    ]
}

fn both_refused(extents: [i32; 6], parts: &[&str]) {
    let names = ["upsample_nearest2d_forward", "upsample_nearest2d_backward"];
    for (result, name) in both(extents, &LaunchOptions::new()).into_iter().zip(names) {
        refused(result, &[&[name], parts].concat());
    }
}

#[test]
fn upsample_nearest2d_rejects_bad_constants() {
    for (i, constant) in ["scale_h", "scale_w", "block_ow"].into_iter().enumerate() {
        for bad in [0, -2, (1 << 29) + 1] {
            let mut constants = [2, 3, 64];
            constants[i] = bad;
            let ([a, b, c], value) = (constants, &bad.to_string());
            let forward = UpsampleNearest2dForward::<f32>::try_new(a, b, c);
            refused(forward, &["upsample_nearest2d_forward", constant, value]);
            let backward = UpsampleNearest2dBackward::<f32>::try_new(a, b, c);
            let constant = constant.replace("_ow", "_iw");
            refused(backward, &["upsample_nearest2d_backward", &constant, value]);
        }
    }
}

#[test]
fn upsample_nearest2d_rejects_extents_that_do_not_follow() {
    both_refused([1, 1, 4, 5, 7, 15], &["oh is 7, but must be h · scale_h = 8"]);
    both_refused([1, 1, 4, 5, 8, 16], &["ow is 16, but must be w · scale_w = 15"]);
    both_refused([4, 256, 1, 1, 3, 3], &["oh is 3, but must be h · scale_h = 2"]);
    // A product beyond 32 bits is named as it is.
    both_refused([1, 1, i32::MAX, 5, 8, 15], &["oh is 8", &(2 * i64::from(i32::MAX)).to_string()]);
}

#[test]
fn upsample_nearest2d_rejects_negative_extents() {
    for (i, name) in ["b", "c", "h", "w", "oh", "ow"].into_iter().enumerate() {
        let mut extents = [1, 2, 4, 5, 8, 15];
        extents[i] = -1;
        both_refused(extents, &[&format!("{name} is -1, but must be at least 0")]);
    }
}

#[test]
fn upsample_nearest2d_rejects_products_beyond_64_bits() {
    let large = 1 << 29;
    both_refused([large, large, 4, 5, 8, 15], &["the small tensor", &large.to_string(), "8 bytes", "2^63"]);
    // The small tensor has 2⁵⁸ · 3 elements; the large one is six times that.
    both_refused([large, large, 1, 3, 2, 9], &["the large tensor", &large.to_string(), "8 bytes", "2^63"]);
}

#[test]
fn upsample_nearest2d_rejects_bad_buffers() {
    suite::rejects_bad_buffers(&Case::new("upsample_nearest2d_forward", &[2, 3, 64], &[1, 2, 2, 3, 4, 9]));
    let case = Case::new("upsample_nearest2d_backward", &[2, 3, 64], &[1, 2, 2, 3, 4, 9]);
    suite::rejects_bad_buffers(&case);
    suite::rejects_bad_buffers(&case.accumulate(true));
}

#[test]
fn upsample_nearest2d_rejects_options_that_it_has_no_use_for() {
    let [forward, backward] = both([1, 2, 4, 5, 8, 15], &LaunchOptions::new().rows(2));
    refused(forward, &["upsample_nearest2d_forward", "rows"]);
    refused(backward, &["upsample_nearest2d_backward", "rows"]);
    let [forward, backward] = both([1, 2, 4, 5, 8, 15], &LaunchOptions::new().accumulate(true));
    refused(forward, &["upsample_nearest2d_forward", "accumulate"]);
    backward.unwrap();
}

#[test]
fn upsample_nearest2d_rejects_edited_fields() {
    let args = (nowhere(1), nowhere(2), 1, 2, 4, 5, 8, 15);
    let options = LaunchOptions::new();
    rejects_edits!(
        UpsampleNearest2dForward::<f64>::new(2, 3, 64),
        args,
        options,
        [scale_h, scale_w, block_ow]
    );
    rejects_edits!(
        UpsampleNearest2dBackward::<f64>::new(2, 3, 64),
        args,
        options,
        [scale_h, scale_w, block_iw]
    );
}

#[test]
fn upsample_nearest2d_of_nothing_launches_nothing() {
    for extents in [[0, 2, 4, 5, 8, 15], [1, 0, 4, 5, 8, 15], [1, 2, 0, 5, 0, 15], [1, 2, 4, 0, 8, 0]] {
        for launch in both(extents, &LaunchOptions::new()) {
            assert_eq!(launch.unwrap().work(), 0);
        }
    }
}
