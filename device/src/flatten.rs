//! Flatten: a strided matrix of B rows and N columns copied into row-major order, and back.
//!
//! Forward `y[b·N + n] = x[b·stride_ib + n·stride_in]`, backward
//! `dx[b·stride_dxb + n·stride_dxn] = dy[b·N + n]`; elements of dx that no (b, n) reaches are untouched.
//!
//! Mapping, chosen by the host from the strides (`way`): rows move as whole vectors, as one run where they lie end to
//! end ([`crate::run`]), else row by row ([`crate::rows`]); a column-major matrix is transposed
//! ([`crate::transpose`]); any other goes element by element, a tile of `block_b × block_n` a block at a time.

use crate::divmod::{FastDivmod, FastDivmod64};
use crate::gpu::{block_dim_x, block_idx_x, grid_dim_x, opaque, thread_idx_x};
use crate::num::{Num, copy_or_add};
use crate::rows::{Rows, gather_rows, scatter_rows};
use crate::run::copy_run;
use crate::transpose::{Tiles, Transpose, transpose_aligned, transpose_shared};

/// The elements of a row follow each other on the strided side.
pub const ROWS: u32 = 1;

/// The elements of a column follow each other on the strided side, and all rows lie on 16-byte boundaries.
pub const COLUMNS_ALIGNED: u32 = 2;

/// The elements of a column follow each other on the strided side.
pub const COLUMNS: u32 = 3;

/// The elements of a row follow each other on the strided side, and the rows lie end to end.
pub const RUN: u32 = 4;

/// Calls `visit(i, j)` once for each element of the b × n matrix, tile by tile, across the whole grid.
///
/// `tiles` is the number of tiles, `tiles_n` of those side by side; a tile has fewer than 2³¹ elements; `row` divides by
/// `n`. Of a tile that is larger than the matrix, only what lies in the matrix is walked.
#[inline(always)]
pub fn for_each_in_tiles(
    b: i32,
    n: i32,
    tiles: i64,
    tiles_n: FastDivmod64,
    row: FastDivmod64,
    block_b: i32,
    block_n: FastDivmod,
    mut visit: impl FnMut(u64, u64),
) {
    let across = if (n as u32) < block_n.divisor() { row.narrow() } else { block_n };
    let mut tile = u64::from(block_idx_x());
    while tile < tiles as u64 {
        let (tile_b, tile_n) = tiles_n.divmod(tile);
        let first_row = tile_b as u32 * block_b as u32;
        let rows_left = b as u32 - first_row;
        let rows = if rows_left < block_b as u32 { rows_left } else { block_b as u32 };
        let mut element = thread_idx_x();
        while element < rows * across.divisor() {
            let (row, column) = across.divmod(element);
            let i = u64::from(first_row + row);
            let j = tile_n * u64::from(block_n.divisor()) + u64::from(column);
            if j < n as u64 {
                visit(i, j);
            }
            element += block_dim_x();
        }
        tile += u64::from(grid_dim_x());
    }
}

/// Copies the strided matrix `input` into the row-major `output`.
///
/// # Safety
/// `input` is valid for reads at `i·stride_ib + j·stride_in` for all `i < b`, `j < n`; `output` for writes of
/// `b · n` elements; they do not overlap. `tiles` and `tiles_n` count tiles as [`for_each_in_tiles`] says; `row`
/// divides by `n`; `way` fits the strides and the alignment.
#[inline(always)]
pub unsafe fn flatten_forward<E: Num>(
    input: *mut E,
    output: *mut E,
    b: i32,
    n: i32,
    stride_ib: i32,
    stride_in: i32,
    way: u32,
    tiles: i64,
    tiles_n: FastDivmod64,
    row: FastDivmod64,
    block_b: i32,
    block_n: FastDivmod,
) {
    let total = b as u64 * n as u64;
    let block = block_b as u32 * block_n.divisor();
    // SAFETY: by this function's contract; `way` is the same for all threads.
    unsafe {
        // First, and by itself: a small copy waits for every instruction before its load.
        if opaque(way) == RUN {
            copy_run(input, output, total, block as i32);
            return;
        }
        match way {
            ROWS => {
                let (pitch, valid) = (stride_ib as u64, n as u32);
                let len = (b as u64 - 1) * pitch + n as u64;
                let source = Rows { from: input, pitch, shift: 0, valid, len, fill: E::narrow(E::ZERO) };
                gather_rows(source, output, total, row, 0, block as i32);
            }
            COLUMNS_ALIGNED | COLUMNS => {
                let (from_pitch, to_pitch) = (stride_in as u64, n as u64);
                let (p, q) = (n as u64, b as u64);
                let matrix = Transpose { from: input, from_pitch, to: output, to_pitch, p, q };
                let (tile_p, tile_q) = (block_n.divisor(), block_b as u32);
                // Tiles are counted along n first, which is down the source here.
                let tiles =
                    Tiles { count: tiles as u64, side_by_side: tiles_n, tile_p, tile_q, p_first: true };
                transpose(matrix, tiles, way);
            }
            _ => for_each_in_tiles(b, n, tiles, tiles_n, row, block_b, block_n, |i, j| {
                let from = i * stride_ib as u64 + j * stride_in as u64;
                *output.add((i * n as u64 + j) as usize) = *input.add(from as usize);
            }),
        }
    }
}

/// Copies the row-major `dy` into the strided matrix `dx`, or adds it when `accumulate` is not zero.
///
/// # Safety
/// `dy` is valid for reads of `b · n` elements; `dx` for reads and writes at `i·stride_dxb + j·stride_dxn` for
/// all `i < b`, `j < n`, which are all different; they do not overlap. `tiles` and `tiles_n` count tiles as
/// [`for_each_in_tiles`] says; `row` divides by `n`, `pieces` by the
/// number of pieces of a row of dx, as [`scatter_rows`] says; `way` fits the strides, the alignment and
/// `accumulate`.
#[inline(always)]
pub unsafe fn flatten_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    b: i32,
    n: i32,
    stride_dxb: i32,
    stride_dxn: i32,
    way: u32,
    tiles: i64,
    tiles_n: FastDivmod64,
    row: FastDivmod64,
    pieces: FastDivmod64,
    accumulate: u32,
    block_b: i32,
    block_n: FastDivmod,
) {
    let block = block_b as u32 * block_n.divisor();
    // SAFETY: by this function's contract; `way` is the same for all threads.
    unsafe {
        // First, and by itself: a small copy waits for every instruction before its load.
        if opaque(way) == RUN {
            copy_run(dy, dx, b as u64 * n as u64, block as i32);
            return;
        }
        match way {
            ROWS => {
                let pitch = stride_dxb as u64;
                scatter_rows(dy, dx, b as u64, row, pitch, pieces, accumulate, block as i32);
            }
            COLUMNS_ALIGNED | COLUMNS => {
                let (from_pitch, to_pitch) = (n as u64, stride_dxn as u64);
                let (p, q) = (b as u64, n as u64);
                let matrix = Transpose { from: dy, from_pitch, to: dx, to_pitch, p, q };
                let (tile_p, tile_q) = (block_b as u32, block_n.divisor());
                let tiles =
                    Tiles { count: tiles as u64, side_by_side: tiles_n, tile_p, tile_q, p_first: false };
                transpose(matrix, tiles, way);
            }
            _ => for_each_in_tiles(b, n, tiles, tiles_n, row, block_b, block_n, |i, j| {
                let to = i * stride_dxb as u64 + j * stride_dxn as u64;
                copy_or_add(dy.add((i * n as u64 + j) as usize), dx.add(to as usize), accumulate);
            }),
        }
    }
}

/// Transposes by whole vectors, or through shared memory.
///
/// # Safety
/// As for the two; `way` is the same for all threads.
#[inline(always)]
pub unsafe fn transpose<E: Num>(matrix: Transpose<E>, tiles: Tiles, way: u32) {
    // SAFETY: by this function's contract.
    unsafe {
        if way == COLUMNS_ALIGNED {
            transpose_aligned(matrix, tiles);
        } else {
            transpose_shared(matrix, tiles);
        }
    }
}

entry! { copy flatten_forward {
    args(input: *mut E, output: *mut E, b: i32, n: i32, stride_ib: i32, stride_in: i32)
    hidden(way: u32, tiles: i64, tiles_n: FastDivmod64, row: FastDivmod64)
    constants(block_b: i32, block_n: FastDivmod)
    barriers(2)
} }

entry! { arithmetic flatten_backward {
    args(dy: *mut E, dx: *mut E, b: i32, n: i32, stride_dxb: i32, stride_dxn: i32)
    hidden(
        way: u32, tiles: i64, tiles_n: FastDivmod64, row: FastDivmod64, pieces: FastDivmod64, accumulate: u32
    )
    constants(block_b: i32, block_n: FastDivmod)
    barriers(2)
} }
