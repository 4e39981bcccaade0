//! Operations on tensors, by the calls that the driver gets for them.

use super::{all_calls, calls, clear, count, with_fake_driver};
use crate::ops::{self, Conv2d, Workspace};
use crate::{Device, Stream, Tensor};

fn open() -> (Device, Stream, Stream) {
    let device = Device::cuda(0).expect("a device");
    let (one, other) = (device.stream().expect("a stream"), device.stream().expect("a stream"));
    (device, one, other)
}

fn handle(stream: &Stream) -> usize {
    stream.cuda().expect("a GPU's stream").raw().addr()
}

fn zeros(stream: &Stream, shape: &[usize]) -> Tensor<f32> {
    Tensor::zeros(stream, shape).expect("a tensor")
}

/// The place of the first call that begins and ends so.
fn place(start: &str, end: &str) -> Option<usize> {
    calls().iter().position(|call| call.starts_with(start) && call.ends_with(end))
}

#[test]
fn a_write_waits_for_what_the_writers_stream_reads() {
    with_fake_driver!("a_write_waits_for_what_the_writers_stream_reads");
    let (_device, one, other) = open();
    let (mut a, mut b, c) = (zeros(&one, &[64]), zeros(&one, &[64]), zeros(&other, &[64]));
    // The stream that wrote `a` reads it, which is in its order already.
    clear();
    ops::relu_into(&one, &a, &mut b).expect("launched");
    assert_eq!(count("cuEventRecord") + count("cuStreamWaitEvent"), 0, "{:?}", calls());
    // Another stream writes it, behind that.
    clear();
    ops::relu_into(&other, &c, &mut a).expect("launched");
    let recorded = place("cuEventRecord", &format!(" {:x}", handle(&one)));
    let waited = place(&format!("cuStreamWaitEvent {:x} ", handle(&other)), "");
    let launched = place("cuLaunchKernel", "");
    assert!(recorded.is_some() && recorded < waited && waited < launched, "{:?}", calls());
    // And once that has the order, it needs nothing more.
    clear();
    ops::relu_into(&other, &c, &mut a).expect("launched");
    assert_eq!(count("cuEventRecord") + count("cuStreamWaitEvent"), 0, "{:?}", calls());
}

#[test]
fn a_read_elsewhere_is_waited_for_by_the_writer() {
    with_fake_driver!("a_read_elsewhere_is_waited_for_by_the_writer");
    let (_device, one, other) = open();
    let (mut a, mut b, c) = (zeros(&one, &[64]), zeros(&other, &[64]), zeros(&one, &[64]));
    clear();
    ops::relu_into(&other, &a, &mut b).expect("launched");
    assert!(place(&format!("cuStreamWaitEvent {:x} ", handle(&other)), "").is_some(), "{:?}", calls());
    clear();
    ops::relu_into(&other, &a, &mut b).expect("launched");
    assert_eq!(count("cuStreamWaitEvent"), 0, "ordered already");
    clear();
    ops::relu_into(&one, &c, &mut a).expect("launched");
    assert!(place("cuEventRecord", &format!(" {:x}", handle(&other))).is_some(), "{:?}", calls());
    assert!(place(&format!("cuStreamWaitEvent {:x} ", handle(&one)), "").is_some(), "{:?}", calls());
}

#[test]
fn a_tensor_is_freed_behind_the_operations_of_every_stream() {
    with_fake_driver!("a_tensor_is_freed_behind_the_operations_of_every_stream");
    let (_device, one, other) = open();
    let (a, mut b) = (zeros(&one, &[64]), zeros(&other, &[64]));
    ops::relu_into(&other, &a, &mut b).expect("launched");
    let address = a.address();
    clear();
    drop(a);
    let recorded = place("cuEventRecord", &format!(" {:x}", handle(&other)));
    let waited = place(&format!("cuStreamWaitEvent {:x} ", handle(&one)), "");
    let freed = place(&format!("cuMemFreeAsync {address:x} {:x}", handle(&one)), "");
    assert!(recorded.is_some() && recorded < waited && waited < freed, "{:?}", calls());
}

#[test]
fn launches_of_one_plan_change_the_context_once() {
    with_fake_driver!("launches_of_one_plan_change_the_context_once");
    let (device, stream, _) = open();
    // Large enough for a launch that prepares the filter and the image, and one that multiplies.
    let conv = Conv2d::new().pad([1, 1]);
    let tensor = |shape: &[usize]| Tensor::<f32>::uninitialised(&stream, shape).expect("a tensor");
    let (x, w, mut y) = (tensor(&[128, 16, 16, 16]), tensor(&[32, 16, 3, 3]), tensor(&[128, 32, 16, 16]));
    let bytes = ops::conv2d_workspace::<f32>(&device, &conv, x.shape(), w.shape()).expect("bytes");
    let mut workspace = Workspace::new(&stream, bytes).expect("memory");
    for _ in 0..2 {
        clear();
        ops::conv2d_into(&stream, &conv, &x, &w, &mut y, &mut workspace).expect("launched");
    }
    assert_eq!(count("cuLaunchKernel"), 2, "{:?}", calls());
    let all = all_calls();
    let pushed = all.iter().filter(|call| call.starts_with("cuCtxPushCurrent_v2")).count();
    let popped = all.iter().filter(|call| call.starts_with("cuCtxPopCurrent_v2")).count();
    assert_eq!((pushed, popped), (1, 1), "{all:?}");
}

#[test]
fn operations_are_recorded_with_plans_that_are_kept() {
    with_fake_driver!("operations_are_recorded_with_plans_that_are_kept");
    let (device, stream, _) = open();
    let conv = Conv2d::new().pad([1, 1]);
    let tensor = |shape: &[usize]| Tensor::<f32>::uninitialised(&stream, shape).expect("a tensor");
    let (x, w, mut y, mut z) = (
        tensor(&[128, 16, 16, 16]),
        tensor(&[32, 16, 3, 3]),
        tensor(&[128, 32, 16, 16]),
        tensor(&[128, 32, 16, 16]),
    );
    let bytes = ops::conv2d_workspace::<f32>(&device, &conv, x.shape(), w.shape()).expect("bytes");
    let mut workspace = Workspace::new(&stream, bytes).expect("memory");
    let mut work = |stream: &Stream| ops::conv2d_into(stream, &conv, &x, &w, &mut y, &mut workspace);
    let unprepared = stream.capture(&mut work).map(drop);
    assert!(matches!(unprepared, Err(crate::Error::NotPrepared { .. })), "{unprepared:?}");
    clear();
    stream.prepare(&mut work).expect("prepared");
    assert_eq!(count("cuLaunchKernel"), 0, "a preparation runs nothing");
    let mut graph = stream.capture(&mut work).expect("a graph");
    assert_eq!(count("cuLaunchKernel"), 2, "{:?}", calls());
    graph.launch(&stream).expect("launched");
    assert_eq!((count("cuGraphLaunch"), count("cuLaunchKernel")), (1, 2), "{:?}", calls());
    // The recording holds what it was recorded with, whatever the plan serves next.
    ops::conv2d_into(&stream, &conv, &x, &w, &mut z, &mut workspace).expect("launched");
    let address = y.address();
    clear();
    drop(y);
    assert_eq!(place("cuMemFreeAsync", ""), None, "the graph needs it");
    drop(graph);
    assert!(place(&format!("cuMemFreeAsync {address:x} "), "").is_some(), "{:?}", calls());
}
