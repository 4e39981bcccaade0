//! Recording work in graphs, and what lives as long as they do.

use super::super::{Arguments, CudaDevice, DeviceMemory, Shape, Stream, launch};
use super::{PTX, calls, clear, count, names, with_fake_driver};

const SHAPE: Shape = Shape { grid_x: 1, block_x: 32, shared_bytes: 0 };

#[test]
fn graph_keeps_memory_and_modules_of_its_recording() {
    with_fake_driver!("graph_keeps_memory_and_modules_of_its_recording");
    let device = CudaDevice::open(0).expect("a device");
    let stream = Stream::new(&device).expect("a stream");
    let function = device.function(PTX, "scale").expect("a function");
    let capture = stream.begin_capture().expect("a recording");
    assert!(stream.is_capturing().expect("an answer"));
    let memory = DeviceMemory::alloc(&device, 512, &stream).expect("memory beside the recording");
    // SAFETY: the stand-in runs nothing.
    unsafe { launch(&function, SHAPE, Arguments::Packed(&[0; 32]), &stream) }.expect("recorded");
    clear();
    drop((memory, function, device));
    assert_eq!(count("cuMemFreeAsync") + count("cuModuleUnload"), 0, "the recording needs both");
    let mut graph = capture.end().expect("a graph");
    assert!(!stream.is_capturing().expect("an answer"));
    assert_eq!(graph.nodes(), 3);
    // SAFETY: as above.
    unsafe { graph.launch(&stream) }.expect("launched");
    assert_eq!(count("cuGraphLaunch"), 1);
    assert_eq!(count("cuMemFreeAsync") + count("cuModuleUnload"), 0, "the graph needs both");
    clear();
    drop(graph);
    let names = names();
    let place = |name: &str| names.iter().position(|called| called == name);
    assert_eq!(place("cuGraphExecDestroy"), Some(0));
    assert!(place("cuMemFreeAsync").is_some() && place("cuModuleUnload").is_some(), "{names:?}");
}

#[test]
fn graph_launched_elsewhere_keeps_its_memory_until_that_work_is_done() {
    with_fake_driver!("graph_launched_elsewhere_keeps_its_memory_until_that_work_is_done");
    let device = CudaDevice::open(0).expect("a device");
    let (home, other) = (Stream::new(&device).expect("a stream"), Stream::new(&device).expect("a stream"));
    let memory = DeviceMemory::alloc(&device, 512, &home).expect("memory");
    let capture = home.begin_capture().expect("a recording");
    drop(memory);
    let mut graph = capture.end().expect("a graph");
    // SAFETY: the stand-in runs nothing.
    unsafe { graph.launch(&other) }.expect("launched");
    clear();
    drop(graph);
    let other = format!(" {:x}", other.raw().addr());
    let recorded =
        calls().iter().position(|call| call.starts_with("cuEventRecord") && call.ends_with(&other));
    let freed = calls().iter().position(|call| call.starts_with("cuMemFreeAsync"));
    assert!(recorded.is_some() && recorded < freed, "{:?}", calls());
}

#[test]
fn graph_recording_that_is_dropped_ends_and_frees() {
    with_fake_driver!("graph_recording_that_is_dropped_ends_and_frees");
    let device = CudaDevice::open(0).expect("a device");
    let stream = Stream::new(&device).expect("a stream");
    let memory = DeviceMemory::alloc(&device, 512, &stream).expect("memory");
    let capture = stream.begin_capture().expect("a recording");
    assert!(stream.begin_capture().is_err(), "one recording at a time");
    drop(memory);
    clear();
    drop(capture);
    let names: Vec<_> = names().into_iter().filter(|name| name != "cuStreamIsCapturing").collect();
    assert_eq!(names, ["cuStreamEndCapture", "cuGraphDestroy", "cuMemFreeAsync", "cuEventDestroy_v2"]);
    assert!(!stream.is_capturing().expect("an answer"));
    stream.begin_capture().expect("another recording").end().expect("a graph");
}
