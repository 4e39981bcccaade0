//! A launch as data: which module, which constants, which parameters, which geometry.
//!
//! A kernel's checks turn its arguments into a [`Launch`]; a GPU, or anything else that can execute PTX,
//! carries it out. Nothing here needs a device.

mod params;
mod plans;

use std::fmt;

use crate::element::DType;
use crate::error::Result;
use crate::kernel::padded;
use crate::kernels::{self, KernelInfo, Module};
use crate::specialise::specialise;

pub use params::Params;
pub(crate) use params::{Divisor, Divisor64, IntoParam, Structure};
pub(crate) use plans::Argument;
#[cfg(feature = "cuda")]
pub(crate) use plans::Plans;
pub use plans::{Addresses, PlanKey};

/// Threads a block at most. Eight such blocks fill a multiprocessor of every architecture served.
const MAX_THREADS: u64 = 256;

/// The largest grid x.
pub(crate) const MAX_GRID: u64 = (1 << 31) - 1;

/// The shape of a launch. Only x is used: y and z stop at 65,535 blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks.
    pub grid_x: u32,
    /// Threads a block.
    pub block_x: u32,
    /// Dynamic shared memory a block, in bytes.
    pub shared_bytes: u32,
}

impl Geometry {
    /// The geometry for this many tiles of `area` elements: one block a tile, up to the largest grid (blocks
    /// then take several), and a thread an element, up to 256.
    pub fn tiles(tiles: u64, area: u64) -> Self {
        let threads = area.clamp(1, MAX_THREADS).next_multiple_of(32);
        Self { grid_x: tiles.clamp(1, MAX_GRID) as u32, block_x: threads as u32, shared_bytes: 0 }
    }
}

/// Bytes of results that a block of the vector kernels covers, where nobody says otherwise: of the powers of two
/// tried on an H200, the one that moved most bytes a second.
pub(crate) const VECTOR_BLOCK_BYTES: usize = 4096;

/// The same in elements.
pub(crate) const fn vector_block<D>() -> i32 {
    (VECTOR_BLOCK_BYTES / size_of::<D>()) as i32
}

/// What a launch does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes every element that the contract names, and reads none.
    Write,
    /// Adds to it.
    Accumulate,
}

/// How many buffers a launch may touch.
pub(crate) const MAX_BUFFERS: usize = 6;

/// A buffer that a launch touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The argument's name.
    pub name: &'static str,
    /// Its address on the device.
    pub address: u64,
    /// Bytes from the address that the kernel may touch.
    pub bytes: u64,
    /// What it does with them.
    pub access: Access,
}

impl Touched {
    pub(crate) const NONE: Self = Self { name: "", address: 0, bytes: 0, access: Access::Read };
}

/// An output and another buffer that share so many bytes.
pub(crate) fn overlap(touched: &[Touched]) -> Option<(&Touched, &Touched, u64)> {
    for (i, output) in touched.iter().enumerate() {
        if output.access == Access::Read {
            continue;
        }
        for (j, other) in touched.iter().enumerate() {
            let start = output.address.max(other.address);
            let end = (output.address + output.bytes).min(other.address + other.bytes);
            if i != j && start < end {
                return Some((output, other, end - start));
            }
        }
    }
    None
}

/// What a choice of launches may depend on: the shape of the problem and this, nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
}

/// How many constants a kernel may have.
pub(crate) const MAX_CONSTANTS: usize = 8;

/// Constants in a kernel's order; unused places are zero.
pub(crate) type Constants = [i32; MAX_CONSTANTS];

/// A checked launch.
#[derive(Clone)]
pub struct Launch {
    pub(crate) kernel: &'static KernelInfo,
    pub(crate) module: &'static Module,
    pub(crate) constants: Constants,
    pub(crate) params: Params,
    pub(crate) touched: [Touched; MAX_BUFFERS],
    pub(crate) buffers: usize,
    pub(crate) work: u64,
    pub(crate) geometry: Geometry,
}

/// The kernel, the module's element kind and the geometry, for people.
impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Geometry { grid_x, block_x, shared_bytes } = self.geometry;
        let (name, kind) = (self.kernel.name, self.module.kind);
        write!(
            f,
            "{name} {kind}: {grid_x} × {block_x} threads, {shared_bytes} bytes of shared memory a block"
        )
    }
}

impl Launch {
    /// A launch of a variant, whose arguments were checked with its kernel's; none if its module does not ship.
    pub(crate) fn variant(
        name: &str,
        dtype: DType,
        constants: &[i32],
        params: Params,
        touched: &[Touched],
        geometry: Geometry,
    ) -> Option<Self> {
        let kernel = kernels::find(name)?;
        let module = kernel.module(dtype.kind(kernel.family))?;
        let mut buffers = [Touched::NONE; MAX_BUFFERS];
        buffers[..touched.len()].copy_from_slice(touched);
        let work = u64::from(geometry.grid_x);
        let constants = padded(constants);
        Some(Self {
            kernel,
            module,
            constants,
            params,
            touched: buffers,
            buffers: touched.len(),
            work,
            geometry,
        })
    }

    /// Whether both are the same launch, addresses included.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.kernel, other.kernel)
            && std::ptr::eq(self.module, other.module)
            && self.constants == other.constants
            && self.params.packed() == other.params.packed()
            && self.touched() == other.touched()
            && self.work == other.work
            && self.geometry == other.geometry
    }

    /// The kernel.
    pub fn kernel(&self) -> &'static KernelInfo {
        self.kernel
    }

    /// The module that serves the element type.
    pub fn module(&self) -> &'static Module {
        self.module
    }

    /// The constants' values, in the kernel's order.
    pub fn constants(&self) -> &[i32] {
        &self.constants[..self.kernel.constants.len()]
    }

    /// The parameters: the arguments, then the hidden words.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The buffers that the launch touches.
    pub fn touched(&self) -> &[Touched] {
        &self.touched[..self.buffers]
    }

    /// Elements to compute; with none, nothing is launched.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// The launch's shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The symbol that the module exports.
    pub fn entry_point_name(&self) -> String {
        format!("{}_entry_point", self.kernel.name)
    }

    /// The module's PTX with the constants written in.
    ///
    /// # Errors
    /// [`Error::Module`](crate::Error::Module) if a hole has no constant.
    pub fn specialised_ptx(&self) -> Result<String> {
        specialise(self.kernel, self.module, self.constants())
    }
}
