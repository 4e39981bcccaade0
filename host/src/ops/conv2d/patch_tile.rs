//! Tiles of pixels and the patches of an image that they meet, as `device/src/patch.rs` describes them, and the choice
//! among them.

use super::plan::Problem;
use super::tiled::{Axis, Machine, ceil};
use crate::launch::{Structure, Touched};

/// Taps that the kernels can have.
pub(super) const MAX_TAPS: i64 = 64;

/// Pixels of a tile.
pub(super) const BN: i64 = 128;

/// Classes of tiles of a launch.
pub(super) const CLASSES: usize = 4;

/// One axis of a tile: how its pixels meet the image.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Pixels.
    pub(super) pixels: i64,
    /// Entries, before they are parted into phases.
    pub(super) entries: i64,
    /// Image positions between entries, and entries between pixels.
    pub(super) grid: i64,
    pub(super) step: i64,
    /// Image positions between tiles.
    pub(super) between: i64,
    /// Entries between taps.
    pub(super) tap: i64,
    /// It begins and ends on multiples of this.
    pub(super) wide: i64,
}

impl Span {
    /// That of an axis' classes, as wide as the widest of them.
    pub(super) fn new(axis: &Classes, pixels: i64, wide: i64) -> Self {
        let Axis { step, tap, .. } = axis.all;
        let reach = axis.all.taps - 1;
        // Between the pixels of a single tap lies nothing that is read.
        let (grid, entry_step) = if reach == 0 { (step, 1) } else { (1, step) };
        let span = Self { pixels, entries: 0, grid, step: entry_step, between: pixels * step, tap, wide };
        let entries = axis.each.iter().flatten().map(|class| {
            let (_, tap_start) = span.starts(class);
            // Taps that go back start at the last entry.
            let reach = if tap < 0 { tap_start } else { tap_start + class.taps - 1 };
            let entries = (pixels - 1) * entry_step + reach + 1;
            ceil(entries, wide) * wide
        });
        Self { entries: entries.max().unwrap_or(1), ..span }
    }

    /// The image position of the first tile's first entry, and the entry of the first tap's first pixel.
    pub(super) fn starts(&self, class: &Axis) -> (i64, i64) {
        let back = if class.tap < 0 { class.taps - 1 } else { 0 };
        let start = class.start - back;
        let lead = start.rem_euclid(self.wide);
        (start - lead, back + lead)
    }
}

/// One axis of several classes of tiles that share their shape.
#[derive(Clone, Copy)]
pub(super) struct Classes {
    /// What holds them all: the most pixels and taps.
    pub(super) all: Axis,
    pub(super) each: [Option<Axis>; CLASSES],
}

impl Classes {
    /// Those of `axes`, of which there is one at least.
    pub(super) fn new(axes: impl Iterator<Item = Axis>) -> Option<Self> {
        let mut each = [None; CLASSES];
        let mut all: Option<Axis> = None;
        for (place, axis) in each.iter_mut().zip(axes) {
            *place = Some(axis);
            let most = all.get_or_insert(axis);
            most.pixels = most.pixels.max(axis.pixels);
            most.taps = most.taps.max(axis.taps);
        }
        Some(Self { all: all?, each })
    }

    pub(super) fn one(axis: Axis) -> Self {
        let mut each = [None; CLASSES];
        each[0] = Some(axis);
        Self { all: axis, each }
    }
}

/// A tile of pixels.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) images: i64,
    pub(super) y: Span,
    pub(super) x: Span,
    /// Columns that are read at a time: one, two or four.
    pub(super) wide: i64,
}

impl Tile {
    /// At most `boundary` columns are read at a time.
    pub(super) fn new([y, x]: &[Classes; 2], [images, height, width]: [i64; 3], boundary: i64) -> Self {
        // Every tile must begin on a boundary, and so must what a phase of the stride leaves.
        let narrow = Span::new(x, width, 1);
        let even = |wide: &i64| {
            let single = width >= x.all.pixels || narrow.between % wide == 0;
            *wide <= boundary
                && x.all.source % *wide as i32 == 0
                && (narrow.grid == 1 && wide % narrow.step == 0)
                && single
        };
        let wide = [4, 2].into_iter().find(even).unwrap_or(1);
        Self { images, y: Span::new(y, height, 1), x: Span::new(x, width, wide), wide }
    }

    pub(super) fn pixels(&self) -> i64 {
        self.images * self.y.pixels * self.x.pixels
    }

    /// Entries of a phase of a row.
    pub(super) fn phase_columns(&self) -> i64 {
        ceil(self.x.entries, self.x.step)
    }

    /// Reads that bring a row's entries, and the whole tile's.
    pub(super) fn row_reads(&self) -> i64 {
        self.columns() / self.wide
    }

    pub(super) fn reads(&self) -> i64 {
        self.images * self.y.entries * self.row_reads()
    }

    /// Entries of a row.
    pub(super) fn columns(&self) -> i64 {
        self.x.step * self.phase_columns()
    }

    pub(super) fn entries(&self) -> i64 {
        self.images * self.y.entries * self.columns()
    }

    /// What it costs to move a tile's entries and pixels, in pixels multiplied with one tap. Memory gives out 32 bytes
    /// at least, so that short rows cost as much as these.
    pub(super) fn moved(&self) -> i64 {
        const SHORTEST: i64 = 16;
        let row = self.columns().max(SHORTEST);
        // One column at a time takes nearly as many instructions as four.
        let read = row * effort(self.wide);
        self.images * (self.y.entries * read + self.y.pixels * self.x.pixels.max(SHORTEST))
    }

    pub(super) fn count(&self, b: i64, [y, x]: &[Classes; 2]) -> i64 {
        ceil(b, self.images) * ceil(y.all.pixels, self.y.pixels) * ceil(x.all.pixels, self.x.pixels)
    }

    /// The tile of at most `limit` pixels that costs least of those that fit, with its cost. At most `boundary` columns
    /// are read at a time.
    pub(super) fn choose(
        b: i64,
        axes: &[Classes; 2],
        limit: i64,
        image: i64,
        boundary: i64,
        cost: impl Fn(&Self) -> i64,
        fits: impl Fn(&Self) -> bool,
    ) -> Option<(i64, Self)> {
        let [y, x] = [&axes[0].all, &axes[1].all];
        let mut best: Option<(i64, Self)> = None;
        // Powers of two, and few equal parts of the axis.
        let parts = |extent: i64, limit: i64| {
            let least = ceil(extent, limit);
            (least..least + 4).map(move |parts| ceil(extent, parts))
        };
        let widths = parts(x.pixels, limit).chain((0..8).rev().map(|power| 1 << power));
        for width in widths.filter(|&width| width <= limit && width < 2 * x.pixels) {
            for height in parts(y.pixels, limit / width).take(2) {
                let images = (limit / (width * height)).min(b).min(254);
                for images in [1, images] {
                    let tile = Self::new(axes, [images, height, width], boundary);
                    // A read's place takes twelve bits an axis.
                    let packs = tile.y.entries * tile.y.grid < 4096 && tile.x.entries * tile.x.grid < 4096;
                    let near = packs && tile.entries() < 4096 && images * image < (1 << 31) - (1 << 24);
                    if !near || !fits(&tile) {
                        continue;
                    }
                    let cost = tile.count(b, axes) * cost(&tile);
                    if best.is_none_or(|(least, _)| cost < least) {
                        best = Some((cost, tile));
                    }
                }
            }
        }
        best
    }

    /// The device's `Patch`, with the first class' starts.
    pub(super) fn describe(&self, words: &mut Structure, b: i64, axes: &[Classes; 2], channels: i64) {
        let [y, x] = [&axes[0].all, &axes[1].all];
        let (start_y, tap_y) = self.y.starts(y);
        let (start_x, tap_x) = self.x.starts(x);
        let plane = i64::from(y.source) * i64::from(x.source);
        words.long(channels * plane).word(plane).word(i64::from(y.source)).word(i64::from(x.source));
        words.word(start_y).word(start_x).word(self.y.between).word(self.x.between);
        words.word(self.y.grid).word(self.x.grid).word(self.y.step);
        words.word(b).word(y.pixels).word(x.pixels).word(self.images);
        words.word(self.y.tap).word(self.x.tap).word(tap_y).word(tap_x);
        words.word(self.wide).divisor(self.row_reads()).divisor(self.reads());
        words.divisor(x.taps).divisor(self.entries()).divisor(self.columns()).divisor(self.y.entries);
        words.divisor(self.phase_columns()).divisor(self.x.step);
        words.divisor(self.x.pixels).divisor(self.y.pixels);
        words.divisor(ceil(x.pixels, self.x.pixels)).divisor(ceil(y.pixels, self.y.pixels));
        words.finish();
    }
}

/// How many elements, four, two or one, fill a number of them.
pub(super) fn even(count: i64) -> i64 {
    [4, 2].into_iter().find(|&n| count % n == 0).unwrap_or(1)
}

/// How many elements can be read together from a tensor: they lie on a boundary in every row if the rows have a multiple
/// of so many.
pub(super) fn boundary(m: Machine<'_>, touched: Touched) -> i64 {
    even((touched.address / m.dtype.size() as u64 % 4) as i64)
}

/// What it takes to read an element when so many are read together, measured in that of four: instructions.
pub(super) fn effort(together: i64) -> i64 {
    match together {
        4 => 1,
        2 => 2,
        _ => 3,
    }
}

/// Whether 32-bit offsets inside a batch item and a packed filter suffice.
pub(super) fn small(problem: &Problem) -> bool {
    let [oh, ow] = problem.output.map(i64::from);
    let [h, w] = problem.image.map(i64::from);
    let below = |factors: &[i64]| {
        factors.iter().try_fold(1_i64, |n, &f| n.checked_mul(f)).is_some_and(|n| n < (1 << 31) - (1 << 24))
    };
    let [b, c_in, c_out] = [problem.b, problem.c_in, problem.c_out].map(i64::from);
    below(&[b, h, w]) && below(&[b, oh, ow]) && below(&[c_in, h, w]) && below(&[c_out, oh, ow])
}
