//! The convolution's wgrad on tensor cores, from patches of the image in shared memory.
//!
//! A block takes a run of pixel tiles and, of dw, some channels and at most so many taps as it has warps. Each tile's
//! part of dy and its [`Patch`] of x come to shared memory once, channels fastest; each multiplying warp then multiplies
//! dy with the patch moved by its own tap, reducing over pixels, and keeps its part of dw in registers over the whole
//! run, while other warps gather the next tile. The runs' partial sums are added in their order by
//! `conv2d_dw_reduce`.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, grid_dim_x, load_matrices, shared_load, shared_store, shared_store16,
    sync_threads, thread_idx_x,
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

/// Bytes that keep neighbouring rows' 16 or 4 bytes in different banks.
#[inline(always)]
const fn pad<E>() -> u32 {
    if size_of::<E>() == 2 { 16 } else { 32 }
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
    let pitch_x = block_columns * element + pad::<E>();
    let pitch_dy = block_rows * element + pad::<E>();
    let dy_at = (entries + 1) * pitch_x;
    let reads_x = (2 * pixels * 4).next_multiple_of(16);
    let layout = Layout {
        pitch_x,
        pitch_dy,
        reads_x,
        reads_dy: reads_x + patch.reads.divisor() * 16,
        buffers: reads_x + (patch.reads.divisor() + product.dy.reads.divisor()) * 16,
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
        let some = [thread - 32 * consumers, threads - 32 * consumers];
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
            let distance = patch.tap(if tap < product.taps { tap } else { 0 }) * pitch_x;
            let mut sums = [[[0.0; 4]; 8]; M];
            let mut tile = part.start;
            while tile < part.end {
                sync_threads();
                let base = layout.buffers + round % 2 * layout.buffer;
                let rows = base + layout.dy + warp_row * 16 * M as u32 * element;
                let met = round % 2 * pixels * 4;
                let mut step = 0;
                while step < pixels {
                    // SAFETY: the buffer and the table were complete before the barrier; all lanes are here.
                    unsafe {
                        let x_row = |index: u32| {
                            let met: u32 = shared_load(met + index * 4);
                            let at = if met == NOWHERE { layout.zeros } else { met + distance };
                            base + at + warp_column * WARP_CHANNELS * element
                        };
                        multiply::<E, M, SPLIT>(rows, pitch_dy, step, lane, x_row, &mut sums);
                    }
                    step += 32 / element;
                }
                (tile, round) = (tile + 1, round + 1);
            }
            if tap < product.taps {
                let row = part.first_row + warp_row * 16 * M as u32;
                let column = part.first_column + warp_column * WARP_CHANNELS;
                // SAFETY: the elements lie in the run's sums, and no other thread has them.
                unsafe { store(partial, product, part.sums, [row, column, tap], &sums) };
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
/// As for [`gradient`]; the threads, numbered from 0, are the only ones that touch the buffer until the next barrier.
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
    let pixels = product.pixels.divisor();
    let place = product.x.place(tile);
    let mut index = thread;
    while index < pixels {
        let pixel = product.x.pixel(index);
        let met =
            if product.x.counts(place, pixel) { product.x.met(pixel) * layout.pitch_x } else { NOWHERE };
        // SAFETY: the place is this thread's until the next barrier.
        unsafe { shared_store((buffer * pixels + index) * 4, met) };
        index += threads;
    }
    let base = layout.buffers + buffer * layout.buffer;
    let at_x = |entry: u32, group: u32| base + entry * layout.pitch_x + group * 16;
    let at_dy = |entry: u32, group: u32| base + layout.dy + entry * layout.pitch_dy + group * 16;
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
    let live = if first < channels { channels - first } else { 0 };
    let extents = [live, count / vector::<E>()];
    // SAFETY: by this function's contract.
    unsafe {
        if SPLIT {
            bring::<E, false, 3>(patch, table, place, from, extents, some, at);
        } else {
            bring::<E, true, 3>(patch, table, place, from, extents, some, at);
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

/// Stores a warp's part of dw to the sums of run and group `part`.
///
/// # Safety
/// `partial` is valid for all runs' sums, and no other thread has the elements.
#[inline(always)]
unsafe fn store<const M: usize>(
    partial: *mut f32,
    product: &PatchGradient,
    part: u32,
    [row, column, tap]: [u32; 3],
    sums: &[[[f32; 4]; 8]; M],
) {
    let lane = thread_idx_x() % 32;
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
                // SAFETY: by this function's contract.
                unsafe { *partial.wrapping_offset((base + i64::from(column)) as isize) = sum };
            }
            j += 1;
        }
        i += 1;
    }
}

/// Adds the product of one step of pixels: dy, transposed, times x. `x_row` gives the place of a pixel's row.
///
/// # Safety
/// The rows were stored before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn multiply<E: Factor, const M: usize, const SPLIT: bool>(
    rows: u32,
    pitch_dy: u32,
    first: u32,
    lane: u32,
    x_row: impl Fn(u32) -> u32,
    sums: &mut [[[f32; 4]; 8]; M],
) {
    let mut right = [[0; 2]; 8];
    if size_of::<E>() == 2 {
        let at = x_row(first + lane / 8 % 2 * 8 + lane % 8) + lane / 16 * 16;
        let mut j = 0;
        while j < 4 {
            // SAFETY: by this function's contract.
            let [a, b, c, d] = unsafe { load_matrices::<true>(at + j as u32 * 32) };
            right[2 * j] = [a, b];
            right[2 * j + 1] = [c, d];
            j += 1;
        }
    } else {
        let low = x_row(first + lane % 4) + lane / 4 * 4;
        let high = x_row(first + 4 + lane % 4) + lane / 4 * 4;
        let mut j = 0;
        while j < 8 {
            // SAFETY: by this function's contract.
            right[j] = unsafe { [shared_load(low + j as u32 * 32), shared_load(high + j as u32 * 32)] };
            j += 1;
        }
    }
    let mut i = 0;
    while i < M {
        // SAFETY: by this function's contract.
        let left: [u32; 4] = unsafe {
            if size_of::<E>() == 2 {
                let at = rows + (first + lane / 16 * 8 + lane % 8) * pitch_dy + lane / 8 % 2 * 16;
                load_matrices::<true>(at + i as u32 * 32)
            } else {
                let at = rows + (first + lane % 4) * pitch_dy + lane / 4 * 4 + i as u32 * 64;
                let far = at + 4 * pitch_dy;
                [shared_load(at), shared_load(at + 32), shared_load(far), shared_load(far + 32)]
            }
        };
        let mut j = 0;
        while j < 8 {
            // SAFETY: all lanes of the warp are here.
            unsafe {
                sums[i][j] = if SPLIT {
                    multiply_split(left, right[j], sums[i][j])
                } else {
                    E::mma(left, right[j], sums[i][j])
                };
            }
            j += 1;
        }
        i += 1;
    }
}

/// Partial sums of wgrad, 64 output channels a warp.
///
/// # Safety
/// As for [`gradient`].
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
