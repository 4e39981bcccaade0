//! Forward and dgrad of 1×1 filters on tensor cores: plain products of matrices, read from NCHW as they are.
//!
//! A block has a tile at a time: channels by pixels of the result, numbered over the whole batch. It walks over the
//! reduced channels, 64 bytes of elements a step: `cp.async` brings the step's rows of the packed filter, and its channels
//! at the tile's pixels, three steps ahead of the products. Vectors of pixels do not reach over the end of a batch item.

use crate::conv2d_patch::{exchange, four, row_at};
use crate::conv2d_prepare::ROW;
use crate::divmod::FastDivmod;
use crate::gpu::{
    block_idx_x, commit_copies, copy16_async_if, fresh, grid_dim_x, load_matrices, shared_load, sync_threads,
    thread_idx_x, to_tf32, wait_copies,
};
use crate::mma::{Factor, FragmentSums, vector};
use crate::num::put;

/// Steps that are on their way or being multiplied.
const STEPS: u32 = 4;

/// Pixels of a block's tile, and of a warp.
const PIXELS: u32 = 128;
const WARP_PIXELS: u32 = 32;

/// The product of forward and dgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PointwiseProduct {
    /// Elements of the source between batch items.
    pub image: i64,
    /// Elements of the result between batch items.
    pub out_image: i64,
    /// Whether to add to the result.
    pub accumulate: u32,
    /// Whether four pixels from a multiple of four on lie on their boundary in the result.
    pub together: u32,
    /// Channels of the result, in a group.
    pub rows: u32,
    /// The same, padded to whole tiles.
    pub padded_rows: u32,
    /// Channels of the reduction, in a group.
    pub channels: u32,
    /// Steps of the reduction.
    pub chunks: u32,
    /// Pixels of the batch.
    pub pixels: u32,
    /// Tiles of all groups.
    pub tiles: u32,
    /// Divides by tiles along the channels.
    pub row_tiles: FastDivmod,
    /// Divides by tiles of pixels.
    pub pixel_tiles: FastDivmod,
    /// Divides by pixels of a batch item, the elements of a channel.
    pub plane: FastDivmod,
}

/// Channels of a step.
const fn step_channels<E>() -> u32 {
    ROW / size_of::<E>() as u32
}

/// The place of a vector of a channel's pixels in a step, permuted so that the channels that a fragment takes together
/// spread over all banks.
#[inline(always)]
fn vector_at<E>(channel: u32, vector: u32) -> u32 {
    let spread = if size_of::<E>() == 2 { channel % 8 } else { channel % 4 * 2 };
    channel * PIXELS * size_of::<E>() as u32 + (vector ^ spread) * 16
}

/// Where a lane finds a warp's part of the pixels in a step.
#[inline(always)]
fn pixels_at<E>(lane: u32, pixel: u32) -> u32 {
    if size_of::<E>() == 2 {
        vector_at::<E>(lane % 16, pixel / 8 + lane / 16)
    } else {
        vector_at::<E>(lane % 4, pixel / 4 + lane / 16) + lane / 4 % 4 * 4
    }
}

/// Four fragments of pixels for the first or the second half of a step's channels.
///
/// # Safety
/// The channels were there before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn load_pixels<E: Factor>(at: u32, half: u32) -> [[u32; 2]; 4] {
    let pitch = PIXELS * size_of::<E>() as u32;
    let at = at + half * step_channels::<E>() / 2 * pitch;
    let mut right = [[0; 2]; 4];
    let mut j = 0;
    while j < 4 {
        // SAFETY: by this function's contract; eight pixels on are a permuted vector on, or two.
        unsafe {
            if size_of::<E>() == 2 {
                let [a, b, c, d] = load_matrices::<true>(at ^ (j as u32 * 16));
                (right[j], right[j + 1]) = ([a, b], [c, d]);
                j += 2;
            } else {
                let at = at ^ (j as u32 * 32);
                let word = |at: u32| to_tf32(shared_load::<f32>(at)).to_bits();
                right[j] = [word(at), word(at + 4 * pitch)];
                j += 1;
            }
        }
    }
    right
}

/// What a thread brings in every step: 16-byte parts of rows of the filter, and vectors of two channels' pixels.
#[derive(Clone, Copy)]
struct Bringer<E> {
    source: *const E,
    filter: *const u8,
    /// Whether its pixels lie in the batch, and the step's first channel.
    some: bool,
    channel: u32,
}

impl<E: Factor> Bringer<E> {
    /// Vectors of a channel's pixels, and channels that the block's threads bring together.
    const VECTORS: u32 = PIXELS * size_of::<E>() as u32 / 16;
    const TOGETHER: u32 = 256 / Self::VECTORS;

    #[inline(always)]
    fn new(source: *const E, packed: *const E, product: &PointwiseProduct, tile: &Tile) -> Self {
        let thread = thread_idx_x();
        let pixel = tile.first_pixel + thread % Self::VECTORS * vector::<E>();
        let channel = thread / Self::VECTORS;
        let (n, within) = product.plane.divmod(pixel);
        let plane = i64::from(product.plane.divisor());
        let first = i64::from(tile.group * product.channels + channel) * plane;
        let at = i64::from(n) * product.image + first + i64::from(within);
        let row = tile.group * product.chunks * product.padded_rows + tile.first_row + thread / 4;
        Self {
            source: source.wrapping_offset(at as isize),
            filter: packed.cast::<u8>().wrapping_add((row * ROW + thread % 4 * 16) as usize),
            some: pixel < product.pixels,
            channel,
        }
    }

    /// Starts a step's copies to a buffer, and goes on to the next step.
    ///
    /// # Safety
    /// The tensors are valid as `product` describes them; nobody touches the buffer before the copies were waited for.
    #[inline(always)]
    unsafe fn bring<const ROWS: u32>(&mut self, product: &PointwiseProduct, some: bool, buffer: u32) {
        let thread = fresh(thread_idx_x());
        let plane = product.plane.divisor() as usize;
        let (vector, channel) = (thread % Self::VECTORS, thread / Self::VECTORS);
        let mut u = 0;
        while u < 2 {
            let more = u * Self::TOGETHER;
            let take = some & self.some & (self.channel + more < product.channels);
            let to = buffer + ROWS * ROW + vector_at::<E>(channel + more, vector);
            let from = self.source.wrapping_add(more as usize * plane);
            // SAFETY: so many pixels lie in the channel, on their boundary.
            unsafe { copy16_async_if::<true>(take, to, from.cast()) };
            u += 1;
        }
        u = 0;
        while u < ROWS / 64 {
            let to = buffer + row_at(thread / 4, thread % 4) + u * 64 * ROW;
            let from = self.filter.wrapping_add((u * 64 * ROW) as usize);
            // SAFETY: rows are padded to whole tiles.
            unsafe { copy16_async_if::<false>(some, to, from) };
            u += 1;
        }
        self.channel += step_channels::<E>();
        self.source = self.source.wrapping_add(step_channels::<E>() as usize * plane);
        self.filter = self.filter.wrapping_add((product.padded_rows * ROW) as usize);
    }
}

/// A tile of the result.
#[derive(Clone, Copy)]
struct Tile {
    group: u32,
    first_row: u32,
    first_pixel: u32,
}

impl Tile {
    #[inline(always)]
    fn new(product: &PointwiseProduct, tile: u32, rows: u32) -> Self {
        let (rest, row_tile) = product.row_tiles.divmod(tile);
        let (group, pixel_tile) = product.pixel_tiles.divmod(rest);
        Self { group, first_row: row_tile * rows, first_pixel: pixel_tile * PIXELS }
    }
}

/// Forward or dgrad, of which a block has a tile of `ROWS` channels by 128 pixels: a warp `I` fragments of 16 channels by
/// 32 pixels.
///
/// # Safety
/// `source` and `out` are valid for the tensors that `product` describes, the source on a 16-byte boundary in every
/// channel, `packed` for the filter as [`conv2d_prepare`](mod@crate::conv2d_prepare) leaves it, on a
/// 16-byte boundary; out overlaps neither. A block has 256 threads and the shared memory of the steps.
#[inline(always)]
pub unsafe fn pointwise_product<E: Factor, const I: usize, const ROWS: u32>(
    source: *const E,
    packed: *const E,
    out: *mut E,
    product: &PointwiseProduct,
) {
    const { assert!(I as u32 * 16 * 2 == ROWS) };
    let bytes = (ROWS + PIXELS) * ROW;
    let mut number = block_idx_x();
    while number < product.tiles {
        // The buffers of the tile before are free.
        sync_threads();
        let tile = Tile::new(product, number, ROWS);
        let mut bringer = Bringer::new(source, packed, product, &tile);
        let mut next = 0;
        while next < STEPS - 1 {
            // SAFETY: the buffers are free.
            unsafe { bringer.bring::<ROWS>(product, next < product.chunks, next * bytes) };
            commit_copies();
            next += 1;
        }
        let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
        let a_at = row_at(warp / 4 * 16 * I as u32 + lane % 16, lane / 16);
        let b_at = ROWS * ROW + pixels_at::<E>(lane, warp % 4 * WARP_PIXELS);
        let mut sums: FragmentSums<I, 4> = [[[0.0; 4]; 4]; I];
        let mut step = 0;
        while step < product.chunks {
            // This step's copies are there, and the buffer of the one before is free.
            wait_copies::<{ STEPS - 2 }>();
            sync_threads();
            let (buffer, next) = (step % STEPS * bytes, step + STEPS - 1);
            // SAFETY: the next buffer was read before the barrier.
            unsafe { bringer.bring::<ROWS>(product, next < product.chunks, next % STEPS * bytes) };
            commit_copies();
            let mut half = 0;
            while half < 2 {
                // SAFETY: the copies were there before the barrier; all lanes are here.
                unsafe {
                    let right = load_pixels::<E>(b_at + buffer, half);
                    let mut i = 0;
                    while i < I {
                        let at = (a_at ^ (half * 32)) + buffer + i as u32 * 16 * ROW;
                        let left = load_matrices::<false>(at);
                        let mut j = 0;
                        while j < 4 {
                            sums[i][j] = E::mma(left, right[j], sums[i][j]);
                            j += 1;
                        }
                        i += 1;
                    }
                }
                half += 1;
            }
            step += 1;
        }
        wait_copies::<0>();
        // SAFETY: the tile's elements are this block's; all lanes are here.
        unsafe { store(out, product, &tile, &sums) };
        number += grid_dim_x();
    }
}

/// Stores or adds a thread's part of a tile.
///
/// # Safety
/// The result is valid as `product` describes it, and the thread's elements are its own; all lanes of the warp call this
/// together.
#[inline(always)]
unsafe fn store<E: Factor, const I: usize>(
    out: *mut E,
    product: &PointwiseProduct,
    tile: &Tile,
    sums: &FragmentSums<I, 4>,
) {
    let thread = fresh(thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let plane = i64::from(product.plane.divisor());
    let row = tile.first_row + warp / 4 * 16 * I as u32 + lane / 4;
    let channel = i64::from(tile.group * product.rows + row) * plane;
    let mut half = 0;
    while half < 2 {
        let place = warp % 4 * WARP_PIXELS + half as u32 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
        let pixel = tile.first_pixel + place;
        let (n, within) = product.plane.divmod(pixel);
        let start =
            out.wrapping_offset((i64::from(n) * product.out_image + channel + i64::from(within)) as isize);
        let mut i = 0;
        while i < 2 * I {
            // SAFETY: all lanes are here.
            let four = unsafe { exchange(lane % 2 == 1, four(sums, i, half)) };
            if pixel < product.pixels && row + 8 * (i as u32) < product.rows {
                let to = start.wrapping_offset(8 * i as isize * plane as isize);
                // SAFETY: the elements lie in the result, on their boundary if so, and no other thread has them.
                unsafe {
                    if product.together != 0 {
                        E::store_four(to, four);
                    } else {
                        let mut u = 0;
                        while u < 4 {
                            put(to.wrapping_add(u), four[u], product.accumulate);
                            u += 1;
                        }
                    }
                }
            }
            i += 1;
        }
        half += 1;
    }
}

/// Forward or dgrad of 1×1 filters, 128 channels by 128 pixels a block.
///
/// # Safety
/// As for [`pointwise_product`].
#[inline(always)]
pub unsafe fn conv2d_pointwise_128<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PointwiseProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { pointwise_product::<E, 4, 128>(source, packed, out, &described) };
}

entry! { sm_80 single conv2d_pointwise_128 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: PointwiseProduct)
    constants()
    barriers(2)
    threads(256, 2)
} }

/// Forward or dgrad of 1×1 filters, 64 channels by 128 pixels a block.
///
/// # Safety
/// As for [`pointwise_product`].
#[inline(always)]
pub unsafe fn conv2d_pointwise_64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PointwiseProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { pointwise_product::<E, 2, 64>(source, packed, out, &described) };
}

entry! { sm_80 single conv2d_pointwise_64 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: PointwiseProduct)
    constants()
    barriers(2)
    threads(256, 3)
} }
