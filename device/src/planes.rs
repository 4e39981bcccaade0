//! Planes of an image in shared memory as f32, with zeros around them.
//!
//! A tile is some whole rows of several planes. Its columns start `left` words into a row of `pitch` words; what lies
//! left and right of the image, and above and below it, is zero, so that a tap needs no test.

use crate::divmod::FastDivmod;
use crate::gpu::{block_dim_x, load_if, load16_if, shared_load, shared_store, shared_store16, thread_idx_x};
use crate::num::Num;
use crate::vector::{lane, lanes};

/// How planes lie in memory and in shared memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Planes {
    /// Elements between the planes of a tile.
    pub plane: u32,
    /// Rows of a plane.
    pub h: i32,
    /// Columns of a plane.
    pub w: i32,
    /// Words in front of column 0; a multiple of four.
    pub left: u32,
    /// Divides by words of a row; a multiple of four.
    pub pitch: FastDivmod,
    /// Divides by rows of a tile.
    pub rows: FastDivmod,
    /// Divides by whole vectors of a plane's row.
    pub vectors: FastDivmod,
    /// Divides by words of a row that are not the plane's, if there are any.
    pub around: FastDivmod,
    /// How many they are.
    pub words_around: u32,
}

impl Planes {
    /// The shared memory of a word of a tile, in bytes behind the tile's start.
    #[inline(always)]
    pub fn place(&self, plane: u32, row: u32, word: u32) -> u32 {
        ((plane * self.rows.divisor() + row) * self.pitch.divisor() + word) * 4
    }

    /// Brings rows from `first_row` on of `count` planes to shared memory. A barrier must follow.
    ///
    /// # Safety
    /// `source` is valid for reads of these planes. The launch gave a tile of shared memory `at` bytes from its start,
    /// a multiple of 16, and no thread reads it before the next barrier.
    #[inline(always)]
    pub unsafe fn stage<E: Num<Acc = f32>>(&self, at: u32, source: *const E, count: u32, first_row: i32) {
        let (thread, threads) = (thread_idx_x(), block_dim_x());
        let lines = count * self.rows.divisor();
        // The element of a row of the tile, and whether the row lies in its plane.
        let line = |line: u32| {
            let (plane, row) = self.rows.divmod(line);
            let row = first_row + row as i32;
            // Products of 32-bit numbers, which take one instruction each.
            let from = source.wrapping_add((u64::from(plane) * u64::from(self.plane)) as usize);
            let from = from.wrapping_offset((i64::from(row) * i64::from(self.w)) as isize);
            // A negative row is a huge unsigned one.
            (from, (row as u32) < self.h as u32)
        };
        let elements = lanes::<E>() as u32;
        if (source.addr() & 15 == 0) & (self.w as u32 & (elements - 1) == 0) {
            let total = lines * self.vectors.divisor();
            let mut first = thread;
            while first < total {
                let load = |u: u32| {
                    let index = first + u * threads;
                    let (row, vector) = self.vectors.divmod(index);
                    let (from, inside) = line(row);
                    let take = inside & (index < total);
                    // SAFETY: the row lies in its plane, and each of its vectors on its boundary.
                    unsafe { load16_if(take, from.wrapping_add((vector * elements) as usize).cast()) }
                };
                let parts = [load(0), load(1), load(2), load(3)];
                let mut u = 0;
                while u < 4 {
                    let index = first + u * threads;
                    if index < total {
                        let (row, vector) = self.vectors.divmod(index);
                        let word = row * self.pitch.divisor() + self.left + vector * elements;
                        // SAFETY: by this function's contract; each place belongs to one thread.
                        unsafe { store_wide::<E>(at + word * 4, &parts[u as usize]) };
                    }
                    u += 1;
                }
                first += 4 * threads;
            }
            let around = lines * self.words_around;
            let mut index = thread;
            while index < around {
                let (row, word) = self.around.divmod(index);
                let word = if word < self.left { word } else { word + self.w as u32 };
                // SAFETY: as above.
                unsafe { shared_store(at + (row * self.pitch.divisor() + word) * 4, 0.0_f32) };
                index += threads;
            }
        } else {
            let total = lines * self.pitch.divisor();
            let mut first = thread;
            while first < total {
                let load = |u: u32| {
                    let index = first + u * threads;
                    let (row, word) = self.pitch.divmod(index);
                    let (from, inside) = line(row);
                    let column = word.wrapping_sub(self.left);
                    let take = inside & (column < self.w as u32) & (index < total);
                    // SAFETY: the element lies in its plane.
                    unsafe { load_if(take, from.wrapping_add(column as usize), E::narrow(0.0)) }
                };
                let parts = [load(0), load(1), load(2), load(3)];
                let mut u = 0;
                while u < 4 {
                    let index = first + u * threads;
                    if index < total {
                        // SAFETY: as above.
                        unsafe { shared_store(at + index * 4, parts[u as usize].widen()) };
                    }
                    u += 1;
                }
                first += 4 * threads;
            }
        }
    }
}

/// Stores a vector's elements as f32, from a multiple of 16 bytes on.
///
/// # Safety
/// As for [`shared_store16`], for all of them.
#[inline(always)]
unsafe fn store_wide<E: Num<Acc = f32>>(at: u32, words: &[u32; 4]) {
    let bits = |l: usize| lane::<E>(words, l).widen().to_bits();
    // SAFETY: by this function's contract.
    unsafe {
        shared_store16(at, [bits(0), bits(1), bits(2), bits(3)]);
        if lanes::<E>() == 8 {
            shared_store16(at + 16, [bits(4), bits(5), bits(6), bits(7)]);
        }
    }
}

/// The most rows and columns of a [`Window`].
pub const MAX_WINDOW: usize = 7;

/// How windows lie on a tile.
#[derive(Clone, Copy)]
pub struct Taps {
    /// Rows of taps.
    pub h: u32,
    /// Taps of a row.
    pub w: u32,
    /// Rows of the tile between windows.
    pub step: u32,
    /// Bytes of a row of the tile.
    pub pitch: u32,
}

/// The part of a tile that the taps of one pixel meet. It moves down the tile, and keeps the rows that the next pixel
/// meets too.
#[derive(Clone, Copy)]
pub struct Window {
    /// By row and column of taps; what no tap meets is zero.
    pub values: [[f32; MAX_WINDOW]; MAX_WINDOW],
}

impl Window {
    /// A window just above the one at `top`, with the rows that both have.
    ///
    /// # Safety
    /// The windows at `top` and below lie in a tile that was staged before the last barrier.
    #[inline(always)]
    pub unsafe fn above(top: u32, taps: Taps, whole: bool) -> Self {
        let mut window = Self { values: [[0.0; MAX_WINDOW]; MAX_WINDOW] };
        let mut i = 1;
        while i < MAX_WINDOW as u32 {
            if (i < taps.h) & (i >= taps.step) & (taps.step <= 2) {
                // SAFETY: by this function's contract.
                window.values[i as usize] = unsafe { load_row(top, i - taps.step, taps, whole) };
            }
            i += 1;
        }
        window
    }

    /// Moves to the window at `top`, one step down. Without `whole`, the first column counts as zero.
    ///
    /// # Safety
    /// As for [`above`](Self::above).
    #[inline(always)]
    pub unsafe fn advance(&mut self, top: u32, taps: Taps, whole: bool) {
        let mut i = 0;
        while i < MAX_WINDOW as u32 {
            if i < taps.h {
                let kept = (taps.step <= 2) & (i + taps.step < taps.h);
                self.values[i as usize] = if !kept {
                    // SAFETY: by this function's contract.
                    unsafe { load_row(top, i, taps, whole) }
                } else if taps.step == 1 {
                    self.values[(i as usize + 1) % MAX_WINDOW]
                } else {
                    self.values[(i as usize + 2) % MAX_WINDOW]
                };
            }
            i += 1;
        }
    }
}

/// What a row of taps meets.
///
/// # Safety
/// As for [`Window::above`].
#[inline(always)]
unsafe fn load_row(top: u32, i: u32, taps: Taps, whole: bool) -> [f32; MAX_WINDOW] {
    let line = top + i * taps.pitch;
    let mut values = [0.0; MAX_WINDOW];
    let mut j = 0;
    while j < MAX_WINDOW as u32 {
        if j < taps.w {
            // SAFETY: by this function's contract.
            let value = unsafe { shared_load(line + j * 4) };
            values[j as usize] = if (j > 0) | whole { value } else { 0.0 };
        }
        j += 1;
    }
    values
}
