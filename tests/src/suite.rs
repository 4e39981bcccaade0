//! The properties that every operation's tests state, each as one function.

use std::sync::Mutex;

use cotangent::launch::{Access, Launch, Target, Touched};
use cotangent::verify::{Call, Case, Check, Executor, Failure, HostBuffer, checks, kernel, run};
use cotangent::{Algorithm, DType, Device, Kernel, LaunchOptions, MathMode};

use crate::executor::{self, Place, places};
pub use crate::jobs::{equals_literals, matches_reference};

/// Device code, forward against backward, over verification's fixed set.
pub fn is_adjoint(name: &str) {
    let checks = checks(name).expect("a known kernel").into_iter();
    let checks: Vec<_> = checks.filter(|check| matches!(check, Check::Adjoint(_))).collect();
    assert!(!checks.is_empty(), "{name} has no such check");
    for place in places() {
        for dtype in place.dtypes(name) {
            for check in checks.iter().filter(|check| place.adds(check.case(), dtype)) {
                if let Err(failure) = run(&place, check, dtype) {
                    panic!("{check}, {dtype}, on {}: {failure}", place.name());
                }
            }
        }
    }
}

/// One check on the CPU, for a few element types that differ in what may go wrong.
///
/// # Errors
/// What it found, as text.
pub fn on_cpu(check: &Check) -> Result<(), String> {
    for dtype in [DType::U8, DType::I64, DType::Bf16, DType::F32] {
        run(&Device::cpu(), check, dtype).map_err(|failure| format!("{check}, {dtype}: {failure}"))?;
    }
    Ok(())
}

/// One check on device code, for a narrow and a wide element type.
///
/// # Errors
/// What it found, as text.
pub fn on_device(places: &[Place], check: &Check) -> Result<(), String> {
    for place in places {
        for dtype in [DType::U8, DType::F32].into_iter().filter(|&dtype| place.adds(check.case(), dtype)) {
            run(place, check, dtype)
                .map_err(|failure| format!("{check}, {dtype}, on {}: {failure}", place.name()))?;
        }
    }
    Ok(())
}

/// Keeps what every launch left in its outputs.
struct Recorder<'a> {
    executor: &'a dyn Executor,
    outputs: Mutex<Vec<Vec<Vec<u8>>>>,
}

impl Executor for Recorder<'_> {
    fn name(&self) -> String {
        self.executor.name()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        self.executor.run(call, buffers)?;
        let outputs = buffers.iter().filter(|buffer| buffer.access != Access::Read);
        let outputs = outputs.map(|buffer| buffer.bytes.clone()).collect();
        self.outputs.lock().expect("no run panicked").push(outputs);
        Ok(())
    }
}

/// Twenty runs of a case that writes every element give the same bits, on the CPU and on a GPU; on the machine,
/// which takes its time, four runs.
pub fn is_deterministic(case: &Case) {
    same_bits(&Device::cpu(), case, &[DType::F16, DType::F32, DType::F64], 20);
    for place in places() {
        let (dtypes, runs): (&[_], _) = match place {
            Place::Gpu(_) => (&[DType::F16, DType::F32, DType::F64], 20),
            _ => (&[DType::F32], 4),
        };
        if place.adds(case, DType::F32) {
            same_bits(&place, case, dtypes, runs);
        }
    }
}

fn same_bits(executor: &dyn Executor, case: &Case, dtypes: &[DType], runs: usize) {
    let check = Check::Reference(case.clone());
    for &dtype in dtypes {
        let recorder = Recorder { executor, outputs: Mutex::default() };
        // Each check is two runs.
        for _ in 0..runs / 2 {
            run(&recorder, &check, dtype).unwrap_or_else(|failure| panic!("{check}, {dtype}: {failure}"));
        }
        let outputs = recorder.outputs.into_inner().expect("no run panicked");
        assert_eq!(outputs.len(), runs);
        assert!(
            outputs.iter().all(|output| *output == outputs[0]),
            "{check}, {dtype}, on {}",
            executor.name()
        );
    }
}

/// Fails unless the result is an error whose message has all of these parts.
pub fn refused<T, E: std::fmt::Display>(result: Result<T, E>, parts: &[&str]) {
    let message = result.err().expect("this must be refused").to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

/// A pointer to nothing, for launches that are planned and not carried out. Each number is 2⁴⁴ bytes from the
/// next.
#[must_use]
pub fn nowhere<D>(number: u64) -> *mut D {
    (number << 44) as *mut D
}

/// A case's launch with buffers that are nowhere, as its kernel's own checks let it through.
///
/// # Errors
/// What they refuse.
pub fn prepared(case: &Case, dtype: DType) -> Result<Launch, Failure> {
    let pointers = kernel(case.kernel, dtype, &case.constants)?.pointers() as u64;
    plan(case, dtype, &(1..=pointers).map(|i| i << 44).collect::<Vec<_>>())
}

/// What a case launches on a target by this choice of kernels, with buffers that are nowhere.
///
/// # Errors
/// What its kernel refuses.
pub fn planned(
    case: &Case,
    dtype: DType,
    target: &Target,
    algorithm: Algorithm,
) -> Result<Vec<Launch>, Failure> {
    executor::plan(case, dtype, target, algorithm, MathMode::default())
}

/// A case's launch with buffers at these addresses, planned by its kernel's own checks.
fn plan(case: &Case, dtype: DType, addresses: &[u64]) -> Result<Launch, Failure> {
    let kernel = kernel(case.kernel, dtype, &case.constants)?;
    let mut options = LaunchOptions::new().accumulate(case.accumulate);
    options.rows = case.rows;
    let scalar = vec![0; kernel.scalar_bytes()];
    Call { kernel: &*kernel, extents: &case.extents, scalar: &scalar, options }.prepare(addresses)
}

/// Every buffer null, misaligned, overlapping an output, and too short: refused, by name and by numbers. The
/// case must be one in which every buffer has elements.
pub fn rejects_bad_buffers(case: &Case) {
    for dtype in [DType::F32, DType::I64] {
        let size = dtype.size() as u64;
        let pointers = kernel(case.kernel, dtype, &case.constants).expect("a good case").pointers() as u64;
        let good: Vec<u64> = (1..=pointers).map(|i| i << 44).collect();
        let with = |i: usize, address: u64| {
            let mut addresses = good.clone();
            addresses[i] = address;
            plan(case, dtype, &addresses)
        };
        let touched = plan(case, dtype, &good).expect("a good case").touched().to_vec();
        for (i, &Touched { name, bytes, access, .. }) in touched.iter().enumerate() {
            assert!(bytes > 0, "{name} has no elements");
            refused(with(i, 0), &[case.kernel, &format!("{name} is null"), &bytes.to_string()]);
            let odd = good[i] + 1;
            refused(with(i, odd), &[case.kernel, &format!("{name} is at {odd:#x}"), &size.to_string()]);
            for (j, other) in touched.iter().enumerate().filter(|&(j, _)| j != i) {
                // The last element of one is the first of the other.
                let shared = with(i, good[j] + other.bytes - size);
                if access == Access::Read && other.access == Access::Read {
                    shared.expect("two inputs may overlap");
                } else {
                    refused(shared, &[case.kernel, name, other.name, &format!("overlap by {size} bytes")]);
                }
                with(i, good[j] + other.bytes).expect("neighbours do not overlap");
            }
        }
        rejects_short_buffers(case, dtype, &touched);
    }
}

/// Each buffer in turn an element too short, on the CPU, where lengths are known.
fn rejects_short_buffers(case: &Case, dtype: DType, touched: &[Touched]) {
    let device = Device::cpu();
    let kernel = kernel(case.kernel, dtype, &case.constants).expect("a good case");
    let scalar = vec![0; kernel.scalar_bytes()];
    let mut options = LaunchOptions::new().accumulate(case.accumulate);
    options.rows = case.rows;
    let call = Call { kernel: &*kernel, extents: &case.extents, scalar: &scalar, options };
    for (short, &Touched { name, bytes, .. }) in touched.iter().enumerate() {
        let have = bytes - dtype.size() as u64;
        let buffers: Vec<_> = touched
            .iter()
            .enumerate()
            .map(|(i, touched)| {
                let bytes = if i == short { have } else { touched.bytes };
                // One more element, so that even an empty buffer has an address; the pointer is past it.
                device.zeros::<u8>(bytes as usize + dtype.size()).expect("memory")
            })
            .collect();
        let addresses: Vec<_> =
            buffers.iter().map(|buffer| buffer.as_ptr() as u64 + dtype.size() as u64).collect();
        // SAFETY: the launch is refused; were it not, the buffers of a reference would end here.
        let result = unsafe { call.launch(&device, &addresses) };
        let (have, need) = (format!("{name} has {have} bytes"), format!("touches {bytes}"));
        refused(result, &[case.kernel, &have, &need]);
    }
}

/// Every public field of a kernel edited after it was built: refused, by name, and with both values of a constant.
#[macro_export]
macro_rules! rejects_edits {
    ($kernel:expr, $args:expr, $options:expr, [$($constant:ident),+]) => {
        let kernel = $kernel;
        let name = cotangent::Kernel::name(&kernel);
        let prepare = |kernel| $crate::suite::prepare(kernel, &$args, &$options);
        prepare(&kernel).expect("nothing was edited yet");
        $(
            let mut edited = kernel.clone();
            edited.$constant += 1;
            let values = format!("was changed from {} to {}", kernel.$constant, edited.$constant);
            $crate::suite::refused(prepare(&edited), &[name, stringify!($constant), &values]);
        )+
        let mut edited = kernel.clone();
        edited.kernel_source.push(' ');
        $crate::suite::refused(prepare(&edited), &[name, "kernel_source"]);
        let mut edited = kernel.clone();
        edited.entry_point_source.push(' ');
        $crate::suite::refused(prepare(&edited), &[name, "source"]);
        let mut edited = kernel.clone();
        edited.source.push(' ');
        $crate::suite::refused(prepare(&edited), &[name, "source"]);
    };
}

/// [`Kernel::prepare`], for arguments whose type follows from the kernel's.
///
/// # Errors
/// As there.
pub fn prepare<K: Kernel>(
    kernel: &K,
    args: &K::Args<'_>,
    options: &LaunchOptions<'_>,
) -> cotangent::Result<Launch> {
    kernel.prepare(args, options)
}

/// The most shared memory of a block in bytes, by compute capability (CUDA C++ Programming Guide, "Compute Capabilities").
pub fn most_shared(capability: (u32, u32)) -> u32 {
    (match capability {
        (7, 0) => 96,
        (7, _) => 64,
        (8, 0 | 7) => 163,
        (9 | 10, _) => 227,
        _ => 99,
    }) << 10
}
