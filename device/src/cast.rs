//! Conversion between float types: `y[i] = x[i]`, rounded to nearest, ties to even.
//!
//! One kernel a target type; the element type is the source's. From f64 to 16 bits the way leads over f32 rounded
//! to odd, so that there is one rounding in effect. Mapping: one thread an element at a time, several in flight.

use crate::math::{Float, Real};
use crate::num::{Bf16, F16, Num};
use crate::sweep::for_each_batch;

/// Elements that a thread keeps in flight.
const BATCH: u32 = 4;

/// Converts `total` elements.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `total` elements; they do not overlap.
#[inline(always)]
pub unsafe fn cast_each<E: Copy, T>(x: *mut E, y: *mut T, total: u64, block: i32, convert: impl Fn(E) -> T) {
    for_each_batch::<BATCH>(total, block as u32, |items| {
        // SAFETY: the index is below `total`; places past the end read the first element again.
        let load = |u: u32| unsafe { *x.add(items.item_or_first(u) as usize) };
        let loaded = [load(0), load(1), load(2), load(3)];
        let store = |u: u32, value: E| {
            if items.has(u) {
                // SAFETY: the element lies inside y and is this thread's.
                unsafe { *y.add(items.item(u) as usize) = convert(value) };
            }
        };
        store(0, loaded[0]);
        store(1, loaded[1]);
        store(2, loaded[2]);
        store(3, loaded[3]);
    });
}

/// Converts to IEEE halves.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn cast_to_f16<E: Float>(x: *mut E, y: *mut F16, b: i32, n: i32, block_size: i32) {
    // SAFETY: by this function's contract.
    unsafe { cast_each(x, y, b as u64 * n as u64, block_size, |x| F16::narrow(x.widen().to_odd_f32())) };
}

/// Converts to bfloat16.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn cast_to_bf16<E: Float>(x: *mut E, y: *mut Bf16, b: i32, n: i32, block_size: i32) {
    // SAFETY: by this function's contract.
    unsafe { cast_each(x, y, b as u64 * n as u64, block_size, |x| Bf16::narrow(x.widen().to_odd_f32())) };
}

/// Converts to f32.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn cast_to_f32<E: Float>(x: *mut E, y: *mut f32, b: i32, n: i32, block_size: i32) {
    // SAFETY: by this function's contract.
    unsafe { cast_each(x, y, b as u64 * n as u64, block_size, |x| x.widen().to_f32()) };
}

/// Converts to f64.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn cast_to_f64<E: Float>(x: *mut E, y: *mut f64, b: i32, n: i32, block_size: i32) {
    // SAFETY: by this function's contract.
    unsafe { cast_each(x, y, b as u64 * n as u64, block_size, |x| x.widen().to_f64()) };
}

entry! { float cast_to_f16 {
    args(x: *mut E, y: *mut F16, b: i32, n: i32)
    hidden()
    constants(block_size: i32)
} }

entry! { float cast_to_bf16 {
    args(x: *mut E, y: *mut Bf16, b: i32, n: i32)
    hidden()
    constants(block_size: i32)
} }

entry! { float cast_to_f32 {
    args(x: *mut E, y: *mut f32, b: i32, n: i32)
    hidden()
    constants(block_size: i32)
} }

entry! { float cast_to_f64 {
    args(x: *mut E, y: *mut f64, b: i32, n: i32)
    hidden()
    constants(block_size: i32)
} }
