//! Patches of an image in shared memory: the part that a tile of pixels meets, over all taps.
//!
//! A tile is `tile_n × tile_h × tile_w` pixels of as many images, rows and columns; its patch is every image position
//! that a tap of one of them reads, its entries. Read once from the image, it serves all taps: tap by tap, a pixel's
//! entry moves by the same distance for all pixels. Columns that lie a stride apart are neighbours in an entry row
//! (it holds one phase of the stride after the other), so that neighbouring pixels read neighbouring entries.

use crate::divmod::FastDivmod;

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
    /// Image columns between the columns of a phase, over the phases.
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
        let (rest, x) = self.tiles_w.divmod(tile);
        let (n, y) = self.tiles_h.divmod(rest);
        Place {
            n: n * self.tile_n,
            y: y * self.tile_h.divisor(),
            x: x * self.tile_w.divisor(),
            h: self.start_h + y as i32 * self.between_h,
            w: self.start_w + x as i32 * self.between_w,
        }
    }

    /// Pixel number `index` of a tile.
    #[inline(always)]
    pub fn pixel(&self, index: u32) -> Pixel {
        let (rest, x) = self.tile_w.divmod(index);
        let (n, y) = self.tile_h.divmod(rest);
        Pixel { n, y, x }
    }

    /// Whether a pixel belongs to the result: the last tiles reach beyond it.
    #[inline(always)]
    pub fn counts(&self, place: Place, pixel: Pixel) -> bool {
        (pixel.n < self.tile_n)
            & (place.n + pixel.n < self.batch)
            & (place.y + pixel.y < self.pixels_h)
            & (place.x + pixel.x < self.pixels_w)
    }

    /// The entry that a pixel meets with a tap that lies nowhere: add [`tap`](Patch::tap).
    #[inline(always)]
    pub fn met(&self, pixel: Pixel) -> u32 {
        (pixel.n * self.rows.divisor() + pixel.y * self.step_h) * self.columns.divisor() + pixel.x
    }

    /// Entries from a pixel's [`met`](Patch::met) to the one it meets with a tap.
    #[inline(always)]
    pub fn tap(&self, tap: u32) -> u32 {
        let (i, j) = self.taps_w.divmod(tap);
        let row = self.tap_start_h + i as i32 * self.tap_h;
        let column = self.tap_start_w + j as i32 * self.tap_w;
        let (along, phase) = self.phases.divmod(column as u32);
        row as u32 * self.columns.divisor() + phase * self.phase_columns.divisor() + along
    }

    /// Entry number `index` of a tile.
    #[inline(always)]
    pub fn entry(&self, index: u32) -> Entry {
        let (rest, column) = self.columns.divmod(index);
        let (n, row) = self.rows.divmod(rest);
        let (phase, along) = self.phase_columns.divmod(column);
        Entry { n, h: row as i32 * self.grid_h, w: along as i32 * self.grid_w + phase as i32 }
    }

    /// Whether an entry lies in the image.
    #[inline(always)]
    pub fn inside(&self, place: Place, entry: Entry) -> bool {
        // A negative coordinate is a huge unsigned one.
        (place.n + entry.n < self.batch)
            & (((place.h + entry.h) as u32) < self.h as u32)
            & (((place.w + entry.w) as u32) < self.w as u32)
    }

    /// Elements from the tile's first image to an entry.
    #[inline(always)]
    pub fn offset(&self, place: Place, entry: Entry) -> i64 {
        i64::from(entry.n) * self.image
            + i64::from(place.h + entry.h) * i64::from(self.w)
            + i64::from(place.w + entry.w)
    }
}
