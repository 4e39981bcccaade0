//! Buffers: made, used and given back in stream order, known by address.

use std::ptr;

use super::super::memory::free_parked;
use super::super::{
    CudaDevice, DeviceMemory, DriverError, Stream, address_device, address_range, known_bytes, prepare,
};
use super::{busy, calls, clear, count, exported, names, with_fake_driver};

fn open() -> (std::sync::Arc<CudaDevice>, Stream) {
    let device = CudaDevice::open(0).expect("a device");
    let stream = Stream::new(&device).expect("a stream");
    (device, stream)
}

/// The calls of a log but for questions about recordings.
fn work() -> Vec<String> {
    calls().into_iter().filter(|call| !call.starts_with("cuStreamIsCapturing")).collect()
}

#[test]
fn memory_is_made_and_freed_in_the_order_of_its_stream() {
    with_fake_driver!("memory_is_made_and_freed_in_the_order_of_its_stream");
    let (device, stream) = open();
    clear();
    let memory = DeviceMemory::alloc(&device, 1000, &stream).expect("memory");
    let (address, handle) = (memory.address(), stream.raw().addr());
    assert!(calls().contains(&format!("cuMemAllocAsync 3e8 {handle:x}")));
    assert_eq!(memory.bytes(), 1000);
    clear();
    drop(memory);
    assert!(calls().contains(&format!("cuMemFreeAsync {address:x} {handle:x}")));
    assert_eq!(count("cuStreamSynchronize") + count("cuCtxSynchronize") + count("cuEventSynchronize"), 0);
}

#[test]
fn memory_without_bytes_takes_none() {
    with_fake_driver!("memory_without_bytes_takes_none");
    let (device, stream) = open();
    clear();
    let memory = DeviceMemory::alloc(&device, 0, &stream).expect("memory");
    assert_eq!((memory.address(), memory.bytes()), (0, 0));
    memory.fill(0, 0, 1, &stream).expect("nothing to fill");
    memory.copy_from_host(0, &[], &stream).expect("nothing to copy");
    drop(memory);
    assert_eq!(count("cuMemAllocAsync") + count("cuMemsetD8Async") + count("cuMemcpyHtoDAsync_v2"), 0);
}

#[test]
fn memory_used_on_another_stream_is_ordered_at_both_ends() {
    with_fake_driver!("memory_used_on_another_stream_is_ordered_at_both_ends");
    let (device, home) = open();
    let other = Stream::new(&device).expect("a stream");
    let memory = DeviceMemory::alloc(&device, 512, &home).expect("memory");
    let (home, other_handle) = (home.raw().addr(), other.raw().addr());
    busy();
    clear();
    memory.use_on(&other).expect("ordered");
    memory.use_on(&other).expect("ordered already");
    let waits: Vec<_> = work().into_iter().filter(|call| call.starts_with("cuStreamWaitEvent")).collect();
    assert_eq!(waits.len(), 1);
    assert!(waits[0].starts_with(&format!("cuStreamWaitEvent {other_handle:x} ")), "{waits:?}");
    clear();
    let address = memory.address();
    drop(memory);
    let work = work();
    let event = work[1].rsplit(' ').nth(1).expect("an event").to_owned();
    assert_eq!(work[0], "cuEventCreate 2 0");
    assert_eq!(work[1], format!("cuEventRecord {event} {other_handle:x}"), "behind the other's work");
    assert_eq!(work[2], format!("cuStreamWaitEvent {home:x} {event}"), "the home waits for it");
    assert_eq!(work[3], format!("cuEventDestroy_v2 {event} 0"));
    assert_eq!(work[4], format!("cuMemFreeAsync {address:x} {home:x}"), "and only then frees");
}

#[test]
fn memory_is_known_by_any_address_in_it_while_it_lives() {
    with_fake_driver!("memory_is_known_by_any_address_in_it_while_it_lives");
    let (device, stream) = open();
    let first = DeviceMemory::alloc(&device, 512, &stream).expect("memory");
    let second = DeviceMemory::alloc(&device, 1000, &stream).expect("memory");
    let (a, b) = (first.address(), second.address());
    assert_eq!(a + 512, b, "the stand-in puts them side by side");
    for (address, bytes) in [
        (a, Some(512)),
        (a + 511, Some(1)),
        (b, Some(1000)),
        (b + 999, Some(1)),
        (b + 1000, None),
        (a - 1, None),
        (0, None),
        (u64::MAX, None),
    ] {
        assert_eq!(known_bytes(address), bytes, "{address:x}");
    }
    let mut known = [None; 3];
    prepare(&stream, &[b + 4, 1, a], &mut known).expect("prepared");
    assert_eq!(known, [Some(996), None, Some(512)]);
    drop(first);
    assert_eq!((known_bytes(a), known_bytes(b)), (None, Some(1000)));
}

#[test]
fn memory_of_another_stream_is_ordered_by_a_launch() {
    with_fake_driver!("memory_of_another_stream_is_ordered_by_a_launch");
    let (device, home) = open();
    let other = Stream::new(&device).expect("a stream");
    let memory = DeviceMemory::alloc(&device, 512, &home).expect("memory");
    busy();
    clear();
    prepare(&home, &[memory.address() + 8], &mut [None]).expect("prepared");
    assert_eq!(calls(), Vec::<String>::new(), "at home there is nothing to do");
    prepare(&other, &[memory.address() + 8], &mut [None]).expect("prepared");
    assert_eq!(count("cuStreamWaitEvent"), 1);
    let elsewhere = CudaDevice::open(1).expect("a device");
    let stream = Stream::new(&elsewhere).expect("a stream");
    let error = prepare(&stream, &[memory.address()], &mut [None]).expect_err("another device's");
    assert!(matches!(error, DriverError::OtherDevice { has: 1, needs: 0, .. }), "{error}");
}

#[test]
fn memory_that_runs_out_names_its_numbers() {
    with_fake_driver!("memory_that_runs_out_names_its_numbers");
    let (device, stream) = open();
    let error = DeviceMemory::alloc(&device, 100 << 30, &stream).expect_err("too much");
    assert_eq!(
        error.to_string(),
        "out of device memory: asked for 107374182400 bytes, 7516192768 of 85899345920 are free"
    );
}

#[test]
fn memory_refuses_parts_that_it_does_not_have() {
    with_fake_driver!("memory_refuses_parts_that_it_does_not_have");
    let (device, stream) = open();
    let memory = DeviceMemory::alloc(&device, 16, &stream).expect("memory");
    let other = DeviceMemory::alloc(&device, 8, &stream).expect("memory");
    clear();
    let error = memory.fill(10, 7, 0, &stream).expect_err("one too many").to_string();
    assert_eq!(error, "bytes 10 to 10 + 7 are asked of a buffer of 16 bytes");
    assert!(memory.copy_to_host(17, &mut [], &stream).is_err());
    assert!(memory.copy_from_host(usize::MAX, &[1, 2], &stream).is_err());
    assert!(memory.copy_from_device(0, &other, 0, 9, &stream).is_err());
    assert_eq!(calls(), Vec::<String>::new());
    memory.copy_from_device(8, &other, 0, 8, &stream).expect("copied");
    let copy = format!("cuMemcpyDtoDAsync_v2 {:x} {:x}", memory.address() + 8, other.address());
    assert!(calls().contains(&copy));
}

#[test]
fn memory_without_pools_waits_for_its_streams_alone() {
    with_fake_driver!("memory_without_pools_waits_for_its_streams_alone", "FAKE_POOLS" = "0");
    let (device, home) = open();
    let other = Stream::new(&device).expect("a stream");
    let memory = DeviceMemory::alloc(&device, 512, &home).expect("memory");
    memory.use_on(&other).expect("used");
    clear();
    drop(memory);
    let waits = names().into_iter().filter(|name| name != "cuStreamIsCapturing").collect::<Vec<_>>();
    assert_eq!(waits, ["cuStreamSynchronize", "cuStreamSynchronize", "cuMemFree_v2"]);
}

#[test]
fn memory_dropped_while_another_library_records_waits_for_the_end() {
    with_fake_driver!("memory_dropped_while_another_library_records_waits_for_the_end");
    let device = CudaDevice::open(0).expect("a device");
    // SAFETY: to the stand-in, streams are numbers.
    let stream = unsafe { Stream::from_raw(&device, ptr::without_provenance_mut(0x5c)) };
    let memory = DeviceMemory::alloc(&device, 512, &stream).expect("memory");
    let record: extern "C" fn(u64) = exported(c"fake_foreign_capture");
    record(0x5c);
    clear();
    drop(memory);
    free_parked();
    assert_eq!(count("cuMemFreeAsync"), 0, "a free can't be recorded");
    record(0);
    drop(DeviceMemory::alloc(&device, 1, &stream).expect("memory"));
    assert_eq!(count("cuMemFreeAsync"), 2);
}

#[test]
fn memory_of_others_is_known_to_the_driver() {
    with_fake_driver!("memory_of_others_is_known_to_the_driver");
    let device = CudaDevice::open(0).expect("a device");
    let address = 0x7000_0001_0008;
    assert_eq!(address_range(&device, address), Ok(Some((0x7000_0001_0000, 512))));
    assert_eq!(address_device(&device, address), Ok(Some(1)));
    let on_host = (&raw const address).addr() as u64 & 0xffff;
    assert_eq!(address_range(&device, on_host), Ok(None));
    assert_eq!(address_device(&device, on_host), Ok(None));
}
