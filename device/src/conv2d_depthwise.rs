//! Depthwise convolution: one input channel a group, and one or several output channels.
//!
//! Every tensor is read or written once, and little is computed for each element, so that memory sets the pace. Blocks
//! bring tiles of whole planes, or of rows of them, to shared memory ([`Planes`]). A thread then takes a column of the
//! result and several rows of it: a row of the tile serves the taps of all of them from registers.
//!
//! Forward and dgrad are one kernel, [`conv2d_depthwise`]. A result's row `o` is `classes · q + class − shift`, and
//! meets the source's rows `q · step + t + start` for taps `t`. Forward has one class and the stride as its step. dgrad
//! has a class for each residue of the stride, whose taps are those of the filter that leave that residue, in reverse,
//! and a step of one. Columns alike.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, grid_dim_x, load_if, shared_load, shared_store, store_if, sync_threads,
    thread_idx_x,
};
use crate::num::Num;
use crate::planes::{MAX_WINDOW, Planes, Taps, Window};

/// Forward or dgrad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Depthwise {
    /// The source's planes.
    pub planes: Planes,
    /// Rows of the filter.
    pub filter_h: u32,
    /// Columns of the filter.
    pub filter_w: u32,
    /// Whether taps are in reverse.
    pub reverse: u32,
    /// Rows of the result.
    pub out_h: u32,
    /// The first `q` of rows.
    pub first_h: u32,
    /// The rows' shift.
    pub shift_h: u32,
    /// The columns' shift.
    pub shift_w: u32,
    /// The rows' start.
    pub start_h: i32,
    /// The columns' start.
    pub start_w: i32,
    /// Input channels of all batch items.
    pub units: u32,
    /// Input channels of a tile.
    pub tile_units: u32,
    /// Tiles.
    pub tiles: u32,
    /// A thread takes so many times some rows.
    pub turns: u32,
    /// Whether to add to the result.
    pub accumulate: u32,
    /// Divides by columns of the result.
    pub out_w: FastDivmod,
    /// Divides by planes of the result that an input channel has.
    pub outs: FastDivmod,
    /// Divides by groups of rows of a tile.
    pub groups: FastDivmod,
    /// Divides by tiles along the rows.
    pub strips: FastDivmod,
    /// Divides by input channels.
    pub channels: FastDivmod,
    /// Divides by output channels of an input channel.
    pub multiplier: FastDivmod,
    /// Divides by classes.
    pub classes: FastDivmod,
    /// Divides by taps of a class's row.
    pub taps_w: FastDivmod,
    /// Divides by taps of a class.
    pub taps: FastDivmod,
}

/// Forward or dgrad of a convolution with one input channel a group.
///
/// # Safety
/// `source`, `filter` and `out` are valid for the tensors that `product` describes; out overlaps neither. The block has
/// the shared memory of a tile and of its filters behind that.
#[inline(always)]
pub unsafe fn conv2d_depthwise<E: Num<Acc = f32>>(
    source: *mut E,
    filter: *mut E,
    out: *mut E,
    product: Depthwise,
    taps_h: i32,
    taps_w: i32,
    step_h: i32,
    step_w: i32,
    classes_h: FastDivmod,
    classes_w: FastDivmod,
    sources: i32,
    rows: i32,
) {
    let planes = &product.planes;
    let (step_h, step_w, sources, rows) = (step_h as u32, step_w as u32, sources as u32, rows as u32);
    let lines = product.turns * rows;
    let taps = Taps { h: taps_h as u32, w: taps_w as u32, step: step_h, pitch: planes.pitch.divisor() * 4 };
    let (thread, threads) = (thread_idx_x(), block_dim_x());
    let filters = planes.place(product.tile_units * sources, 0, 0);
    let plane = i64::from(planes.h) * i64::from(planes.w);
    let outs = product.outs.divisor();
    let mut tile = block_idx_x();
    while tile < product.tiles {
        let (unit_tile, strip) = product.strips.divmod(tile);
        let first_unit = unit_tile * product.tile_units;
        let left = product.units - first_unit;
        let units = if left < product.tile_units { left } else { product.tile_units };
        let first_row = product.first_h + strip * product.groups.divisor() * lines;
        let from = source.wrapping_offset((i64::from(first_unit) * i64::from(sources) * plane) as isize);
        let first_source = first_row as i32 * step_h as i32 + product.start_h;
        // SAFETY: the units' planes lie in the source; the tile has its shared memory, behind a barrier.
        unsafe {
            planes.stage(0, from, units * sources, first_source);
            stage_filters(filters, filter, &product, first_unit, units, classes_h, classes_w);
        }
        sync_threads();
        let items = units * outs * classes_h.divisor() * product.groups.divisor() * product.out_w.divisor();
        let mut item = thread;
        while item < items {
            let (rest, column) = product.out_w.divmod(item);
            let (rest, group) = product.groups.divmod(rest);
            let (plane_of_tile, class_h) = classes_h.divmod(rest);
            let unit = product.outs.div(plane_of_tile);
            let (q, class_w) = classes_w.divmod(column + product.shift_w);
            let class = class_h * classes_w.divisor() + class_w;
            // With taps in reverse, the first may lie behind the filter's end.
            let whole_h = (classes_h.divisor() == 1)
                | (class_h + classes_h.divisor() * (taps.h - 1) < product.filter_h);
            let whole_w = (classes_w.divisor() == 1)
                | (class_w + classes_w.divisor() * (taps.w - 1) < product.filter_w);
            let word = ((planes.left as i32 + product.start_w) as u32).wrapping_add(q * step_w);
            // One source's window serves the next row; several sources take turns.
            let top = |of_unit: u32| planes.place(unit * sources + of_unit, group * lines * step_h, word);
            let first_weight =
                filters + (plane_of_tile * sources * product.classes.divisor() + class) * taps.h * taps.w * 4;
            let between = product.classes.divisor() * taps.h * taps.w * 4;
            // SAFETY: the tile and the filters were staged before the barrier.
            let (mut window, mut weights) =
                unsafe { (Window::above(top(0), taps, whole_w), load_filter(first_weight, taps)) };
            let number = i64::from(first_unit) * i64::from(outs) + i64::from(plane_of_tile);
            let row =
                ((first_row + group * lines) * classes_h.divisor() + class_h).wrapping_sub(product.shift_h);
            let out_w = product.out_w.divisor();
            let size = i64::from(product.out_h) * i64::from(out_w);
            let offset = number * size + i64::from(row as i32) * i64::from(out_w) + i64::from(column);
            let mut to = out.wrapping_offset(offset as isize);
            let mut row = row;
            let mut down = 0;
            let mut turn = 0;
            while turn < product.turns {
                // ptxas unrolls this, and the window's rows change their registers instead of moving.
                let mut r = 0;
                while r < rows {
                    let mut sum = 0.0;
                    let mut of_unit = 0;
                    while of_unit < sources {
                        // SAFETY: as above.
                        unsafe {
                            let at = top(of_unit) + down;
                            if sources > 1 {
                                window = Window::above(at, taps, whole_w);
                                weights = load_filter(first_weight + of_unit * between, taps);
                            }
                            window.advance(at, taps, whole_w);
                        }
                        sum = add_taps(sum, &window, &weights, taps, whole_h);
                        of_unit += 1;
                    }
                    // Without branches, so that rows overlap.
                    let inside = row < product.out_h;
                    // SAFETY: the element lies in the result, and no other thread has it.
                    unsafe {
                        let before = load_if(inside & (product.accumulate != 0), to, E::narrow(0.0));
                        store_if(inside, to, E::narrow(before.widen() + sum));
                    }
                    row = row.wrapping_add(classes_h.divisor());
                    to = to.wrapping_offset(classes_h.divisor() as isize * out_w as isize);
                    down += step_h * taps.pitch;
                    r += 1;
                }
                turn += 1;
            }
            item += threads;
        }
        // The next tile must not overtake a reader of this one.
        sync_threads();
        tile += grid_dim_x();
    }
}

/// A class's filter.
///
/// # Safety
/// It was staged before the last barrier, `at` bytes from the start of shared memory.
#[inline(always)]
unsafe fn load_filter(at: u32, taps: Taps) -> [[f32; MAX_WINDOW]; MAX_WINDOW] {
    let mut weights = [[0.0; MAX_WINDOW]; MAX_WINDOW];
    let mut i = 0;
    while i < MAX_WINDOW as u32 {
        let mut j = 0;
        while j < MAX_WINDOW as u32 {
            if (i < taps.h) & (j < taps.w) {
                // SAFETY: by this function's contract.
                weights[i as usize][j as usize] = unsafe { shared_load(at + (i * taps.w + j) * 4) };
            }
            j += 1;
        }
        i += 1;
    }
    weights
}

/// Adds the products of all taps, but for the first row's without `whole`.
#[inline(always)]
fn add_taps(
    mut sum: f32,
    window: &Window,
    weights: &[[f32; MAX_WINDOW]; MAX_WINDOW],
    taps: Taps,
    whole: bool,
) -> f32 {
    let mut i = 0;
    while i < MAX_WINDOW {
        let mut j = 0;
        while j < MAX_WINDOW {
            if (i < taps.h as usize) & (j < taps.w as usize) & ((i > 0) | whole) {
                sum = f32::mul_add(window.values[i][j], weights[i][j], sum);
            }
            j += 1;
        }
        i += 1;
    }
    sum
}

/// Brings the filters of a tile's channels to shared memory, by filter, class of rows, class of columns, and tap. Taps
/// behind the filter's end are zero.
///
/// # Safety
/// As for [`conv2d_depthwise`]; the launch gave room for them `at` bytes from the start.
#[inline(always)]
unsafe fn stage_filters<E: Num<Acc = f32>>(
    at: u32,
    filter: *const E,
    product: &Depthwise,
    first_unit: u32,
    units: u32,
    classes_h: FastDivmod,
    classes_w: FastDivmod,
) {
    let class_taps = product.taps.divisor();
    let multiplier = product.multiplier.divisor();
    let total = units * multiplier * product.classes.divisor() * class_taps;
    let taps_w = product.taps_w.divisor();
    let taps_h = product.taps_w.div(class_taps);
    let mut index = thread_idx_x();
    while index < total {
        let (rest, tap) = product.taps.divmod(index);
        let (number, class) = product.classes.divmod(rest);
        let (class_h, class_w) = classes_w.divmod(class);
        let (t_h, t_w) = product.taps_w.divmod(tap);
        let (t_h, t_w) = if product.reverse != 0 { (taps_h - 1 - t_h, taps_w - 1 - t_w) } else { (t_h, t_w) };
        let (i, j) = (class_h + classes_h.divisor() * t_h, class_w + classes_w.divisor() * t_w);
        let (unit, of_unit) = product.multiplier.divmod(number);
        let channel = product.channels.divmod(first_unit + unit).1;
        let offset = i64::from(channel * multiplier + of_unit)
            * i64::from(product.filter_h * product.filter_w)
            + i64::from(i * product.filter_w + j);
        let take = (i < product.filter_h) & (j < product.filter_w);
        // SAFETY: the tap lies in the filter; the place is this thread's.
        unsafe {
            let weight = load_if(take, filter.wrapping_offset(offset as isize), E::narrow(0.0));
            shared_store(at + index * 4, weight.widen());
        }
        index += block_dim_x();
    }
}

entry! { single conv2d_depthwise {
    args(source: *mut E, filter: *mut E, out: *mut E)
    hidden(product: Depthwise)
    constants(
        taps_h: i32 = 3, taps_w: i32 = 3, step_h: i32 = 1, step_w: i32 = 1, classes_h: FastDivmod = 1,
        classes_w: FastDivmod = 1, sources: i32 = 1, rows: i32 = 7,
    )
    barriers(2)
} }

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
    /// Runs of all output channels.
    pub blocks: u32,
    /// Divides by columns of dy.
    pub out_w: FastDivmod,
    /// Divides by groups of rows of a tile.
    pub groups: FastDivmod,
    /// Divides by tiles along the rows.
    pub strips: FastDivmod,
    /// Divides by output channels.
    pub channels: FastDivmod,
    /// Divides by output channels of an input channel.
    pub multiplier: FastDivmod,
}

/// Parts of a block's sum of a tap, which are then added.
const PARTS: u32 = 16;

/// Partial sums of wgrad with one input channel a group: a block takes a run of tiles of an output channel, and a thread
/// sums its elements of dy for all taps. [`conv2d_dw_reduce`](crate::conv2d_tiled::conv2d_dw_reduce) adds the runs.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, `partial` for writes of a filter of each channel and
/// run; it overlaps neither. The block has the shared memory of a tile, of a sum of each thread and tap, and of
/// [`PARTS`] sums of each tap.
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
        let (run, channel) = product.channels.divmod(block);
        let x_channel = product.multiplier.div(channel);
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
                let below = if group * lines < below { below - group * lines } else { 0 };
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

entry! { single conv2d_depthwise_dw {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(product: DepthwiseGradient)
    constants(taps_h: i32 = 3, taps_w: i32 = 3, step_h: i32 = 1, step_w: i32 = 1, rows: i32 = 7)
    barriers(5)
} }
