//! Tests of the driver layer: what needs no driver here, what needs one with a stand-in (`tests/driver/`).

mod autotune;
mod context;
mod device;
mod graph;
mod launch;
mod memory;
mod module;
mod once_map;
mod ops;
mod ptx;

use std::ffi::{CStr, CString, c_char};

use super::{codes, lazy};

#[path = "../../../tests/driver/fake.rs"]
mod fake_driver;

use fake_driver::Driver;

/// Runs the rest of a test in a child process with the stand-in driver.
macro_rules! with_fake_driver {
    ($name:literal) => { with_fake_driver!($name, ) };
    ($name:literal, $($variable:literal = $value:literal),*) => {
        let name = concat!(module_path!(), "::", $name);
        let name = name.split_once("::").expect("the crate's name").1;
        if !super::fake_driver::in_child(name, super::Driver::Fake, &[$(($variable, $value)),*]) {
            return;
        }
    };
}
use with_fake_driver;

/// Something that the stand-in exports.
fn exported<T: Copy>(name: &CStr) -> T {
    let library = lazy::library().expect("the stand-in");
    // SAFETY: each use names a symbol of that type in fake_cuda.c.
    *unsafe { library.get::<T>(name.to_bytes_with_nul()) }.expect("a symbol of the stand-in")
}

/// All calls since the last [`clear`].
fn all_calls() -> Vec<String> {
    let log: extern "C" fn() -> *const c_char = exported(c"fake_log");
    // SAFETY: the log is text that ends in a zero.
    let text = unsafe { CStr::from_ptr(log()) }.to_string_lossy().into_owned();
    text.lines().map(str::to_owned).collect()
}

/// The calls since the last [`clear`], but for those that read or set what belongs to the thread.
fn calls() -> Vec<String> {
    let thread =
        ["cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode"];
    all_calls().into_iter().filter(|line| !thread.iter().any(|name| line.starts_with(name))).collect()
}

/// The names of the calls since the last [`clear`].
fn names() -> Vec<String> {
    calls().iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// How often a function was called since the last [`clear`].
fn count(name: &str) -> usize {
    names().iter().filter(|called| *called == name).count()
}

fn clear() {
    exported::<extern "C" fn()>(c"fake_clear")();
}

/// Lets a function answer `code` from now on; `*` is every function.
fn fail(name: &str, code: u32) {
    let name = CString::new(name).expect("a name");
    exported::<extern "C" fn(*const c_char, u32)>(c"fake_fail")(name.as_ptr(), code);
}

/// Leaves all work undone.
fn busy() {
    exported::<extern "C" fn(i32)>(c"fake_busy")(1);
}

/// How many primary contexts are retained.
fn retained() -> i32 {
    exported::<extern "C" fn() -> i32>(c"fake_retained")()
}

/// A module with one entry point: a pointer, a word and sixteen bytes.
const PTX: &str = "\
//
.version 7.1
.target sm_80
.address_size 64

.visible .entry scale(
	.param .u64 .ptr .align 1 scale_param_0,
	.param .u32 scale_param_1,
	.param .align 8 .b8 scale_param_2[16]
)
{
	ret;
}
";

#[test]
fn codes_are_in_order_and_serve_all_of_custs_errors() {
    let known: Vec<_> = (0..1000).filter_map(codes::find).collect();
    assert_eq!(known.len(), codes::KNOWN.len(), "codes rise, so that each is found");
    for error in [
        cust::error::CudaError::InvalidValue,
        cust::error::CudaError::NoDevice,
        cust::error::CudaError::InvalidPtx,
        cust::error::CudaError::IllegalAddress,
        cust::error::CudaError::NotSupported,
        cust::error::CudaError::UnknownError,
    ] {
        let known = codes::find(error as u32).unwrap_or_else(|| panic!("{} has no text", error as u32));
        assert!(!known.text.is_empty());
    }
    assert!(codes::find(1234).is_none());
}
