//! The launches of wgrad for few input channels: what `device/src/conv2d_few_dw.rs` and `conv2d_few_dw_mma.rs` compute,
//! described in their words.

use super::depthwise::{Axis, Planes};
use super::few::suits;
use super::plan::{Problem, Volumes};
use super::tiled::{Machine, ceil};
use crate::launch::{Geometry, Launch, Params, Structure, Touched};

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

/// Columns of a warp on tensor cores, and warps of a block: with one product, and split.
const WARP_COLUMNS: i64 = 32;
const MAX_WARPS: i64 = 8;
const MAX_SPLIT_WARPS: i64 = 6;

/// How wgrad runs.
pub(super) enum Gradient {
    /// Without tensor cores.
    Lanes(Lanes),
    /// On tensor cores.
    Products(Products),
}

impl Gradient {
    /// Nothing where the kernels do not serve.
    pub(super) fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        let taps_w = i64::from(problem.kernel[1]);
        if problem.c_out_per_group() < 16 || taps_w < 2 || volumes.x == 0 || !suits(problem, m.dtype) {
            return None;
        }
        if m.multiplies() {
            Products::new(problem, volumes, m).map(Self::Products)
        } else {
            Lanes::new(problem, volumes, m).map(Self::Lanes)
        }
    }

    /// Runs, whose partial sums are added.
    pub(super) fn runs(&self) -> i64 {
        match self {
            Self::Lanes(lanes) => lanes.runs,
            Self::Products(products) => products.runs,
        }
    }

    /// The launch that leaves the partial sums in `partial`. `touched` are dy and x.
    pub(super) fn launch(
        &self,
        problem: &Problem,
        m: Machine<'_>,
        touched: [Touched; 2],
        partial: Touched,
    ) -> Option<Launch> {
        match self {
            Self::Lanes(lanes) => lanes.launch(problem, m, touched, partial),
            Self::Products(products) => products.launch(problem, m, touched, partial),
        }
    }
}

/// Rows of dy of a run, and runs, where a run has `others` blocks: two of all of them share a multiprocessor.
fn runs(tiles: i64, others: i64, volumes: &Volumes, m: Machine<'_>) -> (i64, i64) {
    let wanted = (2 * i64::from(m.target.multiprocessors) / others).max(1);
    let run = ceil(tiles, wanted.min((MAX_PARTIAL / (4 * volumes.w)).max(1)));
    (run, ceil(tiles, run))
}

/// wgrad without tensor cores.
pub(super) struct Lanes {
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

impl Lanes {
    fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        let (rows, channels) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        let [kh, kw] = problem.kernel.map(i64::from);
        if kw > MAX_TAPS {
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
        let (run, runs) = runs(tiles, others, volumes, m);
        let lanes = Self {
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
        let fits =
            shared_bytes <= MAX_GRADIENT_SHARED.min(m.shared_limit()) && others.checked_mul(runs)? < 1 << 31;
        fits.then_some(lanes)
    }

    /// The launch that leaves the partial sums in `partial`. `touched` are dy and x.
    fn launch(
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

/// wgrad on tensor cores.
pub(super) struct Products {
    /// Elements in front of x's column 0 and of its row, and elements of dy's row.
    left: i64,
    x_pitch: i64,
    dy_pitch: i64,
    warps: i64,
    column_blocks: i64,
    row_blocks: i64,
    /// Rows of dy, of a run, and runs.
    tiles: i64,
    run: i64,
    runs: i64,
    shared_bytes: i64,
}

impl Products {
    fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        let element = m.dtype.size() as i64;
        let lanes = 16 / element;
        let [y, x] = [Axis::forward(problem, 0), Axis::forward(problem, 1)];
        let round = |n: i64| ceil(n, lanes) * lanes;
        let left = round(-x.start);
        let x_pitch = round(left + x.source.max((x.out - 1) * x.step + x.start + x.taps));
        // An odd number of vectors, so that the rows of a fragment lie in different banks.
        let dy_pitch = (ceil(x.out, 2 * lanes) * 2 + 1) * lanes;
        let x_lines = i64::from(problem.c_in_per_group()) * y.taps;
        let x_bytes = ceil(x_lines.checked_mul(x_pitch)? * element, 128) * 128;
        let shared_bytes = x_bytes + BLOCK_ROWS * dy_pitch * element;
        let warps = ceil(x_lines * x.taps, WARP_COLUMNS);
        let column_blocks = ceil(warps, if m.split() { MAX_SPLIT_WARPS } else { MAX_WARPS });
        let row_blocks = ceil(i64::from(problem.c_out_per_group()), BLOCK_ROWS);
        let tiles = i64::from(problem.b) * y.out;
        let others = column_blocks * row_blocks * i64::from(problem.g);
        let (run, runs) = runs(tiles, others, volumes, m);
        let warps = ceil(warps, column_blocks);
        let products = Self {
            left,
            x_pitch,
            dy_pitch,
            warps,
            column_blocks,
            row_blocks,
            tiles,
            run,
            runs,
            shared_bytes,
        };
        let fits =
            shared_bytes <= MAX_GRADIENT_SHARED.min(m.shared_limit()) && others.checked_mul(runs)? < 1 << 31;
        fits.then_some(products)
    }

    fn launch(
        &self,
        problem: &Problem,
        m: Machine<'_>,
        [dy, x]: [Touched; 2],
        partial: Touched,
    ) -> Option<Launch> {
        let [y_axis, x_axis] = [Axis::forward(problem, 0), Axis::forward(problem, 1)];
        let lanes = 16 / m.dtype.size() as i64;
        let channels = i64::from(problem.c_in_per_group());
        let groups = i64::from(problem.g);
        let blocks = self.runs * groups * self.row_blocks * self.column_blocks;
        let mut words = Structure::new();
        words.word(y_axis.source).word(x_axis.source).word(x_axis.out).word(channels);
        words.word(i64::from(problem.c_out_per_group())).word(channels * problem.taps());
        words.word(y_axis.start).word(self.left + x_axis.start).word(y_axis.step).word(x_axis.step);
        words.word(self.left).word(self.tiles).word(self.run).word(blocks);
        words.divisor(self.x_pitch).divisor(self.x_pitch / lanes);
        words.divisor(self.dy_pitch).divisor(self.dy_pitch / lanes);
        words.divisor(y_axis.out).divisor(y_axis.taps).divisor(x_axis.taps);
        words.divisor(self.column_blocks).divisor(self.row_blocks).divisor(groups);
        let mut params = Params::new();
        params.pointers(&[dy.address, x.address, partial.address]);
        params.structure(&words);
        let geometry = Geometry {
            grid_x: u32::try_from(blocks).ok()?,
            block_x: (32 * self.warps) as u32,
            shared_bytes: self.shared_bytes as u32,
        };
        let name = if m.split() { "conv2d_few_dw_split" } else { "conv2d_few_dw_mma" };
        Launch::variant(name, m.dtype, &[], params, &[dy, x, partial], geometry)
    }
}
