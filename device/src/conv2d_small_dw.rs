//! wgrad of convolutions too small to fill a GPU, beside [`crate::conv2d_small`] in its launch.
//!
//! A warp takes four channels of either side with one tap, and a part of the pixels, of which each lane has several in
//! flight. A tree over the lanes adds their sums, and a block's warps add their parts in the order of the parts.

use crate::conv2d_small::{Four, SMALL_CHANNELS, channel_offsets, four_channels, here, sum_parts};
use crate::divmod::FastDivmod;
use crate::gpu::{block_dim_x, load_if, shared_store, shuffle_xor, sync_threads, thread_idx_x};
use crate::num::{Num, put};

/// wgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SmallGradient {
    /// Rows of the image.
    pub h: u32,
    /// Columns of the image.
    pub w: u32,
    /// Rows of the image between rows of dy.
    pub stride_h: u32,
    /// Columns of the image between columns of dy.
    pub stride_w: u32,
    /// Rows of zeros above the image.
    pub pad_h: u32,
    /// Columns of zeros left of the image.
    pub pad_w: u32,
    /// Output channels, in a group.
    pub rows: u32,
    /// Input channels, in a group.
    pub channels: u32,
    /// Groups.
    pub groups: u32,
    /// Pixels of dy, of all batch items.
    pub pixels: u32,
    /// Whether to add to dw.
    pub accumulate: u32,
    /// What warps take, and the blocks that take it.
    pub units: u32,
    /// See [`units`](SmallGradient::units).
    pub blocks: u32,
    /// Divides by parts of the reduction.
    pub parts: FastDivmod,
    /// Divides by taps.
    pub taps: FastDivmod,
    /// Divides by columns of the filter.
    pub kernel_w: FastDivmod,
    /// Divides by warps along the input channels.
    pub channel_blocks: FastDivmod,
    /// Divides by warps along the output channels.
    pub row_blocks: FastDivmod,
    /// Divides by columns of dy.
    pub out_w: FastDivmod,
    /// Divides by rows of dy.
    pub out_h: FastDivmod,
}

/// wgrad: what of dw is this block's.
///
/// # Safety
/// `dy` and `x` are valid for reads, `dw` for reads and writes of the tensors that `gradient` describes; `dw` overlaps
/// neither. The block has shared memory for 16 sums of each warp.
#[inline(always)]
pub unsafe fn small_gradient<E: Num>(
    dy: *const E,
    x: *const E,
    dw: *mut E,
    gradient: &SmallGradient,
    block: u32,
) {
    let size = size_of::<E::Acc>() as u32;
    let thread = here(thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let (unit, part) = gradient.parts.divmod(block * (block_dim_x() / 32) + warp);
    let (rest, tap) = gradient.taps.divmod(unit);
    let (i, j) = gradient.kernel_w.divmod(tap);
    let (rest, channel_block) = gradient.channel_blocks.divmod(rest);
    let (group, row_block) = gradient.row_blocks.divmod(rest);
    let (first_row, skipped_rows) = four_channels(row_block, gradient.rows);
    let (first_channel, skipped_channels) = four_channels(channel_block, gradient.channels);
    let x_plane = gradient.h * gradient.w;
    let dy_plane = gradient.out_h.divisor() * gradient.out_w.divisor();
    let zero = E::narrow(E::ZERO);
    let live = unit < gradient.units;
    let mut sums = [[E::ZERO; SMALL_CHANNELS as usize]; SMALL_CHANNELS as usize];
    let step = 32 * gradient.parts.divisor();
    let row_at = channel_offsets(gradient.rows, dy_plane);
    let channel_at = channel_offsets(gradient.channels, x_plane);
    // Where the tap lies for the first pixel; in front of the image numbers are huge.
    let (up, across) = (i.wrapping_sub(gradient.pad_h), j.wrapping_sub(gradient.pad_w));
    let dy_first = (group * gradient.rows + first_row) * dy_plane;
    let x_first = ((group * gradient.channels + first_channel) * x_plane)
        .wrapping_add(up.wrapping_mul(gradient.w))
        .wrapping_add(across);
    let load = |pixel: u32| {
        let inside = pixel < gradient.pixels;
        let pixel = if inside { pixel } else { 0 };
        let (line, column) = gradient.out_w.divmod(pixel);
        let (n, row) = gradient.out_h.divmod(line);
        let (source_row, source_column) = (row * gradient.stride_h, column * gradient.stride_w);
        let has = inside
            & (source_row.wrapping_add(up) < gradient.h)
            & (source_column.wrapping_add(across) < gradient.w);
        // Pixels count one channel of an image, dy all of them.
        let dy_at = dy_first + pixel + n * ((gradient.groups * gradient.rows - 1) * dy_plane);
        let x_at = x_first
            .wrapping_add(n * (gradient.groups * gradient.channels * x_plane))
            .wrapping_add(source_row * gradient.w)
            .wrapping_add(source_column);
        let mut left = [zero; SMALL_CHANNELS as usize];
        let mut right = [zero; SMALL_CHANNELS as usize];
        let mut c = 0;
        while c < SMALL_CHANNELS as usize {
            // SAFETY: the pixel lies in dy and the position in x. What is not there counts as zero on both sides, so
            // that no infinity meets a zero.
            unsafe {
                left[c] = load_if(has, dy.wrapping_add(dy_at.wrapping_add(row_at[c]) as usize), zero);
                let from = x.wrapping_add(x_at.wrapping_add(channel_at[c]) as usize);
                right[c] = load_if(has, from, zero);
            }
            c += 1;
        }
        (left, right)
    };
    // The element of dw whose parts this lane adds, if it does.
    let (r, c) = (lane / 2 / SMALL_CHANNELS, lane / 2 % SMALL_CHANNELS);
    let (row, channel) = (first_row + r, first_channel + c);
    let sums_up = live
        & (part == 0)
        & lane.is_multiple_of(2)
        & (r >= skipped_rows)
        & (c >= skipped_channels)
        & (row < gradient.rows)
        & (channel < gradient.channels);
    let dw_at = ((group * gradient.rows + row) * gradient.channels + channel) * gradient.taps.divisor() + tap;
    let mut pixel = part * 32 + lane;
    while live & (pixel < gradient.pixels) {
        let (one, two) = (load(pixel), load(pixel + step));
        // A branch keeps this one's loads in front of what waits for the others.
        let more = pixel + 2 * step < gradient.pixels;
        let nothing = ([zero; SMALL_CHANNELS as usize], [zero; SMALL_CHANNELS as usize]);
        let three = if more { load(pixel + 2 * step) } else { nothing };
        let mut add = |(left, right): (Four<E>, Four<E>)| {
            let mut r = 0;
            while r < SMALL_CHANNELS as usize {
                let mut c = 0;
                while c < SMALL_CHANNELS as usize {
                    sums[r][c] = E::mul_add(left[r], right[c], sums[r][c]);
                    c += 1;
                }
                r += 1;
            }
        };
        add(one);
        add(two);
        if more {
            add(three);
        }
        pixel += 3 * step;
    }
    // SAFETY: all lanes of the warp are here.
    let total = unsafe { spread_sums::<E>(sums, lane) };
    let place = |warp: u32| (warp * 16 + lane / 2) * size;
    if lane.is_multiple_of(2) {
        // SAFETY: the place is this thread's.
        unsafe { shared_store(place(warp), total) };
    }
    sync_threads();
    if sums_up {
        // SAFETY: stored before the barrier.
        let total = unsafe { sum_parts::<E>(gradient.parts.divisor(), |other| place(warp + other)) };
        // SAFETY: the element lies in dw, and no other thread has it.
        unsafe { put(dw.wrapping_add(dw_at as usize), total, gradient.accumulate) };
    }
}

/// Adds the 16 sums of a warp's lanes by a tree over the lanes: lanes 2k and 2k + 1 get sum k.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
unsafe fn spread_sums<E: Num>(sums: [Four<E::Acc>; SMALL_CHANNELS as usize], lane: u32) -> E::Acc {
    // At each step a lane keeps one half of its sums, and gives the other to the lane that keeps that.
    let join = |mine: E::Acc, other: E::Acc, high: bool, mask: u32| {
        let (kept, given) = if high { (other, mine) } else { (mine, other) };
        // SAFETY: by this function's contract.
        E::add(kept, unsafe { shuffle_xor(given, mask) })
    };
    let [a, b, c, d] = sums;
    let high = lane & 16 != 0;
    let eight = |low: Four<E::Acc>, top: Four<E::Acc>| {
        let ([a, b, c, d], [e, f, g, h]) = (low, top);
        [join(a, e, high, 16), join(b, f, high, 16), join(c, g, high, 16), join(d, h, high, 16)]
    };
    let (low, top) = (eight(a, c), eight(b, d));
    let high = lane & 8 != 0;
    let ([a, b, c, d], [e, f, g, h]) = (low, top);
    let [a, b, c, d] = [join(a, e, high, 8), join(b, f, high, 8), join(c, g, high, 8), join(d, h, high, 8)];
    let high = lane & 4 != 0;
    let [a, b] = [join(a, c, high, 4), join(b, d, high, 4)];
    let one = join(a, b, lane & 2 != 0, 2);
    // SAFETY: by this function's contract.
    E::add(one, unsafe { shuffle_xor(one, 1) })
}
