//! Verification passes on the CPU, and fails for every fault that is planted.

use super::*;
use crate::device::Device;
use crate::launch::Access;

/// An executor with a fault.
struct Faulty<F>(F);

impl<F: Fn(&Device, &Call<'_>, &mut [HostBuffer]) -> Result<(), Failure>> Executor for Faulty<F> {
    fn name(&self) -> String {
        "a faulty device".to_owned()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        (self.0)(&Device::cpu(), call, buffers)
    }
}

fn outputs(buffers: &mut [HostBuffer]) -> impl Iterator<Item = &mut HostBuffer> {
    buffers.iter_mut().filter(|buffer| buffer.access != Access::Read)
}

/// The checks of one kind that fail, by their kernels' names.
fn failing(executor: &dyn Executor, dtype: DType, kind: fn(&Check) -> bool) -> Vec<(&'static str, Failure)> {
    let mut failing = Vec::new();
    for kernel in kernels() {
        for check in checks(kernel).expect("a known kernel").into_iter().filter(kind) {
            if let Err(failure) = run(executor, &check, dtype) {
                failing.push((kernel, failure));
            }
        }
    }
    failing
}

fn kernels_with<T>(failing: &[(&'static str, T)]) -> Vec<&'static str> {
    let mut kernels: Vec<_> = failing.iter().map(|(kernel, _)| *kernel).collect();
    kernels.dedup();
    kernels
}

#[test]
fn the_cpu_passes() {
    let scope = Scope::new(None, None).expect("everything");
    let mut heard = 0;
    let rows = verify(&Device::cpu(), &scope, |_, _| heard += 1);
    assert_eq!(heard, scope.len());
    assert_eq!(rows.len(), 12 * 12);
    for row in rows {
        assert!(row.passed(), "{}", row.findings[0]);
        assert!(row.worst.ratio() <= 1.0);
    }
}
