//! The operations beside the five.

use cotangent::verify::{HostBuffer, bound, decode, encode};
use cotangent::{
    BiasAddBackward, BiasAddForward, CastToBf16, CastToF16, CastToF32, CastToF64, DType, Float, Kernel,
    LaunchOptions, Num, ReluBackward, ReluForward, SgdStep, SoftmaxCrossEntropyBackward,
    SoftmaxCrossEntropyForward,
};
use cotangent_tests::typed::{Typed, call};
use half::{bf16, f16};

use crate::data::{Case, Golden, input, output, update, volume};
use crate::places::{Path, everywhere};
use crate::table::{Errors, Once};

pub(crate) static ALL: &[&Once] = &[&BIAS_ADD, &SOFTMAX_CROSS_ENTROPY, &SGD_STEP];

static BIAS_ADD: Once = Once::new(bias_add);
static SOFTMAX_CROSS_ENTROPY: Once = Once::new(softmax_cross_entropy);
static SGD_STEP: Once = Once::new(sgd_step);

/// Runs the body with `$element` as the Rust type of a case's elements.
macro_rules! with_float {
    ($dtype:expr, $element:ident => $body:expr) => {
        with_float!(@arms $dtype, $element => $body; F16 f16, Bf16 bf16, F32 f32, F64 f64)
    };
    ($dtype:expr, $element:ident or integer => $body:expr) => {
        with_float!(@arms $dtype, $element => $body; U8 u8, I32 i32, I64 i64, F16 f16, Bf16 bf16, F32 f32, F64 f64)
    };
    (@arms $dtype:expr, $element:ident => $body:expr; $($name:ident $ty:ty),+) => {
        match $dtype {
            $(DType::$name => {
                type $element = $ty;
                $body
            })+
            other => panic!("no goldens are {other}"),
        }
    };
}

/// Runs a kernel with this block everywhere. None of these has tuned variants.
fn run<K: Kernel + Send + Sync>(
    what: &str,
    (kernel, block): (fn(i32) -> K, i32),
    args: impl Fn(&[u64]) -> K::Args<'static> + Send + Sync,
    buffers: &[HostBuffer],
    see: impl FnMut(Path, &str, &[HostBuffer]),
) {
    let kernel = Typed { kernel: kernel(block), pointers: buffers.len(), args };
    everywhere(what, &call(&kernel, LaunchOptions::new()), buffers, |_| false, see);
}

/// Equal as numbers: any NaN is another, and either zero.
fn same_numbers(what: &str, dtype: DType, got: &[u8], right: &[u8]) {
    assert_eq!(got.len(), right.len(), "{what}");
    for (i, (got, right)) in decode(dtype, got).into_iter().zip(decode(dtype, right)).enumerate() {
        assert!(got == right || got.is_nan() && right.is_nan(), "{what}, element {i}: {got} is not {right}");
    }
}

#[test]
fn relu_matches_golden() {
    let golden = Golden::open("relu");
    for case in &golden.cases {
        with_float!(case.dtype(), D => relu::<D>(&golden, case));
    }
}

fn relu<D: Float>(golden: &Golden, case: &Case) {
    let (dtype, n) = (D::DTYPE, case.len);
    let len = n as usize;
    let mut x = if case.any_bits { case.bits("x", len) } else { case.unit("x", len) };
    let special = encode(dtype, &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0]);
    x[..special.len()].copy_from_slice(&special);
    let buffers = [input("x", dtype, x.clone()), output("y", dtype, len)];
    let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, 1, n);
    run(&case.id, (ReluForward::<D>::new, 128), args, &buffers, |_, place, after| {
        let what = format!("{}, y, on {place}", case.id);
        same_numbers(&what, dtype, &after[1].bytes, golden.result(case, "y", dtype));
    });
    // The forward's input stands for its output as well.
    for y in [golden.result(case, "y", dtype).to_vec(), x] {
        let dy = case.unit("dy", len);
        let buffers = [input("dy", dtype, dy), input("y", dtype, y), output("dx", dtype, len)];
        let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, at[2] as *mut D, 1, n);
        run(&case.id, (ReluBackward::<D>::new, 128), args, &buffers, |_, place, after| {
            let what = format!("{}, dx, on {place}", case.id);
            same_numbers(&what, dtype, &after[2].bytes, golden.result(case, "dx", dtype));
        });
    }
}

fn bias_add() -> Errors {
    let golden = Golden::open("bias_add");
    let mut errors = Errors::default();
    for case in &golden.cases {
        with_float!(case.dtype(), D or integer => bias_add_case::<D>(&golden, case, &mut errors));
    }
    errors
}

fn bias_add_case<D: Num>(golden: &Golden, case: &Case, errors: &mut Errors) {
    let dtype = D::DTYPE;
    let [b, c, h, w] = <[i32; 4]>::try_from(&*case.extents).expect("four extents");
    let total = volume(&case.extents);
    let made = |name, elements| {
        if dtype.is_float() { case.unit(name, elements) } else { case.bits(name, elements) }
    };
    let mut compare = |result, terms, (path, place): (Path, &str), got: &[u8]| {
        if dtype.is_float() {
            let row = if result == "y" { "bias_add_forward" } else { "bias_add_backward" };
            let bound = |value| bound(dtype, terms, case.magnitude(result), value);
            errors.sum(golden, case, result, dtype, (row, path, place), got, bound);
        } else {
            assert_eq!(got, golden.result(case, result, dtype), "{}, {result}, on {place}", case.id);
        }
    };
    let (x, bias) = (input("x", dtype, made("x", total)), input("bias", dtype, made("bias", c as usize)));
    let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, at[2] as *mut D, b, c, h, w);
    let buffers = [x, bias, output("y", dtype, total)];
    run(&case.id, (BiasAddForward::<D>::new, 96), args, &buffers, |path, place, after| {
        compare("y", 2, (path, place), &after[2].bytes);
    });
    let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, b, c, h, w);
    let buffers = [input("dy", dtype, made("dy", total)), output("dbias", dtype, c as usize)];
    run(&case.id, (BiasAddBackward::<D>::new, 256), args, &buffers, |path, place, after| {
        compare("dbias", (b * h * w) as u64, (path, place), &after[1].bytes);
    });
}

#[test]
fn bias_add_matches_golden() {
    Once::force(&BIAS_ADD);
}

/// A unit in the last place of numbers near one.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::EPSILON.to_f64(),
        DType::Bf16 => bf16::EPSILON.to_f64(),
        DType::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

fn softmax_cross_entropy() -> Errors {
    let golden = Golden::open("softmax_cross_entropy");
    let mut errors = Errors::default();
    for case in &golden.cases {
        with_float!(case.dtype(), D => softmax_case::<D>(&golden, case, &mut errors));
    }
    errors
}

fn softmax_case<D: Float>(golden: &Golden, case: &Case, errors: &mut Errors) {
    let (dtype, scale) = (D::DTYPE, case.scale);
    let [b, k] = <[i32; 2]>::try_from(&*case.extents).expect("two extents");
    let total = volume(&[b, k]);
    let labels = encode(DType::I32, &case.below("labels", k as u64, b as usize));
    let logits = input("logits", dtype, case.units(dtype, "logits", total, 8.0));
    let labels = input("labels", DType::I32, labels);
    // Exponents of up to 16 rounded to f32 at least, exp and ln to a unit of the last place, sums of k terms below
    // one, and the result's own rounding.
    let rounding = unit(dtype) + f64::from(k + 24) * unit(dtype).min(unit(DType::F32));
    let bound = |value: f64| rounding * value.abs().max(1.0);
    let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut i32, at[2] as *mut D, b, k, scale);
    let buffers = [logits.clone(), labels.clone(), output("loss", dtype, b as usize)];
    run(&case.id, (SoftmaxCrossEntropyForward::<D>::new, 256), args, &buffers, |path, place, after| {
        let row = ("softmax_cross_entropy_forward", path, place);
        errors.sum(golden, case, "loss", dtype, row, &after[2].bytes, bound);
    });
    let buffers = [logits, labels, output("dx", dtype, total)];
    run(&case.id, (SoftmaxCrossEntropyBackward::<D>::new, 64), args, &buffers, |path, place, after| {
        let row = ("softmax_cross_entropy_backward", path, place);
        errors.sum(golden, case, "dx", dtype, row, &after[2].bytes, bound);
    });
}

#[test]
fn softmax_cross_entropy_matches_golden() {
    Once::force(&SOFTMAX_CROSS_ENTROPY);
}

fn sgd_step() -> Errors {
    let golden = Golden::open("sgd_step");
    let mut errors = Errors::default();
    for case in &golden.cases {
        with_float!(case.dtype(), D => sgd_case::<D>(&golden, case, &mut errors));
    }
    errors
}

fn sgd_case<D: Float>(golden: &Golden, case: &Case, errors: &mut Errors) {
    let (dtype, n) = (D::DTYPE, case.len);
    let (master, len) = (<D::Master as cotangent::Element>::DTYPE, n as usize);
    let buffers = [
        update("w", master, case.units(master, "w", len, 1.0)),
        update("velocity", master, case.units(master, "velocity", len, 1.0)),
        input("dw", dtype, case.unit("dw", len)),
        output("copy", dtype, len),
        input("numbers", master, encode(master, &[0.1, 0.9, 0.01, 0.3])),
    ];
    let args = |at: &[u64]| {
        let master = |i: usize| at[i] as *mut D::Master;
        (master(0), master(1), at[2] as *mut D, at[3] as *mut D, master(4), 1, n)
    };
    run(&case.id, (SgdStep::<D>::new, 128), args, &buffers, |path, place, after| {
        // The velocity's magnitudes add up to 0.9 + 0.3 + 0.01 at most, and the weight's to 1 + 0.1 times these.
        for (result, dtype, at, magnitude) in
            [("w", master, 0, 1.121), ("velocity", master, 1, 1.21), ("copy", dtype, 3, 1.121)]
        {
            if golden.find(case, result, dtype).is_some() {
                let bound = |value| bound(dtype, 5, magnitude, value);
                let row = format!("sgd_step {result} (gradients {})", D::DTYPE);
                errors.sum(golden, case, result, dtype, (&row, path, place), &after[at].bytes, bound);
            }
        }
    });
}

#[test]
fn sgd_step_matches_golden() {
    Once::force(&SGD_STEP);
}

#[test]
fn cast_matches_golden() {
    let golden = Golden::open("cast");
    for case in &golden.cases {
        with_float!(case.dtype(), D => cast::<D>(&golden, case));
    }
}

fn cast<D: Float>(golden: &Golden, case: &Case) {
    let (dtype, n) = (D::DTYPE, case.len);
    let half = n as usize / 2;
    let x = [case.units(dtype, "x", half, 4.0), case.bits("bits", half)].concat();
    macro_rules! to {
        ($kernel:ident $target:ty) => {{
            let target = <$target as cotangent::Element>::DTYPE;
            let buffers = [input("x", dtype, x), output("y", target, n as usize)];
            let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut $target, 1, n);
            run(&case.id, ($kernel::<D>::new, 128), args, &buffers, |_, place, after| {
                let what = format!("{}, on {place}", case.id);
                same_numbers(&what, target, &after[1].bytes, golden.result(case, "y", target));
            });
        }};
    }
    match &*case.to {
        "f16" => to!(CastToF16 f16),
        "bf16" => to!(CastToBf16 bf16),
        "f32" => to!(CastToF32 f32),
        "f64" => to!(CastToF64 f64),
        other => panic!("no kernel casts to {other}"),
    }
}
