//! Records what a GPU answers to the instruction corpus: `ptx_corpus/golden/*.bin`, and the GPU in `device.txt`.
//!
//! `cargo run --release -p cotangent-tests --example corpus_golden` on a machine with an NVIDIA GPU of compute
//! capability 9.0 or more. Nothing is written until every program has run.

use std::error::Error;
use std::sync::Arc;

use cotangent::driver::{Arguments, CudaDevice, DeviceMemory, DriverError, Shape, Stream, launch};
use cotangent_tests::corpus::{BLOCK, Backend, ELEMENTS, ENTRY, GRID, PROGRAMS, Program};

struct Gpu {
    device: Arc<CudaDevice>,
    stream: Stream,
}

impl Backend for Gpu {
    type Error = DriverError;

    fn run(&mut self, program: &Program, input: &[u8]) -> Result<Vec<u8>, DriverError> {
        let Self { device, stream } = self;
        let function = device.function(program.text, ENTRY)?;
        let from = DeviceMemory::alloc(device, input.len(), stream)?;
        let to = DeviceMemory::alloc(device, program.output_bytes(), stream)?;
        from.copy_from_host(0, input, stream)?;
        to.fill(0, program.output_bytes(), 0, stream)?;
        let mut arguments = Vec::new();
        arguments.extend(from.address().to_ne_bytes());
        arguments.extend(to.address().to_ne_bytes());
        arguments.extend((ELEMENTS as u32).to_ne_bytes());
        let shape = Shape { grid_x: GRID, block_x: BLOCK, shared_bytes: 0 };
        // SAFETY: every program declares two addresses and a count. It reads the input and writes the output of
        // `ELEMENTS` elements, as the buffers are long, and both live until the copy below has been waited for.
        unsafe { launch(&function, shape, Arguments::Packed(&arguments), stream) }?;
        let mut output = vec![0; program.output_bytes()];
        to.copy_to_host(0, &mut output, stream)?;
        Ok(output)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = CudaDevice::open(0)?;
    let stream = Stream::new(&device)?;
    let mut gpu = Gpu { device, stream };
    let mut answers = Vec::new();
    for program in PROGRAMS {
        let output =
            gpu.run(program, &program.input()).map_err(|error| format!("{}: {error}", program.name))?;
        answers.push((program, output));
    }
    for (program, output) in answers {
        let state = match program.golden() {
            Ok(before) if before == output => "as before",
            Ok(_) => "changed",
            Err(_) => "new",
        };
        println!("{}: {state}", program.name);
        std::fs::write(program.golden_file(), output)?;
    }
    let info = gpu.device.info();
    let version = 1000 * info.driver.major + 10 * info.driver.minor;
    let device = format!("{}, CUDA driver API {version}\n", info.name);
    let folder = PROGRAMS[0].golden_file().with_file_name("device.txt");
    std::fs::write(folder, device)?;
    Ok(())
}
