//! Calls of kernels that verification has no cases of, against their CPU references.

use std::num::NonZeroU32;
use std::sync::Arc;

use cotangent::launch::Access;
use cotangent::verify::{AnyKernel, Executor, Failure, HostBuffer, Measured, SplitMix64, decode};
use cotangent::{Algorithm, DType, Device, Element, Float, Kernel, LaunchOptions, Num};

use super::{Job, Work, module};
use crate::executor::Blocks;
use crate::typed::{Typed, call};

/// A buffer's elements, what the kernel does with it, and how far its results may be off.
#[derive(Clone)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    dtype: DType,
    access: Access,
    tolerance: f64,
}

/// An input.
pub(super) fn given<D: Element>(elements: &[D]) -> Buffer {
    // SAFETY: any element's bytes are plain initialised bytes.
    let bytes = unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) };
    Buffer { bytes: bytes.to_vec(), dtype: D::DTYPE, access: Access::Read, tolerance: 0.0 }
}

/// An input in which every third minus infinity is the NaN that follows it: the one with the least bits.
pub(super) fn given_with_nans<D: Float>(elements: &[D]) -> Buffer {
    let mut buffer = given(elements);
    let infinite = elements.iter().enumerate().filter(|(_, value)| value.to_f64() == f64::NEG_INFINITY);
    for (index, _) in infinite.skip(1).step_by(3) {
        buffer.bytes[index * size_of::<D>()] = 1;
    }
    buffer
}

/// An output that is added to.
pub(super) fn updated<D: Element>(elements: &[D], tolerance: f64) -> Buffer {
    Buffer { access: Access::Accumulate, tolerance, ..given(elements) }
}

/// An output; before the launch it holds what no result is.
pub(super) fn wanted<D: Element>(len: usize, tolerance: f64) -> Buffer {
    let bytes = vec![0x6b; len * size_of::<D>()];
    Buffer { bytes, dtype: D::DTYPE, access: Access::Write, tolerance }
}

/// An output: added to, or written.
pub(super) fn output<D: Num>(accumulate: bool, len: usize, tolerance: f64) -> Buffer {
    if accumulate { updated(&noise::<D>(9, len, 1.0), tolerance) } else { wanted::<D>(len, tolerance) }
}

/// Floats between −`scale` and `scale`, or integers of up to two digits.
pub(super) fn noise<D: Num>(seed: u64, len: usize, scale: f64) -> Vec<D> {
    let mut random = SplitMix64::new(seed);
    let scale = if D::DTYPE.is_float() { scale } else { 100.0 };
    (0..len).map(|_| D::from_f64(random.unit() * scale)).collect()
}

/// Multiples of 2⁻⁸ between −1 and 1, whose sums are exact in f32 in any order; integers of up to two digits.
pub(super) fn coarse<D: Num>(seed: u64, len: usize) -> Vec<D> {
    noise::<f64>(seed, len, 256.0).into_iter().map(|value| D::from_f64(value.round() / 256.0)).collect()
}

/// A unit in the last place of numbers near one, of what a type's results are rounded to.
pub(super) fn unit<D: Element>() -> f64 {
    match D::DTYPE {
        DType::F16 => 2.0_f64.powi(-10),
        DType::Bf16 => 2.0_f64.powi(-7),
        DType::F32 => 2.0_f64.powi(-23),
        DType::F64 => 2.0_f64.powi(-52),
        _ => 0.0,
    }
}

/// A pointer argument.
pub(super) fn pointer<D>(at: &[u64], i: usize) -> *mut D {
    at[i] as *mut D
}

/// Buffer of a buffer from which a call is run at every place.
const LONG_BYTES: usize = 2000;

/// The grids of calls, and how many elements their bases are off: all on boundaries, all off them alike, inputs one
/// less than outputs, and one more.
const PLACES: [(Option<NonZeroU32>, [usize; 5]); 4] = [
    (None, [0; 5]),
    (NonZeroU32::new(1), [1; 5]),
    (NonZeroU32::new(2), [0, 1, 3, 2, 1]),
    (NonZeroU32::new(3), [3, 2, 1, 0, 1]),
];

/// A launch with its buffers; the reference gives the right answers.
struct Typical {
    kernel: Box<dyn AnyKernel>,
    accumulate: bool,
    buffers: Vec<Buffer>,
}

impl Typical {
    fn run(
        &self,
        executor: &dyn Executor,
        grid: Option<NonZeroU32>,
        offsets: [usize; 5],
    ) -> Result<Measured, Failure> {
        let options = LaunchOptions::new().accumulate(self.accumulate);
        let mut call = call(&*self.kernel, options);
        let buffers: Vec<_> = self
            .buffers
            .iter()
            .zip(offsets)
            .map(|(buffer, offset)| HostBuffer {
                name: if buffer.access == Access::Read { "input" } else { "output" },
                element_bytes: buffer.dtype.size(),
                offset,
                access: buffer.access,
                bytes: buffer.bytes.clone(),
            })
            .collect();
        let mut expected = buffers.clone();
        Device::cpu().run(&call, &mut expected)?;
        call.options.grid = grid;
        let mut got = buffers;
        executor.run(&call, &mut got)?;
        let mut measured = Measured::default();
        for ((buffer, got), expected) in self.buffers.iter().zip(&got).zip(&expected) {
            measured = measured.worst(close(buffer, &got.bytes, &expected.bytes)?);
        }
        Ok(measured)
    }
}

/// Compares a buffer with the reference's: NaNs by class, and other numbers by their bits where nothing is allowed.
fn close(buffer: &Buffer, got: &[u8], expected: &[u8]) -> Result<Measured, Failure> {
    let size = buffer.dtype.size();
    let values = |bytes: &[u8]| decode(buffer.dtype, bytes);
    let (got_values, expected_values) = (values(got), values(expected));
    let mut measured = Measured::default();
    for (i, (&a, &b)) in got_values.iter().zip(&expected_values).enumerate() {
        let bits = i * size..(i + 1) * size;
        let same = got[bits.clone()] == expected[bits]
            || a.is_nan() && b.is_nan()
            || buffer.tolerance > 0.0 && a == b;
        let (error, bound) = ((a - b).abs(), buffer.tolerance * b.abs().max(1.0));
        if same {
            continue;
        }
        if buffer.tolerance <= 0.0 || !error.is_finite() || error > bound {
            return Err(Failure::Executor(format!("element {i}: {a} is not {b}").into()));
        }
        measured = measured.worst(Measured { error, bound });
    }
    Ok(measured)
}

/// Collects jobs of such calls.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) jobs: Vec<Job>,
}

impl Jobs {
    /// Adds a call at one of [`PLACES`], or at each of them.
    pub(super) fn add<K: Kernel + Send + Sync + 'static>(
        &mut self,
        shape: &str,
        kernel: K,
        buffers: Vec<Buffer>,
        args: impl Fn(&[u64]) -> K::Args<'static> + Send + Sync + 'static,
    ) {
        self.add_one(shape, kernel, buffers, args, false);
    }

    /// The same, overwriting or adding to the outputs.
    pub(super) fn add_one<K: Kernel + Send + Sync + 'static>(
        &mut self,
        shape: &str,
        kernel: K,
        buffers: Vec<Buffer>,
        args: impl Fn(&[u64]) -> K::Args<'static> + Send + Sync + 'static,
        accumulate: bool,
    ) {
        let (name, dtype, pointers) = (kernel.name(), kernel.dtype(), buffers.len());
        let kernel: Box<dyn AnyKernel> = Box::new(Typed { kernel, pointers, args });
        let call = Arc::new(Typical { kernel, accumulate, buffers });
        let added = if accumulate { ", accumulated" } else { "" };
        let label = format!("{name} {shape}{added}");
        // Short ones take one place each, drawn from their description.
        let largest = call.buffers.iter().map(|buffer| buffer.bytes.len()).max().unwrap_or(0);
        let one = SplitMix64::from_text(&label).below(PLACES.len() as u64) as usize;
        let places = if largest < LONG_BYTES { &PLACES[one..=one] } else { &PLACES };
        for &(grid, offsets) in places {
            let call = Arc::clone(&call);
            let blocks = grid.map_or_else(String::new, |blocks| format!(", {blocks} blocks"));
            self.jobs.push(Job {
                kernel: name,
                dtype,
                label: format!("{label}{blocks}, bases off by {offsets:?} elements, {dtype}"),
                modules: vec![module(name, dtype)],
                target: None,
                algorithm: Algorithm::Auto,
                blocks: Blocks::Planned,
                work: Work::Body(Box::new(move |executor| call.run(executor, grid, offsets))),
            });
        }
    }
}
