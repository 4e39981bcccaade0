//! How every element-wise kernel walks its output.

use crate::gpu::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

/// Calls `visit` once for each index below `total`, across the whole grid.
///
/// The range is cut into tiles of `tile` consecutive indices. A block takes tiles `blockIdx`,
/// `blockIdx + gridDim`, …, and its threads take neighbouring indices of a tile, so any grid and any block
/// size visit every index exactly once.
#[inline(always)]
pub fn for_each_index(total: u64, tile: i32, mut visit: impl FnMut(u64)) {
    let tile = tile as u64;
    let stride = u64::from(grid_dim_x()) * tile;
    let mut base = u64::from(block_idx_x()) * tile;
    while base < total {
        let end = if total - base < tile { total } else { base + tile };
        let mut index = base + u64::from(thread_idx_x());
        while index < end {
            visit(index);
            index += u64::from(block_dim_x());
        }
        base += stride;
    }
}
