//! The convolution's three products in tiles, with no im2col buffer (implicit GEMM).
//!
//! Forward and dgrad are one kernel, [`gather`]: a matrix of filter taps times a matrix whose columns are
//! pixels of the result, gathered from x (or dy) tap by tap as the reduction walks over channels and taps.
//! dgrad with a stride runs once for each residue class of the stride, over that class's pixels and taps alone,
//! so that no product with a zero is formed. [`weight_gradient`] reduces over pixels instead; its blocks take
//! equal runs of pixels and leave partial sums, which [`conv2d_dw_reduce`] adds in their order.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, grid_dim_x, load_if, load16_if, shared_load, shared_store, sync_threads,
    thread_idx_x,
};
use crate::num::{Num, put};
use crate::sweep::for_each_index;
use crate::tile::{BN, Corner, Stages, Sums, multiply};

/// Taps that a kernel can have here; a bit mask tells which of them meet the image.
pub const MAX_TAPS: u32 = 64;

/// Steps of the reduction that [`gather`] stages at a time.
const BK: u32 = 8;

/// Bytes of the two tables of offsets, one entry a tap, in front of the stages.
const TABLES: u32 = 2 * MAX_TAPS * 4;

/// An image that is gathered from, and how a pixel of the result meets it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Elements of a batch item.
    pub image: i64,
    /// Elements of a channel.
    pub channel: i32,
    /// Rows.
    pub h: i32,
    /// Columns.
    pub w: i32,
    /// The row that pixel row 0 meets with tap 0.
    pub start_h: i32,
    /// The column that pixel column 0 meets with tap 0.
    pub start_w: i32,
    /// Rows between pixels' rows.
    pub step_h: i32,
    /// Columns between pixels' columns.
    pub step_w: i32,
    /// Rows between taps.
    pub tap_h: i32,
    /// Columns between taps.
    pub tap_w: i32,
    /// Divides a tap's number by taps in a row.
    pub taps_w: FastDivmod,
    /// Divides by all taps.
    pub taps: FastDivmod,
    /// Divides by pixel columns.
    pub pixels_w: FastDivmod,
    /// Divides by pixel rows.
    pub pixels_h: FastDivmod,
}

/// A pixel of the result and where its tap 0 lies in the source.
#[derive(Clone, Copy)]
struct Pixel {
    batch: u32,
    row: u32,
    column: u32,
    h: i32,
    w: i32,
}

impl Source {
    #[inline(always)]
    fn pixel(&self, index: u32) -> Pixel {
        let (rest, column) = self.pixels_w.divmod(index);
        let (batch, row) = self.pixels_h.divmod(rest);
        let h = row as i32 * self.step_h + self.start_h;
        let w = column as i32 * self.step_w + self.start_w;
        Pixel { batch, row, column, h, w }
    }

    /// Elements from the source's start to a pixel's tap 0; it may lie outside the image.
    #[inline(always)]
    fn offset(&self, pixel: Pixel) -> i64 {
        i64::from(pixel.batch) * self.image + i64::from(pixel.h) * i64::from(self.w) + i64::from(pixel.w)
    }

    /// Rows and columns from tap 0 to a tap.
    #[inline(always)]
    fn tap(&self, tap: u32) -> (i32, i32) {
        let (i, j) = self.taps_w.divmod(tap);
        (i as i32 * self.tap_h, j as i32 * self.tap_w)
    }

    #[inline(always)]
    fn meets(&self, h: i32, w: i32) -> bool {
        // A negative coordinate is a huge unsigned one.
        ((h as u32) < self.h as u32) & ((w as u32) < self.w as u32)
    }

    /// The taps with which a pixel meets the image, as bits.
    #[inline(always)]
    fn mask(&self, pixel: Pixel) -> u64 {
        let mut mask = 0;
        let mut tap = 0;
        while tap < self.taps.divisor() {
            let (h, w) = self.tap(tap);
            mask |= u64::from(self.meets(pixel.h + h, pixel.w + w)) << tap;
            tap += 1;
        }
        mask
    }
}

/// The product of forward and dgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// What the pixels gather from.
    pub source: Source,
    /// Filter elements of a group.
    pub filter_group: i64,
    /// Filter elements between rows of the product, that is between the result's channels.
    pub filter_row: i32,
    /// Filter elements between channels of the reduction.
    pub filter_channel: i32,
    /// The filter element of tap 0.
    pub filter_start: i32,
    /// Filter elements between rows of taps.
    pub filter_tap_h: i32,
    /// Filter elements between taps.
    pub filter_tap_w: i32,
    /// Channels of the reduction, in a group.
    pub channels: u32,
    /// Channels of the result, in a group.
    pub rows: u32,
    /// Pixels of the result.
    pub pixels: u32,
    /// Tiles of all groups.
    pub tiles: u32,
    /// Divides by tiles along the channels.
    pub row_tiles: FastDivmod,
    /// Divides by tiles along the pixels.
    pub pixel_tiles: FastDivmod,
    /// Elements of the result between batch items.
    pub out_image: i64,
    /// Elements of the result between channels.
    pub out_channel: i32,
    /// The result's element of pixel 0.
    pub out_start: i32,
    /// Elements of the result between pixel rows.
    pub out_step_h: i32,
    /// Elements of the result between pixel columns.
    pub out_step_w: i32,
    /// Whether to add to the result.
    pub accumulate: u32,
}

/// One element, or zero, as f32.
///
/// # Safety
/// When taken, `from` is valid for a read of one element of global memory.
#[inline(always)]
pub unsafe fn load_or_zero<E: Num<Acc = f32>>(take: bool, from: *const E) -> f32 {
    // SAFETY: by the caller's contract.
    unsafe { load_if(take, from, E::narrow(0.0)) }.widen()
}

/// Forward, or one residue class of dgrad, in tiles of `BM` channels by 128 pixels.
///
/// # Safety
/// `source`, `filter` and `out` are valid for the tensors that `product` describes; out overlaps neither. The
/// block has `2·BM` threads and the shared memory of the tables and [`Stages`].
#[inline(always)]
pub unsafe fn gather<E: Num<Acc = f32>, const BM: u32>(
    source: *const E,
    filter: *const E,
    out: *mut E,
    product: &Gather,
) {
    let threads = 2 * BM;
    let stages = Stages::<BM, BK>::behind(TABLES);
    let taps = product.source.taps;
    let thread = thread_idx_x();
    if thread < taps.divisor() {
        let (h, w) = product.source.tap(thread);
        let (i, j) = product.source.taps_w.divmod(thread);
        let filter = product.filter_start + i as i32 * product.filter_tap_h + j as i32 * product.filter_tap_w;
        // SAFETY: the launch gave room for the tables.
        unsafe {
            shared_store(thread * 4, h * product.source.w + w);
            shared_store((MAX_TAPS + thread) * 4, filter);
        }
    }
    sync_threads();
    let reduction = product.channels * taps.divisor();
    // A thread stages four rows of one step of the filter, and one pixel's steps, every `threads / 128`th.
    let (a_k, a_m) = (thread % BK, thread / BK);
    let (b_n, b_k) = (thread % BN, thread / BN);
    let corner = Corner::of_thread();
    let mut tile = block_idx_x();
    while tile < product.tiles {
        let (rest, row_tile) = product.row_tiles.divmod(tile);
        let (group, pixel_tile) = product.pixel_tiles.divmod(rest);
        let (first_row, first_pixel) = (row_tile * BM, pixel_tile * BN);
        let index = first_pixel + b_n;
        let pixel = product.source.pixel(if index < product.pixels { index } else { 0 });
        let mask = if index < product.pixels { product.source.mask(pixel) } else { 0 };
        let group_offset = i64::from(group) * i64::from(product.channels) * i64::from(product.source.channel);
        let from = source.wrapping_offset((group_offset + product.source.offset(pixel)) as isize);
        let row = first_row + a_m;
        let taken = filter.wrapping_offset(
            (i64::from(group) * product.filter_group + i64::from(row) * i64::from(product.filter_row))
                as isize,
        );
        let row_step = threads / BK;
        let load_a = |step: u32| {
            let k = step * BK + a_k;
            let (channel, tap) = taps.divmod(k);
            let live = k < reduction;
            // SAFETY: the table was filled before the barrier.
            let tap: i32 = unsafe { shared_load((MAX_TAPS + if live { tap } else { 0 }) * 4) };
            // A group's filter has fewer than 2³¹ elements.
            let offset = channel as i32 * product.filter_channel + tap;
            let load = |u: u32| {
                let take = live & (row + u * row_step < product.rows);
                let offset = offset + (u * row_step) as i32 * product.filter_row;
                // SAFETY: the row and the step are inside the filter.
                unsafe { load_or_zero(take, taken.wrapping_offset(offset as isize)) }
            };
            [load(0), load(1), load(2), load(3)]
        };
        let load_b = |step: u32| {
            let load = |u: u32| {
                let k = step * BK + b_k + u * (threads / BN);
                let (channel, tap) = taps.divmod(k);
                let live = (k < reduction) & (b_k + u * (threads / BN) < BK);
                let tap = if live { tap } else { 0 };
                let take = live & ((mask >> tap) & 1 != 0);
                // SAFETY: the table was filled before the barrier; the tap meets the image.
                unsafe {
                    let tap: i32 = shared_load(tap * 4);
                    // A batch item has fewer than 2³¹ elements.
                    let offset = channel as i32 * product.source.channel + tap;
                    load_or_zero(take, from.wrapping_offset(offset as isize))
                }
            };
            if threads == BN {
                [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)]
            } else {
                [load(0), load(1), load(2), load(3), 0.0, 0.0, 0.0, 0.0]
            }
        };
        let store = |buffer: u32, a: [f32; 4], b: [f32; 8]| {
            // SAFETY: each place belongs to one thread; the barriers part stores and loads of a buffer.
            unsafe {
                stages.store_a(buffer, a_k, a_m, a[0]);
                stages.store_a(buffer, a_k, a_m + row_step, a[1]);
                stages.store_a(buffer, a_k, a_m + 2 * row_step, a[2]);
                stages.store_a(buffer, a_k, a_m + 3 * row_step, a[3]);
                let every = threads / BN;
                stages.store_b(buffer, b_k, b_n, b[0]);
                stages.store_b(buffer, b_k + every, b_n, b[1]);
                stages.store_b(buffer, b_k + 2 * every, b_n, b[2]);
                stages.store_b(buffer, b_k + 3 * every, b_n, b[3]);
                if threads == BN {
                    stages.store_b(buffer, 4, b_n, b[4]);
                    stages.store_b(buffer, 5, b_n, b[5]);
                    stages.store_b(buffer, 6, b_n, b[6]);
                    stages.store_b(buffer, 7, b_n, b[7]);
                }
            }
        };
        let mut sums: Sums = [[0.0; 8]; 8];
        let steps = reduction.div_ceil(BK);
        // SAFETY: all threads run the same steps; a buffer is refilled only after a barrier behind its use.
        unsafe {
            walk(steps, &mut sums, load_a, load_b, store, |buffer, sums| {
                multiply(stages, buffer, corner, sums);
            });
        };
        // SAFETY: the tile's elements are this block's.
        unsafe { store_pixels(out, product, group, first_row, first_pixel, corner, &sums) };
        tile += grid_dim_x();
    }
}

/// Stores or adds a thread's part of a tile of pixels.
///
/// # Safety
/// The result is valid as `product` describes it, and the thread's elements are its own.
#[inline(always)]
unsafe fn store_pixels<E: Num<Acc = f32>>(
    out: *mut E,
    product: &Gather,
    group: u32,
    first_row: u32,
    first_pixel: u32,
    corner: Corner,
    sums: &Sums,
) {
    let place = |j: u32| {
        let index = first_pixel + corner.column(j);
        let pixel = product.source.pixel(if index < product.pixels { index } else { 0 });
        let offset = i64::from(pixel.batch) * product.out_image
            + i64::from(pixel.row) * i64::from(product.out_step_h)
            + i64::from(pixel.column) * i64::from(product.out_step_w)
            + i64::from(product.out_start);
        (index < product.pixels, offset)
    };
    let places = [place(0), place(1), place(2), place(3), place(4), place(5), place(6), place(7)];
    let mut i = 0;
    while i < 8 {
        let row = first_row + corner.row(i);
        if row < product.rows {
            let channel = i64::from(group * product.rows + row) * i64::from(product.out_channel);
            let mut j = 0;
            while j < 8 {
                let (live, offset) = places[j];
                if live {
                    // SAFETY: the element lies in the result, and no other thread has it.
                    unsafe {
                        let to = out.wrapping_offset((channel + offset) as isize);
                        put(to, sums[i as usize][j], product.accumulate);
                    }
                }
                j += 1;
            }
        }
        i += 1;
    }
}

/// Walks a reduction of `steps` stages: the next stage is loaded while the present one is multiplied.
///
/// # Safety
/// All threads of the block call this alike; `store` keeps to a thread's own places of a buffer, and `multiply`
/// reads the buffer it is given.
#[inline(always)]
unsafe fn walk<A: Copy, B: Copy>(
    steps: u32,
    sums: &mut Sums,
    mut load_a: impl FnMut(u32) -> A,
    mut load_b: impl FnMut(u32) -> B,
    store: impl Fn(u32, A, B),
    multiply: impl Fn(u32, &mut Sums),
) {
    store(0, load_a(0), load_b(0));
    sync_threads();
    let mut step = 0;
    while step < steps {
        // The stage behind the last is not taken: loads past the reduction give zeros.
        let (a, b) = (load_a(step + 1), load_b(step + 1));
        multiply(step & 1, sums);
        store((step + 1) & 1, a, b);
        sync_threads();
        step += 1;
    }
}

/// The filter as the kernels over taps read it: `[group][tap][channel][row]`, rows and channels padded with zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    /// Rows, padded to whole tiles.
    pub rows: u32,
    /// Channels, padded to whole stages.
    pub channels: u32,
    /// Taps of the whole filter.
    pub taps: u32,
}

/// Steps of the reduction that [`taps`] stages at a time: channels of one tap.
const TAP_BK: u32 = 16;

/// As [`gather`], for many channels: the reduction walks tap by tap, so that a pixel's place in the source and
/// whether it is there are found once a tap, and the filter comes packed, in whole vectors.
///
/// # Safety
/// As for [`gather`]; `packed` is the filter as [`Packed`] says, on a 16-byte boundary.
#[inline(always)]
pub unsafe fn taps<E: Num<Acc = f32>, const BM: u32>(
    source: *const E,
    packed: *const f32,
    out: *mut E,
    product: &Gather,
    layout: &Packed,
) {
    let threads = 2 * BM;
    let stages = Stages::<BM, TAP_BK>::behind(TABLES);
    let count = product.source.taps.divisor();
    let thread = thread_idx_x();
    if thread < count {
        let (h, w) = product.source.tap(thread);
        let (i, j) = product.source.taps_w.divmod(thread);
        let tap = product.filter_start + i as i32 * product.filter_tap_h + j as i32 * product.filter_tap_w;
        // SAFETY: the launch gave room for the tables.
        unsafe {
            shared_store(thread * 4, h * product.source.w + w);
            shared_store((MAX_TAPS + thread) * 4, tap);
        }
    }
    sync_threads();
    // A thread stages vectors of rows for two steps, and one pixel for every `threads / 128`th step.
    let (a_m, a_k) = (thread % (BM / 4) * 4, thread / (BM / 4));
    let (b_n, b_k) = (thread % BN, thread / BN);
    let every = threads / BN;
    let corner = Corner::of_thread();
    let chunks = layout.channels / TAP_BK;
    let steps = if product.channels == 0 { 0 } else { count * chunks };
    let ragged = product.channels != layout.channels;
    let mut tile = block_idx_x();
    while tile < product.tiles {
        let (rest, row_tile) = product.row_tiles.divmod(tile);
        let (group, pixel_tile) = product.pixel_tiles.divmod(rest);
        let (first_row, first_pixel) = (row_tile * BM, pixel_tile * BN);
        let index = first_pixel + b_n;
        let pixel = product.source.pixel(if index < product.pixels { index } else { 0 });
        let mask = if index < product.pixels { product.source.mask(pixel) } else { 0 };
        let group_offset = i64::from(group) * i64::from(product.channels) * i64::from(product.source.channel);
        let from = source.wrapping_offset((group_offset + product.source.offset(pixel)) as isize);
        // The stage that comes next: its tap, and its first channel.
        let (mut a_tap, mut a_channel) = (0, 0);
        let load_a = |step: u32| {
            let live = step < steps;
            // SAFETY: the table was filled before the barrier.
            let tap: i32 = unsafe { shared_load((MAX_TAPS + if live { a_tap } else { 0 }) * 4) };
            let row = (group * layout.taps + tap as u32) * layout.channels + a_channel + a_k;
            // A packed filter has fewer than 2³¹ elements.
            let at = row * layout.rows + first_row + a_m;
            a_channel += TAP_BK;
            if a_channel == layout.channels {
                (a_tap, a_channel) = (a_tap + 1, 0);
            }
            // SAFETY: rows and channels are padded to whole tiles and stages.
            unsafe {
                [
                    load16_if(live, packed.wrapping_add(at as usize).cast()),
                    load16_if(live, packed.wrapping_add((at + 8 * layout.rows) as usize).cast()),
                ]
            }
        };
        let (mut b_tap, mut b_channel) = (0, 0);
        let load_b = |step: u32| {
            let live = step < steps;
            let tap = if live { b_tap } else { 0 };
            let hit = live & ((mask >> tap) & 1 != 0);
            // SAFETY: the table was filled before the barrier.
            let offset: i32 = unsafe { shared_load(tap * 4) };
            let first = b_channel + b_k;
            // A batch item has fewer than 2³¹ elements.
            let at = from.wrapping_offset((first as i32 * product.source.channel + offset) as isize);
            b_channel += TAP_BK;
            if b_channel == layout.channels {
                (b_tap, b_channel) = (b_tap + 1, 0);
            }
            let load = |u: u32| {
                let take = hit & (!ragged | (first + u * every < product.channels));
                let at = at.wrapping_offset(((u * every) as i32 * product.source.channel) as isize);
                // SAFETY: the tap meets the image, in a channel of the group.
                unsafe { load_or_zero(take, at) }
            };
            let few = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
            let more = if every == 1 {
                [load(8), load(9), load(10), load(11), load(12), load(13), load(14), load(15)]
            } else {
                [0.0; 8]
            };
            (few, more)
        };
        let store = |buffer: u32, a: [[u32; 4]; 2], (few, more): ([f32; 8], [f32; 8])| {
            // SAFETY: each place belongs to one thread; the barriers part stores and loads of a buffer.
            unsafe {
                stages.store_a4(buffer, a_k, a_m, a[0]);
                stages.store_a4(buffer, a_k + 8, a_m, a[1]);
                let mut u = 0;
                while u < 8 {
                    stages.store_b(buffer, b_k + u * every, b_n, few[u as usize]);
                    u += 1;
                }
                u = 0;
                while u < 8 && every == 1 {
                    stages.store_b(buffer, u + 8, b_n, more[u as usize]);
                    u += 1;
                }
            }
        };
        let multiply = |buffer: u32, sums: &mut Sums| {
            // SAFETY: the buffer was filled before the last barrier; all threads are here.
            unsafe { multiply(stages, buffer, corner, sums) };
        };
        let mut sums: Sums = [[0.0; 8]; 8];
        // SAFETY: all threads run the same steps; a buffer is refilled only after a barrier behind its use.
        unsafe { walk(steps, &mut sums, load_a, load_b, store, multiply) };
        // SAFETY: the tile's elements are this block's.
        unsafe { store_pixels(out, product, group, first_row, first_pixel, corner, &sums) };
        tile += grid_dim_x();
    }
}

/// How a filter is packed: element `[group][tap][channel][row]` is
/// `filter[group·filter_group + row·filter_row + channel·filter_channel + tap]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Filter elements of a group.
    pub filter_group: i64,
    /// Filter elements between rows.
    pub filter_row: i32,
    /// Filter elements between channels.
    pub filter_channel: i32,
    /// Rows and channels that the filter has.
    pub rows: u32,
    /// Channels that the filter has.
    pub channels: u32,
    /// Elements of the packed filter.
    pub len: u32,
    /// Divides by padded rows.
    pub padded_rows: FastDivmod,
    /// Divides by padded channels.
    pub padded_channels: FastDivmod,
    /// Divides by taps.
    pub taps: FastDivmod,
}

/// Packs a filter for [`taps`].
///
/// # Safety
/// `filter` is valid for reads of the whole filter, `packed` for writes of `packing.len` elements; they do not
/// overlap.
#[inline(always)]
pub unsafe fn conv2d_pack_filter<E: Num<Acc = f32>>(
    filter: *mut E,
    packed: *mut f32,
    packing: Packing,
    block: i32,
) {
    for_each_index(u64::from(packing.len), block, |index| {
        let (rest, row) = packing.padded_rows.divmod(index as u32);
        let (rest, channel) = packing.padded_channels.divmod(rest);
        let (group, tap) = packing.taps.divmod(rest);
        let offset = i64::from(group) * packing.filter_group
            + i64::from(row) * i64::from(packing.filter_row)
            + i64::from(channel) * i64::from(packing.filter_channel)
            + i64::from(tap);
        let take = (row < packing.rows) & (channel < packing.channels);
        // SAFETY: the element lies in the filter; `index < len`, and no other thread has this index.
        unsafe {
            let value = load_or_zero(take, filter.wrapping_offset(offset as isize));
            *packed.add(index as usize) = value;
        }
    });
}

/// The product of wgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WeightGradient {
    /// What the taps gather from.
    pub source: Source,
    /// Elements of dy between batch items.
    pub dy_image: i64,
    /// Elements of dy between channels.
    pub dy_channel: i32,
    /// Output channels of a group.
    pub rows: u32,
    /// Input channels of a group, times taps.
    pub columns: u32,
    /// Input channels of a group.
    pub channels: u32,
    /// Pixels of dy.
    pub pixels: u32,
    /// Pixels of one run.
    pub run: u32,
    /// Tiles of all groups and runs.
    pub tiles: u32,
    /// Divides by tiles along the output channels.
    pub row_tiles: FastDivmod,
    /// Divides by tiles along the columns.
    pub column_tiles: FastDivmod,
    /// Divides by groups.
    pub groups: FastDivmod,
}

/// A run's partial sums of dw, in tiles of `BM` output channels by 128 columns, to
/// `partial[run][group][row][column]`.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, `partial` for all runs' sums; it overlaps
/// neither. The block has `2·BM` threads and the shared memory of [`Stages`].
#[inline(always)]
pub unsafe fn weight_gradient<E: Num<Acc = f32>, const BM: u32, const BK: u32>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &WeightGradient,
) {
    let threads = 2 * BM;
    let stages = Stages::<BM, BK>::behind(0);
    let thread = thread_idx_x();
    // A thread stages the pixel `k` of each stage, for every `threads / BK`th row and column; `BN · BK` is 8 a thread.
    let (k, first) = (thread % BK, thread / BK);
    let every = threads / BK;
    let corner = Corner::of_thread();
    let mut tile = block_idx_x();
    while tile < product.tiles {
        let (rest, row_tile) = product.row_tiles.divmod(tile);
        let (rest, column_tile) = product.column_tiles.divmod(rest);
        let (run, group) = product.groups.divmod(rest);
        let (first_row, first_column) = (row_tile * BM, column_tile * BN);
        let row = first_row + first;
        let left = dy.wrapping_offset(
            (i64::from(group * product.rows + row) * i64::from(product.dy_channel)) as isize,
        );
        let right = x.wrapping_offset(
            (i64::from(group) * i64::from(product.channels) * i64::from(product.source.channel)) as isize,
        );
        let column = |u: u32| {
            let column = first_column + first + u * every;
            let live = column < product.columns;
            let (channel, tap) = product.source.taps.divmod(if live { column } else { 0 });
            let (h, w) = product.source.tap(tap);
            let offset = channel as i32 * product.source.channel + h * product.source.w + w;
            // Both displacements in a word; a column that is not there meets no pixel.
            (if live { (h << 16) | (w & 0xffff) } else { i32::MIN }, offset)
        };
        let columns =
            [column(0), column(1), column(2), column(3), column(4), column(5), column(6), column(7)];
        let start = run * product.run;
        let end = if product.pixels - start < product.run { product.pixels } else { start + product.run };
        let load_a = |step: u32| {
            let index = start + step * BK + k;
            let live = index < end;
            let pixel = product.source.pixel(if live { index } else { 0 });
            let inside = pixel.row * product.source.pixels_w.divisor() + pixel.column;
            let from = left.wrapping_offset((i64::from(pixel.batch) * product.dy_image) as isize);
            let load = |u: u32| {
                let take = live & (row + u * every < product.rows);
                let offset = inside as i32 + (u * every) as i32 * product.dy_channel;
                // SAFETY: the row and the pixel are inside dy.
                unsafe { load_or_zero(take, from.wrapping_offset(offset as isize)) }
            };
            let few = [load(0), load(1), load(2), load(3)];
            let more = if BM / every > 4 { [load(4), load(5), load(6), load(7)] } else { [0.0; 4] };
            (few, more)
        };
        let load_b = |step: u32| {
            let index = start + step * BK + k;
            let live = index < end;
            let pixel = product.source.pixel(if live { index } else { 0 });
            let from = right.wrapping_offset(product.source.offset(pixel) as isize);
            let load = |u: usize| {
                let (place, offset) = columns[u];
                let (h, w) = (place >> 16, (place << 16) >> 16);
                let take = live & (place != i32::MIN) & product.source.meets(pixel.h + h, pixel.w + w);
                // SAFETY: the tap meets the image.
                unsafe { load_or_zero(take, from.wrapping_offset(offset as isize)) }
            };
            [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)]
        };
        let store = |buffer: u32, (few, more): ([f32; 4], [f32; 4]), b: [f32; 8]| {
            // SAFETY: each place belongs to one thread; the barriers part stores and loads of a buffer.
            unsafe {
                let mut u = 0;
                while u < 4 {
                    stages.store_a(buffer, k, first + u * every, few[u as usize]);
                    u += 1;
                }
                u = 0;
                while u < 4 && BM / every > 4 {
                    stages.store_a(buffer, k, first + (u + 4) * every, more[u as usize]);
                    u += 1;
                }
                u = 0;
                while u < 8 {
                    stages.store_b(buffer, k, first + u * every, b[u as usize]);
                    u += 1;
                }
            }
        };
        let multiply = |buffer: u32, sums: &mut Sums| {
            // SAFETY: the buffer was filled before the last barrier; all threads are here.
            unsafe { multiply(stages, buffer, corner, sums) };
        };
        let mut sums: Sums = [[0.0; 8]; 8];
        // SAFETY: all threads run the same steps; a buffer is refilled only after a barrier behind its use.
        unsafe { walk((end - start).div_ceil(BK), &mut sums, load_a, load_b, store, multiply) };
        let block = i64::from(rest) * i64::from(product.rows) * i64::from(product.columns);
        let mut i = 0;
        while i < 8 {
            let row = first_row + corner.row(i);
            let mut j = 0;
            while j < 8 {
                let column = first_column + corner.column(j);
                if row < product.rows && column < product.columns {
                    let offset = block + i64::from(row) * i64::from(product.columns) + i64::from(column);
                    // SAFETY: the element lies in the run's sums, and no other thread has it.
                    unsafe { *partial.wrapping_offset(offset as isize) = sums[i as usize][j as usize] };
                }
                j += 1;
            }
            i += 1;
        }
        tile += grid_dim_x();
    }
}

/// The order in which dw's sums lie: `[group][tap][plane]`, where dw is `[group][plane][tap]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SumOrder {
    /// Divides by the channels of both sides together.
    pub plane: FastDivmod,
    /// Divides by taps; by one where the sums lie as dw does.
    pub taps: FastDivmod,
}

/// Adds the runs' partial sums of dw, and stores or adds the total. A block has `2^log_elements` elements; the threads that
/// share one, eight for example, add every eighth run in its order, and then those eight.
///
/// # Safety
/// `partial` is valid for reads of `runs · len` elements, `dw` for reads and writes of `len`; they do not
/// overlap. A block has 256 threads and shared memory for an f32 of each.
#[inline(always)]
pub unsafe fn conv2d_dw_reduce<E: Num<Acc = f32>>(
    partial: *mut f32,
    dw: *mut E,
    len: u64,
    order: SumOrder,
    runs: u32,
    log_elements: u32,
    accumulate: u32,
) {
    let elements = 1 << (log_elements % 32);
    let slices = block_dim_x() >> (log_elements % 32);
    let (slice, lane) = (thread_idx_x() >> (log_elements % 32), thread_idx_x() & (elements - 1));
    let mut first = u64::from(block_idx_x()) * u64::from(elements);
    while first < len {
        let index = first + u64::from(lane);
        let mut sum = 0.0;
        let mut run = slice;
        while run < runs {
            let load = |u: u32| {
                let run = run + u * slices;
                let at = partial.wrapping_add((u64::from(run) * len + index) as usize);
                // SAFETY: `index < len`, and `run < runs` where it is taken.
                unsafe { load_if((run < runs) & (index < len), at, 0.0) }
            };
            // Eight loads in flight.
            let parts = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
            let mut u = 0;
            while u < 8 {
                sum += parts[u];
                u += 1;
            }
            run += 8 * slices;
        }
        // SAFETY: each thread has its own place; barriers part writers and readers.
        unsafe { shared_store(thread_idx_x() * 4, sum) };
        sync_threads();
        if slice == 0 && index < len {
            let mut total: f32 = 0.0;
            let mut slice = 0;
            while slice < slices {
                // SAFETY: stored before the barrier.
                total += unsafe { shared_load::<f32>((slice * elements + lane) * 4) };
                slice += 1;
            }
            let (rest, place) = order.plane.divmod(index as u32);
            let (group, tap) = order.taps.divmod(rest);
            let to = (group * order.plane.divisor() + place) * order.taps.divisor() + tap;
            // SAFETY: `index < len`, and no other thread has this index.
            unsafe { put(dw.add(to as usize), total, accumulate) };
        }
        sync_threads();
        first += u64::from(grid_dim_x()) * u64::from(elements);
    }
}

/// Forward or dgrad in tiles of 64 channels.
///
/// # Safety
/// As for [`gather`].
#[inline(always)]
pub unsafe fn conv2d_gather_64<E: Num<Acc = f32>>(
    source: *mut E,
    filter: *mut E,
    out: *mut E,
    product: Gather,
) {
    // SAFETY: by this function's contract.
    unsafe { gather::<E, 64>(source, filter, out, &product) };
}

entry! { single conv2d_gather_64 {
    args(source: *mut E, filter: *mut E, out: *mut E)
    hidden(product: Gather)
    constants()
    barriers(3)
    threads(128, 2)
} }

/// Forward or dgrad tap by tap in tiles of 64 channels.
///
/// # Safety
/// As for [`taps`].
#[inline(always)]
pub unsafe fn conv2d_taps_64<E: Num<Acc = f32>>(
    source: *mut E,
    packed: *mut f32,
    out: *mut E,
    product: Gather,
    layout: Packed,
) {
    // SAFETY: by this function's contract.
    unsafe { taps::<E, 64>(source, packed, out, &product, &layout) };
}

entry! { single conv2d_taps_64 {
    args(source: *mut E, packed: *mut f32, out: *mut E)
    hidden(product: Gather, layout: Packed)
    constants()
    barriers(3)
    threads(128, 2)
} }

/// Partial sums of wgrad in tiles of 64 channels.
///
/// # Safety
/// As for [`weight_gradient`].
#[inline(always)]
pub unsafe fn conv2d_dw_runs_64<E: Num<Acc = f32>>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    product: WeightGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { weight_gradient::<E, 64, 8>(dy, x, partial, &product) };
}

entry! { single conv2d_dw_runs_64 {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(product: WeightGradient)
    constants()
    barriers(2)
    threads(128, 2)
} }

entry! { single conv2d_pack_filter {
    args(filter: *mut E, packed: *mut f32)
    hidden(packing: Packing)
    constants(block: i32)
} }

entry! { single conv2d_dw_reduce {
    args(partial: *mut f32, dw: *mut E)
    hidden(len: u64, order: SumOrder, runs: u32, log_elements: u32, accumulate: u32)
    constants()
    barriers(2)
    threads(256, 4)
} }
