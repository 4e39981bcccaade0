//! Patches of an image in shared memory: the part that a tile of pixels meets, over all taps.
//!
//! A tile is `tile_n × tile_h × tile_w` pixels of as many images, rows and columns; its patch is every image position
//! that a tap of one of them reads, its entries. Read once from the image, it serves all taps: tap by tap, a pixel's
//! entry moves by the same distance for all pixels. An entry has its channels fastest, in vectors of 16 bytes. Columns that lie a stride apart are neighbours in an entry row
//! (it holds one phase of the stride after the other), so that neighbouring pixels read neighbouring entries.

use crate::divmod::FastDivmod;
use crate::gpu::{load_if, load16_if, pick_bytes, shared_load16, shared_store16, to_tf32};
use crate::mma::{Factor, gather_vector, vector};

/// How tiles of pixels meet an image.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    /// Elements of a batch item.
    pub image: i64,
    /// Elements of a channel.
    pub channel: i32,
    /// Rows of the image.
    pub h: i32,
    /// Columns of the image.
    pub w: i32,
    /// The image row of the first tile's first entry.
    pub start_h: i32,
    /// The image column of the first tile's first entry.
    pub start_w: i32,
    /// Image rows between tiles.
    pub between_h: i32,
    /// Image columns between tiles.
    pub between_w: i32,
    /// Image rows between entry rows.
    pub grid_h: i32,
    /// Image columns between columns.
    pub grid_w: i32,
    /// Entry rows between pixel rows.
    pub step_h: u32,
    /// Batch items.
    pub batch: u32,
    /// Pixel rows.
    pub pixels_h: u32,
    /// Pixel columns.
    pub pixels_w: u32,
    /// Images of a tile.
    pub tile_n: u32,
    /// Entries between tap rows.
    pub tap_h: i32,
    /// Columns between taps, before they are parted into phases.
    pub tap_w: i32,
    /// The entry row of tap 0's first pixel.
    pub tap_start_h: i32,
    /// The column of tap 0's first pixel, before columns are parted into phases.
    pub tap_start_w: i32,
    /// Columns that are read together, one, two or four: rows of the image and of entries begin and end on such boundaries.
    pub wide: u32,
    /// Divides by what is read at a time in a row.
    pub row_reads: FastDivmod,
    /// Divides by reads of a tile.
    pub reads: FastDivmod,
    /// Divides by taps in a row.
    pub taps_w: FastDivmod,
    /// Divides by entries of a tile.
    pub entries: FastDivmod,
    /// Divides by entries of a row.
    pub columns: FastDivmod,
    /// Divides by entry rows of an image.
    pub rows: FastDivmod,
    /// Divides by entries of a phase.
    pub phase_columns: FastDivmod,
    /// Divides by phases.
    pub phases: FastDivmod,
    /// Divides by pixel columns of a tile.
    pub tile_w: FastDivmod,
    /// Divides by pixel rows of a tile.
    pub tile_h: FastDivmod,
    /// Divides by tiles along a row of pixels.
    pub tiles_w: FastDivmod,
    /// Divides by tiles along a column of pixels.
    pub tiles_h: FastDivmod,
}

/// A tile's place.
#[derive(Clone, Copy)]
pub struct Place {
    /// Its first batch item.
    pub n: u32,
    /// Its first pixel row.
    pub y: u32,
    /// Its first pixel column.
    pub x: u32,
    /// The image row of its first entry.
    pub h: i32,
    /// The image column of its first entry.
    pub w: i32,
    /// Pixel rows of the result.
    pub pixels_h: u32,
    /// Pixel columns of the result.
    pub pixels_w: u32,
}

/// Where the tiles of a class lie.
#[derive(Clone, Copy)]
pub struct Field {
    /// Pixel rows and columns.
    pub pixels: [u32; 2],
    /// The image row and column of the first tile's first entry.
    pub start: [i32; 2],
}

/// A pixel of a tile, from the tile's first.
#[derive(Clone, Copy)]
pub struct Pixel {
    /// Batch items.
    pub n: u32,
    /// Rows.
    pub y: u32,
    /// Columns.
    pub x: u32,
}

/// An entry's image position, from the tile's first entry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Batch items.
    pub n: u32,
    /// Image rows.
    pub h: i32,
    /// Image columns.
    pub w: i32,
}

impl Patch {
    /// The place of a tile: along rows first, then columns, then the batch.
    #[inline(always)]
    pub fn place(&self, tile: u32) -> Place {
        let (pixels, start) = ([self.pixels_h, self.pixels_w], [self.start_h, self.start_w]);
        self.place_in(Field { pixels, start }, tile)
    }

    /// The place of a tile of a class.
    #[inline(always)]
    pub fn place_in(&self, field: Field, tile: u32) -> Place {
        let (rest, x) = self.tiles_w.divmod(tile);
        let (n, y) = self.tiles_h.divmod(rest);
        Place {
            n: n * self.tile_n,
            y: y * self.tile_h.divisor(),
            x: x * self.tile_w.divisor(),
            h: field.start[0] + y as i32 * self.between_h,
            w: field.start[1] + x as i32 * self.between_w,
            pixels_h: field.pixels[0],
            pixels_w: field.pixels[1],
        }
    }

    /// Pixel number `index` of a tile.
    #[inline(always)]
    pub fn pixel(&self, index: u32) -> Pixel {
        let (rest, x) = self.tile_w.divmod(index);
        let (n, y) = self.tile_h.divmod(rest);
        Pixel { n, y, x }
    }

    /// The pixel behind another.
    #[inline(always)]
    pub fn next(&self, pixel: Pixel) -> Pixel {
        let Pixel { n, y, x } = pixel;
        let (y, x) = if x + 1 == self.tile_w.divisor() { (y + 1, 0) } else { (y, x + 1) };
        let (n, y) = if y == self.tile_h.divisor() { (n + 1, 0) } else { (n, y) };
        Pixel { n, y, x }
    }

    /// Whether a pixel belongs to the result: the last tiles reach beyond it.
    #[inline(always)]
    pub fn counts(&self, place: Place, pixel: Pixel) -> bool {
        (pixel.n < self.tile_n)
            & (place.n + pixel.n < self.batch)
            & (place.y + pixel.y < place.pixels_h)
            & (place.x + pixel.x < place.pixels_w)
    }

    /// The entry that a pixel meets with a tap that lies nowhere: add [`tap`](Patch::tap).
    #[inline(always)]
    pub fn met(&self, pixel: Pixel) -> u32 {
        (pixel.n * self.rows.divisor() + pixel.y * self.step_h) * self.columns.divisor() + pixel.x
    }

    /// Entries from a pixel's [`met`](Patch::met) to the one it meets with a tap.
    #[inline(always)]
    pub fn tap(&self, tap: u32) -> u32 {
        self.tap_from([self.tap_start_h, self.tap_start_w], self.taps_w.divmod(tap))
    }

    /// The same for row and column `i` and `j` of the taps of a class, which start elsewhere.
    #[inline(always)]
    pub fn tap_from(&self, start: [i32; 2], (i, j): (u32, u32)) -> u32 {
        let row = start[0] + i as i32 * self.tap_h;
        let column = start[1] + j as i32 * self.tap_w;
        let (along, phase) = self.phases.divmod(column as u32);
        row as u32 * self.columns.divisor() + phase * self.phase_columns.divisor() + along
    }

    /// The image position of entry number `index` of a tile.
    #[inline(always)]
    pub fn entry(&self, index: u32) -> Entry {
        let (rest, place) = self.columns.divmod(index);
        let (n, row) = self.rows.divmod(rest);
        let (phase, along) = self.phase_columns.divmod(place);
        let column = along * self.phases.divisor() + phase;
        Entry { n, h: row as i32 * self.grid_h, w: column as i32 * self.grid_w }
    }

    /// Whether an entry lies in the image.
    #[inline(always)]
    pub fn inside(&self, place: Place, entry: Entry) -> bool {
        // A negative coordinate is a huge unsigned one.
        (place.n + entry.n < self.batch)
            & (((place.h + entry.h) as u32) < self.h as u32)
            & (((place.w + entry.w) as u32) < self.w as u32)
    }

    /// Elements from the tile's first image to an entry; tiles have fewer than 2³¹.
    #[inline(always)]
    pub fn offset(&self, place: Place, entry: Entry) -> i32 {
        entry.n as i32 * self.image as i32 + (place.h + entry.h) * self.w + place.w + entry.w
    }

    /// Fills the table of reads: for each its element from the tile's first, its place from the tile's, and its first
    /// entry. Only the tile's place changes from tile to tile.
    ///
    /// # Safety
    /// The launch gave 16 bytes a read from `table` on, a multiple of 16; a barrier follows.
    #[inline(always)]
    pub unsafe fn fill_reads(&self, table: u32, [thread, threads]: [u32; 2]) {
        let mut read = thread;
        while read < self.reads.divisor() {
            let (rest, along) = self.row_reads.divmod(read);
            let (n, row) = self.rows.divmod(rest);
            let column = along * self.wide;
            let (h, w) = (row as i32 * self.grid_h, column as i32 * self.grid_w);
            let offset = n as i32 * self.image as i32 + h * self.w + w;
            let (along, phase) = self.phases.divmod(column);
            let entry = rest * self.columns.divisor() + phase * self.phase_columns.divisor() + along;
            let packed = (n << 24) | ((h as u32) << 12) | w as u32;
            // SAFETY: by this function's contract.
            unsafe { shared_store16(table + read * 16, [offset as u32, packed, entry, 0]) };
            read += threads;
        }
    }

    /// Entries from a read's first to its column `v`. A stride of several columns divides those of a read, or they it.
    #[inline(always)]
    fn beside(&self, v: u32) -> u32 {
        let (along, phase) = self.phases.divmod(v);
        phase * self.phase_columns.divisor() + along
    }
}

/// What a thread reads at a time.
#[derive(Clone, Copy)]
struct Read {
    /// Elements from the tile's first.
    offset: i64,
    /// Channels that are there.
    live: u32,
    /// The first entry, and which vector of it.
    entry: u32,
    group: u32,
}

/// Brings a tile's patch to shared memory, `groups` vectors of channels an entry, those beyond `live` channels zero.
/// `at` gives the place of an entry's vector. A thread has `UNITS` reads of four columns, or twice as many of fewer, in
/// flight.
///
/// # Safety
/// `from` is the tile's first image and channel, valid as `patch` and `live` say; `table` was filled by
/// [`fill_reads`](Patch::fill_reads) before a barrier. The threads, numbered from 0, are the only ones that touch the
/// patch until the next barrier, and the launch gave room for it.
#[inline(always)]
pub unsafe fn bring<E: Factor, const SPLIT: bool, const UNITS: usize>(
    patch: &Patch,
    table: u32,
    place: Place,
    from: *const E,
    [live, groups]: [u32; 2],
    [thread, threads]: [u32; 2],
    at: impl Fn(u32, u32) -> u32,
) {
    let all = patch.reads.divisor() * groups;
    let from = from.wrapping_offset(place.h as isize * patch.w as isize + place.w as isize);
    let read = |unit: u32| {
        let (group, read) = patch.reads.divmod(unit);
        // SAFETY: the table was filled before a barrier.
        let [offset, packed, entry, _] = unsafe { shared_load16(table + read * 16) };
        let first = group * vector::<E>();
        let left = live.saturating_sub(first);
        let inside = (place.n + (packed >> 24) < patch.batch)
            & ((place.h as u32).wrapping_add((packed >> 12) & 0xfff) < patch.h as u32)
            & ((place.w as u32).wrapping_add(packed & 0xfff) < patch.w as u32);
        Read {
            offset: i64::from(first) * i64::from(patch.channel) + i64::from(offset as i32),
            live: if inside { left } else { 0 },
            entry,
            group,
        }
    };
    let thread = [thread, threads];
    let beside = |v: u32| patch.beside(v);
    let place = |read: Read| from.wrapping_offset(read.offset as isize);
    // SAFETY: by this function's contract; the columns lie in the image, and so many channels are there.
    unsafe {
        if patch.wide == 4 {
            let beside = [0, beside(1), beside(2), beside(3)];
            let gather = |read: Read| gather_square::<E, SPLIT>(place(read), patch.channel, read.live);
            move_units::<4, UNITS>(thread, all, read, at, beside, gather);
        } else if patch.wide == 2 {
            let gather = |read: Read| gather_pair::<E, SPLIT>(place(read), patch.channel, read.live);
            move_units::<2, UNITS>(thread, all, read, at, [0, beside(1)], gather);
        } else {
            let gather = |read: Read| [gather_vector::<E, SPLIT>(place(read), patch.channel, read.live)];
            move_units::<1, UNITS>(thread, all, read, at, [0], gather);
        }
    }
}

/// Moves reads of `N` columns, several in flight: `2 · UNITS` of them, or half as many of four columns.
///
/// # Safety
/// As for [`bring`].
#[inline(always)]
unsafe fn move_units<const N: usize, const UNITS: usize>(
    [thread, threads]: [u32; 2],
    all: u32,
    read: impl Fn(u32) -> Read,
    at: impl Fn(u32, u32) -> u32,
    beside: [u32; N],
    gather: impl Fn(Read) -> [[u32; 4]; N],
) {
    let turns = if N == 4 { 1 } else { 2 };
    let mut unit = thread;
    while unit < all {
        let mut vectors = [[[[0; 4]; N]; 2]; UNITS];
        let mut places = [[(0, 0); 2]; UNITS];
        let mut u = 0;
        while u < turns * UNITS {
            let unit = unit + u as u32 * threads;
            if unit < all {
                let read = read(unit);
                places[u / turns][u % turns] = (read.entry, read.group);
                vectors[u / turns][u % turns] = gather(read);
            }
            u += 1;
        }
        u = 0;
        while u < turns * UNITS {
            if unit + (u as u32 * threads) < all {
                let (entry, group) = places[u / turns][u % turns];
                let mut v = 0;
                while v < N {
                    // SAFETY: each place belongs to one thread.
                    unsafe {
                        shared_store16(at(entry + beside[v], group), vectors[u / turns][u % turns][v]);
                    }
                    v += 1;
                }
            }
            u += 1;
        }
        unit += (turns * UNITS) as u32 * threads;
    }
}

/// Two columns' vectors, as [`gather_square`] has four.
///
/// # Safety
/// Two elements of each live channel are valid for reads of global memory, and lie on their boundary.
#[inline(always)]
pub(crate) unsafe fn gather_pair<E: Factor, const SPLIT: bool>(
    from: *const E,
    step: i32,
    live: u32,
) -> [[u32; 4]; 2] {
    let at = |c: u32| from.wrapping_offset(c as isize * step as isize);
    if size_of::<E>() == 2 {
        // SAFETY: by this function's contract.
        let load = |c: u32| unsafe { load_if(c < live, at(c).cast::<u32>(), 0) };
        let rows: [u32; 8] = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
        let word = |selector: u32, pair: usize| pick_bytes(rows[2 * pair], rows[2 * pair + 1], selector);
        let vector =
            |selector: u32| [word(selector, 0), word(selector, 1), word(selector, 2), word(selector, 3)];
        [vector(0x5410), vector(0x7632)]
    } else {
        // SAFETY: by this function's contract.
        let load = |c: u32| unsafe { load_if(c < live, at(c).cast::<u64>(), 0) };
        let rows: [u64; 4] = [load(0), load(1), load(2), load(3)];
        let word = |v: u32, c: usize| {
            let word = (rows[c] >> (v * 32)) as u32;
            if SPLIT { word } else { to_tf32(f32::from_bits(word)).to_bits() }
        };
        let vector = |v: u32| [word(v, 0), word(v, 1), word(v, 2), word(v, 3)];
        [vector(0), vector(1)]
    }
}

/// Four columns' vectors, from channels that lie `step` elements apart, the first `live` of them; the rest are zero.
///
/// # Safety
/// Four elements of each live channel are valid for reads of global memory, and lie on their boundary.
#[inline(always)]
pub(crate) unsafe fn gather_square<E: Factor, const SPLIT: bool>(
    from: *const E,
    step: i32,
    live: u32,
) -> [[u32; 4]; 4] {
    let at = |c: u32| from.wrapping_offset(c as isize * step as isize);
    if size_of::<E>() == 2 {
        // SAFETY: by this function's contract.
        let load = |c: u32| unsafe { load_if(c < live, at(c).cast::<u64>(), 0) };
        let rows: [u64; 8] = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
        let word = |v: u32, pair: usize| {
            let [a, b] = [rows[2 * pair], rows[2 * pair + 1]].map(|row| (row >> (v / 2 * 32)) as u32);
            pick_bytes(a, b, if v.is_multiple_of(2) { 0x5410 } else { 0x7632 })
        };
        let vector = |v: u32| [word(v, 0), word(v, 1), word(v, 2), word(v, 3)];
        [vector(0), vector(1), vector(2), vector(3)]
    } else {
        // SAFETY: by this function's contract.
        let load = |c: u32| unsafe { load16_if(c < live, at(c).cast()) };
        let rows = [load(0), load(1), load(2), load(3)];
        let word = |v: usize, c: usize| {
            let word = rows[c][v];
            if SPLIT { word } else { to_tf32(f32::from_bits(word)).to_bits() }
        };
        let vector = |v: usize| [word(v, 0), word(v, 1), word(v, 2), word(v, 3)];
        [vector(0), vector(1), vector(2), vector(3)]
    }
}
