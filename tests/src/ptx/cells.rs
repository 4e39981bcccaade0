//! Bytes and bits that many threads of the machine touch at once.
//!
//! Blocks run in parallel, and a faulty kernel's blocks may touch the same byte: every access is a relaxed
//! atomic, so that a race in the kernel is never one in the machine.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Zeroed atomics, whose pages the operating system hands out only when they are touched.
pub(crate) fn zeroed(words: usize) -> Box<[AtomicU64]> {
    let plain = vec![0_u64; words].into_boxed_slice();
    // SAFETY: AtomicU64 has the size, alignment and bit validity of u64, and the box is given up here.
    unsafe { Box::from_raw(Box::into_raw(plain) as *mut [AtomicU64]) }
}

/// A byte array with aligned atomic access of 1, 2, 4 or 8 bytes.
#[derive(Debug)]
pub(crate) struct Bytes {
    words: Box<[AtomicU64]>,
}

impl Bytes {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { words: zeroed(bytes.div_ceil(8)) }
    }

    /// The address of `offset`, checked for an access of `width` aligned bytes.
    #[inline(always)]
    fn at(&self, offset: usize, width: usize) -> *mut u8 {
        assert!(
            offset.is_multiple_of(width) && offset + width <= self.words.len() * 8,
            "checked by the caller"
        );
        // SAFETY: the offset lies inside the allocation, as asserted; the words are atomics, so writing
        // through the pointer derived from a shared reference is allowed.
        unsafe { self.words.as_ptr().cast::<u8>().add(offset).cast_mut() }
    }

    /// The value at an aligned offset.
    #[inline(always)]
    pub(crate) fn load(&self, offset: usize, width: usize) -> u64 {
        let at = self.at(offset, width);
        // SAFETY: `at` returned an address inside the allocation, aligned to `width`; every access to it is
        // atomic.
        unsafe {
            match width {
                1 => AtomicU8::from_ptr(at).load(Ordering::Relaxed) as u64,
                2 => AtomicU16::from_ptr(at.cast()).load(Ordering::Relaxed) as u64,
                4 => AtomicU32::from_ptr(at.cast()).load(Ordering::Relaxed) as u64,
                _ => AtomicU64::from_ptr(at.cast()).load(Ordering::Relaxed),
            }
        }
    }

    /// Stores the low `width` bytes at an aligned offset.
    #[inline(always)]
    pub(crate) fn store(&self, offset: usize, width: usize, value: u64) {
        let at = self.at(offset, width);
        // SAFETY: as in `load`.
        unsafe {
            match width {
                1 => AtomicU8::from_ptr(at).store(value as u8, Ordering::Relaxed),
                2 => AtomicU16::from_ptr(at.cast()).store(value as u16, Ordering::Relaxed),
                4 => AtomicU32::from_ptr(at.cast()).store(value as u32, Ordering::Relaxed),
                _ => AtomicU64::from_ptr(at.cast()).store(value, Ordering::Relaxed),
            }
        }
    }

    /// Replaces the value by `change` of it, atomically; returns the old value.
    pub(crate) fn update(&self, offset: usize, width: usize, change: impl Fn(u64) -> u64) -> u64 {
        let at = self.at(offset, width);
        let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        // SAFETY: as in `load`.
        unsafe {
            match width {
                2 => {
                    let cell = AtomicU16::from_ptr(at.cast());
                    let old = cell.fetch_update(acquire, relaxed, |v| Some(change(v as u64) as u16));
                    old.unwrap_or_else(|v| v) as u64
                }
                4 => {
                    let cell = AtomicU32::from_ptr(at.cast());
                    let old = cell.fetch_update(acquire, relaxed, |v| Some(change(v as u64) as u32));
                    old.unwrap_or_else(|v| v) as u64
                }
                _ => {
                    let cell = AtomicU64::from_ptr(at.cast());
                    cell.fetch_update(acquire, relaxed, |v| Some(change(v))).unwrap_or_else(|v| v)
                }
            }
        }
    }
}

/// One bit a byte.
#[derive(Debug)]
pub(crate) struct Bits {
    words: Box<[AtomicU64]>,
}

/// `count` ones, for up to 64.
fn ones(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

impl Bits {
    pub(crate) fn new(bits: usize) -> Self {
        Self { words: zeroed(bits.div_ceil(64)) }
    }

    /// The word-sized pieces of a range: (word, mask).
    fn pieces(start: usize, len: usize) -> impl Iterator<Item = (usize, u64)> {
        let end = start + len;
        let mut at = start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let count = (64 - at % 64).min(end - at);
            let piece = (at / 64, ones(count) << (at % 64));
            at += count;
            Some(piece)
        })
    }

    /// Whether every bit of the range is set.
    #[inline]
    pub(crate) fn all(&self, start: usize, len: usize) -> bool {
        Self::pieces(start, len).all(|(word, mask)| self.words[word].load(Ordering::Relaxed) & mask == mask)
    }

    /// Up to 64 bits of a range, the first in the lowest place.
    pub(crate) fn get(&self, start: usize, len: usize) -> u64 {
        let mut value = 0;
        let mut filled = 0;
        for (word, mask) in Self::pieces(start, len) {
            let bits = (self.words[word].load(Ordering::Relaxed) & mask) >> mask.trailing_zeros();
            value |= bits << filled;
            filled += mask.count_ones();
        }
        value
    }

    /// Sets every bit of the range.
    #[inline]
    pub(crate) fn set(&self, start: usize, len: usize) {
        for (word, mask) in Self::pieces(start, len) {
            // Most stores repeat what is set already, and a plain load is far cheaper than the exchange.
            if self.words[word].load(Ordering::Relaxed) & mask != mask {
                self.words[word].fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    /// Clears every bit of the range.
    pub(crate) fn clear(&self, start: usize, len: usize) {
        for (word, mask) in Self::pieces(start, len) {
            self.words[word].fetch_and(!mask, Ordering::Relaxed);
        }
    }

    /// Sets or clears one bit for each byte, as the low bits of `value` say.
    pub(crate) fn put(&self, start: usize, len: usize, value: u64) {
        for bit in 0..len {
            if value >> bit & 1 == 1 {
                self.set(start + bit, 1);
            } else {
                self.clear(start + bit, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_ranges_cross_words() {
        let bits = Bits::new(200);
        bits.set(60, 10);
        assert!(bits.all(60, 10) && !bits.all(59, 10) && !bits.all(60, 11));
        assert_eq!(bits.get(58, 8), 0b1111_1100);
        bits.clear(63, 2);
        assert_eq!(bits.get(60, 10), 0b11_1110_0111);
        bits.put(0, 4, 0b1010);
        assert_eq!(bits.get(0, 4), 0b1010);
        bits.set(64, 64);
        assert!(bits.all(64, 64));
        assert_eq!(bits.get(64, 64), u64::MAX);
    }

    #[test]
    fn bytes_are_little_endian_at_every_width() {
        let bytes = Bytes::new(16);
        bytes.store(8, 8, 0x0807_0605_0403_0201);
        assert_eq!(bytes.load(9, 1), 2);
        assert_eq!(bytes.load(10, 2), 0x0403);
        assert_eq!(bytes.load(12, 4), 0x0807_0605);
        assert_eq!(bytes.update(12, 4, |v| v + 1), 0x0807_0605);
        assert_eq!(bytes.load(8, 8), 0x0807_0606_0403_0201);
    }
}
