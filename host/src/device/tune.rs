//! Measured algorithms: taken by a device's handle, and measured on it.
#![allow(
    clippy::needless_pass_by_value,
    reason = "a launch takes its arguments as one tuple, as a call is written"
)]

#[cfg(feature = "cuda")]
use std::sync::Arc;

#[cfg(feature = "cuda")]
use super::cuda;
use super::{Device, Place};
use crate::autotune::Autotune;
#[cfg(feature = "cuda")]
use crate::autotune::Tuned;
use crate::error::Result;
use crate::kernel::{Algorithm, Kernel, LaunchOptions};

impl Device {
    /// The same device by a handle whose convolutions with [`Algorithm::Auto`] take the algorithm that was measured
    /// fastest, where one was: launches through it, and operations on its streams. Other handles are as before. On the
    /// CPU there is nothing to choose.
    #[must_use]
    pub fn autotune(&self, autotune: &Autotune) -> Self {
        let _ = autotune;
        let place = self.place.clone();
        Self {
            #[cfg(feature = "cuda")]
            tuned: match &place {
                Place::Cpu => None,
                Place::Cuda(gpu) => Some(Arc::new(Tuned::new(autotune, gpu.model()))),
            },
            place,
        }
    }

    /// Measures which algorithm computes this call fastest and keeps the answer for it, or returns the answer that is
    /// kept already. Without an [`Autotune`] ([`Device::autotune`]) the answer is returned and not kept.
    ///
    /// **Written**: as by a launch that overwrites, many times over, whatever the options say of accumulation: outputs
    /// hold the results of some algorithm afterwards, or what they held before where nothing was measured. So this is
    /// for before the work, with buffers like those of the work; and not for outputs that are also needed. The options'
    /// algorithm is not looked at. The call returns when the device is done.
    ///
    /// A later launch has the answer if it agrees in constants, extents, element type and math mode, in how each buffer
    /// lies within 16 bytes, and in its workspace, unless both have as much as all algorithms have use for.
    ///
    /// On the CPU, and for kernels other than convolutions, nothing is measured, and the answer is
    /// [`Auto`](Algorithm::Auto).
    ///
    /// # Errors
    /// As [`launch`](Device::launch); [`Error::Capturing`](crate::Error::Capturing) on a stream that is recorded. After
    /// any of these nothing is kept.
    ///
    /// # Safety
    /// As [`launch`](Device::launch).
    pub unsafe fn tune<K: Kernel>(
        &self,
        kernel: &K,
        args: K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<Algorithm> {
        if let Some(stream) = options.stream {
            self.expect(stream)?;
            stream.expect_run("tune")?;
        }
        match &self.place {
            Place::Cpu => kernel.prepare(&args, options).map(|_| Algorithm::Auto),
            // SAFETY: by this function's contract.
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => unsafe { gpu.tune_kernel(&self.tuned_or_new(gpu), kernel, &args, options) },
        }
    }

    /// The answers that launches through this handle take, or none yet.
    #[cfg(feature = "cuda")]
    pub(crate) fn tuned_or_new(&self, gpu: &cuda::Gpu) -> Arc<Tuned> {
        let new = || Arc::new(Tuned::new(&Autotune::in_memory(), gpu.model()));
        self.tuned.clone().unwrap_or_else(new)
    }

    /// The answers that launches through this handle take.
    #[cfg(feature = "cuda")]
    pub(crate) fn tuned(&self) -> Option<&Tuned> {
        self.tuned.as_deref()
    }

    /// The options with the algorithm that launches through this handle take.
    #[cfg(feature = "cuda")]
    pub(crate) fn resolve<'a, K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'a>,
    ) -> LaunchOptions<'a> {
        self.tuned().map_or(*options, |tuned| tuned.resolve(kernel, args, options))
    }
}
