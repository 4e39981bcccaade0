//! wgrad for few input channels on tensor cores.
//!
//! The product has a row for each output channel, a column for each input channel and tap, and reduces over pixels. Blocks
//! walk over rows of dy, as in [`conv2d_few_dw`](crate::conv2d_few_dw): a row of up to 64 output channels comes to shared
//! memory as it is, and with it the rows of x that it meets. A warp multiplies all the rows with 32 columns; what a column
//! meets lies at a distance of its own from a pixel's place.
//!
//! f32 takes one product of TF32 values, or, split, three, as in [`conv2d_patch`](mod@crate::conv2d_patch).

use crate::divmod::FastDivmod;
use crate::gpu::{
    block_dim_x, block_idx_x, fresh, grid_dim_x, load_if, load_matrices, load16_if, shared_load,
    shared_store, shared_store16, sync_threads, thread_idx_x,
};
use crate::mma::{Factor, multiply_three, number, split_plain, turned};
use crate::num::Num;

/// Rows of a block.
const BLOCK_ROWS: u32 = 64;

/// Columns of a warp.
const WARP_COLUMNS: u32 = 32;

/// wgrad for few input channels on tensor cores.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FewProduct {
    /// Rows of x.
    pub h: i32,
    /// Columns of x.
    pub w: i32,
    /// Columns of dy.
    pub out_w: u32,
    /// Input channels of a group.
    pub channels: u32,
    /// Output channels of a group.
    pub rows: u32,
    /// Input channels of a group, times taps.
    pub columns: u32,
    /// The row of x that row 0 of dy meets with tap 0.
    pub start_h: i32,
    /// Elements from the start of x's tile to what pixel 0 meets with tap 0.
    pub start: u32,
    /// Rows of x between rows of dy.
    pub step_h: i32,
    /// Columns of x between columns of dy.
    pub step_w: u32,
    /// Elements in front of x's column 0; whole vectors.
    pub left: u32,
    /// Rows of dy of all batch items.
    pub tiles: u32,
    /// Rows of dy of a run.
    pub run: u32,
    /// Blocks.
    pub blocks: u32,
    /// Divides by elements of a row of x's tile.
    pub x_pitch: FastDivmod,
    /// Divides by vectors of a row of x's tile.
    pub x_vectors: FastDivmod,
    /// Divides by elements of a row of dy's tile.
    pub dy_pitch: FastDivmod,
    /// Divides by vectors of a row of dy's tile.
    pub dy_vectors: FastDivmod,
    /// Divides by rows of dy.
    pub out_h: FastDivmod,
    /// Divides by rows of the filter.
    pub kh: FastDivmod,
    /// Divides by columns of the filter.
    pub kw: FastDivmod,
    /// Divides by blocks along the columns.
    pub column_blocks: FastDivmod,
    /// Divides by blocks along the rows.
    pub row_blocks: FastDivmod,
    /// Divides by groups.
    pub groups: FastDivmod,
}

/// How rows are staged.
#[derive(Clone, Copy)]
struct Tile {
    at: u32,
    lines: u32,
    /// Elements in front of a row, and of it.
    left: u32,
    w: u32,
    pitch: FastDivmod,
    vectors: FastDivmod,
}

/// A run's partial sums of dw for few input channels, to `partial[run][group][row][channel, tap]`.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, `partial` for all runs' sums; it overlaps neither.
/// The block has a warp for each 32 of its columns, and the shared memory of a tile of x and one of dy.
#[inline(always)]
pub unsafe fn gradient<E: Factor, const SPLIT: bool>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &FewProduct,
) {
    let element = size_of::<E>() as u32;
    // Pixels of a step.
    let depth = 32 / element;
    let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
    let (g, t) = (lane / 4, lane % 4);
    let x_plane = i64::from(product.h) * i64::from(product.w);
    let dy_plane = i64::from(product.out_h.divisor()) * i64::from(product.out_w);
    let x_lines = product.channels * product.kh.divisor();
    let dy_tile = (x_lines * product.x_pitch.divisor() * element).next_multiple_of(128);
    let dy_pitch = product.dy_pitch.divisor() * element;
    let a_lane = dy_tile + lane % 16 * dy_pitch + lane / 16 * 16;
    let block_columns = block_dim_x() / 32 * WARP_COLUMNS;
    let mut block = block_idx_x();
    while block < product.blocks {
        let (rest, column_block) = product.column_blocks.divmod(block);
        let (rest, row_block) = product.row_blocks.divmod(rest);
        let (run, group) = product.groups.divmod(rest);
        let first_row = row_block * BLOCK_ROWS;
        let left = product.rows - first_row;
        let rows = if left < BLOCK_ROWS { left } else { BLOCK_ROWS };
        let first_column = column_block * block_columns + warp * WARP_COLUMNS;
        // Where this lane's column of a fragment meets pixel 0.
        let met = |n: u32| {
            let column = first_column + n * 8 + g;
            let (line, j) = product.kw.divmod(if column < product.columns { column } else { 0 });
            (line * product.x_pitch.divisor() + product.start + j) * element
        };
        let met = [met(0), met(1), met(2), met(3)];
        let mut sums = [[[0.0_f32; 4]; 4]; 4];
        let start = run * product.run;
        let left = product.tiles - start;
        let end = start + if left < product.run { left } else { product.run };
        let mut tile = start;
        while tile < end {
            let (batch, row) = product.out_h.divmod(tile);
            let of_batch = i64::from(batch * product.groups.divisor() + group);
            let x_from = x.wrapping_offset((of_batch * i64::from(product.channels) * x_plane) as isize);
            let dy_from = (of_batch * i64::from(product.rows) + i64::from(first_row)) * dy_plane
                + i64::from(row) * i64::from(product.out_w);
            let dy_from = dy.wrapping_offset(dy_from as isize);
            let x_row = row as i32 * product.step_h + product.start_h;
            let x_tile = Tile {
                at: 0,
                lines: x_lines,
                left: product.left,
                w: product.w as u32,
                pitch: product.x_pitch,
                vectors: product.x_vectors,
            };
            let dy_tile = Tile {
                at: dy_tile,
                lines: BLOCK_ROWS,
                left: 0,
                w: product.out_w,
                pitch: product.dy_pitch,
                vectors: product.dy_vectors,
            };
            // SAFETY: the rows lie in their tensors where they count; the tiles have their shared memory, and barriers
            // part their stores from their readers. All lanes multiply together.
            unsafe {
                stage::<E, SPLIT>(x_tile, x, |line| {
                    let (channel, i) = product.kh.divmod(line);
                    let row = x_row + i as i32;
                    let offset = i64::from(channel) * x_plane + i64::from(row) * i64::from(product.w);
                    // A negative row is a huge unsigned one.
                    (x_from.wrapping_offset(offset as isize), (row as u32) < product.h as u32)
                });
                stage::<E, SPLIT>(dy_tile, dy, |line| {
                    let offset = i64::from(line) * dy_plane;
                    (dy_from.wrapping_offset(offset as isize), line < rows)
                });
                sync_threads();
                let mut first = 0;
                while first < product.out_w {
                    multiply::<E, SPLIT>(
                        &mut sums,
                        a_lane + first * element,
                        dy_pitch,
                        met,
                        first,
                        t,
                        product,
                    );
                    first += depth;
                }
            }
            // The next tile must not overtake a reader of this one.
            sync_threads();
            tile += 1;
        }
        let place = Place { run, group, first_row, first_column, start, end };
        // SAFETY: the elements lie in the run's sums, and no other thread has them.
        unsafe {
            let again = store::<SPLIT>(partial, product, &place, &sums);
            if SPLIT && again != 0 {
                compute_again(dy, x, partial, product, &place, again);
            }
        }
        block += grid_dim_x();
    }
}

/// A warp's part of dw, and the rows of dy that it is summed over.
#[derive(Clone, Copy)]
struct Place {
    run: u32,
    group: u32,
    first_row: u32,
    first_column: u32,
    start: u32,
    end: u32,
}

impl Place {
    /// Row and column of a thread's element, by number.
    #[inline(always)]
    fn corner(&self, lane: u32, bit: u32) -> (u32, u32) {
        let (m, n, part) = (bit / 16, bit / 4 % 4, bit % 4);
        let row = self.first_row + m * 16 + part / 2 * 8 + lane / 4;
        (row, self.first_column + n * 8 + lane % 4 * 2 + part % 2)
    }

    /// An element among the partial sums.
    #[inline(always)]
    fn offset(&self, product: &FewProduct, row: u32, column: u32) -> isize {
        let number = i64::from(self.run * product.groups.divisor() + self.group) * i64::from(product.rows);
        ((number + i64::from(row)) * i64::from(product.columns) + i64::from(column)) as isize
    }
}

/// Stores a thread's sums; split, leaves out what is not finite and returns it as bits.
///
/// # Safety
/// `partial` is valid for all runs' sums, and the thread's elements are its own.
#[inline(always)]
unsafe fn store<const SPLIT: bool>(
    partial: *mut f32,
    product: &FewProduct,
    place: &Place,
    sums: &[[[f32; 4]; 4]; 4],
) -> u64 {
    let lane = fresh(thread_idx_x()) % 32;
    let mut again = 0_u64;
    let mut m = 0;
    while m < 4 {
        let mut n = 0;
        while n < 4 {
            let mut part = 0;
            while part < 4 {
                let bit = m * 16 + n * 4 + part;
                let (row, column) = place.corner(lane, bit);
                let sum = sums[m as usize][n as usize][part as usize];
                if (row < product.rows) & (column < product.columns) {
                    if SPLIT && !sum.is_finite() {
                        again |= 1 << bit;
                    } else {
                        let to = partial.wrapping_offset(place.offset(product, row, column));
                        // SAFETY: by this function's contract.
                        unsafe { *to = sum };
                    }
                }
                part += 1;
            }
            n += 1;
        }
        m += 1;
    }
    again
}

/// Computes a thread's sums, given as [`store`] returns them, by fused multiply-adds: infinities have no small part.
///
/// # Safety
/// As for [`gradient`].
#[inline(always)]
unsafe fn compute_again<E: Num<Acc = f32>>(
    dy: *const E,
    x: *const E,
    partial: *mut f32,
    product: &FewProduct,
    place: &Place,
    mut again: u64,
) {
    let lane = fresh(thread_idx_x()) % 32;
    while again != 0 {
        let bit = again.trailing_zeros();
        again &= again - 1;
        let (row, column) = place.corner(lane, bit);
        let (line, j) = product.kw.divmod(column);
        let (channel, i) = product.kh.divmod(line);
        let mut sum = 0.0;
        let mut tile = place.start;
        while tile < place.end {
            let (batch, y) = product.out_h.divmod(tile);
            let of_batch = i64::from(batch * product.groups.divisor() + place.group);
            let dy_line = (of_batch * i64::from(product.rows) + i64::from(row))
                * i64::from(product.out_h.divisor())
                + i64::from(y);
            let dy_from = dy.wrapping_offset((dy_line * i64::from(product.out_w)) as isize);
            let h = y as i32 * product.step_h + product.start_h + i as i32;
            let x_line = (of_batch * i64::from(product.channels) + i64::from(channel)) * i64::from(product.h)
                + i64::from(h);
            let x_from = x.wrapping_offset((x_line * i64::from(product.w)) as isize);
            let mut pixel = 0;
            while pixel < product.out_w {
                // A negative coordinate is a huge unsigned one.
                let w = (pixel * product.step_w + product.start + j).wrapping_sub(product.left);
                if ((h as u32) < product.h as u32) & (w < product.w as u32) {
                    // SAFETY: the pixel lies in dy, and what it meets in x.
                    unsafe {
                        let value = *dy_from.wrapping_add(pixel as usize);
                        sum = E::mul_add(value, *x_from.wrapping_add(w as usize), sum);
                    }
                }
                pixel += 1;
            }
            tile += 1;
        }
        // SAFETY: the element lies in the run's sums, and is this thread's.
        unsafe { *partial.wrapping_offset(place.offset(product, row, column)) = sum };
    }
}

/// Multiplies the pixels of a step, from `first` on. `a_lane` is where this lane's row of dy's first fragment lies.
///
/// # Safety
/// The tiles were staged before the last barrier; all lanes of the warp call this together.
#[inline(always)]
unsafe fn multiply<E: Factor, const SPLIT: bool>(
    sums: &mut [[[f32; 4]; 4]; 4],
    a_lane: u32,
    dy_pitch: u32,
    met: [u32; 4],
    first: u32,
    t: u32,
    product: &FewProduct,
) {
    let element = size_of::<E>() as u32;
    // A pixel behind the last meets zero: what lies there need not be finite.
    let value = |at: u32, pixel: u32| {
        let live = pixel < product.out_w;
        let pixel = if live { pixel } else { 0 };
        let at = at + pixel * product.step_w * element;
        // SAFETY: by this function's contract.
        unsafe {
            if size_of::<E>() == 2 {
                let bits = u32::from(shared_load::<u16>(at));
                if live { bits } else { 0 }
            } else {
                let bits: u32 = shared_load(at);
                if live { bits } else { 0 }
            }
        }
    };
    // A word of a column: two halves, or a number.
    let word = |at: u32, number: u32| {
        if size_of::<E>() == 2 {
            let pixel = first + 2 * number;
            value(at, pixel) | (value(at, pixel + 1) << 16)
        } else {
            value(at, first + number)
        }
    };
    // SAFETY: by this function's contract.
    unsafe {
        let right = |n: usize| [word(met[n], t), word(met[n], t + 4)];
        let right = [right(0), right(1), right(2), right(3)];
        let parts = if SPLIT { right.map(|b| b.map(split_plain)) } else { [[(0, 0); 2]; 4] };
        let mut m = 0;
        while m < 4 {
            let left = load_matrices::<false>(a_lane + m as u32 * 16 * dy_pitch);
            let left_parts = if SPLIT { turned(left.map(split_plain)) } else { [left; 2] };
            let mut n = 0;
            while n < 4 {
                sums[m][n] = if SPLIT {
                    multiply_three(left_parts, parts[n], sums[m][n])
                } else {
                    E::mma(left, right[n], sums[m][n])
                };
                n += 1;
            }
            m += 1;
        }
    }
}

/// Brings rows to shared memory as they are, with zeros around them; f32 is rounded to TF32, unless products split it. `line`
/// says where a row starts, and whether it counts.
///
/// # Safety
/// The rows that count are valid for reads of `tile.w` elements, and all start a whole number of rows from `base`. The
/// launch gave the tile its shared memory, and no thread reads it before the next barrier.
#[inline(always)]
unsafe fn stage<E: Num<Acc = f32>, const SPLIT: bool>(
    tile: Tile,
    base: *const E,
    line: impl Fn(u32) -> (*const E, bool),
) {
    let (thread, threads) = (thread_idx_x(), block_dim_x());
    let lanes = 16 / size_of::<E>() as u32;
    let element = size_of::<E>() as u32;
    let round = |bits: u32| {
        if size_of::<E>() == 2 { bits } else { number::<SPLIT>(bits) }
    };
    if (base.addr() & 15 == 0) & (tile.w & (lanes - 1) == 0) {
        let total = tile.lines * tile.vectors.divisor();
        let mut first = thread;
        while first < total {
            let load = |u: u32| {
                let index = first + u * threads;
                let (row, vector) = tile.vectors.divmod(index);
                let (from, counts) = line(row);
                let column = (vector * lanes).wrapping_sub(tile.left);
                let take = counts & (column < tile.w) & (index < total);
                // SAFETY: the vector lies in its row, on its boundary.
                unsafe { load16_if(take, from.wrapping_add(column as usize).cast()) }
            };
            let parts = [load(0), load(1), load(2), load(3)];
            let mut u = 0;
            while u < 4 {
                let index = first + u * threads;
                if index < total {
                    // SAFETY: each place belongs to one thread.
                    unsafe { shared_store16(tile.at + index * 16, parts[u as usize].map(round)) };
                }
                u += 1;
            }
            first += 4 * threads;
        }
    } else {
        let total = tile.lines * tile.pitch.divisor();
        let mut first = thread;
        while first < total {
            let load = |u: u32| {
                let index = first + u * threads;
                let (row, word) = tile.pitch.divmod(index);
                let (from, counts) = line(row);
                let column = word.wrapping_sub(tile.left);
                let take = counts & (column < tile.w) & (index < total);
                // SAFETY: the element lies in its row.
                unsafe { load_if(take, from.wrapping_add(column as usize), E::narrow(0.0)) }
            };
            let parts = [load(0), load(1), load(2), load(3)];
            let mut u = 0;
            while u < 4 {
                let index = first + u * threads;
                if index < total {
                    let part = parts[u as usize];
                    let at = tile.at + index * element;
                    // SAFETY: as above.
                    unsafe {
                        if size_of::<E>() == 2 {
                            shared_store(at, part);
                        } else {
                            shared_store(at, round(part.widen().to_bits()));
                        }
                    }
                }
                u += 1;
            }
            first += 4 * threads;
        }
    }
}

/// wgrad for few input channels on tensor cores.
///
/// # Safety
/// As for [`gradient`].
#[inline(always)]
pub unsafe fn conv2d_few_dw_mma<E: Factor>(dy: *mut E, x: *mut E, partial: *mut f32, product: FewProduct) {
    // SAFETY: by this function's contract.
    unsafe { gradient::<E, false>(dy, x, partial, &product) };
}

entry! { sm_80 single conv2d_few_dw_mma {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(product: FewProduct)
    constants()
    barriers(2)
    threads(256, 2)
} }

/// wgrad for few input channels with split products.
///
/// # Safety
/// As for [`gradient`].
#[inline(always)]
pub unsafe fn conv2d_few_dw_split<E: Factor>(dy: *mut E, x: *mut E, partial: *mut f32, product: FewProduct) {
    // SAFETY: by this function's contract.
    unsafe { gradient::<E, true>(dy, x, partial, &product) };
}

entry! { sm_80 f32 conv2d_few_dw_split {
    args(dy: *mut E, x: *mut E, partial: *mut f32)
    hidden(product: FewProduct)
    constants()
    barriers(2)
    threads(192, 2)
} }
