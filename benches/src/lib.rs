//! Benches of cotangent's kernels: against a copy of the same machine, its arithmetic rates, and other libraries.
//!
//! A [`case::Case`] is one kernel, one shape and one element type. It is first verified, then timed
//! ([`measure`]), on a [`place::Place`]: a GPU, or the CPU, where the same path runs on small shapes. [`peers`]
//! times other libraries on the same work by the same protocol, and [`report`] writes what came out.
//!
//! The protocol, the same for every side: a burst of launches between two events, recorded once as a CUDA graph
//! so that the host's part does not count, over inputs that rotate through four times the L2 cache; bursts last
//! about a millisecond; after a warm-up the median burst counts, divided by its launches. Problems of a few
//! kilobytes do not rotate: they measure latency.

pub mod case;
pub mod ceiling;
pub mod check;
mod error;
pub mod harness;
pub mod loads;
pub mod measure;
pub mod ops;
pub mod pattern;
pub mod peers;
pub mod place;
pub mod report;
pub mod traffic;

pub use error::{Error, Result};
