//! The kernel contract: what each kernel says of itself, what its modules export, and what its launches are
//! made of. Only `equivalence` executes anything.
#![allow(clippy::format_collect, reason = "a hash in hexadecimal is short")]

mod catalogue;
mod constants;
mod custom_ptx;
mod divisors;
mod documents;
mod equivalence;
mod freshness;
mod geometry;
mod names;
mod parameters;
mod specialised;
