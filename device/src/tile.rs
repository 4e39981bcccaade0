//! The product of two tiles in shared memory, by fused multiply-adds.
//!
//! A block of `2·BM` threads owns a `BM × 128` tile of the result, 8 × 8 elements a thread, kept in registers
//! while the reduction walks by 8. Both operands lie in shared memory with the reduction outermost, so that a
//! thread reads what it needs as 16-byte vectors; two buffers let the next step's loads run under this step's
//! arithmetic. A warp covers 64 × 32 elements: its lanes are 8 down and 4 across.

use crate::gpu::{fma_f32, shared_load16, shared_store, thread_idx_x};

/// Columns of a block's tile.
pub const BN: u32 = 128;

/// Steps of the reduction that are staged at a time.
pub const BK: u32 = 8;

/// Bytes between a stage's rows of columns; the 16 bytes more keep stores of a column apart.
const PITCH_B: u32 = (BN + 4) * 4;

/// The place of a block's stages in shared memory, behind `head` bytes of the kernel's own.
#[derive(Clone, Copy)]
pub struct Stages<const BM: u32> {
    head: u32,
}

impl<const BM: u32> Stages<BM> {
    const PITCH_A: u32 = (BM + 4) * 4;
    const BUFFER: u32 = BK * (Self::PITCH_A + PITCH_B);

    /// The stages behind `head` bytes, a multiple of 16.
    #[inline(always)]
    pub const fn behind(head: u32) -> Self {
        Self { head }
    }

    /// Stores an element of the left operand: step `k` of the buffer, row `m`.
    ///
    /// # Safety
    /// The launch gave the shared memory, and the place is this thread's until the next barrier.
    #[inline(always)]
    pub unsafe fn store_a(self, buffer: u32, k: u32, m: u32, value: f32) {
        let byte = self.head + buffer * Self::BUFFER + k * Self::PITCH_A + m * 4;
        // SAFETY: by this function's contract.
        unsafe { shared_store(byte, value) };
    }

    /// Stores an element of the right operand: step `k` of the buffer, column `n`.
    ///
    /// # Safety
    /// As for [`store_a`](Stages::store_a).
    #[inline(always)]
    pub unsafe fn store_b(self, buffer: u32, k: u32, n: u32, value: f32) {
        let byte = self.head + buffer * Self::BUFFER + BK * Self::PITCH_A + k * PITCH_B + n * 4;
        // SAFETY: by this function's contract.
        unsafe { shared_store(byte, value) };
    }
}

/// Where a thread's 8 × 8 elements lie in the block's tile: rows `row + i` and `row + 32 + i`, columns
/// `column + j` and `column + 16 + j`, for i and j below 4.
#[derive(Clone, Copy)]
pub struct Corner {
    /// The first row.
    pub row: u32,
    /// The first column.
    pub column: u32,
}

impl Corner {
    /// The calling thread's.
    #[inline(always)]
    pub fn of_thread() -> Self {
        let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
        Self { row: warp / 4 * 64 + lane / 4 * 4, column: warp % 4 * 32 + lane % 4 * 4 }
    }

    /// Row `i` of the eight.
    #[inline(always)]
    pub fn row(self, i: u32) -> u32 {
        self.row + i / 4 * 32 + i % 4
    }

    /// Column `j` of the eight.
    #[inline(always)]
    pub fn column(self, j: u32) -> u32 {
        self.column + j / 4 * 16 + j % 4
    }
}

/// A thread's part of the result.
pub type Sums = [[f32; 8]; 8];

/// Adds the product of one buffer's stages to the sums, in the order of the reduction.
///
/// # Safety
/// The buffer was filled before the last barrier, and nobody stores to it before the next.
#[inline(always)]
pub unsafe fn multiply<const BM: u32>(stages: Stages<BM>, buffer: u32, corner: Corner, sums: &mut Sums) {
    let base = stages.head + buffer * Stages::<BM>::BUFFER;
    let mut a_at = base + corner.row * 4;
    let mut b_at = base + BK * Stages::<BM>::PITCH_A + corner.column * 4;
    let mut k = 0;
    while k < BK {
        // SAFETY: by this function's contract; rows and columns are multiples of 4, so vectors are aligned.
        let (a0, a1, b0, b1) = unsafe {
            (shared_load16(a_at), shared_load16(a_at + 128), shared_load16(b_at), shared_load16(b_at + 64))
        };
        let mut i = 0;
        while i < 4 {
            let mut j = 0;
            while j < 4 {
                let [a, below] = [a0[i], a1[i]].map(f32::from_bits);
                let [b, beside] = [b0[j], b1[j]].map(f32::from_bits);
                sums[i][j] = fma_f32(a, b, sums[i][j]);
                sums[i][j + 4] = fma_f32(a, beside, sums[i][j + 4]);
                sums[i + 4][j] = fma_f32(below, b, sums[i + 4][j]);
                sums[i + 4][j + 4] = fma_f32(below, beside, sums[i + 4][j + 4]);
                j += 1;
            }
            i += 1;
        }
        a_at += Stages::<BM>::PITCH_A;
        b_at += PITCH_B;
        k += 1;
    }
}
