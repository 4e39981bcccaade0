//! What must hold for any shape and any data, on the CPU path and on device code, without a reference.
//!
//! Cases are few and always the same ones, so that CI takes seconds and repeats itself. `PROPTEST_CASES` asks for more
//! of each, and `PROPTEST_RNG_SEED` for others.

mod common;
mod invariance;
mod linear;
mod pieces;
