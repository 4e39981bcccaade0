//! The PTX machine: every instruction with worked answers, every check with a fault and its sound twin.

// Programs are put together from text, and answers compared to the bit.
#![allow(clippy::float_cmp, clippy::format_push_string)]

mod common;
mod faults_memory;
mod faults_sync;
mod instructions_convert;
mod instructions_float;
mod instructions_half;
mod instructions_int;
mod instructions_memory;
mod instructions_warp;
mod kernels;
mod parsing;
mod random_text;
