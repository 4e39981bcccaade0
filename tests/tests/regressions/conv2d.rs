//! 2-D convolution.

use cotangent::launch::Target;
use cotangent::ops::{self, Conv2d};
use cotangent::verify::{Case, Check, Data, Literal, run};
use cotangent::{Algorithm, DType, Tensor};
use cotangent_tests::suite;

use crate::common::{PLACES, equals, matches, numbers, streams, volume};

/// A convolution with small whole numbers, worked product by product.
struct Worked {
    constants: [i32; 8],
    extents: [i32; 7],
    x: Vec<f64>,
    w: Vec<f64>,
    dy: Vec<f64>,
    y: Vec<f64>,
    dx: Vec<f64>,
    dw: Vec<f64>,
}

impl Worked {
    /// `[kh, kw, stride_h, stride_w, pad_h, pad_w, g]` and `[b, c_in, c_out, h, w]`; numbers up to `most`.
    fn new(constants: [i32; 7], [b, c_in, c_out, h, w]: [i32; 5], most: u64) -> Self {
        let [kh, kw, stride_h, stride_w, pad_h, pad_w, g] = constants;
        let (oh, ow) = ((h + 2 * pad_h - kh) / stride_h + 1, (w + 2 * pad_w - kw) / stride_w + 1);
        let (cig, cog) = (c_in / g, c_out / g);
        let (image, filter, result) =
            (volume(&[b, c_in, h, w]), volume(&[c_out, cig, kh, kw]), volume(&[b, c_out, oh, ow]));
        let mut worked = Self {
            constants: [kh, kw, stride_h, stride_w, pad_h, pad_w, g, 64],
            extents: [b, c_in, c_out, h, w, oh, ow],
            x: numbers(1, image, most),
            w: numbers(2, filter, most),
            dy: numbers(3, result, most),
            y: vec![0.0; result],
            dx: vec![0.0; image],
            dw: vec![0.0; filter],
        };
        // Every product belongs to one pixel of x, one tap and one pixel of y; each goes to all three results.
        for at in 0..result as i32 {
            let (column, line, co, batch) =
                (at % ow, at / ow % oh, at / ow / oh % c_out, at / ow / oh / c_out);
            for tap in 0..cig * kh * kw {
                let (j, i, ci) = (tap % kw, tap / kw % kh, co / cog * cig + tap / kw / kh);
                let (ih, iw) = (line * stride_h + i - pad_h, column * stride_w + j - pad_w);
                if (0..h).contains(&ih) && (0..w).contains(&iw) {
                    let pixel = (((batch * c_in + ci) * h + ih) * w + iw) as usize;
                    let (tap, at) = ((co * cig * kh * kw + tap) as usize, at as usize);
                    worked.y[at] += worked.x[pixel] * worked.w[tap];
                    worked.dx[pixel] += worked.dy[at] * worked.w[tap];
                    worked.dw[tap] += worked.dy[at] * worked.x[pixel];
                }
            }
        }
        worked
    }

    fn case(&self, name: &'static str) -> Case {
        Case::new(name, &self.constants, &self.extents)
    }

    fn forward(&self) {
        equals(self.case("conv2d_forward"), &[("x", &self.x), ("w", &self.w)], &[("y", &self.y)]);
    }

    fn dx(&self) {
        equals(self.case("conv2d_backward_dx"), &[("dy", &self.dy), ("w", &self.w)], &[("dx", &self.dx)]);
    }

    fn dw(&self) {
        equals(self.case("conv2d_backward_dw"), &[("dy", &self.dy), ("x", &self.x)], &[("dw", &self.dw)]);
    }

    /// All four kernels.
    fn all(&self) {
        self.forward();
        self.dx();
        self.dw();
        let given = [("dy", &*self.dy), ("x", &*self.x), ("w", &*self.w)];
        equals(self.case("conv2d_backward"), &given, &[("dx", &self.dx), ("dw", &self.dw)]);
    }
}

const ALL: [&str; 4] = ["conv2d_forward", "conv2d_backward", "conv2d_backward_dx", "conv2d_backward_dw"];

/// The filter's gradient took another group's slice; here every group has its own.
#[test]
fn burn_1877_dw_with_groups_and_stride() {
    Worked::new([3, 3, 2, 2, 1, 1, 4], [1, 4, 4, 4, 4], 2).all();
    // Several filters a group, and groups between one and all channels.
    Worked::new([3, 3, 2, 2, 1, 1, 2], [1, 4, 6, 4, 4], 2).all();
}

/// A wide image's dw asked for more of a hardware limit than there is; here it is computed, within every GPU's limits.
#[test]
fn burn_4445_dw_of_a_wide_image() {
    // Ones: each tap counts the pixels that it meets, 360 · 640 less those of the row and the column that it leaves out.
    let extents = [1, 3, 1, 360, 640, 360, 640];
    let constants = [3, 3, 1, 1, 1, 1, 1, 64];
    let counts =
        [359 * 639, 359 * 640, 359 * 639, 360 * 639, 360 * 640, 360 * 639, 359 * 639, 359 * 640, 359 * 639];
    let literal = Literal::new(Case::new("conv2d_backward_dw", &constants, &extents))
        .given("dy", &vec![1.0; 360 * 640])
        .given("x", &vec![1.0; 3 * 360 * 640])
        .gives("dw", &[counts, counts, counts].concat().iter().map(|&n| f64::from(n)).collect::<Vec<_>>());
    let check = Check::Literal(literal);
    for dtype in [DType::F32, DType::I32] {
        run(&cotangent::Device::cpu(), &check, dtype).unwrap_or_else(|failure| panic!("{dtype}: {failure}"));
    }
    for place in PLACES.iter().filter(|place| place.adds(check.case(), DType::F32)) {
        run(place, &check, DType::F32).unwrap_or_else(|failure| panic!("{failure}"));
    }
    // As many filters as there are tiles for, and rows around what a block of the smallest GPU can hold.
    for (c_out, wd) in [(1, 640), (16, 640), (64, 640), (16, 900), (64, 900)] {
        let case = Case::new("conv2d_backward_dw", &constants, &[1, 3, c_out, 360, wd, 360, wd]);
        for capability in [(9, 0), (8, 6), (7, 5), (7, 0)] {
            for multiprocessors in [1, 132] {
                let target = Target { capability, multiprocessors };
                for launch in suite::planned(&case, DType::F32, &target, Algorithm::Large).unwrap() {
                    let shape = launch.geometry();
                    let most = suite::most_shared(capability);
                    assert!(
                        shape.grid_x < 1 << 31 && shape.block_x <= 256 && shape.shared_bytes <= most,
                        "{target:?}: {shape:?}"
                    );
                }
            }
        }
    }
}

/// The image's gradient was wrong for depthwise convolutions with a stride; here on odd and even extents.
#[test]
fn mlx_pr_3800_dx_with_groups_and_stride() {
    for [h, w] in [[7, 9], [5, 5], [6, 9], [7, 8]] {
        Worked::new([3, 3, 2, 2, 1, 1, 4], [2, 4, 4, h, w], 2).dx();
    }
}

/// dw of a depthwise convolution with a stride was wrong on the CPU.
#[test]
fn pytorch_50042_dw_of_a_depthwise_convolution() {
    Worked::new([3, 3, 2, 2, 1, 1, 24], [1, 24, 24, 6, 6], 2).all();
}

/// With a stride of 2, the backward's shapes did not fit the forward's; here they do, whatever the rounding left over.
#[test]
fn candle_1212_stride_2_on_even_and_odd_images() {
    for [h, w] in [[6, 6], [6, 7], [7, 6], [7, 7]] {
        for pad in [0, 1] {
            Worked::new([3, 3, 2, 2, pad, pad, 1], [1, 2, 3, h, w], 2).all();
            for stream in streams() {
                let shape = [1, 2, h as usize, w as usize];
                let x = Tensor::<f32>::zeros(&stream, &shape).unwrap();
                let filter = Tensor::<f32>::zeros(&stream, &[3, 2, 3, 3]).unwrap();
                let conv = Conv2d::new().stride([2, 2]).pad([pad as usize; 2]);
                let y = ops::conv2d(&stream, &conv, &x, &filter).unwrap();
                let (dx, dw) = ops::conv2d_backward(&stream, &conv, &y, &x, &filter).unwrap();
                assert_eq!((dx.shape(), dw.shape()), (&shape[..], &[3, 2, 3, 3][..]));
            }
        }
    }
}

/// An empty batch left dw as the memory was; here it is zero, or what it was where gradients are added.
#[test]
fn nnlib_763_dw_of_an_empty_batch() {
    let case = |name| Case::new(name, &[3, 3, 1, 1, 1, 1, 1, 64], &[0, 2, 3, 5, 5, 5, 5]);
    let (zeros, before) = ([0.0; 54], numbers(1, 54, 255));
    equals(case("conv2d_backward_dw"), &[], &[("dw", &zeros)]);
    equals(case("conv2d_backward"), &[("w", &before)], &[("dx", &[]), ("dw", &zeros)]);
    equals(case("conv2d_backward_dw").accumulate(true), &[("dw", &before)], &[("dw", &before)]);
    // Channels that tiles would serve, and an image of no rows in the sum.
    let case = Case::new("conv2d_backward_dw", &[1, 1, 1, 1, 0, 0, 1, 64], &[0, 17, 16, 5, 5, 5, 5]);
    equals(case, &[], &[("dw", &[0.0; 17 * 16])]);
}

/// Gradients differed from run to run; here twenty runs have the same bits.
#[test]
fn cudnn_torch_274_pytorch_70042_gradients_are_the_same_each_time() {
    for name in &ALL[1..] {
        suite::is_deterministic(&Case::new(name, &[3, 3, 2, 1, 1, 1, 2, 64], &[2, 4, 6, 9, 8, 5, 8]));
        // With tiles and split sums.
        suite::is_deterministic(&Case::new(name, &[1, 2, 1, 1, 0, 0, 1, 64], &[2, 17, 16, 5, 6, 5, 5]));
    }
}

/// Infinities in the image gave NaN in pixels that none of them reached, or in all; here infinity, where they reach.
#[test]
fn tensorflow_60315_infinities_stay_infinities() {
    for (c_in, c_out) in [(128, 1), (24, 16)] {
        let case = Case::new("conv2d_forward", &[3, 3, 1, 1, 1, 1, 1, 64], &[1, c_in, c_out, 6, 6, 6, 6]);
        let literal = Literal::new(case)
            .given("x", &vec![f64::INFINITY; volume(&[c_in, 36])])
            .given("w", &vec![1.0; volume(&[c_out, c_in, 9])])
            .gives("y", &vec![f64::INFINITY; volume(&[c_out, 36])]);
        let check = Check::Literal(literal);
        run(&cotangent::Device::cpu(), &check, DType::F32).unwrap_or_else(|failure| panic!("{failure}"));
        for place in PLACES.iter().filter(|place| place.adds(check.case(), DType::F32)) {
            run(place, &check, DType::F32).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
    // A few infinities: in what they reach and nowhere else. (For dw without pads: kernels that bring an image to shared
    // memory multiply a gradient that meets a pad by the pad's zero, which the other kernels leave out.)
    for name in ALL {
        let pads = if name.contains("dx") || name.contains("forward") { [1, 1] } else { [0, 0] };
        let (oh, ow) = ((6 + 2 * pads[0] - 3) / 2 + 1, 7 + 2 * pads[1] - 1);
        let constants = [3, 2, 2, 1, pads[0], pads[1], 1, 64];
        matches(Case::new(name, &constants, &[1, 17, 16, 6, 7, oh, ow]).data(Data::Overflow));
        matches(Case::new(name, &constants, &[1, 3, 4, 6, 7, oh, ow]).data(Data::Overflow));
    }
}

/// A stride beyond the filter leaves pixels that no product reaches: their gradient is zero, and written.
#[test]
fn strides_beyond_the_filter_leave_zeros_in_dx() {
    for (kernel, stride) in [([1, 1], [2, 2]), ([2, 2], [3, 3]), ([1, 2], [4, 3]), ([2, 1], [5, 1])] {
        let worked = Worked::new([kernel[0], kernel[1], stride[0], stride[1], 0, 0, 1], [2, 3, 2, 7, 8], 2);
        assert!(worked.dx.contains(&0.0));
        worked.all();
    }
}

/// Pads beyond the filter: some results meet no pixel at all, and are zero.
#[test]
fn pads_beyond_the_filter_leave_zeros_in_y() {
    for (kernel, pad) in [([1, 1], [2, 2]), ([2, 3], [3, 4]), ([3, 3], [5, 0])] {
        let worked = Worked::new([kernel[0], kernel[1], 1, 1, pad[0], pad[1], 1], [1, 2, 2, 3, 4], 2);
        assert!(worked.y.contains(&0.0));
        worked.all();
    }
}

/// Groups of one, of all channels, and between.
#[test]
fn groups_keep_to_their_channels() {
    for g in [1, 2, 3, 6] {
        Worked::new([2, 2, 1, 1, 1, 0, g], [1, 6, 6, 4, 3], 1).all();
    }
}

/// A filter that is larger than the padded image is an error, with both numbers.
#[test]
fn filters_beyond_the_padded_image_are_refused() {
    for name in ALL {
        let case = Case::new(name, &[3, 4, 1, 1, 0, 1, 1, 64], &[1, 1, 1, 2, 3, 1, 2]);
        suite::refused(suite::prepared(&case, DType::F32), &[name, "kh is 3", "padded image's 2"]);
        let case = Case::new(name, &[1, 6, 1, 1, 0, 1, 1, 64], &[1, 1, 1, 2, 3, 2, 1]);
        suite::refused(suite::prepared(&case, DType::F32), &[name, "kw is 6", "padded image's 5"]);
    }
}
