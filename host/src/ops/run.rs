//! The one way from a checked operation to a device.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use rustc_hash::FxBuildHasher;

#[cfg(feature = "cuda")]
use crate::device::cuda;
use crate::device::{Device, Phase, Queue, Step, Stream};
use crate::error::{Error, Result};
use crate::kernel::{self, Kernel, LaunchOptions, Seal, padded};
use crate::launch::{Access, Constants, Launch};
use crate::tensor::{Entered, Storage, Tensor, TensorRef, Use, expect_device, not_contiguous};

/// Whether a gradient replaces what its output holds, or is added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beta {
    /// The output is the gradient (beta 0); what it held before does not matter.
    #[default]
    Overwrite,
    /// The gradient is added to the output (beta 1).
    Accumulate,
}

/// Memory that operations may use for partial results, so that they need not take some of their own.
///
/// One workspace serves any number of operations on one stream, in turn.
#[derive(Debug, Default)]
pub struct Workspace {
    memory: Option<Tensor<u8>>,
}

impl Workspace {
    /// No memory: operations take the way that needs none.
    pub fn none() -> Self {
        Self::default()
    }

    /// So many bytes, as the `_workspace` functions tell them.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(stream: &Stream, bytes: usize) -> Result<Self> {
        let memory = (bytes > 0).then(|| Tensor::uninitialised(stream, &[bytes])).transpose()?;
        Ok(Self { memory })
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, Tensor::len)
    }
}

type Cache = RwLock<HashMap<(TypeId, Constants), Arc<dyn Any + Send + Sync>, FxBuildHasher>>;

/// The kernel for these constants; built once, and kept.
pub(crate) fn cached<K: Any + Send + Sync + Seal>(
    constants: &[i32],
    build: impl FnOnce() -> Result<K>,
) -> Result<Arc<K>> {
    static KERNELS: LazyLock<Cache> = LazyLock::new(Cache::default);
    let key = (TypeId::of::<K>(), padded(constants));
    let known = KERNELS.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    let kernel = if let Some(kernel) = known {
        kernel
    } else {
        let mut kernel = build()?;
        // Only this crate's operations get it, shared and never to be edited.
        kernel.seal();
        let kernel: Arc<dyn Any + Send + Sync> = Arc::new(kernel);
        KERNELS.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(kernel).clone()
    };
    Ok(kernel.downcast().expect("the key has the kernel's type"))
}

/// One operation's call: everything but the kernel and its arguments.
pub(crate) struct Call<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) beta: Beta,
    pub(crate) rows: Option<i64>,
    pub(crate) workspace: Option<&'a Workspace>,
    /// Whether to measure which algorithm is fastest, instead of running once.
    pub(super) tune: bool,
}

impl<'a> Call<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Self { stream, beta: Beta::Overwrite, rows: None, workspace: None, tune: false }
    }

    pub(crate) fn beta(self, beta: Beta) -> Self {
        Self { beta, ..self }
    }

    pub(crate) fn rows(self, rows: usize) -> Self {
        Self { rows: Some(rows as i64), ..self }
    }

    pub(crate) fn workspace(self, workspace: &'a Workspace) -> Self {
        Self { workspace: Some(workspace), ..self }
    }

    pub(super) fn options(&self) -> LaunchOptions<'static> {
        let mut options = LaunchOptions::new().accumulate(self.beta == Beta::Accumulate);
        options.rows = self.rows;
        options.workspace = self.workspace.and_then(|workspace| workspace.memory.as_ref()).map(|memory| {
            kernel::Workspace { address: memory.view().pointer() as u64, bytes: memory.len() as u64 }
        });
        options
    }

    /// Runs, prepares or records the kernel, as the stream's phase says.
    ///
    /// `uses` has the memory that each pointer may reach, and nothing that the kernel touches may lie elsewhere: this
    /// is what makes a call safe, whatever the operation's own checks let through.
    pub(crate) fn run<K>(&self, kernel: &Arc<K>, args: K::Args<'static>, uses: &[Use<'_>]) -> Result<()>
    where
        K: Kernel + Send + Sync + 'static,
        K::Args<'static>: Copy + 'static,
    {
        let workspace = self.expect_here(uses)?;
        let phase = self.stream.phase();
        let done = self.dispatch(phase, kernel, args, uses, workspace.as_ref());
        if let (Err(error), Phase::Capture) = (&done, phase) {
            self.stream.recording().failed.get_or_insert_with(|| error.to_string());
        }
        done
    }

    /// Fails for memory of another device, and says what the workspace's is.
    pub(super) fn expect_here(&self, uses: &[Use<'_>]) -> Result<Option<Use<'a>>> {
        for used in uses {
            let cpu = Device::cpu();
            let device = used.storage.map(|storage| storage.device()).or(used.device).unwrap_or(&cpu);
            expect_device(used.name, device, self.stream)?;
        }
        let memory = self.workspace.and_then(|workspace| workspace.memory.as_ref());
        if let Some(memory) = memory {
            expect_device("the workspace", memory.device(), self.stream)?;
        }
        Ok(memory.map(|memory| Use { writes: true, ..memory.view().reads("workspace") }))
    }

    fn dispatch<K>(
        &self,
        phase: Phase,
        kernel: &Arc<K>,
        args: K::Args<'static>,
        uses: &[Use<'_>],
        workspace: Option<&Use<'_>>,
    ) -> Result<()>
    where
        K: Kernel + Send + Sync + 'static,
        K::Args<'static>: Copy + 'static,
    {
        let options = self.options();
        match self.stream.queue() {
            Queue::Cpu => {
                let launch = kernel.prepare(&args, &options)?;
                check_covered(&launch, &uses.iter().chain(workspace))?;
                match phase {
                    Phase::Prepare => Ok(()),
                    Phase::Run => {
                        let _entered = uses
                            .iter()
                            .filter_map(|used| {
                                used.storage.map(|storage| storage.enter(used.writes, used.name))
                            })
                            .collect::<Result<Vec<_>>>()?;
                        // SAFETY: all that the kernel touches lies in the memory of `uses`, which the views keep
                        // alive and apart, and `_entered` keeps other threads out.
                        unsafe { kernel.run_on_cpu(&args, &options) }
                    }
                    Phase::Capture => {
                        let step = recorded(kernel, args, options, uses)?;
                        let mut recording = self.stream.recording();
                        for used in uses {
                            used.storage.into_iter().for_each(|storage| recording.uses(storage, used.writes));
                        }
                        recording.steps.push(step);
                        Ok(())
                    }
                }
            }
            #[cfg(feature = "cuda")]
            Queue::Cuda(queue) => {
                let crate::device::Place::Cuda(gpu) = &self.stream.device().place else {
                    return Err(Error::Device("a GPU's stream is on a GPU".to_owned()));
                };
                let options = LaunchOptions { algorithm: self.algorithm(&**kernel, &args), ..options };
                let launches = gpu.plans().plan(&**kernel, &args, &options)?;
                for launch in &launches {
                    check_covered(launch, &uses.iter().chain(workspace))?;
                }
                let all = || uses.iter().chain(workspace);
                match phase {
                    Phase::Prepare => {
                        return launches.iter().try_for_each(|launch| gpu.load_module(launch));
                    }
                    Phase::Capture => {
                        let busy = |launch: &&Launch| launch.work() > 0 && !gpu.is_loaded(launch);
                        if let Some(launch) = launches.iter().find(busy) {
                            let (kernel, constants) = (launch.kernel().name, launch.constants().to_vec());
                            return Err(Error::NotPrepared { kernel, constants });
                        }
                        let mut recording = self.stream.recording();
                        for used in all() {
                            let storage = used.storage.ok_or(Error::Borrowed { what: used.name })?;
                            recording.uses(storage, used.writes);
                        }
                    }
                    Phase::Run => {}
                }
                let _order = gpu.order();
                order(queue, &launches, all(), phase == Phase::Run)?;
                // SAFETY: all that the kernels touch lies in the memory of `uses` and the workspace, which the views
                // keep alive until the stream is done with it, and which the stream is ordered behind.
                unsafe { gpu.start_all(&launches, queue) }
            }
        }
    }
}

/// Orders the launches' memory before the queue's next work, behind what other queues do with it if the work `runs`
/// now, and checks what this library does not know by its views.
#[cfg(feature = "cuda")]
pub(super) fn order<'a>(
    queue: &crate::driver::Stream,
    launches: &[Launch],
    all: impl Iterator<Item = &'a Use<'a>> + Clone,
    runs: bool,
) -> Result<()> {
    if runs {
        for used in all.clone() {
            used.storage.map_or(Ok(()), |storage| storage.order(queue, used.writes))?;
        }
    }
    // The launches touch nothing but what was checked, so that memory known here needs no looking up.
    if all.clone().all(|used| used.storage.is_some_and(|storage| storage.is_drivers())) {
        all.filter_map(|used| used.storage).try_for_each(|storage| storage.use_on(queue))
    } else {
        cuda::check_all(launches, queue)
    }
}

/// Fails if a launch touches anything outside the memory that its call may use.
pub(super) fn check_covered<'a>(
    launch: &Launch,
    uses: &(impl Iterator<Item = &'a Use<'a>> + Clone),
) -> Result<()> {
    for touched in launch.touched().iter().filter(|touched| touched.bytes > 0) {
        let reads = touched.access == Access::Read;
        let room = |used: &Use<'_>| {
            let before = touched.address.checked_sub(used.start)?;
            (reads || used.writes).then(|| used.bytes.checked_sub(before)).flatten()
        };
        let have = uses.clone().filter_map(room).max().unwrap_or(0);
        if have < touched.bytes {
            let (kernel, name, need) = (launch.kernel().name, touched.name, touched.bytes);
            return Err(Error::Short { kernel, name, have, need });
        }
    }
    Ok(())
}

/// Arguments on their way to another thread.
struct Sent<A>(A);

// SAFETY: the arguments are addresses and numbers; the memory behind them is kept alive and apart by what the
// recorded step holds and does before it uses them.
unsafe impl<A> Send for Sent<A> {}

impl<A: Copy> Sent<A> {
    /// A method, so that closures take the whole and not the field.
    fn get(&self) -> A {
        self.0
    }
}

/// A CPU operation to run later.
fn recorded<K>(
    kernel: &Arc<K>,
    args: K::Args<'static>,
    options: LaunchOptions<'static>,
    uses: &[Use<'_>],
) -> Result<Step>
where
    K: Kernel + Send + Sync + 'static,
    K::Args<'static>: Copy + 'static,
{
    let kept = uses
        .iter()
        .map(|used| {
            let storage = used.storage.ok_or(Error::Borrowed { what: used.name })?;
            Ok((Arc::clone(storage), used.writes, used.name))
        })
        .collect::<Result<Vec<(Arc<Storage>, bool, &'static str)>>>()?;
    let (kernel, args) = (Arc::clone(kernel), Sent(args));
    let (rows, beta) = (options.rows, options.accumulate);
    Ok(Box::new(move || {
        let _entered: Vec<Entered<'_>> =
            kept.iter().map(|(storage, writes, name)| storage.enter(*writes, name)).collect::<Result<_>>()?;
        let mut options = LaunchOptions::new().accumulate(beta);
        options.rows = rows;
        // SAFETY: as when it was recorded: `kept` keeps the memory alive, and `_entered` other threads out.
        unsafe { kernel.run_on_cpu(&args.get(), &options) }
    }))
}

/// An extent as kernels take it.
pub(crate) fn extent(op: &'static str, name: &'static str, value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::Extent { op, name, value })
}

/// Extents as kernels take them.
pub(crate) fn extents<const N: usize>(
    op: &'static str,
    named: [(&'static str, usize); N],
) -> Result<[i32; N]> {
    let mut all = [0; N];
    for (to, (name, value)) in all.iter_mut().zip(named) {
        *to = extent(op, name, value)?;
    }
    Ok(all)
}

/// A shape as rows and columns for kernels that see the product alone.
pub(crate) fn two_factors(op: &'static str, shape: &[usize]) -> Result<[i32; 2]> {
    if shape.contains(&0) {
        return Ok([0, 0]);
    }
    let (mut rows, mut columns) = (1_usize, 1_usize);
    for &extent in shape.iter().rev() {
        match columns.checked_mul(extent) {
            Some(product) if rows == 1 && i32::try_from(product).is_ok() => columns = product,
            _ => rows = rows.saturating_mul(extent),
        }
    }
    extents(op, [("the leading extents", rows), ("the trailing extents", columns)])
}

/// Fails for elements that are not row-major without gaps.
pub(crate) fn contiguous<D: crate::Element>(
    op: &'static str,
    name: &'static str,
    tensor: &TensorRef<'_, D>,
) -> Result<()> {
    if tensor.is_contiguous() { Ok(()) } else { Err(not_contiguous(op, name, tensor.layout())) }
}

/// Fails for another shape.
pub(crate) fn same_shape(
    op: &'static str,
    name: &'static str,
    have: &[usize],
    need: &[usize],
    why: &str,
) -> Result<()> {
    if have == need {
        return Ok(());
    }
    Err(Error::Shape { op, name, have: have.to_vec(), need: format!("{why} is {need:?}") })
}

/// The extents of a tensor of so many dimensions.
pub(crate) fn dims<const N: usize>(
    op: &'static str,
    name: &'static str,
    shape: &[usize],
    layout: &str,
) -> Result<[usize; N]> {
    shape.try_into().map_err(|_| Error::Shape {
        op,
        name,
        have: shape.to_vec(),
        need: format!("it must be {layout}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReluForward;

    #[test]
    fn copies_of_kept_kernels_are_compared_again() {
        let kernel = cached(&[1024], || ReluForward::<f32>::try_new(1024)).expect("a kernel");
        let again = cached(&[1024], || ReluForward::<f32>::try_new(1024)).expect("a kernel");
        assert!(Arc::ptr_eq(&kernel, &again));
        let prepare = |kernel: &ReluForward<f32>| {
            kernel.prepare(&((1 << 20) as *mut f32, (1 << 30) as *mut f32, 1, 1), &LaunchOptions::new())
        };
        prepare(&kernel).expect("nothing was edited");
        let mut edited = ReluForward::clone(&kernel);
        prepare(&edited).expect("nothing was edited yet");
        edited.source.make_ascii_uppercase();
        assert!(matches!(prepare(&edited), Err(Error::Edited { field: "source", .. })));
    }
}
