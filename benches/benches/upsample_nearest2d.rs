//! The kernels of `upsample_nearest2d` against a copy, and their CPU references.

use std::process::ExitCode;

use cotangent_benches::{harness, ops};

fn main() -> ExitCode {
    harness::run(|criterion, place| harness::op(criterion, place, ops::upsample_nearest2d::cases))
}
