//! A GPU: its default stream, and the functions that were launched on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use rustc_hash::FxBuildHasher;

use super::reject_short;
use crate::autotune::{GpuModel, Tuned};
use crate::driver::{self, Arguments, CudaDevice, DeviceMemory, Event, Function, Shape};
use crate::error::Result;
use crate::kernel::{Algorithm, Kernel, LaunchOptions, Workspace};
use crate::launch::{Constants, Launch, MAX_BUFFERS, Plans, Target};

/// Every open GPU, so that all handles of one share its modules and its default stream.
static OPEN: Mutex<Vec<(usize, Weak<Shared>)>> = Mutex::new(Vec::new());

/// A shared handle to an open GPU.
#[derive(Clone)]
pub(crate) struct Gpu(Arc<Shared>);

struct Shared {
    /// Functions by the address of their module's text and their constants: what a launch can look up without
    /// making the specialised text. Behind it, the driver layer's cache is keyed by that text's hash.
    functions: RwLock<HashMap<(usize, Constants), Arc<Function>, FxBuildHasher>>,
    stream: driver::Stream,
    plans: Plans,
    order: Mutex<()>,
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
        let info = device.info();
        let capability = (info.compute_capability.major, info.compute_capability.minor);
        let target = Target { capability, multiprocessors: info.multiprocessors };
        let shared = Arc::new(Shared {
            functions: RwLock::default(),
            stream,
            plans: Plans::new(target),
            order: Mutex::default(),
            device,
        });
        open.push((ordinal, Arc::downgrade(&shared)));
        Ok(Self(shared))
    }

    pub(crate) fn ordinal(&self) -> u32 {
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

    /// The device behind this handle.
    pub(crate) fn device(&self) -> &Arc<CudaDevice> {
        &self.0.device
    }

    /// Held while work is ordered and launched, so that two threads cannot interleave the two.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        self.0.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What kernels plan for this GPU.
    pub(crate) fn plans(&self) -> &Plans {
        &self.0.plans
    }

    /// Whether the launch's module is loaded.
    pub(crate) fn is_loaded(&self, launch: &Launch) -> bool {
        self.0.functions.read().unwrap_or_else(PoisonError::into_inner).contains_key(&key(launch))
    }

    /// Loads the launch's module.
    pub(crate) fn load_module(&self, launch: &Launch) -> Result<()> {
        self.function(launch).map(drop)
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        Ok(self.0.device.synchronize()?)
    }

    /// Launches what the kernel plans for this GPU, with workspace of its own where the caller gave none.
    ///
    /// # Safety
    /// As [`Device::launch`](super::Device::launch).
    pub(super) unsafe fn launch_kernel<K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<()> {
        let stream = options.stream.and_then(super::Stream::cuda).unwrap_or(&self.0.stream);
        // Given back in the stream's order when this returns, behind the launches.
        let mut own = None;
        let launches = self.0.plans.plan_with(kernel, args, options, |bytes| {
            let memory = own.insert(DeviceMemory::scratch(&self.0.device, bytes as usize, stream)?);
            Ok(Workspace { address: memory.address(), bytes })
        })?;
        check_all(&launches, stream)?;
        // SAFETY: by this function's contract, and the buffers were checked.
        unsafe { self.start_all(&launches, stream)? };
        drop(own);
        Ok(())
    }

    /// What measurements on this GPU are kept for.
    pub(crate) fn model(&self) -> GpuModel {
        let info = self.0.device.info();
        let driver = (info.driver.major, info.driver.minor);
        GpuModel { name: info.name.clone(), target: *self.0.plans.target(), driver }
    }

    /// Measures which algorithm is fastest, with workspace of its own where the caller gave none.
    ///
    /// # Safety
    /// As [`Device::tune`](super::Device::tune).
    pub(super) unsafe fn tune_kernel<K: Kernel>(
        &self,
        tuned: &Tuned,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<Algorithm> {
        let stream = options.stream.and_then(super::Stream::cuda).unwrap_or(&self.0.stream);
        let mut own = None;
        let take = |bytes: u64| {
            let memory = own.insert(DeviceMemory::scratch(&self.0.device, bytes as usize, stream)?);
            Ok(Workspace { address: memory.address(), bytes })
        };
        let answer = tuned.tune(kernel, args, options, take, |_, launches, runs| {
            check_all(launches, stream)?;
            // SAFETY: by this function's contract, and the buffers were checked.
            unsafe { self.time(launches, stream, runs) }
        });
        drop(own);
        answer
    }

    /// Carries out launches that were planned and checked so many times, and waits for them: the microseconds of one
    /// time.
    ///
    /// # Safety
    /// As [`start_all`](Self::start_all).
    pub(crate) unsafe fn time(&self, launches: &[Launch], stream: &driver::Stream, runs: u32) -> Result<f64> {
        // What loads a module between two events would count as the launches' time.
        launches.iter().filter(|launch| launch.work() > 0).try_for_each(|launch| self.load_module(launch))?;
        let (start, end) = (Event::new(&self.0.device)?, Event::new(&self.0.device)?);
        start.record(stream)?;
        for _ in 0..runs {
            // SAFETY: by this function's contract; each run overwrites what the one before it wrote, in order.
            unsafe { self.start_all(launches, stream)? };
        }
        end.record(stream)?;
        end.synchronize()?;
        Ok(end.elapsed_us(&start)? / f64::from(runs.max(1)))
    }

    /// Launches what was planned and checked, in order.
    ///
    /// # Safety
    /// As [`Device::launch`](super::Device::launch); what the launches touch is ordered before the stream's next work.
    pub(crate) unsafe fn start_all(&self, launches: &[Launch], stream: &driver::Stream) -> Result<()> {
        if let [launch] = launches {
            if launch.work() > 0 {
                let function = self.function(launch)?;
                // SAFETY: by this function's contract.
                unsafe { start(&function, launch, stream)? };
            }
            return Ok(());
        }
        // All functions first: what does not load leaves nothing half done.
        let mut started = Vec::with_capacity(launches.len());
        for launch in launches.iter().filter(|launch| launch.work() > 0) {
            started.push((self.function(launch)?, launch));
        }
        // Where this fails, so does the first launch, whose error says more.
        let _bound = (started.len() > 1).then(|| driver::bind_context(stream).ok());
        for (function, launch) in started {
            // SAFETY: by this function's contract.
            unsafe { start(&function, launch, stream)? };
        }
        Ok(())
    }

    /// Specialises and compiles what a launch needs.
    pub(super) fn load<K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<()> {
        let mut options = *options;
        let target = self.0.plans.target();
        // Any address does: nothing is launched.
        let bytes = kernel.workspace_bytes(args, &options, target)?;
        options.workspace = Some(Workspace { address: 256, bytes });
        kernel.plan(args, &options, target)?.iter().try_for_each(|launch| self.function(launch).map(drop))
    }

    /// Launches from a module of the caller's own.
    ///
    /// # Safety
    /// As [`Device::launch_ptx`](super::Device::launch_ptx).
    pub(super) unsafe fn launch_ptx(
        &self,
        launch: &Launch,
        ptx: &str,
        stream: Option<&driver::Stream>,
    ) -> Result<()> {
        let stream = stream.unwrap_or(&self.0.stream);
        check(launch, stream)?;
        let function = self.0.device.function(ptx, &launch.entry_point_name())?;
        if launch.work() == 0 {
            return Ok(());
        }
        // SAFETY: by this function's contract.
        unsafe { start(&function, launch, stream) }
    }

    fn function(&self, launch: &Launch) -> Result<Arc<Function>> {
        let key = key(launch);
        let functions = &self.0.functions;
        if let Some(function) = functions.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(function));
        }
        let function = self.0.device.function(&launch.specialised_ptx()?, &launch.entry_point_name())?;
        functions.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&function));
        Ok(function)
    }
}

/// What tells a launch's function from others.
fn key(launch: &Launch) -> (usize, Constants) {
    (launch.module().ptx.as_ptr().addr(), launch.constants)
}

/// Checks the buffers of launches that this library knows, and orders them before the stream's next work.
pub(crate) fn check_all(launches: &[Launch], stream: &driver::Stream) -> Result<()> {
    launches.iter().try_for_each(|launch| check(launch, stream))
}

fn check(launch: &Launch, stream: &driver::Stream) -> Result<()> {
    let touched = launch.touched();
    let (mut addresses, mut known) = ([0; MAX_BUFFERS], [None; MAX_BUFFERS]);
    for (address, touched) in addresses.iter_mut().zip(touched) {
        *address = touched.address;
    }
    driver::prepare(stream, &addresses[..touched.len()], &mut known[..touched.len()])?;
    reject_short(launch, &known)
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
