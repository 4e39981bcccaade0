//! 2-D convolution and its two gradients.

use approx::assert_relative_eq;
use cotangent::launch::{Launch, Target};
use cotangent::verify::{Case, Check, Data, Executor, Literal, SplitMix64, run};
use cotangent::{
    Algorithm, Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward, DType, Device, Kernel,
    LaunchOptions,
};
use cotangent_tests::executor::places;
use cotangent_tests::random::{self, grid, offsets};
use cotangent_tests::rejects_edits;
use cotangent_tests::suite::{self, nowhere, refused};
use proptest::prelude::*;

const NAMES: [&str; 4] = ["conv2d_forward", "conv2d_backward", "conv2d_backward_dx", "conv2d_backward_dw"];

#[test]
fn conv2d_fwd_matches_reference() {
    suite::matches_reference("conv2d_forward");
}

#[test]
fn conv2d_bwd_matches_reference() {
    suite::matches_reference("conv2d_backward");
}

#[test]
fn conv2d_bwd_dx_matches_reference() {
    suite::matches_reference("conv2d_backward_dx");
}

#[test]
fn conv2d_bwd_dw_matches_reference() {
    suite::matches_reference("conv2d_backward_dw");
}

#[test]
fn conv2d_fwd_equals_literal() {
    suite::equals_literals("conv2d_forward");
    let device = Device::cpu();
    let x = device.upload(&[1_i32, 2, 3, 4, 5, 6]).unwrap();
    let w = device.upload(&[1_i32, 10, 100]).unwrap();
    let y = device.zeros::<i32>(6).unwrap();
    // A row filter over a 2 × 3 image, padded by one: y[c] = x[c − 1] + 10·x[c] + 100·x[c + 1].
    let kernel = Conv2dForward::<i32>::new(1, 3, 1, 1, 0, 1, 1, 64);
    let args = (x.as_ptr(), w.as_ptr(), y.as_ptr(), 1, 1, 1, 2, 3, 2, 3);
    // SAFETY: x and y have 2·3 elements, w has 3.
    unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
    assert_eq!(y.to_vec().unwrap(), [210, 321, 32, 540, 654, 65]);
}

#[test]
fn conv2d_bwd_equals_literal() {
    for name in &NAMES[1..] {
        suite::equals_literals(name);
    }
    let device = Device::cpu();
    let dy = device.upload(&[1_i32, 2, 3, 4, 5, 6]).unwrap();
    let x = device.upload(&[1_i32, 2, 3, 4, 5, 6]).unwrap();
    let w = device.upload(&[1_i32, 10, 100]).unwrap();
    let (dx, dw) = (device.upload(&[99_i32; 6]).unwrap(), device.upload(&[99_i32; 3]).unwrap());
    let kernel = Conv2dBackward::<i32>::new(1, 3, 1, 1, 0, 1, 1, 64);
    let args = (dy.as_ptr(), x.as_ptr(), w.as_ptr(), dx.as_ptr(), dw.as_ptr(), 1, 1, 1, 2, 3, 2, 3);
    // SAFETY: dy, x and dx have 2·3 elements, w and dw have 3.
    unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
    // dx[c] = dy[c + 1] + 10·dy[c] + 100·dy[c − 1].
    assert_eq!(dx.to_vec().unwrap(), [12, 123, 230, 45, 456, 560]);
    // dw[0] = Σ dy[c]·x[c − 1], dw[1] = Σ dy[c]·x[c], dw[2] = Σ dy[c]·x[c + 1].
    assert_eq!(dw.to_vec().unwrap(), [2 + 6 + 20 + 30, 91, 2 + 6 + 20 + 30]);
}

#[test]
fn conv2d_fwd_averages() {
    // A filter of ninths over a constant image: nine ninths inside, six on an edge, four in a corner.
    let device = Device::cpu();
    let (x, w) = (device.upload(&[3.0_f32; 25]).unwrap(), device.upload(&[1.0_f32 / 9.0; 9]).unwrap());
    let y = device.zeros::<f32>(25).unwrap();
    let kernel = Conv2dForward::<f32>::new(3, 3, 1, 1, 1, 1, 1, 64);
    let args = (x.as_ptr(), w.as_ptr(), y.as_ptr(), 1, 1, 1, 5, 5, 5, 5);
    // SAFETY: x and y have 25 elements, w has 9.
    unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
    let y = y.to_vec().unwrap();
    for (at, ninths) in [(12, 9.0), (10, 6.0), (22, 6.0), (0, 4.0), (24, 4.0)] {
        assert_relative_eq!(y[at], 3.0 * ninths / 9.0, max_relative = 2.0 * f32::EPSILON);
    }
}

#[test]
fn conv2d_keeps_infinities_where_they_are() {
    // An image of infinities and a filter above zero: infinity everywhere, and nowhere NaN.
    let infinite = Case::new("conv2d_forward", &[3, 3, 1, 1, 1, 1, 1, 64], &[1, 24, 16, 6, 6, 6, 6]);
    let literal = Literal::new(infinite)
        .given("x", &[f64::INFINITY; 24 * 36])
        .given("w", &vec![1.0; 16 * 24 * 9])
        .gives("y", &[f64::INFINITY; 16 * 36]);
    for place in places() {
        run(&place, &Check::Literal(literal.clone()), DType::F32).unwrap_or_else(|failure| {
            panic!("on {}: {failure}", place.name());
        });
        // A few infinities among numbers, in the forward's x and in dgrad's dy.
        for name in ["conv2d_forward", "conv2d_backward_dx"] {
            let case =
                Case::new(name, &[3, 2, 2, 1, 1, 1, 1, 64], &[1, 17, 16, 6, 7, 3, 8]).data(Data::Overflow);
            suite::on_device(std::slice::from_ref(&place), &Check::Reference(case)).unwrap();
        }
    }
}

/// Every way through the kernel of small convolutions, with the threads of a block that tell the ways apart.
#[test]
fn conv2d_small_matches_reference() {
    let target = Target { capability: (9, 0), multiprocessors: 132 };
    let places = places();
    let cases: [(&str, [i32; 7], [i32; 5], u32); 8] = [
        // Few pixels and many terms: 16 warps share a sum, and lanes a pixel.
        ("conv2d_forward", [1, 1, 1, 1, 0, 0, 1], [3, 517, 5, 1, 1], 512),
        ("conv2d_backward_dx", [1, 1, 1, 1, 0, 0, 1], [9, 6, 300, 1, 1], 512),
        // More terms than a warp looks up at once.
        ("conv2d_forward", [3, 3, 1, 1, 1, 1, 1], [1, 70, 6, 5, 6], 512),
        // A stride beyond the image, and beyond the filter.
        ("conv2d_backward_dx", [2, 3, 5, 4, 1, 0, 1], [2, 3, 7, 4, 3], 512),
        ("conv2d_backward_dx", [1, 2, 3, 3, 0, 1, 1], [1, 3, 7, 8, 9], 512),
        // Classes with unlike taps, groups, and channels that fill no four.
        ("conv2d_backward", [3, 2, 2, 3, 1, 1, 2], [2, 10, 12, 9, 8], 512),
        // wgrad's sums of many pixels, and of fewer than a warp has lanes.
        ("conv2d_backward_dw", [3, 3, 1, 1, 1, 1, 1], [2, 5, 6, 40, 31], 512),
        ("conv2d_backward", [1, 4, 1, 1, 0, 0, 1], [40, 32, 29, 4, 7], 256),
    ];
    for (name, [kh, kw, sh, sw, ph, pw, g], [b, c_in, c_out, h, w], threads) in cases {
        let (oh, ow) = ((h + 2 * ph - kh) / sh + 1, (w + 2 * pw - kw) / sw + 1);
        let case = Case::new(name, &[kh, kw, sh, sw, ph, pw, g, 64], &[b, c_in, c_out, h, w, oh, ow]);
        let launches = suite::planned(&case, DType::F32, &target, Algorithm::Auto).unwrap();
        let planned: Vec<_> =
            launches.iter().map(|launch| (launch.kernel().name, launch.geometry().block_x)).collect();
        assert_eq!(planned, [("conv2d_small", threads)], "{case:?}");
        suite::on_device(&places, &Check::Reference(case.clone())).unwrap();
        if name != "conv2d_forward" {
            suite::on_device(&places, &Check::Reference(case.accumulate(true))).unwrap();
        }
    }
}

#[test]
fn conv2d_bwd_accumulates() {
    let device = Device::cpu();
    let dy = device.upload(&[1.0_f32, 2.0]).unwrap();
    let x = device.upload(&[1.0_f32, 2.0, 3.0]).unwrap();
    let w = device.upload(&[0.5_f32, 4.0]).unwrap();
    let (dx, dw) = (device.upload(&[10.0_f32; 3]).unwrap(), device.upload(&[20.0_f32; 2]).unwrap());
    let kernel = Conv2dBackward::<f32>::new(1, 2, 1, 1, 0, 0, 1, 64);
    let args = (dy.as_ptr(), x.as_ptr(), w.as_ptr(), dx.as_ptr(), dw.as_ptr(), 1, 1, 1, 1, 3, 1, 2);
    for _ in 0..2 {
        // SAFETY: x and dx have 3 elements, dy, w and dw have 2.
        unsafe { device.launch(&kernel, args, &LaunchOptions::new().accumulate(true)) }.unwrap();
    }
    assert_eq!(dx.to_vec().unwrap(), [11.0, 20.0, 26.0]);
    assert_eq!(dw.to_vec().unwrap(), [30.0, 36.0]);
    // SAFETY: as above.
    unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
    assert_eq!(dx.to_vec().unwrap(), [0.5, 5.0, 8.0]);
    assert_eq!(dw.to_vec().unwrap(), [5.0, 8.0]);
}

#[test]
fn conv2d_bwd_dw_of_an_empty_batch_is_zero() {
    let device = Device::cpu();
    let dw = device.upload(&[99.0_f32; 9]).unwrap();
    let null = std::ptr::null_mut();
    let kernel = Conv2dBackwardDw::<f32>::new(3, 3, 1, 1, 1, 1, 1, 64);
    // SAFETY: dw has 9 elements; dy and x have none.
    unsafe {
        device
            .launch(&kernel, (null, null, dw.as_ptr(), 0, 1, 1, 5, 5, 5, 5), &LaunchOptions::new())
            .unwrap();
    }
    assert_eq!(dw.to_vec().unwrap(), [0.0; 9]);
}

#[test]
fn conv2d_is_deterministic() {
    for name in NAMES {
        // Enough pixels to split the sums of dw; enough channels for the tiles of dx.
        suite::is_deterministic(&Case::new(name, &[1, 1, 1, 1, 0, 0, 1, 64], &[2, 2, 16, 23, 23, 23, 23]));
        suite::is_deterministic(&Case::new(name, &[2, 2, 1, 1, 0, 0, 1, 64], &[1, 17, 16, 5, 6, 4, 5]));
        let case = Case::new(name, &[3, 3, 1, 1, 1, 1, 1, 64], &[2, 5, 6, 9, 10, 9, 10]);
        suite::is_deterministic(&case);
        if name != "conv2d_forward" {
            suite::is_deterministic(&case.accumulate(true));
        }
    }
}

prop_compose! {
    fn any_case(kernel: &'static str, images: i32)(
        kh in 1..5_i32, kw in 1..5_i32, stride_h in 1..4_i32, stride_w in 1..4_i32, pad_h in 0..4_i32,
        pad_w in 0..4_i32, g in 1..4_i32, block in 1..200_i32, b in 0..images, cig in 0..4_i32, cog in 0..4_i32,
        more_h in 0..9_i32, more_w in 0..12_i32, grid in grid(), offsets in offsets(),
    ) -> Case {
        // The filter fits the padded image.
        let h = (kh - 2 * pad_h).max(0) + more_h;
        let w = (kw - 2 * pad_w).max(0) + more_w;
        let oh = (h + 2 * pad_h - kh) / stride_h + 1;
        let ow = (w + 2 * pad_w - kw) / stride_w + 1;
        Case::new(kernel, &[kh, kw, stride_h, stride_w, pad_h, pad_w, g, block], &[b, g * cig, g * cog, h, w, oh, ow])
            .grid(grid).offsets(&offsets)
    }
}

proptest! {
    #![proptest_config(random::config())]

    #[test]
    fn conv2d_fwd_matches_formula(case in any_case("conv2d_forward", 3)) {
        let [kh, kw, stride_h, stride_w, pad_h, pad_w, g, block] = <[i32; 8]>::try_from(&*case.constants).unwrap();
        let [b, c_in, c_out, h, wd, oh, ow] = <[i32; 7]>::try_from(&*case.extents).unwrap();
        let (cig, cog) = (c_in / g, c_out / g);
        let mut random = SplitMix64::new(9);
        let mut numbers = |count: i32| (0..count).map(|_| random.below(200) as i16 - 100).collect::<Vec<_>>();
        let (image, filter) = (numbers(b * c_in * h * wd), numbers(c_out * cig * kh * kw));
        let device = Device::cpu();
        let (x, w) = (device.upload(&image).unwrap(), device.upload(&filter).unwrap());
        let y = device.zeros::<i16>((b * c_out * oh * ow) as usize).unwrap();
        let kernel = Conv2dForward::<i16>::new(kh, kw, stride_h, stride_w, pad_h, pad_w, g, block);
        let args = (x.as_ptr(), w.as_ptr(), y.as_ptr(), b, c_in, c_out, h, wd, oh, ow);
        // SAFETY: the buffers have the elements of their shapes.
        unsafe { device.launch(&kernel, args, &LaunchOptions::new()) }.unwrap();
        for (at, value) in (0..).zip(y.to_vec().unwrap()) {
            let (column, line, co, batch) = (at % ow, at / ow % oh, at / ow / oh % c_out, at / ow / oh / c_out);
            let mut sum = 0_i16;
            for tap in 0..cig * kh * kw {
                let (j, i, ci) = (tap % kw, tap / kw % kh, tap / kw / kh);
                let (ih, iw) = (line * stride_h + i - pad_h, column * stride_w + j - pad_w);
                if (0..h).contains(&ih) && (0..wd).contains(&iw) {
                    let from = ((batch * c_in + co / cog * cig + ci) * h + ih) * wd + iw;
                    let product = image[from as usize].wrapping_mul(filter[(co * cig * kh * kw + tap) as usize]);
                    sum = sum.wrapping_add(product);
                }
            }
            prop_assert_eq!(value, sum, "{} at {}", case, at);
        }
    }
}

#[test]
fn conv2d_fwd_stays_in_bounds() {
    random::on_cpu(any_case("conv2d_forward", 3), Check::Reference);
    random::on_device(any_case("conv2d_forward", 2), Check::Reference);
}

#[test]
fn conv2d_bwd_stays_in_bounds() {
    for name in &NAMES[1..] {
        random::on_cpu(any_case(name, 3), Check::Reference);
        random::on_device(any_case(name, 2), Check::Reference);
        let accumulated = any_case(name, 2).prop_map(|case| case.accumulate(true));
        random::on_device(accumulated, Check::Reference);
    }
}

#[test]
fn conv2d_bwd_is_adjoint() {
    for name in &NAMES[1..] {
        suite::is_adjoint(name);
        random::on_cpu(any_case(name, 3), Check::Adjoint);
    }
}

/// A plan of each kernel with the same constants and extents.
fn plans(
    constants: [i32; 8],
    extents: [i32; 7],
    options: &LaunchOptions<'_>,
) -> [cotangent::Result<Launch>; 4] {
    let [kh, kw, stride_h, stride_w, pad_h, pad_w, g, block] = constants;
    let [b, c_in, c_out, h, wd, oh, ow] = extents;
    let (p, q, r, s, t) = (nowhere(1), nowhere(2), nowhere(3), nowhere(4), nowhere(5));
    let forward = Conv2dForward::<f64>::try_new(kh, kw, stride_h, stride_w, pad_h, pad_w, g, block);
    let backward = Conv2dBackward::<f64>::try_new(kh, kw, stride_h, stride_w, pad_h, pad_w, g, block);
    let dx = Conv2dBackwardDx::<f64>::try_new(kh, kw, stride_h, stride_w, pad_h, pad_w, g, block);
    let dw = Conv2dBackwardDw::<f64>::try_new(kh, kw, stride_h, stride_w, pad_h, pad_w, g, block);
    [
        forward.and_then(|kernel| kernel.prepare(&(p, q, r, b, c_in, c_out, h, wd, oh, ow), options)),
        backward.and_then(|kernel| kernel.prepare(&(p, q, r, s, t, b, c_in, c_out, h, wd, oh, ow), options)),
        dx.and_then(|kernel| kernel.prepare(&(p, q, r, b, c_in, c_out, h, wd, oh, ow), options)),
        dw.and_then(|kernel| kernel.prepare(&(p, q, r, b, c_in, c_out, h, wd, oh, ow), options)),
    ]
}

fn all_refused(constants: [i32; 8], extents: [i32; 7], parts: &[&str]) {
    for (plan, name) in plans(constants, extents, &LaunchOptions::new()).into_iter().zip(NAMES) {
        refused(plan, &[&[name], parts].concat());
    }
}

/// 3 × 2 filters, strides 2 and 1, pads 1 and 0, two groups; they fit [`EXTENTS`].
const CONSTANTS: [i32; 8] = [3, 2, 2, 1, 1, 0, 2, 64];
const EXTENTS: [i32; 7] = [2, 4, 6, 7, 5, 4, 4];

#[test]
fn conv2d_accepts_what_the_rejections_start_from() {
    for plan in plans(CONSTANTS, EXTENTS, &LaunchOptions::new()) {
        assert!(plan.unwrap().work() > 0);
    }
}

#[test]
fn conv2d_rejects_bad_constants() {
    let names = ["kh", "kw", "stride_h", "stride_w", "pad_h", "pad_w", "g", "block_ow"];
    for (i, name) in names.into_iter().enumerate() {
        let zero = if name.starts_with("pad") { -1 } else { 0 };
        for bad in [zero, -7, (1 << 29) + 1] {
            let mut constants = CONSTANTS;
            constants[i] = bad;
            all_refused(constants, EXTENTS, &[&format!("the constant {name} is {bad}")]);
        }
    }
}

#[test]
#[should_panic(expected = "conv2d_backward: the constant stride_w is 0, but must be between 1 and 2^29")]
fn conv2d_bwd_rejects_bad_constants_with_a_panic() {
    let _ = Conv2dBackward::<f32>::new(3, 3, 1, 0, 1, 1, 1, 64);
}

#[test]
fn conv2d_rejects_groups_that_do_not_divide() {
    all_refused(CONSTANTS, [2, 5, 6, 7, 5, 4, 4], &["c_in is 5, but must be a multiple of g = 2"]);
    all_refused(CONSTANTS, [2, 4, 7, 7, 5, 4, 4], &["c_out is 7, but must be a multiple of g = 2"]);
}

#[test]
fn conv2d_rejects_a_filter_larger_than_the_padded_image() {
    // h + 2·1 = 2 < 3, and wd + 0 = 1 < 2.
    all_refused(CONSTANTS, [2, 4, 6, 0, 5, 1, 4], &["kh is 3, but must be at most the padded image's 2"]);
    all_refused(CONSTANTS, [2, 4, 6, 7, 1, 4, 1], &["kw is 2, but must be at most the padded image's 1"]);
}

#[test]
fn conv2d_rejects_output_extents_that_do_not_follow() {
    for wrong in [0, 3, 5, i32::MAX] {
        let rule = "but must be (h + 2·pad_h − kh)/stride_h + 1 = 4";
        all_refused(CONSTANTS, [2, 4, 6, 7, 5, wrong, 4], &[&format!("oh is {wrong}, {rule}")]);
        let rule = "but must be (wd + 2·pad_w − kw)/stride_w + 1 = 4";
        all_refused(CONSTANTS, [2, 4, 6, 7, 5, 4, wrong], &[&format!("ow is {wrong}, {rule}")]);
    }
}

#[test]
fn conv2d_rejects_negative_extents() {
    for (i, name) in ["b", "c_in", "c_out", "h", "wd", "oh", "ow"].into_iter().enumerate() {
        let mut extents = EXTENTS;
        extents[i] = -2;
        all_refused(CONSTANTS, extents, &[&format!("{name} is -2, but must be at least 0")]);
    }
}

#[test]
fn conv2d_rejects_a_padded_image_beyond_32_bits() {
    let said = ["h + 2·pad_h is", &(i64::from(i32::MAX) + 2).to_string(), &i32::MAX.to_string()];
    all_refused(CONSTANTS, [2, 4, 6, i32::MAX, 5, 4, 4], &said);
}

#[test]
fn conv2d_rejects_products_beyond_64_bits() {
    let one = [1, 1, 1, 1, 0, 0, 1, 64];
    let large = 1 << 29;
    let said = ["8 bytes", "2^63", &large.to_string()];
    all_refused(one, [large, large, 1, 4, 4, 4, 4], &[&["x needs"], &said[..]].concat());
    all_refused(one, [large, 1, large, 4, 4, 4, 4], &[&["y needs"], &said[..]].concat());
    let filter = [1 << 14, 1 << 14, 1, 1, 0, 0, 1, 64];
    let extents = [1, 1 << 16, 1 << 16, 1 << 14, 1 << 14, 1, 1];
    all_refused(filter, extents, &["w needs", "65536 × 65536 × 16384 × 16384", "2^63"]);
    // A filter whose taps 32 bits cannot count.
    let filter = [1 << 16, 1 << 15, 1, 1, 0, 0, 1, 64];
    let extents = [1, 1, 1, 1 << 16, 1 << 15, 1, 1];
    all_refused(filter, extents, &["kh · kw is 2147483648, but must be at most 2147483647"]);
}

#[test]
fn conv2d_rejects_bad_buffers() {
    for name in NAMES {
        let case = Case::new(name, &CONSTANTS, &EXTENTS);
        suite::rejects_bad_buffers(&case);
        if name != "conv2d_forward" {
            suite::rejects_bad_buffers(&case.accumulate(true));
        }
    }
}

#[test]
fn conv2d_rejects_options_that_it_has_no_use_for() {
    for (plan, name) in plans(CONSTANTS, EXTENTS, &LaunchOptions::new().rows(2)).into_iter().zip(NAMES) {
        refused(plan, &[name, "rows"]);
    }
    let [forward, backward @ ..] = plans(CONSTANTS, EXTENTS, &LaunchOptions::new().accumulate(true));
    refused(forward, &["conv2d_forward", "accumulate"]);
    assert!(backward.iter().all(Result::is_ok));
}

#[test]
fn conv2d_rejects_edited_fields() {
    let options = LaunchOptions::new();
    let args = (nowhere(1), nowhere(2), nowhere(3), 2, 4, 6, 7, 5, 4, 4);
    macro_rules! edits {
        ($kernel:ident, $args:expr) => {
            rejects_edits!(
                $kernel::<f64>::new(3, 2, 2, 1, 1, 0, 2, 64),
                $args,
                options,
                [kh, kw, stride_h, stride_w, pad_h, pad_w, g, block_ow]
            );
        };
    }
    edits!(Conv2dForward, args);
    edits!(Conv2dBackwardDx, args);
    edits!(Conv2dBackwardDw, args);
    edits!(Conv2dBackward, (nowhere(1), nowhere(2), nowhere(3), nowhere(4), nowhere(5), 2, 4, 6, 7, 5, 4, 4));
}

#[test]
fn conv2d_of_nothing_launches_nothing() {
    let work = |extents| plans(CONSTANTS, extents, &LaunchOptions::new()).map(|plan| plan.unwrap().work());
    // An empty batch has a gradient of w, which is zero: 6·2·3·2 elements.
    assert_eq!(work([0, 4, 6, 7, 5, 4, 4]), [0, 72, 0, 72]);
    // No output channels: dx is zero, 2·4·7·5 elements.
    assert_eq!(work([2, 4, 0, 7, 5, 4, 4]), [0, 280, 280, 0]);
    // No input channels: y is zero, 2·6·4·4 elements.
    assert_eq!(work([2, 0, 6, 7, 5, 4, 4]), [192, 0, 0, 0]);
}
