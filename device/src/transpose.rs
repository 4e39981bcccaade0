//! A matrix transposed: `to[q·to_pitch + p] = from[p·from_pitch + q]`.
//!
//! Where rows lie on 16-byte boundaries on both sides, a thread transposes a square of whole vectors in its
//! registers: n vectors of n elements in, as many out, with no shared memory and no barrier. A warp's squares
//! are 4 along a source row and 8 along a destination row, so that it reads runs of 64 bytes and writes runs
//! of 128. Elsewhere a block passes tiles of 64 × 64 elements through shared memory, whose rows are padded so
//! that columns fall into different banks.

use crate::divmod::FastDivmod64;
use crate::gpu::{
    block_dim_x, block_idx_x, grid_dim_x, load_if, load16_if, pick_bytes, shared_load, shared_store,
    store_if, store16_if, sync_threads, thread_idx_x,
};
use crate::vector::lanes;

/// A transposition's two sides, in elements.
#[derive(Clone, Copy)]
pub struct Transpose<E> {
    /// The source: `p` rows of `q` elements.
    pub from: *const E,
    /// Elements between rows of the source.
    pub from_pitch: u64,
    /// The destination: `q` rows of `p` elements.
    pub to: *mut E,
    /// Elements between rows of the destination.
    pub to_pitch: u64,
    /// Rows of the source.
    pub p: u64,
    /// Columns of the source.
    pub q: u64,
}

/// The tiles that blocks take in turn: `tile_p × tile_q` elements each.
#[derive(Clone, Copy)]
pub struct Tiles {
    /// How many tiles there are.
    pub count: u64,
    /// How many of them lie side by side, in the direction in which they are counted first.
    pub side_by_side: FastDivmod64,
    /// Source rows of a tile.
    pub tile_p: u32,
    /// Source columns of a tile.
    pub tile_q: u32,
    /// Whether they are counted down the source first, or along its rows.
    pub p_first: bool,
}

impl Tiles {
    /// Calls `visit(p, q)` with the first row and column of each of the block's tiles.
    #[inline(always)]
    fn for_each(self, mut visit: impl FnMut(u64, u64)) {
        let mut tile = u64::from(block_idx_x());
        while tile < self.count {
            let (outer, inner) = self.side_by_side.divmod(tile);
            let (i, j) = if self.p_first { (inner, outer) } else { (outer, inner) };
            visit(i * u64::from(self.tile_p), j * u64::from(self.tile_q));
            tile += u64::from(grid_dim_x());
        }
    }
}

/// Squares of a warp along a source row, and along a destination row.
const WARP_Q: u32 = 4;
const WARP_P: u32 = 8;

/// Transposes by squares of vectors in registers.
///
/// # Safety
/// `from` and `to` are valid for reads and writes of their rows and do not overlap; both, and both pitches in
/// bytes, are multiples of 16.
#[inline(always)]
pub unsafe fn transpose_aligned<E: Copy>(matrix: Transpose<E>, tiles: Tiles) {
    let n = lanes::<E>() as u32;
    let groups_q = tiles.tile_q.div_ceil(WARP_Q * n).max(1);
    let groups_p = tiles.tile_p.div_ceil(WARP_P * n);
    // Squares are counted warp by warp along a row of warps, then down the tile.
    let squares_q = groups_q * 32;
    tiles.for_each(|tile_p, tile_q| {
        let (mut i, mut at) = (0, thread_idx_x());
        loop {
            while at >= squares_q {
                (i, at) = (i + 1, at - squares_q);
            }
            if i >= groups_p {
                break;
            }
            let (j, place) = (at / 32, at % 32);
            let p = (i * WARP_P + place / WARP_Q) * n;
            let q = (j * WARP_Q + place % WARP_Q) * n;
            if p < tiles.tile_p && q < tiles.tile_q {
                let ends = (n.min(tiles.tile_p - p), n.min(tiles.tile_q - q));
                // SAFETY: by this function's contract.
                unsafe { square(matrix, tile_p + u64::from(p), tile_q + u64::from(q), ends) };
            }
            at += block_dim_x();
        }
    });
}

/// Transposes the square whose first element is (p, q), or what of it lies inside matrix and tile.
#[inline(always)]
unsafe fn square<E: Copy>(matrix: Transpose<E>, p: u64, q: u64, ends: (u32, u32)) {
    let n = lanes::<E>() as u32;
    let from = matrix.from.wrapping_add((p * matrix.from_pitch + q) as usize);
    let to = matrix.to.wrapping_add((q * matrix.to_pitch + p) as usize);
    let whole = n <= 8
        && ends == (n, n)
        && p + u64::from(n) <= matrix.p
        && q + u64::from(n) <= matrix.q
        && (from as u64 | to as u64) & 15 == 0;
    if whole {
        // SAFETY: n rows of n elements lie inside both sides, on boundaries.
        let load = |row: u64| unsafe {
            load16_if(true, from.wrapping_add((row * matrix.from_pitch) as usize).cast())
        };
        // SAFETY: as for the loads.
        let store = |row: u64, words| unsafe {
            store16_if(true, to.wrapping_add((row * matrix.to_pitch) as usize).cast(), words);
        };
        // Written out: arrays that a loop indexes can land in local memory.
        match n {
            2 => {
                let [a, b] = [load(0), load(1)];
                store(0, [a[0], a[1], b[0], b[1]]);
                store(1, [a[2], a[3], b[2], b[3]]);
            }
            4 => {
                let [a, b, c, d] = [load(0), load(1), load(2), load(3)];
                store(0, [a[0], b[0], c[0], d[0]]);
                store(1, [a[1], b[1], c[1], d[1]]);
                store(2, [a[2], b[2], c[2], d[2]]);
                store(3, [a[3], b[3], c[3], d[3]]);
            }
            8 => {
                let rows = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
                let column = |word: usize, selector: u32| {
                    let pair = |k: usize| pick_bytes(rows[k][word], rows[k + 1][word], selector);
                    [pair(0), pair(2), pair(4), pair(6)]
                };
                // The low halves of two rows' words, then the high halves.
                store(0, column(0, 0x5410));
                store(1, column(0, 0x7632));
                store(2, column(1, 0x5410));
                store(3, column(1, 0x7632));
                store(4, column(2, 0x5410));
                store(5, column(2, 0x7632));
                store(6, column(3, 0x5410));
                store(7, column(3, 0x7632));
            }
            _ => {}
        }
        return;
    }
    let mut i = 0;
    while i < ends.0 && p + u64::from(i) < matrix.p {
        let mut j = 0;
        while j < ends.1 && q + u64::from(j) < matrix.q {
            // SAFETY: the element lies inside the matrix, and no other thread has it.
            unsafe {
                *to.wrapping_add((u64::from(j) * matrix.to_pitch + u64::from(i)) as usize) =
                    *from.wrapping_add((u64::from(i) * matrix.from_pitch + u64::from(j)) as usize);
            }
            j += 1;
        }
        i += 1;
    }
}

/// Rows and columns of a tile in shared memory.
const SIDE: u32 = 64;

/// Threads of a block that passes tiles through shared memory.
const BLOCK: u32 = 256;

/// Bytes between rows of a shared tile: one bank more than the row, so that a column's elements fall into
/// different banks.
#[inline(always)]
const fn shared_pitch<E>() -> u32 {
    let size = size_of::<E>() as u32;
    SIDE * size + if size > 4 { size } else { 4 }
}

/// Transposes through shared memory, for any alignment.
///
/// # Safety
/// `from` and `to` are valid for reads and writes of their rows and do not overlap; the launch gave shared
/// memory for `SIDE` rows of `shared_pitch` and `BLOCK` threads; all of them call this.
#[inline(always)]
pub unsafe fn transpose_shared<E: Copy>(matrix: Transpose<E>, tiles: Tiles) {
    tiles.for_each(|tile_p, tile_q| {
        let end_p = matrix.p.min(tile_p + u64::from(tiles.tile_p));
        let end_q = matrix.q.min(tile_q + u64::from(tiles.tile_q));
        let mut p = tile_p;
        while p < end_p {
            let mut q = tile_q;
            while q < end_q {
                // SAFETY: by this function's contract; the loops run alike in all threads.
                unsafe { through_shared(matrix, [p, end_p], [q, end_q]) };
                q += u64::from(SIDE);
            }
            p += u64::from(SIDE);
        }
    });
}

/// One tile of `SIDE × SIDE` elements, from row `p[0]` and column `q[0]` up to `p[1]` and `q[1]`.
///
/// A thread keeps to one column and takes every fourth row: 16 of each, in two batches.
#[inline(always)]
unsafe fn through_shared<E: Copy>(matrix: Transpose<E>, p: [u64; 2], q: [u64; 2]) {
    let pitch = shared_pitch::<E>();
    let size = size_of::<E>() as u32;
    let (column, row) = (thread_idx_x() % SIDE, thread_idx_x() / SIDE);
    let step = BLOCK / SIDE;
    // How many of the thread's rows lie inside, on either side.
    let inside = |first: u64, end: u64, other: u64, limit: u64| {
        let rows = end.saturating_sub(first + u64::from(row)).div_ceil(u64::from(step));
        if other + u64::from(column) < limit { rows.min(16) as u32 } else { 0 }
    };
    let from = (p[0] + u64::from(row)) * matrix.from_pitch + q[0] + u64::from(column);
    let from = matrix.from.wrapping_add(from as usize);
    let stride = u64::from(step) * matrix.from_pitch;
    let at = row * pitch + column * size;
    // SAFETY: the elements inside lie in the source; the offsets are inside the tile and this thread's.
    unsafe {
        let keep = |u: u32, value: E| shared_store(at + u * step * pitch, value);
        load_eight(0, from, stride, inside(p[0], p[1], q[0], q[1]), keep);
        load_eight(8, from, stride, inside(p[0], p[1], q[0], q[1]), keep);
    }
    sync_threads();
    let to = (q[0] + u64::from(row)) * matrix.to_pitch + p[0] + u64::from(column);
    let to = matrix.to.wrapping_add(to as usize);
    let stride = u64::from(step) * matrix.to_pitch;
    let at = column * pitch + row * size;
    let count = inside(q[0], q[1], p[0], p[1]);
    // SAFETY: the tile was filled before the barrier; the elements inside lie in the destination and are this
    // thread's.
    unsafe {
        let take = |u: u32| shared_load::<E>(at + u * step * size);
        store_eight(0, to, stride, count, take);
        store_eight(8, to, stride, count, take);
    }
    sync_threads();
}

/// Loads eight elements of a column, from the `first`-th on, zeros from the `count`-th, and then keeps them.
///
/// # Safety
/// The first `count` elements from `from`, `stride` apart, are readable.
#[inline(always)]
unsafe fn load_eight<E: Copy>(first: u32, from: *const E, stride: u64, count: u32, keep: impl Fn(u32, E)) {
    // SAFETY: every bit pattern is an element.
    let zero: E = unsafe { core::mem::zeroed() };
    let mut from = from.wrapping_add(u64::from(first) as usize * stride as usize);
    let mut load = |u: u32| {
        // SAFETY: by this function's contract.
        let value = unsafe { load_if(first + u < count, from, zero) };
        from = from.wrapping_add(stride as usize);
        value
    };
    let [a, b, c, d] = [load(0), load(1), load(2), load(3)];
    let [e, f, g, h] = [load(4), load(5), load(6), load(7)];
    keep(first, a);
    keep(first + 1, b);
    keep(first + 2, c);
    keep(first + 3, d);
    keep(first + 4, e);
    keep(first + 5, f);
    keep(first + 6, g);
    keep(first + 7, h);
}

/// Takes eight elements of a column, from the `first`-th on, and stores those before the `count`-th.
///
/// # Safety
/// The first `count` elements from `to`, `stride` apart, are writable and this thread's.
#[inline(always)]
unsafe fn store_eight<E: Copy>(first: u32, to: *mut E, stride: u64, count: u32, take: impl Fn(u32) -> E) {
    let [a, b, c, d] = [take(first), take(first + 1), take(first + 2), take(first + 3)];
    let [e, f, g, h] = [take(first + 4), take(first + 5), take(first + 6), take(first + 7)];
    let mut to = to.wrapping_add(u64::from(first) as usize * stride as usize);
    let mut store = |u: u32, value: E| {
        // SAFETY: by this function's contract.
        unsafe { store_if(first + u < count, to, value) };
        to = to.wrapping_add(stride as usize);
    };
    store(0, a);
    store(1, b);
    store(2, c);
    store(3, d);
    store(4, e);
    store(5, f);
    store(6, g);
    store(7, h);
}
