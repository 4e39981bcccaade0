//! Filters and images as tensor cores read them: packed in chunks, tap by tap; and in the blocked format, a plane for each
//! 64 bytes of channels, and in it a row of those channels for every pixel of the batch.
//!
//! Groups are padded to whole planes with zeros. What is read next, a pixel's channels, lies together whatever the tap,
//! so that `cp.async` brings it as it is, 16 bytes at a time.

use crate::divmod::FastDivmod;
use crate::gpu::{store16_if, to_tf32};
use crate::mma::{Factor, gather_vector, plain, vector};
use crate::patch::{gather_pair, gather_square};
use crate::sweep::for_each_index;

/// Bytes of a pixel in a plane.
pub const ROW: u32 = 64;

/// How an image is brought to the blocked format.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Blocking {
    /// Elements of a batch item.
    pub image: i64,
    /// Pixels of a batch item, the elements of a channel.
    pub pixels: u32,
    /// Channels of a group.
    pub channels: u32,
    /// Pixels that are read together, one, two or four, which divides those of a batch item.
    pub wide: u32,
    /// Whether to round f32 to TF32; if not, its NaNs are made [`plain`].
    pub round: u32,
    /// Reads of all planes.
    pub reads: u32,
    /// Divides by reads of a batch item along its pixels.
    pub along: FastDivmod,
    /// Divides by batch items.
    pub batch: FastDivmod,
    /// Divides by planes of a group.
    pub planes: FastDivmod,
}

/// How a filter is packed: element `[group][chunk][tap][row][channel of the chunk]` is
/// `filter[group·filter_group + row·filter_row + channel·filter_channel + tap]`, a chunk having [`ROW`] bytes of channels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChunkPacking {
    /// Filter elements of a group.
    pub filter_group: i64,
    /// Filter elements between rows.
    pub filter_row: i32,
    /// Filter elements between channels.
    pub filter_channel: i32,
    /// Rows that the filter has.
    pub rows: u32,
    /// Channels that the filter has.
    pub channels: u32,
    /// Rows of all chunks and taps.
    pub lines: u32,
    /// Whether to round to TF32.
    pub round: u32,
    /// Divides by padded rows.
    pub padded_rows: FastDivmod,
    /// Divides by taps.
    pub taps: FastDivmod,
    /// Divides by chunks.
    pub chunks: FastDivmod,
}

/// What is prepared for a product: a filter, then up to two images, each counted in 16-byte parts of its rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Preparation {
    /// Where the first image's parts begin.
    pub first: u32,
    /// Where the second image's parts begin.
    pub second: u32,
    /// Where they end.
    pub end: u32,
    /// The filter.
    pub packing: ChunkPacking,
    /// The first image.
    pub image: Blocking,
    /// The second image.
    pub other: Blocking,
}

/// Four words of elements as products take them: f32 rounded to TF32, or as it is with its NaNs made [`plain`].
#[inline(always)]
fn finished<E>(words: [u32; 4], round: u32) -> [u32; 4] {
    if size_of::<E>() != 4 {
        return words;
    }
    words.map(|word| {
        let rounded = to_tf32(f32::from_bits(word)).to_bits();
        if round != 0 { rounded } else { plain(word) }
    })
}

/// Packs a part of the filter.
///
/// # Safety
/// `filter` is valid for reads as `packing` describes it, `packed` for writes of `packing.lines` rows, on a 16-byte boundary; no
/// other thread has this part.
#[inline(always)]
unsafe fn pack<E: Factor>(filter: *const E, packed: *mut E, packing: &ChunkPacking, part: u32) {
    // Neighbouring threads have the four parts of a row, then the next taps, which lie together.
    let (line, quarter) = (part / 4, part % 4);
    if line >= packing.lines {
        return;
    }
    let (rest, tap) = packing.taps.divmod(line);
    let (rest, row) = packing.padded_rows.divmod(rest);
    let (group, chunk) = packing.chunks.divmod(rest);
    let channel = chunk * (ROW / size_of::<E>() as u32) + quarter * vector::<E>();
    let live = if row < packing.rows { packing.channels.saturating_sub(channel) } else { 0 };
    let offset = i64::from(group) * packing.filter_group
        + i64::from(row) * i64::from(packing.filter_row)
        + i64::from(channel) * i64::from(packing.filter_channel)
        + i64::from(tap);
    let to = (rest * packing.taps.divisor() + tap) * packing.padded_rows.divisor() + row;
    // SAFETY: so many channels lie in the filter; the part lies in the packed one, and is this thread's.
    unsafe {
        let words =
            gather_vector::<E, true>(filter.wrapping_offset(offset as isize), packing.filter_channel, live);
        let to = packed.cast::<u8>().wrapping_add(to as usize * ROW as usize + quarter as usize * 16);
        store16_if(true, to, finished::<E>(words, packing.round));
    }
}

/// Brings a part of an image to the blocked format, or two or four, of as many pixels.
///
/// # Safety
/// `image` is valid for reads as `blocking` describes it, on a boundary of `wide` elements, `blocked` for writes of all
/// planes, on a 16-byte boundary; no other thread has this part.
#[inline(always)]
unsafe fn block_channels<E: Factor>(image: *const E, blocked: *mut E, blocking: &Blocking, part: u32) {
    // Neighbouring threads have the four parts of a row, then the next pixels.
    let (read, quarter) = (part / 4, part % 4);
    if read >= blocking.reads {
        return;
    }
    let (rest, along) = blocking.along.divmod(read);
    let (plane, n) = blocking.batch.divmod(rest);
    let (group, chunk) = blocking.planes.divmod(plane);
    let channel = chunk * (ROW / size_of::<E>() as u32) + quarter * vector::<E>();
    let live = blocking.channels.saturating_sub(channel);
    let pixel = along * blocking.wide;
    let first = u64::from(group * blocking.channels + channel) * u64::from(blocking.pixels);
    let from =
        image.wrapping_offset((i64::from(n) * blocking.image + first as i64 + i64::from(pixel)) as isize);
    let row = rest * blocking.pixels + pixel;
    let to = blocked.cast::<u8>().wrapping_add(row as usize * ROW as usize + quarter as usize * 16);
    let put = |v: usize, words: [u32; 4]| {
        // SAFETY: the row lies in the plane, and its part is this thread's.
        unsafe { store16_if(true, to.wrapping_add(v * ROW as usize), finished::<E>(words, blocking.round)) };
    };
    let step = blocking.pixels as i32;
    // SAFETY: so many pixels lie in the image, and so many channels in the group.
    unsafe {
        if blocking.wide == 4 {
            let [a, b, c, d] = gather_square::<E, true>(from, step, live);
            put(0, a);
            put(1, b);
            put(2, c);
            put(3, d);
        } else if blocking.wide == 2 {
            let [a, b] = gather_pair::<E, true>(from, step, live);
            put(0, a);
            put(1, b);
        } else {
            put(0, gather_vector::<E, true>(from, step, live));
        }
    }
}

/// Packs a filter and brings up to two images to the blocked format: `blocked[group][plane][n][pixel][channel of the
/// plane]` is `image[n][group][channel][pixel]`, or zero behind a group's last channel.
///
/// # Safety
/// What has parts is valid for reads as `preparation` describes it, images on a boundary of their `wide` elements; where
/// it goes for writes of all its rows, on a 16-byte boundary. What is written overlaps nothing.
#[inline(always)]
pub unsafe fn conv2d_prepare<E: Factor>(
    filter: *mut E,
    packed: *mut E,
    image: *mut E,
    blocked: *mut E,
    other: *mut E,
    other_blocked: *mut E,
    preparation: Preparation,
    block: i32,
) {
    for_each_index(u64::from(preparation.end), block, |index| {
        let part = index as u32;
        // SAFETY: by this function's contract; each index is another part.
        unsafe {
            if part < preparation.first {
                pack(filter, packed, &preparation.packing, part);
            } else if part < preparation.second {
                block_channels(image, blocked, &preparation.image, part - preparation.first);
            } else {
                block_channels(other, other_blocked, &preparation.other, part - preparation.second);
            }
        }
    });
}

entry! { sm_80 single conv2d_prepare {
    args(filter: *mut E, packed: *mut E, image: *mut E, blocked: *mut E, other: *mut E, other_blocked: *mut E)
    hidden(preparation: Preparation)
    constants(block: i32)
} }
