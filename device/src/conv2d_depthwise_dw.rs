//! wgrad of depthwise convolution, and of others with few channels a group: an output and an input channel at a time.
//!
//! As in [`conv2d_depthwise`](crate::conv2d_depthwise), blocks bring tiles of whole planes, or of rows of them, to shared
//! memory, and a thread takes a column of dy and several rows of it. It keeps a sum for each tap; the block adds the
//! threads' sums in a fixed order.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, grid_dim_x, shared_load, shared_store, sync_threads, thread_idx_x,
};
use crate::num::Num;
use crate::planes::{MAX_WINDOW, Planes, Taps, Window};

/// wgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DepthwiseGradient {
    /// The planes of x; a tile's are one channel's, of neighbouring batch items.
    pub planes: Planes,
    /// The planes of dy, of the same batch items.
    pub dy: Planes,
    /// The row of x that row 0 of dy meets with tap 0.
    pub start_h: i32,
    /// The column of x that column 0 of dy meets with tap 0.
    pub start_w: i32,
    /// Batch items.
    pub batch: u32,
    /// Batch items of a tile.
    pub tile_images: u32,
    /// A thread takes so many times some rows.
    pub turns: u32,
    /// Tiles of a channel.
    pub tiles: u32,
    /// Tiles of a run.
    pub run: u32,
    /// Runs of all pairs of channels.
    pub blocks: u32,
    /// Divides by columns of dy.
    pub out_w: FastDivmod,
    /// Divides by groups of rows of a tile.
    pub groups: FastDivmod,
    /// Divides by tiles along the rows.
    pub strips: FastDivmod,
    /// Divides by pairs of an output and an input channel.
    pub pairs: FastDivmod,
    /// Divides by input channels of a group.
    pub inputs: FastDivmod,
    /// Divides by output channels of a group.
    pub outputs: FastDivmod,
}

/// Parts of a block's sum of a tap, which are then added.
pub const PARTS: u32 = 16;

/// Partial sums of wgrad: a block takes a run of tiles of a pair of channels, and a thread sums its elements of dy for
/// all taps. [`conv2d_dw_reduce`](crate::conv2d_tiled::conv2d_dw_reduce) adds the runs.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, `partial` for writes of all filters of each
/// run; it overlaps neither. The block has the shared memory of a tile, of a sum of each thread and tap, and of
/// [`PARTS`] sums of each tap.
#[inline(always)]
pub unsafe fn depthwise_gradient<E: Num<Acc = f32>>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    product: DepthwiseGradient,
    taps_h: i32,
    taps_w: i32,
    step_h: i32,
    step_w: i32,
    rows: i32,
) {
    let planes = &product.planes;
    let (step_h, step_w, rows) = (step_h as u32, step_w as u32, rows as u32);
    let lines = product.turns * rows;
    let taps = Taps { h: taps_h as u32, w: taps_w as u32, step: step_h, pitch: planes.pitch.divisor() * 4 };
    let (thread, threads) = (thread_idx_x(), block_dim_x());
    let out_w = product.out_w.divisor();
    let x_plane = i64::from(planes.h) * i64::from(planes.w);
    let dy_plane = i64::from(product.dy.h) * i64::from(product.dy.w);
    let dy_tile = planes.place(product.tile_images, 0, 0);
    let mut block = block_idx_x();
    while block < product.blocks {
        let (run, pair) = product.pairs.divmod(block);
        let (channel, input) = product.inputs.divmod(pair);
        let x_channel = product.outputs.div(channel) * product.inputs.divisor() + input;
        let mut sums = [[0.0_f32; MAX_WINDOW]; MAX_WINDOW];
        let first_tile = run * product.run;
        let left = product.tiles - first_tile;
        let last_tile = first_tile + if left < product.run { left } else { product.run };
        let mut tile = first_tile;
        while tile < last_tile {
            let (image_tile, strip) = product.strips.divmod(tile);
            let first_image = image_tile * product.tile_images;
            let left = product.batch - first_image;
            let images = if left < product.tile_images { left } else { product.tile_images };
            let first_row = strip * product.groups.divisor() * lines;
            let from = i64::from(first_image) * i64::from(planes.plane) + i64::from(x_channel) * x_plane;
            let first_source = (first_row * step_h) as i32 + product.start_h;
            // SAFETY: the images lie in x; the tile has its shared memory, behind a barrier.
            unsafe {
                planes.stage(0, x.wrapping_offset(from as isize), images, first_source);
                let from =
                    i64::from(first_image) * i64::from(product.dy.plane) + i64::from(channel) * dy_plane;
                product.dy.stage(dy_tile, dy.wrapping_offset(from as isize), images, first_row as i32);
            }
            sync_threads();
            let items = images * product.groups.divisor() * out_w;
            let mut item = thread;
            while item < items {
                let (rest, column) = product.out_w.divmod(item);
                let (image, group) = product.groups.divmod(rest);
                let word = ((planes.left as i32 + product.start_w) as u32).wrapping_add(column * step_w);
                let mut top = planes.place(image, group * lines * step_h, word);
                let mut dy_at = dy_tile + product.dy.place(image, group * lines, column);
                // SAFETY: the tiles were staged before the barrier.
                let mut window = unsafe { Window::above(top, taps, true) };
                // Rows behind the last have no part: what they would meet need not be finite.
                let below = product.dy.h as u32 - first_row;
                let below = below.saturating_sub(group * lines);
                let live = if below < lines { below } else { lines };
                let mut done = 0;
                while done + rows <= live {
                    // ptxas unrolls this, and the window's rows change their registers instead of moving.
                    let mut r = 0;
                    while r < rows {
                        // SAFETY: as above.
                        unsafe { add_row(&mut sums, &mut window, top, dy_at, taps) };
                        top += step_h * taps.pitch;
                        dy_at += product.dy.pitch.divisor() * 4;
                        r += 1;
                    }
                    done += rows;
                }
                while done < live {
                    // SAFETY: as above.
                    unsafe { add_row(&mut sums, &mut window, top, dy_at, taps) };
                    top += step_h * taps.pitch;
                    dy_at += product.dy.pitch.divisor() * 4;
                    done += 1;
                }
                item += threads;
            }
            // The next tile must not overtake a reader of this one.
            sync_threads();
            tile += 1;
        }
        // SAFETY: the launch gave room for the sums, in the place of the tile.
        unsafe {
            let mut i = 0;
            while i < MAX_WINDOW {
                let mut j = 0;
                while j < MAX_WINDOW {
                    if (i < taps.h as usize) & (j < taps.w as usize) {
                        let tap = i as u32 * taps.w + j as u32;
                        shared_store((tap * threads + thread) * 4, sums[i][j]);
                    }
                    j += 1;
                }
                i += 1;
            }
            let to = i64::from(block) * i64::from(taps.h * taps.w);
            add_up(taps.h * taps.w, partial.wrapping_offset(to as isize));
        }
        block += grid_dim_x();
    }
}

/// Adds an element of dy times what its taps meet.
///
/// # Safety
/// The window at `top` and the element at `dy` were staged before the last barrier.
#[inline(always)]
unsafe fn add_row(
    sums: &mut [[f32; MAX_WINDOW]; MAX_WINDOW],
    window: &mut Window,
    top: u32,
    dy: u32,
    taps: Taps,
) {
    // SAFETY: by this function's contract.
    let value: f32 = unsafe {
        window.advance(top, taps, true);
        shared_load(dy)
    };
    let mut i = 0;
    while i < MAX_WINDOW {
        let mut j = 0;
        while j < MAX_WINDOW {
            if (i < taps.h as usize) & (j < taps.w as usize) {
                sums[i][j] = f32::mul_add(window.values[i][j], value, sums[i][j]);
            }
            j += 1;
        }
        i += 1;
    }
}

/// Adds the threads' sums of each tap, in an order that depends on the number of threads alone, and stores them.
///
/// # Safety
/// The threads stored their sums since the last barrier, those of a tap side by side; `partial` is valid for writes of
/// `taps` elements.
#[inline(always)]
unsafe fn add_up(taps: u32, partial: *mut f32) {
    let (thread, threads) = (thread_idx_x(), block_dim_x());
    let parts = taps * threads * 4;
    sync_threads();
    // SAFETY: each place belongs to one thread, and a barrier parts its store from its readers.
    unsafe {
        let mut index = thread;
        while index < taps * PARTS {
            let (tap, part) = (index / PARTS, index % PARTS);
            let mut sum = 0.0;
            let mut of = part;
            while of < threads {
                let one: f32 = shared_load((tap * threads + of) * 4);
                sum += one;
                of += PARTS;
            }
            shared_store(parts + index * 4, sum);
            index += threads;
        }
        sync_threads();
        let mut tap = thread;
        while tap < taps {
            let mut sum = 0.0;
            let mut part = 0;
            while part < PARTS {
                let one: f32 = shared_load(parts + (tap * PARTS + part) * 4);
                sum += one;
                part += 1;
            }
            *partial.wrapping_add(tap as usize) = sum;
            tap += threads;
        }
    }
    sync_threads();
}

/// Partial sums of wgrad with one input channel a group.
///
/// # Safety
/// As for [`depthwise_gradient`].
#[inline(always)]
pub unsafe fn conv2d_depthwise_dw<E: Num<Acc = f32>>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    product: DepthwiseGradient,
    taps_h: i32,
    taps_w: i32,
    step_h: i32,
    step_w: i32,
    rows: i32,
) {
    // SAFETY: by this function's contract.
    unsafe { depthwise_gradient::<E>(dy, x, partial, product, taps_h, taps_w, step_h, step_w, rows) };
}

entry! { single conv2d_depthwise_dw {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(product: DepthwiseGradient)
    constants(taps_h: i32 = 3, taps_w: i32 = 3, step_h: i32 = 1, step_w: i32 = 1, rows: i32 = 7)
    barriers(5)
} }
