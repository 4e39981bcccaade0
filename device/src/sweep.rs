//! How kernels walk what they compute.

use crate::gpu::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

/// Calls `visit(first, step, end)` so that the items `first`, `first + step`, … below `end`, `BATCH` of them
/// at most, cover every item below `total` once, across the whole grid.
///
/// The range is cut into tiles of `tile` consecutive items. A block takes tiles `blockIdx`,
/// `blockIdx + gridDim`, …, and its threads take neighbouring items of a tile, so any grid and any block size
/// are right. A thread's batch lies a block's width apart, so that its loads can be in flight together while
/// a warp's stay side by side.
#[inline(always)]
pub fn for_each_batch<const BATCH: u64>(total: u64, tile: u64, mut visit: impl FnMut(u64, u64, u64)) {
    let step = u64::from(block_dim_x());
    let stride = u64::from(grid_dim_x()) * tile;
    let mut base = u64::from(block_idx_x()) * tile;
    while base < total {
        let end = if total - base < tile { total } else { base + tile };
        let mut first = base + u64::from(thread_idx_x());
        while first < end {
            visit(first, step, end);
            first += BATCH * step;
        }
        base += stride;
    }
}

/// Calls `visit` once for each index below `total`, across the whole grid, in tiles of `tile` indices.
#[inline(always)]
pub fn for_each_index(total: u64, tile: i32, mut visit: impl FnMut(u64)) {
    for_each_batch::<1>(total, tile as u64, |index, _, _| visit(index));
}
