//! The launches of 1×1 filters: what `device/src/conv2d_pointwise.rs` and `device/src/conv2d_pointwise_dw.rs` compute,
//! described in their words.

use super::blocked::{STEPS, fills_planes, pixels, run_pixels};
use super::patch_tile::{boundary, small};
use super::plan::{Problem, Volumes};
use super::prepare::{Filter, Preparation, ROW, row_channels};
use super::tiled::{Channels, Machine, Tensors, ceil};
use crate::launch::{Access, Geometry, Launch, Params, Structure, Touched};

/// Threads of a block.
const THREADS: u32 = 256;

/// Pixels of a tile.
const PIXELS: i64 = 128;

/// Whether a filter is 1×1 and its product one of matrices, which tensor cores serve.
fn suits(problem: &Problem, m: Machine<'_>) -> bool {
    m.multiplies()
        && !m.split()
        && problem.taps() == 1
        && problem.stride == [1, 1]
        && problem.pad == [0, 0]
        && pixels(problem.image) % (16 / m.dtype.size() as i64) == 0
        && fills_planes(m, problem.c_in_per_group().into())
        && fills_planes(m, problem.c_out_per_group().into())
        && small(problem)
}

/// Whether vectors lie on their boundary.
pub(super) fn aligned(touched: &[Touched]) -> bool {
    touched.iter().all(|touched| touched.address.is_multiple_of(16))
}

/// How forward or dgrad runs.
pub(super) struct Product {
    /// Channels of a tile.
    rows: i64,
    filter: Filter,
    pixels: i64,
    plane: i64,
}

impl Product {
    /// Nothing where the kernels do not serve.
    pub(super) fn new(problem: &Problem, m: Machine<'_>, channels: &Channels) -> Option<Self> {
        let batch_pixels = i64::from(problem.b) * pixels(problem.image);
        if batch_pixels == 0 || !suits(problem, m) {
            return None;
        }
        let tiles = ceil(channels.rows, 128) * ceil(batch_pixels, PIXELS) * channels.groups;
        let few = tiles < i64::from(m.target.multiprocessors);
        let rows = if channels.rows <= 64 || few { 64 } else { 128 };
        let filter = Filter::new(m, channels, 1, rows)?;
        Some(Self { rows, filter, pixels: batch_pixels, plane: pixels(problem.image) })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.filter.bytes
    }

    /// The product's launch, for which the filter is prepared in `workspace`.
    pub(super) fn launch(
        &self,
        m: Machine<'_>,
        channels: &Channels,
        tensors: &Tensors<'_>,
        workspace: u64,
        preparation: &mut Preparation,
    ) -> Option<Launch> {
        let [from, filter, out] = *tensors.touched;
        preparation.filter(self.filter.pack(m, channels, 1, filter, workspace));
        let together = boundary(m, out) == 4 && !tensors.accumulate;
        let (row_tiles, pixel_tiles) = (ceil(channels.rows, self.rows), ceil(self.pixels, PIXELS));
        let tiles = row_tiles * pixel_tiles * channels.groups;
        let mut words = Structure::new();
        words.long(channels.groups * channels.reduced * self.plane);
        words.long(channels.groups * channels.rows * self.plane);
        words.word(i64::from(tensors.accumulate)).word(i64::from(together));
        words.word(channels.rows).word(self.filter.padded_rows).word(channels.reduced);
        words.word(ceil(channels.reduced, row_channels(m.dtype))).word(self.pixels).word(tiles);
        words.divisor(row_tiles).divisor(pixel_tiles).divisor(self.plane).finish();
        let mut params = Params::new();
        params.pointers(&[from.address, workspace, out.address]);
        params.structure(&words);
        let touched = [from, self.filter.touched(workspace, Access::Read), out];
        let geometry = Geometry {
            grid_x: u32::try_from(tiles).ok()?,
            block_x: THREADS,
            shared_bytes: (STEPS * (self.rows + PIXELS) * ROW) as u32,
        };
        let name = if self.rows == 64 { "conv2d_pointwise_64" } else { "conv2d_pointwise_128" };
        Launch::variant(name, m.dtype, &[], params, &touched, geometry)
    }
}

/// How wgrad runs.
pub(super) struct Gradient {
    /// Output and input channels of a tile.
    rows: i64,
    columns: i64,
    row_tiles: i64,
    column_tiles: i64,
    pixels: i64,
    /// Pixels of a run.
    run: i64,
}

impl Gradient {
    /// Nothing where the kernels do not serve.
    pub(super) fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        let batch_pixels = i64::from(problem.b) * pixels(problem.image);
        if batch_pixels == 0 || volumes.w == 0 || !suits(problem, m) {
            return None;
        }
        let (out, input) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        let area = |&[rows, columns]: &[i64; 2]| ceil(out, rows) * ceil(input, columns);
        let [rows, columns] = [[128, 64], [64, 128]].into_iter().min_by_key(area)?;
        let (row_tiles, column_tiles) = (ceil(out, rows), ceil(input, columns));
        // As many blocks as a GPU holds at once.
        let blocks = row_tiles * column_tiles * i64::from(problem.g);
        let run = run_pixels(m, batch_pixels, blocks, 3, 4 * volumes.w);
        Some(Self { rows, columns, row_tiles, column_tiles, pixels: batch_pixels, run })
    }

    /// Runs, whose partial sums are added.
    pub(super) fn runs(&self) -> i64 {
        ceil(self.pixels, self.run)
    }

    /// The launch that leaves the partial sums in `partial`. `touched` are dy and x.
    pub(super) fn launch(
        &self,
        problem: &Problem,
        m: Machine<'_>,
        [dy, x]: [Touched; 2],
        partial: Touched,
    ) -> Option<Launch> {
        let groups = i64::from(problem.g);
        let parts = self.row_tiles * self.column_tiles * groups * self.runs();
        let mut words = Structure::new();
        words.long(i64::from(problem.c_out) * pixels(problem.image));
        words.long(i64::from(problem.c_in) * pixels(problem.image));
        words.word(i64::from(problem.c_out_per_group())).word(i64::from(problem.c_in_per_group()));
        words.word(self.pixels).word(self.run).word(parts);
        words
            .divisor(self.row_tiles)
            .divisor(self.column_tiles)
            .divisor(groups)
            .divisor(pixels(problem.image));
        words.finish();
        let mut params = Params::new();
        params.pointers(&[dy.address, x.address, partial.address]);
        params.structure(&words);
        let geometry = Geometry {
            grid_x: u32::try_from(parts).ok()?,
            block_x: THREADS,
            shared_bytes: (STEPS * (self.rows + self.columns) * ROW) as u32,
        };
        let name = if self.rows == 64 { "conv2d_pointwise_dw_64x128" } else { "conv2d_pointwise_dw_128x64" };
        Launch::variant(name, m.dtype, &[], params, &[dy, x, partial], geometry)
    }
}
