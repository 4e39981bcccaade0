//! The launches of forward and dgrad from images in the blocked format: what
//! `device/src/conv2d_blocked.rs` computes, described in its words.

use super::patch_tile::{MAX_TAPS, boundary, small};
use super::plan::Problem;
use super::prepare::{Filter, Image, Preparation, ROW, row_channels};
use super::tiled::{Axis, Channels, Machine, Tensors, ceil};
use crate::launch::{Access, Geometry, Launch, Params, Structure};

/// Classes of tiles of a launch.
const CLASSES: usize = 4;

/// Bytes of the tables of taps and of classes.
const TABLES: i64 = ceil(MAX_TAPS * 16 + CLASSES as i64 * 48, ROW) * ROW;

/// Steps in shared memory.
pub(super) const STEPS: i64 = 4;

/// Threads of a block.
const THREADS: u32 = 128;

/// The most bytes of an image in the blocked format: two of them and the partial sums of wgrad stay below 64 MiB.
pub(super) const MAX_IMAGE: i64 = 26 << 20;

/// The most bytes of wgrad's partial sums.
const MAX_PARTIAL: i64 = 12 << 20;

/// The least pixels of a run of wgrad: shorter ones would be mostly overhead.
const MIN_RUN: i64 = 256;

/// Pixels of a channel.
pub(super) fn pixels(extents: [i32; 2]) -> i64 {
    i64::from(extents[0]) * i64::from(extents[1])
}

/// Pixels of a run of wgrad, a whole number of steps, when each run has so many blocks, of which a multiprocessor holds
/// `resident`, and leaves so many bytes of sums.
pub(super) fn run_pixels(m: Machine<'_>, pixels: i64, blocks: i64, resident: i64, sums: i64) -> i64 {
    let wanted = (resident * i64::from(m.target.multiprocessors) / blocks).max(1);
    let most = (MAX_PARTIAL / sums).min(pixels / MIN_RUN).max(1);
    let step = row_channels(m.dtype);
    ceil(ceil(pixels, wanted.min(most)), step) * step
}

/// Whether so many channels fill half of their planes at least.
pub(super) fn fills_planes(m: Machine<'_>, channels: i64) -> bool {
    let step = row_channels(m.dtype);
    channels >= 16 && ceil(channels, step) * step <= 2 * channels
}

/// A block's tile: channels by pixels of the result, and the kernel that has it.
struct Variant {
    name: &'static str,
    rows: i64,
    pixels: i64,
    /// What a product costs, measured in that of the first.
    cost: i64,
}

const VARIANTS: [Variant; 3] = [
    Variant { name: "conv2d_blocked_128x128", rows: 128, pixels: 128, cost: 20 },
    Variant { name: "conv2d_blocked_128x64", rows: 128, pixels: 64, cost: 23 },
    Variant { name: "conv2d_blocked_64x128", rows: 64, pixels: 128, cost: 23 },
];

const SPLIT_VARIANTS: [Variant; 2] = [
    Variant { name: "conv2d_blocked_split_128x64", rows: 128, pixels: 64, cost: 20 },
    Variant { name: "conv2d_blocked_split_64x128", rows: 64, pixels: 128, cost: 23 },
];

/// How forward or dgrad runs.
pub(super) struct Product {
    variant: &'static Variant,
    filter: Filter,
    image: Image,
}

impl Product {
    /// Nothing where the kernels do not serve, or patches are as fast. `classes` are those of dgrad, or forward's one.
    pub(super) fn new(
        problem: &Problem,
        m: Machine<'_>,
        channels: &Channels,
        classes: impl Iterator<Item = [Axis; 2]> + Clone,
    ) -> Option<Self> {
        let taps = problem.taps();
        if !m.multiplies() || !(2..=MAX_TAPS).contains(&taps) || !small(problem) {
            return None;
        }
        let [y, x] = classes.clone().next()?;
        let (batch, count) = (i64::from(problem.b), classes.clone().count() as i64);
        if count > CLASSES as i64 {
            return None;
        }
        let pixels = i64::from(y.source) * i64::from(x.source);
        // Rows and columns have 16 bits, those that taps meet around the image included.
        let reaches = |i: usize| {
            let [image, output, kernel] = [problem.image[i], problem.output[i], problem.kernel[i]];
            image < 1 << 13 && output < 1 << 13 && kernel <= MAX_TAPS as i32 && problem.pad[i] < 1 << 13
        };
        if !reaches(0) || !reaches(1) {
            return None;
        }
        let image = Image::new(m, batch, [channels.groups, channels.reduced], pixels);
        if channels.rows < 16 || !fills_planes(m, channels.reduced) {
            return None;
        }
        let most = classes.map(|[y, x]| batch * y.pixels * x.pixels).max()?;
        if most == 0 || image.bytes() > MAX_IMAGE || image.planes >= 1 << 16 {
            return None;
        }
        let multiprocessors = i64::from(m.target.multiprocessors);
        let cost = |v: &&Variant| {
            let tiles = ceil(channels.rows, v.rows) * ceil(most, v.pixels) * channels.groups * count;
            ceil(tiles, multiprocessors) * v.rows * v.pixels * v.cost
        };
        let variants: &'static [Variant] = if m.split() { &SPLIT_VARIANTS } else { &VARIANTS };
        let variant = variants.iter().min_by_key(cost)?;
        let filter = Filter::new(m, channels, taps, variant.rows)?;
        Some(Self { variant, filter, image })
    }

    /// The filter's bytes, then the image's.
    pub(super) fn bytes(&self) -> u64 {
        self.filter.bytes + self.image.bytes() as u64
    }

    /// Where the image lies in a workspace.
    pub(super) fn image(&self, workspace: u64) -> u64 {
        workspace + self.filter.bytes
    }

    /// The product's launch, for which the filter and the image are prepared in `workspace`.
    pub(super) fn launch(
        &self,
        m: Machine<'_>,
        classes: impl Iterator<Item = [Axis; 2]> + Clone,
        channels: &Channels,
        taps: i64,
        tensors: &Tensors<'_>,
        workspace: u64,
        preparation: &mut Preparation,
    ) -> Option<Launch> {
        let [from, filter, _] = *tensors.touched;
        let launch = self.product(m, classes, channels, taps, tensors, workspace)?;
        preparation.filter(self.filter.pack(m, channels, taps, filter, workspace));
        preparation.image(self.image.block(m, from, 0, self.image(workspace)));
        Some(launch)
    }

    fn product(
        &self,
        m: Machine<'_>,
        classes: impl Iterator<Item = [Axis; 2]>,
        channels: &Channels,
        taps: i64,
        tensors: &Tensors<'_>,
        workspace: u64,
    ) -> Option<Launch> {
        let [_, _, out] = *tensors.touched;
        let batch = self.image.batch();
        let classes: Vec<_> = classes.filter(|[y, x]| y.pixels * x.pixels > 0).collect();
        let &[y, x] = classes.first()?;
        let count = classes.len() as i64;
        let [out_h, out_w] = tensors.out;
        let plane = out_h * out_w;
        let width = channels.filter_width;
        let together = count == 1
            && y.out_step == 1
            && x.out_step == 1
            && !tensors.accumulate
            && plane % 4 == 0
            && boundary(m, out) == 4;
        let mut words = Structure::new();
        words.long(channels.groups * channels.rows * plane).word(plane);
        words.word(y.out_step * out_w).word(x.out_step);
        words.word(i64::from(tensors.accumulate)).word(i64::from(together));
        words.word(i64::from(y.source)).word(i64::from(x.source)).word(self.image.plane());
        words.word(y.step).word(x.step).word(y.tap).word(x.tap);
        words.word(y.filter_step * width).word(x.filter_step);
        words.word(taps).word(channels.rows).word(self.filter.padded_rows).word(self.image.planes);
        let most = classes.iter().map(|[y, x]| batch * y.pixels * x.pixels).max()?;
        let row_tiles = ceil(channels.rows, self.variant.rows);
        let pixel_tiles = ceil(most, self.variant.pixels);
        let tiles = row_tiles * pixel_tiles * channels.groups * count;
        words.word(tiles).divisor(row_tiles).divisor(pixel_tiles).divisor(count);
        let mut first_tap = 0;
        for (number, &[y, x]) in
            classes.iter().chain(std::iter::repeat(&classes[0])).take(CLASSES).enumerate()
        {
            // Places without a class have no taps in the table.
            let taps = if (number as i64) < count { y.taps * x.taps } else { 0 };
            words.word(batch * y.pixels * x.pixels).word(y.start).word(x.start);
            words.word(y.out_start * out_w + x.out_start).word(taps);
            // Without a tap, one that is in the table.
            words.word(if taps == 0 { 0 } else { first_tap });
            words.divisor(x.pixels).divisor(y.pixels).divisor(x.taps.max(1));
            words.word(y.filter_start * width + x.filter_start);
            first_tap += taps;
        }
        words.finish();
        let mut params = Params::new();
        params.pointers(&[self.image(workspace), workspace, out.address]);
        params.structure(&words);
        let touched = [
            self.image.touched(self.image(workspace), Access::Read),
            self.filter.touched(workspace, Access::Read),
            out,
        ];
        let geometry = Geometry {
            grid_x: u32::try_from(tiles).ok()?,
            block_x: THREADS,
            shared_bytes: (TABLES + STEPS * (self.variant.rows + self.variant.pixels) * ROW) as u32,
        };
        Launch::variant(self.variant.name, m.dtype, &[], params, &touched, geometry)
    }
}
