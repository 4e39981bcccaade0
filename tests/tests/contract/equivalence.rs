//! A kernel's source text, compiled by itself with its constants as literals, computes what the shipped module
//! computes with the constants written in: bit for bit, on a GPU where there is one and otherwise on the PTX
//! machine.

use cotangent::launch::{Access, Launch, Touched};
use cotangent::verify::{SplitMix64, encode};
use cotangent::{DType, Device};
use cotangent_tests::ptx::{self, Machine, Memory, Module, Options};

use crate::catalogue::{Call, SUBJECTS, Subject};

/// Element types that between them have every width, and every arithmetic.
const DTYPES: [DType; 6] = [DType::U8, DType::I16, DType::Bf16, DType::F32, DType::I64, DType::F64];

/// Bytes of buffers up to which a call is executed: the others take minutes on the machine.
const SMALL: u64 = 1 << 16;

/// A buffer before a launch.
struct Before {
    name: &'static str,
    bytes: Vec<u8>,
    access: Access,
}

/// A buffer after a launch: its bytes, and which of them hold something.
type After = (Vec<u8>, Vec<bool>);

/// The type of the elements in a buffer.
fn element(subject: &Subject, buffer: &str) -> DType {
    let half = matches!(subject.dtype, DType::F16 | DType::Bf16);
    match (subject.info.name, buffer) {
        (_, "labels") => DType::I32,
        ("cast_to_f16", "y") => DType::F16,
        ("cast_to_bf16", "y") => DType::Bf16,
        ("cast_to_f32", "y") => DType::F32,
        ("cast_to_f64", "y") => DType::F64,
        ("sgd_step", "w" | "velocity" | "numbers") if half => DType::F32,
        _ => subject.dtype,
    }
}

/// Contents that every kernel can work with: any bits for integers, numbers between −1 and 1 for floats, and
/// labels that are classes.
fn contents(subject: &Subject, call: &Call, touched: &Touched) -> Before {
    let Touched { name, bytes, access, .. } = *touched;
    let dtype = element(subject, name);
    let mut random = SplitMix64::from_text(&format!("{} {name}", subject.label()));
    let count = bytes as usize / dtype.size();
    let values: Vec<f64> = match (name, dtype.is_float()) {
        ("labels", _) => (0..count).map(|_| random.below(call.extents[1] as u64) as f64).collect(),
        (_, true) => (0..count).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0).collect(),
        (_, false) => (0..count).map(|_| random.below(1 << 40) as f64).collect(),
    };
    Before { name, bytes: encode(dtype, &values), access }
}

/// Launches a module on the PTX machine.
fn on_machine(subject: &Subject, call: &Call, module: &str, before: &[Before]) -> Result<Vec<After>, String> {
    let mut memory = Memory::new();
    let place = |before: &Before| match before.access {
        Access::Read => memory.alloc_read_only(before.name, &before.bytes, 0),
        Access::Write => memory.alloc(before.name, before.bytes.len(), 0),
        Access::Accumulate => memory.alloc_with(before.name, &before.bytes, 0),
    };
    let buffers: Vec<_> = before.iter().map(place).collect();
    let addresses: Vec<_> = buffers.iter().map(|&buffer| memory.address(buffer)).collect();
    let launch = subject.launches.prepare(&addresses, call).map_err(|error| error.to_string())?;
    let module = Module::parse(module).map_err(|error| error.to_string())?;
    let entry = module.entry(&subject.entry_point_name).ok_or("no entry point")?;
    // Padding may follow a parameter's own bytes.
    let params: Vec<_> =
        launch.params().iter().zip(&entry.params).map(|(b, p)| b[..p.size].to_vec()).collect();
    let shape = ptx::Launch {
        grid: [launch.geometry().grid_x, 1, 1],
        block: [launch.geometry().block_x, 1, 1],
        shared_bytes: launch.geometry().shared_bytes as usize,
        params: &params,
    };
    let run =
        Machine::new(&module).launch(&subject.entry_point_name, shape, &mut memory, &Options::default());
    run.map_err(|report| report.to_string())?;
    Ok(buffers.iter().map(|&buffer| memory.read(buffer)).collect())
}

/// Launches a module on a GPU.
fn on_gpu(
    device: &Device,
    subject: &Subject,
    call: &Call,
    module: &str,
    before: &[Before],
) -> Result<Vec<After>, String> {
    let upload = |before: &Before| device.upload(&before.bytes);
    let buffers: Vec<_> = before.iter().map(upload).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let addresses: Vec<_> = buffers.iter().map(|buffer| buffer.as_ptr() as u64).collect();
    // SAFETY: the buffers have the bytes that the launch touches.
    let run = unsafe { subject.launches.launch_ptx(device, module, &addresses, call) };
    run.map_err(|error| error.to_string())?;
    let after = |buffer: &cotangent::Buffer<u8>| {
        let bytes = buffer.to_vec().map_err(|error| error.to_string())?;
        let defined = vec![true; bytes.len()];
        Ok((bytes, defined))
    };
    buffers.iter().map(after).collect()
}

/// One call with both modules.
fn compare(
    gpu: Option<&Device>,
    subject: &Subject,
    call: &Call,
    launch: &Launch,
    compiled: &str,
) -> Option<String> {
    let before: Vec<_> = launch.touched().iter().map(|touched| contents(subject, call, touched)).collect();
    let run = |module: &str| match gpu {
        Some(device) => on_gpu(device, subject, call, module, &before),
        None => on_machine(subject, call, module, &before),
    };
    let shipped = match launch.specialised_ptx().map_err(|error| error.to_string()).and_then(|ptx| run(&ptx))
    {
        Ok(after) => after,
        Err(error) => return Some(format!("the shipped module: {error}")),
    };
    let compiled = match run(compiled) {
        Ok(after) => after,
        Err(error) => return Some(format!("the compiled source: {error}")),
    };
    let differing = before.iter().zip(shipped.iter().zip(&compiled)).find(|(_, (one, other))| one != other);
    differing.map(|(before, _)| format!("the two leave different bytes in {}", before.name))
}

#[test]
#[ignore = "needs the device compiler: cargo ptx-setup"]
fn every_source_compiles_and_computes_what_its_module_computes() {
    let gpu = Device::cuda(0).ok();
    let subjects: Vec<_> = SUBJECTS.iter().filter(|subject| DTYPES.contains(&subject.dtype)).collect();
    let sources: Vec<_> = subjects.iter().map(|subject| &*subject.fields.source).collect();
    let compiled = cotangent_builder::compile_sources(&sources).expect("a device compiler");
    let (mut runs, mut failures) = (0, Vec::new());
    for (subject, compiled) in subjects.iter().zip(compiled) {
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                failures.push(format!("{}: {error}", subject.label()));
                continue;
            }
        };
        for call in &subject.calls {
            let launch = subject.portable(call);
            let bytes: u64 = launch.touched().iter().map(|touched| touched.bytes).sum();
            if launch.work() == 0 || bytes > SMALL {
                continue;
            }
            runs += 1;
            let failure = compare(gpu.as_ref(), subject, call, &launch, &compiled);
            failures.extend(failure.map(|failure| format!("{} {call:?}: {failure}", subject.label())));
        }
    }
    assert!(failures.is_empty(), "{} of {runs} runs:\n{}", failures.len(), failures.join("\n"));
    assert!(runs >= 2 * subjects.len(), "only {runs} runs of {} kernels", subjects.len());
}
