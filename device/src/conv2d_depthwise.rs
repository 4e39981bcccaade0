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
pub unsafe fn depthwise<E: Num<Acc = f32>>(
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

/// Forward or dgrad with one input channel a group.
///
/// # Safety
/// As for [`depthwise`].
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
    // SAFETY: by this function's contract.
    unsafe {
        depthwise::<E>(
            source, filter, out, product, taps_h, taps_w, step_h, step_w, classes_h, classes_w, sources, rows,
        );
    };
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
