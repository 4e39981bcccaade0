//! Measured answers, by stopwatches that say what a test wants, and files that are as bad as can be.

mod choice;
mod file;

use super::{Autotune, GpuModel};
use crate::error::{Error, Result};
use crate::kernel::{Algorithm, Kernel, LaunchOptions, Workspace};
use crate::launch::Target;
use crate::{Conv2dBackward, Conv2dForward};

type Forward = Conv2dForward<f32>;

fn h200() -> GpuModel {
    let target = Target { capability: (9, 0), multiprocessors: 132 };
    GpuModel { name: "NVIDIA H200".to_owned(), target, driver: (13, 0) }
}

fn forward() -> Forward {
    Forward::new(3, 3, 1, 1, 1, 1, 1, 128)
}

/// So many images of 32 channels and 14 × 14 pixels.
fn images(b: i32) -> <Forward as Kernel>::Args<'static> {
    let at = |number: u64| (number << 40) as *mut f32;
    (at(1), at(2), at(3), b, 32, 32, 14, 14, 14, 14)
}

#[expect(clippy::unnecessary_wraps, reason = "as a device answers")]
fn take(bytes: u64) -> Result<Workspace> {
    Ok(Workspace { address: 1 << 50, bytes })
}

/// Tunes with a stopwatch by which each algorithm takes what `us` says.
fn tune(autotune: &Autotune, b: i32, us: impl Fn(Algorithm) -> f64) -> Result<Algorithm> {
    let options = LaunchOptions::new();
    autotune.tune_with(&h200(), &forward(), &images(b), &options, take, |algorithm, _, _| Ok(us(algorithm)))
}

fn answer(autotune: &Autotune, b: i32) -> Algorithm {
    autotune.answer(&h200(), &forward(), &images(b), &LaunchOptions::new()).expect("a good call")
}

/// Makes this the fastest.
fn prefer(fastest: Algorithm) -> impl Fn(Algorithm) -> f64 {
    move |algorithm| if algorithm == fastest { 50.0 } else { 100.0 }
}
