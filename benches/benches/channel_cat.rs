//! The kernels of `channel_cat` against a copy, and their CPU references.

use std::process::ExitCode;

use cotangent_benches::{harness, ops};

fn main() -> ExitCode {
    harness::run(|criterion, place| harness::op(criterion, place, ops::channel_cat::cases))
}
