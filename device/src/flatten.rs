//! Flatten: a strided matrix of B rows and N columns copied into row-major order, and back.
//!
//! Forward `y[b·N + n] = x[b·stride_ib + n·stride_in]`, backward
//! `dx[b·stride_dxb + n·stride_dxn] = dy[b·N + n]`; elements of dx that no (b, n) reaches are untouched.
//!
//! Mapping: the matrix is cut into tiles of `block_b × block_n`, one tile a block at a time; threads take
//! neighbouring n of a tile.

use crate::divmod::{FastDivmod, FastDivmod64};
use crate::gpu::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
use crate::num::{Num, copy_or_add};

/// Calls `visit(i, j)` once for each element of the b × n matrix, tile by tile, across the whole grid.
///
/// `tiles` is the number of tiles, `tiles_n` of those side by side; a tile has fewer than 2³¹ elements.
#[inline(always)]
pub fn for_each_in_tiles(
    b: i32,
    n: i32,
    tiles: i64,
    tiles_n: FastDivmod64,
    block_b: i32,
    block_n: FastDivmod,
    mut visit: impl FnMut(u64, u64),
) {
    let area = block_b as u32 * block_n.divisor();
    let mut tile = u64::from(block_idx_x());
    while tile < tiles as u64 {
        let (tile_b, tile_n) = tiles_n.divmod(tile);
        let mut element = thread_idx_x();
        while element < area {
            let (row, column) = block_n.divmod(element);
            let i = tile_b * block_b as u64 + u64::from(row);
            let j = tile_n * u64::from(block_n.divisor()) + u64::from(column);
            if i < b as u64 && j < n as u64 {
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
/// `b · n` elements; they do not overlap. `tiles` and `tiles_n` count tiles as [`for_each_in_tiles`] says.
#[inline(always)]
pub unsafe fn flatten_forward<E: Num>(
    input: *mut E,
    output: *mut E,
    b: i32,
    n: i32,
    stride_ib: i32,
    stride_in: i32,
    tiles: i64,
    tiles_n: FastDivmod64,
    block_b: i32,
    block_n: FastDivmod,
) {
    for_each_in_tiles(b, n, tiles, tiles_n, block_b, block_n, |i, j| {
        let from = i * stride_ib as u64 + j * stride_in as u64;
        // SAFETY: `i < b` and `j < n`; the strides are not negative.
        unsafe { *output.add((i * n as u64 + j) as usize) = *input.add(from as usize) };
    });
}

/// Copies the row-major `dy` into the strided matrix `dx`, or adds it when `accumulate` is not zero.
///
/// # Safety
/// `dy` is valid for reads of `b · n` elements; `dx` for reads and writes at `i·stride_dxb + j·stride_dxn` for
/// all `i < b`, `j < n`, which are all different; they do not overlap. `tiles` and `tiles_n` count tiles as
/// [`for_each_in_tiles`] says.
#[inline(always)]
pub unsafe fn flatten_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    b: i32,
    n: i32,
    stride_dxb: i32,
    stride_dxn: i32,
    tiles: i64,
    tiles_n: FastDivmod64,
    accumulate: u32,
    block_b: i32,
    block_n: FastDivmod,
) {
    for_each_in_tiles(b, n, tiles, tiles_n, block_b, block_n, |i, j| {
        let to = i * stride_dxb as u64 + j * stride_dxn as u64;
        // SAFETY: `i < b` and `j < n`; the strides are not negative and send no two (i, j) to one element.
        unsafe { copy_or_add(dy.add((i * n as u64 + j) as usize), dx.add(to as usize), accumulate) };
    });
}

entry! { copy flatten_forward {
    args(input: *mut E, output: *mut E, b: i32, n: i32, stride_ib: i32, stride_in: i32)
    hidden(tiles: i64, tiles_n: FastDivmod64)
    constants(block_b: i32, block_n: FastDivmod)
} }

entry! { arithmetic flatten_backward {
    args(dy: *mut E, dx: *mut E, b: i32, n: i32, stride_dxb: i32, stride_dxn: i32)
    hidden(tiles: i64, tiles_n: FastDivmod64, accumulate: u32)
    constants(block_b: i32, block_n: FastDivmod)
} }
