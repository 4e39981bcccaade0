//! wgrad for few input channels, such as an image's three, whose rows of taps are long enough to fill registers.
//!
//! A thread takes a row of taps (of an input channel) and eight output channels. Blocks walk over rows of dy: they bring
//! a row of up to 64 output channels to shared memory, with the rows of x that it meets. Each number that a thread reads
//! there serves the eight channels, or the row of taps. Blocks take equal runs of rows, and leave partial sums.

use crate::divmod::FastDivmod;
use crate::gpu::{block_idx_x, grid_dim_x, shared_load, shared_load16, sync_threads, thread_idx_x};
use crate::num::Num;
use crate::planes::{MAX_WINDOW, Planes};

/// Output channels of a thread, and threads side by side over them.
pub const SIDE: u32 = 8;

/// Output channels of a block.
pub const BLOCK_ROWS: u32 = SIDE * SIDE;

/// wgrad for few input channels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FewGradient {
    /// The planes of x: a tile has the rows that a row of dy meets.
    pub planes: Planes,
    /// The planes of dy: a tile has one row of each.
    pub dy: Planes,
    /// Input channels of a group.
    pub channels: u32,
    /// Output channels of a group.
    pub rows: u32,
    /// Rows of taps of all input channels of a group.
    pub tap_rows: u32,
    /// The row of x that row 0 of dy meets with tap 0, and the column alike.
    pub start_h: i32,
    /// The column of x that column 0 of dy meets with tap 0.
    pub start_w: i32,
    /// Rows of x between rows of dy.
    pub step_h: i32,
    /// Rows of dy of all batch items.
    pub tiles: u32,
    /// Rows of dy of a run.
    pub run: u32,
    /// Blocks.
    pub blocks: u32,
    /// Rows of taps of a block.
    pub block_tap_rows: u32,
    /// Divides by rows of dy.
    pub out_h: FastDivmod,
    /// Divides by blocks along the rows of taps.
    pub tap_blocks: FastDivmod,
    /// Divides by blocks along the output channels.
    pub row_blocks: FastDivmod,
    /// Divides by groups.
    pub groups: FastDivmod,
}

/// A thread's sums.
type Sums = [[f32; MAX_WINDOW]; SIDE as usize];

/// A run's partial sums of dw for few input channels, to `partial[run][group][row][channel, tap]`.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, `partial` for all runs' sums; it overlaps neither.
/// The block has eight threads for each of its rows of taps, and the shared memory of a tile of x and one of dy.
#[inline(always)]
pub unsafe fn few_gradient<E: Num<Acc = f32>>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    product: FewGradient,
    taps_w: i32,
    step_w: i32,
) {
    let (taps_w, step_w) = (taps_w as u32, step_w as u32);
    let planes = &product.planes;
    let x_plane = i64::from(planes.h) * i64::from(planes.w);
    let dy_plane = i64::from(product.dy.h) * i64::from(product.dy.w);
    let dy_tile = planes.place(product.channels, 0, 0);
    let (first, of_block) = (thread_idx_x() % SIDE, thread_idx_x() / SIDE);
    let mut block = block_idx_x();
    while block < product.blocks {
        let (rest, tap_block) = product.tap_blocks.divmod(block);
        let (rest, row_block) = product.row_blocks.divmod(rest);
        let (run, group) = product.groups.divmod(rest);
        let first_row = row_block * BLOCK_ROWS;
        let left = product.rows - first_row;
        let rows = if left < BLOCK_ROWS { left } else { BLOCK_ROWS };
        let tap_row = tap_block * product.block_tap_rows + of_block;
        let live = (of_block < product.block_tap_rows) & (tap_row < product.tap_rows);
        // Threads without work read what others have, and their sums go nowhere.
        let word = (planes.left as i32 + product.start_w) as u32;
        let x_at = planes.place(0, if live { tap_row } else { 0 }, word);
        let dy_at = |u: u32| {
            let row = first + u * SIDE;
            dy_tile + product.dy.place(if row < rows { row } else { 0 }, 0, 0)
        };
        let dy_at = [dy_at(0), dy_at(1), dy_at(2), dy_at(3), dy_at(4), dy_at(5), dy_at(6), dy_at(7)];
        let mut sums: Sums = [[0.0; MAX_WINDOW]; SIDE as usize];
        let start = run * product.run;
        let left = product.tiles - start;
        let end = start + if left < product.run { left } else { product.run };
        let mut tile = start;
        while tile < end {
            let (batch, row) = product.out_h.divmod(tile);
            let of_batch = i64::from(batch * product.groups.divisor() + group);
            let x_from = of_batch * i64::from(product.channels) * x_plane;
            let dy_from = (of_batch * i64::from(product.rows) + i64::from(first_row)) * dy_plane;
            // SAFETY: the planes lie in their tensors; the tiles have their shared memory, behind a barrier.
            unsafe {
                let x_row = row as i32 * product.step_h + product.start_h;
                planes.stage(0, x.wrapping_offset(x_from as isize), product.channels, x_row);
                product.dy.stage(dy_tile, dy.wrapping_offset(dy_from as isize), rows, row as i32);
            }
            sync_threads();
            let pixels = product.dy.w as u32;
            let mut pixel = 0;
            // SAFETY: the tiles were staged before the barrier.
            unsafe {
                while pixel + 4 <= pixels {
                    let four = |u: usize| shared_load16(dy_at[u] + pixel * 4).map(f32::from_bits);
                    let dy = [four(0), four(1), four(2), four(3), four(4), four(5), four(6), four(7)];
                    let at = x_at + pixel * step_w * 4;
                    let mut v = 0;
                    while v < 4 {
                        let one = |u: usize| dy[u][v];
                        let dy = [one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7)];
                        add_pixel(&mut sums, at + v as u32 * step_w * 4, dy, taps_w);
                        v += 1;
                    }
                    pixel += 4;
                }
                // Pixels behind the last have no part: what they would meet need not be finite.
                while pixel < pixels {
                    let one = |u: usize| shared_load::<f32>(dy_at[u] + pixel * 4);
                    let dy = [one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7)];
                    add_pixel(&mut sums, x_at + pixel * step_w * 4, dy, taps_w);
                    pixel += 1;
                }
            }
            // The next tile must not overtake a reader of this one.
            sync_threads();
            tile += 1;
        }
        let mut u = 0;
        while u < SIDE {
            let row = first_row + first + u * SIDE;
            let number = i64::from(run * product.groups.divisor() + group) * i64::from(product.rows);
            let line = (number + i64::from(row)) * i64::from(product.tap_rows) + i64::from(tap_row);
            let to = partial.wrapping_offset((line * i64::from(taps_w)) as isize);
            let mut j = 0;
            while j < MAX_WINDOW {
                if (j < taps_w as usize) && live & (row < product.rows) {
                    // SAFETY: the element lies in the run's sums, and no other thread has it.
                    unsafe { *to.wrapping_add(j) = sums[u as usize][j] };
                }
                j += 1;
            }
            u += 1;
        }
        block += grid_dim_x();
    }
}

/// Adds a pixel of eight output channels times the row of taps that it meets.
///
/// # Safety
/// The row of x was staged before the last barrier, `at` bytes from the start of shared memory.
#[inline(always)]
unsafe fn add_pixel(sums: &mut Sums, at: u32, dy: [f32; SIDE as usize], taps_w: u32) {
    let mut j = 0;
    while j < MAX_WINDOW as u32 {
        if j < taps_w {
            // SAFETY: by this function's contract.
            let value: f32 = unsafe { shared_load(at + j * 4) };
            let mut u = 0;
            while u < SIDE as usize {
                sums[u][j as usize] = f32::mul_add(value, dy[u], sums[u][j as usize]);
                u += 1;
            }
        }
        j += 1;
    }
}

/// Partial sums of wgrad for few input channels.
///
/// # Safety
/// As for [`few_gradient`].
#[inline(always)]
pub unsafe fn conv2d_few_dw<E: Num<Acc = f32>>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    product: FewGradient,
    taps_w: i32,
    step_w: i32,
) {
    // SAFETY: by this function's contract.
    unsafe { few_gradient::<E>(dy, x, partial, product, taps_w, step_w) };
}

entry! { single conv2d_few_dw {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(product: FewGradient)
    constants(taps_w: i32 = 7, step_w: i32 = 2)
    barriers(2)
    threads(192, 2)
} }
