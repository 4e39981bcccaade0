//! dgrad for few input channels, such as an image's three: too few to fill a tile's rows. Forward with stride 1 for few
//! output channels is the same, with the taps in their own order: read x for dy, and y for dx.
//!
//! A cell is the `stride_h × stride_w` elements of dx with the same `q`, where a row of dx is `stride_h · q + class −
//! pad_h`, and columns alike. All of them meet the same window of dy, each with taps of its own. A thread takes
//! [`CELLS`] cells, one below the other, with up to four channels and two classes of rows and of columns, so that a value
//! of dy feeds up to 16 sums and a weight [`CELLS`]. A block brings dy's rows and the filter to shared memory, some
//! output channels at a time.

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, grid_dim_x, load_if, shared_load, shared_load16, shared_store, store_if,
    sync_threads, thread_idx_x,
};
use crate::num::Num;
use crate::planes::Planes;

/// Cells of a thread.
pub const CELLS: usize = 7;

/// Channels of a thread, and classes of a thread's rows and columns together.
pub const CHANNELS: usize = 4;

/// dgrad for few channels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FewChannels {
    /// The planes of dy.
    pub planes: Planes,
    /// Channels of dx, in a group.
    pub channels: u32,
    /// Channels of dy, in a group.
    pub reduced: u32,
    /// Channels of dy that are staged at a time.
    pub staged: u32,
    /// Rows of dx.
    pub out_h: u32,
    /// Columns of dx.
    pub out_w: u32,
    /// The first `q` of rows.
    pub first_h: u32,
    /// The first `q` of columns.
    pub first_w: u32,
    /// Rows of zeros around dx.
    pub pad_h: u32,
    /// Columns of zeros around dx.
    pub pad_w: u32,
    /// Groups of rows of cells of a tile.
    pub row_groups: u32,
    /// Tiles.
    pub tiles: u32,
    /// Whether to add to dx.
    pub accumulate: u32,
    /// Whether this is forward.
    pub forward: u32,
    /// Elements of the filter between channels of dy.
    pub filter_reduced: u32,
    /// Elements of the filter between channels of dx.
    pub filter_channel: u32,
    /// Columns of cells.
    pub all_columns: u32,
    /// Divides by columns of cells of a tile.
    pub columns: FastDivmod,
    /// Divides by tiles along the columns.
    pub column_blocks: FastDivmod,
    /// Divides by tiles along the rows.
    pub strips: FastDivmod,
    /// Divides by parts of the channels.
    pub channel_blocks: FastDivmod,
    /// Divides by parts of the rows' classes.
    pub class_blocks_h: FastDivmod,
    /// Divides by parts of the columns' classes.
    pub class_blocks_w: FastDivmod,
    /// Divides by groups.
    pub groups: FastDivmod,
    /// Divides by words of a channel's weights.
    pub weights: FastDivmod,
    /// Divides by taps of a class's row.
    pub taps_w: FastDivmod,
}

/// The constants of a product.
#[derive(Clone, Copy)]
struct Constants {
    /// Taps of a class, rows and columns.
    taps: [u32; 2],
    stride: [u32; 2],
    kernel: [u32; 2],
    /// Channels of a thread that may count.
    channels: u32,
}

/// A tile's place.
#[derive(Clone, Copy)]
struct Part {
    first_class_h: u32,
    first_class_w: u32,
    first_channel: u32,
    group: u32,
}

impl Constants {
    /// The first classes of a part, zero where there is one part alone.
    #[inline(always)]
    fn first_class(&self, axis: usize, block: u32) -> u32 {
        if self.stride[axis] <= 2 { 0 } else { 2 * block }
    }

    /// Whether a class has its tap, counted in reverse.
    #[inline(always)]
    fn has(&self, axis: usize, first_class: u32, class: u32, tap: u32) -> bool {
        (class < self.stride[axis])
            & (first_class + class + self.stride[axis] * (self.taps[axis] - 1 - tap) < self.kernel[axis])
    }
}

/// dgrad for few channels.
///
/// # Safety
/// `dy`, `filter` and `dx` are valid for the tensors that `product` describes; dx overlaps neither. The block has the
/// shared memory of the staged channels' planes and weights.
#[inline(always)]
pub unsafe fn few_channels<E: Num<Acc = f32>>(
    dy: *mut E,
    filter: *mut E,
    dx: *mut E,
    product: FewChannels,
    taps_h: i32,
    taps_w: i32,
    stride_h: i32,
    stride_w: i32,
    kh: i32,
    kw: i32,
    channels: i32,
) {
    let constants = Constants {
        taps: [taps_h as u32, taps_w as u32],
        stride: [stride_h as u32, stride_w as u32],
        kernel: [kh as u32, kw as u32],
        channels: channels as u32,
    };
    let [taps_h, taps_w] = constants.taps;
    let planes = &product.planes;
    let thread = thread_idx_x();
    let line = planes.pitch.divisor() * 4;
    let weights_at = planes.place(product.staged, 0, 0);
    let dy_plane = i64::from(planes.h) * i64::from(planes.w);
    let mut tile = block_idx_x();
    while tile < product.tiles {
        let (rest, strip) = product.strips.divmod(tile);
        let (rest, column_block) = product.column_blocks.divmod(rest);
        let (rest, class_w) = product.class_blocks_w.divmod(rest);
        let (rest, class_h) = product.class_blocks_h.divmod(rest);
        let (rest, channel) = product.channel_blocks.divmod(rest);
        let (batch, group) = product.groups.divmod(rest);
        let part = Part {
            first_class_h: constants.first_class(0, class_h),
            first_class_w: constants.first_class(1, class_w),
            first_channel: channel * CHANNELS as u32,
            group,
        };
        let first_row = product.first_h + strip * product.row_groups * CELLS as u32;
        let first_reduced = i64::from(batch * product.groups.divisor() + group) * i64::from(product.reduced);
        let from = dy.wrapping_offset((first_reduced * dy_plane) as isize);
        let (row_group, column) = product.columns.divmod(thread);
        let column = column_block * product.columns.divisor() + column;
        let live = (row_group < product.row_groups) & (column < product.all_columns);
        let (row_group, column) = if live { (row_group, column) } else { (0, 0) };
        let mut sums = [[[0.0_f32; CELLS]; CHANNELS]; CHANNELS];
        // Column `q + t + 1 − taps` of dy; the words left of a tile's column 0 are enough for the first.
        let word = (planes.left + 1 + product.first_w + column).wrapping_sub(taps_w);
        let top = planes.place(0, row_group * CELLS as u32, word);
        let mut first = 0;
        while first < product.reduced {
            let left = product.reduced - first;
            let staged = if left < product.staged { left } else { product.staged };
            // SAFETY: the channels lie in dy and in the filter, and have their shared memory; barriers part what is
            // staged from its readers.
            unsafe {
                let from = from.wrapping_offset((i64::from(first) * dy_plane) as isize);
                planes.stage(0, from, staged, first_row as i32 + 1 - taps_h as i32);
                stage_weights(weights_at, filter, &product, constants, part, first, staged);
                sync_threads();
                if live {
                    let mut k = 0;
                    while k < staged {
                        let top = top + planes.place(k, 0, 0);
                        let weights = weights_at + k * product.weights.divisor() * 4;
                        add_channel(&mut sums, top, line, weights, constants, part);
                        k += 1;
                    }
                }
            }
            sync_threads();
            first += staged;
        }
        let cell = Cell {
            live,
            row: first_row + row_group * CELLS as u32,
            column: product.first_w + column,
            first_channel: i64::from(batch * product.groups.divisor() + group) * i64::from(product.channels),
        };
        // SAFETY: the elements lie in dx, and no other thread has them.
        unsafe {
            store(dx, &product, constants, part, cell, 0, &sums[0]);
            store(dx, &product, constants, part, cell, 1, &sums[1]);
            store(dx, &product, constants, part, cell, 2, &sums[2]);
            store(dx, &product, constants, part, cell, 3, &sums[3]);
        }
        tile += grid_dim_x();
    }
}

/// A thread's first cell.
#[derive(Clone, Copy)]
struct Cell {
    /// Whether the thread has cells.
    live: bool,
    row: u32,
    column: u32,
    /// Channels of dx before the group's first, over all batch items.
    first_channel: i64,
}

/// Stores or adds a class's elements of a thread's cells.
///
/// # Safety
/// dx is valid as `product` describes it, and the thread's elements are its own.
#[inline(always)]
unsafe fn store<E: Num<Acc = f32>>(
    dx: *mut E,
    product: &FewChannels,
    constants: Constants,
    part: Part,
    cell: Cell,
    class: u32,
    sums: &[[f32; CELLS]; CHANNELS],
) {
    let [stride_h, stride_w] = constants.stride;
    let (class_h, class_w) = (class / 2, class % 2);
    if (class_h >= stride_h) | (class_w >= stride_w) {
        return;
    }
    let (class_h, class_w) = (part.first_class_h + class_h, part.first_class_w + class_w);
    let column = (cell.column * stride_w + class_w).wrapping_sub(product.pad_w);
    let whole = cell.live & (column < product.out_w) & (class_h < stride_h) & (class_w < stride_w);
    let size = i64::from(product.out_h) * i64::from(product.out_w);
    let mut c = 0;
    while c < CHANNELS as u32 {
        let channel = part.first_channel + c;
        let first = (cell.first_channel + i64::from(channel)) * size + i64::from(column);
        let mut v = 0;
        while v < CELLS as u32 && c < constants.channels {
            let row = ((cell.row + v) * stride_h + class_h).wrapping_sub(product.pad_h);
            let inside = whole & (row < product.out_h) & (channel < product.channels);
            let offset = first + i64::from(row) * i64::from(product.out_w);
            // SAFETY: by this function's contract.
            unsafe {
                let to = dx.wrapping_offset(offset as isize);
                let before = load_if(inside & (product.accumulate != 0), to, E::narrow(0.0));
                store_if(inside, to, E::narrow(before.widen() + sums[c as usize][v as usize]));
            }
            v += 1;
        }
        c += 1;
    }
}

/// Adds the products of a channel of dy. `top` is where the window of the thread's first cell starts.
///
/// # Safety
/// The channel's plane and weights were staged before the last barrier.
#[inline(always)]
unsafe fn add_channel(
    sums: &mut [[[f32; CELLS]; CHANNELS]; CHANNELS],
    top: u32,
    line: u32,
    weights: u32,
    constants: Constants,
    part: Part,
) {
    let [taps_h, taps_w] = constants.taps;
    let mut t_w = 0;
    while t_w < taps_w {
        let mut at = top + t_w * 4;
        let mut window = [0.0_f32; CELLS];
        let mut v = 1;
        while v < CELLS as u32 {
            // SAFETY: by this function's contract.
            window[v as usize] = unsafe { shared_load(at + (v - 1) * line) };
            v += 1;
        }
        at += (CELLS as u32 - 1) * line;
        let mut t_h = 0;
        while t_h < taps_h {
            // The window moves down by a row.
            let [_, a, b, c, d, e, f] = window;
            // SAFETY: by this function's contract.
            window = [a, b, c, d, e, f, unsafe { shared_load(at) }];
            at += line;
            let weights = weights + (t_h * taps_w + t_w) * 64;
            // SAFETY: by this function's contract; weights of classes that a part lacks are zero.
            let four = |class: u32| unsafe { shared_load16(weights + class * 16) }.map(f32::from_bits);
            let all = [four(0), four(1), four(2), four(3)];
            let mut class = 0;
            while class < CHANNELS as u32 {
                let (class_h, class_w) = (class / 2, class % 2);
                if constants.has(0, part.first_class_h, class_h, t_h)
                    & constants.has(1, part.first_class_w, class_w, t_w)
                {
                    add_class(&mut sums[class as usize], &window, all[class as usize], constants.channels);
                }
                class += 1;
            }
            t_h += 1;
        }
        t_w += 1;
    }
}

/// Adds the products of a class's tap.
#[inline(always)]
fn add_class(
    sums: &mut [[f32; CELLS]; CHANNELS],
    window: &[f32; CELLS],
    weights: [f32; CHANNELS],
    channels: u32,
) {
    let mut c = 0;
    while c < CHANNELS {
        let mut v = 0;
        while v < CELLS && c < channels as usize {
            sums[c][v] = f32::mul_add(window[v], weights[c], sums[c][v]);
            v += 1;
        }
        c += 1;
    }
}

/// Brings the weights of some channels of dy to shared memory: by channel, tap (in reverse), class of rows, class of
/// columns, and channel of dx.
///
/// # Safety
/// As for [`conv2d_few`]; no thread reads the weights before the next barrier.
#[inline(always)]
unsafe fn stage_weights<E: Num<Acc = f32>>(
    at: u32,
    filter: *const E,
    product: &FewChannels,
    constants: Constants,
    part: Part,
    first: u32,
    staged: u32,
) {
    let [taps_h, taps_w] = constants.taps;
    let [kh, kw] = constants.kernel;
    let total = staged * product.weights.divisor();
    let mut index = thread_idx_x();
    while index < total {
        let (k, rest) = product.weights.divmod(index);
        let (tap, class, c) = (rest / 16, rest / 4 % 4, rest % 4);
        let (t_h, t_w) = product.taps_w.divmod(tap);
        let reverse = product.forward == 0;
        let (t_h, t_w) = if reverse { (taps_h - 1 - t_h, taps_w - 1 - t_w) } else { (t_h, t_w) };
        let i = part.first_class_h + class / 2 + constants.stride[0] * t_h;
        let j = part.first_class_w + class % 2 + constants.stride[1] * t_w;
        let channel = part.first_channel + c;
        let of_group = i64::from(part.group) * i64::from(product.channels * product.reduced * kh * kw);
        let offset = of_group
            + i64::from((first + k) * product.filter_reduced)
            + i64::from(channel * product.filter_channel)
            + i64::from(i * kw + j);
        let take = (channel < product.channels) & (i < kh) & (j < kw);
        // SAFETY: the tap lies in the filter; the place is this thread's.
        unsafe {
            let weight = load_if(take, filter.wrapping_offset(offset as isize), E::narrow(0.0));
            shared_store(at + index * 4, weight.widen());
        }
        index += block_dim_x();
    }
}

/// dgrad for few channels.
///
/// # Safety
/// As for [`few_channels`].
#[inline(always)]
pub unsafe fn conv2d_few<E: Num<Acc = f32>>(
    dy: *mut E,
    filter: *mut E,
    dx: *mut E,
    product: FewChannels,
    taps_h: i32,
    taps_w: i32,
    stride_h: i32,
    stride_w: i32,
    kh: i32,
    kw: i32,
    channels: i32,
) {
    // SAFETY: by this function's contract.
    unsafe {
        few_channels::<E>(dy, filter, dx, product, taps_h, taps_w, stride_h, stride_w, kh, kw, channels);
    };
}

entry! { single conv2d_few {
    args(dy: *mut E, filter: *mut E, dx: *mut E)
    hidden(product: FewChannels)
    constants(
        taps_h: i32 = 4, taps_w: i32 = 4, stride_h: i32 = 2, stride_w: i32 = 2, kh: i32 = 7, kw: i32 = 7,
        channels: i32 = 3,
    )
    barriers(2)
    threads(128, 3)
} }
