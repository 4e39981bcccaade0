//! Measuring, and what launches make of it, by the calls that the driver gets.

use std::fs;
use std::path::Path;

use super::{clear, count, fail, names, with_fake_driver};
use crate::ops::{self, Conv2d, Workspace};
use crate::{Algorithm, Autotune, Conv2dForward, Device, LaunchOptions, Tensor};

type Forward = Conv2dForward<f32>;

/// A convolution of 4 images with 32 channels of 14 × 14 pixels: one launch by the kernel for small problems, two from
/// patches.
fn forward() -> Forward {
    Forward::recommended(3, 3, 1, 1, 1, 1, 1)
}

/// The stand-in's events are always as far apart, and so Auto is the answer: this one says another.
fn another(path: &Path, algorithm: &str) {
    let text = fs::read_to_string(path).expect("the file of answers");
    let line = text.lines().rfind(|line| !line.is_empty()).expect("an answer");
    let (body, _) = line.rsplit_once("\talgorithm=").expect("an algorithm");
    fs::write(path, crate::autotune::sealed(&format!("{body}\talgorithm={algorithm}"))).expect("write");
}

#[test]
fn kernels_are_measured_and_launched_by_the_answer() {
    with_fake_driver!("kernels_are_measured_and_launched_by_the_answer");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("answers");
    let plain = Device::cuda(0).expect("a device");
    let device = plain.autotune(&Autotune::open(&path));
    assert_eq!(plain, device);
    let (kernel, options) = (forward(), LaunchOptions::new());
    let zeros = |len| device.zeros::<f32>(len).expect("memory");
    let (x, w, y) = (zeros(4 * 32 * 196), zeros(32 * 32 * 9), zeros(4 * 32 * 196));
    let args = (x.as_ptr(), w.as_ptr(), y.as_ptr(), 4, 32, 32, 14, 14, 14, 14);
    let launched = |device: &Device, options: &LaunchOptions<'_>| {
        clear();
        // SAFETY: the buffers have the elements of their shapes, and the stand-in touches none.
        unsafe { device.launch(&kernel, args, options) }.expect("a launch");
        count("cuLaunchKernel")
    };
    // SAFETY: as above; buffers that are too short are refused.
    let tune = |device: &Device, args| unsafe { device.tune(&kernel, args, &options) };
    assert_eq!((launched(&plain, &options), launched(&device, &options)), (1, 1));
    clear();
    assert_eq!(tune(&device, args).expect("an answer"), Algorithm::Auto);
    let (launches, marks) = (count("cuLaunchKernel"), count("cuEventSynchronize"));
    assert!(marks >= 3 * 11 && launches > marks, "{launches} launches between {marks} pairs of events");
    // Nothing but launches lies between the first and the second event of a sample.
    let mut between = false;
    for name in names() {
        between ^= name == "cuEventRecord";
        assert!(!between || !name.starts_with("cuM"), "{name}");
    }
    clear();
    tune(&device, args).expect("an answer");
    assert_eq!(count("cuLaunchKernel"), 0, "known");
    another(&path, "patches");
    let device = plain.autotune(&Autotune::open(&path));
    assert_eq!(launched(&device, &options), 2, "a preparation and a product");
    assert_eq!(launched(&device, &options.algorithm(Algorithm::Small)), 1, "as asked for");
    assert_eq!(launched(&plain, &options), 1, "another handle");
    // One that does not fit is as none.
    another(&path, "pointwise");
    assert_eq!(launched(&plain.autotune(&Autotune::open(&path)), &options), 1);
    // Without an answer's place there is an answer all the same; with bad arguments there is none.
    clear();
    assert_eq!(tune(&plain, args).expect("an answer"), Algorithm::Auto);
    assert!(count("cuLaunchKernel") > 0);
    let mut short = args;
    short.3 = 5;
    clear();
    let error = tune(&device, short).expect_err("x is too short");
    assert!(matches!(error, crate::Error::Short { name: "x", .. }), "{error}");
    assert_eq!(count("cuLaunchKernel"), 0);
    // A failure while measuring is the caller's to see.
    let device = plain.autotune(&Autotune::in_memory());
    fail("cuEventSynchronize", 700);
    tune(&device, args).expect_err("a fault");
    fail("cuEventSynchronize", 0);
}

#[test]
fn operations_are_measured_and_run_by_the_answer() {
    with_fake_driver!("operations_are_measured_and_run_by_the_answer");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("answers");
    let plain = Device::cuda(0).expect("a device");
    let conv = Conv2d::new().pad([1, 1]);
    let bytes = |device: &Device| {
        ops::conv2d_workspace::<f32>(device, &conv, &[4, 32, 14, 14], &[32, 32, 3, 3]).expect("bytes")
    };
    let device = plain.autotune(&Autotune::open(&path));
    assert!(bytes(&plain) < bytes(&device), "as much as any algorithm has use for");
    let run = |device: &Device, tune: bool| {
        let stream = device.stream().expect("a stream");
        let tensor = |shape: &[usize]| Tensor::<f32>::zeros(&stream, shape).expect("a tensor");
        let (x, w, mut y) = (tensor(&[4, 32, 14, 14]), tensor(&[32, 32, 3, 3]), tensor(&[4, 32, 14, 14]));
        let mut workspace = Workspace::new(&stream, bytes(device)).expect("a workspace");
        if tune {
            let answer = ops::conv2d_tune(&stream, &conv, &x, &w, &mut y, &mut workspace);
            assert_eq!(answer.expect("an answer"), Algorithm::Auto);
        }
        clear();
        ops::conv2d_into(&stream, &conv, &x, &w, &mut y, &mut workspace).expect("launched");
        let once = count("cuLaunchKernel");
        drop(ops::conv2d(&stream, &conv, &x, &w).expect("launched"));
        assert_eq!(count("cuLaunchKernel"), 2 * once);
        once
    };
    assert_eq!((run(&plain, false), run(&device, true)), (1, 1));
    another(&path, "patches");
    assert_eq!((run(&plain, false), run(&plain.autotune(&Autotune::open(&path)), false)), (1, 2));
    // Gradients, each alone and both; and nothing is measured while work is recorded.
    let stream = device.stream().expect("a stream");
    let tensor = |shape: &[usize]| Tensor::<f32>::zeros(&stream, shape).expect("a tensor");
    let (x, w, dy) = (tensor(&[4, 32, 14, 14]), tensor(&[32, 32, 3, 3]), tensor(&[4, 32, 14, 14]));
    let (mut dx, mut dw) = (tensor(&[4, 32, 14, 14]), tensor(&[32, 32, 3, 3]));
    for (to_x, to_w) in [(true, true), (true, false), (false, true), (false, false)] {
        let (dx, dw) = (to_x.then(|| dx.view_mut()), to_w.then(|| dw.view_mut()));
        clear();
        let mut none = Workspace::none();
        let answer = ops::conv2d_backward_tune(&stream, &conv, &dy, &x, &w, dx, dw, &mut none);
        assert_eq!(answer.expect("an answer"), Algorithm::Auto);
        assert_eq!(count("cuLaunchKernel") > 0, to_x || to_w);
    }
    let mut y = tensor(&[4, 32, 14, 14]);
    let captured = stream
        .capture(|_| ops::conv2d_tune(&stream, &conv, &x, &w, &mut y, &mut Workspace::none()).map(drop));
    assert!(matches!(captured, Err(crate::Error::Capturing { .. })), "{captured:?}");
}
