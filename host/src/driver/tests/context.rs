//! The context: bound for each call on any thread, put back afterwards, kept alive, and lost for good.

use std::{ptr, thread};

use cust::sys::CUcontext;

use super::super::{CudaDevice, DeviceMemory, DriverError, Event, Stream, raw};
use super::{PTX, all_calls, calls, clear, exported, fail, names, retained, with_fake_driver};

/// The calling thread's context.
fn current() -> CUcontext {
    let mut current = ptr::null_mut();
    // SAFETY: `current` is valid for a write.
    unsafe { raw::cuCtxGetCurrent(&raw mut current) }.ok().expect("initialised");
    current
}

/// Gives the calling thread a context, as another library would.
fn set_current(context: usize) {
    // SAFETY: to the stand-in, contexts are numbers.
    unsafe { raw::cuCtxSetCurrent(ptr::without_provenance_mut(context)) }.ok().expect("initialised");
}

/// One use of everything.
fn use_everything(device: &CudaDevice) {
    let stream = Stream::new(device).expect("a stream");
    let (start, end) = (Event::new(device).expect("an event"), Event::new(device).expect("an event"));
    start.record(&stream).expect("recorded");
    let memory = DeviceMemory::alloc(device, 100, &stream).expect("memory");
    memory.fill(0, 100, 7, &stream).expect("filled");
    let mut bytes = [0; 4];
    memory.copy_to_host(96, &mut bytes, &stream).expect("copied");
    assert_eq!(bytes, [7; 4]);
    memory.copy_from_host(1, &[1, 2, 3], &stream).expect("copied");
    memory.copy_to_host(0, &mut bytes, &stream).expect("copied");
    assert_eq!(bytes, [7, 1, 2, 3]);
    end.record(&stream).expect("recorded");
    end.synchronize().expect("done");
    assert!(end.is_done().expect("an answer") && stream.is_done().expect("an answer"));
    assert!((end.elapsed_us(&start).expect("a time") - 1500.0).abs() < 1e-6);
    device.function(PTX, "scale").expect("a function");
    stream.synchronize().expect("done");
    device.synchronize().expect("done");
    assert_eq!(device.memory(), Ok((7 << 30, 80 << 30)));
}

#[test]
fn context_of_the_thread_is_left_as_it_was() {
    with_fake_driver!("context_of_the_thread_is_left_as_it_was");
    let first = CudaDevice::open(0).expect("a device");
    assert!(current().is_null(), "opening leaves nothing bound");
    use_everything(&first);
    assert!(current().is_null());

    set_current(0xabc);
    let second = CudaDevice::open(1).expect("a device");
    use_everything(&first);
    use_everything(&second);
    drop((first, second));
    assert_eq!(current().addr(), 0xabc, "another library's context");
    assert_eq!(retained(), 0);
}

#[test]
fn context_bound_for_good_is_not_pushed_again() {
    with_fake_driver!("context_bound_for_good_is_not_pushed_again");
    let device = CudaDevice::open(0).expect("a device");
    device.make_current().expect("bound");
    let stream = Stream::new(&device).expect("a stream");
    let calls_of = |call: &dyn Fn()| {
        clear();
        call();
        all_calls()
            .iter()
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let synchronize = || stream.synchronize().expect("done");
    let (mode, sync) = ("cuThreadExchangeStreamCaptureMode", "cuStreamSynchronize");
    assert_eq!(calls_of(&synchronize), ["cuCtxGetCurrent", mode, sync, mode]);
    // Another library binds its own in between: that must not be missed.
    set_current(0xabc);
    let (push, pop) = ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2");
    assert_eq!(calls_of(&synchronize), ["cuCtxGetCurrent", push, mode, sync, mode, pop]);
    assert_eq!(current().addr(), 0xabc);
}

#[test]
fn context_serves_objects_on_any_thread_and_outlives_the_device() {
    with_fake_driver!("context_serves_objects_on_any_thread_and_outlives_the_device");
    let device = CudaDevice::open(0).expect("a device");
    let stream = Stream::new(&device).expect("a stream");
    let event = Event::new(&device).expect("an event");
    let memory = DeviceMemory::alloc(&device, 64, &stream).expect("memory");
    let function = device.function(PTX, "scale").expect("a function");
    drop(device);
    assert_eq!(retained(), 1);
    clear();
    thread::spawn(move || {
        assert!(current().is_null());
        drop((memory, event, function));
        assert_eq!(retained(), 1, "the stream still needs it");
        drop(stream);
        assert!(current().is_null());
    })
    .join()
    .expect("no panic");
    assert_eq!(retained(), 0);
    let names = names();
    for call in ["cuMemFreeAsync", "cuEventDestroy_v2", "cuModuleUnload", "cuStreamDestroy_v2"] {
        assert!(names.iter().any(|name| name == call), "{call} in {names:?}");
    }
    assert_eq!(names.last().map(String::as_str), Some("cuDevicePrimaryCtxRelease_v2"));
    assert!(!names.iter().any(|name| name == "cuCtxSynchronize"), "nothing waits for the whole device");
}

#[test]
fn context_errors_in_drops_are_no_panics() {
    with_fake_driver!("context_errors_in_drops_are_no_panics");
    for code in [1, 4, 700, 999] {
        let device = CudaDevice::open(0).expect("a device");
        let stream = Stream::new(&device).expect("a stream");
        let event = Event::new(&device).expect("an event");
        let memory = DeviceMemory::alloc(&device, 64, &stream).expect("memory");
        let function = device.function(PTX, "scale").expect("a function");
        let capture = stream.begin_capture().expect("a recording");
        let graph = capture.end().expect("a graph");
        let capture = stream.begin_capture().expect("a recording");
        fail("*", code);
        drop((capture, graph, memory, event, function, stream, device));
        fail("*", 0);
        // The stand-in keeps the recording that it was not allowed to end.
        exported::<extern "C" fn()>(c"fake_end_captures")();
        super::super::memory::free_parked();
    }
}

#[test]
fn context_lost_says_so_on_every_later_call() {
    with_fake_driver!("context_lost_says_so_on_every_later_call");
    let device = CudaDevice::open(0).expect("a device");
    let stream = Stream::new(&device).expect("a stream");
    fail("cuStreamSynchronize", 700);
    let error = stream.synchronize().expect_err("an illegal address");
    assert!(
        matches!(error, DriverError::ContextLost { call: "cuStreamSynchronize", ordinal: 0, .. }),
        "{error}"
    );
    // Another call fails with another code: what matters is what came first.
    fail("cuMemAllocAsync", 999);
    let error = DeviceMemory::alloc(&device, 64, &stream).expect_err("lost").to_string();
    assert!(
        error.starts_with("cuMemAllocAsync failed: the context of CUDA device 0 is lost since"),
        "{error}"
    );
    assert!(error.contains("cuStreamSynchronize answered CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
    assert!(error.contains("end the process and start it again"), "{error}");
    // The other device is not concerned.
    let other = CudaDevice::open(1).expect("a device");
    let stream = Stream::new(&other).expect("a stream");
    let error = DeviceMemory::alloc(&other, 64, &stream).expect_err("fails").to_string();
    assert_eq!(error, "cuMemAllocAsync failed: CUDA_ERROR_UNKNOWN (999): unknown error");
}

#[test]
fn context_refuses_objects_of_another_device() {
    with_fake_driver!("context_refuses_objects_of_another_device");
    let (first, second) = (CudaDevice::open(0).expect("a device"), CudaDevice::open(1).expect("a device"));
    let stream = Stream::new(&second).expect("a stream");
    clear();
    let error = DeviceMemory::alloc(&first, 64, &stream).expect_err("another device's stream").to_string();
    assert_eq!(error, "the stream belongs to CUDA device 1, but the call is for CUDA device 0");
    assert_eq!(calls(), Vec::<String>::new(), "the driver is not asked");
    let event = Event::new(&first).expect("an event");
    assert!(matches!(event.record(&stream), Err(DriverError::OtherDevice { has: 1, needs: 0, .. })));
}

#[test]
fn context_calls_do_not_spoil_recordings_of_others() {
    with_fake_driver!("context_calls_do_not_spoil_recordings_of_others");
    let device = CudaDevice::open(0).expect("a device");
    let spoiled: extern "C" fn() -> i32 = exported(c"fake_spoiled");
    exported::<extern "C" fn(u64)>(c"fake_foreign_capture")(0x5c);
    use_everything(&device);
    drop(device);
    assert_eq!(spoiled(), 0);
    // The stand-in would have noticed.
    // SAFETY: to the stand-in, streams are numbers.
    let answer = unsafe { raw::cuStreamQuery(ptr::null_mut()) };
    assert_eq!((answer.code, spoiled()), (900, 1));
}
