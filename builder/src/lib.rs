//! Compiles Cotangent's device crate to PTX, rejects PTX that must not ship, and writes one module per kernel
//! and element kind into `host/kernels/`, which is committed: users need no device compiler.
//!
//! The steps of a build: [`source`] reads each `entry!` block and its function; [`toolchain`] finds a
//! compiler; [`compile`] runs it; [`ptx`] takes the result apart, checks it and splits it; [`generate`] and
//! [`manifest`] make the files. [`pipeline`] puts the steps together.
//! [`resources`] assembles the modules with ptxas, and [`standalone`] compiles one kernel's `source()` text by itself.

pub mod compile;
pub mod generate;
pub mod holes;
pub mod manifest;
pub mod pipeline;
pub mod ptx;
pub mod resources;
pub mod setup;
pub mod source;
pub mod standalone;
pub mod toolchain;
pub mod workspace;

pub use manifest::sources_hash;
pub use pipeline::BuildError;
pub use standalone::{SourceCompiler, compile_source, compile_sources};
pub use workspace::Workspace;
