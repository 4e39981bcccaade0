//! Channel concatenation: one input's rows copied into, or out of, the joined rows.
//!
//! Forward `y[r·c_total + off + c] = x[r·chunk_c + c]`, backward
//! `dx[r·chunk_c + c] = dy[r·c_total + off + c]`, for `c < chunk_c` and every row `r`. A launch serves one
//! input; the rest of `y` is left alone. For NCHW tensors a row is a batch item and a channel counts `H·W`
//! elements.
//!
//! Mapping: one thread a 16-byte vector, several in flight, as [`crate::rows`] says; a block covers `block_size`
//! consecutive elements of the chunk's rows laid end to end.

use crate::divmod::FastDivmod64;
use crate::num::Num;
use crate::rows::{Rows, gather_rows, scatter_rows};

/// Copies the rows of `x` into their columns of `y`.
///
/// # Safety
/// `x` is valid for reads of `rows · chunk_c` elements, `y` for writes of `rows · c_total`; they do not
/// overlap, and `chunk_offset + chunk_c ≤ c_total`. `chunk` divides by `chunk_c`, and `pieces` by the number of
/// pieces of a row's window of `y`, as [`scatter_rows`] says.
#[inline(always)]
pub unsafe fn channel_cat_forward<E: Num>(
    x: *mut E,
    y: *mut E,
    chunk_c: i32,
    c_total: i32,
    chunk_offset: i32,
    rows: i64,
    chunk: FastDivmod64,
    pieces: FastDivmod64,
    block_size: i32,
) {
    let _ = chunk_c;
    // SAFETY: row r's window starts at `r · c_total + chunk_offset` and ends inside the row.
    unsafe {
        let window = y.add(chunk_offset as usize);
        scatter_rows(x, window, rows as u64, chunk, c_total as u64, pieces, 0, block_size);
    }
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
    let source = Rows {
        from: dy,
        pitch: c_total as u64,
        shift: -chunk_offset,
        valid: c_total as u32,
        len: rows as u64 * c_total as u64,
        fill: E::narrow(E::ZERO),
    };
    // SAFETY: column c of dx is column `chunk_offset + c` of dy, which is inside the row.
    unsafe { gather_rows(source, dx, rows as u64 * chunk_c as u64, chunk, accumulate, block_size) };
}

entry! { copy channel_cat_forward {
    args(x: *mut E, y: *mut E, chunk_c: i32, c_total: i32, chunk_offset: i32)
    hidden(rows: i64, chunk: FastDivmod64, pieces: FastDivmod64)
    constants(block_size: i32)
} }

entry! { arithmetic channel_cat_backward {
    args(dy: *mut E, dx: *mut E, chunk_c: i32, c_total: i32, chunk_offset: i32)
    hidden(rows: i64, chunk: FastDivmod64, accumulate: u32)
    constants(block_size: i32)
} }
