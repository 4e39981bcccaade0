//! The convolution's forward and dgrad on tensor cores, from an image in the [blocked format](crate::conv2d_prepare).
//!
//! A block has a tile at a time: channels by pixels of the result, numbered over the whole batch. It walks over the planes of
//! the reduction, and in each over the taps; a step is a plane's 64 bytes of channels at one tap. `cp.async` brings a
//! step's rows of the packed filter and, for each pixel, the row that the tap meets, or zeros outside the image, three
//! steps ahead of the products. dgrad with a stride has a class of tiles for each residue of the stride; neighbouring
//! blocks take the classes in turn.
//!
//! f32 takes one product of TF32 values, or, split, three of them, as in [`conv2d_patch`](mod@crate::conv2d_patch),
//! which packs the filter for both.

use crate::conv2d_patch::{exchange, four, row_at};
use crate::conv2d_prepare::ROW;
use crate::divmod::FastDivmod;
use crate::gpu::{
    block_idx_x, commit_copies, copy16_async_if, fresh, grid_dim_x, load_matrices, shared_load16,
    shared_store16, sync_threads, thread_idx_x, wait_copies,
};
use crate::mma::{Factor, FragmentSums, Fragments, add_products};
use crate::num::{Num, put};

/// Taps that a kernel can have here.
pub const BLOCKED_TAPS: u32 = 64;

/// Classes of tiles of a launch.
pub const BLOCKED_CLASSES: usize = 4;

/// Steps that are on their way or being multiplied.
const STEPS: u32 = 4;

/// The most pixels of a tile.
const MOST_PIXELS: usize = 128;

/// Threads of a block: few, so that each has many sums, for which shared memory is read less often.
const THREADS: u32 = 128;

/// Rows of the filter or pixels that a block brings at a time, in four parts each.
const LINES: u32 = THREADS / 4;

/// Where the table of classes lies, behind the table of taps, and the bytes of a class; then the steps.
const CLASSES: u32 = BLOCKED_TAPS * 16;
const CLASS_BYTES: u32 = 48;
const BUFFERS: u32 = (CLASSES + BLOCKED_CLASSES as u32 * CLASS_BYTES).next_multiple_of(ROW);

/// What a step's number grows by from plane to plane; below it lies the tap's place in the table.
const NEXT_PLANE: u32 = 1 << 16;

/// A row that no tap brings into the image: rows and columns are below 2¹⁴, those around the image included.
const NOWHERE: i32 = -1 << 15;

/// The tiles with the same taps: forward's all, dgrad's with the same residue of the stride.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockedClass {
    /// Pixels of the result, of the whole batch.
    pub pixels: u32,
    /// The image row that pixel 0 meets with tap 0.
    pub start_h: i32,
    /// The image column that pixel 0 meets with tap 0.
    pub start_w: i32,
    /// The result's element of pixel 0.
    pub out_start: i32,
    /// Taps that take part.
    pub taps: u32,
    /// The first of them in the table.
    pub first_tap: u32,
    /// Divides by pixel columns.
    pub pixels_w: FastDivmod,
    /// Divides by pixel rows.
    pub pixels_h: FastDivmod,
    /// Divides by taps in a row.
    pub taps_w: FastDivmod,
    /// The filter's tap of the first.
    pub filter_start: i32,
}

/// The product of forward and dgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockedProduct {
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
    /// Whether four pixels from a multiple of four on lie side by side in the result, on their boundary.
    pub together: u32,
    /// Rows of the image.
    pub h: i32,
    /// Columns of the image.
    pub w: i32,
    /// Bytes of a plane.
    pub plane: u32,
    /// Image rows between pixel rows.
    pub step_h: i32,
    /// Image columns between pixel columns.
    pub step_w: i32,
    /// Image rows between tap rows.
    pub tap_h: i32,
    /// Image columns between taps.
    pub tap_w: i32,
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
    /// Planes of a group.
    pub planes: u32,
    /// Tiles of all groups and classes.
    pub tiles: u32,
    /// Divides by tiles along the channels.
    pub row_tiles: FastDivmod,
    /// Divides by tiles of pixels.
    pub pixel_tiles: FastDivmod,
    /// Divides by classes.
    pub classes: FastDivmod,
    /// What tells the classes apart.
    pub class: [BlockedClass; BLOCKED_CLASSES],
}

/// A tile of the result.
#[derive(Clone, Copy)]
struct Tile {
    group: u32,
    first_row: u32,
    first_pixel: u32,
    /// Where its class lies in shared memory.
    class: u32,
}

impl Tile {
    #[inline(always)]
    fn new(product: &BlockedProduct, tile: u32, [rows, pixels]: [u32; 2]) -> Self {
        let (rest, class) = product.classes.divmod(tile);
        let (rest, row_tile) = product.row_tiles.divmod(rest);
        let (group, pixel_tile) = product.pixel_tiles.divmod(rest);
        Self {
            group,
            first_row: row_tile * rows,
            first_pixel: pixel_tile * pixels,
            class: CLASSES + class * CLASS_BYTES,
        }
    }
}

/// What a class says of its pixels.
#[derive(Clone, Copy)]
struct Field {
    pixels: u32,
    start: [i32; 2],
    out_start: i32,
    taps: u32,
    first_tap: u32,
    pixels_w: FastDivmod,
    pixels_h: FastDivmod,
}

impl Field {
    /// # Safety
    /// The tables were filled before a barrier.
    #[inline(always)]
    unsafe fn of(tile: &Tile) -> Self {
        // SAFETY: by this function's contract.
        let [a, b, c] = unsafe {
            [shared_load16(tile.class), shared_load16(tile.class + 16), shared_load16(tile.class + 32)]
        };
        Self {
            pixels: a[0],
            start: [a[1] as i32, a[2] as i32],
            out_start: a[3] as i32,
            taps: b[0],
            first_tap: b[1],
            pixels_w: FastDivmod::from_parts(b[2], b[3], c[0]),
            pixels_h: FastDivmod::from_parts(c[1], c[2], c[3]),
        }
    }

    /// Batch item, row and column of a pixel.
    #[inline(always)]
    fn place(&self, pixel: u32) -> (u32, u32, u32) {
        let (rest, x) = self.pixels_w.divmod(pixel);
        let (n, y) = self.pixels_h.divmod(rest);
        (n, y, x)
    }
}

/// Fills the tables: for each tap how far it lies in the image, in rows and columns, where its part of the packed filter
/// begins, and the place of the next; then the classes.
///
/// # Safety
/// The launch gave room for them, and a barrier follows.
#[inline(always)]
unsafe fn fill_tables(product: &BlockedProduct, thread: u32) {
    // Where there is no tap, zeros: a class without one reads the first.
    if thread < BLOCKED_TAPS {
        // SAFETY: by this function's contract.
        unsafe { shared_store16(thread * 16, [0; 4]) };
    }
    let mut c = 0;
    // Written out by the compiler: an index that is not known would put the classes into local memory.
    while c < BLOCKED_CLASSES {
        let class = &product.class[c];
        let tap = thread.wrapping_sub(class.first_tap);
        // SAFETY: by this function's contract.
        unsafe {
            if tap < class.taps {
                let (i, j) = class.taps_w.divmod(tap);
                let (i, j) = (i as i32, j as i32);
                let (row, column) = (i * product.tap_h, j * product.tap_w);
                let number = class.filter_start + i * product.filter_tap_h + j * product.filter_tap_w;
                let filter = number as u32 * product.padded_rows * ROW;
                // Behind the last tap comes the first, of the next plane.
                let last = tap + 1 == class.taps;
                let next = if last { class.first_tap * 16 + NEXT_PLANE } else { (thread + 1) * 16 };
                shared_store16(thread * 16, [row as u32, column as u32, filter, next]);
            }
            if thread == c as u32 {
                let at = CLASSES + thread * CLASS_BYTES;
                let start = [class.start_h as u32, class.start_w as u32];
                let ([w, w_magic, w_shift], [h, h_magic, h_shift]) =
                    (class.pixels_w.parts(), class.pixels_h.parts());
                shared_store16(at, [class.pixels, start[0], start[1], class.out_start as u32]);
                shared_store16(at + 16, [class.taps, class.first_tap, w, w_magic]);
                shared_store16(at + 32, [w_shift, h, h_magic, h_shift]);
            }
        }
        c += 1;
    }
}

/// What a thread brings in every step: a 16-byte part of some rows of the filter and of some pixels, of which a block
/// brings [`LINES`] at a time.
#[derive(Clone, Copy)]
struct Bringer {
    /// Row and column that the pixels meet with tap 0, 16 bits each, and their bytes of the group's first plane.
    met: [(i32, u32); MOST_PIXELS / LINES as usize],
    /// Bytes of the filter from its start.
    filter: u32,
    /// Where the step's tap lies in the table, and above that the plane of its group.
    step: u32,
}

impl Bringer {
    #[inline(always)]
    fn new<const PIXELS: u32>(product: &BlockedProduct, tile: &Tile, field: &Field) -> Self {
        // What follows from the thread's number would take registers over all tiles.
        let thread = fresh(thread_idx_x());
        let (line, quarter) = (thread / 4, thread % 4);
        let met = |u: u32| {
            let pixel = tile.first_pixel + line + LINES * u;
            let (n, y, x) = field.place(pixel);
            let row = field.start[0] + y as i32 * product.step_h;
            let column = field.start[1] + x as i32 * product.step_w;
            let at = (n as i32 * product.h + row) * product.w + column;
            let row = if pixel < field.pixels { row } else { NOWHERE };
            let plane = tile.group * product.planes * product.plane;
            (
                (row << 16) | (column & 0xffff),
                (at as u32).wrapping_mul(ROW).wrapping_add(plane + quarter * 16),
            )
        };
        let first = tile.group * product.planes * product.filter_taps * product.padded_rows + tile.first_row;
        Self {
            met: [0, 1, 2, 3].map(|u| if u * LINES < PIXELS { met(u) } else { (0, 0) }),
            filter: (first + line) * ROW + quarter * 16,
            step: field.first_tap * 16,
        }
    }

    /// Starts a step's copies to a buffer, of zeros where there is no such step, and goes on to the next: no branch
    /// parts its arithmetic from the products around.
    ///
    /// # Safety
    /// The images are valid as `product` describes them; nobody touches the buffer before the copies were waited for.
    #[inline(always)]
    unsafe fn bring<const ROWS: u32, const PIXELS: u32>(
        &mut self,
        [source, packed]: [*const u8; 2],
        product: &BlockedProduct,
        some: bool,
        buffer: u32,
    ) {
        // Found again, so that it takes no registers in between.
        let (line, quarter) = (fresh(thread_idx_x()) / 4, fresh(thread_idx_x()) % 4);
        let to_filter = buffer + row_at(line, quarter);
        let to_pixels = buffer + ROWS * ROW + row_at(line, quarter);
        // SAFETY: by this function's contract; the table was filled before a barrier.
        unsafe {
            let [row, column, filter, next] = shared_load16(self.step % NEXT_PLANE);
            let plane = self.step / NEXT_PLANE;
            let distance = (row as i32 * product.w + column as i32) as u32 * ROW + plane * product.plane;
            let mut u = 0;
            while u < PIXELS / LINES {
                let (place, at) = self.met[u as usize];
                let (h, w) = (place >> 16, (place << 16) >> 16);
                let inside = (h.wrapping_add(row as i32) as u32) < product.h as u32;
                let take = some & inside & ((w.wrapping_add(column as i32) as u32) < product.w as u32);
                let at = at.wrapping_add(distance);
                let to = to_pixels + u * LINES * ROW;
                copy16_async_if::<true>(take, to, source.wrapping_add(at as usize));
                u += 1;
            }
            let plane = plane * product.filter_taps * product.padded_rows * ROW;
            let from = packed.wrapping_add((self.filter + plane + filter) as usize);
            u = 0;
            while u < ROWS / LINES {
                let to = to_filter + u * LINES * ROW;
                copy16_async_if::<false>(some, to, from.wrapping_add((u * LINES * ROW) as usize));
                u += 1;
            }
            self.step = self.step / NEXT_PLANE * NEXT_PLANE + next;
        }
    }
}

/// Forward, or up to four residue classes of dgrad, of which a block has a tile of `ROWS` channels by `PIXELS` pixels: a
/// warp `I` fragments of 16 channels by `J` of 8 pixels.
///
/// # Safety
/// `source` is valid for reads of all planes, as [`conv2d_prepare`](mod@crate::conv2d_prepare) leaves
/// them, `packed` for the filter as [`conv2d_prepare`](mod@crate::conv2d_prepare) leaves it, both on
/// 16-byte boundaries; `out` for the tensor that `product` describes, and overlaps neither. A block has 128
/// threads and the shared memory of the tables and the steps.
#[inline(always)]
pub unsafe fn blocked_product<
    E: Factor,
    const I: usize,
    const J: usize,
    const ROWS: u32,
    const PIXELS: u32,
    const SPLIT: bool,
>(
    source: *const E,
    packed: *const E,
    out: *mut E,
    product: &BlockedProduct,
) {
    const { assert!(I as u32 * 16 * J as u32 * 8 * (THREADS / 32) == ROWS * PIXELS) };
    // SAFETY: the launch gave room for the tables.
    unsafe { fill_tables(product, thread_idx_x()) };
    let mut tile = block_idx_x();
    while tile < product.tiles {
        // The tables are there, and the buffers of the tile before are free.
        sync_threads();
        // SAFETY: by this function's contract.
        unsafe { one_tile::<E, I, J, ROWS, PIXELS, SPLIT>(source, packed, out, product, tile) };
        tile += grid_dim_x();
    }
}

/// A tile of [`blocked_product`].
///
/// # Safety
/// As there; the tables were filled, and the buffers are free.
#[inline(always)]
unsafe fn one_tile<
    E: Factor,
    const I: usize,
    const J: usize,
    const ROWS: u32,
    const PIXELS: u32,
    const SPLIT: bool,
>(
    source: *const E,
    packed: *const E,
    out: *mut E,
    product: &BlockedProduct,
    number: u32,
) {
    let tile = Tile::new(product, number, [ROWS, PIXELS]);
    // SAFETY: the tables were filled before a barrier.
    let field = unsafe { Field::of(&tile) };
    // Classes differ in their pixels by a row and a column.
    if tile.first_pixel >= field.pixels {
        return;
    }
    let from = [source.cast::<u8>(), packed.cast::<u8>()];
    let mut bringer = Bringer::new::<PIXELS>(product, &tile, &field);
    let (bytes, steps) = ((ROWS + PIXELS) * ROW, product.planes * field.taps);
    let mut next = 0;
    while next < STEPS - 1 {
        // SAFETY: the buffers are free.
        unsafe {
            bringer.bring::<ROWS, PIXELS>(from, product, next < steps, BUFFERS + next * bytes);
        }
        commit_copies();
        next += 1;
    }
    let thread = fresh(thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let across = PIXELS / (8 * J as u32);
    let (warp_row, warp_pixel) = (warp / across, warp % across);
    let a_at = BUFFERS + row_at(warp_row * 16 * I as u32 + lane % 16, lane / 16);
    let place = lane / 16 * 8 + lane % 8;
    let b_at = BUFFERS + ROWS * ROW + row_at(warp_pixel * 8 * J as u32 + place, lane / 8 % 2);
    let mut sums: FragmentSums<I, J> = [[[0.0; 4]; J]; I];
    let mut step = 0;
    while step < steps {
        // This step's copies are there, and the buffer of the one before is free.
        wait_copies::<{ STEPS - 2 }>();
        sync_threads();
        let (buffer, next) = (step % STEPS * bytes, step + STEPS - 1);
        // The next copies start behind the first loads, so that their arithmetic hides behind the products; split, in front
        // of them, since the fragments take more registers.
        // SAFETY: the copies were there before the barrier, and the next buffer was read; all lanes are here.
        unsafe {
            let to = BUFFERS + next % STEPS * bytes;
            if SPLIT {
                bringer.bring::<ROWS, PIXELS>(from, product, next < steps, to);
            }
            let first = load::<I, J>(a_at + buffer, b_at + buffer, 0);
            if !SPLIT {
                bringer.bring::<ROWS, PIXELS>(from, product, next < steps, to);
            }
            if SPLIT {
                let first = first.split_products();
                let second = load::<I, J>(a_at + buffer, b_at + buffer, 1).split_products();
                add_products(&mut sums, &first);
                add_products(&mut sums, &second);
            } else {
                first.multiply::<E>(&mut sums);
                load::<I, J>(a_at + buffer, b_at + buffer, 1).multiply::<E>(&mut sums);
            }
        }
        commit_copies();
        step += 1;
    }
    wait_copies::<0>();
    // Found again, so that it takes no registers in the loop.
    let tile = Tile::new(product, number, [ROWS, PIXELS]);
    // SAFETY: the tile's elements are this block's.
    unsafe {
        let again = store::<E, I, J, PIXELS, SPLIT>(out, product, &tile, &sums);
        if SPLIT && again != 0 {
            compute_again::<E, I, J, PIXELS>(source, packed, out, product, &tile, again);
        }
    }
}

/// The fragments of the first or the second half of a step's rows.
///
/// # Safety
/// The rows were there before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn load<const I: usize, const J: usize>(a_at: u32, b_at: u32, half: u32) -> Fragments<I, J> {
    // Neighbours of a row's parts but one: what 16 rows lie apart does not change how parts are permuted.
    let (a_at, b_at) = (a_at ^ (half * 32), b_at ^ (half * 32));
    // SAFETY: by this function's contract.
    let rows = |at: u32| unsafe { load_matrices::<false>(at) };
    let (mut left, mut right) = ([[0; 4]; I], [[0; 2]; J]);
    let mut j = 0;
    while j < J {
        let [a, b, c, d] = rows(b_at + j as u32 * 8 * ROW);
        (right[j], right[j + 1]) = ([a, b], [c, d]);
        j += 2;
    }
    let mut i = 0;
    while i < I {
        left[i] = rows(a_at + i as u32 * 16 * ROW);
        i += 1;
    }
    Fragments { left, right }
}

/// A thread's first channel of a tile, and pixel `u` of its four of a pair of fragments: two neighbours and, eight on, two
/// more; or four, after an [`exchange`].
#[inline(always)]
fn corner<const I: usize, const J: usize, const PIXELS: u32>(
    thread: u32,
    pair: u32,
    u: u32,
    exchanged: bool,
) -> (u32, u32) {
    let (warp, lane) = (thread / 32, thread % 32);
    let across = PIXELS / (8 * J as u32);
    let (warp_row, warp_pixel) = (warp / across, warp % across);
    let place =
        if exchanged { lane % 2 * 8 + lane % 4 / 2 * 4 + u } else { u / 2 * 8 + lane % 4 * 2 + u % 2 };
    (warp_row * 16 * I as u32 + lane / 4, warp_pixel * 8 * J as u32 + pair * 16 + place)
}

/// The result's element of a pixel in its channel 0.
#[inline(always)]
fn offset(product: &BlockedProduct, field: &Field, pixel: u32) -> i64 {
    let (n, y, x) = field.place(pixel);
    let inside = y as i32 * product.out_step_h + x as i32 * product.out_step_w + field.out_start;
    i64::from(n) * product.out_image + i64::from(inside)
}

/// Stores or adds a thread's part of a tile; split, leaves out what is not finite and returns it as bits.
///
/// # Safety
/// The result is valid as `product` describes it, and the thread's elements are its own; all lanes of the warp call this
/// together.
#[inline(always)]
unsafe fn store<E: Factor, const I: usize, const J: usize, const PIXELS: u32, const SPLIT: bool>(
    out: *mut E,
    product: &BlockedProduct,
    tile: &Tile,
    sums: &FragmentSums<I, J>,
) -> u64 {
    // SAFETY: the tables were filled before a barrier.
    let field = unsafe { Field::of(tile) };
    let mut again = 0;
    let mut pair = 0;
    while pair < J / 2 {
        let exchanged = product.together != 0;
        let thread = fresh(thread_idx_x());
        let (row, pixel) = corner::<I, J, PIXELS>(thread, pair as u32, 0, exchanged);
        let (row, pixel) = (tile.first_row + row, tile.first_pixel + pixel);
        let channel = i64::from(tile.group * product.rows + row) * i64::from(product.out_channel);
        let start = out.wrapping_offset(channel as isize);
        let step = 8 * product.out_channel as isize;
        if exchanged {
            let start = start.wrapping_offset(offset(product, &field, pixel) as isize);
            let mut i = 0;
            while i < 2 * I {
                // SAFETY: all lanes are here.
                let four = unsafe { exchange(thread % 2 == 1, four(sums, i, pair)) };
                if pixel < field.pixels && row + 8 * (i as u32) < product.rows {
                    if !SPLIT || four.iter().all(|sum| sum.is_finite()) {
                        // SAFETY: the elements lie in the result, on their boundary, and no other thread has them.
                        unsafe { E::store_four(start.wrapping_offset(i as isize * step), four) };
                    } else {
                        again |= 0xf << ((pair * 2 * I + i) * 4);
                    }
                }
                i += 1;
            }
        } else {
            let mut u = 0;
            while u < 4 {
                let pixel = pixel + u as u32 % 2 + u as u32 / 2 * 8;
                let start = start.wrapping_offset(offset(product, &field, pixel) as isize);
                let mut i = 0;
                while i < 2 * I {
                    if pixel < field.pixels && row + 8 * (i as u32) < product.rows {
                        let sum = four(sums, i, pair)[u];
                        if SPLIT && !sum.is_finite() {
                            again |= 1 << ((pair * 2 * I + i) * 4 + u);
                        } else {
                            // SAFETY: the element lies in the result, and no other thread has it.
                            unsafe { put(start.wrapping_offset(i as isize * step), sum, product.accumulate) };
                        }
                    }
                    i += 1;
                }
                u += 1;
            }
        }
        pair += 1;
    }
    again
}

/// Computes a thread's elements, given as [`store`] returns them, by fused multiply-adds: infinities have no small part.
///
/// # Safety
/// As for [`blocked_product`].
#[inline(always)]
unsafe fn compute_again<E: Num<Acc = f32>, const I: usize, const J: usize, const PIXELS: u32>(
    source: *const E,
    packed: *const E,
    out: *mut E,
    product: &BlockedProduct,
    tile: &Tile,
    mut again: u64,
) {
    // SAFETY: the tables were filled before a barrier.
    let field = unsafe { Field::of(tile) };
    let channels = ROW / size_of::<E>() as u32;
    while again != 0 {
        let bit = again.trailing_zeros();
        again &= again - 1;
        let (u, i, pair) = (bit % 4, bit / 4 % (2 * I as u32), bit / (8 * I as u32));
        let exchanged = product.together != 0;
        let (row, pixel) = corner::<I, J, PIXELS>(fresh(thread_idx_x()), pair, u, exchanged);
        let (row, pixel) = (tile.first_row + row + 8 * i, tile.first_pixel + pixel);
        let (n, y, x) = field.place(pixel);
        let h = field.start[0] + y as i32 * product.step_h;
        let w = field.start[1] + x as i32 * product.step_w;
        let mut sum = 0.0;
        let mut plane = tile.group * product.planes;
        while plane < (tile.group + 1) * product.planes {
            let mut tap = field.first_tap;
            while tap < field.first_tap + field.taps {
                // SAFETY: the row of the image is read if it lies there; rows of the filter are padded.
                unsafe {
                    let [row_of, column, filter, _] = shared_load16(tap * 16);
                    let (h, w) = (h + row_of as i32, w + column as i32);
                    let inside = ((h as u32) < product.h as u32) & ((w as u32) < product.w as u32);
                    let at = (n as i32 * product.h + h) * product.w + w;
                    let at = plane * (product.plane / ROW) + at as u32;
                    let weight = plane * product.filter_taps * product.padded_rows + filter / ROW + row;
                    let mut c = 0;
                    while c < channels {
                        let value = if inside {
                            *source.wrapping_add((at * channels + c) as usize)
                        } else {
                            E::narrow(0.0)
                        };
                        sum = E::mul_add(value, *packed.wrapping_add((weight * channels + c) as usize), sum);
                        c += 1;
                    }
                }
                tap += 1;
            }
            plane += 1;
        }
        let channel = i64::from(tile.group * product.rows + row) * i64::from(product.out_channel);
        let at = channel + offset(product, &field, pixel);
        // SAFETY: the element lies in the result, and is this thread's.
        unsafe { put(out.wrapping_offset(at as isize), sum, product.accumulate) };
    }
}

/// Forward or dgrad, 128 channels by 128 pixels a block.
///
/// # Safety
/// As for [`blocked_product`].
#[inline(always)]
pub unsafe fn conv2d_blocked_128x128<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: BlockedProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_product::<E, 4, 8, 128, 128, false>(source, packed, out, &described) };
}

entry! { sm_80 single conv2d_blocked_128x128 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: BlockedProduct)
    constants()
    barriers(2)
    threads(128, 2)
} }

/// Forward or dgrad, 64 channels by 128 pixels a block.
///
/// # Safety
/// As for [`blocked_product`].
#[inline(always)]
pub unsafe fn conv2d_blocked_64x128<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: BlockedProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_product::<E, 4, 4, 64, 128, false>(source, packed, out, &described) };
}

entry! { sm_80 single conv2d_blocked_64x128 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: BlockedProduct)
    constants()
    barriers(2)
    threads(128, 4)
} }

/// Forward or dgrad, 128 channels by 64 pixels a block.
///
/// # Safety
/// As for [`blocked_product`].
#[inline(always)]
pub unsafe fn conv2d_blocked_128x64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: BlockedProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_product::<E, 4, 4, 128, 64, false>(source, packed, out, &described) };
}

entry! { sm_80 single conv2d_blocked_128x64 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: BlockedProduct)
    constants()
    barriers(2)
    threads(128, 4)
} }

/// Forward or dgrad with split products, 64 channels by 128 pixels a block.
///
/// # Safety
/// As for [`blocked_product`].
#[inline(always)]
pub unsafe fn conv2d_blocked_split_64x128<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: BlockedProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_product::<E, 4, 4, 64, 128, true>(source, packed, out, &described) };
}

entry! { sm_80 f32 conv2d_blocked_split_64x128 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: BlockedProduct)
    constants()
    barriers(2)
    threads(128, 2)
} }

/// Forward or dgrad with split products, 128 channels by 64 pixels a block.
///
/// # Safety
/// As for [`blocked_product`].
#[inline(always)]
pub unsafe fn conv2d_blocked_split_128x64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: BlockedProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_product::<E, 4, 4, 128, 64, true>(source, packed, out, &described) };
}

entry! { sm_80 f32 conv2d_blocked_split_128x64 {
    args(source: *mut E, packed: *mut E, out: *mut E)
    hidden(described: BlockedProduct)
    constants()
    barriers(2)
    threads(128, 2)
} }
