//! Which algorithm of a checked operation is fastest: measured where it would run.

use std::sync::Arc;

use super::run::{Call, check_covered};
use crate::device::Queue;
use crate::error::Result;
use crate::kernel::{Algorithm, Kernel};
use crate::tensor::Use;

impl Call<'_> {
    /// The same call, to be measured.
    pub(crate) fn tuning(self) -> Self {
        Self { tune: true, ..self }
    }

    /// Runs the kernel, or measures its algorithms, as the call says. The answer is that of a measurement.
    pub(crate) fn run_or_tune<K>(
        &self,
        kernel: &Arc<K>,
        args: K::Args<'static>,
        uses: &[Use<'_>],
    ) -> Result<Algorithm>
    where
        K: Kernel + Send + Sync + 'static,
        K::Args<'static>: Copy + 'static,
    {
        if self.tune {
            self.measure(&**kernel, &args, uses)
        } else {
            self.run(kernel, args, uses).map(|()| Algorithm::Auto)
        }
    }

    /// [`Device::tune`](crate::Device::tune), with the safety of [`run`](Self::run).
    fn measure<K: Kernel>(&self, kernel: &K, args: &K::Args<'static>, uses: &[Use<'_>]) -> Result<Algorithm> {
        self.stream.expect_run("tune")?;
        let workspace = self.expect_here(uses)?;
        let all = || uses.iter().chain(&workspace);
        match self.stream.queue() {
            Queue::Cpu => {
                check_covered(&kernel.prepare(args, &self.options())?, &all())?;
                Ok(Algorithm::Auto)
            }
            #[cfg(feature = "cuda")]
            Queue::Cuda(queue) => {
                use crate::error::Error;

                let device = self.stream.device();
                let crate::device::Place::Cuda(gpu) = &device.place else {
                    return Err(Error::Device("a GPU's stream is on a GPU".to_owned()));
                };
                let tuned = device.tuned_or_new(gpu);
                let none = |_| Err(Error::Device("an operation's workspace is its caller's".to_owned()));
                tuned.tune(kernel, args, &self.exact_options(), none, |_, launches, runs| {
                    for launch in launches {
                        check_covered(launch, &all())?;
                    }
                    let _order = gpu.order();
                    super::run::order(queue, launches, all(), true)?;
                    // SAFETY: all that the kernels touch lies in the memory of `uses` and the workspace, which the
                    // views keep alive while they are waited for, and which the stream is ordered behind.
                    unsafe { gpu.time(launches, queue, runs) }
                })
            }
        }
    }

    /// The algorithm that the stream's device takes for this call.
    #[cfg(feature = "cuda")]
    pub(super) fn algorithm<K: Kernel>(&self, kernel: &K, args: &K::Args<'static>) -> Algorithm {
        let Some(tuned) = self.stream.device().tuned() else { return Algorithm::Auto };
        tuned.resolve(kernel, args, &self.exact_options()).algorithm
    }

    /// The options, with a workspace of no bytes for none: operations have no other than that of their caller.
    #[cfg(feature = "cuda")]
    fn exact_options(&self) -> crate::LaunchOptions<'static> {
        let options = self.options();
        let workspace = options.workspace.unwrap_or(crate::Workspace { address: 256, bytes: 0 });
        options.workspace(workspace)
    }
}
