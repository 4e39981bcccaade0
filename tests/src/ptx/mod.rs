//! A machine that executes PTX on the CPU and checks every access.
//!
//! [`Module::parse`] reads a module as LLVM's NVPTX back end or a person writes it; [`Machine::launch`] runs
//! an entry over a grid, blocks in parallel, 32 lanes at a time. Device memory is a [`Memory`] of named
//! buffers. What a launch reports instead of going on:
//!
//! - an access outside every buffer or variable, misaligned, or a write to read-only memory;
//! - an undefined register or predicate used by anything but a copy. Copies (moves, selections, loads,
//!   stores, shuffles) carry undefined bytes along, through memory too, and [`Memory::check_written`] finds
//!   those that arrive in an output;
//! - two threads that touch one byte, one of them writing and not both atomically, with no barrier (or, in
//!   one warp, no `bar.warp.sync` of the whole warp) between; across blocks nothing orders two accesses;
//! - a barrier that some thread which must never reaches; a warp operation whose named lanes are elsewhere;
//! - a touch of bytes that an unfinished `cp.async` is writing;
//! - an integer division by zero, `trap`, and a spent instruction budget.
//!
//! The answers are those that an H200 has given, bit for bit and NaNs included (`ptx_corpus/README.md`), apart from
//! those of the functions that the GPU takes from tables. [`Module::approximate`] lists the instructions whose
//! bits PTX leaves open: these functions, and `mma` into f16 and f32.

// Floats are compared exactly on purpose: the machine's answers are right to the bit. Suffixes of an
// instruction are yes-or-no by nature. A fault is boxed, so that the result of the common case stays small.
#![allow(
    clippy::float_cmp,
    clippy::fn_params_excessive_bools,
    clippy::struct_excessive_bools,
    clippy::unnecessary_box_returns
)]

mod barrier;
mod block;
mod cells;
mod code;
mod copies;
mod decode;
mod error;
mod exec;
mod global;
mod lex;
mod link;
mod local;
mod machine;
mod memory;
mod memory_map;
mod mods;
mod module;
mod numeric;
mod operands;
mod ops;
mod order;
mod parse;
mod parse_body;
mod race;
mod regs;
mod shared;
mod syntax;
mod ty;
mod warp;

pub use error::{Kind, PtxError, Report};
pub use machine::{Launch, Machine, Options, Stats};
pub use memory::{Buffer, Memory, Unwritten};
pub use module::{Entry, Module, Param, ParamKind};
pub use syntax::Space;
pub use ty::Ty;
