//! The hazards of the kernels beside the five operations, with whole numbers, which every type has exactly.

use cotangent::launch::Access;
use cotangent::verify::{Executor, HostBuffer, decode, encode};
use cotangent::{
    BiasAddBackward, BiasAddForward, CastToBf16, CastToF16, CastToF32, CastToF64, DType, Device, Element,
    Float, Kernel, LaunchOptions, ReluBackward, ReluForward, SgdStep, SoftmaxCrossEntropyBackward,
    SoftmaxCrossEntropyForward,
};
use cotangent_tests::executor::Place;
use cotangent_tests::suite::{nowhere, refused};
use cotangent_tests::typed::{Typed, call};
use half::bf16;

use crate::common::{PLACES, numbers};

/// Nothing, one, around a warp and a block, and more rows than a grid has in y.
const LENGTHS: [usize; 10] = [0, 1, 31, 32, 33, 255, 256, 257, 65_535, 65_537];

fn input<D: Element>(values: &[f64]) -> HostBuffer {
    let bytes = encode(D::DTYPE, values);
    HostBuffer { name: "input", element_bytes: D::DTYPE.size(), offset: 0, access: Access::Read, bytes }
}

fn output<D: Element>(len: usize) -> HostBuffer {
    HostBuffer { access: Access::Write, ..input::<D>(&vec![77.0; len]) }
}

fn update<D: Element>(values: &[f64]) -> HostBuffer {
    HostBuffer { access: Access::Accumulate, ..input::<D>(values) }
}

/// Runs a kernel on the CPU and as device code, on aligned and on odd bases; the buffers of these numbers must then hold
/// what is right.
fn gives<K: Kernel + Send + Sync>(
    kernel: fn(i32) -> K,
    args: impl Fn(&[u64]) -> K::Args<'static> + Send + Sync + Copy,
    buffers: &[HostBuffer],
    results: &[(usize, DType, &[f64])],
) {
    let cpu = Device::cpu();
    let places = PLACES.iter().filter(|place| !matches!(place, Place::Planned { .. }));
    let executors = places.map(|place| place as &dyn Executor).chain([&cpu as &dyn Executor]);
    let long = buffers.iter().any(|buffer| buffer.bytes.len() > 1 << 16);
    for executor in executors {
        for (block, offset) in [(100, 1), (64, 0), (1, 3)].into_iter().take(if long { 1 } else { 3 }) {
            let kernel = Typed { kernel: kernel(block), pointers: buffers.len(), args };
            let mut buffers = buffers.to_vec();
            for buffer in &mut buffers {
                buffer.offset = offset;
            }
            let what = format!("{} on {}", kernel.kernel.name(), executor.name());
            executor
                .run(&call(&kernel, LaunchOptions::new()), &mut buffers)
                .unwrap_or_else(|failure| panic!("{what}: {failure}"));
            for &(at, dtype, right) in results {
                let got = decode(dtype, &buffers[at].bytes);
                assert_eq!(got.len(), right.len(), "{what}");
                let wrong = (0..right.len()).find(|&i| got[i] != right[i]);
                assert!(
                    wrong.is_none(),
                    "{what}, {dtype}, {} elements: buffer {at}, element {wrong:?}",
                    right.len()
                );
            }
        }
    }
}

/// So many elements as rows and, where they are few, as columns too.
fn shapes(n: usize) -> Vec<[i32; 2]> {
    let rows = [n as i32, 1];
    if n > 1000 { vec![rows] } else { vec![rows, [1, n as i32]] }
}

fn relu<D: Float>() {
    for (n, [b, columns]) in
        LENGTHS.into_iter().flat_map(|n| shapes(n).into_iter().map(move |shape| (n, shape)))
    {
        let x: Vec<f64> = numbers(1, n, 200).iter().map(|x| x - 100.0).collect();
        let dy = numbers(2, n, 200);
        let y: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
        let dx: Vec<f64> = x.iter().zip(&dy).map(|(x, dy)| if *x > 0.0 { *dy } else { 0.0 }).collect();
        let args = move |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, b, columns);
        gives(ReluForward::<D>::new, args, &[input::<D>(&x), output::<D>(n)], &[(1, D::DTYPE, &y)]);
        let args = move |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, at[2] as *mut D, b, columns);
        let buffers = [input::<D>(&dy), input::<D>(&y), output::<D>(n)];
        gives(ReluBackward::<D>::new, args, &buffers, &[(2, D::DTYPE, &dx)]);
    }
}

#[test]
fn relu_at_every_edge() {
    relu::<f32>();
    relu::<bf16>();
}

fn bias_add<D: Float>() {
    // An image, a channel or a batch of so many.
    let edges = LENGTHS.into_iter().flat_map(|n| [[n, 1, 1, 1], [1, n, 1, 1], [1, 1, 1, n]]);
    for [b, c, h, w] in edges.chain([[2, 3, 4, 5], [0, 3, 2, 2], [2, 0, 2, 2]]) {
        let total = b * c * h * w;
        let (x, bias) = (numbers(1, total, 100), numbers(2, c, 100));
        // Few are one, so that every type can hold their sums.
        let dy: Vec<f64> = numbers(3, total, 999).iter().map(|&dy| f64::from(dy == 0.0)).collect();
        let channel = |i: usize| i / (h * w) % c;
        let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| x + bias[channel(i)]).collect();
        let mut dbias = vec![0.0; c];
        dy.iter().enumerate().for_each(|(i, dy)| dbias[channel(i)] += dy);
        let [b, c, h, w] = [b, c, h, w].map(|extent| extent as i32);
        let args = move |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, at[2] as *mut D, b, c, h, w);
        let buffers = [input::<D>(&x), input::<D>(&bias), output::<D>(total)];
        gives(BiasAddForward::<D>::new, args, &buffers, &[(2, D::DTYPE, &y)]);
        let args = move |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, b, c, h, w);
        let buffers = [input::<D>(&dy), output::<D>(c as usize)];
        gives(BiasAddBackward::<D>::new, args, &buffers, &[(1, D::DTYPE, &dbias)]);
    }
}

#[test]
fn bias_add_at_every_edge() {
    bias_add::<f32>();
    bias_add::<bf16>();
}

/// One class: its share is one, its loss and its gradient are zero. A wrong label makes both NaN, and is not followed.
#[test]
fn softmax_cross_entropy_at_every_edge() {
    for n in LENGTHS {
        let rows = n as i32;
        let (logits, labels) = (numbers(1, n, 255), vec![0.0; n]);
        let args = move |at: &[u64]| (at[0] as *mut f32, at[1] as *mut i32, at[2] as *mut f32, rows, 1, 0.5);
        let buffers = [input::<f32>(&logits), input::<i32>(&labels), output::<f32>(n)];
        let zeros = vec![0.0; n];
        gives(SoftmaxCrossEntropyForward::<f32>::new, args, &buffers, &[(2, DType::F32, &zeros)]);
        gives(SoftmaxCrossEntropyBackward::<f32>::new, args, &buffers, &[(2, DType::F32, &zeros)]);
    }
    // Classes so far below the label's that nothing of them is left.
    for k in [2, 31, 32, 33, 255, 256, 257] {
        let label = k - 1;
        let mut logits = vec![0.0; k];
        logits[label] = 200.0;
        let classes = k as i32;
        let args =
            move |at: &[u64]| (at[0] as *mut f32, at[1] as *mut i32, at[2] as *mut f32, 1, classes, 1.0);
        let buffers = [input::<f32>(&logits), input::<i32>(&[label as f64]), output::<f32>(1)];
        gives(SoftmaxCrossEntropyForward::<f32>::new, args, &buffers, &[(2, DType::F32, &[0.0])]);
        let buffers = [input::<f32>(&logits), input::<i32>(&[0.0]), output::<f32>(1)];
        gives(SoftmaxCrossEntropyForward::<f32>::new, args, &buffers, &[(2, DType::F32, &[200.0])]);
        let mut dx = vec![0.0; k];
        (dx[0], dx[label]) = (-1.0, 1.0);
        let buffers = [input::<f32>(&logits), input::<i32>(&[0.0]), output::<f32>(k)];
        gives(SoftmaxCrossEntropyBackward::<f32>::new, args, &buffers, &[(2, DType::F32, &dx)]);
    }
}

/// With numbers that are powers of two, nothing is rounded.
#[test]
fn sgd_step_at_every_edge() {
    for n in LENGTHS {
        for [b, columns] in shapes(n) {
            let (w, velocity, dw) = (numbers(1, n, 100), numbers(2, n, 50), numbers(3, n, 20));
            let speed: Vec<f64> = (0..n).map(|i| 2.0 * velocity[i] + (4.0 * dw[i] + 0.5 * w[i])).collect();
            let right: Vec<f64> = (0..n).map(|i| w[i] - 0.25 * speed[i]).collect();
            let buffers = [
                update::<f32>(&w),
                update::<f32>(&velocity),
                input::<bf16>(&dw),
                output::<bf16>(n),
                input::<f32>(&[0.25, 2.0, 0.5, 4.0]),
            ];
            let args = move |at: &[u64]| {
                let master = |i: usize| at[i] as *mut f32;
                (master(0), master(1), at[2] as *mut bf16, at[3] as *mut bf16, master(4), b, columns)
            };
            let copy: Vec<f64> = right.iter().map(|&w| f64::from(bf16::from_f32(w as f32))).collect();
            let results = [(0, DType::F32, &*right), (1, DType::F32, &*speed), (3, DType::Bf16, &*copy)];
            gives(SgdStep::<bf16>::new, args, &buffers, &results);
        }
    }
}

#[test]
fn casts_at_every_edge() {
    for n in LENGTHS {
        for [b, columns] in shapes(n) {
            let x = numbers(1, n, 255);
            macro_rules! to {
                ($kernel:ident $target:ty) => {
                    let args = move |at: &[u64]| (at[0] as *mut f32, at[1] as *mut $target, b, columns);
                    let target = <$target as Element>::DTYPE;
                    gives(
                        $kernel::<f32>::new,
                        args,
                        &[input::<f32>(&x), output::<$target>(n)],
                        &[(1, target, &x)],
                    );
                };
            }
            to!(CastToF16 half::f16);
            to!(CastToBf16 bf16);
            to!(CastToF32 f32);
            to!(CastToF64 f64);
        }
    }
}

/// A block of nothing, or of less, is refused by its name; so is an extent below zero.
#[test]
fn impossible_constants_and_extents_are_refused() {
    let (p, q, r, s, t) = (nowhere(1), nowhere(2), nowhere(3), nowhere(4), nowhere(5));
    let labels = nowhere(6);
    macro_rules! both {
        ($kernel:ident, $args:expr, $name:literal) => {
            for bad in [0, -1, i32::MIN] {
                refused($kernel::<f32>::try_new(bad), &[$name, "block_size", &bad.to_string()]);
            }
            let kernel = $kernel::<f32>::new(64);
            kernel.prepare(&$args(3, 4), &LaunchOptions::new()).expect("a good launch");
            for (b, n) in [(-1, 4), (3, -7)] {
                let bad = if b < 0 { b } else { n };
                let prepared = kernel.prepare(&$args(b, n), &LaunchOptions::new());
                refused(prepared, &[$name, &format!("is {bad}"), "at least 0"]);
            }
        };
    }
    both!(ReluForward, |b, n| (p, q, b, n), "relu_forward");
    both!(ReluBackward, |b, n| (p, q, r, b, n), "relu_backward");
    both!(BiasAddForward, |b, n| (p, q, r, b, 1, n, 1), "bias_add_forward");
    both!(BiasAddBackward, |b, n| (p, q, 1, b, 1, n), "bias_add_backward");
    both!(SoftmaxCrossEntropyForward, |b, n| (p, labels, r, b, n, 1.0), "softmax_cross_entropy_forward");
    both!(SoftmaxCrossEntropyBackward, |b, n| (p, labels, r, b, n, 1.0), "softmax_cross_entropy_backward");
    both!(SgdStep, |b, n| (p, q, r, s, t, b, n), "sgd_step");
    both!(CastToF16, |b, n| (p, nowhere(2), b, n), "cast_to_f16");
    both!(CastToBf16, |b, n| (p, nowhere(2), b, n), "cast_to_bf16");
    both!(CastToF32, |b, n| (p, q, b, n), "cast_to_f32");
    both!(CastToF64, |b, n| (p, nowhere(2), b, n), "cast_to_f64");
}
