//! The launch of a kernel.

use std::ffi::c_void;
use std::ptr;

use super::context::Bound;
use super::error::DriverError;
use super::module::Function;
use super::raw;
use super::stream::Stream;

/// The shape of a launch, along x alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub grid_x: u32,
    /// Threads a block.
    pub block_x: u32,
    /// Dynamic shared memory a block, in bytes.
    pub shared_bytes: u32,
}

/// A kernel's parameters.
#[derive(Clone, Copy, Debug)]
pub enum Arguments<'a> {
    /// A pointer to each, in order.
    Each(&'a [*const c_void]),
    /// All of them as the entry point lays them out: in order, each aligned to its size.
    Packed(&'a [u8]),
}

// The driver's names for the words of a packed list.
const END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// A stream's context, current on this thread until this is dropped.
#[must_use]
pub(crate) struct BoundContext<'a>(
    #[expect(dead_code, reason = "its drop puts the former context back")] Bound<'a>,
);

/// Makes the context of a stream current on this thread for several calls in a row, which then need not ask for it.
/// Nothing but this crate's own code may run meanwhile.
pub(crate) fn bind_context(stream: &Stream) -> Result<BoundContext<'_>, DriverError> {
    stream.handle().context().bind_for_launch().map(BoundContext)
}

/// Launches `function` in the order of `stream`.
///
/// Nothing is allocated and no lock is taken (but for a stream that is being recorded), and the driver is called
/// twice: to read the thread's context, and to launch. Where the context is another, it is changed and changed
/// back in two calls more.
///
/// # Safety
/// The arguments are of the types that the entry point declares, and what the kernel does with them in this
/// shape is sound; that includes that its buffers are live and that nothing else uses them meanwhile.
///
/// # Errors
/// [`DriverError::Parameters`], [`DriverError::OtherDevice`], [`DriverError::Launch`].
pub unsafe fn launch(
    function: &Function,
    shape: Shape,
    arguments: Arguments<'_>,
    stream: &Stream,
) -> Result<(), DriverError> {
    let handle = stream.handle();
    let context = function.context();
    handle.expect_context(context)?;
    check(function, arguments)?;
    function.allow_shared(shape.shared_bytes).map_err(|error| explain(function, shape, error))?;
    if handle.captured_here()
        && let Some(kept) = handle.kept().as_mut()
    {
        kept.modules.push(function.module().clone());
    }

    let packed: &[u8] = if let Arguments::Packed(bytes) = arguments { bytes } else { &[] };
    let mut packed_bytes = packed.len();
    let mut packed_list: [*mut c_void; 5] = [
        ptr::without_provenance_mut(BUFFER_POINTER),
        packed.as_ptr().cast_mut().cast(),
        ptr::without_provenance_mut(BUFFER_SIZE),
        (&raw mut packed_bytes).cast(),
        ptr::without_provenance_mut(END),
    ];
    let (each, packed) = match arguments {
        Arguments::Each(each) => (each.as_ptr().cast_mut().cast(), ptr::null_mut()),
        Arguments::Packed(_) => (ptr::null_mut(), packed_list.as_mut_ptr()),
    };
    let Shape { grid_x, block_x, shared_bytes } = shape;
    // SAFETY: both handles are live; the lists are as the driver wants them and checked in number; the driver
    // copies the arguments before it returns. The rest is the caller's contract.
    let launched = context.launch(|| unsafe {
        raw::cuLaunchKernel(
            function.raw(),
            grid_x,
            1,
            1,
            block_x,
            1,
            1,
            shared_bytes,
            handle.raw(),
            each,
            packed,
        )
    });
    launched.map_err(|error| explain(function, shape, error))
}

/// Compares the arguments in number with what the module's text declares.
fn check(function: &Function, arguments: Arguments<'_>) -> Result<(), DriverError> {
    let (takes, given, unit) = match arguments {
        Arguments::Each(each) => (function.parameter_count(), each.len(), "parameters"),
        Arguments::Packed(bytes) => (function.parameter_bytes(), bytes.len(), "bytes of parameters"),
    };
    if takes == given {
        return Ok(());
    }
    Err(DriverError::Parameters { entry: function.entry().to_owned(), takes, given, unit })
}

#[cold]
fn explain(function: &Function, shape: Shape, source: DriverError) -> DriverError {
    DriverError::Launch {
        entry: function.entry().to_owned(),
        grid_x: shape.grid_x,
        block_x: shape.block_x,
        max_block_x: function.max_threads(),
        shared_bytes: shape.shared_bytes,
        max_shared_bytes: function.max_dynamic_shared_bytes(),
        source: Box::new(source),
    }
}
