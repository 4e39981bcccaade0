//! Images in the blocked format, which tensor cores read without another word: a plane for each 64 bytes of channels,
//! and in it a row of those channels for every pixel of the batch.
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

/// Brings an image to the blocked format: `blocked[group][plane][n][pixel][channel of the plane]` is
/// `image[n][group][channel][pixel]`, or zero behind a group's last channel.
///
/// # Safety
/// `image` is valid for reads as `blocking` describes it, on a boundary of `wide` elements, `blocked` for writes of all
/// planes, on a 16-byte boundary; they do not overlap.
#[inline(always)]
pub unsafe fn conv2d_block_channels<E: Factor>(
    image: *mut E,
    blocked: *mut E,
    blocking: Blocking,
    block: i32,
) {
    for_each_index(u64::from(blocking.reads) * 4, block, |index| {
        // Neighbouring threads have the four parts of a row, then the next pixels.
        let (read, quarter) = (index as u32 / 4, index as u32 % 4);
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
            let words = if size_of::<E>() == 4 {
                words.map(|word| {
                    let rounded = to_tf32(f32::from_bits(word)).to_bits();
                    if blocking.round != 0 { rounded } else { plain(word) }
                })
            } else {
                words
            };
            // SAFETY: the row lies in the plane, and its part is this thread's.
            unsafe { store16_if(true, to.wrapping_add(v * ROW as usize), words) };
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
    });
}

entry! { sm_80 single conv2d_block_channels {
    args(image: *mut E, blocked: *mut E)
    hidden(blocking: Blocking)
    constants(block: i32)
} }
