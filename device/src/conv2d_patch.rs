//! The convolution's forward and dgrad on tensor cores, from patches of the image in shared memory.
//!
//! A block walks over tiles of 64 channels by at most 128 pixels of the result. For each chunk of channels that are
//! reduced, some of its warps bring the tile's [`Patch`] to shared memory once, channels fastest, and the packed filter
//! by `cp.async`; the others multiply the chunk before tap by tap: `ldmatrix` takes each pixel's row from wherever
//! it lies, so a tap is a distance and no data is moved for it. dgrad with a stride has a class of tiles for each residue
//! of the stride: neighbouring blocks take the classes of a place in turn, whose results lie side by side.
//!
//! f32 takes one product of TF32 values, or, split, three of them, which keep nearly all bits: each step's products go
//! to fresh accumulators, the small ones first, and are added to the sums by ordinary additions, because an `mma`
//! truncates its running sum. A split result that is not finite is computed again without tensor cores: infinities
//! have no small part.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_idx_x, commit_copies, copy16_async, fresh, grid_dim_x, load_if, load_matrices, shared_load,
    shared_load16, shared_store, shared_store16, shuffle_xor, sync_threads, thread_idx_x, wait_copies,
};
use crate::mma::{Factor, FragmentSums, multiply_split};
use crate::num::{Num, put};
use crate::patch::{Field, Patch, Pixel, Place, bring};

/// Taps that a kernel can have here.
pub const PATCH_TAPS: u32 = 64;

/// Channels of a block's tile; it has at most 128 pixels.
pub const PATCH_ROWS: u32 = 64;

/// Bytes of a chunk: what an entry or a row of the filter holds at a time.
pub const CHUNK: u32 = 64;

/// Classes of tiles of a launch.
pub const PATCH_CLASSES: usize = 4;

/// Where the table of classes lies, behind the table of taps, and the bytes of a class; then the table of reads.
const CLASSES: u32 = PATCH_TAPS * 8;
const CLASS_BYTES: u32 = 32;
const READS: u32 = CLASSES + PATCH_CLASSES as u32 * CLASS_BYTES;

/// Threads that gather.
const GATHERING: u32 = 128;

/// Threads that multiply, when a warp has `I` fragments of rows.
#[inline(always)]
const fn multiplying<const I: usize>() -> u32 {
    512 / I as u32
}

/// Bytes of a tap's part of the filter: a chunk for every row.
const TAP_BYTES: u32 = PATCH_ROWS * CHUNK;

/// The place of an entry's vector in a patch: vectors are permuted, so that the entries that a fragment takes, two
/// of every four, spread over all banks.
#[inline(always)]
fn entry_at(entry: u32, quarter: u32) -> u32 {
    entry * CHUNK + ((quarter ^ (entry >> 2)) & 3) * 16
}

/// The place of a row's vector in a tap's part of the filter, whose fragments take eight rows in turn.
#[inline(always)]
pub(crate) fn row_at(row: u32, quarter: u32) -> u32 {
    row * CHUNK + ((quarter ^ (row >> 1)) & 3) * 16
}

/// The tiles with the same taps: forward's all, dgrad's with the same residue of the stride.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PatchClass {
    /// Pixel rows.
    pub pixels_h: u32,
    /// Pixel columns.
    pub pixels_w: u32,
    /// The image row of the first tile's first entry.
    pub start_h: i32,
    /// The image column of the first tile's first entry.
    pub start_w: i32,
    /// The result's element of pixel 0.
    pub out_start: i32,
    /// Taps that take part.
    pub taps: u32,
    /// The first of them in the table.
    pub first_tap: u32,
    /// Chunks of the reduction: none without a tap.
    pub chunks: u32,
    /// The filter's tap of the first.
    pub filter_start: i32,
    /// The entry row of the first tap's first pixel.
    pub tap_start_h: i32,
    /// The column of the first tap's first pixel, before columns are parted into phases.
    pub tap_start_w: i32,
    /// Divides by taps in a row.
    pub taps_w: FastDivmod,
}

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
    /// Elements of the result between pixel rows.
    pub out_step_h: i32,
    /// Elements of the result between pixel columns.
    pub out_step_w: i32,
    /// Whether to add to the result.
    pub accumulate: u32,
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
    /// Chunks, and taps, that are brought to shared memory together.
    pub round_chunks: u32,
    /// See [`round_chunks`](PatchProduct::round_chunks).
    pub round_taps: u32,
    /// Tiles of all groups.
    pub tiles: u32,
    /// Divides by tiles along the channels.
    pub row_tiles: FastDivmod,
    /// Divides by tiles of pixels.
    pub pixel_tiles: FastDivmod,
    /// Divides by classes.
    pub classes: FastDivmod,
    /// What tells the classes apart.
    pub class: [PatchClass; PATCH_CLASSES],
}

/// Which tile of the result.
#[derive(Clone, Copy)]
struct Tile {
    group: u32,
    first_row: u32,
    place: Place,
    out_start: i32,
    taps: u32,
    first_tap: u32,
}

/// Where a block is on its way: a tile, and of its reduction the first chunk and the first tap of a round.
#[derive(Clone, Copy)]
struct Round {
    tile: u32,
    chunk: u32,
    tap: u32,
    /// The tile's taps, the first of them in the table, and its chunks.
    taps: u32,
    first_tap: u32,
    chunks: u32,
    /// Rounds before, and patches.
    count: u32,
    patches: u32,
}

impl Round {
    /// # Safety
    /// The tables were filled before the last barrier.
    #[inline(always)]
    unsafe fn first(product: &PatchProduct) -> Self {
        let tile = block_idx_x();
        let mut round =
            Self { tile, chunk: 0, tap: 0, taps: 0, first_tap: 0, chunks: 0, count: 0, patches: 0 };
        // SAFETY: by this function's contract.
        unsafe { round.enter(product) };
        round
    }

    /// Takes what the tile's class says.
    ///
    /// # Safety
    /// The tables were filled before a barrier.
    #[inline(always)]
    unsafe fn enter(&mut self, product: &PatchProduct) {
        let (_, class) = product.classes.divmod(self.tile);
        // SAFETY: by this function's contract.
        let [_, taps, first_tap, chunks] = unsafe { shared_load16(CLASSES + class * CLASS_BYTES + 16) };
        (self.taps, self.first_tap, self.chunks) = (taps, first_tap, chunks);
    }

    /// Taps first, which share a patch, then chunks, then tiles.
    ///
    /// # Safety
    /// The tables were filled before a barrier.
    #[inline(always)]
    unsafe fn advance(&mut self, product: &PatchProduct) {
        self.count += 1;
        self.tap += product.round_taps;
        if self.tap >= self.taps {
            (self.tap, self.patches) = (0, self.patches + 1);
            self.chunk += product.round_chunks;
            if self.chunk >= self.chunks {
                (self.chunk, self.tile) = (0, self.tile + grid_dim_x());
                // SAFETY: by this function's contract.
                unsafe { self.enter(product) };
            }
        }
    }

    /// Chunks and taps of the round.
    #[inline(always)]
    fn extents(&self, product: &PatchProduct) -> (u32, u32) {
        let (chunks, taps) = (self.chunks - self.chunk, self.taps - self.tap);
        (
            if chunks < product.round_chunks { chunks } else { product.round_chunks },
            if taps < product.round_taps { taps } else { product.round_taps },
        )
    }

    /// # Safety
    /// The tables were filled before a barrier.
    #[inline(always)]
    unsafe fn tile(&self, product: &PatchProduct) -> Tile {
        let (rest, class) = product.classes.divmod(self.tile);
        let (rest, row_tile) = product.row_tiles.divmod(rest);
        let (group, pixel_tile) = product.pixel_tiles.divmod(rest);
        let at = CLASSES + class * CLASS_BYTES;
        // SAFETY: by this function's contract.
        let ([pixels_h, pixels_w, start_h, start_w], [out_start, ..]) =
            unsafe { (shared_load16(at), shared_load16(at + 16)) };
        let field = Field { pixels: [pixels_h, pixels_w], start: [start_h as i32, start_w as i32] };
        Tile {
            group,
            first_row: row_tile * PATCH_ROWS,
            place: product.patch.place_in(field, pixel_tile),
            out_start: out_start as i32,
            taps: self.taps,
            first_tap: self.first_tap,
        }
    }
}

/// Where a block's buffers lie in shared memory, behind the tables: two parts of the filter, and two patches.
#[derive(Clone, Copy)]
struct Buffers {
    filter: u32,
    filter_bytes: u32,
    patch: u32,
    patch_bytes: u32,
}

impl Buffers {
    #[inline(always)]
    fn new(product: &PatchProduct) -> Self {
        let filter = (READS + product.patch.reads.divisor() * 16).next_multiple_of(CHUNK);
        let filter_bytes = product.round_chunks * product.round_taps * TAP_BYTES;
        let patch_bytes = product.round_chunks * product.patch.entries.divisor() * CHUNK;
        Self { filter, filter_bytes, patch: filter + 2 * filter_bytes, patch_bytes }
    }
}

/// Fills the tables of taps and of classes.
///
/// # Safety
/// The launch gave room for them, and a barrier follows.
#[inline(always)]
unsafe fn fill_tables(product: &PatchProduct, thread: u32) {
    let mut c = 0;
    // Written out by the compiler: an index that is not known would put the classes into local memory.
    while c < PATCH_CLASSES {
        let class = &product.class[c];
        let tap = thread.wrapping_sub(class.first_tap);
        // SAFETY: by this function's contract.
        unsafe {
            if tap < class.taps {
                let (i, j) = class.taps_w.divmod(tap);
                let number =
                    class.filter_start + i as i32 * product.filter_tap_h + j as i32 * product.filter_tap_w;
                let start = [class.tap_start_h, class.tap_start_w];
                shared_store(thread * 8, product.patch.tap_from(start, (i, j)));
                shared_store(thread * 8 + 4, number);
            }
            if thread == c as u32 {
                let at = CLASSES + thread * CLASS_BYTES;
                let field = [class.pixels_h, class.pixels_w, class.start_h as u32, class.start_w as u32];
                shared_store16(at, field);
                shared_store16(at + 16, [class.out_start as u32, class.taps, class.first_tap, class.chunks]);
            }
        }
        c += 1;
    }
}

/// Forward, or up to four residue classes of dgrad.
///
/// # Safety
/// `source` and `out` are valid for the tensors that `product` describes, `packed` for the filter as
/// [`conv2d_prepare`](mod@crate::conv2d_prepare) leaves it, on a 16-byte boundary; out overlaps neither. A block has `512 / I + 128` threads
/// and the shared memory of the table and the buffers.
#[inline(always)]
pub unsafe fn product<E: Factor, const I: usize, const SPLIT: bool>(
    source: *const E,
    packed: *const E,
    out: *mut E,
    product: &PatchProduct,
) {
    let thread = thread_idx_x();
    // SAFETY: the launch gave room for the tables.
    unsafe {
        fill_tables(product, thread);
        product.patch.fill_reads(READS, [thread, multiplying::<I>() + GATHERING]);
    }
    sync_threads();
    let buffers = Buffers::new(product);
    // SAFETY: the tables were filled before the barrier.
    let mut round = unsafe { Round::first(product) };
    // A round is brought while the one before is multiplied. Both kinds of threads have their own loop, so that those
    // that gather need no registers for sums; at the barriers they meet.
    if thread < multiplying::<I>() {
        let mut sums: FragmentSums<I, 4> = [[[0.0; 4]; 4]; I];
        sync_threads();
        while round.tile < product.tiles {
            sync_threads();
            // SAFETY: the round's buffers were complete before the barrier; all lanes are here.
            unsafe { multiply_round::<E, I, SPLIT>(product, &buffers, &round, &mut sums) };
            let done = round;
            // SAFETY: the tables were filled before a barrier; the tile's elements are this block's.
            unsafe {
                round.advance(product);
                if round.tile != done.tile {
                    let of = done.tile(product);
                    let again = store::<E, I, SPLIT>(out, product, &of, &sums);
                    if SPLIT && again != 0 {
                        compute_again::<E, I>(source, packed, out, product, &of, again);
                    }
                    sums = [[[0.0; 4]; 4]; I];
                }
            }
        }
    } else {
        while round.tile < product.tiles {
            sync_threads();
            // SAFETY: the round's buffers are free since the barrier.
            unsafe {
                bring_round::<E, SPLIT>(
                    source,
                    packed,
                    product,
                    &buffers,
                    &round,
                    thread - multiplying::<I>(),
                );
                round.advance(product);
            }
        }
        sync_threads();
    }
}

/// Brings a round's part of the filter, and its patch if it is the patch's first.
///
/// # Safety
/// As for [`product`]; the buffers are this round's until the next barrier.
#[inline(always)]
unsafe fn bring_round<E: Factor, const SPLIT: bool>(
    source: *const E,
    packed: *const E,
    product: &PatchProduct,
    buffers: &Buffers,
    round: &Round,
    thread: u32,
) {
    let patch = &product.patch;
    // SAFETY: the tables were filled before a barrier.
    let tile = unsafe { round.tile(product) };
    let (chunks, taps) = round.extents(product);
    let filter = buffers.filter + round.count % 2 * buffers.filter_bytes;
    let mut chunk = 0;
    while chunk < chunks {
        let first = (tile.group * product.chunks + round.chunk + chunk) * product.filter_taps;
        let mut tap = 0;
        while tap < taps {
            // SAFETY: the table was filled before a barrier.
            let number: u32 = unsafe { shared_load((tile.first_tap + round.tap + tap) * 8 + 4) };
            let row = (first + number) * product.padded_rows + tile.first_row;
            let at = packed.cast::<u8>().wrapping_add(row as usize * CHUNK as usize + thread as usize * 16);
            let to = filter + (chunk * product.round_taps + tap) * TAP_BYTES;
            // SAFETY: rows are padded to whole tiles.
            unsafe {
                copy16_async(to + row_at(thread / 4, thread % 4), at);
                copy16_async(
                    to + row_at(thread / 4 + 32, thread % 4),
                    at.wrapping_add(16 * GATHERING as usize),
                );
            }
            tap += 1;
        }
        chunk += 1;
    }
    commit_copies();
    if round.tap == 0 {
        let channel = round.chunk * (CHUNK / size_of::<E>() as u32);
        let from = source.wrapping_offset(
            (i64::from(tile.place.n) * patch.image
                + i64::from(tile.group * product.channels + channel) * i64::from(patch.channel))
                as isize,
        );
        let live = product.channels.saturating_sub(channel);
        let to = buffers.patch + round.patches % 2 * buffers.patch_bytes;
        let plane = patch.entries.divisor() * CHUNK;
        let at = |entry: u32, group: u32| to + group / 4 * plane + entry_at(entry, group % 4);
        // SAFETY: by this function's contract.
        unsafe {
            bring::<E, SPLIT, 2>(patch, READS, tile.place, from, [live, chunks * 4], [thread, GATHERING], at);
        }
    }
    wait_copies::<0>();
}

/// Adds a round's products to the sums, in the order of the reduction.
///
/// # Safety
/// The round's buffers were complete before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn multiply_round<E: Factor, const I: usize, const SPLIT: bool>(
    product: &PatchProduct,
    buffers: &Buffers,
    round: &Round,
    sums: &mut FragmentSums<I, 4>,
) {
    let patch = &product.patch;
    let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
    let (chunks, taps) = round.extents(product);
    let row = warp / 4 * 16 * I as u32 + lane % 16;
    let filter = buffers.filter + round.count % 2 * buffers.filter_bytes + row_at(row, lane / 16);
    let entries = buffers.patch + round.patches % 2 * buffers.patch_bytes;
    // The pixels of this lane's rows of the patch.
    let met = |half: u32| {
        let pixel = patch.pixel(warp % 4 * 32 + half * 16 + lane % 8 / 2 * 4 + lane / 16 * 2 + lane % 2);
        // A pixel behind the tile's last is multiplied too, but not stored.
        if pixel.n < patch.tile_n { patch.met(pixel) } else { 0 }
    };
    let met = [met(0), met(1)];
    let mut chunk = 0;
    while chunk < chunks {
        let entries = entries + chunk * patch.entries.divisor() * CHUNK;
        let filter = filter + chunk * product.round_taps * TAP_BYTES;
        let mut tap = 0;
        while tap < taps {
            // SAFETY: the table was filled before a barrier.
            let distance: u32 = unsafe { shared_load((round.first_tap + round.tap + tap) * 8) };
            let b = met.map(|met| entries + entry_at(met + distance, lane / 8 % 2));
            // SAFETY: by this function's contract.
            unsafe { multiply::<E, I, SPLIT>(filter + tap * TAP_BYTES, b, sums) };
            tap += 1;
        }
        chunk += 1;
    }
}

/// Adds the product of a tap's part of the filter and of a patch: two fragments deep.
///
/// # Safety
/// The rows were stored before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn multiply<E: Factor, const I: usize, const SPLIT: bool>(
    a_at: u32,
    b_at: [u32; 2],
    sums: &mut FragmentSums<I, 4>,
) {
    let mut k = 0;
    while k < 2 {
        // SAFETY: by this function's contract; the second pair of vectors is the first's neighbour but one.
        let [low, high] = b_at.map(|at| unsafe { load_matrices::<false>(at ^ (k * 32)) });
        let right = [[low[0], low[1]], [low[2], low[3]], [high[0], high[1]], [high[2], high[3]]];
        let mut i = 0;
        while i < I {
            // SAFETY: by this function's contract.
            let left = unsafe { load_matrices::<false>((a_at ^ (k * 32)) + i as u32 * 16 * CHUNK) };
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

/// Row and pixel of a thread's element `(i, j, e)`, in its tile: four neighbouring pixels are one thread's.
#[inline(always)]
fn corner<const I: usize>(thread: u32, i: u32, j: u32, e: u32) -> (u32, u32) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = warp / 4 * 16 * I as u32 + i * 16 + e / 2 * 8 + lane / 4;
    (row, warp % 4 * 32 + j / 2 * 16 + lane % 4 * 4 + j % 2 * 2 + e % 2)
}

/// Where a pixel of a tile lies in the result, from its channel's first element.
#[inline(always)]
fn offset(product: &PatchProduct, tile: &Tile, pixel: Pixel) -> i64 {
    let place = tile.place;
    let inside =
        (place.y + pixel.y) as i32 * product.out_step_h + (place.x + pixel.x) as i32 * product.out_step_w;
    i64::from(place.n + pixel.n) * product.out_image + i64::from(inside + tile.out_start)
}

/// Stores or adds a thread's part of a tile; split, leaves out what is not finite and returns it as bits.
///
/// # Safety
/// The result is valid as `product` describes it, and the thread's elements are its own.
#[inline(always)]
unsafe fn store<E: Factor, const I: usize, const SPLIT: bool>(
    out: *mut E,
    product: &PatchProduct,
    tile: &Tile,
    sums: &FragmentSums<I, 4>,
) -> u64 {
    let patch = &product.patch;
    let mut again = 0;
    let mut half = 0;
    while half < 2 {
        let thread = fresh(thread_idx_x());
        // Four neighbouring pixels; in the result they may lie apart, or not at all.
        let (row, index) = corner::<I>(thread, 0, 2 * half as u32, 0);
        let first = patch.pixel(index);
        let last = Pixel { x: first.x + 3, ..first };
        let channel =
            i64::from(tile.group * product.rows + tile.first_row + row) * i64::from(product.out_channel);
        let start = out.wrapping_offset((channel + offset(product, tile, first)) as isize);
        let in_a_row =
            (last.x < patch.tile_w.divisor()) & patch.counts(tile.place, last) & (product.accumulate == 0);
        let aligned = (product.out_step_w == 1)
            & start.addr().is_multiple_of(4 * size_of::<E>())
            & (product.out_channel % 4 == 0);
        if in_a_row {
            let mut i = 0;
            while i < 2 * I {
                let four = four(sums, i, half);
                if tile.first_row + row + 8 * (i as u32) < product.rows {
                    let to = start.wrapping_offset(8 * i as isize * product.out_channel as isize);
                    if !SPLIT || four.iter().all(|sum| sum.is_finite()) {
                        // SAFETY: the elements lie in the result, on their boundary if so, and no other thread has
                        // them.
                        unsafe {
                            if aligned {
                                E::store_four(to, four);
                            } else {
                                let [a, b, c, d] = four.map(E::narrow);
                                let step = product.out_step_w as isize;
                                *to = a;
                                *to.wrapping_offset(step) = b;
                                *to.wrapping_offset(2 * step) = c;
                                *to.wrapping_offset(3 * step) = d;
                            }
                        }
                    } else {
                        again |= 0xf << ((half * 2 * I + i) * 4);
                    }
                }
                i += 1;
            }
        } else {
            let mut pixel = first;
            let mut u = 0;
            while u < 4 {
                if patch.counts(tile.place, pixel) {
                    let start = out.wrapping_offset((channel + offset(product, tile, pixel)) as isize);
                    let mut i = 0;
                    while i < 2 * I {
                        if tile.first_row + row + 8 * (i as u32) < product.rows {
                            let sum = four(sums, i, half)[u];
                            if SPLIT && !sum.is_finite() {
                                again |= 1 << ((half * 2 * I + i) * 4 + u);
                            } else {
                                let to = start.wrapping_offset(8 * i as isize * product.out_channel as isize);
                                // SAFETY: the element lies in the result, and no other thread has it.
                                unsafe { put(to, sum, product.accumulate) };
                            }
                        }
                        i += 1;
                    }
                }
                pixel = patch.next(pixel);
                u += 1;
            }
        }
        half += 1;
    }
    again
}

/// A thread's four neighbouring pixels of row `i`, which lie 8 rows apart.
#[inline(always)]
pub(crate) fn four<const I: usize, const J: usize>(
    sums: &FragmentSums<I, J>,
    i: usize,
    pair: usize,
) -> [f32; 4] {
    let (left, right) = (&sums[i / 2][2 * pair], &sums[i / 2][2 * pair + 1]);
    let first = i % 2 * 2;
    [left[first], left[first + 1], right[first], right[first + 1]]
}

/// Four neighbouring pixels, of two fragments of which a thread has two neighbours each: even and odd threads exchange one
/// fragment's for the other's.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
pub(crate) unsafe fn exchange(odd: bool, [a, b, c, d]: [f32; 4]) -> [f32; 4] {
    let (send, keep) = if odd { ([a, b], [c, d]) } else { ([c, d], [a, b]) };
    // SAFETY: by this function's contract.
    let got = unsafe { [shuffle_xor(send[0], 1), shuffle_xor(send[1], 1)] };
    if odd { [got[0], got[1], keep[0], keep[1]] } else { [keep[0], keep[1], got[0], got[1]] }
}

/// Computes a thread's elements, given as [`store`] returns them, by fused multiply-adds.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn compute_again<E: Num<Acc = f32>, const I: usize>(
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
        let (u, i, half) = (bit % 4, bit / 4 % (2 * I as u32), bit / (8 * I as u32));
        let (row, index) = corner::<I>(thread_idx_x(), i / 2, 2 * half + u / 2, i % 2 * 2 + u % 2);
        let row = tile.first_row + row;
        let met = patch.met(patch.pixel(index));
        let mut sum = 0.0;
        let mut channel = 0;
        while channel < product.channels {
            let (chunk, inside) = (channel / chunk_channels, channel % chunk_channels);
            let mut tap = 0;
            while tap < tile.taps {
                // SAFETY: the tables were filled before a barrier.
                let distance: u32 = unsafe { shared_load((tile.first_tap + tap) * 8) };
                let entry = patch.entry(met + distance);
                let offset = i64::from(tile.place.n) * patch.image
                    + i64::from(tile.group * product.channels + channel) * i64::from(patch.channel)
                    + i64::from(patch.offset(tile.place, entry));
                // SAFETY: as above; the entry lies in the image if it is taken, and the filter's element in the packed
                // filter.
                unsafe {
                    let number: u32 = shared_load((tile.first_tap + tap) * 8 + 4);
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
        let channel = i64::from(tile.group * product.rows + row) * i64::from(product.out_channel);
        let at = channel + offset(product, tile, patch.pixel(index));
        // SAFETY: the element lies in the result, and is this thread's.
        unsafe { put(out.wrapping_offset(at as isize), sum, product.accumulate) };
    }
}

/// Forward or dgrad.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch<E: Factor>(source: *mut E, packed: *mut E, out: *mut E, described: PatchProduct) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 4, false>(source, packed, out, &described) };
}

entry! { sm_80 single conv2d_patch {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: PatchProduct)
    constants()
    barriers(5)
    threads(256, 2)
} }

/// Forward or dgrad with split products.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch_split<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PatchProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 2, true>(source, packed, out, &described) };
}

entry! { sm_80 f32 conv2d_patch_split {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: PatchProduct)
    constants()
    barriers(5)
    threads(384, 1)
} }
