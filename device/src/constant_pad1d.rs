//! Constant padding of the last dimension, `[B, C, L] -> [B, C, OL]` with `OL = L + left + right`.
//!
//! Forward `y[o] = x[o − left]` where that lies in `[0, L)`, else `value`; backward `dx[i] = dy[i + left]`
//! where that lies in `[0, OL)`, else zero: a negative pad crops, and what it cropped has no gradient.
//!
//! Mapping: one thread an output element; a block covers `block_ol` consecutive elements of the rows laid
//! end to end.

use crate::divmod::FastDivmod64;
use crate::num::{Num, copy_or_add, put};
use crate::sweep::for_each_index;

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
    for_each_index(b as u64 * c as u64 * ol as u64, block_ol, |index| {
        let (r, o) = row.divmod(index);
        let i = o as i64 - i64::from(pad_left);
        // SAFETY: `index < b · c · ol`; the read is inside its row of `l` elements.
        unsafe {
            let inside = i >= 0 && i < i64::from(l);
            *output.add(index as usize) =
                if inside { *input.add((r * l as u64 + i as u64) as usize) } else { value };
        }
    });
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
    for_each_index(b as u64 * c as u64 * l as u64, block_ol, |index| {
        let (r, i) = row.divmod(index);
        let o = i as i64 + i64::from(pad_left);
        // SAFETY: `index < b · c · l`; the read is inside its row of `ol` elements.
        unsafe {
            let to = dx.add(index as usize);
            if o >= 0 && o < i64::from(ol) {
                copy_or_add(dy.add((r * ol as u64 + o as u64) as usize), to, accumulate);
            } else if accumulate == 0 {
                put(to, E::ZERO, 0);
            }
        }
    });
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
