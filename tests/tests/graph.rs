//! Recorded work: what it computes, what it keeps alive, and how a recording ends that cannot go on.

use cotangent::ops::{self, Beta};
use cotangent::{Device, Error, Stream, Tensor, TensorMut, TensorRef};

fn streams() -> Vec<Stream> {
    let gpu = Device::cuda(0).into_iter();
    std::iter::once(Device::cpu()).chain(gpu).map(|device| device.stream().expect("a stream")).collect()
}

fn filled(stream: &Stream, value: f32, len: usize) -> Tensor<f32> {
    Tensor::from_slice(stream, &vec![value; len], &[len]).expect("a tensor")
}

#[test]
fn a_replay_computes_with_what_its_tensors_hold_then() {
    for stream in streams() {
        let (mut x, dy) = (filled(&stream, 1.0, 300), filled(&stream, 2.0, 300));
        let (mut y, mut sum) = (filled(&stream, 0.0, 300), filled(&stream, 0.0, 300));
        let mut work = |stream: &Stream| {
            ops::relu_into(stream, &x, &mut y)?;
            ops::relu_backward_into(stream, &dy, &y, &mut sum, Beta::Accumulate)
        };
        stream.prepare(&mut work).unwrap();
        let mut graph = stream.capture(&mut work).unwrap();
        assert_eq!(graph.nodes(), 2);
        assert_eq!(sum.to_vec(&stream).unwrap(), [0.0; 300], "neither preparing nor recording runs anything");
        for replay in 1..=3 {
            graph.launch(&stream).unwrap();
            assert_eq!(sum.to_vec(&stream).unwrap(), [2.0 * replay as f32; 300]);
        }
        x.copy_from_slice(&stream, &[-1.0; 300]).unwrap();
        graph.launch(&stream).unwrap();
        assert_eq!(y.to_vec(&stream).unwrap(), [0.0; 300]);
        assert_eq!(sum.to_vec(&stream).unwrap(), [6.0; 300]);
        // On another stream, too.
        x.copy_from_slice(&stream, &[1.0; 300]).unwrap();
        let other = stream.device().stream().unwrap();
        graph.launch(&other).unwrap();
        assert_eq!(sum.to_vec(&stream).unwrap(), [8.0; 300]);
    }
}

#[test]
fn a_graph_keeps_its_tensors_alive() {
    for stream in streams() {
        let mut y = filled(&stream, 0.0, 100);
        let mut graph = {
            let x = filled(&stream, 5.0, 100);
            let mut work = |stream: &Stream| {
                // Memory that is got and dropped while it is recorded.
                let middle = ops::relu(stream, &x)?;
                ops::relu_into(stream, &middle, &mut y)
            };
            stream.prepare(&mut work).unwrap();
            stream.capture(&mut work).unwrap()
        };
        let others: Vec<_> = (0..20).map(|i| filled(&stream, i as f32, 100)).collect();
        graph.launch(&stream).unwrap();
        assert_eq!(y.to_vec(&stream).unwrap(), [5.0; 100]);
        drop(graph);
        drop(others);
        assert_eq!(y.to_vec(&stream).unwrap(), [5.0; 100]);
    }
}

#[test]
fn an_unprepared_operation_ends_the_recording() {
    for stream in streams() {
        // Pads that no other test uses, so that the module is new.
        let x = filled(&stream, 1.0, 64);
        let captured = stream.capture(|stream| ops::constant_pad1d(stream, &x, [29, 31], 0.0).map(drop));
        if stream.device().is_gpu() {
            assert!(matches!(captured, Err(Error::NotPrepared { .. })), "{captured:?}");
        } else {
            // The CPU has nothing to load.
            assert!(captured.is_ok(), "{captured:?}");
        }
        assert_eq!(ops::relu(&stream, &x).unwrap().to_vec(&stream).unwrap(), [1.0; 64]);
    }
}

#[test]
fn what_cannot_be_recorded_ends_the_recording_and_nothing_else() {
    for stream in streams() {
        let mut x = filled(&stream, 1.0, 8);
        let mut y = filled(&stream, 0.0, 8);
        ops::relu_into(&stream, &x, &mut y).unwrap();

        let failed = stream.capture(|stream| x.to_vec(stream).map(drop));
        assert!(matches!(failed, Err(Error::Capturing { .. })), "{failed:?}");
        let failed = stream.capture(|stream| x.copy_from_slice(stream, &[2.0; 8]));
        assert!(matches!(failed, Err(Error::Capturing { .. })), "{failed:?}");
        let failed = stream.capture(Stream::synchronize);
        assert!(matches!(failed, Err(Error::Capturing { .. })), "{failed:?}");
        let failed = stream.capture(|stream| stream.capture(|_| Ok(())).map(drop));
        assert!(matches!(failed, Err(Error::Capturing { .. })), "{failed:?}");
        let failed = stream.capture(|stream| ops::relu_into(stream, &x, &mut filled_elsewhere(8)));
        assert!(failed.is_err(), "{failed:?}");

        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            stream.capture(|_| panic!("in the closure"))
        }));
        assert!(panicked.is_err());
        assert_eq!(ops::relu(&stream, &x).unwrap().to_vec(&stream).unwrap(), [1.0; 8]);
        let mut graph = stream.capture(|stream| ops::relu_into(stream, &x, &mut y)).unwrap();
        graph.launch(&stream).unwrap();
        assert_eq!(y.to_vec(&stream).unwrap(), [1.0; 8]);
    }
}

/// A tensor of another device than any GPU's, or of another shape on the CPU.
fn filled_elsewhere(len: usize) -> Tensor<f32> {
    let cpu = Device::cpu().stream().expect("a stream");
    filled(&cpu, 0.0, len + 1)
}

#[test]
fn a_closure_that_hides_a_failure_gets_no_graph() {
    let stream = Device::cpu().stream().unwrap();
    let host = [1.0_f32; 4];
    let mut y = filled(&stream, 0.0, 4);
    let captured = stream.capture(|stream| {
        let x = TensorRef::from_slice(&host, &[4])?;
        let _ = ops::relu_into(stream, x, &mut y);
        Ok(())
    });
    assert!(matches!(captured, Err(Error::CaptureFailed(_))), "{captured:?}");
}

#[test]
fn borrowed_memory_is_not_recorded() {
    let stream = Device::cpu().stream().unwrap();
    let (x, mut y) = (filled(&stream, 1.0, 4), [0.0_f32; 4]);
    let captured = stream.capture(|stream| {
        let y = TensorMut::from_slice(&mut y, &[4])?;
        ops::relu_into(stream, &x, y)
    });
    assert!(matches!(captured, Err(Error::Borrowed { .. })), "{captured:?}");
}

#[test]
fn a_replay_stays_out_of_memory_that_was_given_away() {
    let stream = Device::cpu().stream().unwrap();
    let (x, mut y) = (filled(&stream, 1.0, 4), filled(&stream, 0.0, 4));
    let mut graph = stream.capture(|stream| ops::relu_into(stream, &x, &mut y)).unwrap();
    let managed = y.into_dlpack(&stream).unwrap();
    let launched = graph.launch(&stream);
    assert!(matches!(launched, Err(Error::InUse { .. })), "{launched:?}");
    // SAFETY: the structure was just made, and is not used any more.
    unsafe { ((*managed).deleter.expect("ours has one"))(managed) };
    graph.launch(&stream).unwrap();
}

#[test]
fn graphs_know_their_device() {
    let cpu = Device::cpu().stream().unwrap();
    let Ok(gpu) = Device::cuda(0) else {
        println!("no GPU: mixing a graph and a stream of two devices is not tried");
        return;
    };
    let mut graph = cpu.capture(|_| Ok(())).unwrap();
    let launched = graph.launch(&gpu.stream().unwrap());
    assert!(matches!(launched, Err(Error::OtherDevice { .. })), "{launched:?}");
}
