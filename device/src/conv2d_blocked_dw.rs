//! The convolution's wgrad on tensor cores, from dy and x in the [blocked format](crate::conv2d_prepare).
//!
//! A block has a tile of dw at a time, output channels by input channels of some taps, and a run of pixels of the result, numbered
//! over the whole batch. Columns are counted in planes: those of a group's x at the first tap, then at the next. A step is 64 bytes' worth of elements: so many pixels, whose rows of dy and rows of x that a tap
//! meets `cp.async` brings three steps ahead of the products, with zeros outside the image. The runs' partial sums
//! are added in their order by [`conv2d_dw_reduce`](crate::conv2d_tiled::conv2d_dw_reduce).
//!
//! f32 takes one product of TF32 values, or, split, three of them, as in [`conv2d_patch`](mod@crate::conv2d_patch).

use crate::conv2d_prepare::ROW;
use crate::divmod::FastDivmod;
use crate::gpu::{
    block_idx_x, commit_copies, copy16_async_if, fresh, grid_dim_x, load_if, load_matrices, shared_load,
    shared_load16, shared_store16, sync_threads, thread_idx_x, wait_copies,
};
use crate::mma::{Factor, FragmentSums, Fragments, add_products};
use crate::num::Num;

/// Steps that are on their way or being multiplied.
const STEPS: u32 = 4;

/// A row that no pixel brings into the image.
const NOWHERE: i32 = i32::MIN / 2;

/// Threads of a block.
const THREADS: u32 = 128;

/// Parts of rows that a block brings at a time, of four each.
const LINES: u32 = THREADS / 4;

/// Pixels of a step.
const fn step_pixels<E>() -> u32 {
    ROW / size_of::<E>() as u32
}

/// How wgrad meets dy and x.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockedGradient {
    /// Bytes of a plane of dy.
    pub dy_plane: u32,
    /// Bytes of a plane of x.
    pub x_plane: u32,
    /// Planes of a group of dy.
    pub dy_planes: u32,
    /// Rows of x.
    pub h: i32,
    /// Columns of x.
    pub w: i32,
    /// Rows of x in front of the image that pixel 0 meets with tap 0.
    pub pad_h: i32,
    /// Columns of x in front of the image that pixel 0 meets with tap 0.
    pub pad_w: i32,
    /// Rows of x between pixel rows.
    pub step_h: i32,
    /// Columns of x between pixel columns.
    pub step_w: i32,
    /// Output channels of a group.
    pub rows: u32,
    /// Input channels of a group.
    pub channels: u32,
    /// Pixels of the result, of the whole batch.
    pub pixels: u32,
    /// Pixels of a run, a whole number of steps.
    pub run: u32,
    /// The number of the first run's sums.
    pub first_run: u32,
    /// Divides by pixel columns.
    pub pixels_w: FastDivmod,
    /// Divides by pixel rows.
    pub pixels_h: FastDivmod,
    /// Divides by planes of a group of x.
    pub x_planes: FastDivmod,
    /// Divides by taps in a row.
    pub taps_w: FastDivmod,
    /// Divides by tiles along the output channels.
    pub row_tiles: FastDivmod,
    /// Divides by tiles along the planes of all taps.
    pub column_tiles: FastDivmod,
    /// Divides by groups.
    pub groups: FastDivmod,
    /// Taps.
    pub taps: u32,
    /// Parts of the work: tiles of all groups and runs.
    pub parts: u32,
    /// Whether to add to the sums that another part of the batch left; never for split products.
    pub accumulate: u32,
}

/// The most planes of a tile's columns, and the table of them in front of the steps.
const COLUMN_PLANES: u32 = 8;
const BUFFERS: u32 = COLUMN_PLANES * 16;

/// A part of the work: a tile and a run.
#[derive(Clone, Copy)]
struct Part {
    first_row: u32,
    /// Of the columns' planes.
    first_plane: u32,
    group: u32,
    run: u32,
}

impl Part {
    #[inline(always)]
    fn new(product: &BlockedGradient, part: u32, [rows, planes]: [u32; 2]) -> Self {
        let (rest, row_tile) = product.row_tiles.divmod(part);
        // Neighbouring blocks read the same pixels.
        let (rest, column_tile) = product.column_tiles.divmod(rest);
        let (run, group) = product.groups.divmod(rest);
        Self { first_row: row_tile * rows, first_plane: column_tile * planes, group, run }
    }

    /// The first pixel, and the one behind the last.
    #[inline(always)]
    fn pixels(&self, product: &BlockedGradient) -> (u32, u32) {
        let start = self.run * product.run;
        let left = product.pixels - start;
        (start, start + if left < product.run { left } else { product.run })
    }
}

/// A plane of the columns: where its tap lies in x, in rows and columns, and its bytes from the start; or a row that meets
/// nothing.
#[inline(always)]
fn column_plane(product: &BlockedGradient, group: u32, plane: u32) -> [u32; 3] {
    let (tap, plane) = product.x_planes.divmod(plane);
    let (i, j) = product.taps_w.divmod(tap);
    let row = if tap < product.taps { i as i32 - product.pad_h } else { NOWHERE };
    let bytes = (group * product.x_planes.divisor() + plane) * product.x_plane;
    [row as u32, (j as i32 - product.pad_w) as u32, bytes]
}

/// The row of x's planes that a pixel meets with a tap, if it lies in the image.
#[inline(always)]
fn meet(product: &BlockedGradient, (n, y, x): (u32, u32, u32), [row, column]: [u32; 2]) -> (bool, u32) {
    let h = y as i32 * product.step_h + row as i32;
    let w = x as i32 * product.step_w + column as i32;
    let inside = ((h as u32) < product.h as u32) & ((w as u32) < product.w as u32);
    (inside, ((n as i32 * product.h + h) * product.w + w) as u32)
}

/// Batch item, row and column of a pixel of the result.
#[inline(always)]
fn place(product: &BlockedGradient, pixel: u32) -> (u32, u32, u32) {
    let (rest, x) = product.pixels_w.divmod(pixel);
    let (n, y) = product.pixels_h.divmod(rest);
    (n, y, x)
}

/// The place of a 16-byte part of a pixel's row in a plane of a step: the rows that a fragment takes together spread over
/// all banks.
#[inline(always)]
fn part_at<E>(pixel: u32, quarter: u32) -> u32 {
    let spread = if size_of::<E>() == 2 { pixel >> 1 } else { pixel };
    let mask = if size_of::<E>() == 2 { 3 } else { 2 };
    pixel * ROW + (quarter ^ (spread & mask)) * 16
}

/// Starts the copies of a step whose first pixel is `first`, of zeros from `end` on.
///
/// # Safety
/// As for [`blocked_gradient`]; nobody touches the buffer before the copies were waited for.
#[inline(always)]
unsafe fn bring<E: Factor, const ROWS: u32, const COLUMNS: u32>(
    [dy, x]: [*const u8; 2],
    product: &BlockedGradient,
    part: &Part,
    thread: u32,
    [first, end]: [u32; 2],
    buffer: u32,
) {
    // A thread has one part of one pixel's row, in several planes.
    let pixels = step_pixels::<E>();
    let (quarter, line, plane) = (thread % 4, thread / 4 % pixels, thread / (4 * pixels));
    let pixel = first + line;
    let channels = ROW / size_of::<E>() as u32;
    let planes = LINES / pixels;
    let step_plane = pixels * ROW;
    let to = buffer + plane * step_plane + part_at::<E>(line, quarter);
    let some = pixel < end;
    let place = place(product, pixel);
    let at_dy = pixel * ROW + quarter * 16;
    let first_dy = part.first_row / channels + plane;
    let mut u = 0;
    while u < ROWS / LINES {
        let of = first_dy + u * planes;
        let take = some & (of < product.dy_planes);
        let at = (part.group * product.dy_planes + of) * product.dy_plane + at_dy;
        // SAFETY: the row lies in the plane if it is taken.
        unsafe { copy16_async_if::<true>(take, to + u * planes * step_plane, dy.wrapping_add(at as usize)) };
        u += 1;
    }
    u = 0;
    while u < COLUMNS / LINES {
        // SAFETY: the table was filled before a barrier.
        let [row, column, bytes, _] = unsafe { shared_load16((plane + u * planes) * 16) };
        let (inside, at) = meet(product, place, [row, column]);
        let at = at.wrapping_mul(ROW).wrapping_add(bytes + quarter * 16);
        let to = to + ROWS * ROW + u * planes * step_plane;
        // SAFETY: as above.
        unsafe { copy16_async_if::<true>(some & inside, to, x.wrapping_add(at as usize)) };
        u += 1;
    }
}

/// Where a lane finds its part of the fragments in a step, of 16 channels from a warp's first on: for 16-bit elements one
/// place in `ldmatrix`'s words, for f32 those of the first and of the last eight channels.
#[inline(always)]
fn fragment_at<E>(lane: u32, channel: u32, rows: bool) -> [u32; 2] {
    let plane = |channel: u32| channel * size_of::<E>() as u32 / ROW * step_pixels::<E>() * ROW;
    if size_of::<E>() == 2 {
        // Matrices in the order of the fragment's registers, or of two fragments' registers.
        let (octet, deep) = if rows { (lane / 8 % 2, lane / 16) } else { (lane / 16, lane / 8 % 2) };
        let channel = channel + octet * 8;
        let at = plane(channel) + part_at::<E>(deep * 8 + lane % 8, channel / 8 % 4);
        [at, at]
    } else {
        let of = |octet: u32| {
            let channel = channel + octet * 8 + lane / 4;
            plane(channel) + part_at::<E>(lane % 4, channel / 4 % 4) + channel % 4 * 4
        };
        [of(0), of(1)]
    }
}

/// The fragments of the first or the second half of a step's pixels.
///
/// # Safety
/// The step's rows were there before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn load<E: Factor, const I: usize, const J: usize>(
    a_at: [u32; 2],
    b_at: [u32; 2],
    half: u32,
) -> Fragments<I, J> {
    // Bytes between as many channels as a row has.
    let plane = step_pixels::<E>() * ROW;
    let wide = size_of::<E>() == 2;
    let at = half * step_pixels::<E>() / 2 * ROW;
    // SAFETY: by this function's contract.
    let word = |at: u32| unsafe { shared_load::<u32>(at) };
    let (mut left, mut right) = ([[0; 4]; I], [[0; 2]; J]);
    let mut j = 0;
    while j < J / 2 {
        [right[2 * j], right[2 * j + 1]] = if wide {
            let at = at + j as u32 / 2 * plane;
            // SAFETY: by this function's contract; 16 channels on are the other half of a plane, or the next.
            let [a, b, c, d] = unsafe { load_matrices::<true>((b_at[0] ^ (j as u32 % 2 * 32)) + at) };
            [[a, b], [c, d]]
        } else {
            let at = at + j as u32 * plane;
            let pair = |at: u32| [word(at), word(at + 4 * ROW)];
            [pair(b_at[0] + at), pair(b_at[1] + at)]
        };
        j += 1;
    }
    let mut i = 0;
    while i < I {
        left[i] = if wide {
            let at = at + i as u32 / 2 * plane;
            // SAFETY: by this function's contract.
            unsafe { load_matrices::<true>((a_at[0] ^ (i as u32 % 2 * 32)) + at) }
        } else {
            let at = at + i as u32 * plane;
            let deep = at + 4 * ROW;
            [word(a_at[0] + at), word(a_at[1] + at), word(a_at[0] + deep), word(a_at[1] + deep)]
        };
        i += 1;
    }
    Fragments { left, right }
}

/// A run's partial sums of dw, to `partial[run][group][tap][row][channel]`: tiles of `ROWS` output channels by `COLUMNS`
/// input channels, of which a warp has `I` fragments of 16 by `J` of 8.
///
/// # Safety
/// `dy` and `x` are valid for reads of all planes, as
/// [`conv2d_prepare`](mod@crate::conv2d_prepare) leaves them, on 16-byte boundaries; `partial` for
/// writes of all runs' sums, and overlaps neither. A block has 128 threads and the shared memory of the steps.
#[inline(always)]
pub unsafe fn blocked_gradient<
    E: Factor,
    const I: usize,
    const J: usize,
    const ROWS: u32,
    const COLUMNS: u32,
    const SPLIT: bool,
>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &BlockedGradient,
) {
    const { assert!(I as u32 * 16 * J as u32 * 8 * (THREADS / 32) == ROWS * COLUMNS) };
    let mut part = block_idx_x();
    while part < product.parts {
        // SAFETY: by this function's contract.
        unsafe { one_part::<E, I, J, ROWS, COLUMNS, SPLIT>(dy, x, partial, product, part) };
        part += grid_dim_x();
    }
}

/// A part of [`blocked_gradient`].
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn one_part<
    E: Factor,
    const I: usize,
    const J: usize,
    const ROWS: u32,
    const COLUMNS: u32,
    const SPLIT: bool,
>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &BlockedGradient,
    number: u32,
) {
    let planes = COLUMNS * size_of::<E>() as u32 / ROW;
    let part = Part::new(product, number, [ROWS, planes]);
    // The table and the buffers of the part before are free.
    sync_threads();
    if thread_idx_x() < planes {
        let [row, column, bytes] = column_plane(product, part.group, part.first_plane + thread_idx_x());
        // SAFETY: the launch gave room for the table, and a barrier follows.
        unsafe { shared_store16(thread_idx_x() * 16, [row, column, bytes, 0]) };
    }
    sync_threads();
    // What follows from the thread's number would take registers over all parts.
    let thread = fresh(thread_idx_x());
    let (start, end) = part.pixels(product);
    let from = [dy.cast::<u8>(), x.cast::<u8>()];
    let bytes = (ROWS + COLUMNS) * ROW;
    let mut next = 0;
    let mut pixel = start;
    while next < STEPS - 1 {
        // SAFETY: the buffers are free.
        unsafe {
            bring::<E, ROWS, COLUMNS>(from, product, &part, thread, [pixel, end], BUFFERS + next * bytes);
        };
        commit_copies();
        pixel += step_pixels::<E>();
        next += 1;
    }
    let (warp, lane) = (thread / 32, thread % 32);
    let (warp_row, warp_column) = (warp / (COLUMNS / (8 * J as u32)), warp % (COLUMNS / (8 * J as u32)));
    let a_at = fragment_at::<E>(lane, warp_row * 16 * I as u32, true);
    let b_at = fragment_at::<E>(lane, warp_column * 8 * J as u32, false).map(|at| at + ROWS * ROW);
    let mut sums: FragmentSums<I, J> = [[[0.0; 4]; J]; I];
    let mut step = 0;
    let mut done = start;
    while done < end {
        // This step's copies are there, and the buffer of the one before is free.
        wait_copies::<{ STEPS - 2 }>();
        sync_threads();
        let buffer = BUFFERS + step % STEPS * bytes;
        let (a_at, b_at) = (a_at.map(|at| at + buffer), b_at.map(|at| at + buffer));
        // The next copies start behind the first loads, so that their arithmetic hides behind the products.
        // SAFETY: the copies were there before the barrier, and the next buffer was read; all lanes are here.
        unsafe {
            let first = load::<E, I, J>(a_at, b_at, 0);
            bring::<E, ROWS, COLUMNS>(
                from,
                product,
                &part,
                thread,
                [pixel, end],
                BUFFERS + next % STEPS * bytes,
            );
            commit_copies();
            if SPLIT {
                let first = first.split_products();
                let second = load::<E, I, J>(a_at, b_at, 1).split_products();
                add_products(&mut sums, &first);
                add_products(&mut sums, &second);
            } else {
                first.multiply::<E>(&mut sums);
                load::<E, I, J>(a_at, b_at, 1).multiply::<E>(&mut sums);
            }
        }
        (pixel, next) = (pixel + step_pixels::<E>(), next + 1);
        (done, step) = (done + step_pixels::<E>(), step + 1);
    }
    wait_copies::<0>();
    // Found again, so that it takes no registers in the loop.
    let part = Part::new(product, number, [ROWS, planes]);
    // SAFETY: the tile's elements are this block's.
    unsafe {
        let again = store::<E, I, J, COLUMNS, SPLIT>(partial, product, &part, &sums);
        if SPLIT && again != 0 {
            compute_again::<E, I, J, COLUMNS>(dy, x, partial, product, &part, again);
        }
    }
}

/// Output channel and column of the tile of a thread's element: fragment row `i` of eight channels, and fragment `j`'s
/// first.
#[inline(always)]
fn corner<const I: usize, const J: usize, const COLUMNS: u32>(
    part: &Part,
    thread: u32,
    i: u32,
    j: u32,
) -> (u32, u32) {
    let (warp, lane) = (thread / 32, thread % 32);
    let (warp_row, warp_column) = (warp / (COLUMNS / (8 * J as u32)), warp % (COLUMNS / (8 * J as u32)));
    (
        part.first_row + warp_row * 16 * I as u32 + i * 8 + lane / 4,
        warp_column * 8 * J as u32 + j * 8 + lane % 4 * 2,
    )
}

/// The tap and the input channel of a tile's column.
#[inline(always)]
fn column_of<E>(product: &BlockedGradient, part: &Part, column: u32) -> (u32, u32) {
    let channels = step_pixels::<E>();
    let (tap, plane) = product.x_planes.divmod(part.first_plane + column / channels);
    (tap, plane * channels + column % channels)
}

/// Where the sums of an output channel at a tap begin.
#[inline(always)]
fn line(product: &BlockedGradient, part: &Part, [tap, row]: [u32; 2]) -> i64 {
    let sums = (product.first_run + part.run) * product.groups.divisor() + part.group;
    let plane = i64::from(sums) * i64::from(product.taps) + i64::from(tap);
    (plane * i64::from(product.rows) + i64::from(row)) * i64::from(product.channels)
}

/// Stores a thread's part of a tile; split, leaves out what is not finite and returns it as bits.
///
/// # Safety
/// `partial` is valid for all runs' sums, and the thread's elements are its own.
#[inline(always)]
unsafe fn store<E, const I: usize, const J: usize, const COLUMNS: u32, const SPLIT: bool>(
    partial: *mut f32,
    product: &BlockedGradient,
    part: &Part,
    sums: &FragmentSums<I, J>,
) -> u64 {
    let thread = fresh(thread_idx_x());
    let mut again = 0_u64;
    let mut j = 0;
    while j < J as u32 {
        let (row, column) = corner::<I, J, COLUMNS>(part, thread, 0, j);
        let (tap, channel) = column_of::<E>(product, part, column);
        let first = partial.wrapping_offset(line(product, part, [tap, row]) as isize);
        let to = |i: u32, e: u32| first.wrapping_add((i * 8 * product.channels + channel + e) as usize);
        let lies = |i: u32, e: u32| {
            tap < product.taps && row + i * 8 < product.rows && channel + e < product.channels
        };
        // All are on their way before the first is waited for.
        let mut old = [[[0.0; 2]; 2]; I];
        if !SPLIT && product.accumulate != 0 {
            let mut i = 0;
            while i < 2 * I as u32 {
                // SAFETY: by this function's contract.
                old[i as usize / 2][i as usize % 2] =
                    unsafe { [0, 1].map(|e| load_if(lies(i, e), to(i, e), 0.0)) };
                i += 1;
            }
        }
        let mut i = 0;
        while i < 2 * I as u32 {
            let mut e = 0;
            while e < 2 {
                if lies(i, e) {
                    let sum = sums[i as usize / 2][j as usize][(i % 2 * 2 + e) as usize];
                    if SPLIT && !sum.is_finite() {
                        again |= 1 << (i * 2 * J as u32 + j * 2 + e);
                    } else {
                        let sum =
                            if SPLIT { sum } else { sum + old[i as usize / 2][i as usize % 2][e as usize] };
                        // SAFETY: by this function's contract.
                        unsafe { *to(i, e) = sum };
                    }
                }
                e += 1;
            }
            i += 1;
        }
        j += 1;
    }
    again
}

/// Computes a thread's elements, given as [`store`] returns them, by fused multiply-adds: infinities have no small part.
///
/// # Safety
/// As for [`blocked_gradient`].
#[inline(always)]
unsafe fn compute_again<E: Num<Acc = f32>, const I: usize, const J: usize, const COLUMNS: u32>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &BlockedGradient,
    part: &Part,
    mut again: u64,
) {
    let channels = step_pixels::<E>();
    let (start, end) = part.pixels(product);
    while again != 0 {
        let bit = again.trailing_zeros();
        again &= again - 1;
        let (i, j) = (bit / (2 * J as u32), bit % (2 * J as u32));
        let (row, column) = corner::<I, J, COLUMNS>(part, fresh(thread_idx_x()), i, j / 2);
        let (tap, channel) = column_of::<E>(product, part, column + j % 2);
        let [row_of, column_of, bytes] =
            column_plane(product, part.group, part.first_plane + (column + j % 2) / channels);
        let dy_plane = (part.group * product.dy_planes + row / channels) * (product.dy_plane / ROW);
        let mut sum = 0.0;
        let mut pixel = start;
        while pixel < end {
            let (inside, at) = meet(product, place(product, pixel), [row_of, column_of]);
            if inside {
                let at_dy = (dy_plane + pixel) * channels + row % channels;
                let at_x = (bytes / ROW + at) * channels + channel % channels;
                // SAFETY: the rows lie in their planes.
                sum = unsafe {
                    E::mul_add(*dy.wrapping_add(at_dy as usize), *x.wrapping_add(at_x as usize), sum)
                };
            }
            pixel += 1;
        }
        let at = line(product, part, [tap, row]) + i64::from(channel);
        // SAFETY: the element lies in the run's sums, and is this thread's.
        unsafe { *partial.wrapping_offset(at as isize) = sum };
    }
}

/// A run's partial sums, 128 output channels by 128 columns a block.
///
/// # Safety
/// As for [`blocked_gradient`].
#[inline(always)]
pub unsafe fn conv2d_blocked_dw_128x128<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: BlockedGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_gradient::<E, 4, 8, 128, 128, false>(dy, x, partial, &described) };
}

entry! { sm_80 single conv2d_blocked_dw_128x128 {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(described: BlockedGradient)
    constants()
    barriers(3)
    threads(128, 2)
} }

/// A run's partial sums, 64 output channels by 128 columns a block.
///
/// # Safety
/// As for [`blocked_gradient`].
#[inline(always)]
pub unsafe fn conv2d_blocked_dw_64x128<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: BlockedGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_gradient::<E, 4, 4, 64, 128, false>(dy, x, partial, &described) };
}

entry! { sm_80 single conv2d_blocked_dw_64x128 {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(described: BlockedGradient)
    constants()
    barriers(3)
    threads(128, 4)
} }

/// A run's partial sums of split products, 64 output channels by 128 columns a block.
///
/// # Safety
/// As for [`blocked_gradient`].
#[inline(always)]
pub unsafe fn conv2d_blocked_dw_split_64x128<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: BlockedGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_gradient::<E, 4, 4, 64, 128, true>(dy, x, partial, &described) };
}

entry! { sm_80 f32 conv2d_blocked_dw_split_64x128 {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(described: BlockedGradient)
    constants()
    barriers(3)
    threads(128, 2)
} }
