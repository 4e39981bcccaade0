//! Verification's executors: a GPU where there is one, else the PTX machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cotangent::launch::{Access, Target};
use cotangent::verify::{Call, Case, Executor, Failure, Grid, HostBuffer, kernel};
use cotangent::{Algorithm, DType, Device, LaunchOptions, MathMode, Workspace, kernels};

use crate::ptx::{Launch, Machine, Memory, Module, Options};

/// Executes the PTX that ships under the machine's checks: out-of-bounds and misaligned accesses, undefined
/// values, races.
#[derive(Debug, Default)]
pub struct PtxMachine {
    target: Option<Target>,
    algorithm: Algorithm,
    options: Options,
    blocks: Blocks,
    rewrite: Option<Rewrite>,
    modules: Mutex<HashMap<String, (ModuleName, Arc<Module>)>>,
    executed: Mutex<BTreeMap<ModuleName, u64>>,
}

/// How many blocks a launch has: any grid is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blocks {
    /// As many as planned.
    #[default]
    Planned,
    /// One, which then does everything.
    One,
    /// One more than planned, which then has nothing to do.
    OneMore,
}

impl Blocks {
    /// The grid where `planned` blocks are planned.
    #[must_use]
    pub fn of(self, planned: u32) -> u32 {
        match self {
            Self::Planned => planned,
            Self::One => 1,
            Self::OneMore => planned + 1,
        }
    }
}

/// A module that ships: its kernel's name and its element kind.
pub type ModuleName = (&'static str, &'static str);

/// What a machine does to a launch's PTX before it reads it.
type Rewriting = dyn Fn(&cotangent::launch::Launch, String) -> String + Send + Sync;

struct Rewrite(Box<Rewriting>);

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rewrite")
    }
}

impl PtxMachine {
    /// A machine that runs the portable kernels.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A machine that runs what is planned for a target.
    #[must_use]
    pub fn planned(target: Target) -> Self {
        Self { target: Some(target), ..Self::default() }
    }

    /// Chooses the kernels of convolutions that are planned.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Bounds each launch.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Chooses how many blocks launches have.
    #[must_use]
    pub fn blocks(mut self, blocks: Blocks) -> Self {
        self.blocks = blocks;
        self
    }

    /// Runs what this makes of the PTX that ships.
    #[must_use]
    pub fn rewrite(
        mut self,
        rewrite: impl Fn(&cotangent::launch::Launch, String) -> String + Send + Sync + 'static,
    ) -> Self {
        self.rewrite = Some(Rewrite(Box::new(rewrite)));
        self
    }

    /// Every module that was launched so far, with the most thread instructions of one launch.
    pub fn executed(&self) -> BTreeMap<ModuleName, u64> {
        self.executed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lines of every module that was launched so far whose instructions no thread has executed.
    pub fn unreached(&self) -> BTreeMap<ModuleName, BTreeSet<u32>> {
        let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = BTreeMap::new();
        for (name, module) in modules.values() {
            let entry = module.entries().first().map_or("", |entry| entry.name.as_str());
            let here = module.unreached(entry);
            lines
                .entry(*name)
                .and_modify(|lines: &mut BTreeSet<u32>| lines.retain(|line| here.contains(line)))
                .or_insert(here);
        }
        lines
    }

    /// The module of this text, read once.
    fn module(&self, name: ModuleName, ptx: String) -> Result<Arc<Module>, Failure> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, module)) = modules.get(&ptx) {
            return Ok(Arc::clone(module));
        }
        let module = Module::parse(&ptx).map_err(|error| Failure::Executor(error.into()))?;
        let module = Arc::new(module.with_label(&format!("{} {}", name.0, name.1)));
        modules.insert(ptx, (name, Arc::clone(&module)));
        Ok(module)
    }

    /// Runs a launch whose addresses are in this memory.
    ///
    /// # Errors
    /// A module that is not PTX, and the machine's report.
    pub fn launch(&self, launch: &cotangent::launch::Launch, memory: &mut Memory) -> Result<(), Failure> {
        let name = (launch.kernel().name, launch.module().kind);
        let mut ptx = launch.specialised_ptx()?;
        if let Some(Rewrite(rewrite)) = &self.rewrite {
            ptx = rewrite(launch, ptx);
        }
        let module = self.module(name, ptx)?;
        let entry = launch.entry_point_name();
        let declared = module.entry(&entry).map_or(&[][..], |entry| &entry.params);
        // The driver takes all parameters as one block, each on its own boundary.
        let needed =
            declared.iter().fold(0, |end: usize, param| end.next_multiple_of(param.align) + param.size);
        let given = launch.params().packed().len();
        if !declared.is_empty() && given != needed {
            let text = format!("{entry} takes {needed} bytes of parameters, but was given {given}");
            return Err(Failure::Executor(text.into()));
        }
        // Padding may follow a parameter's own bytes.
        let params: Vec<_> = launch
            .params()
            .iter()
            .zip(declared.iter().map(|param| param.size).chain(std::iter::repeat(usize::MAX)))
            .map(|(bytes, size)| bytes[..size.min(bytes.len())].to_vec())
            .collect();
        let geometry = launch.geometry();
        let shape = Launch {
            grid: [self.blocks.of(geometry.grid_x), 1, 1],
            block: [geometry.block_x, 1, 1],
            shared_bytes: geometry.shared_bytes as usize,
            params: &params,
        };
        let stats = Machine::new(&module)
            .launch(&entry, shape, memory, &self.options)
            .map_err(|report| Failure::Executor(report))?;
        let mut executed = self.executed.lock().unwrap_or_else(PoisonError::into_inner);
        let most = executed.entry(name).or_default();
        *most = stats.thread_instructions.max(*most);
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
        let workspace = |bytes: u64| {
            let workspace = memory.alloc("workspace", bytes as usize, 0);
            Ok(memory.address(workspace))
        };
        let planned = self.target.as_ref().map(|target| (target, self.algorithm));
        for launch in launches(call, &addresses, planned, workspace)? {
            if launch.work() > 0 {
                self.launch(&launch, &mut memory)?;
            }
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

/// What a call launches: the portable kernel, or what is planned for a target, with a workspace where that has use
/// for one, of at most the bytes that the call's options say.
pub(crate) fn launches(
    call: &Call<'_>,
    addresses: &[u64],
    planned: Option<(&Target, Algorithm)>,
    workspace: impl FnOnce(u64) -> Result<u64, Failure>,
) -> Result<Vec<cotangent::launch::Launch>, Failure> {
    let Some((target, algorithm)) = planned else { return Ok(vec![call.prepare(addresses)?]) };
    let mut call = *call;
    call.options.algorithm = algorithm;
    let most = call.options.workspace.map_or(u64::MAX, |workspace| workspace.bytes);
    let bytes = call.workspace_bytes(addresses, target)?.min(most);
    if bytes > 0 {
        call.options.workspace = Some(Workspace { address: workspace(bytes)?, bytes });
    }
    call.plan(addresses, target)
}

/// Blocks beyond which the machine has seen enough of a tuned kernel.
const ENOUGH_BLOCKS: u32 = 128;

/// Where device code runs in the tests: the first GPU, or the machine where there is none. The machine runs the
/// portable kernels, and then what is planned for a large GPU and for a small one, with the kernels for large problems
/// and with those that suit the shape, where they differ. Which it
/// is goes to the test's output.
#[must_use]
pub fn places() -> Vec<Place> {
    match Device::cuda(0) {
        Ok(device) => {
            println!("on {device}");
            vec![Place::Gpu(device)]
        }
        Err(error) => {
            println!("on the PTX machine: {error}");
            let [large, small] =
                [132, 1].map(|multiprocessors| Target { capability: (9, 0), multiprocessors });
            let mut places = vec![Place::Portable(PtxMachine::new())];
            let mut unlike = Vec::new();
            for planned in [Algorithm::Large, Algorithm::Auto].iter().flat_map(|&a| [(large, a), (small, a)])
            {
                let machine = PtxMachine::planned(planned.0).algorithm(planned.1);
                places.push(Place::Planned { machine, planned, unlike: unlike.clone() });
                unlike.push(planned);
            }
            places
        }
    }
}

/// Somewhere that device code runs.
#[derive(Debug)]
pub enum Place {
    /// A GPU.
    Gpu(Device),
    /// The machine, with the portable kernels.
    Portable(PtxMachine),
    /// The machine, with what is planned for a target.
    Planned {
        /// The machine.
        machine: PtxMachine,
        /// The target, and the choice of kernels.
        planned: (Target, Algorithm),
        /// Those that were there before.
        unlike: Vec<(Target, Algorithm)>,
    },
}

impl Place {
    /// The element types to run a kernel for: all on a GPU; one for each of its modules on the machine.
    #[must_use]
    pub fn dtypes(&self, kernel: &str) -> Vec<DType> {
        let mut dtypes = DType::ALL.to_vec();
        if let (Some(info), false) = (kernels::find(kernel), matches!(self, Self::Gpu(_))) {
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

    /// Whether a case runs other kernels here than at the places before this one.
    #[must_use]
    pub fn adds(&self, case: &Case, dtype: DType) -> bool {
        let Self::Planned { planned, unlike, .. } = self else { return true };
        // A refusal shows where the case runs.
        let plan = |(target, algorithm): &(Target, Algorithm)| {
            plan(case, dtype, target, *algorithm, MathMode::default()).unwrap_or_default()
        };
        let here = plan(planned);
        is_tuned(case, &here) && unlike.iter().all(|unlike| names(&plan(unlike)) != names(&here))
    }
}

/// Whether a case's own plan has tuned kernels, and few enough blocks of each for the machine.
pub(crate) fn is_tuned(case: &Case, plan: &[cotangent::launch::Launch]) -> bool {
    let tuned = plan.iter().any(|launch| launch.kernel().name != case.kernel);
    let small = plan.iter().all(|launch| launch.geometry().grid_x <= ENOUGH_BLOCKS);
    case.grid == Grid::Own && tuned && small
}

/// The kernels of a plan.
pub(crate) fn names(plan: &[cotangent::launch::Launch]) -> Vec<&'static str> {
    plan.iter().map(|launch| launch.kernel().name).collect()
}

/// What a case launches on a target, with buffers that are nowhere, but as far off a boundary as the case says.
pub(crate) fn plan(
    case: &Case,
    dtype: DType,
    target: &Target,
    algorithm: Algorithm,
    math: MathMode,
) -> Result<Vec<cotangent::launch::Launch>, Failure> {
    planned(case, dtype, target, algorithm, math).map(|(plan, _)| plan)
}

/// As [`plan`], with the bytes of workspace that it has use for.
pub(crate) fn planned(
    case: &Case,
    dtype: DType,
    target: &Target,
    algorithm: Algorithm,
    math: MathMode,
) -> Result<(Vec<cotangent::launch::Launch>, u64), Failure> {
    let kernel = kernel(case.kernel, dtype, &case.constants)?;
    let mut options = LaunchOptions::new().accumulate(case.accumulate).math(math).algorithm(algorithm);
    options.rows = case.rows;
    let scalar = vec![0; kernel.scalar_bytes()];
    let mut call = Call { kernel: &*kernel, extents: &case.extents, scalar: &scalar, options };
    let offset = |i: usize| case.offsets.get(i).map_or(0, |elements| (elements * dtype.size()) as u64);
    let addresses: Vec<u64> = (0..kernel.pointers()).map(|i| ((i as u64 + 1) << 44) + offset(i)).collect();
    let bytes = call.workspace_bytes(&addresses, target)?;
    call.options.workspace = Some(Workspace { address: 1 << 50, bytes });
    Ok((call.plan(&addresses, target)?, bytes))
}

impl Executor for Place {
    fn name(&self) -> String {
        match self {
            Self::Gpu(device) => device.name(),
            Self::Portable(machine) => machine.name(),
            Self::Planned { machine, planned: (target, algorithm), .. } => {
                format!("{}, as {target:?}, {algorithm:?}", machine.name())
            }
        }
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        match self {
            Self::Gpu(device) => device.run(call, buffers),
            Self::Portable(machine) | Self::Planned { machine, .. } => machine.run(call, buffers),
        }
    }
}
