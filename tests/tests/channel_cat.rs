//! Channel cat: one input's channels into the joined tensor, and the gradient's way back.

use cotangent::launch::Launch;
use cotangent::verify::{Case, Check};
use cotangent::{ChannelCatBackward, ChannelCatForward, Device, Kernel, LaunchOptions};
use cotangent_tests::random::{self, data, grid, offsets};
use cotangent_tests::rejects_edits;
use cotangent_tests::suite::{self, nowhere, refused};
use proptest::prelude::*;

#[test]
fn channel_cat_fwd_matches_reference() {
    suite::matches_reference("channel_cat_forward");
}

#[test]
fn channel_cat_bwd_matches_reference() {
    suite::matches_reference("channel_cat_backward");
}

#[test]
fn channel_cat_fwd_equals_literal() {
    suite::equals_literals("channel_cat_forward");
    // Two inputs of different sizes fill two rows of five channels.
    let device = Device::cpu();
    let first = device.upload(&[1_u8, 2, 3, 4]).unwrap();
    let second = device.upload(&[10_u8, 20, 30, 40, 50, 60]).unwrap();
    let y = device.upload(&[99_u8; 10]).unwrap();
    let kernel = ChannelCatForward::<u8>::new(128);
    let options = LaunchOptions::new().rows(2);
    // SAFETY: the inputs have 2·2 and 2·3 elements, y has 2·5.
    unsafe { device.launch(&kernel, (first.as_ptr(), y.as_ptr(), 2, 5, 0), &options) }.unwrap();
    assert_eq!(y.to_vec().unwrap(), [1, 2, 99, 99, 99, 3, 4, 99, 99, 99]);
    // SAFETY: as above.
    unsafe { device.launch(&kernel, (second.as_ptr(), y.as_ptr(), 3, 5, 2), &options) }.unwrap();
    assert_eq!(y.to_vec().unwrap(), [1, 2, 10, 20, 30, 3, 4, 40, 50, 60]);
}

#[test]
fn channel_cat_bwd_equals_literal() {
    suite::equals_literals("channel_cat_backward");
    let device = Device::cpu();
    let dy = device.upload(&[1_u8, 2, 10, 20, 30, 3, 4, 40, 50, 60]).unwrap();
    let dx = device.zeros::<u8>(6).unwrap();
    let kernel = ChannelCatBackward::<u8>::new(128);
    let options = LaunchOptions::new().rows(2);
    // SAFETY: dy has 2·5 elements, dx has 2·3.
    unsafe { device.launch(&kernel, (dy.as_ptr(), dx.as_ptr(), 3, 5, 2), &options) }.unwrap();
    assert_eq!(dx.to_vec().unwrap(), [10, 20, 30, 40, 50, 60]);
}

#[test]
fn channel_cat_bwd_accumulates() {
    let device = Device::cpu();
    let dy = device.upload(&[0.25_f64, 1.0, 2.0, 0.25, 3.0, 4.0]).unwrap();
    let dx = device.upload(&[10.0_f64; 4]).unwrap();
    let kernel = ChannelCatBackward::<f64>::new(1);
    let args = (dy.as_ptr(), dx.as_ptr(), 2, 3, 1);
    let options = LaunchOptions::new().rows(2);
    for _ in 0..2 {
        // SAFETY: dy has 2·3 elements, dx has 2·2.
        unsafe { device.launch(&kernel, args, &options.accumulate(true)) }.unwrap();
    }
    assert_eq!(dx.to_vec().unwrap(), [12.0, 14.0, 16.0, 18.0]);
    // SAFETY: as above.
    unsafe { device.launch(&kernel, args, &options) }.unwrap();
    assert_eq!(dx.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn channel_cat_fwd_is_deterministic() {
    suite::is_deterministic(&Case::new("channel_cat_forward", &[64], &[77, 77, 0]).rows(5));
}

#[test]
fn channel_cat_bwd_is_deterministic() {
    let case = Case::new("channel_cat_backward", &[64], &[77, 200, 3]).rows(5);
    suite::is_deterministic(&case);
    suite::is_deterministic(&case.accumulate(true));
}

prop_compose! {
    fn any_case(kernel: &'static str)(
        rows in 0..40_i64, chunk in 0..70_i32, before in 0..20_i32, after in 0..20_i32, block in 1..300_i32,
        grid in grid(), offsets in offsets(), data in data(),
    ) -> Case {
        Case::new(kernel, &[block], &[chunk, before + chunk + after, before])
            .rows(rows).grid(grid).offsets(&offsets).data(data)
    }
}

proptest! {
    #![proptest_config(random::config())]

    #[test]
    fn channel_cat_fwd_matches_formula(case in any_case("channel_cat_forward")) {
        let [chunk, total, first] = <[i32; 3]>::try_from(&*case.extents).unwrap();
        let rows = case.rows.unwrap();
        let input: Vec<u16> = (0..rows as u32 * chunk as u32).map(|i| ((i * 40_503) >> 3) as u16).collect();
        let device = Device::cpu();
        let x = device.upload(&input).unwrap();
        let y = device.upload(&vec![7_u16; rows as usize * total as usize]).unwrap();
        let kernel = ChannelCatForward::<u16>::new(case.constants[0]);
        let options = LaunchOptions::new().rows(rows);
        // SAFETY: the buffers have rows · chunk and rows · total elements.
        unsafe { device.launch(&kernel, (x.as_ptr(), y.as_ptr(), chunk, total, first), &options) }.unwrap();
        for (i, value) in y.to_vec().unwrap().into_iter().enumerate() {
            let (row, c) = (i / total as usize, (i % total as usize) as i32 - first);
            let inside = (0..chunk).contains(&c);
            prop_assert_eq!(value, if inside { input[row * chunk as usize + c as usize] } else { 7 });
        }
    }
}

#[test]
fn channel_cat_fwd_stays_in_bounds() {
    random::on_cpu(any_case("channel_cat_forward"), Check::Reference);
    random::on_device(any_case("channel_cat_forward"), Check::Reference);
}

#[test]
fn channel_cat_bwd_stays_in_bounds() {
    random::on_cpu(any_case("channel_cat_backward"), Check::Reference);
    random::on_device(any_case("channel_cat_backward"), Check::Reference);
    let accumulated = any_case("channel_cat_backward").prop_map(|case| case.accumulate(true));
    random::on_device(accumulated, Check::Reference);
}

#[test]
fn channel_cat_bwd_is_adjoint() {
    suite::is_adjoint("channel_cat_backward");
    random::on_cpu(any_case("channel_cat_backward"), Check::Adjoint);
}

/// Both directions, planned with the same numbers.
fn both(
    [chunk_c, c_total, chunk_offset]: [i32; 3],
    options: &LaunchOptions<'_>,
) -> [cotangent::Result<Launch>; 2] {
    let args = (nowhere(1), nowhere(2), chunk_c, c_total, chunk_offset);
    [
        ChannelCatForward::<f64>::new(64).prepare(&args, options),
        ChannelCatBackward::<f64>::new(64).prepare(&args, options),
    ]
}

fn both_refused(extents: [i32; 3], options: &LaunchOptions<'_>, parts: &[&str]) {
    for (result, name) in
        both(extents, options).into_iter().zip(["channel_cat_forward", "channel_cat_backward"])
    {
        refused(result, &[&[name], parts].concat());
    }
}

#[test]
fn channel_cat_rejects_bad_constants() {
    for bad in [0, -1, (1 << 29) + 1] {
        let value = &bad.to_string();
        refused(ChannelCatForward::<f32>::try_new(bad), &["channel_cat_forward", "block_size", value]);
        refused(ChannelCatBackward::<f32>::try_new(bad), &["channel_cat_backward", "block_size", value]);
    }
}

#[test]
fn channel_cat_rejects_missing_and_negative_rows() {
    both_refused([2, 5, 1], &LaunchOptions::new(), &["rows", "is needed"]);
    both_refused([2, 5, 1], &LaunchOptions::new().rows(-4), &["rows is -4, but must be at least 0"]);
}

#[test]
fn channel_cat_rejects_a_chunk_outside_its_row() {
    let options = LaunchOptions::new().rows(2);
    both_refused([2, 5, 4], &options, &["c_total is 5, but must be at least chunk_offset + chunk_c = 6"]);
    both_refused([6, 5, 0], &options, &["c_total is 5", "chunk_offset + chunk_c = 6"]);
    both_refused([0, 5, 6], &options, &["c_total is 5", "chunk_offset + chunk_c = 6"]);
    let largest = i32::MAX;
    both_refused([largest, 5, largest], &options, &["c_total is 5", &(2 * i64::from(largest)).to_string()]);
}

#[test]
fn channel_cat_rejects_negative_extents() {
    let options = LaunchOptions::new().rows(2);
    for (i, name) in ["chunk_c", "c_total", "chunk_offset"].into_iter().enumerate() {
        let mut extents = [2, 5, 1];
        extents[i] = -3;
        both_refused(extents, &options, &[&format!("{name} is -3, but must be at least 0")]);
    }
}

#[test]
fn channel_cat_rejects_products_beyond_64_bits() {
    let rows = 1 << 40;
    let options = LaunchOptions::new().rows(rows);
    both_refused([1 << 20, 1 << 20, 0], &options, &[&rows.to_string(), "1048576", "8 bytes", "2^63"]);
    both_refused([1, 1 << 20, 0], &options, &["the joined tensor", &rows.to_string(), "1048576"]);
}

#[test]
fn channel_cat_rejects_bad_buffers() {
    suite::rejects_bad_buffers(&Case::new("channel_cat_forward", &[64], &[2, 5, 1]).rows(3));
    let case = Case::new("channel_cat_backward", &[64], &[2, 5, 1]).rows(3);
    suite::rejects_bad_buffers(&case);
    suite::rejects_bad_buffers(&case.accumulate(true));
}

#[test]
fn channel_cat_fwd_rejects_accumulation() {
    let [forward, backward] = both([2, 5, 1], &LaunchOptions::new().rows(2).accumulate(true));
    refused(forward, &["channel_cat_forward", "accumulate"]);
    backward.unwrap();
}

#[test]
fn channel_cat_rejects_edited_fields() {
    let args = (nowhere(1), nowhere(2), 2, 5, 1);
    let options = LaunchOptions::new().rows(2);
    rejects_edits!(ChannelCatForward::<f64>::new(64), args, options, [block_size]);
    rejects_edits!(ChannelCatBackward::<f64>::new(64), args, options, [block_size]);
}

#[test]
fn channel_cat_of_nothing_launches_nothing() {
    for (rows, extents) in [(0, [2, 5, 1]), (3, [0, 5, 1]), (3, [0, 0, 0])] {
        for launch in both(extents, &LaunchOptions::new().rows(rows)) {
            assert_eq!(launch.unwrap().work(), 0);
        }
    }
}
