//! The convolution's wgrad on tensor cores, from patches of the image in shared memory.
//!
//! A block takes a run of pixel tiles and, of dw, some channels and at most so many taps as it has warps. Each tile's
//! part of dy and its [`Patch`] of x come to shared memory once, channels fastest; each multiplying warp then multiplies
//! dy with the patch moved by its own tap, reducing over pixels, and keeps its part of dw in registers over the whole
//! run, while other warps gather the next tile. The runs' partial sums are added in their order by
//! `conv2d_dw_reduce`.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, load_matrices, opaque, shared_load, shared_store, shared_store16, sync_threads,
    thread_idx_x,
};
use crate::mma::{Factor, gather_vector, multiply_split, vector};
use crate::patch::{Entry, Patch, Pixel, Place};

/// Columns of a warp's part: input channels.
pub const WARP_CHANNELS: u32 = 64;

/// A pixel that no result has.
const NOWHERE: u32 = u32::MAX;

/// The product of wgrad. Divisors lie on 8-byte boundaries: the compiler takes the parameters apart into words of 8
/// bytes, and one that is copied across two of them would be put together again in local memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PatchGradient {
    /// How tiles meet x.
    pub patch: Patch,
    /// Elements of dy between batch items.
    pub dy_image: i64,
    /// Elements of dy between channels.
    pub dy_channel: i32,
    /// Elements of dy between rows.
    pub dy_row: i32,
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
    /// For each buffer, where its pixels' entries lie from the buffer's start, or [`NOWHERE`].
    met: u32,
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

/// A run's partial sums of dw, to `partial[run][group][row][channel][tap]`. Each warp has `16·M` output channels.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, `partial` for all runs' sums; it overlaps
/// neither. The grid has at least `product.blocks` blocks. A block has a warp for each of its rows, columns and taps, others
/// that gather, and the shared memory of two buffers and the
/// tables.
#[inline(always)]
unsafe fn gradient<E: Factor, const M: usize, const SPLIT: bool>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &PatchGradient,
) {
    let patch = &product.patch;
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
    let layout = Layout {
        pitch_x,
        pitch_dy,
        met: (entries + pixels) * 8,
        buffers: ((entries + 2 * pixels) * 8).next_multiple_of(16),
        buffer: dy_at + pixels * pitch_dy,
        dy: dy_at,
        zeros: entries * pitch_x,
    };
    // SAFETY: the launch gave room; the first barrier of the loop parts this from the readers.
    unsafe { fill_tables(product, layout, thread, threads) };
    let block = block_idx_x();
    if block < product.blocks {
        let (rest, row_block) = product.row_blocks.divmod(block);
        let (rest, column_block) = product.column_blocks.divmod(rest);
        let (rest, tap_block) = product.tap_blocks.divmod(rest);
        let (run, group) = product.groups.divmod(rest);
        let (first_row, first_column) = (row_block * block_rows, column_block * block_columns);
        let tap = tap_block * product.block_taps + warp_tap;
        let distance = patch.tap(if tap < product.taps { tap } else { 0 }) * pitch_x;
        let start = run * product.run;
        let end =
            if product.pixel_tiles - start < product.run { product.pixel_tiles } else { start + product.run };
        // A round gathers a tile and multiplies the one before. Both kinds of warps have their own loop, so that those
        // that gather need no registers for sums; at the barriers they meet.
        let mut tile = start;
        if warp >= consumers {
            while tile <= end {
                sync_threads();
                if tile < end {
                    let buffer = (tile - start) % 2;
                    let part = Part { group, first_row, first_column, place: patch.place(tile), buffer };
                    let (thread, threads) = (thread - 32 * consumers, threads - 32 * consumers);
                    // SAFETY: the other buffer is read in this round; each place belongs to one thread.
                    unsafe { bring::<E, SPLIT>(dy, x, product, layout, &part, thread, threads) };
                }
                tile += 1;
            }
        } else {
            let mut sums = [[[0.0; 4]; 8]; M];
            while tile <= end {
                sync_threads();
                let buffer = (tile - start + 1) % 2;
                let base = layout.buffers + buffer * layout.buffer;
                let rows = base + layout.dy + warp_row * 16 * M as u32 * element;
                let met = layout.met + buffer * pixels * 4;
                let mut step = if tile > start { 0 } else { pixels };
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
                tile += 1;
            }
            if tap < product.taps {
                let row = first_row + warp_row * 16 * M as u32;
                let column = first_column + warp_column * WARP_CHANNELS;
                // SAFETY: the elements lie in the run's sums, and no other thread has them.
                unsafe { store(partial, product, rest, [row, column, tap], &sums) };
            }
        }
    }
}

/// What the gathering warps of a block bring: the channels, the tile and the buffer.
struct Part {
    group: u32,
    first_row: u32,
    first_column: u32,
    place: Place,
    buffer: u32,
}

/// Gathers a tile's entries of x and pixels of dy, a thread 64 channels of one at a time, and
/// notes where the pixels' entries lie.
///
/// # Safety
/// As for [`gradient`]; the threads, numbered from 0, are the only ones that touch the buffer until the next barrier.
#[inline(always)]
unsafe fn bring<E: Factor, const SPLIT: bool>(
    dy: *const E,
    x: *const E,
    product: &PatchGradient,
    layout: Layout,
    part: &Part,
    thread: u32,
    threads: u32,
) {
    let (patch, place) = (&product.patch, part.place);
    let (entries, pixels) = (patch.entries.divisor(), product.pixels.divisor());
    let mut index = thread;
    while index < pixels {
        // SAFETY: the table was filled before a barrier; the place is this thread's until the next.
        unsafe {
            let pixel = unpack(shared_load((entries + index) * 8 + 4));
            let met = if patch.counts(place, pixel) { patch.met(pixel) * layout.pitch_x } else { NOWHERE };
            shared_store(layout.met + (part.buffer * pixels + index) * 4, met);
        }
        index += threads;
    }
    let of_x = entries * product.warp_columns.divisor();
    let all = of_x + pixels * product.warp_rows.divisor();
    let to = layout.buffers + part.buffer * layout.buffer;
    let mut item = thread;
    while item < all {
        let is_x = item < of_x;
        let (chunk, index) = pick(is_x, patch.entries.divmod(item), product.pixels.divmod(item - of_x));
        let table = pick(is_x, index, entries + index) * 8;
        // SAFETY: the table was filled before a barrier.
        let (offset, packed): (i32, u32) = unsafe { (shared_load(table), shared_load(table + 4)) };
        let pixel = unpack(packed);
        let entry = Entry { n: pixel.n, h: pixel.y as i32, w: pixel.x as i32 };
        let inside = pick(is_x, patch.inside(place, entry), patch.counts(place, pixel));
        let first = chunk * WARP_CHANNELS + pick(is_x, part.first_column, part.first_row);
        let channels = pick(is_x, product.channels, product.rows);
        let live = if inside & (first < channels) { channels - first } else { 0 };
        let step = pick(is_x, patch.channel, product.dy_channel);
        let at = i64::from(place.n) * pick(is_x, patch.image, product.dy_image)
            + i64::from(part.group * channels + first) * i64::from(step)
            + i64::from(pick(is_x, place.h, place.y as i32)) * i64::from(pick(is_x, patch.w, product.dy_row))
            + i64::from(pick(is_x, place.w, place.x as i32))
            + i64::from(offset);
        let from = pick(is_x, x, dy).wrapping_offset(at as isize);
        let row = pick(is_x, index * layout.pitch_x, layout.dy + index * layout.pitch_dy);
        let row = to + row + chunk * WARP_CHANNELS * size_of::<E>() as u32;
        let gather = |v: u32| {
            let before = v * vector::<E>();
            let left = if live > before { live - before } else { 0 };
            let from = from.wrapping_offset(before as isize * step as isize);
            // SAFETY: the element lies in the image, or the pixel in dy, and so many channels are the group's.
            unsafe {
                if SPLIT {
                    gather_vector::<E, false>(from, step, left)
                } else {
                    gather_vector::<E, true>(from, step, left)
                }
            }
        };
        let (mut v, end) = (0, opaque(WARP_CHANNELS / vector::<E>()));
        while v < end {
            let vectors = [gather(v), gather(v + 1), gather(v + 2), gather(v + 3)];
            let mut u = 0;
            while u < 4 {
                // SAFETY: each place belongs to one thread.
                unsafe { shared_store16(row + (v + u) * 16, vectors[u as usize]) };
                u += 1;
            }
            v += 4;
        }
        item += threads;
    }
}

/// One of two values that are both at hand. A branch would have the compiler choose between places in the parameters,
/// for which they would have to lie in memory.
#[inline(always)]
fn pick<T>(first: bool, yes: T, no: T) -> T {
    if first { yes } else { no }
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
        let base = (i64::from(part) * i64::from(product.rows) + i64::from(row)) * i64::from(product.channels);
        let mut j = 0;
        while j < 16 {
            let column = column + lane % 4 * 2 + j / 2 * 8 + j % 2;
            if row < product.rows && column < product.channels {
                let at = (base + i64::from(column)) * i64::from(product.taps) + i64::from(tap);
                let sum = sums[i as usize / 2][j as usize / 2][(i % 2 * 2 + j % 2) as usize];
                // SAFETY: by this function's contract.
                unsafe { *partial.wrapping_offset(at as isize) = sum };
            }
            j += 1;
        }
        i += 1;
    }
}

/// A place in a tile in one word: the table's second.
#[inline(always)]
fn pack(n: u32, y: u32, x: u32) -> u32 {
    (n << 24) | (y << 12) | x
}

#[inline(always)]
fn unpack(word: u32) -> Pixel {
    Pixel { n: word >> 24, y: (word >> 12) & 0xfff, x: word & 0xfff }
}

/// Fills the tables, an offset and a place for each entry and each pixel, and the zeros of both buffers.
///
/// # Safety
/// The launch gave room for them.
#[inline(always)]
unsafe fn fill_tables(product: &PatchGradient, layout: Layout, thread: u32, threads: u32) {
    let patch = &product.patch;
    let (entries, pixels) = (patch.entries.divisor(), product.pixels.divisor());
    let mut index = thread;
    while index < entries + pixels {
        let (offset, place) = if index < entries {
            let entry = patch.entry(index);
            let offset = i64::from(entry.n) * patch.image + i64::from(entry.h * patch.w + entry.w);
            (offset as i32, pack(entry.n, entry.h as u32, entry.w as u32))
        } else {
            let pixel = patch.pixel(index - entries);
            let inside = i64::from(pixel.y) * i64::from(product.dy_row) + i64::from(pixel.x);
            let offset = i64::from(pixel.n) * product.dy_image + inside;
            // Those behind the tile's last have an image that no tile has.
            let n = if pixel.n < patch.tile_n { pixel.n } else { 0xff };
            (offset as i32, pack(n, pixel.y, pixel.x))
        };
        // SAFETY: by this function's contract.
        unsafe {
            shared_store(index * 8, offset);
            shared_store(index * 8 + 4, place);
        }
        index += threads;
    }
    let mut at = thread * 16;
    while at < layout.pitch_x {
        // SAFETY: by this function's contract.
        unsafe {
            shared_store16(layout.buffers + layout.zeros + at, [0; 4]);
            shared_store16(layout.buffers + layout.buffer + layout.zeros + at, [0; 4]);
        }
        at += threads * 16;
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
    barriers(2)
    threads(384, 1)
} }
