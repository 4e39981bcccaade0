//! dgrad for few input channels on tensor cores; forward with stride 1 for few output channels, as
//! [`conv2d_few`](crate::conv2d_few) has it.
//!
//! All classes of the strides meet the same window of dy. So the product has a row for each channel and class, up to 16 of
//! them, a column for each position `q`, and reduces over the channels of dy and over the window. Where a class has no tap
//! that another has, its weight is zero.
//!
//! For some channels of dy at a time, a block brings its tile of dy to shared memory once, channels fastest, and those
//! channels' weights. What a position meets with a tap is then a row of 64 bytes wherever it lies, and a tap a mere
//! distance. A warp has eight columns of [`LINES`] rows of positions, so that a row of dy that it has loaded is multiplied
//! with up to [`TAPS`] taps, one below the other, for as many rows of positions.
//!
//! A result that is not finite is computed again without tensor cores: an infinity would meet the zeros of classes that
//! lack its tap. f32 takes one product of TF32 values, or, split, three, as in [`conv2d_patch`](mod@crate::conv2d_patch).

use crate::conv2d_patch::row_at;
use crate::conv2d_prepare::ROW;
use crate::divmod::FastDivmod;
use crate::gpu::{
    block_idx_x, fresh, grid_dim_x, load_if, load_matrices, shared_load, shared_store, shared_store16,
    store_if, sync_threads, thread_idx_x,
};
use crate::mma::{Factor, gather_vector, multiply_three, number, plain, split_plain, vector};
use crate::num::Num;
use crate::patch::{gather_pair, gather_square};

/// Rows of positions of a warp: with one product, and split, whose parts take registers.
pub const LINES: usize = 8;
/// See [`LINES`].
pub const SPLIT_LINES: usize = 6;

/// Rows of taps that are multiplied together, at most.
pub const TAPS: usize = 4;

/// Columns of positions of a warp.
const COLUMNS: u32 = 8;

/// Bytes of a tap's weights: a position's channels and a row's weights have [`ROW`].
const TAP_BYTES: u32 = 16 * ROW;

/// dgrad for few channels on tensor cores.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FewMatrix {
    /// Rows of dy.
    pub h: i32,
    /// Columns of dy.
    pub w: i32,
    /// Elements of a channel of dy.
    pub plane: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Channels of dx, in a group.
    pub channels: u32,
    /// Channels of dy, in a group.
    pub reduced: u32,
    /// Rows of dx.
    pub out_h: u32,
    /// Columns of dx.
    pub out_w: u32,
    /// `q` of the first tile's first row.
    pub first_h: i32,
    /// `q` of the first tile's first column; whole reads of dy lie behind what it meets.
    pub first_w: i32,
    /// Rows of zeros around dx.
    pub pad_h: i32,
    /// Columns of zeros around dx.
    pub pad_w: i32,
    /// Whether to add to dx.
    pub accumulate: u32,
    /// Whether this is forward.
    pub forward: u32,
    /// Elements of the filter between channels of dy.
    pub filter_reduced: u32,
    /// Elements of the filter between channels of dx.
    pub filter_channel: u32,
    /// Rows of taps, of zeros in front of the first included.
    pub slots: u32,
    /// Rows of zeros among them.
    pub lead: u32,
    /// Rows of positions of a tile.
    pub tile_h: u32,
    /// Columns of positions of a tile.
    pub tile_w: u32,
    /// Parts of a tile of dy that are read at a time, with four for each.
    pub units: u32,
    /// Bytes of a row of a tile of dy, of an even number of positions.
    pub pitch: u32,
    /// Bytes of the weights of a row of taps.
    pub tap_row: u32,
    /// Where the weights lie, behind their table, and the tile of dy behind them.
    pub filter_at: u32,
    /// See [`filter_at`](FewMatrix::filter_at).
    pub source_at: u32,
    /// Columns that are read together, one, two or four: rows of dy and of a tile begin and end on such boundaries.
    pub wide: u32,
    /// Tiles.
    pub tiles: u32,
    /// Divides by reads of a tile's row.
    pub reads: FastDivmod,
    /// Divides by warps along the columns.
    pub warps: FastDivmod,
    /// Divides by tiles along the columns.
    pub column_tiles: FastDivmod,
    /// Divides by tiles along the rows.
    pub row_tiles: FastDivmod,
    /// Divides by groups.
    pub groups: FastDivmod,
    /// Divides by taps of a class's row.
    pub taps_w: FastDivmod,
    /// Divides by weights of a channel of dy.
    pub weights: FastDivmod,
    /// Divides by taps of the filter.
    pub taps: FastDivmod,
    /// Divides by columns of the filter.
    pub kw: FastDivmod,
    /// Divides by classes of rows.
    pub stride_h: FastDivmod,
    /// Divides by classes of columns.
    pub stride_w: FastDivmod,
}

/// A block's tile.
#[derive(Clone, Copy)]
struct Tile {
    group: u32,
    /// Groups before this one, over all batch items.
    of_batch: u32,
    /// The first `q`s.
    y: i32,
    x: i32,
}

impl FewMatrix {
    #[inline(always)]
    fn tile(&self, tile: u32) -> Tile {
        let (rest, column) = self.column_tiles.divmod(tile);
        let (of_batch, row) = self.row_tiles.divmod(rest);
        let (_, group) = self.groups.divmod(of_batch);
        Tile {
            group,
            of_batch,
            y: self.first_h + (row * self.tile_h) as i32,
            x: self.first_w + (column * self.tile_w) as i32,
        }
    }

    /// The place of tap `(i, j)` of the filter among those of its class, and its class.
    #[inline(always)]
    fn slot(&self, i: u32, j: u32) -> ([u32; 2], [u32; 2]) {
        let ((a, r), (b, s)) = (self.stride_h.divmod(i), self.stride_w.divmod(j));
        let slot = if self.forward == 0 {
            [self.slots - 1 - a, self.taps_w.divisor() - 1 - b]
        } else {
            [self.lead + a, b]
        };
        (slot, [r, s])
    }
}

/// Fills the table of weights, for each its element of the filter, from its channel of dy, and its place; and clears the
/// places.
///
/// # Safety
/// The launch gave room for them, and a barrier follows.
#[inline(always)]
unsafe fn prepare(product: &FewMatrix) {
    let (thread, threads) = (thread_idx_x(), product.threads);
    let mut index = thread;
    while index < product.weights.divisor() {
        let (c, tap) = product.taps.divmod(index);
        let (i, j) = product.kw.divmod(tap);
        let ([a, b], [r, s]) = product.slot(i, j);
        let row = (c * product.stride_h.divisor() + r) * product.stride_w.divisor() + s;
        let place = a * product.tap_row + b * TAP_BYTES + row_at(row, 0);
        // SAFETY: by this function's contract.
        unsafe {
            shared_store(index * 8, c * product.filter_channel + tap);
            shared_store(index * 8 + 4, product.filter_at + place);
        }
        index += threads;
    }
    let mut at = product.filter_at + thread * 16;
    while at < product.source_at {
        // SAFETY: as above.
        unsafe { shared_store16(at, [0; 4]) };
        at += threads * 16;
    }
}

/// Brings the weights of some channels of dy, from `first` on.
///
/// # Safety
/// `filter` is valid for reads as `product` describes it; the table was filled before a barrier, and no thread reads
/// weights before the next.
#[inline(always)]
unsafe fn bring_filter<E: Num<Acc = f32>, const SPLIT: bool>(
    filter: *const E,
    product: &FewMatrix,
    tile: &Tile,
    first: u32,
) {
    let (thread, threads) = (fresh(thread_idx_x()), product.threads);
    let element = size_of::<E>() as u32;
    let of_group =
        i64::from(tile.group) * i64::from(product.channels * product.reduced * product.taps.divisor());
    let from = filter.wrapping_offset(of_group as isize);
    let total = product.weights.divisor() * (ROW / element);
    let mut index = thread;
    while index < total {
        let load = |u: u32| {
            let index = index + u * threads;
            let (k, weight) = product.weights.divmod(if index < total { index } else { 0 });
            let channel = first + k;
            let take = (index < total) & (channel < product.reduced);
            // SAFETY: the table was filled before a barrier, and the element lies in the filter.
            unsafe {
                let (from_channel, to): (u32, u32) = (shared_load(weight * 8), shared_load(weight * 8 + 4));
                let at = from.wrapping_add((channel * product.filter_reduced + from_channel) as usize);
                let to = (to ^ (k / vector::<E>() * 16)) + k % vector::<E>() * element;
                (load_if(take, at, E::narrow(0.0)), to)
            }
        };
        let parts = [load(0), load(1), load(2), load(3)];
        let mut u = 0;
        while u < 4 {
            if index + u * threads < total {
                let (value, to) = parts[u as usize];
                // SAFETY: each place belongs to one thread.
                unsafe {
                    if element == 2 {
                        shared_store(to, value);
                    } else {
                        shared_store(to, number::<SPLIT>(value.widen().to_bits()));
                    }
                }
            }
            u += 1;
        }
        index += 4 * threads;
    }
}

/// What a thread reads of dy at a time.
const UNITS: usize = 2;

/// Brings some channels of a tile of dy, from `first` on, `N` columns at a time, and zeros around dy.
///
/// # Safety
/// `dy` is valid for reads as `product` describes it, and `gather` reads `N` columns of so many channels that lie a step
/// apart; no thread reads the tile before the next barrier.
#[inline(always)]
unsafe fn bring_source<E: Factor, const N: usize, const SPLIT: bool>(
    dy: *const E,
    product: &FewMatrix,
    tile: &Tile,
    first: u32,
    gather: impl Fn(*const E, i32, u32) -> [[u32; 4]; N],
) {
    let (thread, threads) = (fresh(thread_idx_x()), product.threads);
    let channel = u64::from(tile.of_batch * product.reduced + first) * u64::from(product.plane);
    let from = dy.wrapping_add(channel as usize);
    let row = tile.y + 1 - product.slots as i32;
    let column = tile.x + 1 - product.taps_w.divisor() as i32;
    let to = product.source_at;
    let mut unit = thread;
    while unit < product.units {
        // Neighbouring threads have the four parts of a position, then the next positions.
        let place_of = |u: u32| {
            let unit = unit + u * threads;
            let (line, along) = product.reads.divmod(unit / 4);
            (unit < product.units, unit % 4, line, along * N as u32)
        };
        let mut vectors = [[[0; 4]; N]; UNITS];
        let mut u = 0;
        while u < UNITS {
            let (some, quarter, line, along) = place_of(u as u32);
            let (h, w) = (row + line as i32, column + along as i32);
            let inside = some & ((h as u32) < product.h as u32) & ((w as u32) < product.w as u32);
            let channel = quarter * vector::<E>();
            let live = if inside { (product.reduced - first).saturating_sub(channel) } else { 0 };
            let from = from.wrapping_add((u64::from(channel) * u64::from(product.plane)) as usize);
            let from = from.wrapping_offset((h * product.w + w) as isize);
            vectors[u] = gather(from, product.plane as i32, live);
            u += 1;
        }
        u = 0;
        while u < UNITS {
            let (some, quarter, line, along) = place_of(u as u32);
            if some {
                let line = to + line * product.pitch;
                let mut v = 0;
                while v < N {
                    let words = vectors[u][v];
                    let words = if SPLIT { words.map(plain) } else { words };
                    // SAFETY: each place belongs to one thread.
                    unsafe { shared_store16(line + row_at(along + v as u32, quarter), words) };
                    v += 1;
                }
            }
            u += 1;
        }
        unit += UNITS as u32 * threads;
    }
}

/// Weights of a tap, one fragment deep; split, their two parts.
#[derive(Clone, Copy)]
struct Weights {
    high: [u32; 4],
    low: [u32; 4],
}

/// Sums of a warp: for each row of positions a fragment of eight columns.
type Sums<const L: usize> = [[f32; 4]; L];

/// Multiplies the channels of dy that are in shared memory, from `channel` on, and returns the one behind them. So many rows
/// of taps share what is loaded of dy, so many times.
///
/// # Safety
/// Weights and tile were there before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn multiply<E: Factor, const L: usize, const SPLIT: bool>(
    sums: &mut Sums<L>,
    product: &FewMatrix,
    [taps, groups]: [u32; 2],
    mut channel: u32,
) -> u32 {
    let taps_w = product.taps_w.divisor();
    let pitch = product.pitch;
    let mut more = true;
    while more {
        // A row of shared memory has the channels of two fragments.
        let half = channel / (2 * vector::<E>()) % 2;
        let mut group = 0;
        while group < groups {
            let first = group * taps;
            let mut j = 0;
            while j < taps_w {
                // Found again, so that it takes no registers from step to step.
                let thread = fresh(thread_idx_x());
                let (warp, lane) = (thread / 32, thread % 32);
                let (warp_y, warp_x) = product.warps.divmod(warp);
                let a_at = product.filter_at + row_at(lane % 16, half * 2 + lane / 16);
                let a_at = a_at + first * product.tap_row + j * TAP_BYTES;
                // A lane's part of a row of dy; half of the lanes have the next row.
                let column = warp_x * COLUMNS + lane % 8 + j;
                let b_at = product.source_at + (warp_y * L as u32 + first) * pitch;
                let b_at = b_at + row_at(column, half * 2 + lane / 8 % 2);
                // SAFETY: by this function's contract.
                unsafe {
                    let weights = |tap: u32| {
                        if tap < taps {
                            let all = load_matrices::<false>(a_at + tap * product.tap_row);
                            let parts = if SPLIT { all.map(split_plain) } else { all.map(|a| (a, 0)) };
                            Weights { high: parts.map(|part| part.0), low: parts.map(|part| part.1) }
                        } else {
                            Weights { high: [0; 4], low: [0; 4] }
                        }
                    };
                    let weights = [weights(0), weights(1), weights(2), weights(3)];
                    let next = lane / 16 * pitch;
                    two_lines::<E, L, SPLIT, 0>(sums, &weights, taps, b_at, pitch, next);
                    two_lines::<E, L, SPLIT, 2>(sums, &weights, taps, b_at, pitch, next);
                    two_lines::<E, L, SPLIT, 4>(sums, &weights, taps, b_at, pitch, next);
                    two_lines::<E, L, SPLIT, 6>(sums, &weights, taps, b_at, pitch, next);
                    two_lines::<E, L, SPLIT, 8>(sums, &weights, taps, b_at, pitch, next);
                    two_lines::<E, L, SPLIT, 10>(sums, &weights, taps, b_at, pitch, next);
                }
                j += 1;
            }
            group += 1;
        }
        channel += 2 * vector::<E>();
        // Behind the last channel there are zeros alone.
        more = (half == 0) & (channel < product.reduced);
    }
    channel
}

/// Multiplies rows `LINE` and `LINE + 1` of dy, as far as some position meets them.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn two_lines<E: Factor, const L: usize, const SPLIT: bool, const LINE: usize>(
    sums: &mut Sums<L>,
    weights: &[Weights; TAPS],
    taps: u32,
    b_at: u32,
    pitch: u32,
    next: u32,
) {
    let lines = L as u32 - 1 + taps;
    if LINE < L - 1 + TAPS && (LINE as u32) < lines {
        // The last row may be alone.
        let next = if LINE as u32 + 1 < lines { next } else { 0 };
        // SAFETY: by this function's contract.
        unsafe {
            let [a, b, c, d] = load_matrices::<false>(b_at + LINE as u32 * pitch + next);
            one_line::<E, L, SPLIT>(sums, weights, taps, [a, b], LINE);
            one_line::<E, L, SPLIT>(sums, weights, taps, [c, d], LINE + 1);
        }
    }
}

/// Multiplies a row of dy with the taps that it meets, each for a row of positions of its own.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
unsafe fn one_line<E: Factor, const L: usize, const SPLIT: bool>(
    sums: &mut Sums<L>,
    weights: &[Weights; TAPS],
    taps: u32,
    right: [u32; 2],
    line: usize,
) {
    let parts = if SPLIT { right.map(split_plain) } else { right.map(|b| (b, 0)) };
    let mut tap = 0;
    while tap < TAPS {
        if line >= tap && line - tap < L && (tap as u32) < taps {
            let sum = &mut sums[line - tap];
            let Weights { high, low } = weights[tap];
            // SAFETY: by this function's contract.
            *sum = unsafe {
                if SPLIT { multiply_three([high, low], parts, *sum) } else { E::mma(high, right, *sum) }
            };
        }
        tap += 1;
    }
}

/// The channel, row and column of dx of a thread's element: of its two rows of the product the one `bit / 16`, and in it
/// column `bit / 8 % 2` of row `bit % 8` of the warp's positions; and whether there is such an element.
#[inline(always)]
fn element<const L: usize>(product: &FewMatrix, tile: &Tile, bit: u32) -> (u32, [i32; 2], [u32; 2], bool) {
    let thread = fresh(thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let (warp_y, warp_x) = product.warps.divmod(warp);
    let (rest, s) = product.stride_w.divmod(lane / 4 + bit / 16 * 8);
    let (c, r) = product.stride_h.divmod(rest);
    let y = tile.y + (warp_y * L as u32 + bit % 8) as i32;
    let x = tile.x + (warp_x * COLUMNS + lane % 4 * 2 + bit / 8 % 2) as i32;
    let h = y * product.stride_h.divisor() as i32 + r as i32 - product.pad_h;
    let w = x * product.stride_w.divisor() as i32 + s as i32 - product.pad_w;
    // A negative coordinate is a huge unsigned one.
    let (h, w) = (h as u32, w as u32);
    let some = (c < product.channels) & (h < product.out_h) & (w < product.out_w);
    (c, [y, x], [h, w], some)
}

/// The element of dx.
#[inline(always)]
fn offset(product: &FewMatrix, tile: &Tile, c: u32, [h, w]: [u32; 2]) -> isize {
    let plane = i64::from(product.out_h) * i64::from(product.out_w);
    let channel = i64::from(tile.of_batch * product.channels + c) * plane;
    (channel + i64::from(h) * i64::from(product.out_w) + i64::from(w)) as isize
}

/// Stores or adds a thread's elements; leaves out what is not finite, and returns it as bits.
///
/// # Safety
/// dx is valid as `product` describes it, and the thread's elements are its own.
#[inline(always)]
unsafe fn store<E: Factor, const L: usize>(
    dx: *mut E,
    product: &FewMatrix,
    tile: &Tile,
    sums: &Sums<L>,
) -> u32 {
    let mut again = 0;
    let mut part = 0;
    while part < 4 {
        let mut line = 0;
        while line < L as u32 {
            let bit = part * 8 + line;
            let (c, _, at, some) = element::<L>(product, tile, bit);
            let sum = sums[line as usize][part as usize];
            let finite = sum.is_finite();
            if some & !finite {
                again |= 1 << bit;
            }
            let to = dx.wrapping_offset(offset(product, tile, c, at));
            // SAFETY: the element lies in dx, and no other thread has it.
            unsafe {
                let take = some & finite;
                let before = load_if(take & (product.accumulate != 0), to, E::narrow(0.0));
                let sum = if product.accumulate == 0 { sum } else { before.widen() + sum };
                store_if(take, to, E::narrow(sum));
            }
            line += 1;
        }
        part += 1;
    }
    again
}

/// Computes a thread's elements, given as [`store`] returns them, by fused multiply-adds.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn compute_again<E: Num<Acc = f32>, const L: usize>(
    dy: *const E,
    filter: *const E,
    dx: *mut E,
    product: &FewMatrix,
    tile: &Tile,
    mut again: u32,
) {
    let of_group =
        i64::from(tile.group) * i64::from(product.channels * product.reduced * product.taps.divisor());
    while again != 0 {
        let bit = again.trailing_zeros();
        again &= again - 1;
        let (c, [y, x], at, _) = element::<L>(product, tile, bit);
        let class = [(at[0] + product.pad_h as u32), (at[1] + product.pad_w as u32)];
        let class = [product.stride_h.divmod(class[0]).1, product.stride_w.divmod(class[1]).1];
        let mut sum = 0.0;
        let mut k = 0;
        while k < product.reduced {
            let channel = i64::from(tile.of_batch * product.reduced + k) * i64::from(product.plane);
            let weights =
                of_group + i64::from(k * product.filter_reduced) + i64::from(c * product.filter_channel);
            let mut tap = 0;
            while tap < product.taps.divisor() {
                let (i, j) = product.kw.divmod(tap);
                let ([a, b], of) = product.slot(i, j);
                let h = y + 1 + a as i32 - product.slots as i32;
                let w = x + 1 + b as i32 - product.taps_w.divisor() as i32;
                let inside = ((h as u32) < product.h as u32) & ((w as u32) < product.w as u32);
                if inside & (of[0] == class[0]) & (of[1] == class[1]) {
                    let at = channel + i64::from(h * product.w + w);
                    // SAFETY: the element lies in dy, and the weight in the filter.
                    unsafe {
                        let value = *dy.wrapping_offset(at as isize);
                        let weight = *filter.wrapping_offset((weights + i64::from(tap)) as isize);
                        sum = E::mul_add(value, weight, sum);
                    }
                }
                tap += 1;
            }
            k += 1;
        }
        let to = dx.wrapping_offset(offset(product, tile, c, at));
        // SAFETY: the element lies in dx, and is this thread's.
        unsafe { crate::num::put(to, sum, product.accumulate) };
    }
}

/// dgrad for few channels on tensor cores.
///
/// # Safety
/// `dy`, `filter` and `dx` are valid for the tensors that `product` describes; dx overlaps neither. The block has the
/// shared memory of the table, the weights and a tile of dy.
#[inline(always)]
pub unsafe fn product<E: Factor, const L: usize, const SPLIT: bool>(
    dy: *const E,
    filter: *const E,
    dx: *mut E,
    product: &FewMatrix,
    taps: [u32; 2],
) {
    // SAFETY: the launch gave room for the table and the weights.
    unsafe { prepare(product) };
    let mut number = block_idx_x();
    while number < product.tiles {
        let mut sums: Sums<L> = [[0.0; 4]; L];
        let mut first = 0;
        while first < product.reduced {
            // The table is there, and the channels before were read.
            sync_threads();
            // Found again for each part, so that it takes no registers in between.
            let tile = product.tile(fresh(number));
            // SAFETY: the channels lie in dy and in the filter; barriers part what is brought from its readers.
            unsafe {
                if product.wide == 4 {
                    bring_source::<E, 4, SPLIT>(dy, product, &tile, first, |from, step, live| {
                        gather_square::<E, SPLIT>(from, step, live)
                    });
                } else if product.wide == 2 {
                    bring_source::<E, 2, SPLIT>(dy, product, &tile, first, |from, step, live| {
                        gather_pair::<E, SPLIT>(from, step, live)
                    });
                } else {
                    bring_source::<E, 1, SPLIT>(dy, product, &tile, first, |from, step, live| {
                        [gather_vector::<E, SPLIT>(from, step, live)]
                    });
                }
                bring_filter::<E, SPLIT>(filter, product, &tile, first);
                sync_threads();
                first = multiply::<E, L, SPLIT>(&mut sums, product, taps, first);
            }
        }
        let tile = product.tile(fresh(number));
        // SAFETY: the tile's elements are this block's.
        unsafe {
            let again = store(dx, product, &tile, &sums);
            if again != 0 {
                compute_again::<E, L>(dy, filter, dx, product, &tile, again);
            }
        }
        number += grid_dim_x();
    }
}

/// dgrad for few channels on tensor cores.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_few_mma<E: Factor>(
    dy: *mut E,
    filter: *mut E,
    dx: *mut E,
    described: FewMatrix,
    taps: i32,
    tap_groups: i32,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, LINES, false>(dy, filter, dx, &described, [taps as u32, tap_groups as u32]) };
}

entry! { sm_80 single conv2d_few_mma {
    args(dy: *mut E, filter: *mut E, dx: *mut E)
    hidden(described: FewMatrix)
    constants(taps: i32 = 4, tap_groups: i32 = 1)
    barriers(2)
    threads(320, 2)
} }

/// dgrad for few channels with split products.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_few_split<E: Factor>(
    dy: *mut E,
    filter: *mut E,
    dx: *mut E,
    described: FewMatrix,
    taps: i32,
    tap_groups: i32,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, SPLIT_LINES, true>(dy, filter, dx, &described, [taps as u32, tap_groups as u32]) };
}

entry! { sm_80 f32 conv2d_few_split {
    args(dy: *mut E, filter: *mut E, dx: *mut E)
    hidden(described: FewMatrix)
    constants(taps: i32 = 4, tap_groups: i32 = 1)
    barriers(2)
    threads(192, 2)
} }
