//! What only tests need: a machine that executes PTX under a checker, without a GPU.

pub mod executor;
pub mod ptx;
pub mod suite;
