//! Loading modules: checked first, compiled once, errors with the compiler's log.

use std::sync::{Arc, Barrier};
use std::thread;

use super::super::{CudaDevice, DriverError, Stream};
use super::{PTX, busy, clear, count, fail, names, with_fake_driver};

#[test]
fn module_is_compiled_once_for_concurrent_first_launches() {
    with_fake_driver!("module_is_compiled_once_for_concurrent_first_launches", "FAKE_JIT_MS" = "50");
    let device = CudaDevice::open(0).expect("a device");
    let start = Barrier::new(8);
    let functions: Vec<_> = thread::scope(|scope| {
        let ask = || {
            start.wait();
            device.function(PTX, "scale").expect("a function")
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(count("cuModuleLoadDataEx"), 1);
    assert!(functions.iter().all(|function| Arc::ptr_eq(function, &functions[0])));
    assert_eq!((functions[0].parameter_count(), functions[0].parameter_bytes()), (3, 32));
    assert_eq!((functions[0].max_threads(), functions[0].registers()), (1024, 40));
    assert_eq!((functions[0].static_shared_bytes(), functions[0].local_bytes()), (1024, 16));
    assert_eq!(functions[0].max_dynamic_shared_bytes(), (227 << 10) - 1024);
}

#[test]
fn module_with_other_text_is_another_module() {
    with_fake_driver!("module_with_other_text_is_another_module");
    let device = CudaDevice::open(0).expect("a device");
    let edited = PTX.replace("ret;", "nop; ret;");
    let both = PTX.to_owned() + ".visible .entry other() { ret; }";
    let first = device.function(PTX, "scale").expect("a function");
    let second = device.function(&edited, "scale").expect("a function");
    assert!(!Arc::ptr_eq(&first, &second), "same entry, other text");
    assert_eq!(count("cuModuleLoadDataEx"), 2);
    let third = device.function(&both, "scale").expect("a function");
    let fourth = device.function(&both, "other").expect("a function");
    assert!(!Arc::ptr_eq(&third, &fourth));
    assert_eq!(count("cuModuleLoadDataEx"), 3, "one module for both entries");
    let other_device = CudaDevice::open(1).expect("a device");
    other_device.function(PTX, "scale").expect("a function");
    assert_eq!(count("cuModuleLoadDataEx"), 4, "each context its own");
}

#[test]
fn module_that_does_not_compile_gives_the_log_and_is_tried_again() {
    with_fake_driver!("module_that_does_not_compile_gives_the_log_and_is_tried_again");
    let device = CudaDevice::open(0).expect("a device");
    let broken = PTX.replace("ret;", "refuse;");
    for tries in 1..=2 {
        let error = device.function(&broken, "scale").expect_err("refused").to_string();
        assert_eq!(
            error,
            "the driver's compiler refused the module of scale (CUDA_ERROR_INVALID_PTX, 218):\n\
             ptxas error   : line 4; unknown symbol 'refuse'"
        );
        assert_eq!(count("cuModuleLoadDataEx"), tries);
    }
    fail("cuModuleLoadDataEx", 221);
    let error = device.function(PTX, "scale").expect_err("no compiler").to_string();
    assert!(error.contains("CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221)"), "{error}");
}

#[test]
fn module_that_does_not_fit_never_reaches_the_driver() {
    with_fake_driver!("module_that_does_not_fit_never_reaches_the_driver", "FAKE_VERSION" = "11040");
    let device = CudaDevice::open(0).expect("a device");
    let error = |text: &str, entry: &str| device.function(text, entry).expect_err("does not fit");
    assert!(matches!(error(&PTX.replace("7.1", "7.5"), "scale"), DriverError::DriverTooOld { .. }));
    assert!(matches!(error(&PTX.replace("sm_80", "sm_100"), "scale"), DriverError::WrongTarget { .. }));
    assert!(matches!(error(&PTX.replace(".target", ".tar"), "scale"), DriverError::NotPtx { .. }));
    assert!(matches!(error(&(PTX.to_owned() + "\0"), "scale"), DriverError::NotPtx { .. }));
    assert_eq!(error(PTX, "scala").to_string(), "the module has no entry point \"scala\"; it has scale");
    assert_eq!(count("cuModuleLoadDataEx"), 0);
}

#[test]
fn module_is_unloaded_behind_the_work_of_dropped_and_live_streams() {
    with_fake_driver!("module_is_unloaded_behind_the_work_of_dropped_and_live_streams");
    let device = CudaDevice::open(0).expect("a device");
    let function = device.function(PTX, "scale").expect("a function");
    let (live, gone) = (Stream::new(&device).expect("a stream"), Stream::new(&device).expect("a stream"));
    busy();
    drop(gone);
    clear();
    drop((function, device));
    let names: Vec<_> = names().into_iter().filter(|name| name != "cuStreamIsCapturing").collect();
    assert_eq!(names, ["cuStreamSynchronize", "cuEventSynchronize", "cuEventDestroy_v2", "cuModuleUnload"]);
    drop(live);
}
