//! The driver's library, `libcuda.so.1`, opened the first time that something of it is needed.

use std::error::Error;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::codes;

const LIBRARY: &str = "libcuda.so.1";

/// The library, or the loader's words if it can't be opened. It is never closed: trampolines and live objects
/// point into it.
pub(super) fn library() -> Result<&'static Library, &'static str> {
    static OPENED: OnceLock<Result<Library, String>> = OnceLock::new();
    OPENED
        .get_or_init(|| {
            // SAFETY: the driver's library may be loaded at any time; running its initialisers is what every
            // CUDA program does.
            unsafe { Library::open(Some(LIBRARY), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| reason(&error))
        })
        .as_ref()
        .map_err(String::as_str)
}

/// The loader's words, which the error holds as its source.
fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| format!("{LIBRARY}: {error}"), ToString::to_string)
}

/// The driver's function of that name, or one that takes any arguments and answers with an error:
/// `CUDA_ERROR_NO_DEVICE` without a driver, `CUDA_ERROR_NOT_FOUND` where the driver lacks the function.
/// `cuGetErrorName` and `cuGetErrorString` fall back to our own table, since callers use their text unchecked.
pub(super) fn function(name: &CStr) -> *const c_void {
    let library = library();
    let symbol = library.ok().and_then(|library| {
        // SAFETY: the symbol is only used as an address here.
        unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) }.ok()
    });
    if let Some(symbol) = symbol {
        return symbol.as_raw_ptr().cast_const();
    }
    match name.to_bytes() {
        b"cuGetErrorName" => error_name as *const c_void,
        b"cuGetErrorString" => error_text as *const c_void,
        _ if library.is_ok() => not_found as *const c_void,
        _ => no_device as *const c_void,
    }
}

// The caller of the two functions below passes arguments that they don't declare. In the C calling
// conventions of x86_64 and aarch64 Linux the caller places and removes them, so they are simply not read.

extern "C" fn no_device() -> u32 {
    codes::NO_DEVICE
}

extern "C" fn not_found() -> u32 {
    codes::NOT_FOUND
}

unsafe extern "C" fn error_name(code: u32, out: *mut *const c_char) -> u32 {
    // SAFETY: the caller's contract is `give`'s.
    unsafe { give(codes::find(code).map(|known| known.name), out) }
}

unsafe extern "C" fn error_text(code: u32, out: *mut *const c_char) -> u32 {
    // SAFETY: the caller's contract is `give`'s.
    unsafe { give(codes::find(code).map(|known| known.text), out) }
}

/// Answers as the driver does: an unknown code gives a null string and `CUDA_ERROR_INVALID_VALUE`.
///
/// # Safety
/// `out` is null or valid for a write.
unsafe fn give(text: Option<&'static CStr>, out: *mut *const c_char) -> u32 {
    if out.is_null() {
        return codes::INVALID_VALUE;
    }
    // SAFETY: not null, so valid for a write by the contract.
    unsafe { out.write(text.map_or(std::ptr::null(), CStr::as_ptr)) };
    if text.is_some() { codes::SUCCESS } else { codes::INVALID_VALUE }
}
