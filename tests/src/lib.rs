//! What only tests need: a machine that executes PTX under a checker, without a GPU.

pub mod corpus;
pub mod executor;
pub mod fuzz;
pub mod golden;
pub mod gpu;
pub mod jobs;
pub mod mutate;
pub mod ptx;
pub mod random;
pub mod soak;
pub mod suite;
pub mod typed;

/// The README's programs, run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
