//! The soak program: that it passes, reaches everything, and reports what is wrong so that it can be repeated.
//!
//! On the first GPU where there is one, else on the CPU path.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cotangent::kernels::KERNELS;
use cotangent::launch::Access;
use cotangent::verify::HostBuffer;
use cotangent::{Device, Error};
use cotangent_tests::jobs;
use cotangent_tests::soak::{self, Fault, Finding, Options, Report};

fn options(fault: Option<Fault>) -> Options {
    let device = if Device::cuda(0).is_ok() { "cuda:0" } else { "cpu" };
    println!("on {device}");
    let (device, time) = (device.to_owned(), Duration::from_secs(1));
    Options { device, time, seed: 7, threads: 2, pressure: 50, case: None, fault }
}

fn soaked(options: &Options) -> Report {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    soak::run(options, &|finding| println!("{finding:?}")).expect("a device that is there")
}

/// One at a time: others would take the memory.
static ALONE: Mutex<()> = Mutex::new(());

/// Complements the first element of the first output.
fn spoil(buffers: &mut [HostBuffer]) {
    let output = buffers.iter_mut().find(|buffer| buffer.access != Access::Read);
    if let Some(HostBuffer { bytes, element_bytes, .. }) = output {
        bytes.iter_mut().take(*element_bytes).for_each(|byte| *byte = !*byte);
    }
}

#[test]
fn a_short_soak_passes_under_memory_pressure() {
    let report = soaked(&options(None));
    assert!(report.passed(), "{:?}", report.findings);
    assert!(report.cases() >= 2, "each thread has a case at least");
    assert!(report.most_held > 0 && report.refused > 0, "{report:?}");
    assert!(report.rows.values().all(|row| row.failures == 0 && row.worst.ratio() <= 1.0), "{report:?}");
}

#[test]
fn device_code_can_be_soaked_without_a_gpu() {
    let report = soaked(&Options { device: soak::MACHINE.to_owned(), ..options(None) });
    assert!(report.passed(), "{:?}", report.findings);
    assert!(report.cases() >= 2, "each thread has a case at least");
}

#[test]
fn wrong_results_are_reported_with_a_seed_that_repeats_them() {
    let fault: Fault = |_, _, buffers| {
        spoil(buffers);
        Ok(())
    };
    let heard = Mutex::new(0);
    let spoilt = Options { time: Duration::from_mins(1), ..options(Some(fault)) };
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let report = soak::run(&spoilt, &|_| *heard.lock().unwrap() += 1).expect("a device that is there");
    drop(alone);
    // It ends when it has seen enough.
    assert_eq!(*heard.lock().unwrap(), report.findings.len());
    assert_eq!(report.rows.values().map(|row| row.failures).sum::<usize>(), report.findings.len());
    let Finding { seed: Some(seed), what } = &report.findings[0] else { panic!("{:?}", report.findings[0]) };
    let again = Options { time: Duration::ZERO, threads: 1, case: Some(*seed), ..options(Some(fault)) };
    assert_eq!(&soaked(&again).findings[0].what, what);
    assert!(soaked(&Options { fault: None, ..again }).passed(), "{what}");
}

#[test]
fn a_repetition_with_other_bits_is_reported() {
    let fault: Fault = |_, number, buffers| {
        if number == 1 {
            spoil(buffers);
        }
        Ok(())
    };
    let report = soaked(&options(Some(fault)));
    assert!(!report.passed());
    assert!(
        report.findings.iter().all(|finding| finding.what.contains("one stream")),
        "{:?}",
        report.findings
    );
}

#[test]
fn a_panic_is_a_failure_like_others() {
    let fault: Fault = |call, _, _| panic!("{} is in trouble", call.kernel.name());
    let report = soaked(&options(Some(fault)));
    assert!(report.findings.iter().all(|finding| finding.seed.is_some()));
    let what = &report.findings[0].what;
    assert!(what.contains("panicked") && what.contains("is in trouble"), "{what}");
}

#[test]
fn a_case_that_runs_out_of_memory_runs_again() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let fault: Fault = |_, _, _| {
        let first = CALLS.fetch_add(1, Ordering::Relaxed) == 0;
        if first { Err(Error::OutOfMemory { bytes: 5 }.into()) } else { Ok(()) }
    };
    let report = soaked(&options(Some(fault)));
    assert!(report.passed(), "{:?}", report.findings);
    assert_eq!(report.starved, 1);
    // Nobody else holds memory, so that there is no excuse.
    CALLS.store(0, Ordering::Relaxed);
    let report = soaked(&Options { pressure: 0, ..options(Some(fault)) });
    assert_eq!(report.findings.len(), 1);
    assert!(
        report.findings[0].what.contains("out of host memory: asked for 5 bytes"),
        "{:?}",
        report.findings
    );
}

#[test]
fn every_kernel_is_drawn() {
    let drawn: BTreeSet<_> = (0..400).map(|seed| jobs::drawn(seed).kernel).collect();
    let callable: BTreeSet<_> = jobs::callable().into_iter().collect();
    assert_eq!(drawn, callable);
    // What is not called by its own name is chosen by plans of convolutions.
    for kernel in KERNELS {
        assert!(callable.contains(kernel.name) || kernel.name.starts_with("conv2d_"), "{}", kernel.name);
    }
}

#[test]
fn a_case_follows_from_its_seed() {
    for seed in 0..40 {
        assert_eq!(jobs::drawn(seed).label, jobs::drawn(seed).label);
    }
    assert_ne!(jobs::drawn(1).label, jobs::drawn(2).label);
}
