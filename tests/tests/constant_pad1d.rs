//! Constant padding of the last dimension, and its gradient.

use cotangent::launch::Launch;
use cotangent::verify::{Case, Check};
use cotangent::{ConstantPad1dBackward, ConstantPad1dForward, Device, Kernel, LaunchOptions};
use cotangent_tests::random::{self, data, grid, offsets};
use cotangent_tests::rejects_edits;
use cotangent_tests::suite::{self, nowhere, refused};
use proptest::prelude::*;

#[test]
fn constant_pad1d_fwd_matches_reference() {
    suite::matches_reference("constant_pad1d_forward");
}

#[test]
fn constant_pad1d_bwd_matches_reference() {
    suite::matches_reference("constant_pad1d_backward");
}

#[test]
fn constant_pad1d_fwd_equals_literal() {
    suite::equals_literals("constant_pad1d_forward");
    let device = Device::cpu();
    let x = device.upload(&[1_i32, 2, 3, 4]).unwrap();
    let y = device.zeros::<i32>(8).unwrap();
    // One element cropped on the right, three added on the left.
    let kernel = ConstantPad1dForward::<i32>::new(3, -1, 64);
    // SAFETY: the input has 2·1·2 elements, the output 2·1·4.
    unsafe { device.launch(&kernel, (x.as_ptr(), y.as_ptr(), 2, 1, 2, 4, -7), &LaunchOptions::new()) }
        .unwrap();
    assert_eq!(y.to_vec().unwrap(), [-7, -7, -7, 1, -7, -7, -7, 3]);
}

#[test]
fn constant_pad1d_bwd_equals_literal() {
    suite::equals_literals("constant_pad1d_backward");
    let device = Device::cpu();
    let dy = device.upload(&[1_i32, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let dx = device.upload(&[99_i32; 4]).unwrap();
    let kernel = ConstantPad1dBackward::<i32>::new(3, -1, 64);
    // SAFETY: dy has 2·1·4 elements, dx 2·1·2.
    unsafe { device.launch(&kernel, (dy.as_ptr(), dx.as_ptr(), 2, 1, 2, 4), &LaunchOptions::new()) }.unwrap();
    assert_eq!(dx.to_vec().unwrap(), [4, 0, 8, 0]);
}

#[test]
fn constant_pad1d_bwd_accumulates() {
    let device = Device::cpu();
    let dy = device.upload(&[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
    let dx = device.upload(&[10.0_f32, 20.0, 30.0]).unwrap();
    let kernel = ConstantPad1dBackward::<f32>::new(-1, 2, 64);
    let args = (dy.as_ptr(), dx.as_ptr(), 1, 1, 3, 4);
    for _ in 0..2 {
        // SAFETY: dy has 4 elements, dx 3.
        unsafe { device.launch(&kernel, args, &LaunchOptions::new().accumulate(true)) }.unwrap();
    }
    // The first element was cropped: it has no gradient, and keeps what it has.
    assert_eq!(dx.to_vec().unwrap(), [10.0, 22.0, 34.0]);
    // SAFETY: as above.
    unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
    assert_eq!(dx.to_vec().unwrap(), [0.0, 1.0, 2.0]);
}

#[test]
fn constant_pad1d_fwd_is_deterministic() {
    suite::is_deterministic(&Case::new("constant_pad1d_forward", &[3, 5, 64], &[4, 3, 65, 73]));
}

#[test]
fn constant_pad1d_bwd_is_deterministic() {
    let case = Case::new("constant_pad1d_backward", &[3, 5, 64], &[4, 3, 65, 73]);
    suite::is_deterministic(&case);
    suite::is_deterministic(&case.accumulate(true));
}

prop_compose! {
    fn any_case(kernel: &'static str)(
        b in 0..8_i32, c in 0..8_i32, l in 0..80_i32, left in -30..60_i32, right in -30..60_i32, block in 1..300_i32,
        grid in grid(), offsets in offsets(), data in data(),
    ) -> Case {
        // A crop takes no more than there is.
        let left = left.max(-l);
        let right = right.max(-(l + left));
        Case::new(kernel, &[left, right, block], &[b, c, l, l + left + right])
            .grid(grid).offsets(&offsets).data(data)
    }
}

proptest! {
    #![proptest_config(random::config())]

    #[test]
    fn constant_pad1d_fwd_matches_formula(case in any_case("constant_pad1d_forward")) {
        let [b, c, l, ol] = <[i32; 4]>::try_from(&*case.extents).unwrap();
        let [left, right, block] = <[i32; 3]>::try_from(&*case.constants).unwrap();
        let input: Vec<i64> = (1..=i64::from(b * c * l)).collect();
        let device = Device::cpu();
        let (x, y) = (device.upload(&input).unwrap(), device.zeros::<i64>((b * c * ol) as usize).unwrap());
        let kernel = ConstantPad1dForward::<i64>::new(left, right, block);
        let args = (x.as_ptr(), y.as_ptr(), b, c, l, ol, -5);
        // SAFETY: the buffers have b · c · l and b · c · ol elements.
        unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
        for (at, value) in (0..).zip(y.to_vec().unwrap()) {
            let (row, i) = (at / ol, at % ol - left);
            prop_assert_eq!(value, if (0..l).contains(&i) { input[(row * l + i) as usize] } else { -5 });
        }
    }
}

#[test]
fn constant_pad1d_fwd_stays_in_bounds() {
    random::on_cpu(any_case("constant_pad1d_forward"), Check::Reference);
    random::on_device(any_case("constant_pad1d_forward"), Check::Reference);
}

#[test]
fn constant_pad1d_bwd_stays_in_bounds() {
    random::on_cpu(any_case("constant_pad1d_backward"), Check::Reference);
    random::on_device(any_case("constant_pad1d_backward"), Check::Reference);
    let accumulated = any_case("constant_pad1d_backward").prop_map(|case| case.accumulate(true));
    random::on_device(accumulated, Check::Reference);
}

#[test]
fn constant_pad1d_bwd_is_adjoint() {
    suite::is_adjoint("constant_pad1d_backward");
    random::on_cpu(any_case("constant_pad1d_backward"), Check::Adjoint);
}

/// Both directions with pads 2 and −1, planned with the same numbers.
fn both([b, c, l, ol]: [i32; 4], options: &LaunchOptions<'_>) -> [cotangent::Result<Launch>; 2] {
    let forward = ConstantPad1dForward::<f64>::new(2, -1, 64);
    let backward = ConstantPad1dBackward::<f64>::new(2, -1, 64);
    [
        forward.prepare(&(nowhere(1), nowhere(2), b, c, l, ol, 0.0), options),
        backward.prepare(&(nowhere(1), nowhere(2), b, c, l, ol), options),
    ]
}

fn both_refused(extents: [i32; 4], parts: &[&str]) {
    let names = ["constant_pad1d_forward", "constant_pad1d_backward"];
    for (result, name) in both(extents, &LaunchOptions::new()).into_iter().zip(names) {
        refused(result, &[&[name], parts].concat());
    }
}

#[test]
fn constant_pad1d_rejects_bad_constants() {
    for bad in [0, -1, (1 << 29) + 1] {
        let value = &bad.to_string();
        refused(
            ConstantPad1dForward::<f32>::try_new(1, 1, bad),
            &["constant_pad1d_forward", "block_ol", value],
        );
        refused(
            ConstantPad1dBackward::<f32>::try_new(1, 1, bad),
            &["constant_pad1d_backward", "block_ol", value],
        );
    }
    // Pads may be negative, but not beyond 2²⁹ either way.
    for bad in [(1 << 29) + 1, -(1 << 29) - 1, i32::MIN] {
        let value = &bad.to_string();
        refused(
            ConstantPad1dForward::<f32>::try_new(bad, 1, 64),
            &["constant_pad1d_forward", "pad_left", value],
        );
        refused(
            ConstantPad1dBackward::<f32>::try_new(1, bad, 64),
            &["constant_pad1d_backward", "pad_right", value],
        );
    }
}

#[test]
fn constant_pad1d_rejects_an_ol_that_does_not_follow() {
    for wrong in [0, 4, 7, i32::MAX] {
        both_refused(
            [1, 2, 5, wrong],
            &[&format!("ol is {wrong}, but must be l + pad_left + pad_right = 6")],
        );
    }
}

#[test]
fn constant_pad1d_rejects_a_crop_of_more_than_there_is() {
    let kernel = ConstantPad1dForward::<f64>::new(-4, -3, 64);
    let launch = |ol| kernel.prepare(&(nowhere(1), nowhere(2), 1, 1, 5, ol, 0.0), &LaunchOptions::new());
    refused(launch(0), &["constant_pad1d_forward", "ol is 0", "-2"]);
    refused(launch(-2), &["constant_pad1d_forward", "ol is -2", "at least 0"]);
}

#[test]
fn constant_pad1d_rejects_negative_extents() {
    for (i, name) in ["b", "c", "l", "ol"].into_iter().enumerate() {
        let mut extents = [1, 2, 5, 6];
        extents[i] = -1;
        both_refused(extents, &[&format!("{name} is -1, but must be at least 0")]);
    }
}

#[test]
fn constant_pad1d_rejects_products_beyond_64_bits() {
    let large = i32::MAX - 1;
    both_refused(
        [large, large, large, large + 1],
        &["the unpadded tensor", &large.to_string(), "8 bytes", "2^63"],
    );
}

#[test]
fn constant_pad1d_rejects_bad_buffers() {
    suite::rejects_bad_buffers(&Case::new("constant_pad1d_forward", &[2, -1, 64], &[2, 3, 5, 6]));
    let case = Case::new("constant_pad1d_backward", &[2, -1, 64], &[2, 3, 5, 6]);
    suite::rejects_bad_buffers(&case);
    suite::rejects_bad_buffers(&case.accumulate(true));
}

#[test]
fn constant_pad1d_rejects_options_that_it_has_no_use_for() {
    let [forward, backward] = both([1, 2, 5, 6], &LaunchOptions::new().rows(2));
    refused(forward, &["constant_pad1d_forward", "rows"]);
    refused(backward, &["constant_pad1d_backward", "rows"]);
    let [forward, backward] = both([1, 2, 5, 6], &LaunchOptions::new().accumulate(true));
    refused(forward, &["constant_pad1d_forward", "accumulate"]);
    backward.unwrap();
}

#[test]
fn constant_pad1d_rejects_edited_fields() {
    let options = LaunchOptions::new();
    let fields = (nowhere(1), nowhere(2), 1, 2, 5, 6, 0.0);
    rejects_edits!(
        ConstantPad1dForward::<f64>::new(2, -1, 64),
        fields,
        options,
        [pad_left, pad_right, block_ol]
    );
    let fields = (nowhere(1), nowhere(2), 1, 2, 5, 6);
    rejects_edits!(
        ConstantPad1dBackward::<f64>::new(2, -1, 64),
        fields,
        options,
        [pad_left, pad_right, block_ol]
    );
}

#[test]
fn constant_pad1d_of_nothing_launches_nothing() {
    for extents in [[0, 2, 5, 6], [1, 0, 5, 6]] {
        for launch in both(extents, &LaunchOptions::new()) {
            assert_eq!(launch.unwrap().work(), 0);
        }
    }
    // Rows of nothing still get their pads; their gradient has no elements.
    let kernel = ConstantPad1dForward::<f64>::new(1, 1, 64);
    let launch = kernel.prepare(&(std::ptr::null_mut(), nowhere(2), 1, 2, 0, 2, 0.0), &LaunchOptions::new());
    assert_eq!(launch.unwrap().work(), 4);
    let kernel = ConstantPad1dBackward::<f64>::new(1, 1, 64);
    let launch = kernel.prepare(&(nowhere(1), std::ptr::null_mut(), 1, 2, 0, 2), &LaunchOptions::new());
    assert_eq!(launch.unwrap().work(), 0);
}
