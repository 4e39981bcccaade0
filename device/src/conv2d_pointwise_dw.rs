//! wgrad of 1×1 filters on tensor cores: a plain product of matrices, read from NCHW as they are.
//!
//! A block has a tile of dw at a time, output channels by input channels, and a run of pixels, numbered over the whole
//! batch. It walks over them 64 bytes of elements a step: `cp.async` brings the channels' parts of dy and x three steps
//! ahead of the products. The runs' partial sums are added in their order by
//! [`conv2d_dw_reduce`](crate::conv2d_tiled::conv2d_dw_reduce).

use crate::conv2d_patch::row_at;
use crate::conv2d_prepare::ROW;
use crate::divmod::FastDivmod;
use crate::gpu::{
    block_idx_x, commit_copies, copy16_async_if, fresh, grid_dim_x, load_matrices, sync_threads,
    thread_idx_x, to_tf32, wait_copies,
};
use crate::mma::{Factor, FragmentSums, vector};

/// Steps that are on their way or being multiplied.
const STEPS: u32 = 4;

/// wgrad of 1×1 filters.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PointwiseGradient {
    /// Elements of dy between batch items.
    pub dy_image: i64,
    /// Elements of x between batch items.
    pub x_image: i64,
    /// Output channels of a group.
    pub rows: u32,
    /// Input channels of a group.
    pub channels: u32,
    /// Pixels of the batch.
    pub pixels: u32,
    /// Pixels of a run, a whole number of steps.
    pub run: u32,
    /// Parts of the work: tiles of all groups and runs.
    pub parts: u32,
    /// Divides by tiles along the output channels.
    pub row_tiles: FastDivmod,
    /// Divides by tiles along the input channels.
    pub column_tiles: FastDivmod,
    /// Divides by groups.
    pub groups: FastDivmod,
    /// Divides by pixels of a batch item, the elements of a channel.
    pub plane: FastDivmod,
}

/// A part of the work: a tile and a run.
#[derive(Clone, Copy)]
struct Part {
    first_row: u32,
    first_column: u32,
    group: u32,
    run: u32,
}

impl Part {
    #[inline(always)]
    fn new(product: &PointwiseGradient, part: u32, [rows, columns]: [u32; 2]) -> Self {
        let (rest, row_tile) = product.row_tiles.divmod(part);
        let (rest, column_tile) = product.column_tiles.divmod(rest);
        let (run, group) = product.groups.divmod(rest);
        Self { first_row: row_tile * rows, first_column: column_tile * columns, group, run }
    }
}

/// Starts the copies of a step whose first pixel is `first`, of zeros from `end` on.
///
/// # Safety
/// As for [`pointwise_gradient`]; nobody touches the buffer before the copies were waited for.
#[inline(always)]
unsafe fn bring<E: Factor, const ROWS: u32, const COLUMNS: u32>(
    dy: *const E,
    x: *const E,
    product: &PointwiseGradient,
    part: &Part,
    [first, end]: [u32; 2],
    buffer: u32,
) {
    let (line, quarter) = (thread_idx_x() / 4, thread_idx_x() % 4);
    let pixel = first + quarter * vector::<E>();
    let (n, within) = product.plane.divmod(pixel);
    let plane = i64::from(product.plane.divisor());
    let to = buffer + row_at(line, quarter);
    let mut u = 0;
    while u < (ROWS + COLUMNS) / 64 {
        let of_dy = u < ROWS / 64;
        let (from, image, first, channels) = if of_dy {
            (dy, product.dy_image, part.first_row + u * 64, product.rows)
        } else {
            (x, product.x_image, part.first_column + u * 64 - ROWS, product.channels)
        };
        let channel = first + line;
        let at =
            i64::from(n) * image + i64::from(part.group * channels + channel) * plane + i64::from(within);
        let take = (pixel < end) & (channel < channels);
        // SAFETY: so many pixels lie in the channel, on their boundary, if they are taken.
        unsafe { copy16_async_if::<true>(take, to + u * 64 * ROW, from.wrapping_offset(at as isize).cast()) };
        u += 1;
    }
}

/// A run's partial sums of dw, to `partial[run][group][row][channel]`: tiles of `ROWS` output channels by `COLUMNS` input
/// channels, of which a warp has 32 by 32.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, on a 16-byte boundary in every channel; `partial` for
/// writes of all runs' sums, and overlaps neither. A block has 256 threads and the shared memory of the steps.
#[inline(always)]
pub unsafe fn pointwise_gradient<E: Factor, const ROWS: u32, const COLUMNS: u32>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &PointwiseGradient,
) {
    const { assert!(ROWS * COLUMNS == 8 * 32 * 32) };
    let bytes = (ROWS + COLUMNS) * ROW;
    let step_pixels = ROW / size_of::<E>() as u32;
    let mut number = block_idx_x();
    while number < product.parts {
        // The buffers of the part before are free.
        sync_threads();
        let part = Part::new(product, number, [ROWS, COLUMNS]);
        let start = part.run * product.run;
        let left = product.pixels - start;
        let end = start + if left < product.run { left } else { product.run };
        let (mut next, mut pixel) = (0, start);
        while next < STEPS - 1 {
            // SAFETY: the buffers are free.
            unsafe { bring::<E, ROWS, COLUMNS>(dy, x, product, &part, [pixel, end], next * bytes) };
            commit_copies();
            (pixel, next) = (pixel + step_pixels, next + 1);
        }
        let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
        let (warp_row, warp_column) = (warp / (COLUMNS / 32), warp % (COLUMNS / 32));
        let a_at = row_at(warp_row * 32 + lane % 16, lane / 16);
        let b_at = ROWS * ROW + row_at(warp_column * 32 + lane / 16 * 8 + lane % 8, lane / 8 % 2);
        let mut sums: FragmentSums<2, 4> = [[[0.0; 4]; 4]; 2];
        let (mut step, mut done) = (0, start);
        while done < end {
            // This step's copies are there, and the buffer of the one before is free.
            wait_copies::<{ STEPS - 2 }>();
            sync_threads();
            // SAFETY: the next buffer was read before the barrier.
            unsafe {
                bring::<E, ROWS, COLUMNS>(dy, x, product, &part, [pixel, end], next % STEPS * bytes);
            }
            commit_copies();
            (pixel, next) = (pixel + step_pixels, next + 1);
            let buffer = step % STEPS * bytes;
            // SAFETY: the copies were there before the barrier; all lanes are here.
            unsafe { multiply::<E>(a_at + buffer, b_at + buffer, &mut sums) };
            (done, step) = (done + step_pixels, step + 1);
        }
        wait_copies::<0>();
        let thread = fresh(thread_idx_x());
        let (warp, lane) = (thread / 32, thread % 32);
        let row = part.first_row + warp / (COLUMNS / 32) * 32 + lane / 4;
        let column = part.first_column + warp % (COLUMNS / 32) * 32 + lane % 4 * 2;
        let run = i64::from(part.run * product.groups.divisor() + part.group);
        let mut i = 0;
        while i < 4 {
            let row = row + i * 8;
            let line = (run * i64::from(product.rows) + i64::from(row)) * i64::from(product.channels);
            let mut j = 0;
            while j < 8 {
                let column = column + j / 2 * 8 + j % 2;
                if row < product.rows && column < product.channels {
                    let sum = sums[i as usize / 2][j as usize / 2][(i % 2 * 2 + j % 2) as usize];
                    // SAFETY: the element lies in the run's sums, and no other thread has it.
                    unsafe { *partial.wrapping_offset((line + i64::from(column)) as isize) = sum };
                }
                j += 1;
            }
            i += 1;
        }
        number += grid_dim_x();
    }
}

/// Adds a step's products to the sums, in the order of the pixels.
///
/// # Safety
/// The step's rows were there before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn multiply<E: Factor>(a_at: u32, b_at: u32, sums: &mut FragmentSums<2, 4>) {
    // SAFETY: by this function's contract.
    let rows = |at: u32| unsafe {
        let words = load_matrices::<false>(at);
        if size_of::<E>() == 4 { words.map(|word| to_tf32(f32::from_bits(word)).to_bits()) } else { words }
    };
    let mut half = 0;
    while half < 2 {
        let (a_at, b_at) = (a_at ^ (half * 32), b_at ^ (half * 32));
        let ([a, b, c, d], [e, f, g, h]) = (rows(b_at), rows(b_at + 16 * ROW));
        let right = [[a, b], [c, d], [e, f], [g, h]];
        let mut i = 0;
        while i < 2 {
            let left = rows(a_at + i as u32 * 16 * ROW);
            let mut j = 0;
            while j < 4 {
                // SAFETY: all lanes of the warp are here.
                sums[i][j] = unsafe { E::mma(left, right[j], sums[i][j]) };
                j += 1;
            }
            i += 1;
        }
        half += 1;
    }
}

/// A run's partial sums for 1×1 filters, 128 output channels by 64 input channels a block.
///
/// # Safety
/// As for [`pointwise_gradient`].
#[inline(always)]
pub unsafe fn conv2d_pointwise_dw_128x64<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: PointwiseGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { pointwise_gradient::<E, 128, 64>(dy, x, partial, &described) };
}

entry! { sm_80 single conv2d_pointwise_dw_128x64 {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(described: PointwiseGradient)
    constants()
    barriers(2)
    threads(256, 3)
} }

/// A run's partial sums for 1×1 filters, 64 output channels by 128 input channels a block.
///
/// # Safety
/// As for [`pointwise_gradient`].
#[inline(always)]
pub unsafe fn conv2d_pointwise_dw_64x128<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: PointwiseGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { pointwise_gradient::<E, 64, 128>(dy, x, partial, &described) };
}

entry! { sm_80 single conv2d_pointwise_dw_64x128 {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(described: PointwiseGradient)
    constants()
    barriers(2)
    threads(256, 3)
} }
