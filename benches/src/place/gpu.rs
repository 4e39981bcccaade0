//! A GPU: device memory, a stream, events, and bursts recorded as graphs.

use std::sync::Arc;

use cotangent::driver::{self, CudaDevice, DeviceMemory, Event, Graph};
use cotangent::{Device, LaunchOptions, Stream};

use super::{Burst, Place, Work};
use crate::error::Result;

/// Bytes that are left to the driver, to modules and to other programs.
const SPARE: u64 = 2 << 30;

/// A GPU as a place.
pub struct Gpu {
    start: Event,
    end: Event,
    block: DeviceMemory,
    /// The same stream twice: for launches, and for everything else.
    stream: Stream,
    queue: driver::Stream,
    driver: Arc<CudaDevice>,
    device: Device,
}

impl Gpu {
    /// Opens the GPU of this number.
    ///
    /// # Errors
    /// No driver, no such GPU, or one that cannot be used.
    pub fn open(ordinal: u32) -> Result<Self> {
        let device = Device::cuda(ordinal as usize)?;
        let driver = CudaDevice::open(ordinal)?;
        driver.make_current()?;
        let queue = driver::Stream::new(&driver)?;
        // SAFETY: the stream is of the device's primary context, and outlives its other form, which is dropped first.
        let stream = unsafe { Stream::from_raw(&device, queue.raw())? };
        let block = DeviceMemory::alloc(&driver, 0, &queue)?;
        let (start, end) = (Event::new(&driver)?, Event::new(&driver)?);
        Ok(Self { start, end, block, stream, queue, driver, device })
    }

    /// The GPU in the driver layer.
    pub fn driver_device(&self) -> &CudaDevice {
        &self.driver
    }

    /// The stream that all work goes to.
    pub fn queue(&self) -> &driver::Stream {
        &self.queue
    }
}

impl Place for Gpu {
    fn device(&self) -> &Device {
        &self.device
    }

    fn name(&self) -> String {
        self.driver.info().name.clone()
    }

    fn driver(&self) -> String {
        let info = self.driver.info();
        format!("driver for CUDA {}, {} multiprocessors", info.driver, info.multiprocessors)
    }

    fn cache_bytes(&self) -> u64 {
        self.driver.info().l2_bytes
    }

    fn room(&self) -> Result<u64> {
        let (free, _) = self.driver.memory()?;
        Ok((free + self.reserved()).saturating_sub(SPARE))
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        // Given back first, so that both need not fit.
        self.block = DeviceMemory::alloc(&self.driver, 0, &self.queue)?;
        self.driver.synchronize()?;
        self.block = DeviceMemory::alloc(&self.driver, bytes as usize, &self.queue)?;
        Ok(self.driver.synchronize()?)
    }

    fn base(&self) -> u64 {
        self.block.address()
    }

    fn reserved(&self) -> u64 {
        self.block.bytes() as u64
    }

    fn upload(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.block.copy_from_host(offset as usize, bytes, &self.queue)?)
    }

    fn download(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        Ok(self.block.copy_to_host(offset as usize, bytes, &self.queue)?)
    }

    fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()> {
        let (to, from, bytes) = (to as usize, from as usize, bytes as usize);
        Ok(self.block.copy_from_device(to, &self.block, from, bytes, &self.queue)?)
    }

    fn fill(&self, offset: u64, bytes: u64, value: u8) -> Result<()> {
        Ok(self.block.fill(offset as usize, bytes as usize, value, &self.queue)?)
    }

    fn options(&self) -> LaunchOptions<'_> {
        LaunchOptions::new().stream(&self.stream)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.driver.synchronize()?)
    }

    fn burst<'a>(&'a self, launches: usize, work: Work<'a>) -> Result<Box<dyn Burst + 'a>> {
        let capture = self.queue.begin_capture()?;
        (0..launches).try_for_each(work)?;
        Ok(Box::new(Recorded { graph: capture.end()?, gpu: self }))
    }

    fn gpu(&self) -> Option<&Gpu> {
        Some(self)
    }
}

/// Launches recorded as a graph.
struct Recorded<'a> {
    graph: Graph,
    gpu: &'a Gpu,
}

impl Burst for Recorded<'_> {
    fn time_us(&mut self) -> Result<f64> {
        let Gpu { start, end, queue, .. } = self.gpu;
        start.record(queue)?;
        // SAFETY: the work's buffers lie in the place's block, which the borrow keeps; nothing else uses it.
        unsafe { self.graph.launch(queue)? };
        end.record(queue)?;
        end.synchronize()?;
        Ok(end.elapsed_us(start)?)
    }
}
