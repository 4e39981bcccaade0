//! What a check can find.

use crate::element::DType;
use crate::error::Error;

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No kernel has this name.
    #[error("no kernel is called {name:?}; they are {known}")]
    UnknownKernel {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },

    /// A number of constants, arguments or addresses that the kernel does not take.
    #[error("{kernel} takes {want} {what} ({names}), but {have} were given")]
    Count {
        /// The kernel's name.
        kernel: &'static str,
        /// What was counted.
        what: &'static str,
        /// What they are called.
        names: &'static str,
        /// How many it takes.
        want: usize,
        /// How many were given.
        have: usize,
    },

    /// The launch was refused, or the device failed.
    #[error(transparent)]
    Launch(#[from] Error),

    /// What an executor of another kind found.
    #[error("{0}")]
    Executor(Box<dyn std::error::Error + Send + Sync>),

    /// The launch plans to touch another part of a buffer than the contract says.
    #[error("the launch touches {planned} bytes of {buffer}, where the contract says {contract}")]
    Planned {
        /// The buffer's name.
        buffer: &'static str,
        /// Bytes that the launch names.
        planned: u64,
        /// Bytes that the contract names.
        contract: u64,
    },

    /// A byte outside a buffer changed.
    #[error("{buffer}: the byte {distance} bytes {side} the buffer was written")]
    RedZone {
        /// The buffer's name.
        buffer: &'static str,
        /// `before` or `after`.
        side: &'static str,
        /// How far outside; one is the buffer's neighbour.
        distance: usize,
    },

    /// An input changed.
    #[error("{buffer}: the launch wrote element {element} of an input")]
    InputChanged {
        /// The buffer's name.
        buffer: &'static str,
        /// The element.
        element: usize,
    },

    /// An element that the contract leaves alone was written.
    #[error("{buffer}: element {element} was written, but the contract leaves it alone")]
    Touched {
        /// The buffer's name.
        buffer: &'static str,
        /// The element.
        element: usize,
    },

    /// An element that the contract names was not written.
    #[error("{buffer}: element {element} was not written")]
    Unwritten {
        /// The buffer's name.
        buffer: &'static str,
        /// The element.
        element: usize,
    },

    /// Two runs on the same inputs differ.
    #[error("{buffer}: element {element} is {first} in one run and {second} in the next")]
    Unsteady {
        /// The buffer's name.
        buffer: &'static str,
        /// The element.
        element: usize,
        /// Its value in the first run.
        first: String,
        /// Its value in the second run.
        second: String,
    },

    /// A result outside its bound.
    #[error("{buffer}: element {element} is {got}, but must be {want} (error {error:e}, bound {bound:e})")]
    Wrong {
        /// The buffer's name.
        buffer: &'static str,
        /// The element.
        element: usize,
        /// The result.
        got: String,
        /// The right answer.
        want: String,
        /// Their difference; infinite where the bits or the class of number differ.
        error: f64,
        /// The largest difference allowed.
        bound: f64,
    },

    /// ⟨A x, y⟩ and ⟨x, Aᵀ y⟩ differ.
    #[error("⟨{output}, dy⟩ is {forward}, but ⟨{input}, d{input}⟩ is {backward} (bound {bound:e})")]
    NotAdjoint {
        /// The forward's input.
        input: &'static str,
        /// The forward's output.
        output: &'static str,
        /// ⟨A x, y⟩.
        forward: String,
        /// ⟨x, Aᵀ y⟩.
        backward: String,
        /// The largest difference allowed.
        bound: f64,
    },
}

/// A check that failed, with all that is needed to run it again.
#[derive(Debug, thiserror::Error)]
#[error("{check}, {dtype}: {failure}")]
pub struct Finding {
    /// The check, as it prints itself.
    pub check: String,
    /// The element type.
    pub dtype: DType,
    /// What it found.
    #[source]
    pub failure: Failure,
}
