//! The launches for few input channels: what `device/src/conv2d_few.rs` and `conv2d_few_dw.rs` compute, described in
//! their words.

use super::depthwise::{Axis, Planes};
use super::plan::{Problem, Volumes};
use super::tiled::{Machine, ceil};
use crate::element::DType;
use crate::launch::{Geometry, Launch, Params, Structure, Touched};

/// Channels of dx in a group: with more, tiles are worth their padding.
const MAX_CHANNELS: i64 = 15;

/// Rows of cells, channels, and classes of rows and of columns, of a thread.
const CELLS: i64 = 7;
const CHANNELS: i64 = 4;
const CLASSES: i64 = 2;

/// Strides: each residue class has its own taps.
const MAX_STRIDE: i64 = 16;

/// Products below which one launch of the portable kernel is over sooner.
const MIN_PRODUCTS: i64 = 1 << 16;

/// Threads of a block.
const THREADS: i64 = 128;

/// Shared memory with which three blocks share a multiprocessor, and of a block at most.
const GOOD_SHARED: i64 = 48 << 10;
const MAX_SHARED: i64 = 64 << 10;

/// Whether there are few channels, work enough, and 32-bit numbers suffice.
fn suits(problem: &Problem, dtype: DType) -> bool {
    let product = |factors: &[i64]| factors.iter().try_fold(1_i64, |n, &f| n.checked_mul(f));
    let below = |factors: &[i64]| product(factors).is_some_and(|n| n < (1 << 31) - (1 << 16));
    let [b, c_in, c_out] = [problem.b, problem.c_in, problem.c_out].map(i64::from);
    let [h, w] = problem.image.map(i64::from);
    let [oh, ow] = problem.output.map(i64::from);
    let [pad_h, pad_w] = problem.pad.map(i64::from);
    let channels = i64::from(problem.c_in_per_group());
    let products = product(&[b, c_out, oh, ow, channels, problem.taps()]);
    matches!(dtype, DType::F16 | DType::Bf16 | DType::F32)
        && (1..=MAX_CHANNELS).contains(&channels)
        && problem.stride.iter().all(|&stride| i64::from(stride) <= MAX_STRIDE)
        && products.is_none_or(|products| products >= MIN_PRODUCTS)
        && below(&[b, c_in, h + 2 * pad_h])
        && below(&[h + 2 * pad_h, w + 2 * pad_w])
        && below(&[b, c_out])
        && below(&[oh, ow])
        && below(&[problem.taps(), 16, c_out])
}

/// dgrad, or nothing where the kernel does not serve. `touched` are dy, w and dx.
pub(super) fn input_gradient(
    problem: &Problem,
    m: Machine<'_>,
    touched: [Touched; 3],
    accumulate: bool,
) -> Option<Launch> {
    if !suits(problem, m.dtype) {
        return None;
    }
    let [y, x] = [Axis::input_gradient(problem, 0), Axis::input_gradient(problem, 1)];
    let ((first_h, rows), (first_w, all_columns)) = (y.cells(), x.cells());
    let column_blocks = ceil(all_columns, THREADS);
    let columns = ceil(all_columns, column_blocks);
    let all_groups = ceil(rows, CELLS);
    let row_groups = (THREADS / columns).min(all_groups);
    let strips = ceil(all_groups, row_groups);
    let (left, pitch) = x.words();
    let lines = row_groups * CELLS + y.taps - 1;
    let weights = y.taps * x.taps * CHANNELS * CLASSES * CLASSES;
    // A channel of dy and its weights.
    let channel = lines.checked_mul(pitch)?.checked_add(weights)?.checked_mul(4)?;
    let reduced = i64::from(problem.c_out_per_group());
    let staged = (GOOD_SHARED / channel).clamp(1, reduced);
    let shared_bytes = staged.checked_mul(channel).filter(|&bytes| bytes <= MAX_SHARED)?;
    let channels = i64::from(problem.c_in_per_group());
    let channel_blocks = ceil(channels, CHANNELS);
    let class_blocks = [ceil(y.classes, CLASSES), ceil(x.classes, CLASSES)];
    let groups = i64::from(problem.g);
    let parts = channel_blocks * class_blocks[0] * class_blocks[1] * column_blocks * strips;
    let tiles = parts.checked_mul(groups)?.checked_mul(i64::from(problem.b))?;
    if tiles >= 1 << 31 {
        return None;
    }
    let mut words = Structure::new();
    Planes { plane: y.source * x.source, extents: [y.source, x.source], words: [left, pitch], lines }
        .describe(&mut words, m.dtype);
    words.word(channels).word(reduced).word(staged).word(y.out).word(x.out).word(first_h).word(first_w);
    words.word(y.shift).word(x.shift).word(row_groups).word(tiles).word(i64::from(accumulate));
    words.word(all_columns).divisor(columns).divisor(column_blocks).divisor(strips);
    words.divisor(channel_blocks).divisor(class_blocks[0]).divisor(class_blocks[1]);
    words.divisor(groups).divisor(weights).divisor(x.taps);
    let mut params = Params::new();
    params.pointers(&touched.map(|touched| touched.address));
    params.structure(&words);
    let [kh, kw] = problem.kernel;
    let constants = [y.taps, x.taps, y.classes, x.classes].map(|constant| constant as i32);
    let [taps_h, taps_w, stride_h, stride_w] = constants;
    let constants = [taps_h, taps_w, stride_h, stride_w, kh, kw, channels.min(CHANNELS) as i32];
    let geometry = Geometry {
        grid_x: tiles as u32,
        block_x: (ceil(row_groups * columns, 32) * 32) as u32,
        shared_bytes: shared_bytes as u32,
    };
    Launch::variant("conv2d_few_dx", m.dtype, &constants, params, &touched, geometry)
}

/// Columns of a filter, output channels of a thread and of a block, and rows of taps of a block of wgrad.
const MAX_TAPS: i64 = 7;
const ROWS: i64 = 8;
const BLOCK_ROWS: i64 = 64;
const BLOCK_TAP_ROWS: i64 = 24;

/// Shared memory with which two blocks of wgrad share a multiprocessor.
const MAX_GRADIENT_SHARED: i64 = 96 << 10;

/// The most bytes of partial sums that wgrad asks for.
const MAX_PARTIAL: i64 = 48 << 20;

/// Words that a row of dy's tile has more than a multiple of the banks, so that eight rows lie in different ones.
const BANKS: i64 = 32;
const SHIFT: i64 = 4;

/// How wgrad runs.
pub(super) struct Gradient {
    axes: [Axis; 2],
    /// Words in front of x's column 0 and of its row, and words of dy's row.
    words: (i64, i64),
    dy_pitch: i64,
    /// Rows of taps, of a block, and blocks along them and along the output channels.
    tap_rows: i64,
    block_tap_rows: i64,
    tap_blocks: i64,
    row_blocks: i64,
    /// Rows of dy, of a run, and runs.
    tiles: i64,
    run: i64,
    runs: i64,
    shared_bytes: i64,
}

impl Gradient {
    /// Nothing where the kernel does not serve.
    pub(super) fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        let (rows, channels) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        let [kh, kw] = problem.kernel.map(i64::from);
        // A thread has a row of taps: with fewer, its numbers serve too little.
        let worth = kw >= 3 && kw <= MAX_TAPS && rows >= 16;
        if !worth || volumes.x == 0 || !suits(problem, m.dtype) {
            return None;
        }
        let axes @ [y, x] = [Axis::forward(problem, 0), Axis::forward(problem, 1)];
        let tap_rows = channels * kh;
        let tap_blocks = ceil(tap_rows, BLOCK_TAP_ROWS);
        let block_tap_rows = ceil(tap_rows, tap_blocks);
        let row_blocks = ceil(rows, BLOCK_ROWS);
        let words = x.words();
        let dy_pitch = ceil((x.out - SHIFT).max(0), BANKS) * BANKS + SHIFT;
        let shared_bytes = 4 * (tap_rows * words.1 + rows.min(BLOCK_ROWS) * dy_pitch);
        let tiles = i64::from(problem.b) * y.out;
        let others = tap_blocks * row_blocks * i64::from(problem.g);
        // Two blocks share a multiprocessor.
        let wanted = (2 * i64::from(m.target.multiprocessors) / others).max(1);
        let run = ceil(tiles, wanted.min((MAX_PARTIAL / (4 * volumes.w)).max(1)));
        let runs = ceil(tiles, run);
        let gradient = Self {
            axes,
            words,
            dy_pitch,
            tap_rows,
            block_tap_rows,
            tap_blocks,
            row_blocks,
            tiles,
            run,
            runs,
            shared_bytes,
        };
        let fits = shared_bytes <= MAX_GRADIENT_SHARED && others.checked_mul(runs)? < 1 << 31;
        fits.then_some(gradient)
    }

    /// Runs, whose partial sums are added.
    pub(super) fn runs(&self) -> i64 {
        self.runs
    }

    /// The launch that leaves the partial sums in `partial`. `touched` are dy and x.
    pub(super) fn launch(
        &self,
        problem: &Problem,
        m: Machine<'_>,
        [dy, x]: [Touched; 2],
        partial: Touched,
    ) -> Option<Launch> {
        let [y_axis, x_axis] = self.axes;
        let (image, result) = ([y_axis.source, x_axis.source], [y_axis.out, x_axis.out]);
        let groups = i64::from(problem.g);
        let blocks = self.runs * groups * self.row_blocks * self.tap_blocks;
        let mut words = Structure::new();
        let (plane, tile_words) = (image[0] * image[1], [self.words.0, self.words.1]);
        Planes { plane, extents: image, words: tile_words, lines: y_axis.taps }.describe(&mut words, m.dtype);
        let plane = result[0] * result[1];
        Planes { plane, extents: result, words: [0, self.dy_pitch], lines: 1 }.describe(&mut words, m.dtype);
        words.word(i64::from(problem.c_in_per_group())).word(i64::from(problem.c_out_per_group()));
        words.word(self.tap_rows).word(y_axis.start).word(x_axis.start).word(y_axis.step);
        words.word(self.tiles).word(self.run).word(blocks).word(self.block_tap_rows);
        words.divisor(y_axis.out).divisor(self.tap_blocks).divisor(self.row_blocks).divisor(groups);
        let mut params = Params::new();
        params.pointers(&[dy.address, x.address, partial.address]);
        params.structure(&words);
        let geometry = Geometry {
            grid_x: u32::try_from(blocks).ok()?,
            block_x: (ceil(ROWS * self.block_tap_rows, 32) * 32) as u32,
            shared_bytes: self.shared_bytes as u32,
        };
        let constants = [x_axis.taps as i32, x_axis.step as i32];
        Launch::variant("conv2d_few_dw", m.dtype, &constants, params, &[dy, x, partial], geometry)
    }
}
