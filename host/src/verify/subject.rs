//! What verification knows of each kernel.

use super::case::{Case, Literal};
use super::erased::AnyKernel;
use super::failure::Failure;
use crate::element::DType;

/// What a kernel does with one of its arguments, by the contract.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    Input,
    /// The value of a pad, which lies in no buffer.
    Scalar,
    Output {
        /// How many products or elements each result sums; zero for a copy.
        terms: u64,
        /// Which elements are written; all if nothing is said.
        written: Option<Vec<bool>>,
    },
}

/// One argument of a case.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) elements: usize,
    pub(crate) role: Role,
}

impl Spec {
    pub(crate) fn input(name: &'static str, elements: usize) -> Self {
        Self { name, elements, role: Role::Input }
    }

    pub(crate) fn scalar(name: &'static str) -> Self {
        Self { name, elements: 1, role: Role::Scalar }
    }

    /// An output of which every element is written; a copy has no terms.
    pub(crate) fn output(name: &'static str, elements: usize, terms: u64) -> Self {
        Self { name, elements, role: Role::Output { terms, written: None } }
    }

    /// An output of which only the elements at these indices are written.
    pub(crate) fn part(name: &'static str, elements: usize, written: impl Iterator<Item = usize>) -> Self {
        let mut mask = vec![false; elements];
        written.for_each(|index| mask[index] = true);
        Self { name, elements, role: Role::Output { terms: 0, written: Some(mask) } }
    }

    /// Counts what an output holds before as one more term, where it is added to.
    pub(crate) fn accumulated(mut self, accumulate: bool) -> Self {
        if let Role::Output { terms, .. } = &mut self.role {
            *terms = if accumulate { (*terms).max(1) + 1 } else { *terms };
        }
        self
    }
}

/// A backward kernel's forward, and which of its inputs each gradient belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adjoint {
    pub(crate) forward: &'static str,
    /// The forward's input, and the backward's output.
    pub(crate) pairs: &'static [(&'static str, &'static str)],
}

/// Builds a kernel for an element type and constants.
pub(crate) type Build = fn(DType, &[i32]) -> Result<Box<dyn AnyKernel>, Failure>;

/// What verification knows of one kernel.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) build: Build,
    /// The arguments that a case's launch takes, in the kernel's order, by the contract and not by the
    /// kernel's own checks.
    pub(crate) specs: fn(&Case) -> Vec<Spec>,
    pub(crate) cases: fn() -> Vec<Case>,
    pub(crate) literals: fn() -> Vec<Literal>,
    pub(crate) adjoint: Option<Adjoint>,
}

/// The subject of this name.
pub(crate) fn find(name: &str) -> Result<&'static Subject, Failure> {
    all().find(|subject| subject.name == name).ok_or_else(|| {
        let known: Vec<_> = all().map(|subject| subject.name).collect();
        Failure::UnknownKernel { name: name.to_owned(), known: known.join(", ") }
    })
}

/// Every subject, operation by operation.
pub(crate) fn all() -> impl Iterator<Item = &'static Subject> {
    crate::ops::SUBJECTS.iter().copied().flatten()
}
