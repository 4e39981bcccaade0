//! Convolutions too small to fill a GPU: forward, dgrad, wgrad, or both gradients, in one launch without a workspace.
//!
//! Their time is that of launches and of waiting for memory, so that nothing is packed or left to a second launch, and a
//! thread has many loads in flight.
//!
//! Forward and dgrad: a warp takes pixels of the result and four of its channels, and a part of the reduction, whose
//! terms are numbered with the channel first and the tap last. For a stretch of terms each lane looks up one: where
//! it lies in the source, and the weights of the four channels. Shared memory hands that to all lanes, which then go
//! through the terms with 16 loads of the source in flight. A lane has a pixel, or several share one where there are few
//! pixels and many terms. dgrad's pixels are taken by their residue class of the stride, so that those of a warp meet the
//! same taps, and no others.
//!
//! wgrad is in [`crate::conv2d_small_dw`].
//!
//! A block's warps add their parts in the order of the parts, after the lanes have added theirs by a tree.

use crate::conv2d_small_dw::{SmallGradient, small_gradient};
use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, fresh, grid_dim_x, load_if, shared_load, shared_load16, shared_store,
    shared_store16, shuffle_xor, sync_threads, thread_idx_x,
};
use crate::num::{Num, put};

/// Channels of a warp on either side.
pub const SMALL_CHANNELS: u32 = 4;

/// Terms that a warp looks up at once, one a lane.
pub const SMALL_TERMS: u32 = 32;

/// Places of a warp for these, of which some stay empty so that lanes that share a pixel read from different banks.
pub const SMALL_PLACES: u32 = 36;

/// Terms that are loaded under one condition; those of two such groups are in flight together.
const GROUP: u32 = 8;

/// Bytes of shared memory that say where a term lies.
const WHERE: u32 = 16;

/// A row or column that stays outside any source, whichever tap is added.
const OUTSIDE: u32 = 0xc000_0000;

/// What to add to a row or column so that it lies outside any source.
const AWAY: u32 = 0x8000_0000;

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
    /// The result's extent.
    pub out: u32,
    /// Divides by classes of positions, of which each meets its own taps: position `o` is of class `o % classes`.
    pub classes: FastDivmod,
    /// The class that comes first; one that meets the most taps.
    pub first_class: u32,
    /// Divides by positions of a class.
    pub cells: FastDivmod,
    /// Divides by the most taps that a position meets.
    pub taps: FastDivmod,
    /// Divides by one fewer, which is what the other classes meet, if that is any.
    pub fewer: FastDivmod,
}

/// What the positions of a class have in common.
#[derive(Clone, Copy)]
struct Class {
    /// The first position.
    first: u32,
    /// The first tap.
    tap: u32,
    /// How many taps.
    count: u32,
}

impl SmallAxis {
    #[inline(always)]
    fn class(&self, index: u32) -> Class {
        let first = index + self.first_class;
        let classes = self.classes.divisor();
        let first = if first < classes { first } else { first - classes };
        let most = self.taps.divisor();
        if self.reverse == 0 {
            return Class { first, tap: 0, count: most };
        }
        let (_, tap) = self.stride.divmod(first + self.pad);
        let all = tap + (most - 1) * self.stride.divisor() < self.kernel;
        Class { first, tap, count: if all { most } else { most - 1 } }
    }

    /// Divides by the taps of a class, of which it has so many.
    #[inline(always)]
    fn taps(&self, count: u32) -> FastDivmod {
        if count == self.taps.divisor() { self.taps } else { self.fewer }
    }

    /// Taps of the filter between those of a class.
    #[inline(always)]
    fn tap_step(&self) -> u32 {
        if self.reverse == 0 { 1 } else { self.stride.divisor() }
    }

    /// The position of this number in its class, and the source's position at its first tap. Those in front of the
    /// source are huge unsigned numbers.
    #[inline(always)]
    fn position(&self, class: Class, cell: u32) -> (u32, u32) {
        let out = cell * self.classes.divisor() + class.first;
        if self.reverse == 0 {
            (out, (out * self.stride.divisor()).wrapping_sub(self.pad))
        } else {
            (out, self.stride.div(out + self.pad))
        }
    }

    /// How far tap `t` of a class is in the source from the first.
    #[inline(always)]
    fn distance(&self, t: u32) -> u32 {
        if self.reverse == 0 { t } else { 0_u32.wrapping_sub(t) }
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
    /// Pixels of a class, of all batch items.
    pub pixels: u32,
    /// Lanes that share a pixel: two to the power of this, which is at most 2.
    pub split: u32,
    /// How often a warp looks up terms.
    pub chunks: u32,
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
    /// Divides by warps along the pixels of a class.
    pub tiles: FastDivmod,
}

/// One for each of four channels.
pub(crate) type Four<A> = [A; SMALL_CHANNELS as usize];

/// The same number, hidden from the compiler at this place. What follows from it is computed behind this place: the
/// loops around are mostly gone through once, and what they keep for another time takes registers that warps want.
#[inline(always)]
pub(crate) fn here(number: u32) -> u32 {
    fresh(number)
}

/// Stores the weights of a term, numbers of four or eight bytes.
///
/// # Safety
/// As for [`shared_store16`].
#[inline(always)]
unsafe fn store_four<A: Copy>(byte: u32, four: Four<A>) {
    // SAFETY: by this function's contract; each arm moves exactly the numbers' bytes.
    unsafe {
        if size_of::<A>() == 4 {
            shared_store16(byte, core::mem::transmute_copy(&four));
        } else {
            let [low, high]: [[u32; 4]; 2] = core::mem::transmute_copy(&four);
            shared_store16(byte, low);
            shared_store16(byte + 16, high);
        }
    }
}

/// Loads the weights of a term, numbers of four or eight bytes.
///
/// # Safety
/// As for [`shared_load16`].
#[inline(always)]
unsafe fn load_four<A: Copy>(byte: u32) -> Four<A> {
    // SAFETY: by this function's contract; each arm moves exactly the numbers' bytes.
    unsafe {
        if size_of::<A>() == 4 {
            core::mem::transmute_copy(&shared_load16(byte))
        } else {
            core::mem::transmute_copy(&[shared_load16(byte), shared_load16(byte + 16)])
        }
    }
}

/// Adds the parts of a sum in their order. They are 16 at most, and a power of two.
///
/// # Safety
/// The parts lie in shared memory at `place`, stored before a barrier.
#[inline(always)]
pub(crate) unsafe fn sum_parts<E: Num>(parts: u32, place: impl Fn(u32) -> u32) -> E::Acc {
    let parts = here(parts);
    let eight = |first: u32, mut total: E::Acc| {
        // All at once, so that they are waited for together.
        let mut sums = [E::ZERO; 8];
        let mut u = 0;
        while u < 8 {
            // SAFETY: one of the parts, which are a power of two.
            sums[u as usize] = unsafe { shared_load(place((first + u) & (parts - 1))) };
            u += 1;
        }
        u = 0;
        while u < 8 {
            if first + u < parts {
                total = E::add(total, sums[u as usize]);
            }
            u += 1;
        }
        total
    };
    let total = eight(0, E::ZERO);
    if parts > 8 { eight(8, total) } else { total }
}

/// The first of a warp's four channels, and how many of them are another warp's. A last warp with fewer channels takes
/// some in front of them, so that what lies where follows from the launch alone.
#[inline(always)]
pub(crate) fn four_channels(index: u32, channels: u32) -> (u32, u32) {
    let first = index * SMALL_CHANNELS;
    let last = channels.saturating_sub(SMALL_CHANNELS);
    if first < last { (first, 0) } else { (last, first - last) }
}

/// How far four channels lie from the first. Of fewer the last stands in for those that are missing, and nobody stores
/// what comes of it.
#[inline(always)]
pub(crate) fn channel_offsets(channels: u32, step: u32) -> Four<u32> {
    let at = |c: u32| (if c < channels { c } else { channels - 1 }) * step;
    [0, at(1), at(2), at(3)]
}

/// Forward or dgrad: `out = source ∗ filter`, or what of it is this block's.
///
/// # Safety
/// `source` and `filter` are valid for reads, `out` for reads and writes of the tensors that `product` describes; `out`
/// overlaps neither. The block has shared memory for [`SMALL_PLACES`] terms of each warp.
#[inline(always)]
pub unsafe fn small_product<E: Num<Acc: Num<Acc = E::Acc>>>(
    source: *const E,
    filter: *const E,
    out: *mut E,
    product: &SmallProduct,
    block: u32,
) {
    let warps = block_dim_x() / 32;
    let thread = here(thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let (unit, part) = product.parts.divmod(block * warps + warp);
    let (rest, row_block) = product.row_blocks.divmod(unit);
    let (rest, group) = product.groups.divmod(rest);
    let (class, tile) = product.tiles.divmod(rest);
    let (class_h, class_w) = product.w.classes.divmod(class);
    let (class_h, class_w) = (product.h.class(class_h), product.w.class(class_w));
    let split = product.split;
    let share = lane & ((1 << split) - 1);
    let pixel = tile * (32 >> split) + (lane >> split);
    let exists = unit < product.units;
    let inside = exists & (pixel < product.pixels);
    let pixel = if inside { pixel } else { 0 };
    let (line, cell_w) = product.w.cells.divmod(pixel);
    let (n, cell_h) = product.h.cells.divmod(line);
    let (y, row) = product.h.position(class_h, cell_h);
    let (x, column) = product.w.position(class_w, cell_w);
    let live = inside & (y < product.h.out) & (x < product.w.out);
    let plane = product.h.source * product.w.source;
    let source_at = ((n * product.groups.divisor() + group) * product.reduced * plane)
        .wrapping_add(row.wrapping_mul(product.w.source))
        .wrapping_add(column);
    let row = if live { row } else { OUTSIDE };
    let (first_row, skipped) = four_channels(row_block, product.rows);
    let filter_at = group * product.filter_group
        + first_row * product.filter_row
        + class_h.tap * product.w.kernel
        + class_w.tap;
    let terms = if exists { product.reduced * class_h.count * class_w.count } else { 0 };
    let length = product.parts.div(terms + product.parts.divisor() - 1);
    let first = part * length;
    let left = terms.saturating_sub(first);
    let mut left = if left < length { left } else { length };
    let mut first = first;
    let of_batch = (n * product.groups.divisor() + group) * product.rows + first_row;
    let out_at = (of_batch * product.h.out + y) * product.w.out + x;
    let out_plane = product.h.out * product.w.out;
    // A bit for each channel that this lane stores, if its warp adds the channel's parts.
    let rows_left = product.rows - first_row;
    let up_to = if rows_left < SMALL_CHANNELS { (1 << rows_left) - 1 } else { 0xf };
    let stores = if live & (share == 0) { up_to & (0xf << skipped) } else { 0 };
    let zero = E::narrow(E::ZERO);
    let four = SMALL_CHANNELS * size_of::<E::Acc>() as u32;
    let tables = warp * SMALL_PLACES * (WHERE + four);
    let weights = tables + SMALL_PLACES * WHERE;
    // The places of lanes that share a pixel lie one more apart than they have terms.
    let apart = (SMALL_TERMS >> split) + 1;
    let mut sums = [E::ZERO; SMALL_CHANNELS as usize];
    let mut chunk = 0;
    while chunk < product.chunks {
        let lane = here(thread_idx_x()) % 32;
        let row_at = channel_offsets(product.rows, product.filter_row);
        let (taps_h, taps_w) = (product.h.taps(here(class_h.count)), product.w.taps(here(class_w.count)));
        let count = if left < SMALL_TERMS { left } else { SMALL_TERMS };
        let groups = (count + (GROUP << split) - 1) >> (3 + split);
        // Tell all lanes where this lane's term lies, and have its weights on their way.
        let place = (lane & ((1 << split) - 1)) * apart + (lane >> split);
        let has = lane < count;
        let (rest, t_w) = taps_w.divmod(first + lane);
        let (c, t_h) = taps_h.divmod(rest);
        let (down, right) = (product.h.distance(t_h), product.w.distance(t_w));
        let offset = (c * plane).wrapping_add(down.wrapping_mul(product.w.source)).wrapping_add(right);
        let down = if has { down } else { AWAY };
        // SAFETY: the place is this term's.
        unsafe { shared_store16(tables + place * WHERE, [offset, down, right, 0]) };
        let at = filter_at
            .wrapping_add(c * product.filter_channel)
            .wrapping_add(t_h * product.h.tap_step() * product.w.kernel)
            .wrapping_add(t_w * product.w.tap_step());
        let mut own = [zero; SMALL_CHANNELS as usize];
        let mut r = 0;
        while r < SMALL_CHANNELS as usize {
            // SAFETY: the tap lies in the filter.
            own[r] = unsafe { load_if(has, filter.wrapping_add(at.wrapping_add(row_at[r]) as usize), zero) };
            r += 1;
        }
        sync_threads();
        let mine = share * apart;
        // The source at eight terms, and which of them lie in it.
        let load = |group: u32| {
            let mut values = [zero; GROUP as usize];
            let mut has = 0;
            let mut u = 0;
            while u < GROUP {
                // SAFETY: stored before the barrier.
                let [offset, down, right, _] =
                    unsafe { shared_load16(tables + (mine + group * GROUP + u) * WHERE) };
                let take = (row.wrapping_add(down) < product.h.source)
                    & (column.wrapping_add(right) < product.w.source);
                let from = source.wrapping_add(source_at.wrapping_add(offset) as usize);
                // SAFETY: the position lies in the source.
                values[u as usize] = unsafe { load_if(take, from, zero) };
                has |= u32::from(take) << u;
                u += 1;
            }
            (values, has)
        };
        let add = |group: u32, loaded: ([E; GROUP as usize], u32), mut sums: Four<E::Acc>| {
            let (values, has) = loaded;
            let mut first = 0;
            while first < GROUP {
                // SAFETY: stored before the barrier.
                let weights_of = |u: u32| unsafe {
                    load_four::<E::Acc>(weights + (mine + group * GROUP + first + u) * four)
                };
                // Half of a group at once, so that they are waited for together.
                let half = [weights_of(0), weights_of(1), weights_of(2), weights_of(3)];
                let mut u = 0;
                while u < GROUP / 2 {
                    let value = values[(first + u) as usize].widen();
                    // What is not there is left out, so that no infinity meets a zero.
                    if has & (1 << (first + u)) != 0 {
                        let mut r = 0;
                        while r < SMALL_CHANNELS as usize {
                            sums[r] = E::Acc::mul_add(value, half[u as usize][r], sums[r]);
                            r += 1;
                        }
                    }
                    u += 1;
                }
                first += GROUP / 2;
            }
            sums
        };
        let mut group = 0;
        loop {
            let nothing = ([zero; GROUP as usize], 0);
            let one = if group < groups { load(group) } else { nothing };
            let two = if group + 1 < groups { load(group + 1) } else { nothing };
            // Hidden from the compiler, which would write the loads out a second time for the first round.
            if here(group) == 0 {
                // SAFETY: the place is this term's.
                unsafe { store_four(weights + place * four, own.map(E::widen)) };
                sync_threads();
            }
            if group < groups {
                sums = add(group, one, sums);
            }
            if group + 1 < groups {
                sums = add(group + 1, two, sums);
            }
            group += 2;
            if group >= groups {
                break;
            }
        }
        // The next terms, or the sums, must not overtake a reader of these.
        sync_threads();
        first += SMALL_TERMS;
        left = left.saturating_sub(SMALL_TERMS);
        chunk += 1;
    }
    let thread = here(thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    // Parts are a power of two.
    let part = (block * warps + warp) & (product.parts.divisor() - 1);
    let mut mask = 1;
    while mask < 1 << split {
        let mut r = 0;
        while r < SMALL_CHANNELS as usize {
            // SAFETY: all lanes of the warp are here.
            sums[r] = E::add(sums[r], unsafe { shuffle_xor(sums[r], mask) });
            r += 1;
        }
        mask <<= 1;
    }
    let size = size_of::<E::Acc>() as u32;
    let place = |warp: u32, r: u32| ((warp * SMALL_CHANNELS + r) * 32 + lane) * size;
    let mut r = 0;
    while r < SMALL_CHANNELS {
        // SAFETY: the place is this thread's.
        unsafe { shared_store(place(warp, r), sums[r as usize]) };
        r += 1;
    }
    sync_threads();
    // The parts share the channels that they add.
    let mut r = part;
    while r < SMALL_CHANNELS {
        if stores & (1 << r) != 0 {
            // SAFETY: stored before the barrier.
            let total =
                unsafe { sum_parts::<E>(product.parts.divisor(), |other| place(warp - part + other, r)) };
            let at = out_at + r * out_plane;
            // SAFETY: the element lies in the result, and no other thread has it.
            unsafe { put(out.wrapping_add(at as usize), total, product.accumulate) };
        }
        r += product.parts.divisor();
    }
}

/// Forward, dgrad, wgrad, or dgrad and wgrad: the blocks of `product`, then those of `gradient`, which has dy in
/// `source`.
///
/// # Safety
/// As for [`small_product`], and behind its blocks for [`small_gradient`].
#[inline(always)]
pub unsafe fn conv2d_small<E: Num<Acc: Num<Acc = E::Acc>>>(
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
    barriers(6)
} }
