//! The tiled kernels' launches: what `device/src/conv2d_tiled.rs` computes, described in its words.

use super::blocked;
use super::blocked_dw;
use super::depthwise;
use super::few_dw;
use super::patch::{NoTile, Product};
use super::patch_dw;
use super::patch_tile::CLASSES;
use super::plan::{Problem, Volumes};
use super::pointwise;
use super::prepare::Preparation;
use crate::element::DType;
use crate::kernel::{Algorithm, MathMode};
use crate::launch::{Access, Geometry, Launch, Params, Structure, Target, Touched};

/// Columns of a block's tile.
const BN: i64 = 128;

/// Steps of the reduction that are staged at a time, by the kernels over taps and by the others.
const TAP_BK: i64 = 16;
const BK: i64 = 8;

/// Taps that the kernels can have.
const MAX_TAPS: i64 = 64;

/// Bytes of the tables of offsets in front of the stages.
const TABLES: i64 = 2 * MAX_TAPS * 4;

/// The most bytes of partial sums that wgrad asks for.
const MAX_PARTIAL: i64 = 48 << 20;

/// The least pixels of a run of wgrad: shorter ones would be mostly overhead.
const MIN_RUN: i64 = 512;

/// Runs beyond which several threads add those of an element.
const MANY_RUNS: i64 = 16;

/// Threads of a block that sweeps elements.
const SWEEP: i64 = 256;

/// What a product runs on.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    pub(super) dtype: DType,
    pub(super) target: &'a Target,
    pub(super) math: MathMode,
    /// Which families may serve.
    pub(super) algorithm: Algorithm,
}

impl Machine<'_> {
    /// Shared memory that a block can ask for in bytes (CUDA C++ Programming Guide, "Compute Capabilities").
    pub(super) fn shared_limit(self) -> i64 {
        (match self.target.capability {
            (7, 0) => 96,
            (7, _) => 64,
            (8, 0 | 7) => 163,
            (9 | 10, _) => 227,
            _ => 99,
        }) << 10
    }

    /// What a family has to serve with, if it may serve.
    pub(super) fn family<T>(self, family: Algorithm, way: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.algorithm.allows(family) { way() } else { None }
    }

    /// Whether tensor cores multiply such elements: f32 as TF32, or [split](Self::split).
    pub(super) fn multiplies(self) -> bool {
        self.target.capability >= (8, 0) && matches!(self.dtype, DType::F16 | DType::Bf16 | DType::F32)
    }

    /// Whether products of f32 are split into those of TF32 parts there.
    pub(super) fn split(self) -> bool {
        self.dtype == DType::F32 && !self.mma()
    }

    /// Whether tensor cores serve: their TF32 products are exact for 16-bit floats, and f32 asks for them by name.
    pub(super) fn mma(self) -> bool {
        self.target.capability >= (8, 0) && (self.dtype != DType::F32 || self.math == MathMode::Tf32)
    }
}

/// Dynamic shared memory: two buffers of both operands' stages, behind `head` bytes.
fn shared_bytes(bm: i64, bk: i64, head: i64) -> u32 {
    (head + 2 * bk * 4 * ((bm + 8) + (BN + 8))) as u32
}

pub(super) const fn ceil(n: i64, d: i64) -> i64 {
    (n + d - 1) / d
}

/// One axis of a gather: pixels of the result against the source.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    /// Pixels of the result that take part.
    pub(super) pixels: i64,
    /// Taps that take part.
    pub(super) taps: i64,
    /// The source's extent.
    pub(super) source: i32,
    /// The source position that pixel 0 meets with tap 0, and between pixels and between taps.
    pub(super) start: i64,
    pub(super) step: i64,
    pub(super) tap: i64,
    /// The result's position of pixel 0, and between pixels.
    pub(super) out_start: i64,
    pub(super) out_step: i64,
    /// The filter's first tap, and between taps.
    pub(super) filter_start: i64,
    pub(super) filter_step: i64,
}

/// The part of a product that is the same for both axes.
pub(super) struct Channels {
    pub(super) groups: i64,
    /// Channels of the result and of the reduction, in a group.
    pub(super) rows: i64,
    pub(super) reduced: i64,
    /// Filter elements between channels of the result and of the reduction, of a group, and of a row of taps.
    pub(super) filter_row: i64,
    pub(super) filter_channel: i64,
    pub(super) filter_group: i64,
    pub(super) filter_width: i64,
}

/// A product's tensors.
pub(super) struct Tensors<'a> {
    /// Source, filter and result.
    pub(super) touched: &'a [Touched; 3],
    /// Rows and columns of the result.
    pub(super) out: [i64; 2],
    pub(super) accumulate: bool,
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
    words.finish();
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

/// The filter packed for the kernels over taps.
struct Packed {
    rows: i64,
    channels: i64,
    bytes: u64,
}

impl Packed {
    /// How the filter is packed, or nothing where so few channels are reduced that padding them would cost more
    /// than it saves.
    fn new(channels: &Channels, taps: i64) -> Option<Self> {
        let rows = ceil(channels.rows, Runs::BM) * Runs::BM;
        let reduced = ceil(channels.reduced, TAP_BK) * TAP_BK;
        let len = channels.groups.checked_mul(taps * rows)?.checked_mul(reduced)?;
        let worth = channels.reduced >= TAP_BK && reduced * 4 <= channels.reduced * 5;
        (worth && len < 1 << 28).then_some(Self { rows, channels: reduced, bytes: len as u64 * 4 })
    }

    /// The launch that packs it to `workspace`.
    fn launch(
        &self,
        m: Machine<'_>,
        channels: &Channels,
        taps: i64,
        filter: Touched,
        workspace: u64,
    ) -> Option<Launch> {
        let len = self.bytes as i64 / 4;
        let mut words = Structure::new();
        words.long(channels.filter_group).word(channels.filter_row).word(channels.filter_channel);
        words.word(channels.rows).word(channels.reduced).word(len);
        words.divisor(self.rows).divisor(self.channels).divisor(taps).finish();
        let mut params = Params::new();
        params.pointers(&[filter.address, workspace]);
        params.structure(&words);
        let touched = [filter, self.touched(workspace, Access::Write)];
        let geometry = Geometry::tiles(ceil(len, SWEEP) as u64, SWEEP as u64);
        Launch::variant("conv2d_pack_filter", m.dtype, &[SWEEP as i32], params, &touched, geometry)
    }

    fn touched(&self, workspace: u64, access: Access) -> Touched {
        Touched { name: "workspace", address: workspace, bytes: self.bytes, access }
    }
}

/// A gather's launch, over taps of a packed filter if there is one; none when the result is empty.
fn gather(
    m: Machine<'_>,
    b: i32,
    axes: [Axis; 2],
    channels: &Channels,
    packed: Option<(&Packed, u64)>,
    taps: i64,
    tensors: &Tensors<'_>,
) -> Option<Launch> {
    let [y, x] = axes;
    let pixels = i64::from(b) * y.pixels * x.pixels;
    if pixels == 0 || channels.rows == 0 {
        return None;
    }
    let pixel_tiles = ceil(pixels, BN);
    let bm = Runs::BM;
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
    words.divisor(row_tiles).divisor(pixel_tiles).finish();
    words.long(channels.groups * channels.rows * plane).word(plane);
    words.word(y.out_start * tensors.out[1] + x.out_start);
    words.word(y.out_step * tensors.out[1]).word(x.out_step);
    words.word(i64::from(tensors.accumulate)).finish();
    let [from, filter, out] = tensors.touched.map(|touched| touched.address);
    let mut touched = *tensors.touched;
    let mut params = Params::new();
    let (name, bk) = if let Some((packed, workspace)) = packed {
        params.pointers(&[from, workspace, out]);
        params.structure(&words);
        let mut layout = Structure::new();
        layout.word(packed.rows).word(packed.channels).word(taps);
        params.structure(&layout);
        touched[1] = packed.touched(workspace, Access::Read);
        ("conv2d_taps_64", TAP_BK)
    } else {
        params.pointers(&[from, filter, out]);
        params.structure(&words);
        ("conv2d_gather_64", BK)
    };
    let shared_bytes = shared_bytes(bm, bk, TABLES);
    let geometry = Geometry { grid_x: tiles as u32, block_x: 2 * bm as u32, shared_bytes };
    Launch::variant(name, m.dtype, &[], params, &touched, geometry)
}

impl Channels {
    /// Of the forward product.
    pub(super) fn forward(problem: &Problem) -> Self {
        let (rows, reduced) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
        Self {
            groups: i64::from(problem.g),
            rows,
            reduced,
            filter_row: reduced * problem.taps(),
            filter_channel: problem.taps(),
            filter_group: rows * reduced * problem.taps(),
            filter_width: i64::from(problem.kernel[1]),
        }
    }

    /// Of dgrad.
    pub(super) fn input_gradient(problem: &Problem) -> Self {
        let forward = Self::forward(problem);
        Self {
            rows: forward.reduced,
            reduced: forward.rows,
            filter_row: forward.filter_channel,
            filter_channel: forward.filter_row,
            ..forward
        }
    }
}

/// Bytes that the forward product has use for.
pub(super) fn forward_workspace(problem: &Problem, m: Machine<'_>) -> u64 {
    let suits = suits(problem, m.dtype, problem.c_out_per_group());
    filter_bytes(suits, problem, m, &Channels::forward(problem), &forward_axes(problem))
}

/// Bytes that dgrad has use for.
pub(super) fn input_gradient_workspace(problem: &Problem, m: Machine<'_>) -> u64 {
    let suits = suits(problem, m.dtype, problem.c_in_per_group());
    filter_bytes(suits, problem, m, &Channels::input_gradient(problem), &residue_axes(problem))
}

fn filter_bytes(
    suits: bool,
    problem: &Problem,
    m: Machine<'_>,
    channels: &Channels,
    axes: &(impl Iterator<Item = [Axis; 2]> + Clone),
) -> u64 {
    if !suits {
        return 0;
    }
    // Whether the tensors lie on a boundary is not known here.
    let bytes =
        |aligned| Filter::new(problem, m, channels, axes.clone(), aligned).map_or(0, |filter| filter.bytes());
    bytes(true).max(bytes(false))
}

/// Where dgrad leaves dy in the blocked format, if it does: bytes from the start of its workspace.
pub(super) fn blocked_dy(problem: &Problem, m: Machine<'_>) -> Option<u64> {
    if !suits(problem, m.dtype, problem.c_in_per_group()) || !m.algorithm.allows(Algorithm::Blocked) {
        return None;
    }
    let channels = Channels::input_gradient(problem);
    blocked::Product::new(problem, m, &channels, residue_axes(problem)).map(|product| product.image(0))
}

fn forward_axes(problem: &Problem) -> impl Iterator<Item = [Axis; 2]> + Clone {
    std::iter::once([forward_axis(problem, 0), forward_axis(problem, 1)])
}

/// The axes of dgrad's classes.
fn residue_axes(problem: &Problem) -> impl Iterator<Item = [Axis; 2]> + Clone {
    let [stride_h, stride_w] = problem.stride.map(i64::from);
    let classes = (0..stride_h).flat_map(move |h| (0..stride_w).map(move |w| (h, w)));
    classes.map(|(h, w)| [residue_axis(problem, 0, h), residue_axis(problem, 1, w)])
}

/// One axis of the forward product and of wgrad.
pub(super) fn forward_axis(problem: &Problem, i: usize) -> Axis {
    Axis {
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
    }
}

/// The forward product, or nothing where the tiles do not suit it. `touched` are x, w and y.
pub(super) fn forward(
    problem: &Problem,
    m: Machine<'_>,
    touched: [Touched; 3],
    workspace: Option<u64>,
    preparation: &mut Preparation,
) -> Option<Vec<Launch>> {
    if !suits(problem, m.dtype, problem.c_out_per_group()) {
        return None;
    }
    let out = problem.output.map(i64::from);
    let tensors = Tensors { touched: &touched, out, accumulate: false };
    let channels = Channels::forward(problem);
    products(problem, m, &channels, forward_axes(problem), &tensors, workspace, preparation)
}

/// How a product reads its filter.
enum Filter {
    /// Packed in chunks, for 1×1 filters.
    Pointwise(pointwise::Product),
    /// Packed in chunks, beside the image in the blocked format.
    Blocked(blocked::Product),
    /// Packed in chunks, for the kernels over patches.
    Chunks(Product),
    /// Packed tap by tap, for those over taps.
    Taps(Packed),
}

impl Filter {
    /// The way that suits a product best, or nothing where the filter serves as it is.
    fn new(
        problem: &Problem,
        m: Machine<'_>,
        channels: &Channels,
        axes: impl Iterator<Item = [Axis; 2]> + Clone,
        aligned: bool,
    ) -> Option<Self> {
        let pointwise = || pointwise::Product::new(problem, m, channels).filter(|_| aligned);
        if let Some(product) = m.family(Algorithm::Pointwise, pointwise) {
            return Some(Self::Pointwise(product));
        }
        let blocked = || Some(Self::Blocked(blocked::Product::new(problem, m, channels, axes)?));
        let chunks = || Some(Self::Chunks(Product::new(problem, m, channels)?));
        let taps = || Some(Self::Taps(Packed::new(channels, problem.taps())?));
        let way = m.family(Algorithm::Blocked, blocked);
        let way = way.or_else(|| m.family(Algorithm::Patches, chunks));
        way.or_else(|| m.family(Algorithm::Tiled, taps))
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Pointwise(product) => product.bytes(),
            Self::Blocked(product) => product.bytes(),
            Self::Chunks(product) => product.filter.bytes,
            Self::Taps(packed) => packed.bytes,
        }
    }
}

/// The packing of the filter, where it is worth it and there is a workspace, and the gathers that follow.
fn products(
    problem: &Problem,
    m: Machine<'_>,
    channels: &Channels,
    axes: impl Iterator<Item = [Axis; 2]> + Clone,
    tensors: &Tensors<'_>,
    workspace: Option<u64>,
    preparation: &mut Preparation,
) -> Option<Vec<Launch>> {
    let taps = problem.taps();
    let aligned = pointwise::aligned(&tensors.touched[..1]);
    let filter = workspace
        .and_then(|at| Filter::new(problem, m, channels, axes.clone(), aligned).map(|filter| (filter, at)));
    let mut launches = Vec::new();
    match &filter {
        Some((Filter::Pointwise(product), at)) => {
            launches.push(product.launch(m, channels, tensors, *at, preparation)?);
        }
        Some((Filter::Blocked(product), at)) => {
            launches.push(product.launch(m, axes, channels, taps, tensors, *at, preparation)?);
        }
        Some((Filter::Chunks(product), at)) => {
            let classes: Vec<_> = axes.clone().collect();
            for classes in classes.chunks(CLASSES) {
                match product.launch(m, problem.b, classes, channels, taps, tensors, *at) {
                    Ok(launch) => launches.extend(launch),
                    Err(NoTile) => return products(problem, m, channels, axes, tensors, None, preparation),
                }
            }
            if !launches.is_empty() {
                preparation.filter(product.filter.pack(m, channels, taps, tensors.touched[1], *at));
            }
        }
        Some((Filter::Taps(packed), at)) => {
            let pack = packed.launch(m, channels, taps, tensors.touched[1], *at)?;
            let packed = Some((packed, *at));
            launches
                .extend(axes.filter_map(|axes| gather(m, problem.b, axes, channels, packed, taps, tensors)));
            // A result without elements needs no filter either.
            if !launches.is_empty() {
                launches.insert(0, pack);
            }
        }
        None if !m.algorithm.allows(Algorithm::Tiled) => return None,
        None => {
            launches
                .extend(axes.filter_map(|axes| gather(m, problem.b, axes, channels, None, taps, tensors)));
        }
    }
    Some(launches)
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

/// dgrad, a launch for each residue class of the stride, or nothing where the tiles do not suit it. `touched` are
/// dy, w and dx.
pub(super) fn input_gradient(
    problem: &Problem,
    m: Machine<'_>,
    touched: [Touched; 3],
    accumulate: bool,
    workspace: Option<u64>,
    preparation: &mut Preparation,
) -> Option<Vec<Launch>> {
    // Beyond this, so many small launches would cost more than they spare.
    const MAX_CLASSES: i64 = 16;
    let [stride_h, stride_w] = problem.stride.map(i64::from);
    if !suits(problem, m.dtype, problem.c_in_per_group()) || stride_h * stride_w > MAX_CLASSES {
        return None;
    }
    let tensors = Tensors { touched: &touched, out: problem.image.map(i64::from), accumulate };
    let channels = Channels::input_gradient(problem);
    products(problem, m, &channels, residue_axes(problem), &tensors, workspace, preparation)
}

/// How wgrad's reduction is split.
struct Runs {
    row_tiles: i64,
    column_tiles: i64,
    pixels: i64,
    /// Pixels of a run, and how many runs.
    length: i64,
    count: i64,
}

impl Runs {
    /// Channels of a tile.
    const BM: i64 = 64;

    fn new(problem: &Problem, volumes: &Volumes, target: &Target) -> Self {
        let columns = i64::from(problem.c_in_per_group()) * problem.taps();
        let pixels = i64::from(problem.b) * i64::from(problem.output[0]) * i64::from(problem.output[1]);
        let column_tiles = ceil(columns, BN);
        let row_tiles = ceil(i64::from(problem.c_out_per_group()), Self::BM);
        // Two waves of the three blocks that a multiprocessor holds, so that the last wave is no great part.
        let wanted = 6 * i64::from(target.multiprocessors);
        let wanted = (wanted / (row_tiles * column_tiles * i64::from(problem.g))).max(1);
        let most = (pixels / MIN_RUN).min(MAX_PARTIAL / (4 * volumes.w).max(1)).max(1);
        let length = ceil(ceil(pixels, wanted.min(most)).max(1), BK) * BK;
        Self { row_tiles, column_tiles, pixels, length, count: ceil(pixels, length).max(1) }
    }
}

/// How wgrad runs: some kernel leaves partial sums of runs of pixels, and another adds them.
pub(super) struct WeightGradient {
    way: Way,
    /// Elements of dw.
    volume: i64,
    /// Bytes of images in the blocked format.
    images: i64,
    /// What serves tensors that do not lie on the boundary that this needs.
    unaligned: Option<Box<WeightGradient>>,
}

/// What leaves the partial sums.
enum Way {
    Depthwise(depthwise::Gradient),
    Few(few_dw::Gradient),
    Pointwise(pointwise::Gradient),
    Blocked(blocked_dw::Gradient),
    Patches(patch_dw::Gradient),
    Tiles(Runs),
}

impl WeightGradient {
    /// Nothing where only the portable kernel serves. `shared` says whether dgrad leaves dy in the blocked format; `parts`
    /// is how many parts of the batch x is brought to it in at least.
    pub(super) fn new(problem: &Problem, m: Machine<'_>, shared: bool, parts: i64) -> Option<Self> {
        let volumes = problem.volumes();
        let any = Self::unaligned(problem, &volumes, m, shared, parts);
        let pointwise = || pointwise::Gradient::new(problem, &volumes, m);
        let Some(gradient) = m.family(Algorithm::Pointwise, pointwise) else {
            return any;
        };
        let way = Way::Pointwise(gradient);
        Some(Self { way, volume: volumes.w, images: 0, unaligned: any.map(Box::new) })
    }

    /// What serves tensors that lie anywhere.
    fn unaligned(
        problem: &Problem,
        volumes: &Volumes,
        m: Machine<'_>,
        shared: bool,
        parts: i64,
    ) -> Option<Self> {
        let depthwise = || Some(Way::Depthwise(depthwise::Gradient::depthwise(problem, volumes, m)?));
        let few = || Some(Way::Few(few_dw::Gradient::new(problem, volumes, m)?));
        let blocked = || Some(Way::Blocked(blocked_dw::Gradient::new(problem, volumes, m, parts)?));
        let patches = || Some(Way::Patches(patch_dw::Gradient::new(problem, volumes, m)?));
        let tiles = || {
            let suits = suits(problem, m.dtype, problem.c_out_per_group()) && volumes.y > 0 && volumes.w > 0;
            suits.then(|| Way::Tiles(Runs::new(problem, volumes, m.target)))
        };
        // What is left has few channels on one side at least, or was asked for.
        let pairs = || Some(Way::Depthwise(depthwise::Gradient::new(problem, volumes, m)?));
        let way = m.family(Algorithm::Depthwise, depthwise);
        let way = way.or_else(|| m.family(Algorithm::Few, few));
        let way = way.or_else(|| m.family(Algorithm::Blocked, blocked));
        let way = way.or_else(|| m.family(Algorithm::Patches, patches));
        let way = way.or_else(|| m.family(Algorithm::Tiled, tiles));
        let way = way.or_else(|| m.family(Algorithm::Depthwise, pairs))?;
        let images = if let Way::Blocked(gradient) = &way { gradient.bytes(problem, m, shared) } else { 0 };
        Some(Self { way, volume: volumes.w, images, unaligned: None })
    }

    fn runs(&self) -> i64 {
        match &self.way {
            Way::Depthwise(gradient) => gradient.runs(),
            Way::Few(gradient) => gradient.runs(),
            Way::Pointwise(gradient) => gradient.runs(),
            Way::Blocked(gradient) => gradient.runs(),
            Way::Patches(gradient) => gradient.runs(),
            Way::Tiles(runs) => runs.count,
        }
    }

    /// Bytes of partial sums, rounded up to keep what follows on a boundary.
    fn partial(&self) -> u64 {
        ((self.runs() * self.volume * 4) as u64).next_multiple_of(256)
    }

    /// Bytes of partial sums and of images in the blocked format.
    pub(super) fn bytes(&self) -> u64 {
        let unaligned = self.unaligned.as_ref().map_or(0, |gradient| gradient.bytes());
        unaligned.max(self.partial() + self.images as u64)
    }

    /// The runs' partial sums, then their total. `touched` are dy, x and dw; `shared` says where dgrad left dy in the
    /// blocked format.
    pub(super) fn launches(
        &self,
        problem: &Problem,
        m: Machine<'_>,
        [dy, x, dw]: [Touched; 3],
        accumulate: bool,
        shared: Option<u64>,
        workspace: u64,
        preparation: &mut Preparation,
    ) -> Option<Vec<Launch>> {
        if let Way::Pointwise(_) = self.way
            && !pointwise::aligned(&[dy, x])
        {
            let gradient = self.unaligned.as_ref()?;
            return gradient.launches(problem, m, [dy, x, dw], accumulate, shared, workspace, preparation);
        }
        let bytes = (self.runs() * self.volume * 4) as u64;
        let partial = |access| Touched { name: "workspace", address: workspace, bytes, access };
        let (from, to) = ([dy, x], partial(Access::Write));
        let mut launches = match &self.way {
            Way::Depthwise(gradient) => vec![gradient.launch(problem, m, from, to)?],
            Way::Few(gradient) => vec![gradient.launch(problem, m, from, to)?],
            Way::Pointwise(gradient) => vec![gradient.launch(problem, m, from, to)?],
            Way::Blocked(gradient) => {
                gradient.launches(problem, m, from, shared, workspace + self.partial(), to, preparation)?
            }
            Way::Patches(gradient) => vec![gradient.launch(problem, m, from, to)?],
            Way::Tiles(runs) => vec![run_sums(problem, m, runs, from, to)?],
        };
        // Sums lie tap by tap where tensor cores leave them, and elsewhere as dw does.
        let (plane, taps) = if let Way::Blocked(_) | Way::Patches(_) = self.way {
            let plane = i64::from(problem.c_out_per_group()) * i64::from(problem.c_in_per_group());
            (plane, problem.taps())
        } else {
            (self.volume, 1)
        };
        let mut params = Params::new();
        params.pointers(&[workspace, dw.address]);
        params.long(self.volume as u64);
        let mut order = Structure::new();
        order.divisor(plane).divisor(taps);
        params.structure(&order);
        params.word(self.runs() as u32);
        // Many runs are shared by eight threads an element.
        let log_elements = if self.runs() > MANY_RUNS { 5 } else { 8 };
        params.word(log_elements);
        params.word(u32::from(accumulate));
        let second = [partial(Access::Read), dw];
        let geometry = Geometry {
            shared_bytes: 4 * SWEEP as u32,
            ..Geometry::tiles(ceil(self.volume, 1 << log_elements) as u64, SWEEP as u64)
        };
        let total = Launch::variant("conv2d_dw_reduce", m.dtype, &[], params, &second, geometry)?;
        launches.push(total);
        Some(launches)
    }
}

/// The launch that leaves the runs' sums in `partial`.
fn run_sums(
    problem: &Problem,
    m: Machine<'_>,
    runs: &Runs,
    [dy, x]: [Touched; 2],
    partial: Touched,
) -> Option<Launch> {
    let groups = i64::from(problem.g);
    let plane = i64::from(problem.output[0]) * i64::from(problem.output[1]);
    let (rows, cig) = (i64::from(problem.c_out_per_group()), i64::from(problem.c_in_per_group()));
    let tiles = runs.row_tiles * runs.column_tiles * groups * runs.count;
    let mut words = source([forward_axis(problem, 0), forward_axis(problem, 1)], i64::from(problem.c_in));
    words.long(i64::from(problem.c_out) * plane).word(plane);
    words.word(rows).word(cig * problem.taps()).word(cig).word(runs.pixels).word(runs.length).word(tiles);
    words.divisor(runs.row_tiles).divisor(runs.column_tiles).divisor(groups).finish();
    let mut params = Params::new();
    params.pointers(&[dy.address, x.address, partial.address]);
    params.structure(&words);
    let shared_bytes = shared_bytes(Runs::BM, BK, 0);
    let geometry =
        Geometry { grid_x: u32::try_from(tiles).ok()?, block_x: 2 * Runs::BM as u32, shared_bytes };
    Launch::variant("conv2d_dw_runs_64", m.dtype, &[], params, &[dy, x, partial], geometry)
}
