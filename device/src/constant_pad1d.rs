//! Constant padding of the last dimension, `[B, C, L] -> [B, C, OL]` with `OL = L + left + right`.
//!
//! Forward `y[o] = x[o − left]` where that lies in `[0, L)`, else `value`; backward `dx[i] = dy[i + left]`
//! where that lies in `[0, OL)`, else zero: a negative pad crops, and what it cropped has no gradient.
//!
//! Mapping: one thread a 16-byte vector, several in flight, as [`crate::rows`] says; a block covers `block_ol`
//! consecutive elements of the rows laid end to end.

use crate::divmod::FastDivmod64;
use crate::num::Num;
use crate::rows::{Rows, gather_rows};

/// Copies the rows of `input` between the pads and writes `value` into the pads.
///
/// # Safety
/// `input` is valid for reads of `b · c · l` elements, `output` for writes of `b · c · ol`; they do not
/// overlap, and `ol = l + pad_left + pad_right`. `row` divides by `ol`.
#[inline(always)]
pub unsafe fn constant_pad1d_forward<E: Num>(
    input: *mut E,
    output: *mut E,
    b: i32,
    c: i32,
    l: i32,
    ol: i32,
    value: E,
    row: FastDivmod64,
    pad_left: i32,
    pad_right: i32,
    block_ol: i32,
) {
    // The right pad is what is left of `ol`; it is a constant of the kernel all the same.
    let _ = pad_right;
    let planes = b as u64 * c as u64;
    let source = Rows {
        from: input,
        pitch: l as u64,
        shift: pad_left,
        valid: l as u32,
        len: planes * l as u64,
        fill: value,
    };
    // SAFETY: by this function's contract.
    unsafe { gather_rows(source, output, planes * ol as u64, row, 0, block_ol) };
}

/// Copies the gradient between the pads; elements that a negative pad cropped get zero.
///
/// # Safety
/// `dy` is valid for reads of `b · c · ol` elements, `dx` for reads and writes of `b · c · l`; they do not
/// overlap, and `ol = l + pad_left + pad_right`. `row` divides by `l`.
#[inline(always)]
pub unsafe fn constant_pad1d_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    b: i32,
    c: i32,
    l: i32,
    ol: i32,
    row: FastDivmod64,
    accumulate: u32,
    pad_left: i32,
    pad_right: i32,
    block_ol: i32,
) {
    let _ = pad_right;
    let planes = b as u64 * c as u64;
    let source = Rows {
        from: dy,
        pitch: ol as u64,
        shift: pad_left.wrapping_neg(),
        valid: ol as u32,
        len: planes * ol as u64,
        fill: E::narrow(E::ZERO),
    };
    // SAFETY: by this function's contract.
    unsafe { gather_rows(source, dx, planes * l as u64, row, accumulate, block_ol) };
}

entry! { copy constant_pad1d_forward {
    args(input: *mut E, output: *mut E, b: i32, c: i32, l: i32, ol: i32, value: E)
    hidden(row: FastDivmod64)
    constants(pad_left: i32, pad_right: i32, block_ol: i32)
} }

entry! { arithmetic constant_pad1d_backward {
    args(dy: *mut E, dx: *mut E, b: i32, c: i32, l: i32, ol: i32)
    hidden(row: FastDivmod64, accumulate: u32)
    constants(pad_left: i32, pad_right: i32, block_ol: i32)
} }
