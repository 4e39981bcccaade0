//! The patch kernels' launches: what `device/src/conv2d_patch.rs` and `conv2d_patch_dw.rs` compute, in their words.

use super::plan::{Problem, Volumes};
use super::tiled::{Axis, Channels, Machine, Tensors, ceil, forward_axis};
use crate::element::DType;
use crate::launch::{Access, Geometry, Launch, Params, Structure, Touched};

/// Taps that the kernels can have, and the most that a block of wgrad takes.
const MAX_TAPS: i64 = 64;
const MAX_BLOCK_TAPS: i64 = 9;

/// Pixels of a tile.
const BN: i64 = 128;

/// Bytes of a chunk of channels, and from one row of the filter to the next in shared memory.
const CHUNK: i64 = 64;
const PITCH: i64 = CHUNK + 16;

/// Bytes of the tables of taps and pixels.
const TABLES: i64 = MAX_TAPS * 8 + BN * 8;

/// Channels that a warp of wgrad takes on either side.
const WARP: i64 = 64;

/// Warps of a wgrad block that multiply, and all of them.
const MAX_CONSUMERS: i64 = 9;
const WARPS: i64 = 12;

/// The most bytes of partial sums that wgrad asks for.
const MAX_PARTIAL: i64 = 48 << 20;

/// Threads of a block that sweeps elements.
const SWEEP: i64 = 256;

/// One axis of a tile: how its pixels meet the image.
#[derive(Clone, Copy)]
struct Span {
    /// Pixels.
    pixels: i64,
    /// Entries, before they are parted into phases.
    entries: i64,
    /// Image positions between entries, and entries between pixels.
    grid: i64,
    step: i64,
    /// The image position of the first entry, and between tiles.
    start: i64,
    between: i64,
    /// Entries between taps, and of the first tap.
    tap: i64,
    tap_start: i64,
}

impl Span {
    fn new(axis: &Axis, pixels: i64) -> Self {
        let reach = axis.taps - 1;
        // Between the pixels of a single tap lies nothing that is read.
        let (grid, step) = if reach == 0 { (axis.step, 1) } else { (1, axis.step) };
        let back = if axis.tap < 0 { reach } else { 0 };
        Self {
            pixels,
            entries: (pixels - 1) * step + reach + 1,
            grid,
            step,
            start: axis.start - back,
            between: pixels * axis.step,
            tap: axis.tap,
            tap_start: back,
        }
    }
}

/// A tile of pixels.
#[derive(Clone, Copy)]
struct Tile {
    images: i64,
    y: Span,
    x: Span,
}

impl Tile {
    fn pixels(&self) -> i64 {
        self.images * self.y.pixels * self.x.pixels
    }

    /// Entries of a phase of a row.
    fn phase_columns(&self) -> i64 {
        ceil(self.x.entries, self.x.step)
    }

    fn entries(&self) -> i64 {
        self.images * self.y.entries * self.x.step * self.phase_columns()
    }

    /// What it costs to move a tile's entries and pixels, in pixels multiplied with one tap. Memory gives out 32 bytes
    /// at least, so that short rows cost as much as these.
    fn moved(&self) -> i64 {
        const SHORTEST: i64 = 16;
        let row = (self.x.step * self.phase_columns()).max(SHORTEST);
        self.images * (self.y.entries * row + self.y.pixels * self.x.pixels.max(SHORTEST))
    }

    fn count(&self, b: i64, [y, x]: &[Axis; 2]) -> i64 {
        ceil(b, self.images) * ceil(y.pixels, self.y.pixels) * ceil(x.pixels, self.x.pixels)
    }

    /// The tile of at most `limit` pixels that costs least of those that fit.
    fn choose(
        b: i64,
        axes: &[Axis; 2],
        limit: i64,
        image: i64,
        fits: impl Fn(&Self) -> bool,
    ) -> Option<Self> {
        let [y, x] = axes;
        let mut best: Option<(i64, Self)> = None;
        // Powers of two, and few equal parts of the axis.
        let parts = |extent: i64, limit: i64| {
            let least = ceil(extent, limit);
            (least..least + 4).map(move |parts| ceil(extent, parts))
        };
        let widths = parts(x.pixels, limit).chain((0..8).rev().map(|power| 1 << power));
        for width in widths.filter(|&width| width <= limit && width < 2 * x.pixels) {
            for height in parts(y.pixels, limit / width).take(2) {
                let images = (limit / (width * height)).min(b).min(254);
                for images in [1, images] {
                    let tile = Self { images, y: Span::new(y, height), x: Span::new(x, width) };
                    let near = tile.entries() < 4096 && images * image < (1 << 31) - (1 << 24);
                    if !near || !fits(&tile) {
                        continue;
                    }
                    let cost = tile.count(b, axes) * (limit * y.taps * x.taps + tile.moved());
                    if best.is_none_or(|(least, _)| cost < least) {
                        best = Some((cost, tile));
                    }
                }
            }
        }
        best.map(|(_, tile)| tile)
    }

    /// The device's `Patch`.
    fn describe(&self, b: i64, axes: &[Axis; 2], channels: i64) -> Structure {
        let [y, x] = axes;
        let plane = i64::from(y.source) * i64::from(x.source);
        let row = self.x.step * self.phase_columns();
        let mut words = Structure::new();
        words.long(channels * plane).word(plane).word(i64::from(y.source)).word(i64::from(x.source));
        words.word(self.y.start).word(self.x.start).word(self.y.between).word(self.x.between);
        // Columns of a phase lie a stride apart.
        words.word(self.y.grid).word(self.x.grid * self.x.step).word(self.y.step);
        words.word(b).word(y.pixels).word(x.pixels).word(self.images);
        words.word(self.y.tap).word(self.x.tap).word(self.y.tap_start).word(self.x.tap_start);
        words.divisor(x.taps).divisor(self.entries()).divisor(row).divisor(self.y.entries);
        words.divisor(self.phase_columns()).divisor(self.x.step);
        words.divisor(self.x.pixels).divisor(self.y.pixels);
        words.divisor(ceil(x.pixels, self.x.pixels)).divisor(ceil(y.pixels, self.y.pixels));
        words.align(8);
        words
    }
}

/// Whether 32-bit offsets inside a batch item and a packed filter suffice.
fn small(problem: &Problem) -> bool {
    let [oh, ow] = problem.output.map(i64::from);
    let [h, w] = problem.image.map(i64::from);
    let below = |factors: &[i64]| {
        factors.iter().try_fold(1_i64, |n, &f| n.checked_mul(f)).is_some_and(|n| n < (1 << 31) - (1 << 24))
    };
    let [b, c_in, c_out] = [problem.b, problem.c_in, problem.c_out].map(i64::from);
    below(&[b, h, w]) && below(&[b, oh, ow]) && below(&[c_in, h, w]) && below(&[c_out, oh, ow])
}

/// How forward or dgrad runs: over which filter, and in tiles of how many channels.
pub(super) struct Product {
    rows: i64,
    padded_rows: i64,
    chunks: i64,
    split: bool,
    pub(super) bytes: u64,
}

impl Product {
    /// Nothing where the kernels do not serve, or padding would cost more than they spare.
    pub(super) fn new(problem: &Problem, m: Machine<'_>, channels: &Channels, pixels: i64) -> Option<Self> {
        let float = matches!(m.dtype, DType::F16 | DType::Bf16 | DType::F32);
        let taps = problem.taps();
        if !float || m.target.capability < (8, 0) || taps > MAX_TAPS || !small(problem) {
            return None;
        }
        let split = m.dtype == DType::F32 && !m.mma();
        let chunk_channels = CHUNK / m.dtype.size() as i64;
        let chunks = ceil(channels.reduced, chunk_channels);
        let worth =
            channels.rows >= 16 && channels.reduced > 0 && chunks * chunk_channels <= 2 * channels.reduced;
        // Larger tiles where they waste no rows and still give every multiprocessor work.
        let blocks = channels.groups * ceil(pixels, BN) * ceil(channels.rows, 128);
        let large = !split
            && ceil(channels.rows, 128) * 2 == ceil(channels.rows, 64)
            && blocks >= 2 * i64::from(m.target.multiprocessors);
        let rows = if large { 128 } else { 64 };
        let padded_rows = ceil(channels.rows, rows) * rows;
        let lines = channels.groups.checked_mul(chunks)?.checked_mul(taps)?.checked_mul(padded_rows)?;
        let fits = worth && lines < 1 << 24;
        fits.then_some(Self { rows, padded_rows, chunks, split, bytes: (lines * CHUNK) as u64 })
    }

    fn touched(&self, workspace: u64, access: Access) -> Touched {
        Touched { name: "workspace", address: workspace, bytes: self.bytes, access }
    }

    /// The launch that packs the filter to `workspace`.
    pub(super) fn pack(
        &self,
        m: Machine<'_>,
        channels: &Channels,
        taps: i64,
        filter: Touched,
        workspace: u64,
    ) -> Option<Launch> {
        let len = self.bytes as i64 / m.dtype.size() as i64;
        let mut words = Structure::new();
        words.long(channels.filter_group).word(channels.filter_row).word(channels.filter_channel);
        words.word(channels.rows).word(channels.reduced).word(len);
        words.word(i64::from(m.dtype == DType::F32 && !self.split));
        words.divisor(self.padded_rows).divisor(taps).divisor(self.chunks).align(8);
        let mut params = Params::new();
        params.pointers(&[filter.address, workspace]);
        params.structure(&words);
        let touched = [filter, self.touched(workspace, Access::Write)];
        let geometry = Geometry::tiles(ceil(len, SWEEP) as u64, SWEEP as u64);
        Launch::variant("conv2d_pack_chunks", m.dtype, &[SWEEP as i32], params, &touched, geometry)
    }

    /// The tile of one residue class.
    fn tile(&self, b: i64, axes: &[Axis; 2], image: i64) -> Option<Tile> {
        Tile::choose(b, axes, BN, image, |tile| self.shared_bytes(tile) <= 96 << 10)
    }

    fn shared_bytes(&self, tile: &Tile) -> i64 {
        let entries = tile.entries();
        let front = TABLES + ceil(entries * 4, 16) * 16 + 3 * self.rows * PITCH;
        ceil(front, 128) * 128 + 2 * entries * CHUNK
    }

    /// The launch of one residue class; `Ok` without one when its result is empty, `Err` when it has no tile.
    pub(super) fn launch(
        &self,
        m: Machine<'_>,
        b: i32,
        axes: [Axis; 2],
        channels: &Channels,
        taps: i64,
        tensors: &Tensors<'_>,
        workspace: u64,
    ) -> Result<Option<Launch>, NoTile> {
        let [y, x] = axes;
        let b = i64::from(b);
        if b * y.pixels * x.pixels == 0 || channels.rows == 0 {
            return Ok(None);
        }
        // Without a tap nothing is summed, and the result is zero: any tap's geometry serves for no chunks.
        let empty = y.taps * x.taps == 0;
        let axes = if empty { axes.map(|axis| Axis { taps: 1, tap: 1, ..axis }) } else { axes };
        let [y, x] = axes;
        let plane = i64::from(y.source) * i64::from(x.source);
        let image = channels.groups * channels.reduced * plane;
        let tile = self.tile(b, &axes, image).ok_or(NoTile)?;
        let row_tiles = ceil(channels.rows, self.rows);
        let pixel_tiles = tile.count(b, &axes);
        let tiles = row_tiles * pixel_tiles * channels.groups;
        let mut words = tile.describe(b, &axes, channels.groups * channels.reduced);
        let [_, out_w] = tensors.out;
        let out_plane = tensors.out[0] * out_w;
        words.long(channels.groups * channels.rows * out_plane).word(out_plane);
        words.word(y.out_start * out_w + x.out_start).word(y.out_step * out_w).word(x.out_step);
        words.word(i64::from(tensors.accumulate)).word(y.taps * x.taps);
        let width = channels.filter_width;
        words.word(y.filter_start * width + x.filter_start).word(y.filter_step * width).word(x.filter_step);
        words.word(taps).word(channels.rows).word(self.padded_rows).word(channels.reduced);
        words
            .word(if empty { 0 } else { self.chunks })
            .word(tiles)
            .divisor(row_tiles)
            .divisor(pixel_tiles)
            .align(8);
        let [from, _, out] = tensors.touched.map(|touched| touched.address);
        let mut params = Params::new();
        params.pointers(&[from, workspace, out]);
        params.structure(&words);
        let mut touched = *tensors.touched;
        touched[1] = self.touched(workspace, Access::Read);
        let name = match (self.split, self.rows) {
            (true, _) => "conv2d_patch_split_64",
            (false, 64) => "conv2d_patch_64",
            (false, _) => "conv2d_patch_128",
        };
        let geometry = Geometry {
            grid_x: u32::try_from(tiles).map_err(|_| NoTile)?,
            block_x: 2 * self.rows as u32,
            shared_bytes: self.shared_bytes(&tile) as u32,
        };
        Launch::variant(name, m.dtype, &[], params, &touched, geometry).map(Some).ok_or(NoTile)
    }
}

/// No tile of pixels suits a product.
pub(super) struct NoTile;

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
    volume: i64,
}

impl Gradient {
    /// Nothing where the kernel does not serve.
    pub(super) fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        let taps = problem.taps();
        let (rows, channels) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        let empty = volumes.y == 0 || volumes.x == 0 || volumes.w == 0;
        if empty || !m.mma() || taps > MAX_TAPS || rows < 16 || channels < 16 || !small(problem) {
            return None;
        }
        let axes = [forward_axis(problem, 0), forward_axis(problem, 1)];
        let b = i64::from(problem.b);
        let image = i64::from(problem.c_in) * i64::from(problem.image[0]) * i64::from(problem.image[1]);
        let element = m.dtype.size() as i64;
        let depth = 32 / element;
        let tap_blocks = ceil(taps, MAX_BLOCK_TAPS);
        let block_taps = ceil(taps, tap_blocks);
        let mut warp_rows = ceil(rows, WARP).min(MAX_CONSUMERS / block_taps);
        let mut warp_columns = ceil(channels, WARP).min(MAX_CONSUMERS / (block_taps * warp_rows));
        let limit = shared_limit(m.target.capability);
        loop {
            let pad = if element == 2 { 16 } else { 32 };
            let (pitch_x, pitch_dy) = (warp_columns * WARP * element + pad, warp_rows * WARP * element + pad);
            let shared = |tile: &Tile| {
                let (entries, pixels) = (tile.entries(), ceil(tile.pixels(), depth) * depth);
                let tables = ceil((entries + 2 * pixels) * 8, 16) * 16;
                tables + 2 * ((entries + 1) * pitch_x + pixels * pitch_dy)
            };
            let packs =
                |tile: &Tile| tile.y.entries * tile.y.grid < 4096 && tile.x.entries * tile.x.grid < 4096;
            let found = [BN, BN / 2, BN / 4].into_iter().find_map(|pixels| {
                Tile::choose(b, &axes, pixels, image, |tile| packs(tile) && shared(tile) <= limit)
            });
            if let Some(tile) = found {
                let (row_blocks, column_blocks) =
                    (ceil(rows, warp_rows * WARP), ceil(channels, warp_columns * WARP));
                let blocks = row_blocks * column_blocks * tap_blocks * i64::from(problem.g);
                let tiles = tile.count(b, &axes);
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
                    volume: volumes.w,
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
        let [oh, ow] = problem.output.map(i64::from);
        let blocks = self.row_blocks * self.column_blocks * self.tap_blocks * groups * self.runs;
        let mut words = self.tile.describe(i64::from(problem.b), &self.axes, i64::from(problem.c_in));
        words.long(i64::from(problem.c_out) * oh * ow).word(oh * ow).word(ow);
        words.divisor(self.pixels).word(i64::from(problem.c_out_per_group()));
        words.divisor(self.warp_rows).word(i64::from(problem.c_in_per_group()));
        words.divisor(self.warp_columns).word(problem.taps());
        words.divisor(self.row_blocks).word(self.block_taps);
        words.divisor(self.column_blocks).word(self.tiles);
        words.divisor(self.tap_blocks).word(self.run);
        words.divisor(groups).word(blocks).align(8);
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
        debug_assert_eq!(
            self.volume,
            partial.bytes as i64 / 4 / self.runs,
            "the partial sums have their room"
        );
        Launch::variant("conv2d_patch_dw", m.dtype, &[], params, &[dy, x, partial], geometry)
    }
}

/// Shared memory that a block can ask for, by compute capability (CUDA C++ Programming Guide, "Compute Capabilities").
fn shared_limit(capability: (u32, u32)) -> i64 {
    (match capability {
        (8, 0 | 7) => 163,
        (9 | 10, _) => 227,
        _ => 99,
    }) << 10
}
