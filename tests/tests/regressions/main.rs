//! Failures that other libraries' users reported, each as the smallest input that shows it, and the hazards that are
//! behind most of them, for every kernel.
//!
//! A test's name says the report; its line of documentation says what failed there and what must hold here. Every test
//! runs on the CPU path and on device code: a GPU where there is one, else the PTX machine. Those that need more memory
//! than the machine should take run on a GPU alone, and say so where there is none.
//!
//! The kernels beside the five operations meet special numbers and other grids in `ops_kernels.rs`.

mod channel_cat;
mod common;
mod constant_pad1d;
mod conv2d;
mod elementwise;
mod flatten;
mod hazards;
mod launches;
mod upsample_nearest2d;
