//! Views of the callers' host memory for the references.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use crate::element::{Element, Num};

/// The elements of an input.
///
/// # Safety
/// With `len > 0`, `pointer` is valid for reads of `len` elements that nothing writes meanwhile.
pub(super) unsafe fn input<'a, D>(pointer: *mut D, len: i64) -> &'a [D] {
    if len == 0 {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(pointer, len as usize) }
}

/// The elements of an output, which may hold nothing yet.
///
/// # Safety
/// With `len > 0`, `pointer` is valid for reads and writes of `len` elements that nothing else touches
/// meanwhile.
pub(super) unsafe fn output<'a, D>(pointer: *mut D, len: i64) -> &'a mut [MaybeUninit<D>] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts_mut(pointer.cast(), len as usize) }
}

/// Calls `body` for each plane of an output with the plane's number, over rayon's threads.
///
/// The body is behind a pointer so that rayon's machinery is compiled once an element type, not once a kernel.
pub(super) fn for_each_plane<D: Element>(
    output: &mut [MaybeUninit<D>],
    plane: usize,
    body: &(dyn Fn(usize, &mut [MaybeUninit<D>]) + Sync),
) {
    output.par_chunks_exact_mut(plane).enumerate().for_each(|(number, plane)| body(number, plane));
}

/// Elements that a thread takes at a time where an output has no planes.
const CHUNK: usize = 8192;

/// Calls `body` for each stretch of an output with the number of its first element, over rayon's threads.
pub(super) fn for_each_stretch<D: Element>(
    output: &mut [MaybeUninit<D>],
    body: &(dyn Fn(usize, &mut [MaybeUninit<D>]) + Sync),
) {
    output.par_chunks_mut(CHUNK).enumerate().for_each(|(number, stretch)| body(number * CHUNK, stretch));
}

/// Calls `body` for each number below `count`, over rayon's threads.
pub(super) fn for_each(count: usize, body: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(body);
}

/// Stores a sum, or adds it to what the caller's buffer holds.
///
/// # Safety
/// To accumulate, `to` is initialised.
pub(super) unsafe fn store<D: Num>(to: &mut MaybeUninit<D>, sum: D::Sum, accumulate: bool) {
    // SAFETY: by this function's contract.
    let sum = if accumulate { D::add(unsafe { to.assume_init() }.widen(), sum) } else { sum };
    to.write(D::narrow(sum));
}

/// Copies an element's bits, or adds it to what the caller's buffer holds.
///
/// # Safety
/// To accumulate, `to` is initialised.
pub(super) unsafe fn copy_or_add<D: Num>(to: &mut MaybeUninit<D>, value: D, accumulate: bool) {
    if accumulate {
        // SAFETY: by this function's contract.
        unsafe { store(to, value.widen(), true) };
    } else {
        to.write(value);
    }
}
