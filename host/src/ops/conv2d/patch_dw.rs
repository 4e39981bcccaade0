//! The launches of wgrad from patches: what `device/src/conv2d_patch_dw.rs` computes, described in its words.

use super::patch_tile::{BN, Classes, MAX_TAPS, Tile, boundary, effort, even, small};
use super::plan::{Problem, Volumes};
use super::tiled::{Axis, Machine, ceil, forward_axis};
use crate::launch::{Geometry, Launch, Params, Structure, Touched};

/// The most taps that a block takes.
const MAX_BLOCK_TAPS: i64 = 9;

/// Channels that a warp of wgrad takes on either side.
const WARP: i64 = 64;

/// Warps of a wgrad block that multiply, and all of them.
const MAX_CONSUMERS: i64 = 9;
const WARPS: i64 = 12;

/// Pixels that cost as much as the barriers of a round of wgrad, about.
const ROUND_PIXELS: i64 = 48;

/// The most bytes of partial sums that wgrad asks for.
const MAX_PARTIAL: i64 = 48 << 20;

/// How wgrad runs.
pub(super) struct Gradient {
    tile: Tile,
    axes: [Axis; 2],
    /// Pixels of a tile, padded to whole steps.
    pixels: i64,
    /// Warps along the output and the input channels, and taps of a block.
    warp_rows: i64,
    warp_columns: i64,
    block_taps: i64,
    /// Blocks along the output channels, the input channels and the taps.
    row_blocks: i64,
    column_blocks: i64,
    tap_blocks: i64,
    /// Tiles of pixels, of a run, and runs.
    tiles: i64,
    run: i64,
    runs: i64,
    shared_bytes: i64,
    split: bool,
}

impl Gradient {
    /// Nothing where the kernel does not serve.
    pub(super) fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        let taps = problem.taps();
        let (rows, channels) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        let empty = volumes.y == 0 || volumes.x == 0 || volumes.w == 0;
        let split = m.split();
        // Measured: plain sums are faster where a patch is read with a stride.
        if split && problem.stride != [1, 1] {
            return None;
        }
        // Split products need room for both parts, so that a warp takes fewer output channels.
        let warp = if split { WARP / 2 } else { WARP };
        if empty || !m.multiplies() || taps > MAX_TAPS || rows < 16 || channels < 16 || !small(problem) {
            return None;
        }
        let axes = [forward_axis(problem, 0), forward_axis(problem, 1)];
        let classes = axes.map(Classes::one);
        let b = i64::from(problem.b);
        let image = i64::from(problem.c_in) * i64::from(problem.image[0]) * i64::from(problem.image[1]);
        let element = m.dtype.size() as i64;
        let depth = 32 / element;
        let tap_blocks = ceil(taps, MAX_BLOCK_TAPS);
        let block_taps = ceil(taps, tap_blocks);
        let mut warp_rows = ceil(rows, warp).min(MAX_CONSUMERS / block_taps);
        let mut warp_columns = ceil(channels, WARP).min(MAX_CONSUMERS / (block_taps * warp_rows));
        let limit = m.shared_limit();
        let cost = |tile: &Tile| {
            // Columns of dy are read together where a tile has whole numbers of them.
            let together = even(tile.x.pixels).min(even(i64::from(problem.output[1])));
            let dy = tile.y.pixels * tile.x.pixels * (effort(together) - 1);
            // A round's barriers cost about as much as some pixels.
            let pixels = ceil(tile.pixels(), depth) * depth + ROUND_PIXELS;
            pixels * taps + tile.moved() + tile.images * dy
        };
        loop {
            let (pitch_x, pitch_dy) = (warp_columns * WARP * element, warp_rows * warp * element);
            let shared = |tile: &Tile| {
                let (entries, pixels) = (tile.entries(), ceil(tile.pixels(), depth) * depth);
                // Pixels of dy may be read one by one.
                let tables = ceil(2 * pixels * 4 + (tile.entries() + tile.pixels()) * 16, 128) * 128;
                tables + 2 * ((entries + 1) * pitch_x + pixels * pitch_dy)
            };
            let found = [BN, BN / 2, BN / 4]
                .into_iter()
                .filter_map(|pixels| {
                    let fits = |tile: &Tile| shared(tile) <= limit;
                    Tile::choose(b, &classes, pixels, image, 4, cost, fits)
                })
                .min_by_key(|&(cost, _)| cost);
            if let Some((_, tile)) = found {
                let (row_blocks, column_blocks) =
                    (ceil(rows, warp_rows * warp), ceil(channels, warp_columns * WARP));
                let blocks = row_blocks * column_blocks * tap_blocks * i64::from(problem.g);
                let tiles = tile.count(b, &classes);
                // A block fills a multiprocessor.
                let wanted = (i64::from(m.target.multiprocessors) / blocks).max(1);
                let most = (MAX_PARTIAL / (4 * volumes.w)).max(1);
                let run = ceil(tiles, wanted.min(most));
                return Some(Self {
                    tile,
                    axes,
                    pixels: ceil(tile.pixels(), depth) * depth,
                    warp_rows,
                    warp_columns,
                    block_taps,
                    row_blocks,
                    column_blocks,
                    tap_blocks,
                    tiles,
                    run,
                    runs: ceil(tiles, run),
                    shared_bytes: shared(&tile),
                    split,
                });
            }
            if warp_rows == 1 && warp_columns == 1 {
                return None;
            }
            (warp_rows, warp_columns) = (ceil(warp_rows, 2), ceil(warp_columns, 2));
        }
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
        let groups = i64::from(problem.g);
        let blocks = self.row_blocks * self.column_blocks * self.tap_blocks * groups * self.runs;
        // The tile was chosen for images on a boundary; elsewhere it has fewer entries.
        let extents = [self.tile.images, self.tile.y.pixels, self.tile.x.pixels];
        let axes = self.axes.map(Classes::one);
        let tile = Tile::new(&axes, extents, boundary(m, x));
        // Pixels are entries of dy, so rows have no room for a boundary's sake.
        let pixel_axes = [pixel_axis(problem, 0), pixel_axis(problem, 1)].map(Classes::one);
        let pixel_tile = Tile::new(&pixel_axes, extents, boundary(m, dy).min(even(extents[2])));
        let mut words = Structure::new();
        tile.describe(&mut words, i64::from(problem.b), &axes, i64::from(problem.c_in));
        pixel_tile.describe(&mut words, i64::from(problem.b), &pixel_axes, i64::from(problem.c_out));
        words.divisor(self.pixels).word(i64::from(problem.c_out_per_group()));
        words.divisor(self.warp_rows).word(i64::from(problem.c_in_per_group()));
        words.divisor(self.warp_columns).word(problem.taps());
        words.divisor(self.row_blocks).word(self.block_taps);
        words.divisor(self.column_blocks).word(self.tiles);
        words.divisor(self.tap_blocks).word(self.run);
        words.divisor(groups).word(blocks).finish();
        let mut params = Params::new();
        params.pointers(&[dy.address, x.address, partial.address]);
        params.structure(&words);
        let consumers = self.warp_rows * self.warp_columns * self.block_taps;
        let warps = WARPS.min(2 * consumers + 2).max(consumers + 3);
        let geometry = Geometry {
            grid_x: u32::try_from(blocks).ok()?,
            block_x: 32 * warps as u32,
            shared_bytes: self.shared_bytes as u32,
        };
        let name = if self.split { "conv2d_patch_dw_split" } else { "conv2d_patch_dw" };
        Launch::variant(name, m.dtype, &[], params, &[dy, x, partial], geometry)
    }
}

/// One axis of dy as wgrad reads it: a pixel is where it is.
fn pixel_axis(problem: &Problem, i: usize) -> Axis {
    let pixels = i64::from(problem.output[i]);
    Axis { pixels, taps: 1, source: problem.output[i], start: 0, step: 1, ..forward_axis(problem, i) }
}
