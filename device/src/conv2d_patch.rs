//! The convolution's forward and dgrad on tensor cores, from patches of the image in shared memory.
//!
//! A block owns a tile of `BM` channels by at most 128 pixels of the result. For each chunk of channels that are
//! reduced it brings the tile's [`Patch`] to shared memory once, channels fastest, and multiplies it tap by tap with
//! the packed filter: `ldmatrix` takes each pixel's row from wherever it lies, so a tap is a distance and no data is
//! moved for it. The filter comes by `cp.async` in three stages; the next chunk's patch is gathered while this one is
//! multiplied. dgrad with a stride runs once for each residue class of the stride.
//!
//! f32 takes one product of TF32 values, or, split, three of them, which keep nearly all bits: each step's products go
//! to fresh accumulators, the small ones first, and are added to the sums by ordinary additions, because an `mma`
//! truncates its running sum. A split result that is not finite is computed again without tensor cores: infinities
//! have no small part.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_idx_x, commit_copies, copy16_async, load_if, load_matrices, shared_load, shared_store,
    shared_store16, sync_threads, thread_idx_x, wait_copies,
};
use crate::mma::{Factor, gather_vector, multiply_split, vector};
use crate::num::{Num, put};
use crate::patch::{Patch, Place};
use crate::sweep::for_each_index;

/// Taps that a kernel can have here.
pub const PATCH_TAPS: u32 = 64;

/// Pixels of a block's tile.
pub const PATCH_PIXELS: u32 = 128;

/// Bytes of a chunk: what an entry or a row of the filter holds at a time.
pub const CHUNK: u32 = 64;

/// Bytes between rows of the filter; the 16 beyond the chunk spread eight rows over all banks.
const PITCH: u32 = CHUNK + 16;

/// The place of an entry's vector in a patch: vectors are permuted, so that the entries that a fragment takes, two
/// of every four, spread over all banks.
#[inline(always)]
fn vector_at(entry: u32, quarter: u32) -> u32 {
    entry * CHUNK + ((quarter ^ (entry >> 2)) & 3) * 16
}

/// Stages of the filter.
const STAGES: u32 = 3;

/// Where the tables lie: for each tap its distance and its number in the filter, for each pixel its place in the
/// result, for each entry its place in the image.
const PIXELS: u32 = PATCH_TAPS * 8;
const ENTRIES: u32 = PIXELS + PATCH_PIXELS * 8;

/// The product of forward and dgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PatchProduct {
    /// How tiles meet the source.
    pub patch: Patch,
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
    /// Taps that take part.
    pub taps: u32,
    /// The filter's tap of tap 0, and between tap rows and taps.
    pub filter_start: i32,
    /// Filter taps between tap rows.
    pub filter_tap_h: i32,
    /// Filter taps between taps.
    pub filter_tap_w: i32,
    /// Taps of the packed filter.
    pub filter_taps: u32,
    /// Channels of the result, in a group.
    pub rows: u32,
    /// The same, padded to whole tiles.
    pub padded_rows: u32,
    /// Channels of the reduction, in a group.
    pub channels: u32,
    /// Chunks of the reduction.
    pub chunks: u32,
    /// Tiles of all groups.
    pub tiles: u32,
    /// Divides by tiles along the channels.
    pub row_tiles: FastDivmod,
    /// Divides by tiles of pixels.
    pub pixel_tiles: FastDivmod,
}

/// A thread's part of the result: four fragments of 16 channels by four of 8 pixels.
type Sums = [[[f32; 4]; 4]; 4];

/// Forward, or one residue class of dgrad, in tiles of `BM` channels.
///
/// # Safety
/// `source` and `out` are valid for the tensors that `product` describes, `packed` for the filter as
/// [`conv2d_pack_chunks`] leaves it, on a 16-byte boundary; out overlaps neither. The grid has at least `product.tiles` blocks. A block has `2·BM` threads and the
/// shared memory of the tables, the stages and two patches.
#[inline(always)]
pub unsafe fn product<E: Factor, const BM: u32, const SPLIT: bool>(
    source: *const E,
    packed: *const E,
    out: *mut E,
    product: &PatchProduct,
) {
    let threads = 2 * BM;
    // Vectors that a thread gathers in one step: so many loads are in flight.
    let loads = if BM == 64 && !SPLIT { 4 } else { 2 };
    let patch = &product.patch;
    let thread = thread_idx_x();
    let entries = patch.entries.divisor();
    let stages = ENTRIES + (entries * 4).next_multiple_of(16);
    let buffers = (stages + STAGES * BM * PITCH).next_multiple_of(128);
    if thread < product.taps {
        let (i, j) = patch.taps_w.divmod(thread);
        let number = product.filter_start + i as i32 * product.filter_tap_h + j as i32 * product.filter_tap_w;
        // SAFETY: the launch gave room for the tables.
        unsafe {
            shared_store(thread * 8, patch.tap(thread));
            shared_store(thread * 8 + 4, number);
        }
    }
    let (warp, lane) = (thread / 32, thread % 32);
    // Rows of the filter's fragments, and the pixels of this lane's rows of the patch.
    let a_lane = stages + (warp / 4 * 64 + lane % 16) * PITCH + lane / 16 * 16;
    let met = |half: u32| {
        let pixel = patch.pixel(warp % 4 * 32 + half * 16 + lane % 8 / 2 * 4 + lane / 16 * 2 + lane % 2);
        // A pixel behind the tile's last is multiplied too, but not stored.
        if pixel.n < patch.tile_n { patch.met(pixel) } else { 0 }
    };
    let met = [met(0), met(1)];
    let units = entries * (CHUNK / 16);
    let parts = units.div_ceil(loads * threads);
    let chunk_channels = CHUNK / size_of::<E>() as u32;
    let tile = block_idx_x();
    if tile < product.tiles {
        let (rest, row_tile) = product.row_tiles.divmod(tile);
        let (group, pixel_tile) = product.pixel_tiles.divmod(rest);
        let place = patch.place(pixel_tile);
        let first_row = row_tile * BM;
        // SAFETY: the launch gave room for the tables.
        unsafe { fill_tables(product, place, thread, threads) };
        sync_threads();
        let from = source.wrapping_offset(
            (i64::from(place.n) * patch.image
                + i64::from(group * product.channels) * i64::from(patch.channel)) as isize,
        );
        let gather = |chunk: u32, unit: u32| {
            let (quarter, entry) = patch.entries.divmod(unit);
            // SAFETY: the table was filled before the barrier.
            let offset: i32 = unsafe { shared_load(ENTRIES + entry * 4) };
            let channel = chunk * chunk_channels + quarter * vector::<E>();
            let left = if channel < product.channels { product.channels - channel } else { 0 };
            let live = if offset == i32::MIN { 0 } else { left };
            let at = from.wrapping_offset(
                (i64::from(channel) * i64::from(patch.channel) + i64::from(offset)) as isize,
            );
            // SAFETY: the entry lies in the image, and so many channels are the group's.
            unsafe {
                if SPLIT {
                    gather_vector::<E, false>(at, patch.channel, live)
                } else {
                    gather_vector::<E, true>(at, patch.channel, live)
                }
            }
        };
        let unit = |part: u32, u: u32| (part * loads + u) * threads + thread;
        let gather_part = |chunk: u32, part: u32| {
            let one = |u: u32| {
                let unit = unit(part, u);
                if u < loads && unit < units { gather(chunk, unit) } else { [0; 4] }
            };
            [one(0), one(1), one(2), one(3)]
        };
        let store_part = |buffer: u32, part: u32, vectors: [[u32; 4]; 4]| {
            let mut u = 0;
            while u < loads {
                let unit = unit(part, u);
                if unit < units {
                    let (quarter, entry) = patch.entries.divmod(unit);
                    let at = buffers + buffer * entries * CHUNK + vector_at(entry, quarter);
                    // SAFETY: each place belongs to one thread, and the barriers part stores and loads of a buffer.
                    unsafe { shared_store16(at, vectors[u as usize]) };
                }
                u += 1;
            }
        };
        // The stage of the filter that comes next.
        let (mut a_chunk, mut a_tap, mut a_stage) = (0, 0, 0);
        let mut bring_filter = || {
            if a_chunk < product.chunks {
                // SAFETY: the table was filled before the barrier.
                let number: u32 = unsafe { shared_load(a_tap * 8 + 4) };
                let row = ((group * product.chunks + a_chunk) * product.filter_taps + number)
                    * product.padded_rows
                    + first_row;
                let at = packed.cast::<u8>().wrapping_add(row as usize * CHUNK as usize);
                let one = |u: u32| {
                    let unit = u * threads + thread;
                    let to = stages + (a_stage * BM + unit / 4) * PITCH + unit % 4 * 16;
                    // SAFETY: rows are padded to whole tiles; the stage is free since the last barrier.
                    unsafe { copy16_async(to, at.wrapping_add(unit as usize * 16)) };
                };
                one(0);
                one(1);
                a_tap += 1;
                if a_tap == product.taps {
                    (a_tap, a_chunk) = (0, a_chunk + 1);
                }
                a_stage = if a_stage == STAGES - 1 { 0 } else { a_stage + 1 };
            }
            commit_copies();
        };
        let mut sums: Sums = [[[0.0; 4]; 4]; 4];
        bring_filter();
        bring_filter();
        let mut stage = 0;
        // A round gathers a chunk and multiplies the one before; the first only gathers.
        let mut chunk = 0;
        while chunk <= product.chunks {
            let multiplied = chunk > 0;
            let (before, buffer) = (buffers + (chunk + 1) % 2 * entries * CHUNK, chunk % 2);
            let taps = if multiplied { product.taps } else { 0 };
            let count = if taps > parts { taps } else { parts };
            let mut part = 0;
            while part < count {
                if part < taps {
                    wait_copies::<1>();
                    sync_threads();
                    bring_filter();
                }
                let bring = chunk < product.chunks && part < parts;
                let vectors = if bring { gather_part(chunk, part) } else { [[0; 4]; 4] };
                if part < taps {
                    // SAFETY: the table was filled before the barrier.
                    let distance: u32 = unsafe { shared_load(part * 8) };
                    let b = met.map(|met| before + vector_at(met + distance, lane / 8 % 2));
                    // SAFETY: stage and patch were complete before the barrier; all lanes are here.
                    unsafe { multiply::<E, SPLIT>(a_lane + stage * BM * PITCH, b, &mut sums) };
                    stage = if stage == STAGES - 1 { 0 } else { stage + 1 };
                }
                if bring {
                    store_part(buffer, part, vectors);
                }
                part += 1;
            }
            chunk += 1;
        }
        let tile_of = Tile { group, first_row, place };
        // SAFETY: the tile's elements are this block's.
        unsafe {
            let again = store::<E, SPLIT>(out, product, &tile_of, &sums);
            if SPLIT && again != 0 {
                compute_again(source, packed, out, product, &tile_of, again);
            }
        }
    }
}

/// Fills the tables of entries and of pixels.
///
/// # Safety
/// The launch gave room for them; between two barriers, all threads call this.
#[inline(always)]
unsafe fn fill_tables(product: &PatchProduct, place: Place, thread: u32, threads: u32) {
    let patch = &product.patch;
    let entries = patch.entries.divisor();
    let mut index = thread;
    while index < entries {
        let entry = patch.entry(index);
        let offset = if patch.inside(place, entry) { patch.offset(place, entry) as i32 } else { i32::MIN };
        // SAFETY: by this function's contract.
        unsafe { shared_store(ENTRIES + index * 4, offset) };
        index += threads;
    }
    if thread < PATCH_PIXELS {
        let pixel = patch.pixel(thread);
        let offset = i64::from(place.n + pixel.n) * product.out_image
            + i64::from(place.y + pixel.y) * i64::from(product.out_step_h)
            + i64::from(place.x + pixel.x) * i64::from(product.out_step_w)
            + i64::from(product.out_start);
        let offset = if patch.counts(place, pixel) { offset } else { -1 };
        // SAFETY: by this function's contract.
        unsafe { shared_store(PIXELS + thread * 8, offset) };
    }
}

/// Adds the product of a stage and a tap's part of a patch: two fragments deep.
///
/// # Safety
/// The rows were stored before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn multiply<E: Factor, const SPLIT: bool>(a_at: u32, b_at: [u32; 2], sums: &mut Sums) {
    let mut k = 0;
    while k < 2 {
        // SAFETY: by this function's contract; the second pair of vectors is the first's neighbour but one.
        let [low, high] = b_at.map(|at| unsafe { load_matrices::<false>(at ^ (k * 32)) });
        let right = [[low[0], low[1]], [low[2], low[3]], [high[0], high[1]], [high[2], high[3]]];
        let mut i = 0;
        while i < 4 {
            // SAFETY: by this function's contract.
            let left = unsafe { load_matrices::<false>(a_at + i as u32 * 16 * PITCH + k * 32) };
            let mut j = 0;
            while j < 4 {
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
        k += 1;
    }
}

/// Which tile of the result.
struct Tile {
    group: u32,
    first_row: u32,
    place: Place,
}

/// Row and pixel of a thread's element `(i, j, e)`, in its tile: four neighbouring pixels are one thread's.
#[inline(always)]
fn corner(i: u32, j: u32, e: u32) -> (u32, u32) {
    let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
    let row = warp / 4 * 64 + i * 16 + e / 2 * 8 + lane / 4;
    (row, warp % 4 * 32 + j / 2 * 16 + lane % 4 * 4 + j % 2 * 2 + e % 2)
}

/// Stores or adds a thread's part of a tile; split, leaves out what is not finite and returns it as bits.
///
/// # Safety
/// The result is valid as `product` describes it, and the thread's elements are its own.
#[inline(always)]
unsafe fn store<E: Factor, const SPLIT: bool>(
    out: *mut E,
    product: &PatchProduct,
    tile: &Tile,
    sums: &Sums,
) -> u64 {
    let mut again = 0;
    let mut half = 0;
    while half < 2 {
        // Four neighbouring pixels; in the result they may lie apart, or not at all.
        let (_, pixel) = corner(0, 2 * half as u32, 0);
        // SAFETY: the table was filled before a barrier.
        let offset = |u: u32| unsafe { shared_load::<i64>(PIXELS + (pixel + u) * 8) };
        let offsets = [offset(0), offset(1), offset(2), offset(3)];
        let together = (offsets[0] >= 0) & (offsets[3] - offsets[0] == 3) & (product.accumulate == 0);
        let mut i = 0;
        while i < 8 {
            let (left, right) = (&sums[i / 2][2 * half], &sums[i / 2][2 * half + 1]);
            let first = i % 2 * 2;
            let four = [left[first], left[first + 1], right[first], right[first + 1]];
            let row = tile.first_row + corner(i as u32 / 2, 0, i as u32 % 2 * 2).0;
            if row < product.rows {
                let channel = i64::from(tile.group * product.rows + row) * i64::from(product.out_channel);
                let to = out.wrapping_offset((channel + offsets[0]) as isize);
                let finite = !SPLIT | four.iter().all(|sum| sum.is_finite());
                if together & finite & (to.addr() % (4 * size_of::<E>()) == 0) {
                    // SAFETY: the elements lie in the result, on their boundary, and no other thread has them.
                    unsafe { E::store_four(to, four) };
                } else {
                    let mut u = 0;
                    while u < 4 {
                        if offsets[u] >= 0 {
                            if SPLIT && !four[u].is_finite() {
                                again |= 1 << (half * 32 + u * 8 + i);
                            } else {
                                let to = out.wrapping_offset((channel + offsets[u]) as isize);
                                // SAFETY: the element lies in the result, and no other thread has it.
                                unsafe { put(to, four[u], product.accumulate) };
                            }
                        }
                        u += 1;
                    }
                }
            }
            i += 1;
        }
        half += 1;
    }
    again
}

/// Computes a thread's elements, given as [`store`] returns them, by fused multiply-adds.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn compute_again<E: Num<Acc = f32>>(
    source: *const E,
    packed: *const E,
    out: *mut E,
    product: &PatchProduct,
    tile: &Tile,
    mut again: u64,
) {
    let patch = &product.patch;
    let chunk_channels = CHUNK / size_of::<E>() as u32;
    while again != 0 {
        let bit = again.trailing_zeros();
        again &= again - 1;
        let (i, u, half) = (bit % 8, bit / 8 % 4, bit / 32);
        let (row, index) = corner(i / 2, 2 * half + u / 2, i % 2 * 2 + u % 2);
        let row = tile.first_row + row;
        let met = patch.met(patch.pixel(index));
        let mut sum = 0.0;
        let mut channel = 0;
        while channel < product.channels {
            let (chunk, inside) = (channel / chunk_channels, channel % chunk_channels);
            let mut tap = 0;
            while tap < product.taps {
                let entry = patch.entry(met + patch.tap(tap));
                let offset = i64::from(tile.place.n) * patch.image
                    + i64::from(tile.group * product.channels + channel) * i64::from(patch.channel)
                    + patch.offset(tile.place, entry);
                // SAFETY: the tables were filled before a barrier; the entry lies in the image if it is taken, and
                // the filter's element in the packed filter.
                unsafe {
                    let number: u32 = shared_load(tap * 8 + 4);
                    let take = patch.inside(tile.place, entry);
                    let value = load_if(take, source.wrapping_offset(offset as isize), E::narrow(0.0));
                    let place = ((tile.group * product.chunks + chunk) * product.filter_taps + number)
                        * product.padded_rows
                        + row;
                    let weight = *packed.wrapping_add((place * chunk_channels + inside) as usize);
                    sum = E::mul_add(value, weight, sum);
                }
                tap += 1;
            }
            channel += 1;
        }
        // SAFETY: the table was filled before a barrier; the element lies in the result, and is this thread's.
        unsafe {
            let offset: i64 = shared_load(PIXELS + index * 8);
            let channel = i64::from(tile.group * product.rows + row) * i64::from(product.out_channel);
            put(out.wrapping_offset((channel + offset) as isize), sum, product.accumulate);
        }
    }
}

/// How a filter is packed: element `[group][chunk][tap][row][channel of the chunk]` is
/// `filter[group·filter_group + row·filter_row + channel·filter_channel + tap]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChunkPacking {
    /// Filter elements of a group.
    pub filter_group: i64,
    /// Filter elements between rows.
    pub filter_row: i32,
    /// Filter elements between channels.
    pub filter_channel: i32,
    /// Rows that the filter has.
    pub rows: u32,
    /// Channels that the filter has.
    pub channels: u32,
    /// Elements of the packed filter.
    pub len: u32,
    /// Whether to round to TF32.
    pub round: u32,
    /// Divides by padded rows.
    pub padded_rows: FastDivmod,
    /// Divides by taps.
    pub taps: FastDivmod,
    /// Divides by chunks.
    pub chunks: FastDivmod,
}

/// Packs a filter for [`product`].
///
/// # Safety
/// `filter` is valid for reads of the whole filter, `packed` for writes of `packing.len` elements; they do not
/// overlap.
#[inline(always)]
pub unsafe fn conv2d_pack_chunks<E: Num<Acc = f32>>(
    filter: *mut E,
    packed: *mut E,
    packing: ChunkPacking,
    block: i32,
) {
    let chunk_channels = CHUNK / size_of::<E>() as u32;
    for_each_index(u64::from(packing.len), block, |index| {
        let (rest, inside) = (index as u32 / chunk_channels, index as u32 % chunk_channels);
        let (rest, row) = packing.padded_rows.divmod(rest);
        let (rest, tap) = packing.taps.divmod(rest);
        let (group, chunk) = packing.chunks.divmod(rest);
        let channel = chunk * chunk_channels + inside;
        let offset = i64::from(group) * packing.filter_group
            + i64::from(row) * i64::from(packing.filter_row)
            + i64::from(channel) * i64::from(packing.filter_channel)
            + i64::from(tap);
        let take = (row < packing.rows) & (channel < packing.channels);
        // SAFETY: the element lies in the filter; `index < len`, and no other thread has this index.
        unsafe {
            let value = load_if(take, filter.wrapping_offset(offset as isize), E::narrow(0.0));
            // To nearest, ties away from zero, in integers: the conversion instruction needs sm_80.
            let bits = value.widen().to_bits();
            let round = packing.round != 0 && bits & 0x7f80_0000 != 0x7f80_0000;
            let rounded = E::narrow(f32::from_bits((bits + 0x1000) & !0x1fff));
            *packed.add(index as usize) = if round { rounded } else { value };
        }
    });
}

/// Forward or dgrad in tiles of 64 channels.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch_64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PatchProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 64, false>(source, packed, out, &described) };
}

entry! { sm_80 single conv2d_patch_64 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: PatchProduct)
    constants()
    barriers(2)
    threads(128, 3)
} }

/// Forward or dgrad in tiles of 128 channels.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch_128<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PatchProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 128, false>(source, packed, out, &described) };
}

entry! { sm_80 single conv2d_patch_128 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: PatchProduct)
    constants()
    barriers(2)
    threads(256, 2)
} }

/// Forward or dgrad in tiles of 64 channels, with split products.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch_split_64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PatchProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 64, true>(source, packed, out, &described) };
}

entry! { sm_80 f32 conv2d_patch_split_64 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: PatchProduct)
    constants()
    barriers(2)
    threads(128, 2)
} }

entry! { single conv2d_pack_chunks {
    args(filter: *mut E, packed: *mut E)
    hidden(packing: ChunkPacking)
    constants(block: i32)
} }
