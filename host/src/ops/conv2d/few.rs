//! The launches of dgrad for few input channels, and of forward for few output channels: what
//! `device/src/conv2d_few.rs` computes, described in its words; on tensor cores where they serve.

use super::depthwise::{Axis, Planes};
use super::few_mma;
use super::plan::Problem;
use super::tiled::{Channels, Machine, ceil};
use crate::element::DType;
use crate::launch::{Geometry, Launch, Params, Structure, Touched};

/// Channels of the result in a group: with more, tiles are worth their padding.
const MAX_CHANNELS: i64 = 15;

/// Rows of cells, channels, and classes of rows and of columns, of a thread.
const CELLS: i64 = 7;
const CHANNELS: i64 = 4;
const CLASSES: i64 = 2;

/// Strides: each residue class has its own taps.
const MAX_STRIDE: i64 = 16;

/// Products below which one launch of the portable kernel is over sooner.
const MIN_PRODUCTS: i64 = 1 << 16;

/// Threads of a block.
const THREADS: i64 = 128;

/// Shared memory with which three blocks share a multiprocessor, and of a block at most.
const GOOD_SHARED: i64 = 48 << 10;
const MAX_SHARED: i64 = 64 << 10;

/// Whether there are few input channels, work enough, and 32-bit numbers suffice.
pub(super) fn suits(problem: &Problem, dtype: DType) -> bool {
    serves(problem, dtype, i64::from(problem.c_in_per_group()))
}

/// The same for so many channels of the result.
fn serves(problem: &Problem, dtype: DType, channels: i64) -> bool {
    let product = |factors: &[i64]| factors.iter().try_fold(1_i64, |n, &f| n.checked_mul(f));
    let below = |factors: &[i64]| product(factors).is_some_and(|n| n < (1 << 31) - (1 << 16));
    let [b, c_in, c_out] = [problem.b, problem.c_in, problem.c_out].map(i64::from);
    let [h, w] = problem.image.map(i64::from);
    let [oh, ow] = problem.output.map(i64::from);
    let [pad_h, pad_w] = problem.pad.map(i64::from);
    let products = product(&[b, c_out, oh, ow, i64::from(problem.c_in_per_group()), problem.taps()]);
    matches!(dtype, DType::F16 | DType::Bf16 | DType::F32)
        && (1..=MAX_CHANNELS).contains(&channels)
        && problem.stride.iter().all(|&stride| i64::from(stride) <= MAX_STRIDE)
        && products.is_none_or(|products| products >= MIN_PRODUCTS)
        && below(&[b, c_in.max(c_out), h + 2 * pad_h])
        && below(&[h + 2 * pad_h, w + 2 * pad_w])
        && below(&[oh, ow])
        && below(&[problem.taps(), 16, c_in.max(c_out)])
}

/// One axis of forward with stride 1, as if it were dgrad's; nothing with more pads than dgrad can have.
fn forward_axis(problem: &Problem, i: usize) -> Option<Axis> {
    let Axis { source, out, taps, start, .. } = Axis::forward(problem, i);
    let shift = taps - 1 + start;
    let axis = Axis { source, out, taps, step: 1, classes: 1, shift, start: 1 - taps };
    (problem.stride[i] == 1 && shift >= 0).then_some(axis)
}

/// Forward for few output channels, or nothing where the kernel does not serve. `touched` are x, w and y.
pub(super) fn forward(problem: &Problem, m: Machine<'_>, touched: [Touched; 3]) -> Option<Launch> {
    let channels = Channels::forward(problem);
    if !serves(problem, m.dtype, channels.rows) {
        return None;
    }
    launch(problem, m, [forward_axis(problem, 0)?, forward_axis(problem, 1)?], &channels, touched, None)
}

/// dgrad, or nothing where the kernel does not serve. `touched` are dy, w and dx.
pub(super) fn input_gradient(
    problem: &Problem,
    m: Machine<'_>,
    touched: [Touched; 3],
    accumulate: bool,
) -> Option<Launch> {
    if !suits(problem, m.dtype) {
        return None;
    }
    let axes = [Axis::input_gradient(problem, 0), Axis::input_gradient(problem, 1)];
    launch(problem, m, axes, &Channels::input_gradient(problem), touched, Some(accumulate))
}

/// Forward or, where something is said of its sums, dgrad.
fn launch(
    problem: &Problem,
    m: Machine<'_>,
    [y, x]: [Axis; 2],
    of: &Channels,
    touched: [Touched; 3],
    accumulate: Option<bool>,
) -> Option<Launch> {
    if let Some(launch) = few_mma::launch(problem, m, [y, x], of, touched, accumulate) {
        return Some(launch);
    }
    let ((first_h, rows), (first_w, all_columns)) = (y.cells(), x.cells());
    let column_blocks = ceil(all_columns, THREADS);
    let columns = ceil(all_columns, column_blocks);
    let all_groups = ceil(rows, CELLS);
    let row_groups = (THREADS / columns).min(all_groups);
    let strips = ceil(all_groups, row_groups);
    let (left, pitch) = x.words();
    let lines = row_groups * CELLS + y.taps - 1;
    let weights = y.taps * x.taps * CHANNELS * CLASSES * CLASSES;
    // A channel of dy and its weights.
    let channel = lines.checked_mul(pitch)?.checked_add(weights)?.checked_mul(4)?;
    let (channels, reduced) = (of.rows, of.reduced);
    let staged = (GOOD_SHARED / channel).clamp(1, reduced);
    let shared_bytes = staged.checked_mul(channel).filter(|&bytes| bytes <= MAX_SHARED)?;
    let channel_blocks = ceil(channels, CHANNELS);
    let class_blocks = [ceil(y.classes, CLASSES), ceil(x.classes, CLASSES)];
    let groups = i64::from(problem.g);
    let parts = channel_blocks * class_blocks[0] * class_blocks[1] * column_blocks * strips;
    let tiles = parts.checked_mul(groups)?.checked_mul(i64::from(problem.b))?;
    if tiles >= 1 << 31 {
        return None;
    }
    let mut words = Structure::new();
    Planes { plane: y.source * x.source, extents: [y.source, x.source], words: [left, pitch], lines }
        .describe(&mut words, m.dtype);
    words.word(channels).word(reduced).word(staged).word(y.out).word(x.out).word(first_h).word(first_w);
    words.word(y.shift).word(x.shift).word(row_groups).word(tiles);
    words.word(i64::from(accumulate == Some(true))).word(i64::from(accumulate.is_none()));
    words.word(of.filter_channel).word(of.filter_row);
    words.word(all_columns).divisor(columns).divisor(column_blocks).divisor(strips);
    words.divisor(channel_blocks).divisor(class_blocks[0]).divisor(class_blocks[1]);
    words.divisor(groups).divisor(weights).divisor(x.taps);
    let mut params = Params::new();
    params.pointers(&touched.map(|touched| touched.address));
    params.structure(&words);
    let [kh, kw] = problem.kernel;
    let constants = [y.taps, x.taps, y.classes, x.classes].map(|constant| constant as i32);
    let [taps_h, taps_w, stride_h, stride_w] = constants;
    let constants = [taps_h, taps_w, stride_h, stride_w, kh, kw, channels.min(CHANNELS) as i32];
    let geometry = Geometry {
        grid_x: tiles as u32,
        block_x: (ceil(row_groups * columns, 32) * 32) as u32,
        shared_bytes: shared_bytes as u32,
    };
    Launch::variant("conv2d_few", m.dtype, &constants, params, &touched, geometry)
}
