//! The tiled kernels' launches: what `device/src/conv2d_tiled.rs` computes, described in its words.

use super::plan::{Problem, Volumes};
use crate::element::DType;
use crate::launch::{Access, Geometry, Launch, Params, Structure, Target, Touched};

/// Columns of a block's tile.
const BN: i64 = 128;

/// Steps of the reduction that are staged at a time.
const BK: i64 = 8;

/// Taps that the kernels can have.
const MAX_TAPS: i64 = 64;

/// The most bytes of partial sums that wgrad asks for.
const MAX_WORKSPACE: i64 = 48 << 20;

/// The least pixels of a run of wgrad: shorter ones would be mostly overhead.
const MIN_RUN: i64 = 512;

/// Dynamic shared memory: two buffers of both operands' stages, behind `head` bytes.
fn shared_bytes(bm: i64, head: i64) -> u32 {
    (head + 2 * BK * 4 * ((bm + 4) + (BN + 4))) as u32
}

/// Bytes of the tables of offsets in front of the stages.
const TABLES: i64 = 2 * MAX_TAPS * 4;

/// The channels of a tile, 128 or 64: whichever leaves the busiest multiprocessor less to do.
fn tile_rows(rows: i64, tiles_beside: i64, target: &Target) -> i64 {
    let busiest = |bm: i64| ceil(ceil(rows, bm) * tiles_beside, i64::from(target.multiprocessors)) * bm;
    // The larger tile reads less for each product, so the smaller one has to win clearly.
    if busiest(64) * 21 < busiest(128) * 20 { 64 } else { 128 }
}

fn ceil(n: i64, d: i64) -> i64 {
    (n + d - 1) / d
}

/// One axis of a gather: pixels of the result against the source.
#[derive(Clone, Copy)]
struct Axis {
    /// Pixels of the result that take part.
    pixels: i64,
    /// Taps that take part.
    taps: i64,
    /// The source's extent.
    source: i32,
    /// The source position that pixel 0 meets with tap 0, and between pixels and between taps.
    start: i64,
    step: i64,
    tap: i64,
    /// The result's position of pixel 0, and between pixels.
    out_start: i64,
    out_step: i64,
    /// The filter's first tap, and between taps.
    filter_start: i64,
    filter_step: i64,
}

/// The part of a product that is the same for both axes.
struct Channels {
    groups: i64,
    /// Channels of the result and of the reduction, in a group.
    rows: i64,
    reduced: i64,
    /// Filter elements between channels of the result and of the reduction, of a group, and of a row of taps.
    filter_row: i64,
    filter_channel: i64,
    filter_group: i64,
    filter_width: i64,
}

/// A product's tensors.
struct Tensors<'a> {
    /// Source, filter and result.
    pointers: [u64; 3],
    touched: &'a [Touched],
    /// Rows and columns of the result.
    out: [i64; 2],
    accumulate: bool,
}

/// The device's `Source`.
fn source(axes: [Axis; 2], channels: i64) -> Structure {
    let [y, x] = axes;
    let plane = i64::from(y.source) * i64::from(x.source);
    let mut words = Structure::new();
    words.long(channels * plane).word(plane);
    words.word(i64::from(y.source)).word(i64::from(x.source)).word(y.start).word(x.start);
    words.word(y.step).word(x.step).word(y.tap).word(x.tap);
    words.divisor(x.taps).divisor((y.taps * x.taps).max(1)).divisor(x.pixels).divisor(y.pixels);
    words.align(8);
    words
}

/// Whether 32-bit offsets inside a batch item and a group's filter suffice, and the tiles are worth their
/// padding: fewer than 16 channels of the result would fill less than a quarter of the smaller tile.
fn suits(problem: &Problem, dtype: DType, rows: i32) -> bool {
    let [oh, ow] = problem.output.map(i64::from);
    let [h, w] = problem.image.map(i64::from);
    let small = |factors: &[i64]| {
        factors.iter().try_fold(1_i64, |n, &f| n.checked_mul(f)).is_some_and(|n| n < (1 << 31) - (1 << 16))
    };
    let [b, c_in, c_out] = [problem.b, problem.c_in, problem.c_out].map(i64::from);
    matches!(dtype, DType::F16 | DType::Bf16 | DType::F32)
        && problem.taps() <= MAX_TAPS
        && rows >= 16
        && small(&[b, h, w])
        && small(&[b, oh, ow])
        && small(&[c_in, h, w])
        && small(&[c_out, oh, ow])
        && small(&[i64::from(problem.c_in_per_group()), problem.taps(), c_out])
}

/// A gather's launch; none when the result is empty.
fn gather(
    dtype: DType,
    b: i32,
    axes: [Axis; 2],
    channels: &Channels,
    tensors: &Tensors<'_>,
    target: &Target,
) -> Option<Launch> {
    let [y, x] = axes;
    let pixels = i64::from(b) * y.pixels * x.pixels;
    if pixels == 0 || channels.rows == 0 {
        return None;
    }
    let pixel_tiles = ceil(pixels, BN);
    let bm = tile_rows(channels.rows, pixel_tiles * channels.groups, target);
    let row_tiles = ceil(channels.rows, bm);
    let tiles = row_tiles * pixel_tiles * channels.groups;
    let plane = tensors.out[0] * tensors.out[1];
    // Without a tap nothing is summed, and the result is zero.
    let reduced = if y.taps * x.taps == 0 { 0 } else { channels.reduced };
    let mut words = source(axes, channels.groups * channels.reduced);
    let width = channels.filter_width;
    words.long(channels.filter_group).word(channels.filter_row).word(channels.filter_channel);
    words.word(y.filter_start * width + x.filter_start).word(y.filter_step * width).word(x.filter_step);
    words.word(reduced).word(channels.rows).word(pixels).word(tiles);
    words.divisor(row_tiles).divisor(pixel_tiles).align(8);
    words.long(channels.groups * channels.rows * plane).word(plane);
    words.word(y.out_start * tensors.out[1] + x.out_start);
    words.word(y.out_step * tensors.out[1]).word(x.out_step);
    words.word(i64::from(tensors.accumulate)).align(8);
    let name = if bm == 128 { "conv2d_gather_128" } else { "conv2d_gather_64" };
    let mut params = Params::new();
    params.pointers(&tensors.pointers);
    params.structure(&words);
    let shared_bytes = shared_bytes(bm, TABLES);
    let geometry = Geometry { grid_x: tiles as u32, block_x: 2 * bm as u32, shared_bytes };
    Launch::variant(name, dtype, &[], params, tensors.touched, geometry)
}

/// The forward product, or nothing where the tiles do not suit it.
pub(super) fn forward(
    problem: &Problem,
    dtype: DType,
    pointers: [u64; 3],
    touched: &[Touched],
    target: &Target,
) -> Option<Vec<Launch>> {
    if !suits(problem, dtype, problem.c_out_per_group()) {
        return None;
    }
    let axis = |i: usize| Axis {
        pixels: i64::from(problem.output[i]),
        taps: i64::from(problem.kernel[i]),
        source: problem.image[i],
        start: -i64::from(problem.pad[i]),
        step: i64::from(problem.stride[i]),
        tap: 1,
        out_start: 0,
        out_step: 1,
        filter_start: 0,
        filter_step: 1,
    };
    let (cig, taps) = (i64::from(problem.c_in_per_group()), problem.taps());
    let rows = i64::from(problem.c_out_per_group());
    let channels = Channels {
        groups: i64::from(problem.g),
        rows,
        reduced: cig,
        filter_row: cig * taps,
        filter_channel: taps,
        filter_group: rows * cig * taps,
        filter_width: i64::from(problem.kernel[1]),
    };
    let tensors = Tensors { pointers, touched, out: problem.output.map(i64::from), accumulate: false };
    Some(gather(dtype, problem.b, [axis(0), axis(1)], &channels, &tensors, target).into_iter().collect())
}

/// One axis of dgrad for the positions whose padded coordinate leaves `residue` when divided by the stride.
fn residue_axis(problem: &Problem, i: usize, residue: i64) -> Axis {
    let (extent, pad) = (i64::from(problem.image[i]), i64::from(problem.pad[i]));
    let (stride, kernel) = (i64::from(problem.stride[i]), i64::from(problem.kernel[i]));
    // Positions are q · stride + residue − pad, for the q that keep them inside the image.
    let first = ceil((pad - residue).max(0), stride);
    let last = (extent - 1 + pad - residue).div_euclid(stride);
    Axis {
        pixels: (last - first + 1).max(0),
        taps: ceil((kernel - residue).max(0), stride),
        source: problem.output[i],
        start: first,
        step: 1,
        tap: -1,
        out_start: first * stride + residue - pad,
        out_step: stride,
        filter_start: residue,
        filter_step: stride,
    }
}

/// dgrad, a launch for each residue class of the stride, or nothing where the tiles do not suit it.
pub(super) fn input_gradient(
    problem: &Problem,
    dtype: DType,
    pointers: [u64; 3],
    touched: &[Touched],
    accumulate: bool,
    target: &Target,
) -> Option<Vec<Launch>> {
    // Beyond this, so many small launches would cost more than they spare.
    const MAX_CLASSES: i64 = 16;
    let [stride_h, stride_w] = problem.stride.map(i64::from);
    if !suits(problem, dtype, problem.c_in_per_group()) || stride_h * stride_w > MAX_CLASSES {
        return None;
    }
    let (cig, taps) = (i64::from(problem.c_in_per_group()), problem.taps());
    let cog = i64::from(problem.c_out_per_group());
    let channels = Channels {
        groups: i64::from(problem.g),
        rows: cig,
        reduced: cog,
        filter_row: taps,
        filter_channel: cig * taps,
        filter_group: cog * cig * taps,
        filter_width: i64::from(problem.kernel[1]),
    };
    let tensors = Tensors { pointers, touched, out: problem.image.map(i64::from), accumulate };
    let classes = (0..stride_h).flat_map(|h| (0..stride_w).map(move |w| (h, w)));
    let launches = classes.filter_map(|(h, w)| {
        let axes = [residue_axis(problem, 0, h), residue_axis(problem, 1, w)];
        gather(dtype, problem.b, axes, &channels, &tensors, target)
    });
    Some(launches.collect())
}

/// How wgrad's reduction is split.
struct Runs {
    bm: i64,
    row_tiles: i64,
    column_tiles: i64,
    pixels: i64,
    /// Pixels of a run, and how many runs.
    run: i64,
    runs: i64,
}

impl Runs {
    fn new(problem: &Problem, volumes: &Volumes, target: &Target) -> Self {
        let (rows, groups) = (i64::from(problem.c_out_per_group()), i64::from(problem.g));
        let columns = i64::from(problem.c_in_per_group()) * problem.taps();
        let pixels = i64::from(problem.b) * i64::from(problem.output[0]) * i64::from(problem.output[1]);
        let column_tiles = ceil(columns, BN);
        let bm = if rows <= 64 { 64 } else { 128 };
        let row_tiles = ceil(rows, bm);
        // Two waves of the blocks that fit, so that the last one is no great part.
        let resident = i64::from(target.multiprocessors) * if bm == 64 { 3 } else { 2 };
        let wanted = (2 * resident / (row_tiles * column_tiles * groups)).max(1);
        let most = (pixels / MIN_RUN).min(MAX_WORKSPACE / (4 * volumes.w).max(1)).max(1);
        let run = ceil(ceil(pixels, wanted.min(most)).max(1), BK) * BK;
        Self { bm, row_tiles, column_tiles, pixels, run, runs: ceil(pixels, run).max(1) }
    }
}

/// Bytes of partial sums that wgrad needs; none where the tiles do not suit it.
pub(super) fn weight_gradient_workspace(
    problem: &Problem,
    dtype: DType,
    volumes: &Volumes,
    target: &Target,
) -> Option<u64> {
    let suits = suits(problem, dtype, problem.c_out_per_group()) && volumes.y > 0 && volumes.w > 0;
    suits.then(|| (Runs::new(problem, volumes, target).runs * volumes.w * 4) as u64)
}

/// wgrad: the runs' partial sums, then their total, or nothing where the tiles do not suit it. `pointers` are dy,
/// x and dw, with `touched` in the same order.
pub(super) fn weight_gradient(
    problem: &Problem,
    dtype: DType,
    volumes: &Volumes,
    pointers: [u64; 3],
    touched: [Touched; 3],
    workspace: u64,
    accumulate: bool,
    target: &Target,
) -> Option<Vec<Launch>> {
    let bytes = weight_gradient_workspace(problem, dtype, volumes, target)?;
    let runs = Runs::new(problem, volumes, target);
    let groups = i64::from(problem.g);
    let axis = |i: usize| Axis {
        pixels: i64::from(problem.output[i]),
        taps: i64::from(problem.kernel[i]),
        source: problem.image[i],
        start: -i64::from(problem.pad[i]),
        step: i64::from(problem.stride[i]),
        tap: 1,
        out_start: 0,
        out_step: 1,
        filter_start: 0,
        filter_step: 1,
    };
    let plane = i64::from(problem.output[0]) * i64::from(problem.output[1]);
    let (rows, cig) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
    let tiles = runs.row_tiles * runs.column_tiles * groups * runs.runs;
    let mut words = source([axis(0), axis(1)], i64::from(problem.c_in));
    words.long(i64::from(problem.c_out) * plane).word(plane);
    words.word(rows).word(cig * problem.taps()).word(cig).word(runs.pixels).word(runs.run).word(tiles);
    words.divisor(runs.row_tiles).divisor(runs.column_tiles).divisor(groups).align(8);
    let [dy, x, dw] = pointers;
    let mut params = Params::new();
    params.pointers(&[dy, x, workspace]);
    params.structure(&words);
    let partial = |access| Touched { name: "workspace", address: workspace, bytes, access };
    let name = if runs.bm == 128 { "conv2d_dw_runs_128" } else { "conv2d_dw_runs_64" };
    let shared_bytes = shared_bytes(runs.bm, 0);
    let geometry = Geometry { grid_x: u32::try_from(tiles).ok()?, block_x: 2 * runs.bm as u32, shared_bytes };
    let first = [touched[0], touched[1], partial(Access::Write)];
    let sums = Launch::variant(name, dtype, &[], params, &first, geometry)?;

    let mut params = Params::new();
    params.pointers(&[workspace, dw]);
    params.long(volumes.w as u64);
    params.word(runs.runs as u32);
    params.word(u32::from(accumulate));
    let second = [partial(Access::Read), touched[2]];
    let block = 256;
    let geometry = Geometry::tiles(ceil(volumes.w, block) as u64, block as u64);
    let total = Launch::variant("conv2d_dw_reduce", dtype, &[block as i32], params, &second, geometry)?;
    Some(vec![sums, total])
}
