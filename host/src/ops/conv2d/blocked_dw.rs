//! The launches of wgrad from dy and x in the blocked format: what `device/src/conv2d_blocked_dw.rs` computes, described
//! in its words.

use super::blocked::{MAX_IMAGE, STEPS, fills_planes, pixels, run_pixels};
use super::patch_tile::{MAX_TAPS, small};
use super::plan::{Problem, Volumes};
use super::prepare::{Image, Preparation, ROW, row_channels};
use super::tiled::{Machine, ceil};
use crate::launch::{Access, Geometry, Launch, Params, Structure, Touched};

/// Columns of a tile: input channels of the taps.
const COLUMNS: i64 = 128;

/// Threads of a block.
const THREADS: u32 = 128;

/// Bytes of the table of columns.
const TABLE: i64 = 8 * 16;

/// How wgrad runs.
pub(super) struct Gradient {
    dy: Image,
    split: bool,
    /// Output channels of a tile.
    rows: i64,
    row_tiles: i64,
    column_tiles: i64,
    /// Batch items of a part, whose x is brought to the blocked format at a time.
    part: i64,
    /// Pixels of a run.
    run: i64,
}

impl Gradient {
    /// In so many parts of the batch at least. Nothing where the kernel does not serve, or patches are as fast.
    pub(super) fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>, parts: i64) -> Option<Self> {
        let taps = problem.taps();
        if !m.multiplies() || !(2..=MAX_TAPS).contains(&taps) || !small(problem) {
            return None;
        }
        let (rows, channels) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        if volumes.y == 0 || volumes.x == 0 || volumes.w == 0 {
            return None;
        }
        let split = m.split();
        let batch = i64::from(problem.b);
        let groups = i64::from(problem.g);
        let dy = Image::new(m, batch, [groups, rows], pixels(problem.output));
        let x = Image::new(m, 1, [groups, channels], pixels(problem.image));
        let fits = dy.bytes() <= MAX_IMAGE && x.bytes() <= MAX_IMAGE;
        if !fills_planes(m, rows) || !fills_planes(m, channels) || !fits {
            return None;
        }
        let parts = ceil(batch, MAX_IMAGE / x.bytes()).max(parts).min(batch);
        let part = ceil(batch, parts);
        let tile_rows = if split || rows <= 64 { 64 } else { 128 };
        let row_tiles = ceil(rows, tile_rows);
        let column_tiles = ceil(x.planes * taps * row_channels(m.dtype), COLUMNS);
        let blocks = row_tiles * column_tiles * groups;
        // Measured: two blocks a multiprocessor, or one of the large ones, which would share its first cache, where they
        // leave few multiprocessors out.
        let multiprocessors = i64::from(m.target.multiprocessors);
        let alone = (multiprocessors / blocks).max(1) * blocks;
        let resident = if tile_rows == 128 && 10 * alone >= 9 * multiprocessors { 1 } else { 2 };
        let sums = 4 * volumes.w * if split { parts } else { 1 };
        let run = run_pixels(m, part * pixels(problem.output), blocks, resident, sums);
        Some(Self { dy, split, rows: tile_rows, row_tiles, column_tiles, part, run })
    }

    /// Batch items of each part.
    fn parts(&self) -> impl Iterator<Item = i64> + use<> {
        let (all, part) = (self.dy.batch(), self.part);
        (0..ceil(all, part)).map(move |number| part.min(all - number * part))
    }

    /// Runs of so many batch items.
    fn runs_of(&self, batch: i64) -> i64 {
        ceil(batch * self.dy.pixels, self.run)
    }

    /// Runs, whose partial sums are added. Parts add theirs to those of the part before, but for split products, which
    /// would be short of registers.
    pub(super) fn runs(&self) -> i64 {
        if self.split { self.parts().map(|batch| self.runs_of(batch)).sum() } else { self.runs_of(self.part) }
    }

    fn x(problem: &Problem, m: Machine<'_>, batch: i64) -> Image {
        let channels = [i64::from(problem.g), i64::from(problem.c_in_per_group())];
        Image::new(m, batch, channels, pixels(problem.image))
    }

    /// Bytes of x in the blocked format, and of dy unless another product left it there.
    pub(super) fn bytes(&self, problem: &Problem, m: Machine<'_>, shared: bool) -> i64 {
        Self::x(problem, m, self.part).bytes() + if shared { 0 } else { self.dy.bytes() }
    }

    /// The launches that leave the partial sums in `partial`, for which dy and the first part of x are prepared. `touched` are
    /// dy and x; `shared` says where another product has dy in the blocked format, and `workspace` has
    /// [`bytes`](Self::bytes).
    pub(super) fn launches(
        &self,
        problem: &Problem,
        m: Machine<'_>,
        [dy, x]: [Touched; 2],
        shared: Option<u64>,
        workspace: u64,
        partial: Touched,
        preparation: &mut Preparation,
    ) -> Option<Vec<Launch>> {
        let mut launches = Vec::new();
        let to_x = workspace;
        let to_dy = shared.unwrap_or(workspace + Self::x(problem, m, self.part).bytes() as u64);
        let (mut first, mut first_run) = (0, 0);
        for batch in self.parts() {
            let image = Self::x(problem, m, batch);
            let block = image.block(m, x, first, to_x);
            let touched = [self.dy.touched(to_dy, Access::Read), image.touched(to_x, Access::Read), partial];
            let sums = self.sums(problem, m, &image, [first, first_run], &touched)?;
            if first == 0 {
                preparation.image(block);
            } else {
                let mut more = Preparation::new();
                more.image(block);
                launches.extend(more.launch(m));
            }
            launches.push(sums);
            first += batch;
            first_run += if self.split { self.runs_of(batch) } else { 0 };
        }
        if shared.is_none() {
            preparation.image(self.dy.block(m, dy, 0, to_dy));
        }
        Some(launches)
    }

    /// The sums of a part of the batch, whose first item and first run are given.
    fn sums(
        &self,
        problem: &Problem,
        m: Machine<'_>,
        x: &Image,
        [first, first_run]: [i64; 2],
        touched: &[Touched; 3],
    ) -> Option<Launch> {
        let [oh, ow] = problem.output.map(i64::from);
        let [stride_h, stride_w] = problem.stride.map(i64::from);
        let [pad_h, pad_w] = problem.pad.map(i64::from);
        let groups = i64::from(problem.g);
        let (rows, channels) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        let mut words = Structure::new();
        words.word(self.dy.plane()).word(x.plane()).word(self.dy.planes);
        words.word(i64::from(problem.image[0])).word(i64::from(problem.image[1]));
        words.word(pad_h).word(pad_w).word(stride_h).word(stride_w);
        words.word(rows).word(channels).word(x.batch() * oh * ow).word(self.run);
        words.word(first_run);
        words.divisor(ow).divisor(oh).divisor(x.planes).divisor(i64::from(problem.kernel[1]));
        words.divisor(self.row_tiles).divisor(self.column_tiles).divisor(groups).word(problem.taps());
        let blocks = self.row_tiles * self.column_tiles * groups * self.runs_of(x.batch());
        words.word(blocks).word(i64::from(first > 0 && !self.split)).finish();
        let [dy, x_at, partial] = touched.map(|touched| touched.address);
        let mut params = Params::new();
        params.pointers(&[dy + (first * oh * ow * ROW) as u64, x_at, partial]);
        params.structure(&words);
        let name = match (self.split, self.rows) {
            (true, _) => "conv2d_blocked_dw_split_64x128",
            (false, 64) => "conv2d_blocked_dw_64x128",
            (false, _) => "conv2d_blocked_dw_128x128",
        };
        let geometry = Geometry {
            grid_x: u32::try_from(blocks).ok()?,
            block_x: THREADS,
            shared_bytes: (TABLE + STEPS * (self.rows + COLUMNS) * ROW) as u32,
        };
        Launch::variant(name, m.dtype, &[], params, touched, geometry)
    }
}
