//! The kernels of `conv2d` against a copy, and their CPU references.

use std::process::ExitCode;

use cotangent_benches::{harness, ops};

fn main() -> ExitCode {
    harness::run(|criterion, place| harness::op(criterion, place, ops::conv2d::cases))
}
