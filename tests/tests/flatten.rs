//! Flatten: a strided matrix into row-major order, and the gradient's way back.

use cotangent::verify::{Case, Check};
use cotangent::{Device, FlattenBackward, FlattenForward, Kernel, LaunchOptions};
use cotangent_tests::random::{self, data, grid, offsets};
use cotangent_tests::rejects_edits;
use cotangent_tests::suite::{self, nowhere, refused};
use proptest::prelude::*;

#[test]
fn flatten_fwd_matches_reference() {
    suite::matches_reference("flatten_forward");
}

#[test]
fn flatten_bwd_matches_reference() {
    suite::matches_reference("flatten_backward");
}

#[test]
fn flatten_fwd_equals_literal() {
    suite::equals_literals("flatten_forward");
    let device = Device::cpu();
    // Rows of a 3 × 4 matrix are read with every other column: x[b·4 + n·2].
    let x = device.upload(&[1_i16, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]).unwrap();
    let y = device.zeros::<i16>(6).unwrap();
    let kernel = FlattenForward::<i16>::new(2, 2);
    // SAFETY: x has 2·4 + 1·2 + 1 = 11 elements and more, y has 3·2.
    unsafe { device.launch(&kernel, (x.as_ptr(), y.as_ptr(), 3, 2, 4, 2), &LaunchOptions::new()) }.unwrap();
    assert_eq!(y.to_vec().unwrap(), [1, 3, 5, 7, 9, 11]);
}

#[test]
fn flatten_bwd_equals_literal() {
    suite::equals_literals("flatten_backward");
    let device = Device::cpu();
    let dy = device.upload(&[1_i16, 3, 5, 7, 9, 11]).unwrap();
    let dx = device.upload(&[-1_i16; 12]).unwrap();
    let kernel = FlattenBackward::<i16>::new(2, 2);
    // SAFETY: dy has 3·2 elements, dx 2·4 + 1·2 + 1 = 11 and more.
    unsafe { device.launch(&kernel, (dy.as_ptr(), dx.as_ptr(), 3, 2, 4, 2), &LaunchOptions::new()) }.unwrap();
    assert_eq!(dx.to_vec().unwrap(), [1, -1, 3, -1, 5, -1, 7, -1, 9, -1, 11, -1]);
}

#[test]
fn flatten_bwd_accumulates() {
    let device = Device::cpu();
    let dy = device.upload(&[0.5_f32, 1.5, 2.5, 3.5]).unwrap();
    let dx = device.upload(&[10.0_f32; 4]).unwrap();
    let kernel = FlattenBackward::<f32>::new(1, 64);
    let args = (dy.as_ptr(), dx.as_ptr(), 2, 2, 1, 2);
    let add = LaunchOptions::new().accumulate(true);
    for _ in 0..2 {
        // SAFETY: dy and dx have 2·2 elements.
        unsafe { device.launch(&kernel, args, &add) }.unwrap();
    }
    assert_eq!(dx.to_vec().unwrap(), [11.0, 15.0, 13.0, 17.0]);
    // SAFETY: as above.
    unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
    assert_eq!(dx.to_vec().unwrap(), [0.5, 2.5, 1.5, 3.5]);
}

#[test]
fn flatten_fwd_is_deterministic() {
    suite::is_deterministic(&Case::new("flatten_forward", &[7, 64], &[33, 70, 1, 33]));
}

#[test]
fn flatten_bwd_is_deterministic() {
    let case = Case::new("flatten_backward", &[7, 64], &[33, 70, 1, 33]);
    suite::is_deterministic(&case);
    suite::is_deterministic(&case.accumulate(true));
}

prop_compose! {
    /// Any matrix with any strides, for the forward.
    fn any_case()(
        b in 0..40_i32, n in 0..70_i32, stride_b in 0..80_i32, stride_n in 0..80_i32,
        block_b in 1..20_i32, block_n in 1..90_i32,
        grid in grid(), offsets in offsets(), data in data(),
    ) -> Case {
        Case::new("flatten_forward", &[block_b, block_n], &[b, n, stride_b, stride_n])
            .grid(grid).offsets(&offsets).data(data)
    }
}

prop_compose! {
    /// A matrix whose strides send no two (b, n) to one element: rows or columns outermost, with gaps.
    fn injective_case()(
        b in 0..40_i32, n in 0..70_i32, gap in 0..5_i32, step in 1..4_i32, by_columns in any::<bool>(),
        block_b in 1..20_i32, block_n in 1..90_i32, accumulate in any::<bool>(),
        grid in grid(), offsets in offsets(),
    ) -> Case {
        let inner = if by_columns { b } else { n };
        let outer = inner.max(1) * step + gap;
        let [stride_b, stride_n] = if by_columns { [step, outer] } else { [outer, step] };
        Case::new("flatten_backward", &[block_b, block_n], &[b, n, stride_b, stride_n])
            .accumulate(accumulate).grid(grid).offsets(&offsets)
    }
}

proptest! {
    #![proptest_config(random::config())]

    #[test]
    fn flatten_fwd_matches_formula(case in any_case()) {
        let [b, n, stride_b, stride_n] = <[i32; 4]>::try_from(&*case.extents).unwrap().map(|e| e as usize);
        let span = if b * n == 0 { 0 } else { (b - 1) * stride_b + (n - 1) * stride_n + 1 };
        let input: Vec<u32> = (0..span as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let device = Device::cpu();
        let (x, y) = (device.upload(&input).unwrap(), device.zeros::<u32>(b * n).unwrap());
        let kernel = FlattenForward::<u32>::new(case.constants[0], case.constants[1]);
        let args = (x.as_ptr(), y.as_ptr(), b as i32, n as i32, stride_b as i32, stride_n as i32);
        // SAFETY: the buffers have the elements that the formula reaches.
        unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
        for (i, value) in y.to_vec().unwrap().into_iter().enumerate() {
            prop_assert_eq!(value, input[i / n * stride_b + i % n * stride_n]);
        }
    }
}

#[test]
fn flatten_fwd_stays_in_bounds() {
    random::on_cpu(any_case(), Check::Reference);
    random::on_device(any_case(), Check::Reference);
}

#[test]
fn flatten_bwd_stays_in_bounds() {
    random::on_cpu(injective_case(), Check::Reference);
    random::on_device(injective_case(), Check::Reference);
}

#[test]
fn flatten_bwd_is_adjoint() {
    suite::is_adjoint("flatten_backward");
    random::on_cpu(injective_case(), |case| Check::Adjoint(case.accumulate(false)));
}

fn forward(
    kernel: &FlattenForward<f64>,
    [b, n, stride_b, stride_n]: [i32; 4],
    options: &LaunchOptions<'_>,
) -> cotangent::Result<cotangent::launch::Launch> {
    kernel.prepare(&(nowhere(1), nowhere(2), b, n, stride_b, stride_n), options)
}

fn backward(
    kernel: &FlattenBackward<f64>,
    [b, n, stride_b, stride_n]: [i32; 4],
    options: &LaunchOptions<'_>,
) -> cotangent::Result<cotangent::launch::Launch> {
    kernel.prepare(&(nowhere(1), nowhere(2), b, n, stride_b, stride_n), options)
}

#[test]
fn flatten_rejects_bad_constants() {
    for bad in [0, -1, i32::MIN, (1 << 29) + 1] {
        let value = &bad.to_string();
        refused(FlattenForward::<f32>::try_new(bad, 64), &["flatten_forward", "block_b", value]);
        refused(FlattenForward::<f32>::try_new(1, bad), &["flatten_forward", "block_n", value]);
        refused(FlattenBackward::<f32>::try_new(bad, 64), &["flatten_backward", "block_b", value]);
        refused(FlattenBackward::<f32>::try_new(1, bad), &["flatten_backward", "block_n", value]);
    }
}

#[test]
#[should_panic(expected = "flatten_forward: the constant block_b is -3, but must be between 1 and 2^29")]
fn flatten_fwd_rejects_bad_constants_with_a_panic() {
    let _ = FlattenForward::<f32>::new(-3, 64);
}

#[test]
fn flatten_rejects_a_tile_beyond_32_bits() {
    let options = LaunchOptions::new();
    let area = (1_i64 << 31).to_string();
    let tile = FlattenForward::new(1 << 16, 1 << 15);
    refused(forward(&tile, [2, 3, 3, 1], &options), &["flatten_forward", "block_b · block_n", &area]);
    let tile = FlattenBackward::new(1 << 16, 1 << 15);
    refused(backward(&tile, [2, 3, 3, 1], &options), &["flatten_backward", "block_b · block_n", &area]);
}

#[test]
fn flatten_rejects_negative_extents_and_strides() {
    let options = LaunchOptions::new();
    for (i, name) in ["b", "n", "stride_ib", "stride_in"].into_iter().enumerate() {
        let mut extents = [2, 3, 3, 1];
        extents[i] = -7;
        let said = format!("{name} is -7, but must be at least 0");
        refused(forward(&FlattenForward::new(1, 64), extents, &options), &["flatten_forward", &said]);
        let said = said.replace("_i", "_dx");
        refused(backward(&FlattenBackward::new(1, 64), extents, &options), &["flatten_backward", &said]);
    }
}

#[test]
fn flatten_bwd_rejects_aliasing_strides() {
    let kernel = FlattenBackward::new(1, 64);
    let options = LaunchOptions::new();
    for extents in
        [[2, 2, 0, 1], [2, 2, 1, 0], [2, 1, 0, 5], [1, 2, 5, 0], [3, 3, 1, 1], [3, 3, 2, 4], [7, 7, 6, 4]]
    {
        let [b, n, stride_b, stride_n] = extents;
        let said = [format!("strides {stride_b} and {stride_n}"), format!("{b} × {n} matrix")];
        refused(backward(&kernel, extents, &options), &["flatten_backward", &said[0], &said[1]]);
    }
    for extents in
        [[7, 6, 6, 7], [2, 9, 9, 1], [1, 9, 0, 1], [9, 1, 1, 0], [1, 1, 0, 0], [0, 3, 0, 0], [3, 2, 2, 3]]
    {
        backward(&kernel, extents, &options).unwrap();
    }
    // A broadcast is fine where it is only read.
    forward(&FlattenForward::new(1, 64), [3, 3, 0, 0], &options).unwrap();
}

#[test]
fn flatten_rejects_products_beyond_64_bits() {
    // (2³¹ − 2)·(2³¹ − 1) twice is below 2⁶³ elements, but their bytes are not.
    let huge = [i32::MAX; 4];
    let options = LaunchOptions::new();
    let said = ["the strided matrix", "8 bytes", "2^63"];
    refused(
        forward(&FlattenForward::new(1, 64), huge, &options),
        &[&["flatten_forward"], &said[..]].concat(),
    );
    refused(
        backward(&FlattenBackward::new(1, 64), huge, &options),
        &[&["flatten_backward"], &said[..]].concat(),
    );
}

#[test]
fn flatten_rejects_bad_buffers() {
    suite::rejects_bad_buffers(&Case::new("flatten_forward", &[1, 64], &[3, 5, 1, 3]));
    suite::rejects_bad_buffers(&Case::new("flatten_backward", &[1, 64], &[3, 5, 7, 1]));
    suite::rejects_bad_buffers(&Case::new("flatten_backward", &[1, 64], &[3, 5, 7, 1]).accumulate(true));
}

#[test]
fn flatten_rejects_options_that_it_has_no_use_for() {
    let extents = [2, 3, 3, 1];
    let rows = LaunchOptions::new().rows(2);
    refused(forward(&FlattenForward::new(1, 64), extents, &rows), &["flatten_forward", "rows"]);
    refused(backward(&FlattenBackward::new(1, 64), extents, &rows), &["flatten_backward", "rows"]);
    let accumulate = LaunchOptions::new().accumulate(true);
    refused(forward(&FlattenForward::new(1, 64), extents, &accumulate), &["flatten_forward", "accumulate"]);
}

#[test]
fn flatten_rejects_edited_fields() {
    let args = (nowhere(1), nowhere(2), 2, 3, 3, 1);
    rejects_edits!(FlattenForward::<f64>::new(1, 64), args, LaunchOptions::new(), [block_b, block_n]);
    rejects_edits!(FlattenBackward::<f64>::new(1, 64), args, LaunchOptions::new(), [block_b, block_n]);
}

#[test]
fn flatten_of_nothing_launches_nothing() {
    let options = LaunchOptions::new();
    let null = std::ptr::null_mut::<f64>();
    for (b, n) in [(0, 5), (1, 0), (0, 0)] {
        let launch = FlattenForward::new(1, 64).prepare(&(null, null, b, n, n, 1), &options).unwrap();
        assert_eq!(launch.work(), 0);
        let launch = FlattenBackward::new(1, 64).prepare(&(null, null, b, n, n, 1), &options).unwrap();
        assert_eq!(launch.work(), 0);
    }
}
