//! The kernels beside the five operations: device code against the CPU references, over awkward shapes, types and
//! alignments. Where there is no GPU, the PTX that ships runs on the checking machine, which also finds accesses
//! outside the buffers, undefined values and races.
#![allow(
    clippy::struct_field_names,
    clippy::float_cmp,
    reason = "equal values, infinities among them, are the same"
)]

use std::num::NonZeroU32;

use cotangent::launch::Access;
use cotangent::{
    BiasAddBackward, BiasAddForward, CastToBf16, CastToF16, CastToF32, CastToF64, Device, Element, Float,
    Kernel, LaunchOptions, Num, ReluBackward, ReluForward, SgdStep, SoftmaxCrossEntropyBackward,
    SoftmaxCrossEntropyForward,
};
use cotangent_tests::ptx::{Launch, Machine, Memory, Module, Options};
use half::{bf16, f16};

/// A buffer's bytes, its element's size, and what the kernel does with it.
struct Bytes {
    bytes: Vec<u8>,
    size: usize,
    access: Access,
}

fn bytes_of<D: Element>(elements: &[D]) -> Vec<u8> {
    // SAFETY: any element's bytes are plain initialised bytes.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) }.to_vec()
}

fn elements_of<D: Element>(bytes: &[u8]) -> Vec<D> {
    let mut elements = vec![D::default(); bytes.len() / size_of::<D>()];
    // SAFETY: every bit pattern is a value, and the lengths agree.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), elements.as_mut_ptr().cast(), bytes.len()) };
    elements
}

fn given<D: Element>(elements: &[D]) -> Bytes {
    Bytes { bytes: bytes_of(elements), size: size_of::<D>(), access: Access::Read }
}

fn updated<D: Element>(elements: &[D]) -> Bytes {
    Bytes { access: Access::Accumulate, ..given(elements) }
}

fn wanted<D: Element>(len: usize) -> Bytes {
    Bytes { access: Access::Write, ..given(&vec![D::default(); len]) }
}

fn on_device<'a, K: Kernel>(
    device: &Device,
    kernel: &K,
    args: impl Fn(&[u64]) -> K::Args<'a>,
    options: &LaunchOptions<'_>,
    buffers: &[Bytes],
) -> Vec<Vec<u8>> {
    let uploaded: Vec<_> = buffers.iter().map(|buffer| device.upload(&buffer.bytes).unwrap()).collect();
    let addresses: Vec<u64> = uploaded.iter().map(|buffer| buffer.as_ptr() as u64).collect();
    // SAFETY: the buffers have what the kernel's docs ask for.
    unsafe { device.launch(kernel, args(&addresses), options).unwrap() };
    uploaded.iter().map(|buffer| buffer.to_vec().unwrap()).collect()
}

fn on_machine<'a, K: Kernel>(
    kernel: &K,
    args: impl Fn(&[u64]) -> K::Args<'a>,
    options: &LaunchOptions<'_>,
    buffers: &[Bytes],
    misalign: usize,
) -> Vec<Vec<u8>> {
    let mut memory = Memory::new();
    let placed: Vec<_> = buffers
        .iter()
        .map(|buffer| {
            let off = misalign * buffer.size;
            match buffer.access {
                Access::Read => memory.alloc_read_only("input", &buffer.bytes, off),
                Access::Write => memory.alloc("output", buffer.bytes.len(), off),
                Access::Accumulate => memory.alloc_with("both", &buffer.bytes, off),
            }
        })
        .collect();
    let addresses: Vec<u64> = placed.iter().map(|&at| memory.address(at)).collect();
    let launch = kernel.prepare(&args(&addresses), options).unwrap();
    if launch.work() > 0 {
        let module = Module::parse(&launch.specialised_ptx().unwrap()).unwrap();
        let entry = launch.entry_point_name();
        let sizes = module.entry(&entry).unwrap().params.iter().map(|param| param.size);
        let params: Vec<_> = launch
            .params()
            .iter()
            .zip(sizes)
            .map(|(bytes, size)| bytes[..size.min(bytes.len())].to_vec())
            .collect();
        let geometry = launch.geometry();
        let shape = Launch {
            grid: [geometry.grid_x, 1, 1],
            block: [geometry.block_x, 1, 1],
            shared_bytes: geometry.shared_bytes as usize,
            params: &params,
        };
        let run = Machine::new(&module).launch(&entry, shape, &mut memory, &Options::default());
        run.unwrap_or_else(|report| panic!("{report}"));
    }
    placed
        .iter()
        .zip(buffers)
        .map(|(&at, buffer)| {
            let (bytes, _) = memory.read(at);
            let bytes = bytes.clone();
            if buffer.access == Access::Write {
                memory.check_written(at, 0..bytes.len()).unwrap_or_else(|error| panic!("{error}"));
            }
            bytes
        })
        .collect()
}

/// Runs a kernel as its reference and as device code, with several grids and alignments, and compares one buffer.
fn compare<'a, K: Kernel, D: Num>(
    kernel: &K,
    args: impl Fn(&[u64]) -> K::Args<'a> + Copy,
    options: LaunchOptions<'_>,
    buffers: &[Bytes],
    outputs: &[usize],
    tolerance: f64,
) {
    let expected = on_device(&Device::cpu(), kernel, args, &options, buffers);
    let gpu = Device::cuda(0).ok();
    for (grid, misalign) in [(None, 0), (NonZeroU32::new(1), 1), (NonZeroU32::new(3), 3)] {
        let mut options = options;
        options.grid = grid;
        let got = match &gpu {
            Some(gpu) => on_device(gpu, kernel, args, &options, buffers),
            None => on_machine(kernel, args, &options, buffers, misalign),
        };
        for &output in outputs {
            let name = format!("{} {}, buffer {output}, grid {grid:?}", kernel.name(), kernel.dtype());
            if buffers[output].size == size_of::<D>() {
                close::<D>(&name, &got[output], &expected[output], tolerance);
            } else {
                // Master weights.
                close::<f32>(&name, &got[output], &expected[output], tolerance);
            }
        }
    }
}

fn close<D: Num>(name: &str, got: &[u8], expected: &[u8], tolerance: f64) {
    let (got, expected) = (elements_of::<D>(got), elements_of::<D>(expected));
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let (a, b) = (got.to_f64(), expected.to_f64());
        let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(same, "{name}, element {i}: {a} is not {b}");
    }
}

/// A unit in the last place of numbers near one, of what a type's results are rounded to.
fn unit<D: Element>() -> f64 {
    match D::DTYPE.name() {
        "f16" => 2.0_f64.powi(-10),
        "bf16" => 2.0_f64.powi(-7),
        "f32" => 2.0_f64.powi(-23),
        _ => 2.0_f64.powi(-52),
    }
}

fn noise<D: Num>(seed: u64, len: usize) -> Vec<D> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len)
        .map(|_| D::from_f64((random.f64() * 2.0 - 1.0) * if D::DTYPE.is_float() { 1.0 } else { 100.0 }))
        .collect()
}

/// Around a warp, a vector and a tile.
const LENGTHS: [i32; 8] = [0, 1, 7, 33, 64, 255, 257, 1030];

fn relu<D: Float>() {
    for n in LENGTHS {
        let mut x = noise::<D>(1, n as usize);
        for (at, special) in [f64::NAN, f64::INFINITY, -0.0, f64::NEG_INFINITY].into_iter().enumerate() {
            if let Some(x) = x.get_mut(at * 3) {
                *x = D::from_f64(special);
            }
        }
        let dy = noise::<D>(2, n as usize);
        let kernel = ReluForward::<D>::new(128);
        let buffers = [given(&x), wanted::<D>(n as usize)];
        let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, 1, n);
        compare::<_, D>(&kernel, args, LaunchOptions::new(), &buffers, &[1], 0.0);
        for accumulate in [false, true] {
            let kernel = ReluBackward::<D>::new(128);
            let dx = if accumulate { updated(&noise::<D>(3, n as usize)) } else { wanted::<D>(n as usize) };
            let buffers = [given(&dy), given(&x), dx];
            let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, at[2] as *mut D, n, 1);
            let options = LaunchOptions::new().accumulate(accumulate);
            compare::<_, D>(&kernel, args, options, &buffers, &[2], unit::<D>());
        }
    }
}

#[test]
fn relu_matches_reference() {
    relu::<f16>();
    relu::<bf16>();
    relu::<f32>();
    relu::<f64>();
}

fn bias_add<D: Num>() {
    for [b, c, h, w] in
        [[0, 3, 2, 2], [1, 1, 1, 1], [2, 3, 4, 5], [3, 5, 1, 7], [2, 2, 16, 17], [5, 1, 33, 8]]
    {
        let total = (b * c * h * w) as usize;
        let (x, bias) = (noise::<D>(1, total), noise::<D>(2, c as usize));
        let kernel = BiasAddForward::<D>::new(96);
        let buffers = [given(&x), given(&bias), wanted::<D>(total)];
        let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, at[2] as *mut D, b, c, h, w);
        compare::<_, D>(&kernel, args, LaunchOptions::new(), &buffers, &[2], unit::<D>());
        for (accumulate, threads) in [(false, 256), (true, 256), (false, 1), (true, 33)] {
            let kernel = BiasAddBackward::<D>::new(threads);
            let dbias = if accumulate { updated(&bias) } else { wanted::<D>(c as usize) };
            let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut D, b, c, h, w);
            let options = LaunchOptions::new().accumulate(accumulate);
            // Sums of n terms of up to 1 in magnitude, in f32 at least.
            let rounding = unit::<D>() + f64::from(b * h * w) * unit::<D>().min(2.0_f64.powi(-23));
            compare::<_, D>(&kernel, args, options, &[given(&x), dbias], &[1], rounding);
        }
    }
}

#[test]
fn bias_add_matches_reference() {
    bias_add::<i8>();
    bias_add::<u16>();
    bias_add::<i32>();
    bias_add::<i64>();
    bias_add::<f16>();
    bias_add::<bf16>();
    bias_add::<f32>();
    bias_add::<f64>();
}

fn softmax_cross_entropy<D: Float>() {
    for [b, k] in [[0, 4], [1, 1], [3, 10], [2, 33], [2, 300], [5, 2], [3, 0]] {
        let total = (b * k) as usize;
        let logits: Vec<D> = noise::<f64>(1, total).iter().map(|x| D::from_f64(x * 8.0)).collect();
        let mut labels: Vec<i32> = (0..b).map(|r| if k == 0 { 0 } else { r * 7 % k }).collect();
        if let Some(last) = labels.get_mut(2) {
            *last = -1;
        }
        let kernel = SoftmaxCrossEntropyForward::<D>::new(256);
        let buffers = [given(&logits), given(&labels), wanted::<D>(b as usize)];
        let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut i32, at[2] as *mut D, b, k, 0.25);
        // exp and ln within a unit of the last place, in f32 at least, and sums of k terms below one.
        let rounding = unit::<D>() + f64::from(k + 8) * unit::<D>().min(2.0_f64.powi(-22));
        compare::<_, D>(&kernel, args, LaunchOptions::new(), &buffers, &[2], rounding);
        for accumulate in [false, true] {
            let kernel = SoftmaxCrossEntropyBackward::<D>::new(64);
            let dx = if accumulate { updated(&noise::<D>(4, total)) } else { wanted::<D>(total) };
            let buffers = [given(&logits), given(&labels), dx];
            let options = LaunchOptions::new().accumulate(accumulate);
            compare::<_, D>(&kernel, args, options, &buffers, &[2], rounding);
        }
    }
}

#[test]
fn softmax_cross_entropy_matches_reference() {
    softmax_cross_entropy::<f16>();
    softmax_cross_entropy::<bf16>();
    softmax_cross_entropy::<f32>();
    softmax_cross_entropy::<f64>();
}

fn sgd_step<D: Float>() {
    for n in LENGTHS {
        let len = n as usize;
        let numbers = [0.1, 0.9, 0.01, 0.5].map(<D::Master as Num>::from_f64);
        let buffers = [
            updated(&noise::<D::Master>(1, len)),
            updated(&noise::<D::Master>(2, len)),
            given(&noise::<D>(3, len)),
            wanted::<D>(len),
            given(&numbers),
        ];
        let kernel = SgdStep::<D>::new(128);
        let args = |at: &[u64]| {
            let master = |i: usize| at[i] as *mut D::Master;
            (master(0), master(1), at[2] as *mut D, at[3] as *mut D, master(4), 1, n)
        };
        let options = LaunchOptions::new();
        compare::<_, D>(&kernel, args, options, &buffers, &[0, 1], 4.0 * unit::<D::Master>());
        // The copy may round the other way where the weight itself differs in its last bits.
        compare::<_, D>(&kernel, args, options, &buffers, &[3], unit::<D>().max(4.0 * unit::<D::Master>()));
        let without = |at: &[u64]| {
            let master = |i: usize| at[i] as *mut D::Master;
            (master(0), master(1), at[2] as *mut D, std::ptr::null_mut(), master(3), 1, n)
        };
        let [w, velocity, dw, _, numbers] = buffers;
        compare::<_, D>(
            &kernel,
            without,
            options,
            &[w, velocity, dw, numbers],
            &[0, 1],
            4.0 * unit::<D::Master>(),
        );
    }
}

#[test]
fn sgd_step_matches_reference() {
    sgd_step::<f16>();
    sgd_step::<bf16>();
    sgd_step::<f32>();
    sgd_step::<f64>();
}

fn cast<D: Float>() {
    for n in LENGTHS {
        let mut x = noise::<D>(1, n as usize);
        let special = [
            f64::NAN,
            f64::INFINITY,
            -0.0,
            65519.9,
            65520.0,
            1e300,
            1e-300,
            1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40),
        ];
        for (x, special) in x.iter_mut().zip(special) {
            *x = D::from_f64(special);
        }
        macro_rules! to {
            ($kernel:ident $target:ty) => {{
                let kernel = $kernel::<D>::new(128);
                let buffers = [given(&x), wanted::<$target>(n as usize)];
                let args = |at: &[u64]| (at[0] as *mut D, at[1] as *mut $target, 1, n);
                compare::<_, $target>(&kernel, args, LaunchOptions::new(), &buffers, &[1], 0.0);
            }};
        }
        to!(CastToF16 f16);
        to!(CastToBf16 bf16);
        to!(CastToF32 f32);
        to!(CastToF64 f64);
    }
}

#[test]
fn cast_matches_reference() {
    cast::<f16>();
    cast::<bf16>();
    cast::<f32>();
    cast::<f64>();
}

#[test]
fn kernels_reject_what_contradicts_itself() {
    let kernel = ReluForward::<f32>::new(64);
    let somewhere = |at: usize| std::ptr::without_provenance_mut::<f32>(at << 20);
    assert!(kernel.prepare(&(somewhere(1), somewhere(2), -1, 4), &LaunchOptions::new()).is_err());
    assert!(kernel.prepare(&(somewhere(1), somewhere(1), 1, 4), &LaunchOptions::new()).is_err());
    assert!(kernel.prepare(&(std::ptr::null_mut(), somewhere(1), 1, 4), &LaunchOptions::new()).is_err());
    assert!(
        kernel.prepare(&(somewhere(1), somewhere(2), 1, 4), &LaunchOptions::new().accumulate(true)).is_err()
    );
    assert!(kernel.prepare(&(somewhere(1), somewhere(2), 1, 4), &LaunchOptions::new().rows(2)).is_err());
    assert!(ReluForward::<f32>::try_new(0).is_err());
    let step = SgdStep::<f32>::new(64);
    let same = (somewhere(1), somewhere(1), somewhere(2), somewhere(3), somewhere(4), 1, 4);
    assert!(step.prepare(&same, &LaunchOptions::new()).is_err(), "weights that are their own velocity");
}
