//! A GPU that runs what is planned for any target, as the PTX machine does, to compare the two.

use std::sync::Arc;

use cotangent::Algorithm;
use cotangent::driver::{Arguments, CudaDevice, DeviceMemory, DriverError, Shape, Stream, launch};
use cotangent::launch::{Launch, Target};
use cotangent::verify::{Call, Executor, Failure, HostBuffer};

use crate::executor::{Blocks, launches};
use crate::jobs::Job;

/// What a workspace holds before its first launch: NaNs, and numbers that are too large.
const UNWRITTEN: u8 = 0xff;

/// A GPU, with a stream of its own.
#[derive(Debug)]
pub struct Gpu {
    device: Arc<CudaDevice>,
    stream: Stream,
    planned: Option<(Target, Algorithm)>,
    blocks: Blocks,
}

fn driver(error: DriverError) -> Failure {
    Failure::Executor(error.into())
}

impl Gpu {
    /// A GPU that launches the portable kernels.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn new(device: &Arc<CudaDevice>) -> Result<Self, DriverError> {
        let stream = Stream::new(device)?;
        Ok(Self { device: Arc::clone(device), stream, planned: None, blocks: Blocks::Planned })
    }

    /// The same GPU for a job: with its target and its grids.
    #[must_use]
    pub fn for_job(&self, job: &Job) -> Self {
        let Self { device, stream, .. } = self;
        let (device, stream) = (Arc::clone(device), stream.clone());
        Self { device, stream, planned: job.target.map(|target| (target, job.algorithm)), blocks: job.blocks }
    }

    fn start(&self, launched: &Launch) -> Result<(), Failure> {
        let function = self.device.function(&launched.specialised_ptx()?, &launched.entry_point_name());
        let function = function.map_err(driver)?;
        let geometry = launched.geometry();
        let shape = Shape {
            grid_x: self.blocks.of(geometry.grid_x),
            block_x: geometry.block_x,
            shared_bytes: geometry.shared_bytes,
        };
        let arguments = Arguments::Packed(launched.params().packed());
        // SAFETY: the kernel's own checks made the parameters from the addresses of buffers that are as long as the
        // launch needs, and live until their contents have been copied back. Any grid is right.
        unsafe { launch(&function, shape, arguments, &self.stream) }.map_err(driver)
    }
}

impl Executor for Gpu {
    fn name(&self) -> String {
        self.device.info().name.clone()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let Self { device, stream, planned, .. } = self;
        let place = |buffer: &HostBuffer| -> Result<DeviceMemory, DriverError> {
            let guarded = buffer.guarded();
            let memory = DeviceMemory::alloc(device, guarded.len(), stream)?;
            memory.copy_from_host(0, &guarded, stream)?;
            Ok(memory)
        };
        let placed: Vec<_> = buffers.iter().map(place).collect::<Result<_, _>>().map_err(driver)?;
        let addresses: Vec<u64> =
            placed.iter().zip(&*buffers).map(|(at, buffer)| at.address() + buffer.start() as u64).collect();
        let mut own = None;
        let workspace = |bytes: u64| {
            let memory = DeviceMemory::alloc(device, bytes as usize, stream).map_err(driver)?;
            memory.fill(0, bytes as usize, UNWRITTEN, stream).map_err(driver)?;
            let address = memory.address();
            own = Some(memory);
            Ok(address)
        };
        let launched = launches(
            call,
            &addresses,
            planned.as_ref().map(|(target, choice)| (target, *choice)),
            workspace,
        )?;
        launched.iter().filter(|launch| launch.work() > 0).try_for_each(|launch| self.start(launch))?;
        for (memory, buffer) in placed.iter().zip(buffers) {
            let mut guarded = buffer.guarded();
            memory.copy_to_host(0, &mut guarded, stream).map_err(driver)?;
            buffer.take(&guarded)?;
        }
        drop(own);
        Ok(())
    }
}
