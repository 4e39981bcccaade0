//! Verification: every kernel and element type over a fixed set of awkward shapes, on any executor.
//!
//! An [`Executor`] carries out launches: a [`Device`](crate::Device), or anything else that can. A [`Check`]
//! is one of three things, and all are the same for every executor:
//!
//! - [`Check::Reference`] runs a [`Case`] twice, with red zones around every buffer and two different poisons in
//!   the outputs. What the contract says is written must be written, and the same both times; nothing else may
//!   change; results must equal the right answers: copies bit for bit, integers exactly, sums of floats within
//!   a bound that follows from the number of terms, their magnitudes and the types.
//! - [`Check::Literal`] has inputs and answers worked by hand.
//! - [`Check::Adjoint`] compares ⟨A x, y⟩ with ⟨x, Aᵀ y⟩, the backward kernel with its forward.
//!
//! The right answers come from the CPU references at `i64` and `f64`; the last two kinds are what checks the
//! references themselves. Both are needed: zeroing or shifting both directions passes the identity and fails
//! the literals. Data comes from [`SplitMix64`], seeded by the check's own description.

mod case;
mod check;
pub(crate) mod data;
pub(crate) mod erased;
mod failure;
mod memory;
mod reference;
mod report;
pub(crate) mod subject;
#[cfg(test)]
mod tests;

pub use case::{Case, Check, Data, Grid, Literal};
pub use check::{Measured, run};
pub use data::{SplitMix64, decode, encode};
pub use erased::{AnyKernel, Arguments, Call};
pub use failure::{Failure, Finding};
pub use memory::{Choosing, Executor, HostBuffer};
pub use reference::bound;
pub use report::{Row, Scope, verify};

use crate::element::DType;

/// The names of the kernels, operation by operation.
pub fn kernels() -> Vec<&'static str> {
    subject::all().map(|subject| subject.name).collect()
}

/// The kernel of this name for an element type and constants that are known at run time alone.
///
/// # Errors
/// An unknown name, a wrong number of constants, and a constant that the kernel cannot have.
pub fn kernel(name: &str, dtype: DType, constants: &[i32]) -> Result<Box<dyn AnyKernel>, Failure> {
    (subject::find(name)?.build)(dtype, constants)
}

/// The fixed set of checks of a kernel.
///
/// # Errors
/// An unknown name.
pub fn checks(kernel: &str) -> Result<Vec<Check>, Failure> {
    let subject = subject::find(kernel)?;
    let cases = (subject.cases)();
    let adjoint = cases.iter().filter(|case| subject.adjoint.is_some() && !case.accumulate).cloned();
    let adjoint: Vec<_> = adjoint.map(Check::Adjoint).collect();
    let literals = (subject.literals)().into_iter().map(Check::Literal);
    Ok(literals.chain(cases.into_iter().map(Check::Reference)).chain(adjoint).collect())
}
