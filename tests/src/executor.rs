//! Verification's executors: a GPU where there is one, else the PTX machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cotangent::launch::Access;
use cotangent::verify::{Call, Executor, Failure, HostBuffer};
use cotangent::{DType, Device, kernels};

use crate::ptx::{Launch, Machine, Memory, Module, Options};

/// Executes the PTX that ships under the machine's checks: out-of-bounds and misaligned accesses, undefined
/// values, races.
#[derive(Debug, Default)]
pub struct PtxMachine {
    modules: Mutex<HashMap<String, Arc<Module>>>,
}

impl PtxMachine {
    /// A machine that has read no module yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The module of this text, read once.
    fn module(&self, label: &str, ptx: String) -> Result<Arc<Module>, Failure> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&ptx) {
            return Ok(Arc::clone(module));
        }
        let module = Module::parse(&ptx).map_err(|error| Failure::Executor(error.into()))?;
        let module = Arc::new(module.with_label(label));
        modules.insert(ptx, Arc::clone(&module));
        Ok(module)
    }

    fn launch(&self, launch: &cotangent::launch::Launch, memory: &mut Memory) -> Result<(), Failure> {
        let label = format!("{} {}", launch.kernel().name, launch.module().kind);
        let module = self.module(&label, launch.specialised_ptx()?)?;
        let entry = launch.entry_point_name();
        let declared = module.entry(&entry).map_or(&[][..], |entry| &entry.params);
        // Padding may follow a parameter's own bytes.
        let params: Vec<_> = launch
            .params()
            .iter()
            .zip(declared.iter().map(|param| param.size).chain(std::iter::repeat(usize::MAX)))
            .map(|(bytes, size)| bytes[..size.min(bytes.len())].to_vec())
            .collect();
        let geometry = launch.geometry();
        let shape = Launch {
            grid: [geometry.grid_x, 1, 1],
            block: [geometry.block_x, 1, 1],
            shared_bytes: geometry.shared_bytes as usize,
            params: &params,
        };
        Machine::new(&module)
            .launch(&entry, shape, memory, &Options::default())
            .map_err(|report| Failure::Executor(report))?;
        Ok(())
    }
}

impl Executor for PtxMachine {
    fn name(&self) -> String {
        "the PTX machine".to_owned()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let mut memory = Memory::new();
        let placed: Vec<_> = buffers
            .iter()
            .map(|buffer| {
                let (name, bytes) = (buffer.name, &buffer.bytes);
                let misalign = buffer.offset * buffer.element_bytes;
                match buffer.access {
                    Access::Read => memory.alloc_read_only(name, bytes, misalign),
                    // Undefined, so that a read before the write is seen; the poison stays here.
                    Access::Write => memory.alloc(name, bytes.len(), misalign),
                    Access::Accumulate => memory.alloc_with(name, bytes, misalign),
                }
            })
            .collect();
        let addresses: Vec<_> = placed.iter().map(|&at| memory.address(at)).collect();
        let launch = call.prepare(&addresses)?;
        if launch.work() > 0 {
            self.launch(&launch, &mut memory)?;
        }
        for (&at, buffer) in placed.iter().zip(buffers) {
            let size = buffer.element_bytes;
            let (after, _) = memory.read(at);
            for start in (0..buffer.bytes.len()).step_by(size) {
                let element = start..start + size;
                if memory.check_untouched(at, element.clone()).is_ok() {
                    continue;
                }
                memory.check_written(at, element.clone()).map_err(|error| Failure::Executor(error.into()))?;
                buffer.bytes[element.clone()].copy_from_slice(&after[element]);
            }
        }
        Ok(())
    }
}

/// Where device code runs in the tests: a GPU where there is one, else the PTX machine.
#[derive(Debug)]
pub enum Target {
    /// The first GPU.
    Gpu(Device),
    /// The PTX that ships, executed under a checker.
    Machine(PtxMachine),
}

impl Target {
    /// The first GPU, or the machine. Which it is goes to the test's output.
    #[must_use]
    pub fn new() -> Self {
        match Device::cuda(0) {
            Ok(device) => {
                println!("on {device}");
                Self::Gpu(device)
            }
            Err(error) => {
                println!("on the PTX machine: {error}");
                Self::Machine(PtxMachine::new())
            }
        }
    }

    /// The element types to run a kernel for: all on a GPU; one for each of its modules on the machine.
    #[must_use]
    pub fn dtypes(&self, kernel: &str) -> Vec<DType> {
        let mut dtypes = DType::ALL.to_vec();
        if let (Self::Machine(_), Some(info)) = (self, kernels::find(kernel)) {
            let mut kinds = Vec::new();
            dtypes.retain(|dtype| {
                let kind = dtype.kind(info.family);
                let new = !kinds.contains(&kind);
                kinds.push(kind);
                new
            });
        }
        dtypes
    }
}

impl Default for Target {
    fn default() -> Self {
        Self::new()
    }
}

impl Executor for Target {
    fn name(&self) -> String {
        match self {
            Self::Gpu(device) => device.name(),
            Self::Machine(machine) => machine.name(),
        }
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        match self {
            Self::Gpu(device) => device.run(call, buffers),
            Self::Machine(machine) => machine.run(call, buffers),
        }
    }
}
