//! The driver's symbols as this crate defines them: what a program sees without a driver, before `cuInit`, and
//! beside other libraries that use the driver.
#![cfg(feature = "cuda")]

#[path = "driver/fake.rs"]
mod fake;

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Barrier;
use std::{env, mem, ptr, thread};

// The crate whose symbols these are; cust's functions link to them.
use cotangent as _;
use cust::error::CudaError;
use fake::{Driver, in_child};
use libloading::os::unix::{Library, Symbol};

// A raw result, since cust's enum does not have every value that a driver answers.
unsafe extern "C" {
    fn cuInit(flags: u32) -> u32;
    fn cuDriverGetVersion(version: *mut c_int) -> u32;
    fn cuGetErrorString(code: u32, text: *mut *const c_char) -> u32;
    fn cuGetErrorName(code: u32, text: *mut *const c_char) -> u32;
    fn cuMemPrefetchAsync(address: u64, bytes: usize, device: c_int, stream: *mut c_void) -> u32;
    fn cuLaunchKernel(
        function: *mut c_void,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: *mut c_void,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> u32;
    fn cuMemAdvise();
}

/// The signature of the stand-in's `cuMemAdvise`: arguments in every register and on the stack.
#[rustfmt::skip]
type Everything = unsafe extern "C" fn(
    u64, f64, u64, f64, u64, f64, u64, f64, u64, f64, u64, f64, u64, f64, u64, f64, f64,
) -> u32;

/// Runs `work` on eight threads at the same moment.
fn on_threads(work: impl Fn(u64) + Sync) {
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for index in 0..8 {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(index);
            });
        }
    });
}

/// Something that the test's own process has in the stand-in.
fn fake<T: Copy>(name: &CStr) -> T {
    // SAFETY: the library is loaded already; its initialisers do nothing.
    let library = unsafe { Library::new("libcuda.so.1") }.expect("the stand-in");
    // SAFETY: each use names a symbol of that type in fake_cuda.c.
    let value = *unsafe { library.get::<T>(name.to_bytes_with_nul()) }.expect("a symbol of the stand-in");
    mem::forget(library);
    value
}

#[test]
fn driver_calls_without_a_driver_answer_no_device() {
    if !in_child("driver_calls_without_a_driver_answer_no_device", Driver::None, &[]) {
        return;
    }
    on_threads(|_| {
        let mut version = -1;
        // SAFETY: `version` is valid for a write; the driver takes both calls at any time.
        unsafe {
            assert_eq!(cuDriverGetVersion(&raw mut version), 100);
            assert_eq!(cuInit(0), 100);
            assert_eq!(cuMemPrefetchAsync(0, 0, 0, ptr::null_mut()), 100);
        }
        assert_eq!(version, -1);
    });
    assert_eq!(cust::init(cust::CudaFlags::empty()), Err(CudaError::NoDevice));
    assert_eq!(cust::device::Device::num_devices(), Err(CudaError::NoDevice));
}

#[test]
fn driver_errors_without_a_driver_have_a_text() {
    if !in_child("driver_errors_without_a_driver_have_a_text", Driver::None, &[]) {
        return;
    }
    // cust's Display asks the driver for the text and follows the pointer that it gets.
    assert!(CudaError::NoDevice.to_string().contains("no CUDA device was found"), "{}", CudaError::NoDevice);
    assert!(CudaError::OutOfMemory.to_string().contains("out of memory"));
    assert!(CudaError::InvalidValue.source().is_none());
    let mut text = ptr::null();
    // SAFETY: `text` is valid for a write, and what it then points at ends in a zero.
    unsafe {
        assert_eq!(cuGetErrorName(719, &raw mut text), 0);
        assert_eq!(CStr::from_ptr(text), c"CUDA_ERROR_LAUNCH_FAILED");
        assert_eq!(cuGetErrorString(123_456, &raw mut text), 1);
        assert!(text.is_null());
        assert_eq!(cuGetErrorString(2, ptr::null_mut()), 1);
    }
}

#[test]
fn driver_first_calls_from_many_threads_keep_every_argument() {
    if !in_child("driver_first_calls_from_many_threads_keep_every_argument", Driver::Fake, &[]) {
        return;
    }
    // SAFETY: the stand-in's function of this name has that signature.
    let everything = unsafe { mem::transmute::<*const (), Everything>(cuMemAdvise as *const ()) };
    on_threads(|_| {
        let (i, f) = (|n: u64| 0x1111_1111_1111_1111 * n, |n: i32| f64::from(n) + 0.25);
        // SAFETY: the stand-in takes any values.
        #[rustfmt::skip]
        let answer = unsafe {
            everything(
                i(1), f(1), i(2), f(2), i(3), f(3), i(4), f(4), i(5), f(5), i(6), f(6), i(7), f(7), i(8), f(8), f(9),
            )
        };
        assert_eq!(answer, 77);
        // SAFETY: both arrays are in the stand-in, and every thread writes the same values.
        let (integers, floats) =
            unsafe { (*fake::<*const [u64; 8]>(c"fake_integers"), *fake::<*const [f64; 9]>(c"fake_floats")) };
        assert_eq!(integers, [1, 2, 3, 4, 5, 6, 7, 8].map(i));
        assert_eq!(floats.map(f64::to_bits), [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|n| f(n).to_bits()));
    });
}

#[test]
fn driver_first_launch_before_init_reaches_the_driver() {
    if !in_child("driver_first_launch_before_init_reaches_the_driver", Driver::Fake, &[]) {
        return;
    }
    let pointer = |value: usize| ptr::without_provenance_mut::<c_void>(value);
    // SAFETY: the stand-in takes any values and, before cuInit, looks at none.
    let answer = unsafe {
        cuLaunchKernel(
            pointer(0x1122_3344_5566_7788),
            0x8000_0001,
            2,
            3,
            4,
            5,
            6,
            7,
            pointer(8),
            pointer(9).cast(),
            pointer(0xfedc_ba98_7654_3210).cast(),
        )
    };
    assert_eq!(answer, 3, "the driver's own answer, CUDA_ERROR_NOT_INITIALIZED");
    // SAFETY: the array is in the stand-in.
    let seen = unsafe { *fake::<*const [u64; 11]>(c"fake_launch") };
    assert_eq!(seen, [0x1122_3344_5566_7788, 0x8000_0001, 2, 3, 4, 5, 6, 7, 8, 9, 0xfedc_ba98_7654_3210]);
}

#[test]
fn driver_version_before_init_is_the_drivers() {
    if !in_child("driver_version_before_init_is_the_drivers", Driver::Fake, &[("FAKE_VERSION", "12060")]) {
        return;
    }
    on_threads(|_| {
        let mut version = 0;
        // SAFETY: `version` is valid for a write.
        assert_eq!(unsafe { cuDriverGetVersion(&raw mut version) }, 0);
        assert_eq!(version, 12060);
    });
    let version = cust::CudaApiVersion::get().expect("a version");
    assert_eq!((version.major(), version.minor()), (12, 6));
}

#[test]
fn driver_without_a_function_answers_not_found() {
    if !in_child("driver_without_a_function_answers_not_found", Driver::Fake, &[]) {
        return;
    }
    // SAFETY: the stand-in lacks the function, so nothing looks at the arguments.
    on_threads(|_| assert_eq!(unsafe { cuMemPrefetchAsync(1, 2, 3, ptr::null_mut()) }, 500));
    // The driver's own text where it has one, ours where it lacks the function.
    let mut text = ptr::null();
    // SAFETY: `text` is valid for a write, and what it then points at ends in a zero.
    unsafe {
        assert_eq!(cuGetErrorString(2, &raw mut text), 0);
        assert_eq!(CStr::from_ptr(text), c"the fake's text");
        assert_eq!(cuGetErrorName(2, &raw mut text), 0);
        assert_eq!(CStr::from_ptr(text), c"CUDA_ERROR_OUT_OF_MEMORY");
    }
}

#[test]
fn driver_symbols_are_not_seen_by_other_libraries() {
    if !in_child("driver_symbols_are_not_seen_by_other_libraries", Driver::Fake, &[]) {
        return;
    }
    let folder = PathBuf::from(env::var_os(fake::FOLDER).expect("set in the child"));
    let path = folder.join("libother.so");
    let search = format!("-L{}", folder.display());
    fake::compile("other_library.c", &path, &[&search, "-l:libcuda.so.1"]);
    // SAFETY: the library's initialisers do nothing.
    let other = unsafe { Library::new(&path) }.expect("the other library");
    // SAFETY: the symbols have these types in other_library.c.
    let (address, version) = unsafe {
        (
            other.get::<extern "C" fn() -> *const c_void>(b"other_version_address\0").expect("a function"),
            other.get::<extern "C" fn() -> c_int>(b"other_version\0").expect("a function"),
        )
    };
    let real: *const c_void = {
        // SAFETY: loaded by the other library already.
        let driver = unsafe { Library::new("libcuda.so.1") }.expect("the stand-in");
        // SAFETY: the symbol is used as an address.
        let symbol = unsafe { driver.get::<*const c_void>(b"cuDriverGetVersion\0") }.expect("a function");
        symbol.as_raw_ptr().cast_const()
    };
    assert_eq!(address(), real, "the other library calls the driver itself");
    assert_ne!(address(), cuDriverGetVersion as *const c_void, "and not through this crate");
    assert_eq!(version(), 13000);
    // This test is linked with -rdynamic (build.rs), so that every symbol which is not hidden can be found here.
    // SAFETY: only addresses are looked up.
    unsafe {
        let this = Library::this();
        assert!(
            this.get::<*const c_void>(b"main\0").is_ok(),
            "the test must export its symbols to prove anything"
        );
        let found = this.get::<*const c_void>(b"cuDriverGetVersion\0").map(Symbol::as_raw_ptr);
        assert!(found.is_err(), "cuDriverGetVersion is exported at {found:?}");
    }
}

#[test]
fn driver_library_is_not_needed_at_load() {
    let output = Command::new("ldd").arg(env::current_exe().expect("the test's own path")).output();
    let output = output.unwrap_or_else(|error| panic!("this test needs `ldd` on the PATH: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("libc.so"), "ldd lists what the test needs: {text}");
    assert!(!text.contains("libcuda"), "{text}");
}
