//! How kernels walk what they compute.

use crate::gpu::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

/// Items of one tile that a thread takes together: item `u` lies `u` steps behind the first.
///
/// Places inside a tile have 32 bits, so that the loop and its bounds cost one instruction each.
#[derive(Clone, Copy)]
pub struct Batch {
    /// The tile's first item.
    base: u64,
    /// The thread's first item, counted from there.
    offset: u32,
    /// Items from one to the next.
    pub step: u32,
    /// Items of the tile.
    limit: u32,
}

impl Batch {
    /// Item `u`, where the tile has it.
    #[inline(always)]
    #[must_use]
    pub fn item(&self, u: u32) -> u64 {
        self.base + u64::from(self.offset + u * self.step)
    }

    /// Whether the tile has item `u`; it has the first.
    #[inline(always)]
    #[must_use]
    pub fn has(&self, u: u32) -> bool {
        u == 0 || self.offset + u * self.step < self.limit
    }

    /// Item `u`, or the first where the tile does not have it, so that a load needs no branch.
    #[inline(always)]
    #[must_use]
    pub fn item_or_first(&self, u: u32) -> u64 {
        self.base + u64::from(if self.has(u) { self.offset + u * self.step } else { self.offset })
    }
}

/// Calls `visit` with batches of `BATCH` places, whose items cover every item below `total` once, across the
/// whole grid.
///
/// The range is cut into tiles of `tile` consecutive items, fewer than 2³¹. A block takes tiles `blockIdx`,
/// `blockIdx + gridDim`, …, and its threads take neighbouring items of a tile, so any grid and any block size
/// are right. A thread's batch lies a block's width apart, so that its loads can be in flight together while
/// a warp's stay side by side.
#[inline(always)]
pub fn for_each_batch<const BATCH: u32>(total: u64, tile: u32, mut visit: impl FnMut(Batch)) {
    let step = block_dim_x();
    let stride = u64::from(grid_dim_x()) * u64::from(tile);
    let mut base = u64::from(block_idx_x()) * u64::from(tile);
    while base < total {
        let left = total - base;
        let limit = if left < u64::from(tile) { left as u32 } else { tile };
        let mut offset = thread_idx_x();
        while offset < limit {
            visit(Batch { base, offset, step, limit });
            offset += BATCH * step;
        }
        base += stride;
    }
}

/// Calls `visit` once for each index below `total`, across the whole grid, in tiles of `tile` indices.
#[inline(always)]
pub fn for_each_index(total: u64, tile: i32, mut visit: impl FnMut(u64)) {
    for_each_batch::<1>(total, tile as u32, |batch| visit(batch.item(0)));
}

/// Whether the grid has a thread for each of so many items.
#[inline(always)]
#[must_use]
pub fn has_a_thread_each(total: u64) -> bool {
    total <= u64::from(grid_dim_x()) * u64::from(block_dim_x())
}
