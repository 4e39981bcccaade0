//! A GPU: its default stream, and the functions that were launched on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use super::reject_short;
use crate::driver::{self, Arguments, CudaDevice, DeviceMemory, Function, Shape};
use crate::error::Result;
use crate::launch::{Constants, Launch, MAX_BUFFERS};

/// Every open GPU, so that all handles of one share its modules and its default stream.
static OPEN: Mutex<Vec<(usize, Weak<Shared>)>> = Mutex::new(Vec::new());

/// A shared handle to an open GPU.
#[derive(Clone)]
pub(super) struct Gpu(Arc<Shared>);

struct Shared {
    /// Functions by the address of their module's text and their constants: what a launch can look up without
    /// making the specialised text. Behind it, the driver layer's cache is keyed by that text's hash.
    functions: RwLock<HashMap<(usize, Constants), Arc<Function>>>,
    stream: driver::Stream,
    device: Arc<CudaDevice>,
}

impl Gpu {
    pub(super) fn open(ordinal: usize) -> Result<Self> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, shared)| shared.strong_count() > 0);
        let found = open.iter().find(|(at, _)| *at == ordinal).and_then(|(_, shared)| shared.upgrade());
        if let Some(shared) = found {
            return Ok(Self(shared));
        }
        let device = CudaDevice::open(u32::try_from(ordinal).unwrap_or(u32::MAX))?;
        let stream = driver::Stream::new(&device)?;
        let shared = Arc::new(Shared { functions: RwLock::default(), stream, device });
        open.push((ordinal, Arc::downgrade(&shared)));
        Ok(Self(shared))
    }

    pub(super) fn ordinal(&self) -> u32 {
        self.0.device.info().ordinal
    }

    pub(super) fn name(&self) -> &str {
        &self.0.device.info().name
    }

    pub(super) fn zeros(&self, bytes: usize) -> Result<Memory> {
        let memory = DeviceMemory::alloc(&self.0.device, bytes, &self.0.stream)?;
        memory.fill(0, bytes, 0, &self.0.stream)?;
        Ok(Memory { memory, gpu: self.clone() })
    }

    pub(super) fn stream(&self) -> Result<Stream> {
        Ok(Stream { stream: driver::Stream::new(&self.0.device)? })
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        Ok(self.0.device.synchronize()?)
    }

    /// Launches from the shipped module.
    ///
    /// # Safety
    /// As [`Device::launch`](super::Device::launch).
    pub(super) unsafe fn launch(&self, launch: &Launch, stream: Option<&Stream>) -> Result<()> {
        let stream = self.check(launch, stream)?;
        if launch.work() == 0 {
            return Ok(());
        }
        let function = self.function(launch)?;
        // SAFETY: by this function's contract.
        unsafe { start(&function, launch, stream) }
    }

    /// Specialises and compiles what a launch needs.
    pub(super) fn load(&self, launch: &Launch) -> Result<()> {
        self.function(launch).map(drop)
    }

    /// Launches from a module of the caller's own.
    ///
    /// # Safety
    /// As [`Device::launch_ptx`](super::Device::launch_ptx).
    pub(super) unsafe fn launch_ptx(
        &self,
        launch: &Launch,
        ptx: &str,
        stream: Option<&Stream>,
    ) -> Result<()> {
        let stream = self.check(launch, stream)?;
        let function = self.0.device.function(ptx, &launch.entry_point_name())?;
        if launch.work() == 0 {
            return Ok(());
        }
        // SAFETY: by this function's contract.
        unsafe { start(&function, launch, stream) }
    }

    /// Checks the buffers that this library knows, and orders them before the stream's next work.
    fn check<'a>(&'a self, launch: &Launch, stream: Option<&'a Stream>) -> Result<&'a driver::Stream> {
        let stream = stream.map_or(&self.0.stream, |stream| &stream.stream);
        let touched = launch.touched();
        let (mut addresses, mut known) = ([0; MAX_BUFFERS], [None; MAX_BUFFERS]);
        for (address, touched) in addresses.iter_mut().zip(touched) {
            *address = touched.address;
        }
        driver::prepare(stream, &addresses[..touched.len()], &mut known[..touched.len()])?;
        reject_short(launch, &known)?;
        Ok(stream)
    }

    fn function(&self, launch: &Launch) -> Result<Arc<Function>> {
        let key = (launch.module().ptx.as_ptr().addr(), launch.constants);
        let functions = &self.0.functions;
        if let Some(function) = functions.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(function));
        }
        let function = self.0.device.function(&launch.specialised_ptx()?, &launch.entry_point_name())?;
        functions.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&function));
        Ok(function)
    }
}

/// # Safety
/// As [`Device::launch`](super::Device::launch).
unsafe fn start(function: &Function, launch: &Launch, stream: &driver::Stream) -> Result<()> {
    let geometry = launch.geometry();
    let shape =
        Shape { grid_x: geometry.grid_x, block_x: geometry.block_x, shared_bytes: geometry.shared_bytes };
    // SAFETY: by this function's contract; the kernel's checks made the parameters.
    unsafe { driver::launch(function, shape, Arguments::Packed(launch.params().packed()), stream)? };
    Ok(())
}

/// A GPU's stream.
pub(super) struct Stream {
    stream: driver::Stream,
}

impl Stream {
    pub(super) fn driver(&self) -> &driver::Stream {
        &self.stream
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        Ok(self.stream.synchronize()?)
    }
}

/// Device memory.
pub(super) struct Memory {
    memory: DeviceMemory,
    gpu: Gpu,
}

impl Memory {
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    pub(super) fn write(&self, bytes: &[u8]) -> Result<()> {
        Ok(self.memory.copy_from_host(0, bytes, &self.gpu.0.stream)?)
    }

    pub(super) fn read(&self, bytes: &mut [u8]) -> Result<()> {
        Ok(self.memory.copy_to_host(0, bytes, &self.gpu.0.stream)?)
    }
}
