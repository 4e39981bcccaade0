//! What the driver layer answers when something cannot be done.

use super::codes;
use super::ptx::{ComputeCapability, CudaVersion, PtxVersion};

/// An error of the CUDA driver, or of what must hold before the driver is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The machine has no CUDA driver.
    #[error("no CUDA driver: {reason}")]
    NoDriver {
        /// The dynamic loader's words.
        reason: String,
    },

    /// A device that the machine does not have.
    #[error("there is no CUDA device {ordinal}: the driver shows {count}")]
    NoDevice {
        /// The device asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },

    /// A device older than every module of this crate.
    #[error("CUDA device {ordinal} ({device}) has compute capability {has}; {needs} or higher is needed")]
    BelowFloor {
        /// The device's number.
        ordinal: u32,
        /// Its name.
        device: String,
        /// Its compute capability.
        has: ComputeCapability,
        /// The lowest that is served.
        needs: ComputeCapability,
    },

    /// A module in a PTX version that the driver does not read.
    #[error(
        "the module is PTX {ptx}, but the driver is for CUDA {driver}, which reads up to PTX {reads}; \
         PTX {ptx} needs {}",
        .needs.map_or_else(|| "a newer one".to_owned(), |cuda| format!("a driver for CUDA {cuda}"))
    )]
    DriverTooOld {
        /// The module's PTX version.
        ptx: PtxVersion,
        /// The newest PTX version that the driver reads.
        reads: PtxVersion,
        /// The CUDA version of the driver.
        driver: CudaVersion,
        /// The first CUDA version that reads the module; none if this crate does not know the module's version.
        needs: Option<CudaVersion>,
    },

    /// A module for another architecture than the device's.
    #[error("the module is for {target}, which needs compute capability {needs}, but {device} has {has}")]
    WrongTarget {
        /// The module's `.target`.
        target: String,
        /// What that target runs on.
        needs: String,
        /// The device's name.
        device: String,
        /// Its compute capability.
        has: ComputeCapability,
    },

    /// A text that is no PTX module, or not a whole one.
    #[error("not a PTX module: {problem}")]
    NotPtx {
        /// What is wrong.
        problem: String,
    },

    /// A name that the module does not export as an entry point.
    #[error("the module has no entry point {entry:?}; it has {}", .available.join(", "))]
    NoEntry {
        /// The name asked for.
        entry: String,
        /// The module's entry points.
        available: Vec<String>,
    },

    /// The driver's compiler refused the module.
    #[error("the driver's compiler refused the module of {entry} ({name}, {code}):\n{log}")]
    Jit {
        /// The entry point asked for.
        entry: String,
        /// The driver's result code.
        code: u32,
        /// Its name.
        name: String,
        /// The compiler's log.
        log: String,
    },

    /// Not enough device memory.
    #[error("out of device memory: asked for {bytes} bytes, {free} of {total} are free")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes free at that time.
        free: u64,
        /// The device's bytes.
        total: u64,
    },

    /// A part of a buffer that the buffer does not have.
    #[error("bytes {offset} to {offset} + {len} are asked of a buffer of {bytes} bytes")]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Bytes from there.
        len: u64,
        /// The buffer's bytes.
        bytes: u64,
    },

    /// A stream, function or buffer of another device than the call's.
    #[error("{what} belongs to CUDA device {has}, but the call is for CUDA device {needs}")]
    OtherDevice {
        /// What was given.
        what: &'static str,
        /// Its device.
        has: u32,
        /// The call's device.
        needs: u32,
    },

    /// Parameters that do not fit the entry point.
    #[error("{entry} takes {takes} {unit}, but was given {given}")]
    Parameters {
        /// The entry point.
        entry: String,
        /// How much it takes.
        takes: usize,
        /// How much was given.
        given: usize,
        /// What is counted: parameters, or bytes of them.
        unit: &'static str,
    },

    /// A launch that the driver refused.
    #[error(
        "launching {entry} with {grid_x} blocks of {block_x} threads (at most {max_block_x}) and {shared_bytes} \
         bytes of dynamic shared memory (at most {max_shared_bytes}): {source}"
    )]
    Launch {
        /// The entry point.
        entry: String,
        /// Blocks.
        grid_x: u32,
        /// Threads a block.
        block_x: u32,
        /// The most threads a block that the compiled function allows.
        max_block_x: u32,
        /// Dynamic shared memory a block, in bytes.
        shared_bytes: u32,
        /// The most of it that the function can have on this device.
        max_shared_bytes: u32,
        /// The driver's answer.
        source: Box<DriverError>,
    },

    /// An earlier failure on the device made the context useless.
    #[error(
        "{call} failed: the context of CUDA device {ordinal} is lost since {first_call} answered {first}. \
         Every later call on this device fails in this process; end the process and start it again \
         (compute-sanitizer finds the access that caused it)"
    )]
    ContextLost {
        /// The call that failed now.
        call: &'static str,
        /// The device.
        ordinal: u32,
        /// The name of the first answer of this kind.
        first: String,
        /// The call that got it. Kernels run later than their launch, so it is rarely the cause.
        first_call: &'static str,
    },

    /// A call that failed for another reason.
    #[error("{call} failed: {name} ({code}): {text}")]
    Call {
        /// The driver's function.
        call: &'static str,
        /// Its result code.
        code: u32,
        /// The code's name.
        name: String,
        /// What it means.
        text: String,
    },
}

impl DriverError {
    /// The error of a call that answered `code`.
    pub(super) fn call(call: &'static str, code: u32) -> Self {
        Self::Call { call, code, name: code_name(code), text: code_text(code) }
    }

    /// The error of a cust wrapper around `call`.
    pub(super) fn cust(call: &'static str, error: cust::error::CudaError) -> Self {
        Self::call(call, error as u32)
    }

    /// The driver's result code, where the error carries one.
    pub(super) fn code(&self) -> Option<u32> {
        match self {
            Self::Call { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// The name of a result code.
pub(super) fn code_name(code: u32) -> String {
    codes::find(code)
        .map_or_else(|| "an unknown code".to_owned(), |known| known.name.to_string_lossy().into())
}

fn code_text(code: u32) -> String {
    codes::find(code).map_or_else(
        || "newer drivers may document it".to_owned(),
        |known| known.text.to_string_lossy().into(),
    )
}
