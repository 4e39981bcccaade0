//! Convolutions too small to fill a GPU: forward, dgrad, wgrad, or both gradients, in one launch without a workspace.
//!
//! Their time is that of launches and of waiting for memory, so that nothing is packed, staged or left to a second
//! launch. A warp takes 32 pixels of the result and four of its channels, and a part of the reduced channels; for
//! wgrad four channels of either side with one tap, and a part of the pixels. A block's warps add their parts in the
//! order of the parts, after the lanes of wgrad have added theirs by a tree.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_idx_x, grid_dim_x, load_if, shared_load, shared_store, shuffle_xor, sync_threads, thread_idx_x,
};
use crate::num::{Num, put};

/// Warps of a block.
pub const SMALL_WARPS: u32 = 8;

/// Channels of a warp on either side.
pub const SMALL_CHANNELS: u32 = 4;

/// Reduced channels whose loads are in flight together.
const BATCH: u32 = 4;

/// One axis of forward or dgrad: which taps a position of the result meets, and where in the source.
///
/// Forward's result `o` meets with tap `t` the source's `o · stride − pad + t`. dgrad's result `o` has `o + pad = q ·
/// stride + r`, and meets with the taps `r + t · stride` the source's `q − t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SmallAxis {
    /// Whether this is dgrad's.
    pub reverse: u32,
    /// The stride.
    pub stride: FastDivmod,
    /// Rows or columns of zeros in front of the image.
    pub pad: u32,
    /// The filter's extent.
    pub kernel: u32,
    /// The source's extent.
    pub source: u32,
    /// The most taps that a position meets.
    pub taps: u32,
}

/// The taps of a position: the first, and between them; and the source's position of the first, and between them.
#[derive(Clone, Copy)]
struct Walk {
    tap: u32,
    tap_step: u32,
    source: u32,
    source_step: u32,
}

impl SmallAxis {
    #[inline(always)]
    fn walk(&self, out: u32) -> Walk {
        // Positions in front of the source are huge unsigned numbers.
        if self.reverse == 0 {
            let source = (out * self.stride.divisor()).wrapping_sub(self.pad);
            Walk { tap: 0, tap_step: 1, source, source_step: 1 }
        } else {
            let (source, tap) = self.stride.divmod(out + self.pad);
            Walk { tap, tap_step: self.stride.divisor(), source, source_step: u32::MAX }
        }
    }

    /// The tap and the source's position of step `t`, and whether both are there.
    #[inline(always)]
    fn step(&self, walk: Walk, t: u32) -> (u32, u32, bool) {
        let tap = walk.tap + t * walk.tap_step;
        let source = walk.source.wrapping_add(t.wrapping_mul(walk.source_step));
        (tap, source, (tap < self.kernel) & (source < self.source))
    }
}

/// Forward or dgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SmallProduct {
    /// Rows.
    pub h: SmallAxis,
    /// Columns.
    pub w: SmallAxis,
    /// Elements of the filter between channels of the result.
    pub filter_row: u32,
    /// Elements of the filter between reduced channels.
    pub filter_channel: u32,
    /// Elements of the filter between groups.
    pub filter_group: u32,
    /// Channels of the result, in a group.
    pub rows: u32,
    /// Reduced channels, in a group.
    pub reduced: u32,
    /// Reduced channels of a part.
    pub part: u32,
    /// Pixels of the result, of all batch items.
    pub pixels: u32,
    /// Whether to add to the result.
    pub accumulate: u32,
    /// What warps take, and the blocks that take it.
    pub units: u32,
    /// See [`units`](SmallProduct::units).
    pub blocks: u32,
    /// Divides by parts of the reduction.
    pub parts: FastDivmod,
    /// Divides by warps along the channels.
    pub row_blocks: FastDivmod,
    /// Divides by groups.
    pub groups: FastDivmod,
    /// Divides by columns of the result.
    pub out_w: FastDivmod,
    /// Divides by rows of the result.
    pub out_h: FastDivmod,
}

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

/// One for each of four channels.
type Four<A> = [A; SMALL_CHANNELS as usize];

/// Forward or dgrad: `out = source ∗ filter`, or what of it is this block's.
///
/// # Safety
/// `source` and `filter` are valid for reads, `out` for reads and writes of the tensors that `product` describes; `out`
/// overlaps neither. The block has [`SMALL_WARPS`] warps, and shared memory for four sums of each thread.
#[inline(always)]
pub unsafe fn small_product<E: Num>(
    source: *const E,
    filter: *const E,
    out: *mut E,
    product: &SmallProduct,
    block: u32,
) {
    let size = size_of::<E::Acc>() as u32;
    let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
    let (unit, part) = product.parts.divmod(block * SMALL_WARPS + warp);
    let (rest, row_block) = product.row_blocks.divmod(unit);
    let (tile, group) = product.groups.divmod(rest);
    let pixel = tile * 32 + lane;
    let live = (unit < product.units) & (pixel < product.pixels);
    let pixel = if live { pixel } else { 0 };
    let (line, x) = product.out_w.divmod(pixel);
    let (n, y) = product.out_h.divmod(line);
    let (along_h, along_w) = (product.h.walk(y), product.w.walk(x));
    let first_row = row_block * SMALL_CHANNELS;
    let first = part * product.part;
    let left = product.reduced.saturating_sub(first);
    let end = first + if left < product.part { left } else { product.part };
    let plane = product.h.source * product.w.source;
    let group_at = (n * product.groups.divisor() + group) * product.reduced * plane;
    let filter_at = group * product.filter_group + first_row * product.filter_row;
    let zero = E::narrow(E::ZERO);
    let mut sums = [E::ZERO; SMALL_CHANNELS as usize];
    let mut t_h = 0;
    while t_h < product.h.taps {
        let (i, row, has_row) = product.h.step(along_h, t_h);
        let mut t_w = 0;
        while t_w < product.w.taps {
            let (j, column, has_column) = product.w.step(along_w, t_w);
            let has = live & has_row & has_column;
            let source_at = group_at.wrapping_add(row * product.w.source).wrapping_add(column);
            let filter_at = filter_at.wrapping_add(i * product.w.kernel).wrapping_add(j);
            let mut c = first;
            while c < end {
                let mut values = [zero; BATCH as usize];
                let mut weights = [[zero; SMALL_CHANNELS as usize]; BATCH as usize];
                let mut u = 0;
                while u < BATCH {
                    let take = has & (c + u < end);
                    let at = source_at.wrapping_add((c + u) * plane);
                    // SAFETY: the position lies in the source.
                    values[u as usize] = unsafe { load_if(take, source.wrapping_add(at as usize), zero) };
                    let at = filter_at.wrapping_add((c + u) * product.filter_channel);
                    let mut r = 0;
                    while r < SMALL_CHANNELS {
                        let from = filter.wrapping_add(at.wrapping_add(r * product.filter_row) as usize);
                        // What is not there counts as zero on both sides, so that no infinity meets a zero.
                        let take = take & (first_row + r < product.rows);
                        // SAFETY: the tap lies in the filter.
                        weights[u as usize][r as usize] = unsafe { load_if(take, from, zero) };
                        r += 1;
                    }
                    u += 1;
                }
                u = 0;
                while u < BATCH {
                    let mut r = 0;
                    while r < SMALL_CHANNELS as usize {
                        sums[r] = E::mul_add(values[u as usize], weights[u as usize][r], sums[r]);
                        r += 1;
                    }
                    u += 1;
                }
                c += BATCH;
            }
            t_w += 1;
        }
        t_h += 1;
    }
    let place = |warp: u32, r: u32| ((warp * SMALL_CHANNELS + r) * 32 + lane) * size;
    let mut r = 0;
    while r < SMALL_CHANNELS {
        // SAFETY: the place is this thread's.
        unsafe { shared_store(place(warp, r), sums[r as usize]) };
        r += 1;
    }
    sync_threads();
    // The parts share the channels that they add.
    let plane = product.out_h.divisor() * product.out_w.divisor();
    let mut r = part;
    while r < SMALL_CHANNELS {
        let channel = first_row + r;
        if live & (channel < product.rows) {
            let mut total = E::ZERO;
            let mut other = 0;
            while other < product.parts.divisor() {
                // SAFETY: stored before the barrier.
                total = E::add(total, unsafe { shared_load(place(warp - part + other, r)) });
                other += 1;
            }
            let of_batch = n * product.groups.divisor() * product.rows;
            let at = (of_batch + group * product.rows + channel) * plane + y * product.out_w.divisor() + x;
            // SAFETY: the element lies in the result, and no other thread has it.
            unsafe { put(out.wrapping_add(at as usize), total, product.accumulate) };
        }
        r += product.parts.divisor();
    }
}

/// wgrad: what of dw is this block's.
///
/// # Safety
/// `dy` and `x` are valid for reads, `dw` for reads and writes of the tensors that `gradient` describes; `dw` overlaps
/// neither. The block has [`SMALL_WARPS`] warps, and shared memory for 16 sums of each.
#[inline(always)]
pub unsafe fn small_gradient<E: Num>(
    dy: *const E,
    x: *const E,
    dw: *mut E,
    gradient: &SmallGradient,
    block: u32,
) {
    let size = size_of::<E::Acc>() as u32;
    let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
    let (unit, part) = gradient.parts.divmod(block * SMALL_WARPS + warp);
    let (rest, tap) = gradient.taps.divmod(unit);
    let (i, j) = gradient.kernel_w.divmod(tap);
    let (rest, channel_block) = gradient.channel_blocks.divmod(rest);
    let (group, row_block) = gradient.row_blocks.divmod(rest);
    let (first_row, first_channel) = (row_block * SMALL_CHANNELS, channel_block * SMALL_CHANNELS);
    let x_plane = gradient.h * gradient.w;
    let dy_plane = gradient.out_h.divisor() * gradient.out_w.divisor();
    let zero = E::narrow(E::ZERO);
    let live = unit < gradient.units;
    let mut sums = [[E::ZERO; SMALL_CHANNELS as usize]; SMALL_CHANNELS as usize];
    let step = 32 * gradient.parts.divisor();
    let load = |pixel: u32| {
        let inside = pixel < gradient.pixels;
        let pixel = if inside { pixel } else { 0 };
        let (line, column) = gradient.out_w.divmod(pixel);
        let (n, row) = gradient.out_h.divmod(line);
        let source_row = (row * gradient.stride_h + i).wrapping_sub(gradient.pad_h);
        let source_column = (column * gradient.stride_w + j).wrapping_sub(gradient.pad_w);
        // Positions in front of the image are huge unsigned numbers.
        let has = inside & (source_row < gradient.h) & (source_column < gradient.w);
        let of_batch = n * gradient.groups + group;
        let dy_at = (of_batch * gradient.rows + first_row) * dy_plane + pixel - n * dy_plane;
        let x_at = ((of_batch * gradient.channels + first_channel) * x_plane)
            .wrapping_add(source_row.wrapping_mul(gradient.w))
            .wrapping_add(source_column);
        let mut left = [zero; SMALL_CHANNELS as usize];
        let mut right = [zero; SMALL_CHANNELS as usize];
        let mut c = 0;
        while c < SMALL_CHANNELS {
            // SAFETY: the pixel lies in dy and the position in x. What is not there counts as zero on both sides, so
            // that no infinity meets a zero.
            unsafe {
                let from = dy.wrapping_add((dy_at + c * dy_plane) as usize);
                left[c as usize] = load_if(has & (first_row + c < gradient.rows), from, zero);
                let from = x.wrapping_add(x_at.wrapping_add(c * x_plane) as usize);
                right[c as usize] = load_if(has & (first_channel + c < gradient.channels), from, zero);
            }
            c += 1;
        }
        (left, right)
    };
    let mut pixel = part * 32 + lane;
    while live & (pixel < gradient.pixels) {
        let [near, far] = [load(pixel), load(pixel + step)];
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
        add(near);
        add(far);
        pixel += 2 * step;
    }
    // SAFETY: all lanes of the warp are here.
    let total = unsafe { spread_sums::<E>(sums, lane) };
    let place = |warp: u32| (warp * 16 + lane / 2) * size;
    if lane.is_multiple_of(2) {
        // SAFETY: the place is this thread's.
        unsafe { shared_store(place(warp), total) };
    }
    sync_threads();
    let (r, c) = (lane / 2 / SMALL_CHANNELS, lane / 2 % SMALL_CHANNELS);
    let (row, channel) = (first_row + r, first_channel + c);
    let has = (row < gradient.rows) & (channel < gradient.channels);
    if live & has & (part == 0) & lane.is_multiple_of(2) {
        let mut total = E::ZERO;
        let mut other = 0;
        while other < gradient.parts.divisor() {
            // SAFETY: stored before the barrier.
            total = E::add(total, unsafe { shared_load(place(warp + other)) });
            other += 1;
        }
        let at =
            ((group * gradient.rows + row) * gradient.channels + channel) * gradient.taps.divisor() + tap;
        // SAFETY: the element lies in dw, and no other thread has it.
        unsafe { put(dw.wrapping_add(at as usize), total, gradient.accumulate) };
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

/// Forward, dgrad, wgrad, or dgrad and wgrad: the blocks of `product`, then those of `gradient`, which has dy in
/// `source`.
///
/// # Safety
/// As for [`small_product`], and behind its blocks for [`small_gradient`].
#[inline(always)]
pub unsafe fn conv2d_small<E: Num>(
    source: *mut E,
    filter: *mut E,
    out: *mut E,
    x: *mut E,
    dw: *mut E,
    product: SmallProduct,
    gradient: SmallGradient,
) {
    let mut block = block_idx_x();
    while block < product.blocks + gradient.blocks {
        // SAFETY: by this function's contract.
        unsafe {
            if block < product.blocks {
                small_product(source, filter, out, &product, block);
            } else {
                small_gradient(source, x, dw, &gradient, block - product.blocks);
            }
        }
        // The next sums must not overtake a reader of these.
        sync_threads();
        block += grid_dim_x();
    }
}

entry! { float conv2d_small {
    args(source: *mut E, filter: *mut E, out: *mut E, x: *mut E, dw: *mut E)
    hidden(product: SmallProduct, gradient: SmallGradient)
    constants()
    barriers(3)
} }
