//! Sums and maxima over the threads of a block, in a fixed order.

use crate::gpu::{block_dim_x, shared_load, shared_store, sync_threads, thread_idx_x};

/// Joins one value of each thread of the block by a tree over the threads; every thread gets the result.
///
/// The order depends on the number of threads alone, so the same launch gives the same bits each time.
///
/// # Safety
/// The launch gave shared memory for a value of each thread, and all threads of the block call this.
#[inline(always)]
pub unsafe fn across_block<A: Copy>(value: A, join: impl Fn(A, A) -> A) -> A {
    // A host's one thread has it all, and no shared memory.
    if cfg!(not(target_arch = "nvptx64")) {
        return value;
    }
    let size = size_of::<A>() as u32;
    let (thread, threads) = (thread_idx_x(), block_dim_x());
    // SAFETY: each thread has its own place; the barriers part the writes of a round from its readers.
    unsafe {
        shared_store(thread * size, value);
        sync_threads();
        let mut width = threads;
        while width > 1 {
            let half = width.div_ceil(2);
            if thread + half < width {
                let joined = join(shared_load(thread * size), shared_load((thread + half) * size));
                shared_store(thread * size, joined);
            }
            sync_threads();
            width = half;
        }
        let result = shared_load(0);
        // The next use of the shared memory must not overtake a reader of this one.
        sync_threads();
        result
    }
}
