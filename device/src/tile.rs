//! The product of two tiles in shared memory.
//!
//! A block of `2·BM` threads owns a `BM × 128` tile of the result, 64 elements a thread, kept in registers while
//! the reduction walks by `BK`. Both operands lie in shared memory as f32 with the reduction outermost; two
//! buffers let the next stage's loads run under this stage's arithmetic. A warp covers 64 × 32 elements.
//!
//! [`multiply`] uses fused multiply-adds: 8 × 8 elements a thread, read as 16-byte vectors. Rows are padded by 8 words.

use crate::gpu::{fma_f32, opaque, shared_load16, shared_store, shared_store16, thread_idx_x};

/// Columns of a block's tile.
pub const BN: u32 = 128;

/// Bytes between a stage's rows of columns.
const PITCH_B: u32 = (BN + 8) * 4;

/// The place of a block's stages in shared memory, behind `head` bytes of the kernel's own.
#[derive(Clone, Copy)]
pub struct Stages<const BM: u32, const BK: u32> {
    head: u32,
}

impl<const BM: u32, const BK: u32> Stages<BM, BK> {
    const PITCH_A: u32 = (BM + 8) * 4;
    const BUFFER: u32 = BK * (Self::PITCH_A + PITCH_B);

    /// The stages behind `head` bytes, a multiple of 16.
    #[inline(always)]
    pub const fn behind(head: u32) -> Self {
        Self { head }
    }

    #[inline(always)]
    fn a(self, buffer: u32, k: u32, m: u32) -> u32 {
        self.head + buffer * Self::BUFFER + k * Self::PITCH_A + m * 4
    }

    #[inline(always)]
    fn b(self, buffer: u32, k: u32, n: u32) -> u32 {
        self.head + buffer * Self::BUFFER + BK * Self::PITCH_A + k * PITCH_B + n * 4
    }

    /// Stores an element of the left operand: step `k` of the buffer, row `m`.
    ///
    /// # Safety
    /// The launch gave the shared memory, and the place is this thread's until the next barrier.
    #[inline(always)]
    pub unsafe fn store_a(self, buffer: u32, k: u32, m: u32, value: f32) {
        // SAFETY: by this function's contract.
        unsafe { shared_store(self.a(buffer, k, m), value) };
    }

    /// Stores four elements of the left operand, from row `m` on, a multiple of 4.
    ///
    /// # Safety
    /// As for [`store_a`](Stages::store_a).
    #[inline(always)]
    pub unsafe fn store_a4(self, buffer: u32, k: u32, m: u32, words: [u32; 4]) {
        // SAFETY: by this function's contract.
        unsafe { shared_store16(self.a(buffer, k, m), words) };
    }

    /// Stores an element of the right operand: step `k` of the buffer, column `n`.
    ///
    /// # Safety
    /// As for [`store_a`](Stages::store_a).
    #[inline(always)]
    pub unsafe fn store_b(self, buffer: u32, k: u32, n: u32, value: f32) {
        // SAFETY: by this function's contract.
        unsafe { shared_store(self.b(buffer, k, n), value) };
    }
}

/// Where a thread's 64 elements lie in the block's tile.
#[derive(Clone, Copy)]
pub struct Corner {
    row: u32,
    column: u32,
}

impl Corner {
    /// The calling thread's.
    #[inline(always)]
    pub fn of_thread() -> Self {
        let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
        let (row, column) = (lane / 4 * 4, lane % 4 * 4);
        Self { row: warp / 4 * 64 + row, column: warp % 4 * 32 + column }
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

/// A thread's part of the result: rows and columns as [`Corner`] counts them.
pub type Sums = [[f32; 8]; 8];

/// Adds the product of one buffer's stages to the sums, in the order of the reduction.
///
/// # Safety
/// The buffer was filled before the last barrier, and nobody stores to it before the next.
#[inline(always)]
pub unsafe fn multiply<const BM: u32, const BK: u32>(
    stages: Stages<BM, BK>,
    buffer: u32,
    corner: Corner,
    sums: &mut Sums,
) {
    let mut a_at = stages.a(buffer, 0, corner.row);
    let mut b_at = stages.b(buffer, 0, corner.column);
    let (mut k, end) = (0, opaque(BK));
    while k < end {
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
        a_at += Stages::<BM, BK>::PITCH_A;
        b_at += PITCH_B;
        k += 1;
    }
}
