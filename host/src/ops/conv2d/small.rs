//! The launch of a small convolution: what `device/src/conv2d_small.rs` computes, described in its words.

use super::plan::{Problem, Volumes};
use super::tiled::{Channels, Machine, ceil};
use crate::element::DType;
use crate::launch::{Geometry, Launch, Params, Structure, Touched};

/// Products of elements up to which one launch is over before those of the other kernels are.
const MAX_PRODUCTS: i64 = 1 << 25;

/// Terms of a sum up to which the portable kernel's forward is over sooner still: it waits for memory no more often, and
/// adds no parts.
const FEW_TERMS: i64 = 27;

/// Warps of a block, and of one where few blocks share long sums.
const WARPS: i64 = 8;
const MANY_WARPS: i64 = 16;

/// Channels of a warp on either side.
const CHANNELS: i64 = 4;

/// Terms of a product that a warp looks up at once, the places for them, and the bytes of each beside its weights.
const TERMS: i64 = 32;
const PLACES: i64 = 36;
const WHERE: i64 = 16;

/// Terms of a product that a lane loads under one condition: fewer are not worth a part or a lane of their own.
const GROUP: i64 = 8;

/// The most that lanes sharing a pixel are, as a power of two.
const MAX_SPLIT: i64 = 2;

/// Warps that keep a multiprocessor busy, and that it holds at once.
const BUSY: i64 = 16;
const HELD: i64 = 24;

/// What of a convolution is computed.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Forward,
    Gradients { dx: bool, dw: bool },
}

impl Part {
    /// Whether the portable kernel is over sooner still.
    pub(super) fn is_tiny(self, problem: &Problem) -> bool {
        matches!(self, Self::Forward) && i64::from(problem.c_in_per_group()) * problem.taps() <= FEW_TERMS
    }
}

/// Whether the kernel serves: floats, elements that 32-bit numbers count, and few products; in f64, which has no other
/// kernel than the portable one, any number.
pub(super) fn suits(problem: &Problem, dtype: DType) -> bool {
    let Volumes { x, w, y } = problem.volumes();
    let products = y.checked_mul(i64::from(problem.c_in_per_group()) * problem.taps());
    let padded = |i: usize| i64::from(problem.image[i]) + 2 * i64::from(problem.pad[i]);
    matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
        && [x, w, y].iter().all(|&volume| (1..1 << 31).contains(&volume))
        && (dtype == DType::F64 || products.is_some_and(|products| products <= MAX_PRODUCTS))
        && padded(0).max(padded(1)) < 1 << 30
        && problem.stride.iter().all(|&stride| stride < 1 << 30)
}

/// Parts of a reduction, at most `most` and a power of two, so that `units` of them keep the device busy.
fn parts(units: i64, most: i64, warps: i64, m: Machine<'_>) -> i64 {
    let wanted = ceil(busy(m), units).min(most);
    [16, 8, 4, 2].into_iter().find(|&parts| parts <= wanted.min(warps)).unwrap_or(1)
}

/// Warps that keep the device busy.
fn busy(m: Machine<'_>) -> i64 {
    BUSY * i64::from(m.target.multiprocessors)
}

/// Warps of a block for a product, wgrad or both: many where those of few blocks, all sharing one reduction, leave the
/// device idle. In f64 a thread has too many registers for that.
fn warps(problem: &Problem, m: Machine<'_>, reverse: bool, [product, gradient]: [bool; 2]) -> i64 {
    let [b, g, rows, channels] =
        [problem.b, problem.g, problem.c_out_per_group(), problem.c_in_per_group()].map(i64::from);
    let (out, of_out) = if reverse { (problem.image, channels) } else { (problem.output, rows) };
    let pixels = b * i64::from(out[0]) * i64::from(out[1]);
    let of_product = ceil(pixels, 32) * ceil(of_out, CHANNELS) * g;
    let of_gradient = problem.taps() * ceil(rows, CHANNELS) * ceil(channels, CHANNELS) * g;
    let units = i64::from(product) * of_product + i64::from(gradient) * of_gradient;
    if units * MANY_WARPS <= busy(m) && m.dtype != DType::F64 { MANY_WARPS } else { WARPS }
}

/// What a kernel's half of the launch is made of, beside its words.
#[derive(Clone, Copy)]
struct Share {
    blocks: i64,
    shared: i64,
}

/// Appends an axis of forward or dgrad, and returns its classes, the positions of each, and the most taps of any.
fn axis(words: &mut Structure, problem: &Problem, reverse: bool, i: usize) -> [i64; 3] {
    let (kernel, stride, pad) =
        (i64::from(problem.kernel[i]), i64::from(problem.stride[i]), i64::from(problem.pad[i]));
    let (image, output) = (i64::from(problem.image[i]), i64::from(problem.output[i]));
    let (source, out) = if reverse { (output, image) } else { (image, output) };
    let classes = if reverse { stride.min(out) } else { 1 };
    // The class whose positions begin with the filter's first tap meets the most.
    let first = if classes == stride { (stride - pad % stride) % stride } else { 0 };
    let cells = ceil(out, classes);
    let taps = if reverse { ceil(kernel, stride) } else { kernel };
    words.word(i64::from(reverse)).divisor(stride).word(pad).word(kernel).word(source).word(out);
    words.divisor(classes).word(first).divisor(cells).divisor(taps).divisor((taps - 1).max(1));
    [classes, cells, taps]
}

/// Appends forward or dgrad, and returns its share; none where it `runs` not. Nothing where 32 bits do not count what it
/// counts.
fn product(
    words: &mut Structure,
    problem: &Problem,
    m: Machine<'_>,
    warps: i64,
    reverse: bool,
    [runs, accumulate]: [bool; 2],
) -> Option<Share> {
    let channels = if reverse { Channels::input_gradient(problem) } else { Channels::forward(problem) };
    let [classes_h, cells_h, taps_h] = axis(words, problem, reverse, 0);
    let [classes_w, cells_w, taps_w] = axis(words, problem, reverse, 1);
    let pixels = i64::from(problem.b) * cells_h * cells_w;
    let row_blocks = ceil(channels.rows, CHANNELS);
    let terms = channels.reduced * taps_h * taps_w;
    let tiles = |split: i64| ceil(pixels, 32 >> split);
    let units = |split: i64| tiles(split) * classes_h * classes_w * row_blocks * channels.groups;
    let parts = parts(units(0), ceil(terms, GROUP), warps, m);
    // Where that leaves the device idle and lanes many terms, lanes share them.
    let shares = |split: i64| units(split) * parts <= busy(m) && (terms >> split) >= parts * GROUP;
    let split = (1..=MAX_SPLIT).rev().find(|&split| shares(split)).unwrap_or(0);
    let units = units(split);
    // With what a warp past the last adds to them.
    i32::try_from(if runs { (units * parts).max(terms) + MANY_WARPS } else { 0 }).ok()?;
    let blocks = if runs { ceil(units * parts, warps) } else { 0 };
    words.word(channels.filter_row).word(channels.filter_channel).word(channels.filter_group);
    words.word(channels.rows).word(channels.reduced).word(pixels).word(split);
    words.word(ceil(ceil(terms, parts), TERMS)).word(i64::from(accumulate)).word(units).word(blocks);
    words.divisor(parts).divisor(row_blocks).divisor(channels.groups).divisor(tiles(split));
    let of_warp = PLACES * (WHERE + CHANNELS * m.dtype.size().max(4) as i64);
    Some(Share { blocks, shared: if runs { warps * of_warp } else { 0 } })
}

/// Appends wgrad in blocks of so many warps, behind so many blocks, and returns its share; none where it `runs` not.
fn gradient(
    words: &mut Structure,
    problem: &Problem,
    m: Machine<'_>,
    [warps, before]: [i64; 2],
    [runs, accumulate]: [bool; 2],
) -> Share {
    let [out_h, out_w] = problem.output.map(i64::from);
    let (rows, channels) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
    let groups = i64::from(problem.g);
    let pixels = i64::from(problem.b) * out_h * out_w;
    let (row_blocks, channel_blocks) = (ceil(rows, CHANNELS), ceil(channels, CHANNELS));
    let units = problem.taps() * channel_blocks * row_blocks * groups;
    let parts = parts(units, ceil(pixels, 64), warps, m);
    // Half as many where all blocks then start at once.
    let fits = |parts: i64| before * warps + units * parts <= HELD * i64::from(m.target.multiprocessors);
    let parts = if !fits(parts) && fits(parts / 2) { (parts / 2).max(1) } else { parts };
    for pair in [problem.image, problem.stride, problem.pad] {
        words.word(i64::from(pair[0])).word(i64::from(pair[1]));
    }
    let blocks = if runs { ceil(units * parts, warps) } else { 0 };
    words.word(rows).word(channels).word(groups).word(pixels).word(i64::from(accumulate));
    words.word(units).word(blocks);
    words.divisor(parts).divisor(problem.taps()).divisor(i64::from(problem.kernel[1]));
    words.divisor(channel_blocks).divisor(row_blocks).divisor(out_w).divisor(out_h);
    let sum = m.dtype.size().max(4) as i64;
    Share { blocks, shared: if runs { warps * CHANNELS * CHANNELS * sum } else { 0 } }
}

/// The launch of a part, or nothing where the kernel does not serve. `touched` are x, w and y; or dy, w, dx, x and dw,
/// of which those that `part` leaves out are not touched.
pub(super) fn launch(
    problem: &Problem,
    m: Machine<'_>,
    part: Part,
    touched: [Touched; 5],
    accumulate: bool,
) -> Option<Launch> {
    if !suits(problem, m.dtype) {
        return None;
    }
    let (reverse, dx, dw) = match part {
        Part::Forward => (false, true, false),
        Part::Gradients { dx, dw } => (true, dx, dw),
    };
    let (mut left, mut right) = (Structure::new(), Structure::new());
    let warps = warps(problem, m, reverse, [dx, dw]);
    let product = product(&mut left, problem, m, warps, reverse, [dx, accumulate])?;
    let gradient = gradient(&mut right, problem, m, [warps, product.blocks], [dw, accumulate]);
    let mut params = Params::new();
    params.pointers(&touched.map(|touched| touched.address));
    params.structure(&left);
    params.structure(&right);
    let geometry = Geometry {
        grid_x: u32::try_from(product.blocks + gradient.blocks).ok()?,
        block_x: 32 * warps as u32,
        shared_bytes: product.shared.max(gradient.shared) as u32,
    };
    let used: Vec<Touched> = touched.into_iter().filter(|touched| touched.bytes > 0).collect();
    Launch::variant("conv2d_small", m.dtype, &[], params, &used, geometry)
}
