//! Launches: every argument arrives, mistakes are told apart before the driver sees them.

use std::ffi::c_void;

use super::super::{Arguments, CudaDevice, DriverError, Function, Shape, Stream, launch};
use super::{PTX, all_calls, calls, clear, count, exported, fail, with_fake_driver};

const SHAPE: Shape = Shape { grid_x: 0x7fff_ffff, block_x: 256, shared_bytes: 0 };

fn packed(function: &Function, shape: Shape, bytes: &[u8], stream: &Stream) -> Result<(), DriverError> {
    // SAFETY: the stand-in runs nothing.
    unsafe { launch(function, shape, Arguments::Packed(bytes), stream) }
}

/// The eleven arguments of the last launch.
fn seen() -> [u64; 11] {
    // SAFETY: the array is in the stand-in.
    unsafe { *exported::<*const [u64; 11]>(c"fake_launch") }
}

fn parameters() -> Vec<u8> {
    // SAFETY: both are in the stand-in.
    let (all, bytes) = unsafe {
        (
            *exported::<*const [u8; 256]>(c"fake_parameters"),
            *exported::<*const usize>(c"fake_parameter_bytes"),
        )
    };
    all[..bytes].to_vec()
}

#[test]
fn launch_passes_packed_parameters_and_shape() {
    with_fake_driver!("launch_passes_packed_parameters_and_shape");
    let device = CudaDevice::open(0).expect("a device");
    let function = device.function(PTX, "scale").expect("a function");
    let stream = Stream::new(&device).expect("a stream");
    let bytes: Vec<u8> = (0..32).collect();
    packed(&function, Shape { shared_bytes: 4096, ..SHAPE }, &bytes, &stream).expect("launched");
    let seen = seen();
    assert_eq!(seen[1..8], [0x7fff_ffff, 1, 1, 256, 1, 1, 4096]);
    assert_eq!(seen[8], stream.raw().addr() as u64);
    assert_eq!(seen[9], 0, "no separate parameters");
    assert_eq!(parameters(), bytes);
}

#[test]
fn launch_passes_separate_parameters() {
    with_fake_driver!("launch_passes_separate_parameters");
    let device = CudaDevice::open(0).expect("a device");
    let function = device.function(PTX, "scale").expect("a function");
    let stream = Stream::new(&device).expect("a stream");
    let (pointer, word, rest) = (0x1234_5678_9abc_def0_u64, 5_u32, [0_u8; 16]);
    let each: [*const c_void; 3] =
        [(&raw const pointer).cast(), (&raw const word).cast(), (&raw const rest).cast()];
    // SAFETY: the stand-in runs nothing.
    unsafe { launch(&function, SHAPE, Arguments::Each(&each), &stream) }.expect("launched");
    assert_eq!(parameters(), pointer.to_ne_bytes());
    assert_eq!(seen()[10], 0, "no packed parameters");
}

#[test]
fn launch_on_another_librarys_stream_does_not_destroy_it() {
    with_fake_driver!("launch_on_another_librarys_stream_does_not_destroy_it");
    let device = CudaDevice::open(0).expect("a device");
    let function = device.function(PTX, "scale").expect("a function");
    for handle in [0, 0xbeef] {
        // SAFETY: to the stand-in, streams are numbers.
        let stream = unsafe { Stream::from_raw(&device, std::ptr::without_provenance_mut(handle)) };
        packed(&function, SHAPE, &[0; 32], &stream).expect("launched");
        assert_eq!(seen()[8], handle as u64);
    }
    assert_eq!(count("cuStreamDestroy_v2"), 0);
}

#[test]
fn launch_refuses_parameters_that_do_not_fit() {
    with_fake_driver!("launch_refuses_parameters_that_do_not_fit");
    let device = CudaDevice::open(0).expect("a device");
    let function = device.function(PTX, "scale").expect("a function");
    let stream = Stream::new(&device).expect("a stream");
    let error = packed(&function, SHAPE, &[0; 28], &stream).expect_err("too few bytes").to_string();
    assert_eq!(error, "scale takes 32 bytes of parameters, but was given 28");
    // SAFETY: refused before the pointers are looked at.
    let error =
        unsafe { launch(&function, SHAPE, Arguments::Each(&[]), &stream) }.expect_err("none").to_string();
    assert_eq!(error, "scale takes 3 parameters, but was given 0");
    let other = CudaDevice::open(1).expect("a device");
    let other_stream = Stream::new(&other).expect("a stream");
    let error = packed(&function, SHAPE, &[0; 32], &other_stream).expect_err("another device's stream");
    assert!(matches!(error, DriverError::OtherDevice { has: 1, needs: 0, .. }), "{error}");
    assert_eq!(count("cuLaunchKernel"), 0);
}

#[test]
fn launch_asks_once_for_more_shared_memory() {
    with_fake_driver!("launch_asks_once_for_more_shared_memory");
    let device = CudaDevice::open(0).expect("a device");
    let function = device.function(PTX, "scale").expect("a function");
    let stream = Stream::new(&device).expect("a stream");
    clear();
    // The function has 1 KiB of its own.
    packed(&function, Shape { shared_bytes: 47 << 10, ..SHAPE }, &[0; 32], &stream).expect("launched");
    assert_eq!(count("cuFuncSetAttribute"), 0);
    for kib in [48, 64, 200] {
        packed(&function, Shape { shared_bytes: kib << 10, ..SHAPE }, &[0; 32], &stream).expect("launched");
    }
    let asked: Vec<_> = calls().into_iter().filter(|call| call.starts_with("cuFuncSetAttribute")).collect();
    assert_eq!(asked, [format!("cuFuncSetAttribute 8 {:x}", 226 << 10)], "once, for all there is");
}

#[test]
fn launch_that_the_driver_refuses_names_its_numbers() {
    with_fake_driver!("launch_that_the_driver_refuses_names_its_numbers");
    let device = CudaDevice::open(0).expect("a device");
    let function = device.function(PTX, "scale").expect("a function");
    let stream = Stream::new(&device).expect("a stream");
    fail("cuLaunchKernel", 701);
    let shape = Shape { grid_x: 3, block_x: 2048, shared_bytes: 5 };
    let error = packed(&function, shape, &[0; 32], &stream).expect_err("refused").to_string();
    assert_eq!(
        error,
        "launching scale with 3 blocks of 2048 threads (at most 1024) and 5 bytes of dynamic shared memory (at \
         most 231424): cuLaunchKernel failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): the launch needs more \
         registers, threads or shared memory than the device has"
    );
}

#[test]
fn launch_makes_two_calls_where_the_context_is_bound_and_four_elsewhere() {
    with_fake_driver!("launch_makes_two_calls_where_the_context_is_bound_and_four_elsewhere");
    let device = CudaDevice::open(0).expect("a device");
    let function = device.function(PTX, "scale").expect("a function");
    let stream = Stream::new(&device).expect("a stream");
    for calls in [4, 2] {
        clear();
        packed(&function, SHAPE, &[0; 32], &stream).expect("launched");
        assert_eq!(all_calls().len(), calls, "{:?}", all_calls());
        device.make_current().expect("bound");
    }
}
