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

/// Channels of a block's tile, and its threads.
const ROWS: i64 = 64;
const THREADS: u32 = 256;
const SPLIT_THREADS: u32 = 384;

/// Bytes of a chunk of channels.
const CHUNK: i64 = 64;

/// Classes of tiles of a launch.
pub(super) const CLASSES: usize = 4;

/// Bytes of the tables of taps and of classes.
const TABLE: i64 = MAX_TAPS * 8 + CLASSES as i64 * 32;

/// Taps of chunks that are brought to shared memory together.
const ROUND: i64 = 9;

/// The most shared memory of a block, so that a large multiprocessor has room for two.
const SHARED: i64 = 112 << 10;

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
    /// Image positions between tiles.
    between: i64,
    /// Entries between taps.
    tap: i64,
    /// Whether it begins and ends on multiples of four.
    wide: bool,
}

impl Span {
    /// That of an axis' classes, as wide as the widest of them.
    fn new(axis: &Classes, pixels: i64, wide: bool) -> Self {
        let Axis { step, tap, .. } = axis.all;
        let reach = axis.all.taps - 1;
        // Between the pixels of a single tap lies nothing that is read.
        let (grid, entry_step) = if reach == 0 { (step, 1) } else { (1, step) };
        let span = Self { pixels, entries: 0, grid, step: entry_step, between: pixels * step, tap, wide };
        let entries = axis.each.iter().flatten().map(|class| {
            let (_, tap_start) = span.starts(class);
            // Taps that go back start at the last entry.
            let reach = if tap < 0 { tap_start } else { tap_start + class.taps - 1 };
            let entries = (pixels - 1) * entry_step + reach + 1;
            if wide { ceil(entries, 4) * 4 } else { entries }
        });
        Self { entries: entries.max().unwrap_or(1), ..span }
    }

    /// The image position of the first tile's first entry, and the entry of the first tap's first pixel.
    fn starts(&self, class: &Axis) -> (i64, i64) {
        let back = if class.tap < 0 { class.taps - 1 } else { 0 };
        let start = class.start - back;
        let lead = if self.wide { start.rem_euclid(4) } else { 0 };
        (start - lead, back + lead)
    }
}

/// One axis of several classes of tiles that share their shape.
#[derive(Clone, Copy)]
struct Classes {
    /// What holds them all: the most pixels and taps.
    all: Axis,
    each: [Option<Axis>; CLASSES],
}

impl Classes {
    /// Those of `axes`, of which there is one at least.
    fn new(axes: impl Iterator<Item = Axis>) -> Option<Self> {
        let mut each = [None; CLASSES];
        let mut all: Option<Axis> = None;
        for (place, axis) in each.iter_mut().zip(axes) {
            *place = Some(axis);
            let most = all.get_or_insert(axis);
            most.pixels = most.pixels.max(axis.pixels);
            most.taps = most.taps.max(axis.taps);
        }
        Some(Self { all: all?, each })
    }

    fn one(axis: Axis) -> Self {
        let mut each = [None; CLASSES];
        each[0] = Some(axis);
        Self { all: axis, each }
    }
}

/// A tile of pixels.
#[derive(Clone, Copy)]
struct Tile {
    images: i64,
    y: Span,
    x: Span,
    /// Whether columns are read four at a time.
    wide: bool,
}

impl Tile {
    fn new([y, x]: &[Classes; 2], [images, height, width]: [i64; 3], wide: bool) -> Self {
        // Every tile must begin on a boundary, and so must what a phase of the stride leaves.
        let even = |span: &Span| {
            let single = span.pixels >= x.all.pixels;
            span.grid == 1 && matches!(span.step, 1 | 2 | 4) && (single || span.between % 4 == 0)
        };
        let narrow = Span::new(x, width, false);
        let wide = wide && x.all.source % 4 == 0 && even(&narrow);
        let x = if wide { Span::new(x, width, true) } else { narrow };
        Self { images, y: Span::new(y, height, false), x, wide }
    }

    fn pixels(&self) -> i64 {
        self.images * self.y.pixels * self.x.pixels
    }

    /// Entries of a phase of a row.
    fn phase_columns(&self) -> i64 {
        ceil(self.x.entries, self.x.step)
    }

    /// Reads that bring a row's entries, and the whole tile's.
    fn row_reads(&self) -> i64 {
        self.columns() / if self.wide { 4 } else { 1 }
    }

    fn reads(&self) -> i64 {
        self.images * self.y.entries * self.row_reads()
    }

    /// Entries of a row.
    fn columns(&self) -> i64 {
        self.x.step * self.phase_columns()
    }

    fn entries(&self) -> i64 {
        self.images * self.y.entries * self.columns()
    }

    /// What it costs to move a tile's entries and pixels, in pixels multiplied with one tap. Memory gives out 32 bytes
    /// at least, so that short rows cost as much as these.
    fn moved(&self) -> i64 {
        const SHORTEST: i64 = 16;
        let row = self.columns().max(SHORTEST);
        // One column at a time takes as many instructions as four.
        let read = if self.wide { row } else { 3 * row };
        self.images * (self.y.entries * read + self.y.pixels * self.x.pixels.max(SHORTEST))
    }

    fn count(&self, b: i64, [y, x]: &[Classes; 2]) -> i64 {
        ceil(b, self.images) * ceil(y.all.pixels, self.y.pixels) * ceil(x.all.pixels, self.x.pixels)
    }

    /// The tile of at most `limit` pixels that costs least of those that fit. `wide` says whether the image lies on a
    /// boundary of four elements.
    fn choose(
        b: i64,
        axes: &[Classes; 2],
        limit: i64,
        image: i64,
        wide: bool,
        fits: impl Fn(&Self) -> bool,
    ) -> Option<Self> {
        let [y, x] = [&axes[0].all, &axes[1].all];
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
                    let tile = Self::new(axes, [images, height, width], wide);
                    // A read's place takes twelve bits an axis.
                    let packs = tile.y.entries * tile.y.grid < 4096 && tile.x.entries * tile.x.grid < 4096;
                    let near = packs && tile.entries() < 4096 && images * image < (1 << 31) - (1 << 24);
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

    /// The device's `Patch`, with the first class' starts.
    fn describe(&self, words: &mut Structure, b: i64, axes: &[Classes; 2], channels: i64) {
        let [y, x] = [&axes[0].all, &axes[1].all];
        let (start_y, tap_y) = self.y.starts(y);
        let (start_x, tap_x) = self.x.starts(x);
        let plane = i64::from(y.source) * i64::from(x.source);
        words.long(channels * plane).word(plane).word(i64::from(y.source)).word(i64::from(x.source));
        words.word(start_y).word(start_x).word(self.y.between).word(self.x.between);
        words.word(self.y.grid).word(self.x.grid).word(self.y.step);
        words.word(b).word(y.pixels).word(x.pixels).word(self.images);
        words.word(self.y.tap).word(self.x.tap).word(tap_y).word(tap_x);
        words.word(i64::from(self.wide)).divisor(self.row_reads()).divisor(self.reads());
        words.divisor(x.taps).divisor(self.entries()).divisor(self.columns()).divisor(self.y.entries);
        words.divisor(self.phase_columns()).divisor(self.x.step);
        words.divisor(self.x.pixels).divisor(self.y.pixels);
        words.divisor(ceil(x.pixels, self.x.pixels)).divisor(ceil(y.pixels, self.y.pixels));
        words.finish();
    }
}

/// Whether four elements can be read together from a tensor: they lie on a boundary in every row if the rows have a
/// multiple of four.
fn on_boundary(m: Machine<'_>, touched: Touched) -> bool {
    touched.address.is_multiple_of(4 * m.dtype.size() as u64)
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

/// How forward or dgrad runs.
pub(super) struct Product {
    padded_rows: i64,
    chunks: i64,
    split: bool,
    pub(super) bytes: u64,
}

impl Product {
    /// Nothing where the kernels do not serve, or padding would cost more than they spare.
    pub(super) fn new(problem: &Problem, m: Machine<'_>, channels: &Channels) -> Option<Self> {
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
        let padded_rows = ceil(channels.rows, ROWS) * ROWS;
        let lines = channels.groups.checked_mul(chunks)?.checked_mul(taps)?.checked_mul(padded_rows)?;
        let fits = worth && lines < 1 << 24;
        fits.then_some(Self { padded_rows, chunks, split, bytes: (lines * CHUNK) as u64 })
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
        words.divisor(self.padded_rows).divisor(taps).divisor(self.chunks).finish();
        let mut params = Params::new();
        params.pointers(&[filter.address, workspace]);
        params.structure(&words);
        let touched = [filter, self.touched(workspace, Access::Write)];
        let geometry = Geometry::tiles(ceil(len, SWEEP) as u64, SWEEP as u64);
        Launch::variant("conv2d_pack_chunks", m.dtype, &[SWEEP as i32], params, &touched, geometry)
    }

    /// Shared memory with so many chunks and taps a round.
    fn shared_bytes(tile: &Tile, chunks: i64, taps: i64) -> i64 {
        ceil(TABLE + tile.reads() * 16, CHUNK) * CHUNK + 2 * chunks * CHUNK * (taps * ROWS + tile.entries())
    }

    /// The launch of up to [`CLASSES`] classes; `Ok` without one when their result is empty, `Err` when they have no
    /// tile.
    pub(super) fn launch(
        &self,
        m: Machine<'_>,
        b: i32,
        classes: &[[Axis; 2]],
        channels: &Channels,
        taps: i64,
        tensors: &Tensors<'_>,
        workspace: u64,
    ) -> Result<Option<Launch>, NoTile> {
        let b = i64::from(b);
        let classes: Vec<_> = classes.iter().filter(|[y, x]| b * y.pixels * x.pixels > 0).copied().collect();
        if classes.is_empty() || channels.rows == 0 {
            return Ok(None);
        }
        // Without a tap nothing is summed, and the result is zero: any tap's geometry serves for no chunks.
        let some = |axis: Axis| Axis { taps: axis.taps.max(1), ..axis };
        let of = |i: usize| Classes::new(classes.iter().map(move |class| some(class[i]))).ok_or(NoTile);
        let axes = [of(0)?, of(1)?];
        let [y, x] = [&axes[0].all, &axes[1].all];
        let plane = i64::from(y.source) * i64::from(x.source);
        let image = channels.groups * channels.reduced * plane;
        // The tile matters more than how many taps a round has.
        let all = y.taps * x.taps;
        let wide = on_boundary(m, tensors.touched[0]);
        let room = SHARED.min(m.shared_limit());
        let fits = |tile: &Tile| Self::shared_bytes(tile, 1, all.min(3)) <= room;
        let tile = Tile::choose(b, &axes, BN, image, wide, fits).ok_or(NoTile)?;
        let round_taps = (ceil(all, ROUND)..=all)
            .map(|rounds| ceil(all, rounds))
            .find(|&taps| Self::shared_bytes(&tile, 1, taps) <= room)
            .ok_or(NoTile)?;
        let chunks = self.chunks;
        // Few taps leave room for more chunks, which make up for the barriers.
        let most = (ROUND / round_taps).min(4).min(chunks).max(1);
        let fits = |&chunks: &i64| Self::shared_bytes(&tile, chunks, round_taps) <= room;
        let round_chunks = (1..=most).rev().find(fits).unwrap_or(1);
        let row_tiles = ceil(channels.rows, ROWS);
        let pixel_tiles = tile.count(b, &axes);
        let count = classes.len() as i64;
        let tiles = row_tiles * pixel_tiles * channels.groups * count;
        let mut words = Structure::new();
        tile.describe(&mut words, b, &axes, channels.groups * channels.reduced);
        let [_, out_w] = tensors.out;
        let out_plane = tensors.out[0] * out_w;
        words.long(channels.groups * channels.rows * out_plane).word(out_plane);
        words.word(y.out_step * out_w).word(x.out_step).word(i64::from(tensors.accumulate));
        let width = channels.filter_width;
        words.word(y.filter_step * width).word(x.filter_step);
        words.word(taps).word(channels.rows).word(self.padded_rows).word(channels.reduced).word(chunks);
        words.word(round_chunks).word(round_taps);
        words.word(tiles).divisor(row_tiles).divisor(pixel_tiles).divisor(count);
        let mut first_tap = 0;
        for class in classes.iter().chain(std::iter::repeat(&classes[0])).take(CLASSES).enumerate() {
            let (number, &[y, x]) = class;
            // Places without a class have no taps in the table.
            let taps = if (number as i64) < count { y.taps * x.taps } else { 0 };
            let (start_y, tap_y) = tile.y.starts(&some(y));
            let (start_x, tap_x) = tile.x.starts(&some(x));
            words.word(y.pixels).word(x.pixels).word(start_y).word(start_x);
            words.word(y.out_start * out_w + x.out_start).word(taps).word(first_tap);
            words.word(if taps == 0 { 0 } else { chunks }).word(y.filter_start * width + x.filter_start);
            words.word(tap_y).word(tap_x).divisor(x.taps.max(1));
            first_tap += taps;
        }
        words.finish();
        let [from, _, out] = tensors.touched.map(|touched| touched.address);
        let mut params = Params::new();
        params.pointers(&[from, workspace, out]);
        params.structure(&words);
        let mut touched = *tensors.touched;
        touched[1] = self.touched(workspace, Access::Read);
        let name = if self.split { "conv2d_patch_split" } else { "conv2d_patch" };
        let blocks = (if self.split { 1 } else { 2 }) * i64::from(m.target.multiprocessors);
        // As many tiles for every block, or one less; and each block's of all classes, which differ in their work.
        let grid = ceil(tiles, ceil(tiles, blocks));
        let mixes = |grid: i64| (count % 2 != 0 || grid % 2 != 0) && (count % 3 != 0 || grid % 3 != 0);
        let grid = if grid == tiles { grid } else { (1..=grid).rev().find(|&n| mixes(n)).unwrap_or(1) };
        let geometry = Geometry {
            grid_x: u32::try_from(grid).map_err(|_| NoTile)?,
            block_x: if self.split { SPLIT_THREADS } else { THREADS },
            shared_bytes: Self::shared_bytes(&tile, round_chunks, round_taps) as u32,
        };
        Launch::variant(name, m.dtype, &[], params, &touched, geometry).map(Some).ok_or(NoTile)
    }
}

/// No tile of pixels suits a product.
pub(super) struct NoTile;

/// How wgrad runs.
pub(super) struct Gradient {
    tile: Tile,
    axes: [Classes; 2],
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
        let float = matches!(m.dtype, DType::F16 | DType::Bf16 | DType::F32);
        let split = m.dtype == DType::F32 && !m.mma();
        // Measured: plain sums are faster where a patch serves one tap, or is read with a stride.
        if split && (taps == 1 || problem.stride != [1, 1]) {
            return None;
        }
        // Split products need room for both parts, so that a warp takes fewer output channels.
        let warp = if split { WARP / 2 } else { WARP };
        if empty
            || m.target.capability < (8, 0)
            || !float
            || taps > MAX_TAPS
            || rows < 16
            || channels < 16
            || !small(problem)
        {
            return None;
        }
        let axes = [forward_axis(problem, 0), forward_axis(problem, 1)].map(Classes::one);
        let b = i64::from(problem.b);
        let image = i64::from(problem.c_in) * i64::from(problem.image[0]) * i64::from(problem.image[1]);
        let element = m.dtype.size() as i64;
        let depth = 32 / element;
        let tap_blocks = ceil(taps, MAX_BLOCK_TAPS);
        let block_taps = ceil(taps, tap_blocks);
        let mut warp_rows = ceil(rows, warp).min(MAX_CONSUMERS / block_taps);
        let mut warp_columns = ceil(channels, WARP).min(MAX_CONSUMERS / (block_taps * warp_rows));
        let limit = m.shared_limit();
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
                .find_map(|pixels| Tile::choose(b, &axes, pixels, image, true, |tile| shared(tile) <= limit));
            if let Some(tile) = found {
                let (row_blocks, column_blocks) =
                    (ceil(rows, warp_rows * warp), ceil(channels, warp_columns * WARP));
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
        let tile = Tile::new(&self.axes, extents, on_boundary(m, x));
        // Pixels are entries of dy, so rows have no room for a boundary's sake.
        let pixel_axes = [pixel_axis(problem, 0), pixel_axis(problem, 1)].map(Classes::one);
        let pixel_tile = Tile::new(&pixel_axes, extents, on_boundary(m, dy) && extents[2] % 4 == 0);
        let mut words = Structure::new();
        tile.describe(&mut words, i64::from(problem.b), &self.axes, i64::from(problem.c_in));
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
