//! The launch that packs a filter and brings images to the blocked format: what `device/src/conv2d_prepare.rs` computes,
//! described in its words.

use super::patch_tile::boundary;
use super::tiled::{Channels, Machine, ceil};
use crate::element::DType;
use crate::launch::{Access, Geometry, Launch, Params, Structure, Touched};

/// Bytes of a pixel in a plane, and of a row of a chunk of the filter.
pub(super) const ROW: i64 = 64;

/// Threads of a block.
const SWEEP: i64 = 256;

/// Elements of a row.
pub(super) fn row_channels(dtype: DType) -> i64 {
    ROW / dtype.size() as i64
}

/// A filter packed in chunks of channels, tap by tap.
pub(super) struct Filter {
    pub(super) padded_rows: i64,
    pub(super) chunks: i64,
    pub(super) split: bool,
    pub(super) bytes: u64,
}

impl Filter {
    /// For tiles of so many channels of the result. Nothing where it would be too large.
    pub(super) fn new(m: Machine<'_>, channels: &Channels, taps: i64, tile: i64) -> Option<Self> {
        let chunks = ceil(channels.reduced, ROW / m.dtype.size() as i64);
        let padded_rows = ceil(channels.rows, tile) * tile;
        let lines = channels.groups.checked_mul(chunks)?.checked_mul(taps)?.checked_mul(padded_rows)?;
        (lines < 1 << 24).then_some(Self {
            padded_rows,
            chunks,
            split: m.split(),
            bytes: (lines * ROW) as u64,
        })
    }

    pub(super) fn touched(&self, workspace: u64, access: Access) -> Touched {
        Touched { name: "workspace", address: workspace, bytes: self.bytes, access }
    }

    /// What packs the filter to `workspace`.
    pub(super) fn pack(
        &self,
        m: Machine<'_>,
        channels: &Channels,
        taps: i64,
        filter: Touched,
        workspace: u64,
    ) -> Item<6> {
        let lines = self.bytes as i64 / ROW;
        let round = i64::from(m.dtype == DType::F32 && !self.split);
        let [row, channel] = [channels.filter_row, channels.filter_channel];
        Item {
            from: filter,
            to: self.touched(workspace, Access::Write),
            parts: 4 * lines,
            long: channels.filter_group,
            words: [row, channel, channels.rows, channels.reduced, lines, round],
            divisors: [self.padded_rows, taps, self.chunks],
        }
    }
}

/// An image, or a part of a batch, in the blocked format.
#[derive(Clone, Copy)]
pub(super) struct Image {
    batch: i64,
    groups: i64,
    channels: i64,
    /// Pixels of a batch item.
    pub(super) pixels: i64,
    /// Planes of a group.
    pub(super) planes: i64,
}

impl Image {
    pub(super) fn new(m: Machine<'_>, batch: i64, [groups, channels]: [i64; 2], pixels: i64) -> Self {
        Self { batch, groups, channels, pixels, planes: ceil(channels, row_channels(m.dtype)) }
    }

    pub(super) fn batch(&self) -> i64 {
        self.batch
    }

    /// Bytes of a plane.
    pub(super) fn plane(&self) -> i64 {
        self.batch * self.pixels * ROW
    }

    pub(super) fn bytes(&self) -> i64 {
        self.groups * self.planes * self.plane()
    }

    pub(super) fn touched(&self, address: u64, access: Access) -> Touched {
        Touched { name: "workspace", address, bytes: self.bytes() as u64, access }
    }

    /// What brings batch items from `first` on to the blocked format. Split products take f32 as it is.
    pub(super) fn block(&self, m: Machine<'_>, mut from: Touched, first: i64, to: u64) -> Item<5> {
        let image = self.groups * self.channels * self.pixels;
        let element = m.dtype.size() as u64;
        from.address += (first * image) as u64 * element;
        from.bytes = (self.batch * image) as u64 * element;
        let wide = boundary(m, from);
        let wide = [4, 2].into_iter().find(|n| *n <= wide && self.pixels % n == 0).unwrap_or(1);
        let along = self.pixels / wide;
        let reads = self.groups * self.planes * self.batch * along;
        let round = i64::from(m.dtype == DType::F32 && !m.split());
        Item {
            from,
            to: self.touched(to, Access::Write),
            parts: 4 * reads,
            long: image,
            words: [self.pixels, self.channels, wide, round, reads],
            divisors: [along, self.batch, self.planes],
        }
    }
}

/// A filter or an image to prepare: where from and where to, in how many parts, and what the kernel is told of it.
#[derive(Clone, Copy)]
pub(super) struct Item<const WORDS: usize> {
    from: Touched,
    to: Touched,
    parts: i64,
    long: i64,
    words: [i64; WORDS],
    divisors: [i64; 3],
}

impl<const WORDS: usize> Item<WORDS> {
    /// Nothing to prepare.
    const NONE: Self = Self {
        from: Touched::NONE,
        to: Touched::NONE,
        parts: 0,
        long: 0,
        words: [0; WORDS],
        divisors: [1; 3],
    };

    fn describe(&self, structure: &mut Structure) {
        structure.long(self.long);
        for &word in &self.words {
            structure.word(word);
        }
        for &divisor in &self.divisors {
            structure.divisor(divisor);
        }
    }
}

/// What a convolution's products want prepared, in one launch in front of them.
pub(super) struct Preparation {
    filter: Item<6>,
    images: [Item<5>; 2],
}

impl Preparation {
    /// Nothing yet.
    pub(super) const fn new() -> Self {
        Self { filter: Item::NONE, images: [Item::NONE; 2] }
    }

    /// Packs a filter, too: the only one.
    pub(super) fn filter(&mut self, filter: Item<6>) {
        self.filter = filter;
    }

    /// Brings an image to the blocked format, too: the first or the second.
    pub(super) fn image(&mut self, image: Item<5>) {
        let [first, second] = &mut self.images;
        *(if first.parts == 0 { first } else { second }) = image;
    }

    /// The launch, or none where there is nothing to prepare.
    pub(super) fn launch(&self, m: Machine<'_>) -> Option<Launch> {
        let Self { filter, images: [image, other] } = self;
        // Items begin at whole warps.
        let first = ceil(filter.parts, 32) * 32;
        let second = first + ceil(image.parts, 32) * 32;
        let end = second + other.parts;
        if end == 0 {
            return None;
        }
        let mut words = Structure::new();
        words.word(first).word(second).word(end);
        filter.describe(&mut words);
        image.describe(&mut words);
        other.describe(&mut words);
        words.finish();
        let all =
            [[filter.from, filter.to], [image.from, image.to], [other.from, other.to]].into_iter().flatten();
        let mut params = Params::new();
        let mut touched = [Touched::NONE; 6];
        let mut count = 0;
        for buffer in all {
            params.pointers(&[buffer.address]);
            if buffer.bytes > 0 {
                touched[count] = buffer;
                count += 1;
            }
        }
        params.structure(&words);
        let geometry = Geometry::tiles(ceil(end, SWEEP) as u64, SWEEP as u64);
        Launch::variant("conv2d_prepare", m.dtype, &[SWEEP as i32], params, &touched[..count], geometry)
    }

    /// The launch, then those that it prepares for.
    pub(super) fn in_front_of(&self, m: Machine<'_>, mut launches: Vec<Launch>) -> Vec<Launch> {
        if let Some(launch) = self.launch(m) {
            launches.insert(0, launch);
        }
        launches
    }
}
