//! The kernels that ship: source text, parameters and PTX modules, as the builder generated them.

use crate::element::DType;
use crate::error::Result;

/// Which element kinds a kernel has modules for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Moves bits: a module per element width, `b8`, `b16`, `b32` and `b64`.
    Copy,
    /// Computes: a module per integer width (signed and unsigned wrap alike) and per float type.
    Arithmetic,
    /// Computes what integers have not: a module per float type.
    Float,
    /// Computes with sums in f32: a module per float type up to f32.
    Single,
    /// Computes what f32 alone needs: one module.
    F32,
}

/// One parameter of an entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the kernel's source.
    pub name: &'static str,
    /// Its Rust type in the kernel's source; `E` stands for the element type.
    pub ty: &'static str,
}

/// One specialization constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name in the kernel's source.
    pub name: &'static str,
    /// Whether the kernel divides by it, so that it comes with a magic number and a shift.
    pub divisor: bool,
}

/// One PTX module: a kernel for one element kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// The element kind, as [`Family`] lists them.
    pub kind: &'static str,
    /// The virtual architecture that it was compiled for, such as `sm_70`.
    pub target: &'static str,
    /// The PTX text, with holes for the constants.
    pub ptx: &'static str,
}

/// All that ships of one kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// The kernel function's name.
    pub name: &'static str,
    /// Which element kinds it has modules for.
    pub family: Family,
    /// The kernel function's own Rust source, verbatim.
    pub source: &'static str,
    /// The caller's arguments.
    pub args: &'static [Param],
    /// The hidden words that the launch fills, after the arguments.
    pub hidden: &'static [Param],
    /// The specialization constants.
    pub constants: &'static [Constant],
    /// The modules.
    pub modules: &'static [Module],
}

impl KernelInfo {
    /// The module for an element kind.
    pub fn module(&self, kind: &str) -> Option<&'static Module> {
        self.modules.iter().find(|module| module.kind == kind)
    }

    /// Rust source of the entry point for an element type, with these constants as literals.
    pub fn entry_point_source(&self, dtype: DType, constants: &[i32]) -> String {
        crate::kernel::entry_point_source(self, dtype, constants)
    }

    /// A module's PTX with these constants written in. What values a kernel can have, its struct knows.
    ///
    /// # Errors
    /// [`Error::Module`](crate::Error::Module) for another number of constants than the kernel has.
    pub fn specialise(&self, module: &Module, constants: &[i32]) -> Result<String> {
        crate::specialise::specialise(self, module, constants)
    }
}

/// The kernel of this name.
pub fn find(name: &str) -> Option<&'static KernelInfo> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}

include!("../kernels/kernels.rs");
