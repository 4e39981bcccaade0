//! The launch of a small convolution: what `device/src/conv2d_small.rs` computes, described in its words.

use super::plan::{Problem, Volumes};
use super::tiled::{Channels, Machine, ceil};
use crate::element::DType;
use crate::launch::{Geometry, Launch, Params, Structure, Touched};

/// Products of elements up to which one launch is over before those of the other kernels are.
const MAX_PRODUCTS: i64 = 1 << 25;

/// Terms of a sum up to which the portable kernel's forward is over sooner still: it waits for memory no more often, and
/// adds no parts.
const FEW_TERMS: i64 = 32;

/// Warps of a block, channels of a warp on either side, and reduced channels whose loads are in flight together.
const WARPS: i64 = 8;
const CHANNELS: i64 = 4;
const BATCH: i64 = 4;

/// Warps that keep a multiprocessor busy.
const BUSY: i64 = 16;

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

/// Parts of a reduction of at most `most`, so that `units` of them keep the device busy.
fn parts(units: i64, most: i64, m: Machine<'_>) -> i64 {
    let wanted = ceil(BUSY * i64::from(m.target.multiprocessors), units).min(most);
    [8, 4, 2].into_iter().find(|&parts| parts <= wanted).unwrap_or(1)
}

/// Appends forward or dgrad, and returns its blocks; none of them where it `runs` not.
fn product(
    words: &mut Structure,
    problem: &Problem,
    m: Machine<'_>,
    reverse: bool,
    [runs, accumulate]: [bool; 2],
) -> i64 {
    let channels = if reverse { Channels::input_gradient(problem) } else { Channels::forward(problem) };
    let (source, out) =
        if reverse { (problem.output, problem.image) } else { (problem.image, problem.output) };
    for (i, &source) in source.iter().enumerate() {
        let (kernel, stride) = (i64::from(problem.kernel[i]), i64::from(problem.stride[i]));
        words.word(i64::from(reverse)).divisor(stride).word(i64::from(problem.pad[i])).word(kernel);
        words.word(i64::from(source)).word(if reverse { ceil(kernel, stride) } else { kernel });
    }
    let [out_h, out_w] = out.map(i64::from);
    let pixels = i64::from(problem.b) * out_h * out_w;
    let row_blocks = ceil(channels.rows, CHANNELS);
    let units = ceil(pixels, 32) * row_blocks * channels.groups;
    let parts = parts(units, ceil(channels.reduced, BATCH), m);
    let blocks = if runs { ceil(units * parts, WARPS) } else { 0 };
    words.word(channels.filter_row).word(channels.filter_channel).word(channels.filter_group);
    words.word(channels.rows).word(channels.reduced).word(ceil(channels.reduced, parts));
    words.word(pixels).word(i64::from(accumulate)).word(units).word(blocks);
    words.divisor(parts).divisor(row_blocks).divisor(channels.groups).divisor(out_w).divisor(out_h);
    blocks
}

/// Appends wgrad, and returns its blocks; none of them where it `runs` not.
fn gradient(words: &mut Structure, problem: &Problem, m: Machine<'_>, [runs, accumulate]: [bool; 2]) -> i64 {
    let [out_h, out_w] = problem.output.map(i64::from);
    let (rows, channels) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
    let groups = i64::from(problem.g);
    let pixels = i64::from(problem.b) * out_h * out_w;
    let (row_blocks, channel_blocks) = (ceil(rows, CHANNELS), ceil(channels, CHANNELS));
    let units = problem.taps() * channel_blocks * row_blocks * groups;
    let parts = parts(units, ceil(pixels, 64), m);
    for pair in [problem.image, problem.stride, problem.pad] {
        words.word(i64::from(pair[0])).word(i64::from(pair[1]));
    }
    let blocks = if runs { ceil(units * parts, WARPS) } else { 0 };
    words.word(rows).word(channels).word(groups).word(pixels).word(i64::from(accumulate));
    words.word(units).word(blocks);
    words.divisor(parts).divisor(problem.taps()).divisor(i64::from(problem.kernel[1]));
    words.divisor(channel_blocks).divisor(row_blocks).divisor(out_w).divisor(out_h);
    blocks
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
    let product_blocks = product(&mut left, problem, m, reverse, [dx, accumulate]);
    let gradient_blocks = gradient(&mut right, problem, m, [dw, accumulate]);
    let mut params = Params::new();
    params.pointers(&touched.map(|touched| touched.address));
    params.structure(&left);
    params.structure(&right);
    let sum = m.dtype.size().max(4) as i64;
    let geometry = Geometry {
        grid_x: u32::try_from(product_blocks + gradient_blocks).ok()?,
        block_x: 32 * WARPS as u32,
        shared_bytes: (WARPS * 32 * CHANNELS * sum) as u32,
    };
    let used: Vec<Touched> = touched.into_iter().filter(|touched| touched.bytes > 0).collect();
    Launch::variant("conv2d_small", m.dtype, &[], params, &used, geometry)
}
