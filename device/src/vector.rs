//! Sixteen bytes at a time: loads from any element address, and elements in and out of four words.

use crate::gpu::{funnel_right, load16_if};

/// Bytes of a vector, the widest access there is.
pub const VECTOR: usize = 16;

/// Elements of a vector.
#[inline(always)]
#[must_use]
pub const fn lanes<E>() -> usize {
    VECTOR / size_of::<E>()
}

/// The elements that may be read, as addresses: a vector load that reaches over them is not taken.
#[derive(Clone, Copy)]
pub struct Readable {
    start: u64,
    end: u64,
}

impl Readable {
    /// The `len` elements from `start`.
    #[inline(always)]
    pub fn new<E>(start: *const E, len: u64) -> Self {
        let start = start as u64;
        Self { start, end: start + len * size_of::<E>() as u64 }
    }

    /// Whether the aligned vectors around the 16 bytes at `address` lie inside.
    #[inline(always)]
    pub fn covers(self, address: u64) -> bool {
        let first = address & !15;
        let end = address.wrapping_add(2 * VECTOR as u64 - 1) & !15;
        (first >= self.start) & (end <= self.end)
    }

    /// The same for 16 bytes that lie inside themselves. It may say no for those in the first and the last 32 bytes,
    /// where they are not aligned: that takes one comparison.
    #[inline(always)]
    pub fn surrounds(self, address: u64) -> bool {
        let bytes = self.end - self.start;
        let most = if bytes < 48 { 0 } else { bytes - 47 };
        (address & 15 == 0) | (address.wrapping_sub(self.start).wrapping_sub(16) < most)
    }
}

/// Sixteen bytes in flight from an address that need not be aligned: one aligned vector, or two.
#[derive(Clone, Copy)]
pub struct Unaligned {
    low: [u32; 4],
    high: [u32; 4],
    offset: u32,
    taken: bool,
}

impl Unaligned {
    /// Starts the loads, or none.
    ///
    /// # Safety
    /// When taken, the memory around `address` is readable as [`Readable::covers`] says.
    #[inline(always)]
    pub unsafe fn load_if(take: bool, address: u64) -> Self {
        let offset = (address & 15) as u32;
        let first = (address & !15) as *const u8;
        // SAFETY: by this function's contract; the second vector is touched only when bytes of it are needed.
        unsafe {
            let low = load16_if(take, first);
            let high = load16_if(take & (offset != 0), first.wrapping_add(VECTOR));
            Self { low, high, offset, taken: take }
        }
    }

    /// Starts the load from an address that is known to be aligned, or none.
    ///
    /// # Safety
    /// When taken, 16 bytes are readable from `address` on, a multiple of 16.
    #[inline(always)]
    pub unsafe fn load_aligned_if(take: bool, address: u64) -> Self {
        // SAFETY: by this function's contract.
        let low = unsafe { load16_if(take, address as *const u8) };
        Self { low, high: [0; 4], offset: 0, taken: take }
    }

    /// Whether the loads were started.
    #[inline(always)]
    pub fn taken(self) -> bool {
        self.taken
    }

    /// The sixteen bytes, for elements of this type.
    #[inline(always)]
    pub fn words<E>(self) -> [u32; 4] {
        shift_words::<E>(self.low, self.high, self.offset)
    }

    /// The sixteen bytes, where the address is known to be aligned.
    #[inline(always)]
    pub fn aligned_words(self) -> [u32; 4] {
        self.low
    }
}

/// The 16 bytes that start `offset` bytes into `low:high`; the offset is a multiple of the element's size.
#[inline(always)]
fn shift_words<E>(low: [u32; 4], high: [u32; 4], offset: u32) -> [u32; 4] {
    // Written out: an index that is not a literal would put these arrays into local memory.
    let [l0, l1, l2, l3] = low;
    let [h0, h1, h2, h3] = high;
    let two = |near, far| if offset & 8 != 0 { far } else { near };
    let (a0, a1, a2) = (two(l0, l2), two(l1, l3), two(l2, h0));
    let (a3, a4, a5) = (two(l3, h1), two(h0, h2), two(h1, h3));
    if size_of::<E>() >= 8 {
        return [a0, a1, a2, a3];
    }
    let one = |near, far| if offset & 4 != 0 { far } else { near };
    let (b0, b1, b2, b3, b4) = (one(a0, a1), one(a1, a2), one(a2, a3), one(a3, a4), one(a4, a5));
    if size_of::<E>() >= 4 {
        return [b0, b1, b2, b3];
    }
    let bits = (offset & 3) * 8;
    [
        funnel_right(b0, b1, bits),
        funnel_right(b1, b2, bits),
        funnel_right(b2, b3, bits),
        funnel_right(b3, b4, bits),
    ]
}

/// Element `lane` of a vector.
#[inline(always)]
pub fn lane<E: Copy>(words: &[u32; 4], lane: usize) -> E {
    // SAFETY: each arm copies exactly the element's bytes, and every bit pattern is an element.
    unsafe {
        match size_of::<E>() {
            8 => {
                let bits = u64::from(words[(2 * lane) & 3]) | (u64::from(words[(2 * lane + 1) & 3]) << 32);
                core::mem::transmute_copy(&bits)
            }
            4 => core::mem::transmute_copy(&words[lane & 3]),
            2 => core::mem::transmute_copy(&((words[(lane / 2) & 3] >> (16 * (lane % 2))) as u16)),
            _ => core::mem::transmute_copy(&((words[(lane / 4) & 3] >> (8 * (lane % 4))) as u8)),
        }
    }
}

/// Puts an element into lane `lane` of a vector whose lane is still zero.
#[inline(always)]
pub fn set_lane<E: Copy>(words: &mut [u32; 4], lane: usize, element: E) {
    // SAFETY: each arm reads exactly the element's bytes.
    unsafe {
        match size_of::<E>() {
            8 => {
                let bits: u64 = core::mem::transmute_copy(&element);
                words[(2 * lane) & 3] = bits as u32;
                words[(2 * lane + 1) & 3] = (bits >> 32) as u32;
            }
            4 => words[lane & 3] = core::mem::transmute_copy(&element),
            2 => {
                let bits: u16 = core::mem::transmute_copy(&element);
                words[(lane / 2) & 3] |= u32::from(bits) << (16 * (lane % 2));
            }
            _ => {
                let bits: u8 = core::mem::transmute_copy(&element);
                words[(lane / 4) & 3] |= u32::from(bits) << (8 * (lane % 4));
            }
        }
    }
}
