//! What can be wrong: with a module's text, with a launch, and with what a kernel does.

use std::fmt;

/// A module that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PtxError {
    /// The text is not PTX.
    #[error("line {line}: {what}")]
    Syntax {
        /// Line, counted from one.
        line: u32,
        /// What is wrong.
        what: String,
    },
    /// An instruction, modifier or operand form that the machine does not know.
    #[error("line {line}: unsupported instruction `{instruction}`: {what}")]
    Unsupported {
        /// Line, counted from one.
        line: u32,
        /// The opcode with its suffixes.
        instruction: String,
        /// What about it is unknown.
        what: String,
    },
}

impl PtxError {
    pub(crate) fn syntax(line: u32, what: impl Into<String>) -> Self {
        Self::Syntax { line, what: what.into() }
    }

    /// The line it speaks of.
    #[must_use]
    pub fn line(&self) -> u32 {
        match self {
            Self::Syntax { line, .. } | Self::Unsupported { line, .. } => *line,
        }
    }
}

/// What a kernel did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The launch itself does not fit the entry.
    Launch,
    /// An access outside every allocation, or past the end of one.
    OutOfBounds,
    /// An address that is not a multiple of the access's width.
    Misaligned,
    /// An undefined value decides an address, a branch or a result.
    Undefined,
    /// Two threads touch a byte, one writing, with nothing that orders them.
    Race,
    /// A write to read-only memory.
    ReadOnly,
    /// A barrier that not every thread that must can reach.
    Barrier,
    /// A warp operation whose named lanes are not all there.
    Convergence,
    /// A touch of bytes that an unfinished asynchronous copy is writing.
    InFlight,
    /// The instruction budget is spent.
    Budget,
    /// The kernel executed `trap`.
    Trap,
    /// An operand with a value that the instruction does not allow.
    Operand,
}

/// What one lane did wrong, before the place is known.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) lane: u32,
    pub(crate) what: String,
    pub(crate) address: Option<String>,
}

/// The result of executing one instruction.
pub(crate) type Outcome = Result<(), Box<Fault>>;

impl Fault {
    pub(crate) fn new(kind: Kind, lane: u32, what: impl Into<String>) -> Box<Self> {
        Box::new(Self { kind, lane, what: what.into(), address: None })
    }

    pub(crate) fn at(kind: Kind, lane: u32, address: String, what: impl Into<String>) -> Box<Self> {
        Box::new(Self { kind, lane, what: what.into(), address: Some(address) })
    }
}

/// A fault with its place: what a launch that must not pass returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What kind of fault it is.
    pub kind: Kind,
    /// The entry.
    pub kernel: String,
    /// The module's label.
    pub module: String,
    /// The line in the module's text, counted from one.
    pub line: u32,
    /// The instruction's text.
    pub instruction: String,
    /// The block, x, y, z.
    pub block: [u32; 3],
    /// The thread in its block, x, y, z.
    pub thread: [u32; 3],
    /// The address as a buffer and an offset, where the fault has one.
    pub address: Option<String>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, kernel, module, line, instruction, block, thread, address, what } = self;
        write!(f, "{kind:?} in kernel `{kernel}` of module `{module}`, line {line}: `{instruction}`, ")?;
        write!(f, "block {block:?}, thread {thread:?}: {what}")?;
        match address {
            Some(address) => write!(f, " at {address}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Report {}
