//! The launches of 1×1 filters: what `device/src/conv2d_pointwise.rs` and `device/src/conv2d_pointwise_dw.rs` compute,
//! described in their words.

use super::blocked::{ROW, STEPS, THREADS, row_channels};
use super::patch;
use super::patch_tile::{boundary, small};
use super::plan::{Problem, Volumes};
use super::tiled::{Channels, Machine, Tensors, ceil};
use crate::element::DType;
use crate::launch::{Access, Geometry, Launch, Params, Structure, Touched};

/// Pixels of a tile.
const PIXELS: i64 = 128;

/// The least pixels of a run: shorter ones would be mostly overhead.
const MIN_RUN: i64 = 256;

/// The most bytes of partial sums.
const MAX_PARTIAL: i64 = 12 << 20;

/// Whether a filter is 1×1 and its product one of matrices, which tensor cores serve.
fn suits(problem: &Problem, m: Machine<'_>) -> bool {
    let float = matches!(m.dtype, DType::F16 | DType::Bf16 | DType::F32);
    let padded = |channels: i32| {
        let step = row_channels(m.dtype);
        channels >= 16 && ceil(i64::from(channels), step) * step <= 2 * i64::from(channels)
    };
    float
        && m.mma()
        && problem.taps() == 1
        && problem.stride == [1, 1]
        && problem.pad == [0, 0]
        && plane(problem) % (16 / m.dtype.size() as i64) == 0
        && padded(problem.c_in_per_group())
        && padded(problem.c_out_per_group())
        && small(problem)
}

/// Pixels of a channel.
fn plane(problem: &Problem) -> i64 {
    i64::from(problem.image[0]) * i64::from(problem.image[1])
}

/// Whether vectors lie on their boundary.
pub(super) fn aligned(touched: &[Touched]) -> bool {
    touched.iter().all(|touched| touched.address.is_multiple_of(16))
}

/// How forward or dgrad runs.
pub(super) struct Product {
    /// Channels of a tile.
    rows: i64,
    filter: patch::Filter,
    pixels: i64,
    plane: i64,
}

impl Product {
    /// Nothing where the kernels do not serve.
    pub(super) fn new(problem: &Problem, m: Machine<'_>, channels: &Channels) -> Option<Self> {
        let pixels = i64::from(problem.b) * plane(problem);
        if pixels == 0 || !suits(problem, m) {
            return None;
        }
        let tiles = ceil(channels.rows, 128) * ceil(pixels, PIXELS) * channels.groups;
        let few = tiles < i64::from(m.target.multiprocessors);
        let rows = if channels.rows <= 64 || few { 64 } else { 128 };
        let filter = patch::Filter::new(m, channels, 1, rows, false)?;
        Some(Self { rows, filter, pixels, plane: plane(problem) })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.filter.bytes
    }

    /// The launches that pack the filter to `workspace`, and the product's.
    pub(super) fn launches(
        &self,
        m: Machine<'_>,
        channels: &Channels,
        tensors: &Tensors<'_>,
        workspace: u64,
    ) -> Option<Vec<Launch>> {
        let [from, filter, out] = *tensors.touched;
        let pack = self.filter.pack(m, channels, 1, filter, workspace)?;
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
        Some(vec![pack, Launch::variant(name, m.dtype, &[], params, &touched, geometry)?])
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
        let pixels = i64::from(problem.b) * plane(problem);
        if pixels == 0 || volumes.w == 0 || !suits(problem, m) {
            return None;
        }
        let (out, input) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        let area = |&[rows, columns]: &[i64; 2]| ceil(out, rows) * ceil(input, columns);
        let [rows, columns] = [[128, 64], [64, 128]].into_iter().min_by_key(area)?;
        let (row_tiles, column_tiles) = (ceil(out, rows), ceil(input, columns));
        // As many blocks as a GPU holds at once.
        let blocks = row_tiles * column_tiles * i64::from(problem.g);
        let wanted = (3 * i64::from(m.target.multiprocessors) / blocks).max(1);
        let most = (MAX_PARTIAL / (4 * volumes.w)).min(pixels / MIN_RUN).max(1);
        let step = row_channels(m.dtype);
        let run = ceil(ceil(pixels, wanted.min(most)), step) * step;
        Some(Self { rows, columns, row_tiles, column_tiles, pixels, run })
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
        words.long(i64::from(problem.c_out) * plane(problem));
        words.long(i64::from(problem.c_in) * plane(problem));
        words.word(i64::from(problem.c_out_per_group())).word(i64::from(problem.c_in_per_group()));
        words.word(self.pixels).word(self.run).word(parts);
        words.divisor(self.row_tiles).divisor(self.column_tiles).divisor(groups).divisor(plane(problem));
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
