//! Elementwise work in whole vectors: `y[i] = f(x[i])` and `y[i] = f(x[i], z[i])`.
//!
//! Where all tensors lie on 16-byte boundaries a thread takes whole vectors, several in flight; the elements
//! behind the last whole vector, and tensors that lie otherwise, go one by one.

use crate::gpu::{load16_if, store16_if};
use crate::num::Num;
use crate::sweep::{for_each_batch, for_each_index};
use crate::vector::{lane, lanes, set_lane};

/// Vectors of each input that a thread keeps in flight.
const BATCH: u32 = 4;

/// Sweeps `total` elements and stores `f(i, x[i], z[i])` to `y[i]`, all of one element type.
///
/// A block covers `block` elements, rounded up to whole vectors. `z` may be `x`, for functions of one element.
///
/// # Safety
/// `x` and `z` are valid for reads and `y` for writes of `total` elements; `y` overlaps neither.
#[inline(always)]
pub unsafe fn zip<E: Num>(
    x: *const E,
    z: *const E,
    y: *mut E,
    total: u64,
    block: i32,
    f: impl Fn(u64, E, E) -> E,
) {
    let lanes = lanes::<E>() as u64;
    let aligned = (x as u64 | z as u64 | y as u64).is_multiple_of(16);
    let vectors = if aligned { total / lanes } else { 0 };
    let tile = (block as u32).div_ceil(lanes as u32);
    for_each_batch::<BATCH>(vectors, tile, |items| {
        let load = |from: *const E, u: u32| {
            // SAFETY: the vector lies inside the input, on a boundary.
            unsafe { load16_if(items.has(u), from.wrapping_add((items.item(u) * lanes) as usize).cast()) }
        };
        // Written out: arrays that a loop indexes can land in local memory.
        let xs = [load(x, 0), load(x, 1), load(x, 2), load(x, 3)];
        let zs = [load(z, 0), load(z, 1), load(z, 2), load(z, 3)];
        let store = |u: u32, x: [u32; 4], z: [u32; 4]| {
            let at = items.item(u);
            let mut words = [0; 4];
            let mut i = 0;
            while i < lanes {
                let (x, z) = (lane(&x, i as usize), lane(&z, i as usize));
                set_lane(&mut words, i as usize, f(at * lanes + i, x, z));
                i += 1;
            }
            // SAFETY: the vector lies inside the output, on a boundary, and belongs to this thread.
            unsafe { store16_if(items.has(u), y.wrapping_add((at * lanes) as usize).cast(), words) };
        };
        store(0, xs[0], zs[0]);
        store(1, xs[1], zs[1]);
        store(2, xs[2], zs[2]);
        store(3, xs[3], zs[3]);
    });
    let done = vectors * lanes;
    for_each_index(total - done, block, |index| {
        let i = (done + index) as usize;
        // SAFETY: the element lies inside the tensors, and no other thread has it.
        unsafe { *y.add(i) = f(i as u64, *x.add(i), *z.add(i)) };
    });
}
