//! Kernels whose arguments verification cannot make from plain numbers, as calls that every executor carries out.

use cotangent::kernels::KernelInfo;
use cotangent::launch::{Launch, Target};
use cotangent::verify::{AnyKernel, Arguments, Call, Failure};
use cotangent::{DType, Device, Kernel, LaunchOptions};

/// A kernel, and what makes its arguments from the addresses of its buffers; extents and scalars are its own.
pub struct Typed<K, F> {
    /// The kernel.
    pub kernel: K,
    /// How many buffers it takes.
    pub pointers: usize,
    /// The arguments for buffers at these addresses.
    pub args: F,
}

/// A call of such a kernel.
pub fn call<'a>(kernel: &'a dyn AnyKernel, options: LaunchOptions<'a>) -> Call<'a> {
    Call { kernel, extents: &[], scalar: &[], options }
}

impl<K, F> AnyKernel for Typed<K, F>
where
    K: Kernel + Send + Sync,
    F: Fn(&[u64]) -> K::Args<'static> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.kernel.name()
    }

    fn id(&self) -> String {
        self.kernel.id()
    }

    fn dtype(&self) -> DType {
        self.kernel.dtype()
    }

    fn source(&self) -> &str {
        self.kernel.source()
    }

    fn kernel_source(&self) -> &str {
        self.kernel.kernel_source()
    }

    fn entry_point_source(&self) -> &str {
        self.kernel.entry_point_source()
    }

    fn info(&self) -> &'static KernelInfo {
        self.kernel.info()
    }

    fn constants(&self) -> Vec<i32> {
        let nowhere: Vec<u64> = (1..=self.pointers as u64).map(|i| i << 44).collect();
        let launch = self.kernel.prepare(&(self.args)(&nowhere), &LaunchOptions::new());
        launch.map_or_else(|_| Vec::new(), |launch| launch.constants().to_vec())
    }

    fn pointers(&self) -> usize {
        self.pointers
    }

    fn scalar_bytes(&self) -> usize {
        0
    }

    fn prepare(&self, arguments: &Arguments<'_>, options: &LaunchOptions<'_>) -> Result<Launch, Failure> {
        Ok(self.kernel.prepare(&(self.args)(arguments.addresses), options)?)
    }

    fn workspace_bytes(
        &self,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
    ) -> Result<u64, Failure> {
        Ok(self.kernel.workspace_bytes(&(self.args)(arguments.addresses), options, target)?)
    }

    fn plan(
        &self,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
    ) -> Result<Vec<Launch>, Failure> {
        Ok(self.kernel.plan(&(self.args)(arguments.addresses), options, target)?)
    }

    unsafe fn launch(
        &self,
        device: &Device,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<(), Failure> {
        // SAFETY: by this function's contract.
        Ok(unsafe { device.launch(&self.kernel, (self.args)(arguments.addresses), options) }?)
    }
}
