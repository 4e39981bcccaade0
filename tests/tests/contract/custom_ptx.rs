//! PTX of a caller's own: refused, before any device sees it, unless it is this kernel's module and complete.

use cotangent::{Conv2dForward, Device, Error, Kernel, LaunchOptions};

/// A kernel and arguments that would launch.
fn launch(ptx: &str) -> Error {
    let kernel = Conv2dForward::<f32>::new(1, 1, 1, 1, 0, 0, 1, 32);
    let device = Device::cpu();
    let [x, w, y] = [4, 1, 4].map(|len| device.zeros::<f32>(len).expect("memory"));
    let args = (x.as_ptr(), w.as_ptr(), y.as_ptr(), 1, 1, 1, 2, 2, 2, 2);
    // SAFETY: the buffers are as long as the extents say, and a CPU runs no PTX.
    unsafe { device.launch_ptx(&kernel, ptx, args, &LaunchOptions::new()) }.expect_err("a CPU runs no PTX")
}

fn complete() -> String {
    let kernel = Conv2dForward::<f32>::new(1, 1, 1, 1, 0, 0, 1, 32);
    let nowhere = |i: u64| (i << 40) as *mut f32;
    let args = (nowhere(1), nowhere(2), nowhere(3), 1, 1, 1, 2, 2, 2, 2);
    let launch = kernel.prepare(&args, &LaunchOptions::new()).expect("a good launch");
    launch.specialised_ptx().expect("constants for every hole")
}

#[track_caller]
fn refused(ptx: &str, part: &str) {
    match launch(ptx) {
        Error::Module { kernel: "conv2d_forward", problem } => {
            assert!(problem.contains(part), "{problem:?} does not say {part:?}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_complete_module_passes_the_checks() {
    // What is left is that a CPU cannot run it.
    let error = launch(&complete());
    assert!(matches!(error, Error::Device(_)), "{error}");
}

#[test]
fn a_half_specialised_module_is_refused_by_the_name_of_its_hole() {
    let kernel = Conv2dForward::<f32>::new(1, 1, 1, 1, 0, 0, 1, 32);
    let shipped = kernel.info().module("f32").expect("a module").ptx;
    refused(shipped, "__spec_");
    let half = shipped.replace("__spec_kh;", "1;").replace("__spec_kw;", "1;");
    assert_ne!(half, shipped);
    refused(&half, "__spec_");
    refused(&complete().replacen("mov.b32", "mov.b32 %r1, __spec_other;\nmov.b32", 1), "__spec_other");
}

#[test]
fn a_malformed_module_is_refused_by_what_it_lacks() {
    for directive in [".version", ".target", ".address_size"] {
        let lines = complete();
        let without: Vec<_> = lines.lines().filter(|line| !line.starts_with(directive)).collect();
        refused(&without.join("\n"), directive);
    }
    refused("", ".version");
    refused("not PTX at all", ".version");
}

#[test]
fn a_module_without_the_entry_point_is_refused_by_its_name() {
    let entry = "conv2d_forward_entry_point";
    refused(&complete().replace(entry, "other_entry_point"), entry);
    // A longer name is another name.
    refused(&complete().replace(entry, "conv2d_forward_entry_point_2"), entry);
}
