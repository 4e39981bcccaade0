//! Kernels whose type has been forgotten, made and called with plain numbers.

use super::failure::Failure;
use crate::device::Device;
use crate::element::DType;
use crate::error::{Error, Result};
use crate::kernel::{Kernel, LaunchOptions};
use crate::kernels::KernelInfo;
use crate::launch::{Launch, Target};
use crate::specialise::specialise;

/// The parts of a kernel's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The pointers, in the kernel's order.
    pub addresses: &'a [u64],
    /// The extents and strides.
    pub extents: &'a [i32],
    /// The bytes of the value that a pad is filled with; nothing for other kernels.
    pub scalar: &'a [u8],
}

/// A kernel that can be made from, and called with, plain numbers. Stamped by [`plain!`].
pub(crate) trait Plain: Kernel + Sized {
    /// How many pointers it takes.
    const POINTERS: usize;

    /// How many bytes a value takes that is an argument.
    const SCALAR_BYTES: usize;

    /// The kernel for these constants.
    fn build(constants: &[i32]) -> Result<Self, Failure>;

    /// The constants, in the kernel's order.
    fn constants(&self) -> Vec<i32>;

    /// The argument tuple.
    fn arguments(parts: &Arguments<'_>) -> Result<Self::Args<'static>, Failure>;
}

/// A kernel whose element type and constants are known at run time alone.
pub trait AnyKernel: Send + Sync {
    /// [`Kernel::name`].
    fn name(&self) -> &'static str;

    /// [`Kernel::id`].
    fn id(&self) -> String;

    /// [`Kernel::dtype`].
    fn dtype(&self) -> DType;

    /// [`Kernel::source`].
    fn source(&self) -> &str;

    /// [`Kernel::kernel_source`].
    fn kernel_source(&self) -> &str;

    /// [`Kernel::entry_point_source`].
    fn entry_point_source(&self) -> &str;

    /// [`Kernel::info`].
    fn info(&self) -> &'static KernelInfo;

    /// The constants, in the kernel's order.
    fn constants(&self) -> Vec<i32>;

    /// How many pointers it takes.
    fn pointers(&self) -> usize;

    /// How many bytes the value takes that a pad is filled with; zero for other kernels.
    fn scalar_bytes(&self) -> usize;

    /// [`Kernel::prepare`].
    ///
    /// # Errors
    /// As there, and a wrong number of addresses or extents.
    fn prepare(&self, arguments: &Arguments<'_>, options: &LaunchOptions<'_>) -> Result<Launch, Failure>;

    /// [`Kernel::workspace_bytes`].
    ///
    /// # Errors
    /// As there, and a wrong number of addresses or extents.
    fn workspace_bytes(
        &self,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
    ) -> Result<u64, Failure>;

    /// [`Kernel::plan`].
    ///
    /// # Errors
    /// As there, and a wrong number of addresses or extents.
    fn plan(
        &self,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
    ) -> Result<Vec<Launch>, Failure>;

    /// [`Device::launch`].
    ///
    /// # Errors
    /// As there, and a wrong number of addresses or extents.
    ///
    /// # Safety
    /// As there.
    unsafe fn launch(
        &self,
        device: &Device,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<(), Failure>;
}

impl dyn AnyKernel {
    /// The PTX of the portable entry point, with the constants written in.
    ///
    /// # Errors
    /// No module for the element type, or a hole that has no constant.
    pub fn specialised_ptx(&self) -> Result<String> {
        let (info, dtype) = (self.info(), self.dtype());
        let missing = Error::MissingModule { kernel: info.name, dtype: dtype.name() };
        specialise(info, info.module(dtype.kind(info.family)).ok_or(missing)?, &self.constants())
    }
}

impl<K: Plain + Send + Sync> AnyKernel for K {
    fn name(&self) -> &'static str {
        Kernel::name(self)
    }

    fn id(&self) -> String {
        Kernel::id(self)
    }

    fn dtype(&self) -> DType {
        Kernel::dtype(self)
    }

    fn source(&self) -> &str {
        Kernel::source(self)
    }

    fn kernel_source(&self) -> &str {
        Kernel::kernel_source(self)
    }

    fn entry_point_source(&self) -> &str {
        Kernel::entry_point_source(self)
    }

    fn info(&self) -> &'static KernelInfo {
        Kernel::info(self)
    }

    fn constants(&self) -> Vec<i32> {
        Plain::constants(self)
    }

    fn pointers(&self) -> usize {
        K::POINTERS
    }

    fn scalar_bytes(&self) -> usize {
        K::SCALAR_BYTES
    }

    fn prepare(&self, arguments: &Arguments<'_>, options: &LaunchOptions<'_>) -> Result<Launch, Failure> {
        Ok(Kernel::prepare(self, &K::arguments(arguments)?, options)?)
    }

    fn workspace_bytes(
        &self,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
    ) -> Result<u64, Failure> {
        Ok(Kernel::workspace_bytes(self, &K::arguments(arguments)?, options, target)?)
    }

    fn plan(
        &self,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
    ) -> Result<Vec<Launch>, Failure> {
        Ok(Kernel::plan(self, &K::arguments(arguments)?, options, target)?)
    }

    unsafe fn launch(
        &self,
        device: &Device,
        arguments: &Arguments<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<(), Failure> {
        // SAFETY: by this function's contract.
        Ok(unsafe { device.launch(self, K::arguments(arguments)?, options) }?)
    }
}

/// A kernel with everything of a launch but the memory.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The kernel.
    pub kernel: &'a dyn AnyKernel,
    /// Extents and strides.
    pub extents: &'a [i32],
    /// The bytes of a pad's value.
    pub scalar: &'a [u8],
    /// Rows, accumulation, grid.
    pub options: LaunchOptions<'a>,
}

impl Call<'_> {
    fn arguments<'a>(&'a self, addresses: &'a [u64]) -> Arguments<'a> {
        Arguments { addresses, extents: self.extents, scalar: self.scalar }
    }

    /// The portable kernel's launch for buffers at these addresses.
    ///
    /// # Errors
    /// As [`Kernel::prepare`].
    pub fn prepare(&self, addresses: &[u64]) -> Result<Launch, Failure> {
        self.kernel.prepare(&self.arguments(addresses), &self.options)
    }

    /// Bytes of workspace with which [`plan`](Call::plan) can choose freely.
    ///
    /// # Errors
    /// As [`Kernel::workspace_bytes`].
    pub fn workspace_bytes(&self, addresses: &[u64], target: &Target) -> Result<u64, Failure> {
        self.kernel.workspace_bytes(&self.arguments(addresses), &self.options, target)
    }

    /// The launches that are fastest on a target, for buffers at these addresses.
    ///
    /// # Errors
    /// As [`Kernel::plan`].
    pub fn plan(&self, addresses: &[u64], target: &Target) -> Result<Vec<Launch>, Failure> {
        self.kernel.plan(&self.arguments(addresses), &self.options, target)
    }

    /// Launches on a device, with buffers at these addresses.
    ///
    /// # Errors
    /// As [`Device::launch`].
    ///
    /// # Safety
    /// As [`Device::launch`].
    pub unsafe fn launch(&self, device: &Device, addresses: &[u64]) -> Result<(), Failure> {
        // SAFETY: by this function's contract.
        unsafe { self.kernel.launch(device, &self.arguments(addresses), &self.options) }
    }
}

/// As many numbers as there are names for.
pub(crate) fn exactly<T: Copy, const N: usize>(
    kernel: &'static str,
    what: &'static str,
    names: &'static str,
    given: &[T],
) -> Result<[T; N], Failure> {
    given.try_into().map_err(|_| Failure::Count { kernel, what, names, want: N, have: given.len() })
}

/// Stamps what lets a kernel be made and called by plain numbers.
macro_rules! plain {
    (
        $kernel:ident($name:literal: $($constant:ident),+)
        pointers($($pointer:ident),+) extents($($extent:ident),+) $(scalar($scalar:ident))?
    ) => {
        impl<D: $crate::Num> $crate::verify::erased::Plain for $kernel<D> {
            const POINTERS: usize = [$(stringify!($pointer)),+].len();
            const SCALAR_BYTES: usize = 0 $(+ {
                let _ = stringify!($scalar);
                size_of::<D>()
            })?;

            fn build(constants: &[i32]) -> Result<Self, $crate::verify::Failure> {
                let names = stringify!($($constant),+);
                let [$($constant),+] =
                    $crate::verify::erased::exactly($name, "constants", names, constants)?;
                Ok(Self::try_new($($constant),+)?)
            }

            fn constants(&self) -> Vec<i32> {
                vec![$(self.$constant),+]
            }

            fn arguments(
                parts: &$crate::verify::Arguments<'_>,
            ) -> Result<<Self as $crate::Kernel>::Args<'static>, $crate::verify::Failure> {
                let names = stringify!($($pointer),+);
                let [$($pointer),+] =
                    $crate::verify::erased::exactly($name, "addresses", names, parts.addresses)?;
                let names = stringify!($($extent),+);
                let [$($extent),+] = $crate::verify::erased::exactly($name, "extents", names, parts.extents)?;
                $(
                    let [$scalar] = $crate::verify::erased::exactly(
                        $name, "values", stringify!($scalar), &$crate::verify::data::elements_of::<D>(parts.scalar),
                    )?;
                )?
                Ok(($($pointer as *mut D,)+ $($extent,)+ $($scalar,)?))
            }
        }
    };
}

pub(crate) use plain;

/// The function that builds a kernel for an element type known at run time.
macro_rules! build {
    ($kernel:ident) => {
        |dtype, constants| {
            use $crate::verify::{AnyKernel, erased::Plain};
            $crate::verify::data::with_element!(dtype, D => {
                Ok(Box::new($kernel::<D>::build(constants)?) as Box<dyn AnyKernel>)
            })
        }
    };
}

pub(crate) use build;
