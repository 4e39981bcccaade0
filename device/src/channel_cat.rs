//! Channel concatenation: one incopy_or_add's rows copied into, or out of, the joined rows.
//!
//! Forward `y[r·c_total + off + c] = x[r·chunk_c + c]`, backward
//! `dx[r·chunk_c + c] = dy[r·c_total + off + c]`, for `c < chunk_c` and every row `r`. A launch serves one
//! incopy_or_add; the rest of `y` is left alone. For NCHW tensors a row is a batch item and a channel counts `H·W`
//! elements.
//!
//! Mapping: one thread an element of the chunk; a block covers `block_size` consecutive elements of the
//! chunk's rows laid end to end.

use crate::divmod::FastDivmod64;
use crate::num::{Num, copy_or_add};
use crate::sweep::for_each_index;

/// Copies the rows of `x` into their columns of `y`.
///
/// # Safety
/// `x` is valid for reads of `rows · chunk_c` elements, `y` for writes of `rows · c_total`; they do not
/// overlap, and `chunk_offset + chunk_c ≤ c_total`. `chunk` divides by `chunk_c`.
#[inline(always)]
pub unsafe fn channel_cat_forward<E: Num>(
    x: *mut E,
    y: *mut E,
    chunk_c: i32,
    c_total: i32,
    chunk_offset: i32,
    rows: i64,
    chunk: FastDivmod64,
    block_size: i32,
) {
    for_each_index(rows as u64 * chunk_c as u64, block_size, |index| {
        let (row, c) = chunk.divmod(index);
        let to = row * c_total as u64 + chunk_offset as u64 + c;
        // SAFETY: `index < rows · chunk_c`, and `to < rows · c_total` since the chunk lies inside a row.
        unsafe { *y.add(to as usize) = *x.add(index as usize) };
    });
}

/// Copies the chunk's columns of `dy` into the rows of `dx`, or adds them when `accumulate` is not zero.
///
/// # Safety
/// `dy` is valid for reads of `rows · c_total` elements, `dx` for reads and writes of `rows · chunk_c`; they
/// do not overlap, and `chunk_offset + chunk_c ≤ c_total`. `chunk` divides by `chunk_c`.
#[inline(always)]
pub unsafe fn channel_cat_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    chunk_c: i32,
    c_total: i32,
    chunk_offset: i32,
    rows: i64,
    chunk: FastDivmod64,
    accumulate: u32,
    block_size: i32,
) {
    for_each_index(rows as u64 * chunk_c as u64, block_size, |index| {
        let (row, c) = chunk.divmod(index);
        let from = row * c_total as u64 + chunk_offset as u64 + c;
        // SAFETY: `index < rows · chunk_c`, and `from < rows · c_total` since the chunk lies inside a row.
        unsafe { copy_or_add(dy.add(from as usize), dx.add(index as usize), accumulate) };
    });
}

entry! { copy channel_cat_forward {
    args(x: *mut E, y: *mut E, chunk_c: i32, c_total: i32, chunk_offset: i32)
    hidden(rows: i64, chunk: FastDivmod64)
    constants(block_size: i32)
} }

entry! { arithmetic channel_cat_backward {
    args(dy: *mut E, dx: *mut E, chunk_c: i32, c_total: i32, chunk_offset: i32)
    hidden(rows: i64, chunk: FastDivmod64, accumulate: u32)
    constants(block_size: i32)
} }
