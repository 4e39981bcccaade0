//! A run of elements that follow each other on both sides, copied in whole vectors.
//!
//! The plain case of [`crate::rows`]: with one row there is nothing to divide, and a small copy is little more than a
//! load and a store. What lies before the first whole vector and behind the last goes element by element, by the
//! grid's last threads, which may have no vector to move.

use crate::gpu::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
use crate::num::Num;
use crate::rows::{BATCH, move_vectors};
use crate::sweep::{for_each_batch, for_each_index, has_a_thread_each};
use crate::vector::{VECTOR, lanes};

/// Copies `total` elements. A block covers `block` elements, rounded up to whole vectors.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `total` elements; they do not overlap.
#[inline(always)]
pub unsafe fn copy_run<E: Num>(from: *const E, to: *mut E, total: u64, block: i32) {
    if has_a_thread_each(total) {
        // SAFETY: `index < total`, and no other thread has this index.
        for_each_index(total, block_dim_x() as i32, |index| unsafe {
            *to.add(index as usize) = *from.add(index as usize);
        });
        return;
    }
    let (lanes, size) = (lanes::<E>() as u64, size_of::<E>() as u64);
    // Then a vector of `to` is one vector of `from`, else it is part of two, of which both must lie in the run.
    let aligned = (from as u64 ^ to as u64) & 15 == 0;
    let spare = if aligned { 0 } else { lanes };
    let head = ((to as u64).wrapping_neg() & 15) / size + spare;
    let vectors = if head + spare < total { (total - head - spare) / lanes } else { 0 };
    for_each_batch::<BATCH>(vectors, (block as u32).div_ceil(lanes as u32), |items| {
        let at = |start: u64, u: u32| start + head * size + items.item(u) * VECTOR as u64;
        let (source, place) = (|u| at(from as u64, u), |u| at(to as u64, u));
        // SAFETY: the vectors lie in the run on boundaries of `to`, those around them in `from` too, and they belong to
        // this thread.
        unsafe { move_vectors::<E>([true, items.has(1)], aligned, source, place) };
    });
    let threads = u64::from(grid_dim_x()) * u64::from(block_dim_x());
    let thread = u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x());
    let mut rest = threads - 1 - thread;
    while rest < total - vectors * lanes {
        let index = if rest < head { rest } else { rest + vectors * lanes };
        // SAFETY: the element lies outside the vectors, and no other thread has it.
        unsafe { *to.add(index as usize) = *from.add(index as usize) };
        rest += threads;
    }
}
