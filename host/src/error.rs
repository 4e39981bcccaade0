//! What can go wrong before and during a launch.

/// An error of the kernel contract. Nothing was launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A specialization constant that the kernel cannot have.
    #[error("{kernel}: the constant {name} is {value}, but {rule}")]
    Constant {
        /// The kernel's name.
        kernel: &'static str,
        /// The constant's name.
        name: &'static str,
        /// Its value.
        value: i64,
        /// What it must be.
        rule: &'static str,
    },

    /// An argument that contradicts the others.
    #[error("{kernel}: {name} is {value}, but {rule} {bound}")]
    Argument {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument's name.
        name: &'static str,
        /// Its value.
        value: i64,
        /// What it must be, up to the number `bound`.
        rule: &'static str,
        /// The number that the rule ends with.
        bound: i64,
    },

    /// A product of extents that 64-bit addresses cannot hold.
    #[error("{kernel}: {name} needs {}, which is not below 2^63 bytes", product(extents, *size))]
    TooLarge {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument's name.
        name: &'static str,
        /// The extents whose product it holds.
        extents: Vec<i64>,
        /// Bytes an element.
        size: usize,
    },

    /// Strides that send two elements of a gradient to one place.
    #[error(
        "{kernel}: the strides {stride_b} and {stride_n} send two elements of a {b} × {n} matrix to one \
         element, so the result would depend on the order of the writes"
    )]
    AliasingStrides {
        /// The kernel's name.
        kernel: &'static str,
        /// Rows.
        b: i32,
        /// Columns.
        n: i32,
        /// Elements between rows.
        stride_b: i32,
        /// Elements between columns.
        stride_n: i32,
    },

    /// A null pointer to a buffer that is not empty.
    #[error("{kernel}: {name} is null, but the kernel touches {bytes} bytes of it")]
    Null {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument's name.
        name: &'static str,
        /// Bytes that the kernel would touch.
        bytes: u64,
    },

    /// A pointer that is not a multiple of the element's size.
    #[error("{kernel}: {name} is at {address:#x}, which is not a multiple of the element's {size} bytes")]
    Misaligned {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument's name.
        name: &'static str,
        /// The pointer.
        address: u64,
        /// Bytes an element.
        size: usize,
    },

    /// A pointer from which a buffer would go on beyond the last address.
    #[error(
        "{kernel}: {name} is at {address:#x}, and the {bytes} bytes from there go beyond the last address"
    )]
    BeyondMemory {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument's name.
        name: &'static str,
        /// The pointer.
        address: u64,
        /// Bytes that the kernel would touch.
        bytes: u64,
    },

    /// A buffer that this library allocated and that is too short.
    #[error("{kernel}: {name} has {have} bytes from its pointer to its end, but the kernel touches {need}")]
    Short {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument's name.
        name: &'static str,
        /// Bytes from the pointer to the allocation's end.
        have: u64,
        /// Bytes that the kernel would touch.
        need: u64,
    },

    /// An output that overlaps another buffer of the same launch.
    #[error("{kernel}: the output {output} and {other} overlap by {bytes} bytes")]
    Overlap {
        /// The kernel's name.
        kernel: &'static str,
        /// The output's name.
        output: &'static str,
        /// The other buffer's name.
        other: &'static str,
        /// Bytes that both cover.
        bytes: u64,
    },

    /// A launch option that the kernel has no use for, or needs and did not get.
    #[error("{kernel}: the launch option {option} {rule}")]
    Option {
        /// The kernel's name.
        kernel: &'static str,
        /// The option's name.
        option: &'static str,
        /// What is wrong with it.
        rule: &'static str,
    },

    /// A public field that was changed after the kernel was built, so that its source no longer tells what
    /// would run.
    #[error(
        "{kernel}: the field {field} was changed{change} after the kernel was built; build a new one instead"
    )]
    Edited {
        /// The kernel's name.
        kernel: &'static str,
        /// The field's name.
        field: &'static str,
        /// For a number: from which to which; else nothing.
        change: String,
    },

    /// An element type that the kernel has no module for.
    #[error("{kernel}: no PTX module for element type {dtype}")]
    MissingModule {
        /// The kernel's name.
        kernel: &'static str,
        /// The element type's name.
        dtype: &'static str,
    },

    /// A PTX module that cannot be specialised or launched.
    #[error("{kernel}: the PTX module {problem}")]
    Module {
        /// The kernel's name.
        kernel: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// A tensor whose shape does not fit the others.
    #[error("{op}: {name} has the shape {have:?}, but {need}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The tensor's name.
        name: &'static str,
        /// Its shape.
        have: Vec<usize>,
        /// What it must be.
        need: String,
    },

    /// A tensor with gaps or in another order, where the operation needs row-major elements without gaps.
    #[error(
        "{op}: {name} of shape {shape:?} has the strides {strides:?}, but must be contiguous (ops::contiguous copies)"
    )]
    NotContiguous {
        /// The operation.
        op: &'static str,
        /// The tensor's name.
        name: &'static str,
        /// Its shape.
        shape: Vec<usize>,
        /// Its strides, in elements.
        strides: Vec<usize>,
    },

    /// A view that the tensor does not have.
    #[error("{op} of a tensor of shape {shape:?} and strides {strides:?}: {problem}")]
    View {
        /// What was asked for.
        op: &'static str,
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The tensor's strides, in elements.
        strides: Vec<usize>,
        /// What is wrong.
        problem: String,
    },

    /// Slices and tensors of different lengths.
    #[error("{have} elements were given for a tensor of {need}")]
    Length {
        /// Elements given.
        have: usize,
        /// Elements of the tensor.
        need: usize,
    },

    /// An extent that a kernel's 32 bits do not hold.
    #[error("{op}: {name} is {value}, which a kernel's 32 bits do not hold")]
    Extent {
        /// The operation.
        op: &'static str,
        /// What the number is.
        name: &'static str,
        /// Its value.
        value: usize,
    },

    /// Things of two devices in one call.
    #[error("{what} is on {has}, but the call is for {needs}")]
    OtherDevice {
        /// What was given.
        what: &'static str,
        /// Its device.
        has: String,
        /// The call's device.
        needs: String,
    },

    /// An operation whose module is not loaded yet, in a recording.
    #[error(
        "{kernel} with the constants {constants:?} is not prepared, and loading it is no part of a recording; run \
         the recorded closure once, or through Stream::prepare, before Stream::capture"
    )]
    NotPrepared {
        /// The kernel's name.
        kernel: &'static str,
        /// Its constants.
        constants: Vec<i32>,
    },

    /// A call that cannot be part of a recording.
    #[error("{what} cannot be done while the stream's work is prepared or recorded")]
    Capturing {
        /// The call.
        what: &'static str,
    },

    /// A recording whose closure went on after an operation had failed.
    #[error("the recording is thrown away, because an operation in it failed: {0}")]
    CaptureFailed(String),

    /// Memory that a recording cannot keep alive.
    #[error(
        "{what} is borrowed, and a recording outlives what it borrows; use a tensor that owns its memory"
    )]
    Borrowed {
        /// What was given.
        what: &'static str,
    },

    /// A tensor in host memory that another thread is using.
    #[error(
        "{what} is in use by another thread; writers of a tensor in host memory exclude each other and readers"
    )]
    InUse {
        /// What was given.
        what: &'static str,
    },

    /// A foreign tensor that cannot be taken over.
    #[error("the DLPack tensor {0}")]
    DlPack(String),

    /// Not enough host memory.
    #[error("out of host memory: asked for {bytes} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
    },

    /// A device that does not exist or cannot be used.
    #[error("{0}")]
    Device(String),

    /// The driver's answer.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Driver(#[from] crate::driver::DriverError),
}

/// The result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn product(extents: &[i64], size: usize) -> String {
    let factors: Vec<_> = extents.iter().map(i64::to_string).collect();
    format!("{} elements of {size} bytes", factors.join(" × "))
}
