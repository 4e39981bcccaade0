//! The launches of forward and dgrad from patches: what `device/src/conv2d_patch.rs` computes, described in its words.

use super::patch_tile::{BN, CLASSES, Classes, MAX_TAPS, Tile, boundary, small};
use super::plan::Problem;
use super::prepare::{Filter, ROW, row_channels};
use super::tiled::{Axis, Channels, Machine, Tensors, ceil};
use crate::launch::{Access, Geometry, Launch, Params, Structure};

/// Channels of a block's tile, and its threads.
const ROWS: i64 = 64;
const THREADS: u32 = 256;
const SPLIT_THREADS: u32 = 384;

/// Bytes of the tables of taps and of classes.
const TABLE: i64 = MAX_TAPS * 8 + CLASSES as i64 * 32;

/// Taps of chunks that are brought to shared memory together.
const ROUND: i64 = 9;

/// The most shared memory of a block, so that a large multiprocessor has room for two.
const SHARED: i64 = 112 << 10;

/// How forward or dgrad runs.
pub(super) struct Product {
    pub(super) filter: Filter,
}

impl Product {
    /// Nothing where the kernels do not serve, or padding would cost more than they spare.
    pub(super) fn new(problem: &Problem, m: Machine<'_>, channels: &Channels) -> Option<Self> {
        let taps = problem.taps();
        if !m.multiplies() || taps > MAX_TAPS || !small(problem) {
            return None;
        }
        let chunk_channels = row_channels(m.dtype);
        let padded = ceil(channels.reduced, chunk_channels) * chunk_channels;
        let worth = channels.rows >= 16 && channels.reduced > 0 && padded <= 2 * channels.reduced;
        let filter = worth.then(|| Filter::new(m, channels, taps, ROWS))?;
        Some(Self { filter: filter? })
    }

    /// Shared memory with so many chunks and taps a round.
    fn shared_bytes(tile: &Tile, chunks: i64, taps: i64) -> i64 {
        ceil(TABLE + tile.reads() * 16, ROW) * ROW + 2 * chunks * ROW * (taps * ROWS + tile.entries())
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
        let boundary = boundary(m, tensors.touched[0]);
        let room = SHARED.min(m.shared_limit());
        let fits = |tile: &Tile| Self::shared_bytes(tile, 1, all.min(3)) <= room;
        // All of a tile's room is multiplied.
        let cost = |tile: &Tile| BN * all + tile.moved();
        let (_, tile) = Tile::choose(b, &axes, BN, image, boundary, cost, fits).ok_or(NoTile)?;
        let round_taps = (ceil(all, ROUND)..=all)
            .map(|rounds| ceil(all, rounds))
            .find(|&taps| Self::shared_bytes(&tile, 1, taps) <= room)
            .ok_or(NoTile)?;
        let chunks = self.filter.chunks;
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
        words
            .word(taps)
            .word(channels.rows)
            .word(self.filter.padded_rows)
            .word(channels.reduced)
            .word(chunks);
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
        touched[1] = self.filter.touched(workspace, Access::Read);
        let name = if self.filter.split { "conv2d_patch_split" } else { "conv2d_patch" };
        let blocks = (if self.filter.split { 1 } else { 2 }) * i64::from(m.target.multiprocessors);
        // As many tiles for every block, or one less; and each block's of all classes, which differ in their work.
        let grid = ceil(tiles, ceil(tiles, blocks));
        let mixes = |grid: i64| (count % 2 != 0 || grid % 2 != 0) && (count % 3 != 0 || grid % 3 != 0);
        let grid = if grid == tiles { grid } else { (1..=grid).rev().find(|&n| mixes(n)).unwrap_or(1) };
        let geometry = Geometry {
            grid_x: u32::try_from(grid).map_err(|_| NoTile)?,
            block_x: if self.filter.split { SPLIT_THREADS } else { THREADS },
            shared_bytes: Self::shared_bytes(&tile, round_chunks, round_taps) as u32,
        };
        Launch::variant(name, m.dtype, &[], params, &touched, geometry).map(Some).ok_or(NoTile)
    }
}

/// No tile of pixels suits a product.
pub(super) struct NoTile;
