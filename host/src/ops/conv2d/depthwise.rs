//! The depthwise kernels' launches: what `device/src/conv2d_depthwise.rs` and `conv2d_depthwise_dw.rs` compute, described
//! in their words.

use super::plan::{Problem, Volumes};
use super::tiled::{Machine, ceil};
use crate::element::DType;
use crate::launch::{Access, Geometry, Launch, Params, Structure, Touched};

/// Rows and columns of taps that a thread can have in registers.
const MAX_WINDOW: i64 = 7;

/// Output channels of an input channel: with more, the products are no longer moved by memory.
const MAX_MULTIPLIER: i64 = 8;

/// Strides: each residue class has its own filter.
const MAX_STRIDE: i64 = 16;

/// Shared memory of a block at most, and with which eight blocks share a multiprocessor of a large GPU.
const MAX_SHARED: i64 = 64 << 10;
const GOOD_SHARED: i64 = 28 << 10;

/// The most bytes of partial sums that wgrad asks for.
const MAX_PARTIAL: i64 = 48 << 20;

/// Threads of a block, and parts of its sum of a tap.
const MAX_THREADS: i64 = 256;
const PARTS: i64 = 16;

/// One axis: result `classes · q + class − shift` meets the source at `q · step + t + start`.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub(super) source: i64,
    pub(super) out: i64,
    pub(super) taps: i64,
    pub(super) step: i64,
    pub(super) classes: i64,
    pub(super) shift: i64,
    pub(super) start: i64,
}

impl Axis {
    /// Of the forward product.
    pub(super) fn forward(problem: &Problem, i: usize) -> Self {
        Self {
            source: i64::from(problem.image[i]),
            out: i64::from(problem.output[i]),
            taps: i64::from(problem.kernel[i]),
            step: i64::from(problem.stride[i]),
            classes: 1,
            shift: 0,
            start: -i64::from(problem.pad[i]),
        }
    }

    /// Of dgrad.
    pub(super) fn input_gradient(problem: &Problem, i: usize) -> Self {
        let classes = i64::from(problem.stride[i]);
        let taps = ceil(i64::from(problem.kernel[i]), classes);
        Self {
            source: i64::from(problem.output[i]),
            out: i64::from(problem.image[i]),
            taps,
            step: 1,
            classes,
            shift: i64::from(problem.pad[i]),
            start: 1 - taps,
        }
    }

    /// The first `q`, and how many there are.
    pub(super) fn cells(&self) -> (i64, i64) {
        let first = self.shift / self.classes;
        (first, (self.out - 1 + self.shift) / self.classes - first + 1)
    }

    /// Words in front of a tile's column 0, and of a row.
    pub(super) fn words(&self) -> (i64, i64) {
        let (first, cells) = self.cells();
        let round = |n: i64| ceil(n, 4) * 4;
        let left = round((-self.start - first * self.step).max(0));
        let end = (first + cells - 1) * self.step + self.start + self.taps;
        (left, round(left + end.max(self.source)))
    }
}

/// How a plane is cut into tiles.
#[derive(Clone, Copy)]
struct Tile {
    /// Planes, or pairs of them, of a tile.
    planes: i64,
    /// A thread takes so many times some rows, and a tile groups of these.
    rows: i64,
    turns: i64,
    groups: i64,
    /// Tiles of a plane.
    strips: i64,
    threads: i64,
    shared_bytes: i64,
}

impl Tile {
    /// The tile that costs least a plane. `bytes` says what some planes with so many rows need, `most` how many planes
    /// there are, `columns` how many items a group of rows has.
    fn choose(
        axis: &Axis,
        columns: i64,
        most: i64,
        bytes: impl Fn(i64, i64, i64) -> i64,
        limit: i64,
    ) -> Option<Self> {
        const MAX_GROUPS: i64 = 16;
        let (_, cells) = axis.cells();
        let mut best: Option<(i64, Self)> = None;
        for (rows, turns) in (4..=8).map(|rows| (rows, 1)).chain((5..=8).map(|rows| (rows, 2))) {
            let lines = rows * turns;
            let all = ceil(cells, lines);
            for groups in 1..=all.min(MAX_GROUPS) {
                let strips = ceil(all, groups);
                let several = if strips == 1 { 6 } else { 0 };
                for planes in (0..=several).map(|power| 1 << power).filter(|&n| n < 2 * most) {
                    let items = planes * groups * axis.classes * columns;
                    let rounds = ceil(items, MAX_THREADS);
                    let threads = ceil(ceil(items, rounds), 32) * 32;
                    let shared_bytes = bytes(planes, groups * lines, threads);
                    if shared_bytes > limit {
                        continue;
                    }
                    // In instructions of warps, about: those of rows, of what surrounds them, of a block that starts,
                    // and of bringing the tile.
                    let cost = threads / 32 * (rounds * (20 * lines + 80) + 150) + shared_bytes / 18;
                    let crowded = GOOD_SHARED.max(shared_bytes);
                    let cost = cost * strips * 64 / planes * (crowded / 64) / (GOOD_SHARED / 64);
                    if best.is_none_or(|(least, _)| cost < least) {
                        let tile = Self { planes, rows, turns, groups, strips, threads, shared_bytes };
                        best = Some((cost, tile));
                    }
                }
            }
        }
        best.map(|(_, tile)| tile)
    }

    /// Rows of a tile, over which `cells` are computed.
    fn lines(axis: &Axis, cells: i64) -> i64 {
        (cells - 1) * axis.step + axis.taps
    }
}

/// Whether there is one input channel a group, and few output channels.
fn is_depthwise(problem: &Problem) -> bool {
    problem.c_in == problem.g && i64::from(problem.c_out_per_group()) <= MAX_MULTIPLIER
}

/// Whether there are few enough taps, and 32-bit numbers suffice.
fn suits(problem: &Problem, dtype: DType) -> bool {
    let [kh, kw] = problem.kernel.map(i64::from);
    let below = |factors: &[i64]| {
        factors.iter().try_fold(1_i64, |n, &f| n.checked_mul(f)).is_some_and(|n| n < (1 << 31) - (1 << 16))
    };
    let [b, c_in, c_out] = [problem.b, problem.c_in, problem.c_out].map(i64::from);
    let [h, w] = problem.image.map(i64::from);
    let [oh, ow] = problem.output.map(i64::from);
    let [pad_h, pad_w] = problem.pad.map(i64::from);
    matches!(dtype, DType::F16 | DType::Bf16 | DType::F32)
        && kh.max(kw) <= MAX_WINDOW
        && i64::from(problem.stride[0].max(problem.stride[1])) <= MAX_STRIDE
        && c_in > 0
        && c_out > 0
        && below(&[b, c_in.max(c_out), h + 2 * pad_h])
        && below(&[h + 2 * pad_h, w + 2 * pad_w])
        && below(&[b, c_out, ceil(oh, 4)])
        && below(&[c_in.max(1), h, w])
        && below(&[c_out, oh, ow])
        && below(&[kh, kw, c_out, i64::from(problem.c_in_per_group())])
        && [b, h, w, oh, ow].iter().all(|&extent| extent > 0)
}

/// The device's `Planes`.
pub(super) struct Planes {
    /// Elements between the planes of a tile.
    pub(super) plane: i64,
    /// Rows and columns of a plane.
    pub(super) extents: [i64; 2],
    /// Words in front of a tile's column 0, and of a row.
    pub(super) words: [i64; 2],
    /// Rows of a tile.
    pub(super) lines: i64,
}

impl Planes {
    /// Appends it to a structure.
    pub(super) fn describe(&self, words: &mut Structure, dtype: DType) {
        let ([h, w], [left, pitch]) = (self.extents, self.words);
        words.word(self.plane).word(h).word(w).word(left).divisor(pitch).divisor(self.lines);
        words.divisor((w / (16 / dtype.size() as i64)).max(1)).divisor((pitch - w).max(1)).word(pitch - w);
    }
}

/// Forward or dgrad.
fn product(
    problem: &Problem,
    m: Machine<'_>,
    [y, x]: [Axis; 2],
    reverse: bool,
    touched: [Touched; 3],
    accumulate: bool,
) -> Option<Launch> {
    let multiplier = i64::from(problem.c_out_per_group());
    let (sources, outs) = if reverse { (multiplier, 1) } else { (1, multiplier) };
    let units = i64::from(problem.b) * i64::from(problem.c_in);
    let (left, pitch) = x.words();
    let classes = y.classes * x.classes;
    let taps = y.taps * x.taps;
    let bytes = |units: i64, cells: i64, _| {
        units * (sources * Tile::lines(&y, cells) * pitch + multiplier * classes * taps) * 4
    };
    let tile = Tile::choose(&y, outs * x.out, units, bytes, MAX_SHARED)?;
    let lines = Tile::lines(&y, tile.groups * tile.turns * tile.rows);
    let tiles = ceil(units, tile.planes) * tile.strips;
    let extents = [y.source, x.source];
    let mut words = Structure::new();
    Planes { plane: y.source * x.source, extents, words: [left, pitch], lines }.describe(&mut words, m.dtype);
    words.word(i64::from(problem.kernel[0])).word(i64::from(problem.kernel[1])).word(i64::from(reverse));
    words.word(y.out).word(y.cells().0).word(y.shift).word(x.shift).word(y.start).word(x.start);
    words.word(units).word(tile.planes).word(tiles).word(tile.turns).word(i64::from(accumulate));
    words.divisor(x.out).divisor(outs).divisor(tile.groups).divisor(tile.strips);
    words.divisor(i64::from(problem.c_in)).divisor(multiplier).divisor(classes).divisor(x.taps).divisor(taps);
    let mut params = Params::new();
    params.pointers(&touched.map(|touched| touched.address));
    params.structure(&words);
    let constants = [y.taps, x.taps, y.step, x.step, y.classes, x.classes, sources, tile.rows];
    let geometry = Geometry {
        grid_x: u32::try_from(tiles).ok()?,
        block_x: tile.threads as u32,
        shared_bytes: tile.shared_bytes as u32,
    };
    let constants = constants.map(|constant| constant as i32);
    Launch::variant("conv2d_depthwise", m.dtype, &constants, params, &touched, geometry)
}

/// The forward product, or nothing where the kernel does not serve. `touched` are x, w and y.
pub(super) fn forward(problem: &Problem, m: Machine<'_>, touched: [Touched; 3]) -> Option<Launch> {
    if !is_depthwise(problem) || !suits(problem, m.dtype) {
        return None;
    }
    let axes = [Axis::forward(problem, 0), Axis::forward(problem, 1)];
    product(problem, m, axes, false, touched, false)
}

/// dgrad, or nothing where the kernel does not serve. `touched` are dy, w and dx.
pub(super) fn input_gradient(
    problem: &Problem,
    m: Machine<'_>,
    touched: [Touched; 3],
    accumulate: bool,
) -> Option<Launch> {
    if !is_depthwise(problem) || !suits(problem, m.dtype) {
        return None;
    }
    let axes = [Axis::input_gradient(problem, 0), Axis::input_gradient(problem, 1)];
    product(problem, m, axes, true, touched, accumulate)
}

/// How wgrad runs.
pub(super) struct Gradient {
    tile: Tile,
    axes: [Axis; 2],
    /// Tiles of a channel, of a run, and runs of a channel.
    tiles: i64,
    run: i64,
    runs: i64,
}

impl Gradient {
    /// That of depthwise convolution alone: nothing for others.
    pub(super) fn depthwise(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        if is_depthwise(problem) { Self::new(problem, volumes, m) } else { None }
    }

    /// Nothing where the kernel does not serve.
    pub(super) fn new(problem: &Problem, volumes: &Volumes, m: Machine<'_>) -> Option<Self> {
        if !suits(problem, m.dtype) {
            return None;
        }
        let axes @ [y, x] = [Axis::forward(problem, 0), Axis::forward(problem, 1)];
        let (b, taps) = (i64::from(problem.b), problem.taps());
        let (_, pitch) = x.words();
        let bytes = |images: i64, cells: i64, threads: i64| {
            let tile = images * (Tile::lines(&y, cells) * pitch + cells * dy_pitch(&x)) * 4;
            tile.max(taps * (threads + PARTS) * 4)
        };
        let tile = Tile::choose(&y, x.out, b, bytes, MAX_SHARED)?;
        let tiles = ceil(b, tile.planes) * tile.strips;
        // A few waves of the blocks that multiprocessors hold, so that the last wave is no great part.
        let pairs = i64::from(problem.c_out) * i64::from(problem.c_in_per_group());
        let wanted = (16 * i64::from(m.target.multiprocessors) / pairs).max(1);
        let most = (MAX_PARTIAL / (4 * volumes.w)).max(1);
        let run = ceil(tiles, wanted.min(most));
        Some(Self { tile, axes, tiles, run, runs: ceil(tiles, run) })
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
        debug_assert_eq!(partial.access, Access::Write, "the kernel reads no partial sums");
        let [y_axis, x_axis] = self.axes;
        let Tile { planes: images, rows, turns, groups, strips, threads, shared_bytes } = self.tile;
        let (left, pitch) = x_axis.words();
        let cells = groups * turns * rows;
        let (image, result) = ([y_axis.source, x_axis.source], [y_axis.out, x_axis.out]);
        let [c_in, c_out] = [problem.c_in, problem.c_out].map(i64::from);
        let lines = Tile::lines(&y_axis, cells);
        let plane = |channels: i64, [h, w]: [i64; 2]| channels * h * w;
        let x_planes = Planes { plane: plane(c_in, image), extents: image, words: [left, pitch], lines };
        let dy_words = [0, dy_pitch(&x_axis)];
        let dy_planes =
            Planes { plane: plane(c_out, result), extents: result, words: dy_words, lines: cells };
        let mut words = Structure::new();
        x_planes.describe(&mut words, m.dtype);
        dy_planes.describe(&mut words, m.dtype);
        let inputs = i64::from(problem.c_in_per_group());
        let pairs = c_out * inputs;
        let blocks = self.runs.checked_mul(pairs).filter(|&blocks| blocks < 1 << 31)?;
        words.word(y_axis.start).word(x_axis.start).word(i64::from(problem.b)).word(images).word(turns);
        words.word(self.tiles).word(self.run).word(blocks);
        words
            .divisor(x_axis.out)
            .divisor(groups)
            .divisor(strips)
            .divisor(pairs)
            .divisor(inputs)
            .divisor(i64::from(problem.c_out_per_group()))
            .finish();
        let mut params = Params::new();
        params.pointers(&[dy.address, x.address, partial.address]);
        params.structure(&words);
        let constants = [y_axis.taps, x_axis.taps, y_axis.step, x_axis.step, rows].map(|n| n as i32);
        let geometry = Geometry {
            grid_x: u32::try_from(blocks).ok()?,
            block_x: threads as u32,
            shared_bytes: shared_bytes as u32,
        };
        Launch::variant("conv2d_depthwise_dw", m.dtype, &constants, params, &[dy, x, partial], geometry)
    }
}

/// Words of a row of a tile of dy.
fn dy_pitch(x: &Axis) -> i64 {
    ceil(x.out, 4) * 4
}
