//! The launches of dgrad for few input channels, and of forward for few output channels, on tensor cores: what
//! `device/src/conv2d_few_mma.rs` computes, described in its words.

use super::depthwise::Axis;
use super::plan::Problem;
use super::tiled::{Channels, Machine, ceil};
use crate::launch::{Geometry, Launch, Params, Structure, Touched};

/// Rows of the product: channels of the result and classes of the strides.
const ROWS: i64 = 16;

/// Rows below which the product is mostly padding, and fused multiply-adds take no longer: with one product, and split.
const MIN_ROWS: i64 = 4;
const MIN_SPLIT_ROWS: i64 = 8;

/// Rows of positions of a warp, with one product and split; columns; and rows of taps that are multiplied together.
const LINES: i64 = 8;
const SPLIT_LINES: i64 = 6;
const COLUMNS: i64 = 8;
const TAPS: i64 = 4;

/// Bytes of a position's channels, and of a tap's weights.
const ROW: i64 = 64;
const TAP_BYTES: i64 = ROWS * ROW;

/// Taps of a class at most.
const MAX_TAPS: i64 = 32;

/// Warps of a block at most: with one product, and split.
const MAX_WARPS: i64 = 10;
const MAX_SPLIT_WARPS: i64 = 6;

/// Shared memory of a block at most: with less than half of a large multiprocessor's, two blocks share it.
const MAX_SHARED: i64 = 96 << 10;

/// How positions are cut into tiles.
#[derive(Clone, Copy)]
struct Tile {
    /// Warps along the rows and the columns.
    warps: [i64; 2],
    /// Rows of the source that a tile meets, and positions of each.
    lines: i64,
    pitch: i64,
    /// Where the weights lie in shared memory, and the tile of the source.
    filter_at: i64,
    source_at: i64,
    /// Tiles along the rows and the columns.
    count: [i64; 2],
    shared_bytes: i64,
}

/// The rows of taps of a class.
#[derive(Clone, Copy)]
struct Rows {
    /// Rows that are multiplied together, and how many times.
    together: i64,
    groups: i64,
    /// All of them, of zeros in front of the first included.
    slots: i64,
}

impl Rows {
    fn new(taps: i64) -> Self {
        let groups = ceil(taps, TAPS);
        let together = ceil(taps, groups);
        Self { together, groups, slots: groups * together }
    }
}

impl Tile {
    /// The tile that costs least, for so many rows and columns of positions.
    fn choose(m: Machine<'_>, cells: [i64; 2], rows: Rows, taps_w: i64, weights: i64) -> Option<Self> {
        let (most, height) = if m.split() { (MAX_SPLIT_WARPS, SPLIT_LINES) } else { (MAX_WARPS, LINES) };
        let limit = MAX_SHARED.min(m.shared_limit());
        let one = |down: i64, along: i64| {
            let lines = down * height + rows.slots - 1;
            let pitch = ceil(along * COLUMNS + taps_w - 1, 4) * 4;
            let filter_at = ceil(weights * 8, 128) * 128;
            let source_at = filter_at + rows.slots * taps_w * TAP_BYTES;
            let count = [ceil(cells[0], down * height), ceil(cells[1], along * COLUMNS)];
            let shared_bytes = source_at + lines * pitch * ROW;
            Self { warps: [down, along], lines, pitch, filter_at, source_at, count, shared_bytes }
        };
        let tiles = (1..=most).flat_map(|down| (1..=most / down).map(move |along| (down, along)));
        let tiles = tiles.map(|(down, along)| one(down, along)).filter(|tile| tile.shared_bytes <= limit);
        // What is multiplied, what is brought, the weights and the barriers, in cycles of shared memory, about.
        let cost = |tile: &Self| {
            let multiplied = tile.warps[0] * tile.warps[1] * height * COLUMNS * rows.slots * taps_w * 2 / 5;
            let brought = 2 * tile.lines * tile.pitch + 4 * weights;
            (multiplied + brought + 500) * tile.count[0] * tile.count[1]
        };
        tiles.min_by_key(cost)
    }
}

/// Forward or, where something is said of its sums, dgrad, of the axes that `conv2d_few` has; nothing where the kernel does
/// not serve or is not worth it.
pub(super) fn launch(
    problem: &Problem,
    m: Machine<'_>,
    [y, x]: [Axis; 2],
    of: &Channels,
    touched: [Touched; 3],
    accumulate: Option<bool>,
) -> Option<Launch> {
    let (channels, reduced) = (of.rows, of.reduced);
    let product_rows = channels * y.classes * x.classes;
    let least = if m.split() { MIN_SPLIT_ROWS } else { MIN_ROWS };
    let lanes = ROW / m.dtype.size() as i64;
    let rows = Rows::new(y.taps);
    let worth = (least..=ROWS).contains(&product_rows) && ceil(reduced, lanes) * lanes <= 2 * reduced;
    if !m.multiplies() || !worth || rows.slots * x.taps > MAX_TAPS {
        return None;
    }
    // Rows of the source and its address say how many columns can be read together.
    let boundary = (touched[0].address / m.dtype.size() as u64 % 4) as i64;
    let wide = [4, 2, 1].into_iter().find(|wide| x.source % wide == 0 && boundary % wide == 0)?;
    let ((first_h, cells_h), (first_w, cells_w)) = (y.cells(), x.cells());
    // What the first column meets is moved to a boundary.
    let before = (first_w + x.start).rem_euclid(wide);
    let taps = problem.taps();
    let weights = channels * taps;
    let tile = Tile::choose(m, [cells_h, cells_w + before], rows, x.taps, weights)?;
    let groups = i64::from(problem.g);
    let blocks = (tile.count[0] * tile.count[1]).checked_mul(groups)?.checked_mul(i64::from(problem.b))?;
    if blocks >= 1 << 31 {
        return None;
    }
    let mut words = Structure::new();
    let threads = 32 * tile.warps[0] * tile.warps[1];
    words.word(y.source).word(x.source).word(y.source * x.source).word(threads);
    words.word(channels).word(reduced).word(y.out).word(x.out);
    words.word(first_h).word(first_w - before).word(y.shift).word(x.shift);
    words.word(i64::from(accumulate == Some(true))).word(i64::from(accumulate.is_none()));
    words.word(of.filter_channel).word(of.filter_row);
    words.word(rows.slots).word(rows.slots - y.taps);
    words
        .word(tile.lines - rows.slots + 1)
        .word(tile.warps[1] * COLUMNS)
        .word(tile.lines * (tile.pitch / wide) * 4);
    words
        .word(tile.pitch * ROW)
        .word(x.taps * TAP_BYTES)
        .word(tile.filter_at)
        .word(tile.source_at)
        .word(wide)
        .word(blocks);
    words.divisor(tile.pitch / wide).divisor(tile.warps[1]);
    words.divisor(tile.count[1]).divisor(tile.count[0]).divisor(groups);
    words.divisor(x.taps).divisor(weights).divisor(taps).divisor(i64::from(problem.kernel[1]));
    words.divisor(y.classes).divisor(x.classes);
    let mut params = Params::new();
    params.pointers(&touched.map(|touched| touched.address));
    params.structure(&words);
    let geometry =
        Geometry { grid_x: blocks as u32, block_x: threads as u32, shared_bytes: tile.shared_bytes as u32 };
    let name = if m.split() { "conv2d_few_split" } else { "conv2d_few_mma" };
    let constants = [rows.together as i32, rows.groups as i32];
    Launch::variant(name, m.dtype, &constants, params, &touched, geometry)
}
