//! Elements on tensor cores, and how 16 bytes of them are gathered from memory.
//!
//! A matrix in shared memory has its reduction fastest, in rows of 16-byte vectors: eight 16-bit elements or four
//! f32. What `ldmatrix` hands out from such rows is what `mma` takes, for both sizes alike: an `mma` reduces over two
//! vectors, whatever they hold.

use crate::gpu::{bf16_pair, f16_pair, load_if, mma_bf16, mma_f16, mma_tf32, store16_if, to_tf32};
use crate::num::{Bf16, F16, Num};

/// An element type that tensor cores multiply.
pub trait Factor: Num<Acc = f32> {
    /// Adds the product of a 16-row fragment and an 8-column fragment.
    ///
    /// # Safety
    /// All lanes of the warp call this together.
    unsafe fn mma(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4];

    /// Stores the nearest elements of four numbers side by side.
    ///
    /// # Safety
    /// `to` is valid for writes of four elements and lies on their boundary.
    unsafe fn store_four(to: *mut Self, numbers: [f32; 4]);
}

impl Factor for F16 {
    #[inline(always)]
    unsafe fn mma(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
        // SAFETY: by this function's contract.
        unsafe { mma_f16(a, b, sum) }
    }

    #[inline(always)]
    unsafe fn store_four(to: *mut Self, [a, b, c, d]: [f32; 4]) {
        let words = u64::from(f16_pair(a, b)) | (u64::from(f16_pair(c, d)) << 32);
        // SAFETY: by this function's contract.
        unsafe { *to.cast() = words };
    }
}

impl Factor for Bf16 {
    #[inline(always)]
    unsafe fn mma(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
        // SAFETY: by this function's contract.
        unsafe { mma_bf16(a, b, sum) }
    }

    #[inline(always)]
    unsafe fn store_four(to: *mut Self, [a, b, c, d]: [f32; 4]) {
        let words = u64::from(bf16_pair(a, b)) | (u64::from(bf16_pair(c, d)) << 32);
        // SAFETY: by this function's contract.
        unsafe { *to.cast() = words };
    }
}

impl Factor for f32 {
    #[inline(always)]
    unsafe fn mma(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
        // SAFETY: by this function's contract.
        unsafe { mma_tf32(a, b, sum) }
    }

    #[inline(always)]
    unsafe fn store_four(to: *mut Self, numbers: [f32; 4]) {
        // SAFETY: by this function's contract.
        unsafe { store16_if(true, to.cast(), numbers.map(f32::to_bits)) };
    }
}

/// Elements of a vector.
#[must_use]
pub const fn vector<E>() -> u32 {
    16 / size_of::<E>() as u32
}

/// A vector of elements that lie `step` elements apart, the first `live` of them; the rest are zero. f32 is rounded
/// to TF32, unless products split it.
///
/// # Safety
/// The live elements are valid for reads of global memory.
#[inline(always)]
pub unsafe fn gather_vector<E: Num<Acc = f32>, const SPLIT: bool>(
    from: *const E,
    step: i32,
    live: u32,
) -> [u32; 4] {
    // SAFETY: by this function's contract.
    let element = |v: u32| unsafe {
        let at = from.wrapping_offset(v as isize * step as isize);
        if size_of::<E>() == 2 {
            u32::from(load_if(v < live, at.cast::<u16>(), 0))
        } else {
            let word = load_if(v < live, at.cast::<f32>(), 0.0);
            (if SPLIT { word } else { to_tf32(word) }).to_bits()
        }
    };
    if size_of::<E>() == 2 {
        let pair = |v: u32| (element(2 * v), element(2 * v + 1));
        let pairs = [pair(0), pair(1), pair(2), pair(3)];
        pairs.map(|(low, high)| low | (high << 16))
    } else {
        [element(0), element(1), element(2), element(3)]
    }
}

/// A number's TF32 part and what is left of it, both as TF32 bits. A number that is not finite has nothing left.
#[inline(always)]
fn split(bits: u32) -> (u32, u32) {
    let value = f32::from_bits(bits);
    let high = to_tf32(value);
    let rest = to_tf32(value - high);
    (high.to_bits(), rest.to_bits())
}

/// A number's TF32 part and what is left of it, in few instructions, for numbers whose NaNs are [`plain`]: the nearest TF32
/// value, ties away from zero. The hardware drops the last 13 bits of the rest, which are rounded before. What is not
/// finite gives a first part that is not finite either, and a rest that means nothing.
#[inline(always)]
pub fn split_plain(bits: u32) -> (u32, u32) {
    let high = bits.wrapping_add(0x1000) & !0x1fff;
    let rest = f32::from_bits(bits) - f32::from_bits(high);
    (high, rest.to_bits().wrapping_add(0x1000))
}

/// The bits of an f32, or of the NaN that rounding to TF32 keeps.
#[inline(always)]
pub fn plain(bits: u32) -> u32 {
    if f32::from_bits(bits).is_nan() { 0x7fc0_0000 } else { bits }
}

/// The bits of an f32 as they are multiplied, rounded to TF32 unless products split it.
#[inline(always)]
#[must_use]
pub fn number<const SPLIT: bool>(bits: u32) -> u32 {
    if SPLIT { plain(bits) } else { to_tf32(f32::from_bits(bits)).to_bits() }
}

/// As [`Factor::mma`] for f32, with three products of TF32 parts.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
pub unsafe fn multiply_split(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
    // SAFETY: by this function's contract.
    unsafe { multiply_three(turned(a.map(split)), b.map(split), sum) }
}

/// A thread's part of a product: `I` fragments of 16 rows by `J` of 8 columns.
pub type FragmentSums<const I: usize, const J: usize> = [[[f32; 4]; J]; I];

/// What a warp multiplies at a time, one fragment deep.
#[derive(Clone, Copy)]
pub struct Fragments<const I: usize, const J: usize> {
    /// Those of the rows.
    pub left: [[u32; 4]; I],
    /// Those of the columns.
    pub right: [[u32; 2]; J],
}

impl<const I: usize, const J: usize> Fragments<I, J> {
    /// Adds their products to the sums.
    ///
    /// # Safety
    /// All lanes of the warp call this together.
    #[inline(always)]
    pub unsafe fn multiply<E: Factor>(&self, sums: &mut FragmentSums<I, J>) {
        let mut i = 0;
        while i < I {
            let mut j = 0;
            while j < J {
                // SAFETY: by this function's contract.
                sums[i][j] = unsafe { E::mma(self.left[i], self.right[j], sums[i][j]) };
                j += 1;
            }
            i += 1;
        }
    }

    /// Their split products, of numbers whose NaNs are [`plain`]. One is not finite if a number is not.
    ///
    /// # Safety
    /// All lanes of the warp call this together.
    #[inline(always)]
    #[must_use]
    pub unsafe fn split_products(&self) -> FragmentSums<I, J> {
        let mut products = [[[0.0; 4]; J]; I];
        let mut i = 0;
        while i < I {
            let mut j = 0;
            while j < J {
                let (left, right) = (self.left[i].map(split_plain), self.right[j].map(split_plain));
                // SAFETY: by this function's contract.
                products[i][j] = unsafe { three_products(turned(left), right) };
                j += 1;
            }
            i += 1;
        }
        products
    }
}

/// Adds products to the sums. Measured: split products are faster when none is added before all of a step were begun.
#[inline(always)]
pub fn add_products<const I: usize, const J: usize>(
    sums: &mut FragmentSums<I, J>,
    products: &FragmentSums<I, J>,
) {
    let mut i = 0;
    while i < I {
        let mut j = 0;
        while j < J {
            sums[i][j] = add_four(sums[i][j], products[i][j]);
            j += 1;
        }
        i += 1;
    }
}

#[inline(always)]
fn add_four(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
}

/// All first parts, and all others.
#[inline(always)]
#[must_use]
pub fn turned(parts: [(u32, u32); 4]) -> [[u32; 4]; 2] {
    [parts.map(|part| part.0), parts.map(|part| part.1)]
}

/// The products of the parts of numbers, the small ones first, added to the sum.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
pub unsafe fn multiply_three(a: [[u32; 4]; 2], b: [(u32, u32); 2], sum: [f32; 4]) -> [f32; 4] {
    // SAFETY: by this function's contract.
    add_four(sum, unsafe { three_products(a, b) })
}

/// The products of the parts of numbers, the small ones first.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
unsafe fn three_products([a_high, a_low]: [[u32; 4]; 2], b: [(u32, u32); 2]) -> [f32; 4] {
    let (b_high, b_low) = (b.map(|part| part.0), b.map(|part| part.1));
    // SAFETY: by this function's contract.
    unsafe {
        let small = mma_tf32(a_low, b_high, [0.0; 4]);
        let small = mma_tf32(a_high, b_low, small);
        mma_tf32(a_high, b_high, small)
    }
}
