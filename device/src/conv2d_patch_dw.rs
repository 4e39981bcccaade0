//! The convolution's wgrad on tensor cores, from patches of the image in shared memory.
//!
//! A block takes a run of pixel tiles and, of dw, some channels and at most so many taps as it has warps. Each tile's
//! part of dy and its [`Patch`] of x come to shared memory once, channels fastest; each multiplying warp then multiplies
//! dy with the patch moved by its own tap, reducing over pixels, and keeps its part of dw in registers over the whole
//! run, while other warps gather the next tile. The runs' partial sums are added in their order by
//! `conv2d_dw_reduce`.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, fresh, grid_dim_x, load_if, load_matrices, shared_load, shared_store,
    shared_store16, sync_threads, thread_idx_x,
};
use crate::mma::{Factor, multiply_split, vector};
use crate::patch::{Patch, Place, bring};

/// Channels of a warp's part, on either side.
pub const WARP_CHANNELS: u32 = 64;

/// A pixel that no result has.
const NOWHERE: u32 = u32::MAX;

/// The product of wgrad. Divisors lie on 8-byte boundaries: the compiler takes the parameters apart into words of 8
/// bytes, and one that is copied across two of them would be put together again in local memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PatchGradient {
    /// How tiles meet x.
    pub x: Patch,
    /// How tiles meet dy: a single tap, so that entries are pixels.
    pub dy: Patch,
    /// Divides by pixels of a tile, padded to whole steps.
    pub pixels: FastDivmod,
    /// Output channels of a group.
    pub rows: u32,
    /// Divides by warps along the output channels.
    pub warp_rows: FastDivmod,
    /// Input channels of a group.
    pub channels: u32,
    /// Divides by warps along the input channels.
    pub warp_columns: FastDivmod,
    /// Taps of the filter.
    pub taps: u32,
    /// Divides by blocks along the output channels.
    pub row_blocks: FastDivmod,
    /// Taps of a block.
    pub block_taps: u32,
    /// Divides by blocks along the input channels.
    pub column_blocks: FastDivmod,
    /// Tiles of pixels.
    pub pixel_tiles: u32,
    /// Divides by blocks along the taps.
    pub tap_blocks: FastDivmod,
    /// Tiles of a run.
    pub run: u32,
    /// Divides by groups.
    pub groups: FastDivmod,
    /// Blocks' worth of work.
    pub blocks: u32,
}

/// Where a block's two buffers lie. Each holds the entries of x, an entry of zeros, and the pixels of dy.
#[derive(Clone, Copy)]
struct Layout {
    /// Bytes between entries of x, and between pixels of dy.
    pitch_x: u32,
    pitch_dy: u32,
    /// The tables of reads.
    reads_x: u32,
    reads_dy: u32,
    /// The first buffer, and bytes from one to the next.
    buffers: u32,
    buffer: u32,
    /// From a buffer's start to the pixels of dy, and to the zeros.
    dy: u32,
    zeros: u32,
}

/// How an entry's vectors are permuted, in eights: neighbouring entries, which are multiplied together, and every
/// fourth, which are stored together, have theirs in different banks.
#[inline(always)]
fn spread<E>(entry: u32) -> u32 {
    let mixed = entry ^ (entry >> 2);
    if size_of::<E>() == 2 { mixed & 7 } else { (mixed & 3) * 2 }
}

/// The place of an entry's vector from the entry's first byte.
#[inline(always)]
fn vector_at<E>(entry: u32, group: u32) -> u32 {
    (group ^ spread::<E>(entry)) * 16
}

/// A run's partial sums of dw, to `partial[run][group][tap][row][channel]`. Each warp has `16·M` output channels.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, `partial` for all runs' sums; it overlaps
/// neither. A block has a warp for each of its rows, columns and taps,
/// others that gather, and the shared memory of the table and two buffers.
#[inline(always)]
unsafe fn gradient<E: Factor, const M: usize, const SPLIT: bool>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &PatchGradient,
) {
    let patch = &product.x;
    let (thread, threads) = (thread_idx_x(), block_dim_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let (rest, warp_row) = product.warp_rows.divmod(warp);
    let (warp_tap, warp_column) = product.warp_columns.divmod(rest);
    let consumers = product.warp_rows.divisor() * product.warp_columns.divisor() * product.block_taps;
    let (entries, pixels) = (patch.entries.divisor(), product.pixels.divisor());
    let block_rows = product.warp_rows.divisor() * 16 * M as u32;
    let block_columns = product.warp_columns.divisor() * WARP_CHANNELS;
    let element = size_of::<E>() as u32;
    let pitch_x = block_columns * element;
    let pitch_dy = block_rows * element;
    let dy_at = (entries + 1) * pitch_x;
    let reads_x = 2 * pixels * 4;
    let layout = Layout {
        pitch_x,
        pitch_dy,
        reads_x,
        reads_dy: reads_x + patch.reads.divisor() * 16,
        buffers: (reads_x + (patch.reads.divisor() + product.dy.reads.divisor()) * 16).next_multiple_of(128),
        buffer: dy_at + pixels * pitch_dy,
        dy: dy_at,
        zeros: entries * pitch_x,
    };
    // SAFETY: the launch gave room; the first barrier parts this from the readers.
    unsafe {
        fill_zeros(product, &layout, thread, threads);
        patch.fill_reads(layout.reads_x, [thread, threads]);
        product.dy.fill_reads(layout.reads_dy, [thread, threads]);
    }
    // A round brings a tile and multiplies the one before. Both kinds of warps have their own loop, so that those that
    // gather need no registers for sums; at the barriers they meet.
    let (mut block, mut round) = (block_idx_x(), 0);
    if warp >= consumers {
        let some = [fresh(thread) - 32 * consumers, fresh(threads) - 32 * consumers];
        while block < product.blocks {
            let part = Part::new(product, block, block_rows, block_columns);
            let mut tile = part.start;
            while tile < part.end {
                sync_threads();
                // SAFETY: the other buffer is read in this round.
                unsafe { bring_tile::<E, SPLIT>(dy, x, product, &layout, &part, tile, round % 2, some) };
                (tile, round) = (tile + 1, round + 1);
            }
            block += grid_dim_x();
        }
        sync_threads();
    } else {
        sync_threads();
        while block < product.blocks {
            let part = Part::new(product, block, block_rows, block_columns);
            let tap = part.first_tap + warp_tap;
            let distance = patch.tap(if tap < product.taps { tap } else { 0 });
            let mut sums = [[[0.0; 4]; 8]; M];
            let mut tile = part.start;
            while tile < part.end {
                sync_threads();
                let base = layout.buffers + round % 2 * layout.buffer;
                let rows = base + layout.dy + warp_row * 16 * M as u32 * element;
                let columns = base + warp_column * WARP_CHANNELS * element;
                let met = round % 2 * pixels * 4;
                let mut step = 0;
                while step < pixels {
                    // SAFETY: the buffer and the table were complete before the barrier; all lanes are here.
                    unsafe {
                        let x_row = |index: u32| {
                            let met: u32 = shared_load(met + index * 4);
                            let entry = if met == NOWHERE { entries } else { met + distance };
                            columns + entry * pitch_x + vector_at::<E>(entry, 0)
                        };
                        let dy_row = |pixel: u32| rows + pixel * pitch_dy + vector_at::<E>(pixel, 0);
                        multiply::<E, M, SPLIT>(
                            step,
                            if SPLIT { lane } else { fresh(lane) },
                            dy_row,
                            x_row,
                            &mut sums,
                        );
                    }
                    step += 32 / element;
                }
                (tile, round) = (tile + 1, round + 1);
            }
            // The warp's place is found again, so that it takes no registers over the run.
            let (rest, warp_row) = product.warp_rows.divmod(fresh(warp));
            let (warp_tap, warp_column) = product.warp_columns.divmod(rest);
            let tap = part.first_tap + warp_tap;
            if tap < product.taps {
                let row = part.first_row + warp_row * 16 * M as u32;
                let column = part.first_column + warp_column * WARP_CHANNELS;
                // SAFETY: the elements lie in the run's sums, and no other thread has them.
                unsafe {
                    let corner = [row, column, tap];
                    let again = store::<M, SPLIT>(partial, product, part.sums, corner, &sums);
                    if SPLIT && again != 0 {
                        compute_again::<E>(dy, x, partial, product, &part, corner, again);
                    }
                }
            }
            block += grid_dim_x();
        }
    }
}

/// A block's work: channels of dy and of x, taps, and a run of tiles.
#[derive(Clone, Copy)]
struct Part {
    group: u32,
    first_row: u32,
    first_column: u32,
    rows: u32,
    columns: u32,
    first_tap: u32,
    start: u32,
    end: u32,
    /// The number of the run's and group's sums.
    sums: u32,
}

impl Part {
    #[inline(always)]
    fn new(product: &PatchGradient, block: u32, rows: u32, columns: u32) -> Self {
        let (rest, row_block) = product.row_blocks.divmod(block);
        let (rest, column_block) = product.column_blocks.divmod(rest);
        let (sums, tap_block) = product.tap_blocks.divmod(rest);
        let (run, group) = product.groups.divmod(sums);
        let start = run * product.run;
        let left = product.pixel_tiles - start;
        Self {
            group,
            first_row: row_block * rows,
            first_column: column_block * columns,
            rows,
            columns,
            first_tap: tap_block * product.block_taps,
            start,
            end: start + if left < product.run { left } else { product.run },
            sums,
        }
    }
}

/// Brings a tile's x and dy, and notes where the pixels' entries lie.
///
/// # Safety
/// As for `gradient`; the threads, numbered from 0, are the only ones that touch the buffer until the next barrier.
#[inline(always)]
unsafe fn bring_tile<E: Factor, const SPLIT: bool>(
    dy: *const E,
    x: *const E,
    product: &PatchGradient,
    layout: &Layout,
    part: &Part,
    tile: u32,
    buffer: u32,
    [thread, threads]: [u32; 2],
) {
    // What follows from the thread's number would take registers over all tiles.
    let thread = fresh(thread);
    let pixels = product.pixels.divisor();
    let place = product.x.place(tile);
    let mut index = thread;
    while index < pixels {
        let pixel = product.x.pixel(index);
        let met = if product.x.counts(place, pixel) { product.x.met(pixel) } else { NOWHERE };
        // SAFETY: the place is this thread's until the next barrier.
        unsafe { shared_store((buffer * pixels + index) * 4, met) };
        index += threads;
    }
    let base = layout.buffers + buffer * layout.buffer;
    let at_x = |entry: u32, group: u32| base + entry * layout.pitch_x + vector_at::<E>(entry, group);
    let at_dy =
        |entry: u32, group: u32| base + layout.dy + entry * layout.pitch_dy + vector_at::<E>(entry, group);
    // SAFETY: by this function's contract.
    unsafe {
        let some = [thread, threads];
        let first = [part.first_column, part.columns, product.channels];
        bring_channels::<E, SPLIT>(x, &product.x, layout.reads_x, place, part.group, first, some, at_x);
        let first = [part.first_row, part.rows, product.rows];
        bring_channels::<E, SPLIT>(
            dy,
            &product.dy,
            layout.reads_dy,
            product.dy.place(tile),
            part.group,
            first,
            some,
            at_dy,
        );
    }
}

/// Brings `count` channels of a tile from channel `first` of a group's `channels` on.
///
/// # Safety
/// As for [`bring_tile`].
#[inline(always)]
unsafe fn bring_channels<E: Factor, const SPLIT: bool>(
    image: *const E,
    patch: &Patch,
    table: u32,
    place: Place,
    group: u32,
    [first, count, channels]: [u32; 3],
    some: [u32; 2],
    at: impl Fn(u32, u32) -> u32,
) {
    let from = image.wrapping_offset(
        (i64::from(place.n) * patch.image + i64::from(group * channels + first) * i64::from(patch.channel))
            as isize,
    );
    let live = channels.saturating_sub(first);
    let extents = [live, count / vector::<E>()];
    // SAFETY: by this function's contract.
    unsafe {
        if size_of::<E>() == 2 {
            bring::<E, SPLIT, 3>(patch, table, place, from, extents, some, at);
        } else {
            bring::<E, SPLIT, 2>(patch, table, place, from, extents, some, at);
        }
    }
}

/// Fills what no tile brings: in both buffers, the entry of zeros and the pixels behind a tile's last.
///
/// # Safety
/// The launch gave room for them.
#[inline(always)]
unsafe fn fill_zeros(product: &PatchGradient, layout: &Layout, thread: u32, threads: u32) {
    let mut at = layout.buffers + thread * 16;
    let zeros = layout.zeros;
    let tail = layout.dy + product.dy.entries.divisor() * layout.pitch_dy;
    let mut offset = thread * 16;
    while offset < layout.pitch_x {
        // SAFETY: by this function's contract.
        unsafe {
            shared_store16(layout.buffers + zeros + offset, [0; 4]);
            shared_store16(layout.buffers + layout.buffer + zeros + offset, [0; 4]);
        }
        offset += threads * 16;
    }
    at += tail;
    let end = layout.buffers + layout.buffer;
    while at < end {
        // SAFETY: by this function's contract.
        unsafe {
            shared_store16(at, [0; 4]);
            shared_store16(at + layout.buffer, [0; 4]);
        }
        at += threads * 16;
    }
}

/// Stores a warp's part of dw to the sums of run and group `part`; split, leaves out what is not finite and returns it
/// as bits: infinities have no small part.
///
/// # Safety
/// `partial` is valid for all runs' sums, and no other thread has the elements.
#[inline(always)]
unsafe fn store<const M: usize, const SPLIT: bool>(
    partial: *mut f32,
    product: &PatchGradient,
    part: u32,
    [row, column, tap]: [u32; 3],
    sums: &[[[f32; 4]; 8]; M],
) -> u64 {
    let mut again = 0;
    let lane = fresh(thread_idx_x()) % 32;
    let mut i = 0;
    while i < 2 * M as u32 {
        let row = row + lane / 4 + i * 8;
        let line = (i64::from(part) * i64::from(product.taps) + i64::from(tap)) * i64::from(product.rows);
        let base = (line + i64::from(row)) * i64::from(product.channels);
        let mut j = 0;
        while j < 16 {
            let column = column + lane % 4 * 2 + j / 2 * 8 + j % 2;
            if row < product.rows && column < product.channels {
                let sum = sums[i as usize / 2][j as usize / 2][(i % 2 * 2 + j % 2) as usize];
                if SPLIT && !sum.is_finite() {
                    again |= 1 << (i * 16 + j);
                } else {
                    // SAFETY: by this function's contract.
                    unsafe { *partial.wrapping_offset((base + i64::from(column)) as isize) = sum };
                }
            }
            j += 1;
        }
        i += 1;
    }
    again
}

/// Computes a thread's elements, given as [`store`] returns them, by fused multiply-adds.
///
/// # Safety
/// As for `gradient`.
#[inline(always)]
unsafe fn compute_again<E: Factor>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &PatchGradient,
    part: &Part,
    [row, column, tap]: [u32; 3],
    mut again: u64,
) {
    let lane = thread_idx_x() % 32;
    while again != 0 {
        let bit = again.trailing_zeros();
        again &= again - 1;
        let (i, j) = (bit / 16, bit % 16);
        let row = row + lane / 4 + i * 8;
        let column = column + lane % 4 * 2 + j / 2 * 8 + j % 2;
        let dy_channel = i64::from(part.group * product.rows + row) * i64::from(product.dy.channel);
        let x_channel = i64::from(part.group * product.channels + column) * i64::from(product.x.channel);
        let mut sum = 0.0;
        let mut tile = part.start;
        while tile < part.end {
            let (place, dy_place) = (product.x.place(tile), product.dy.place(tile));
            let mut index = 0;
            while index < product.dy.entries.divisor() {
                let pixel = product.x.pixel(index);
                let entry = product.x.entry(product.x.met(pixel) + product.x.tap(tap));
                let take = product.x.counts(place, pixel) & product.x.inside(place, entry);
                let of_dy = product.dy.offset(dy_place, product.dy.entry(index));
                let dy_at = i64::from(place.n) * product.dy.image + dy_channel + i64::from(of_dy);
                let of_x = product.x.offset(place, entry);
                let x_at = i64::from(place.n) * product.x.image + x_channel + i64::from(of_x);
                // SAFETY: the pixel lies in dy and the entry in the image if they are taken.
                unsafe {
                    let left = load_if(take, dy.wrapping_offset(dy_at as isize), E::narrow(0.0));
                    let right = load_if(take, x.wrapping_offset(x_at as isize), E::narrow(0.0));
                    sum = if take { E::mul_add(left, right, sum) } else { sum };
                }
                index += 1;
            }
            tile += 1;
        }
        let line = (part.sums * product.taps + tap) * product.rows + row;
        let at = i64::from(line) * i64::from(product.channels) + i64::from(column);
        // SAFETY: the element lies in the run's sums, and no other thread has it.
        unsafe { *partial.wrapping_offset(at as isize) = sum };
    }
}

/// Adds the product of one step of pixels: dy, transposed, times x. `dy_row` and `x_row` give the place of a pixel's
/// first vector; the others' places differ from it in the bits of their number.
///
/// # Safety
/// The rows were stored before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn multiply<E: Factor, const M: usize, const SPLIT: bool>(
    first: u32,
    lane: u32,
    dy_row: impl Fn(u32) -> u32,
    x_row: impl Fn(u32) -> u32,
    sums: &mut [[[f32; 4]; 8]; M],
) {
    let mut right = [[0; 2]; 8];
    if size_of::<E>() == 2 {
        let at = x_row(first + lane / 8 % 2 * 8 + lane % 8) ^ (lane / 16 * 16);
        let mut j = 0;
        while j < 4 {
            // SAFETY: by this function's contract.
            let [a, b, c, d] = unsafe { load_matrices::<true>(at ^ (j as u32 * 32)) };
            right[2 * j] = [a, b];
            right[2 * j + 1] = [c, d];
            j += 1;
        }
    } else {
        // A vector has four of the eight columns of a fragment.
        let at = |pixel: u32| (x_row(first + pixel) ^ (lane / 16 * 16)) + lane / 4 % 4 * 4;
        let (low, high) = (at(lane % 4), at(lane % 4 + 4));
        let mut j = 0;
        while j < 8 {
            let column = |at: u32| (at ^ (j as u32 % 4 * 32)) + j as u32 / 4 * 128;
            // SAFETY: by this function's contract.
            right[j] = unsafe { [shared_load(column(low)), shared_load(column(high))] };
            j += 1;
        }
    }
    let (near, far) = if size_of::<E>() == 2 {
        let at = dy_row(first + lane / 16 * 8 + lane % 8) ^ (lane / 8 % 2 * 16);
        (at, at)
    } else {
        let at = |pixel: u32| (dy_row(first + pixel) ^ (lane / 16 * 16)) + lane / 4 % 4 * 4;
        (at(lane % 4), at(lane % 4 + 4))
    };
    // SAFETY: by this function's contract.
    let left = |i: u32| unsafe {
        if size_of::<E>() == 2 {
            load_matrices::<true>((near ^ (i % 4 * 32)) + i / 4 * 128)
        } else {
            let row = |at: u32, half: u32| (at ^ (i % 2 * 64 + half * 32)) + i / 2 * 128;
            [
                shared_load(row(near, 0)),
                shared_load(row(near, 1)),
                shared_load(row(far, 0)),
                shared_load(row(far, 1)),
            ]
        }
    };
    if SPLIT {
        // The parts of a column fragment live shorter this way round.
        let mut all = [[0; 4]; M];
        let mut i = 0;
        while i < M {
            all[i] = left(i as u32);
            i += 1;
        }
        let mut j = 0;
        while j < 8 {
            i = 0;
            while i < M {
                // SAFETY: all lanes of the warp are here.
                sums[i][j] = unsafe { multiply_split(all[i], right[j], sums[i][j]) };
                i += 1;
            }
            j += 1;
        }
    } else {
        // f32 fragments come word by word: half of the columns at a time leaves enough registers.
        let width = if size_of::<E>() == 2 { 8 } else { 4 };
        let mut start = 0;
        while start < 8 {
            let mut i = 0;
            while i < M {
                let left = left(i as u32);
                let mut j = start;
                while j < start + width {
                    // SAFETY: all lanes of the warp are here.
                    sums[i][j] = unsafe { E::mma(left, right[j], sums[i][j]) };
                    j += 1;
                }
                i += 1;
            }
            start += width;
        }
    }
}

/// Partial sums of wgrad, 64 output channels a warp.
///
/// # Safety
/// As for `gradient`.
#[inline(always)]
pub unsafe fn conv2d_patch_dw<E: Factor>(dy: *mut E, x: *mut E, partial: *mut f32, described: PatchGradient) {
    // SAFETY: by this function's contract.
    unsafe { gradient::<E, 4, false>(dy, x, partial, &described) };
}

entry! { sm_80 single conv2d_patch_dw {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(described: PatchGradient)
    constants()
    barriers(4)
    threads(384, 1)
} }

/// Partial sums of wgrad with split products, 32 output channels a warp.
///
/// # Safety
/// As for `gradient`.
#[inline(always)]
pub unsafe fn conv2d_patch_dw_split<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: PatchGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { gradient::<E, 2, true>(dy, x, partial, &described) };
}

entry! { sm_80 f32 conv2d_patch_dw_split {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(described: PatchGradient)
    constants()
    barriers(4)
    threads(384, 1)
} }
