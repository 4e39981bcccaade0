//! What happens when something goes wrong: devices that are not there, no memory left, and a GPU that faulted.

use std::process::Command;

use cotangent::{Device, Error, LaunchOptions, ReluForward, Tensor, ops};

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let error = Device::cuda(4096).expect_err("no machine has so many GPUs");
    println!("{error}");
    for name in ["cuda:4096", "cuda:x", "gpu", ""] {
        assert!(Device::named(name).is_err(), "{name:?}");
    }
}

#[test]
fn host_memory_that_is_not_there_is_an_error() {
    let stream = Device::cpu().stream().unwrap();
    let made = Tensor::<u8>::zeros(&stream, &[1 << 57]);
    assert!(matches!(made, Err(Error::OutOfMemory { bytes }) if bytes == 1 << 57), "{made:?}");
}

#[test]
fn device_memory_that_is_not_there_is_an_error_and_comes_back_after_it() {
    let Ok(device) = Device::cuda(0) else {
        println!("no GPU: running out of its memory is not tried");
        return;
    };
    let stream = device.stream().unwrap();
    let mut kept = Vec::new();
    let error = loop {
        match Tensor::<u8>::zeros(&stream, &[8 << 30]) {
            Ok(tensor) => kept.push(tensor),
            Err(error) => break error.to_string(),
        }
        assert!(kept.len() < 10_000, "a GPU has an end");
    };
    assert!(error.contains("out of device memory") && error.contains("8589934592"), "{error}");
    let most = kept.len();
    drop(kept);
    let again: Vec<_> = (0..most).map(|_| Tensor::<u8>::zeros(&stream, &[8 << 30])).collect();
    assert!(again.iter().all(Result::is_ok), "memory is returned after an error");
}

const CHILD: &str = "COTANGENT_TEST_FAULT";

#[test]
fn after_a_fault_every_call_says_so_and_nothing_hangs() {
    if std::env::var_os(CHILD).is_some() {
        return faulty_process();
    }
    if Device::cuda(0).is_err() {
        println!("no GPU: a fault of one is not tried");
        return;
    }
    // The fault spoils its process, so it gets one of its own.
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "after_a_fault_every_call_says_so_and_nothing_hangs", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}\n{}", String::from_utf8_lossy(&child.stderr));
    assert!(said.contains("ends in order"), "{said}");
}

fn faulty_process() {
    let device = Device::cuda(0).unwrap();
    let stream = device.stream().unwrap();
    let x = Tensor::<f32>::zeros(&stream, &[1000]).unwrap();
    let mut graph = {
        let mut y = Tensor::<f32>::zeros(&stream, &[1000]).unwrap();
        ops::relu_into(&stream, &x, &mut y).unwrap();
        stream.capture(|stream| ops::relu_into(stream, &x, &mut y)).unwrap()
    };
    let nowhere = std::ptr::without_provenance_mut::<f32>(1 << 12);
    let elsewhere = std::ptr::without_provenance_mut::<f32>(1 << 20);
    // SAFETY: none: the addresses are wrong on purpose. The GPU refuses the access, and this process knows.
    let launched = unsafe {
        device.launch(&ReluForward::<f32>::new(256), (nowhere, elsewhere, 1, 256), &LaunchOptions::new())
    };
    println!("the launch: {launched:?}");
    let first = device.synchronize().expect_err("the access faults");
    println!("first: {first}");
    let errors = [
        ops::relu(&stream, &x).map(drop).expect_err("a launch"),
        x.to_vec(&stream).map(drop).expect_err("a copy"),
        Tensor::<f32>::zeros(&stream, &[10]).map(drop).expect_err("an allocation"),
        graph.launch(&stream).expect_err("a replay"),
        stream.synchronize().expect_err("a wait"),
        device.stream().map(drop).expect_err("a stream"),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("is lost since") && text.contains("start it again"), "{text}");
    }
    drop((graph, x, stream, device));
    println!("ends in order");
}
