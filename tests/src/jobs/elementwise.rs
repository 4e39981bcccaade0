//! The kernels beside the five operations: shapes around a warp, a vector and a tile, and beyond what a block has in
//! flight.

use cotangent::{
    BiasAddBackward, BiasAddForward, CastToBf16, CastToF16, CastToF32, CastToF64, Float, Num, ReluBackward,
    ReluForward, SgdStep, SoftmaxCrossEntropyBackward, SoftmaxCrossEntropyForward,
};
use half::{bf16, f16};

use super::Job;
use super::around::Around;
use super::typed::{Jobs, coarse, given, given_with_nans, noise, output, pointer, unit, updated, wanted};

/// Their names.
pub(super) const NAMES: [&str; 11] = [
    "bias_add_forward",
    "bias_add_backward",
    "relu_forward",
    "relu_backward",
    "softmax_cross_entropy_forward",
    "softmax_cross_entropy_backward",
    "sgd_step",
    "cast_to_f16",
    "cast_to_bf16",
    "cast_to_f32",
    "cast_to_f64",
];

const LENGTHS: [i32; 10] = [0, 1, 7, 33, 64, 255, 257, 700, 1030, 9000];

/// Elements of a block: fewer than its threads have in flight, and more.
const BLOCKS: [i32; 3] = [96, 128, 4096];

/// Elements of so many bytes, of which the 256 threads of a block have four 16-byte vectors each in flight, and some more.
const fn in_flight(bytes: usize) -> i32 {
    (4 * 256 * 16 / bytes) as i32 + 100
}

fn relu<D: Float>(jobs: &mut Jobs, lengths: impl IntoIterator<Item = i32>) {
    let many = in_flight(size_of::<D>());
    for n in lengths {
        let len = n as usize;
        let mut x = noise::<D>(1, len, 1.0);
        let special = [f64::NAN, f64::INFINITY, -0.0, f64::NEG_INFINITY, 0.0];
        for (x, special) in x.iter_mut().step_by(3).zip(special.into_iter().cycle()) {
            *x = D::from_f64(special);
        }
        for block in [128, many] {
            let shape = format!("of {n} elements in blocks of {block}");
            let buffers = vec![given_with_nans(&x), wanted::<D>(len, 0.0)];
            let args = move |at: &[u64]| (pointer(at, 0), pointer(at, 1), 1, n);
            jobs.add(&shape, ReluForward::<D>::new(block), buffers, args);
            for accumulate in [false, true] {
                let dx = output::<D>(accumulate, len, if accumulate { unit::<D>() } else { 0.0 });
                let buffers = vec![given(&noise::<D>(2, len, 1.0)), given_with_nans(&x), dx];
                let args = move |at: &[u64]| (pointer(at, 0), pointer(at, 1), pointer(at, 2), n, 1);
                jobs.add_one(&shape, ReluBackward::<D>::new(block), buffers, args, accumulate);
            }
        }
    }
}

fn bias_add<D: Num>(jobs: &mut Jobs, shapes: impl IntoIterator<Item = [i32; 4]>) {
    let many = in_flight(size_of::<D>());
    for [b, c, h, w] in shapes {
        let total = (b * c * h * w) as usize;
        let extents = [b, c, h, w];
        // Sums of 16-bit floats are rounded once, so that exact sums give exact bits.
        let (exact, numbers): (_, fn(u64, usize) -> Vec<D>) =
            if size_of::<D>() == 2 { (true, coarse) } else { (false, |seed, len| noise(seed, len, 1.0)) };
        let (x, bias) = (numbers(1, total), numbers(2, c as usize));
        for block in [96, many] {
            let buffers =
                vec![given(&x), given(&bias), wanted::<D>(total, if exact { 0.0 } else { unit::<D>() })];
            let args = move |at: &[u64]| (pointer(at, 0), pointer(at, 1), pointer(at, 2), b, c, h, w);
            let shape = format!("of {extents:?} in blocks of {block}");
            jobs.add(&shape, BiasAddForward::<D>::new(block), buffers, args);
        }
        // Sums of n terms of up to 1 in magnitude, in f32 at least.
        let rounding = unit::<D>() + f64::from(b * h * w) * unit::<D>().min(2.0_f64.powi(-23));
        let rounding = if exact { 0.0 } else { rounding };
        for (accumulate, threads) in [(false, 256), (true, 256), (false, 1), (true, 33)] {
            let dbias = if accumulate { updated(&bias, rounding) } else { wanted::<D>(c as usize, rounding) };
            let buffers = vec![given(&x), dbias];
            let args = move |at: &[u64]| (pointer(at, 0), pointer(at, 1), b, c, h, w);
            let shape = format!("of {extents:?} by {threads} threads");
            jobs.add_one(&shape, BiasAddBackward::<D>::new(threads), buffers, args, accumulate);
        }
    }
}

fn softmax_cross_entropy<D: Float>(jobs: &mut Jobs, scaled: impl IntoIterator<Item = ([i32; 2], f64)>) {
    for ([b, k], scale) in scaled {
        let total = (b * k) as usize;
        let logits = noise::<D>(1, total, scale);
        let mut labels: Vec<i32> = (0..b).map(|r| if k == 0 { 0 } else { r * 7 % k }).collect();
        if let Some(last) = labels.get_mut(2) {
            *last = -1;
        }
        // exp and ln within a unit of the last place, in f32 at least, and sums of k terms below one.
        let rounding = unit::<D>() + f64::from(k + 8) * unit::<D>().min(2.0_f64.powi(-22));
        let args = move |at: &[u64]| (pointer(at, 0), pointer(at, 1), pointer(at, 2), b, k, 0.25);
        for threads in [64, 256] {
            let shape = format!("of {b} × {k} up to {scale} by {threads} threads");
            let buffers = vec![given(&logits), given(&labels), wanted::<D>(b as usize, rounding)];
            jobs.add(&shape, SoftmaxCrossEntropyForward::<D>::new(threads), buffers, args);
            for accumulate in [false, true] {
                let dx = output::<D>(accumulate, total, rounding);
                let buffers = vec![given(&logits), given(&labels), dx];
                let kernel = SoftmaxCrossEntropyBackward::<D>::new(threads);
                jobs.add_one(&shape, kernel, buffers, args, accumulate);
            }
        }
    }
}

fn sgd_step<D: Float>(jobs: &mut Jobs, lengths: impl IntoIterator<Item = i32>) {
    let master_unit = 4.0 * unit::<D::Master>();
    for (n, block) in lengths.into_iter().flat_map(|n| BLOCKS.map(|block| (n, block))) {
        let len = n as usize;
        let numbers = [0.1, 0.9, 0.01, 0.5].map(<D::Master as Num>::from_f64);
        let weights = updated(&noise::<D::Master>(1, len, 1.0), master_unit);
        let velocity = updated(&noise::<D::Master>(2, len, 1.0), master_unit);
        let dw = given(&noise::<D>(3, len, 1.0));
        // The copy may round the other way where the weight itself differs in its last bits.
        let copy = wanted::<D>(len, unit::<D>().max(master_unit));
        let buffers = vec![weights.clone(), velocity.clone(), dw.clone(), copy, given(&numbers)];
        let args = move |at: &[u64]| {
            (pointer(at, 0), pointer(at, 1), pointer(at, 2), pointer(at, 3), pointer(at, 4), 1, n)
        };
        let shape = format!("of {n} elements in blocks of {block}");
        jobs.add(&format!("{shape} with a copy"), SgdStep::<D>::new(block), buffers, args);
        let args = move |at: &[u64]| {
            let none = std::ptr::null_mut();
            (pointer(at, 0), pointer(at, 1), pointer(at, 2), none, pointer(at, 3), 1, n)
        };
        let buffers = vec![weights, velocity, dw, given(&numbers)];
        jobs.add(&shape, SgdStep::<D>::new(block), buffers, args);
    }
}

/// Ties and what lies beside them, at the edges of f16 and bf16 too, and what is no number.
fn awkward() -> [f64; 15] {
    let power = |exponent| 2.0_f64.powi(exponent);
    [
        f64::NAN,
        f64::INFINITY,
        -0.0,
        65519.9,
        65520.0,
        1e300,
        1e-300,
        1.0 + power(-11) + power(-40),
        1.0 + power(-11),
        1.0 + 3.0 * power(-11),
        1.0 + power(-8),
        1.0 + 3.0 * power(-8),
        power(-25),
        3.0 * power(-25),
        -f64::from(f32::MAX),
    ]
}

fn cast<D: Float>(jobs: &mut Jobs, lengths: impl IntoIterator<Item = i32>) {
    for n in lengths {
        let mut x = noise::<D>(1, n as usize, 1.0);
        // At the start, and at every place that a thread has in flight.
        let awkward = awkward();
        for (i, x) in x.iter_mut().enumerate().filter(|(i, _)| *i < awkward.len() || i % 7 == 0) {
            *x = D::from_f64(awkward[i % awkward.len()]);
        }
        macro_rules! to {
            ($kernel:ident $target:ty) => {
                for block in BLOCKS {
                    let buffers = vec![given(&x), wanted::<$target>(n as usize, 0.0)];
                    let args = move |at: &[u64]| (pointer(at, 0), pointer(at, 1), 1, n);
                    let shape = format!("of {n} elements in blocks of {block}");
                    jobs.add(&shape, $kernel::<D>::new(block), buffers, args);
                }
            };
        }
        to!(CastToF16 f16);
        to!(CastToBf16 bf16);
        to!(CastToF32 f32);
        to!(CastToF64 f64);
    }
}

/// Every such kernel for every module of it.
pub(super) fn jobs() -> Vec<Job> {
    let mut jobs = Jobs::default();
    macro_rules! each {
        ($name:ident($shapes:ident): $($ty:ty),+) => { $($name::<$ty>(&mut jobs, $shapes(size_of::<$ty>()));)+ };
    }
    each!(relu(relu_lengths): f16, bf16, f32, f64);
    each!(cast(lengths): f16, bf16, f32, f64);
    each!(sgd_step(lengths): f16, bf16, f32, f64);
    each!(softmax_cross_entropy(logits): f16, bf16, f32, f64);
    each!(bias_add(images): i8, u16, i32, i64, f16, bf16, f32, f64);
    jobs.jobs
}

/// The shapes of elements of so many bytes.
fn lengths(_bytes: usize) -> [i32; 10] {
    LENGTHS
}

fn relu_lengths(bytes: usize) -> impl Iterator<Item = i32> {
    let many = in_flight(bytes);
    LENGTHS.into_iter().chain([many + many / 2])
}

fn images(bytes: usize) -> impl Iterator<Item = [i32; 4]> {
    let shapes = [[0, 3, 2, 2], [1, 1, 1, 1], [2, 3, 4, 5], [3, 5, 1, 7], [2, 2, 16, 17], [5, 1, 33, 8]];
    let many = in_flight(bytes);
    shapes.into_iter().chain([[2, 3, 40, 41], [2, 300, 1, 1], [2, 3, 1, many / 4], [many / 9, 2, 1, 7]])
}

/// Rows and classes, and the largest logit.
fn logits(bytes: usize) -> impl Iterator<Item = ([i32; 2], f64)> {
    let shapes = [[0, 4], [1, 1], [3, 10], [2, 33], [4, 700], [5, 2], [3, 0]];
    // Logits that overflow where the largest is not taken off them.
    let steep = if bytes == 8 { 1e6 } else { 3000.0 };
    shapes.map(|shape| (shape, 8.0)).into_iter().chain([([3, 70], steep), ([4, 300], steep)])
}

/// A job of a kernel, in a drawn shape and element type.
pub(super) fn drawn(kernel: &str, around: &mut Around) -> Job {
    let mut jobs = Jobs::default();
    macro_rules! one_of {
        ($name:ident($shape:expr): $($ty:ty),+) => {{
            let shape = $shape;
            let stamped: &[fn(&mut Jobs, _)] = &[$(|jobs, shape| $name::<$ty>(jobs, [shape])),+];
            around.of(stamped)(&mut jobs, shape);
        }};
    }
    match kernel {
        "relu_forward" | "relu_backward" => one_of!(relu(around.between(0, 30_000)): f16, bf16, f32, f64),
        "sgd_step" => one_of!(sgd_step(around.between(0, 30_000)): f16, bf16, f32, f64),
        "softmax_cross_entropy_forward" | "softmax_cross_entropy_backward" => {
            let shape = [around.between(0, 40), around.between(0, 700)];
            one_of!(softmax_cross_entropy((shape, 8.0)): f16, bf16, f32, f64);
        }
        "bias_add_forward" | "bias_add_backward" => {
            let shape =
                [around.between(0, 5), around.extent(65), around.between(1, 33), around.between(1, 33)];
            one_of!(bias_add(shape): i8, u16, i32, i64, f16, bf16, f32, f64);
        }
        _ => one_of!(cast(around.between(0, 30_000)): f16, bf16, f32, f64),
    }
    let mut jobs = jobs.jobs;
    jobs.retain(|job| job.kernel == kernel);
    let which = around.between(0, jobs.len() as i32 - 1);
    jobs.swap_remove(which as usize)
}
