//! A step of stochastic gradient descent with momentum and weight decay:
//!
//! `g = grad_scale · dw + weight_decay · w`, `velocity = momentum · velocity + g`, `w = w − rate · velocity`,
//! and `copy = w` rounded to the gradient's type, in the same pass.
//!
//! Weights and velocity are kept in the type that gradients are summed in: f32 for f16, bf16 and f32. The four
//! numbers `rate, momentum, weight_decay, grad_scale` lie in device memory, so that a recorded step can be
//! replayed with others.
//!
//! Mapping: one thread an element at a time, several in flight.

use crate::math::{Float, Real};
use crate::num::Num;
use crate::sweep::for_each_batch;

/// Steps each weight once.
///
/// # Safety
/// `dw` is valid for reads, `w` and `velocity` for reads and writes of `b · n` elements, `numbers` for reads of four;
/// `copy` for writes of `b · n` where `copies` is not zero. What is written overlaps nothing else.
#[inline(always)]
pub unsafe fn sgd_step<E: Float>(
    w: *mut <E as Num>::Acc,
    velocity: *mut <E as Num>::Acc,
    dw: *mut E,
    copy: *mut E,
    numbers: *mut <E as Num>::Acc,
    b: i32,
    n: i32,
    copies: u32,
    block_size: i32,
) {
    /// Elements that a thread keeps in flight.
    const BATCH: u32 = 4;
    // SAFETY: by this function's contract; each element is one thread's.
    unsafe {
        let (rate, momentum) = (*numbers, *numbers.add(1));
        let (weight_decay, grad_scale) = (*numbers.add(2), *numbers.add(3));
        for_each_batch::<BATCH>(b as u64 * n as u64, block_size as u32, |items| {
            // Places past the end read the first element again, so that the loads need no branch.
            let place = |u: u32| items.item_or_first(u) as usize;
            let load = |u: u32| (*w.add(place(u)), *velocity.add(place(u)), *dw.add(place(u)));
            let loaded = [load(0), load(1), load(2), load(3)];
            let store = |u: u32, (weight, speed, gradient): (E::Acc, E::Acc, E)| {
                if items.has(u) {
                    let index = items.item(u);
                    let gradient = E::Acc::fma(weight_decay, weight, grad_scale * gradient.widen());
                    let speed = E::Acc::fma(momentum, speed, gradient);
                    let weight = E::Acc::fma(-rate, speed, weight);
                    *velocity.add(index as usize) = speed;
                    *w.add(index as usize) = weight;
                    if copies != 0 {
                        *copy.add(index as usize) = E::narrow(weight);
                    }
                }
            };
            store(0, loaded[0]);
            store(1, loaded[1]);
            store(2, loaded[2]);
            store(3, loaded[3]);
        });
    }
}

entry! { float sgd_step {
    args(
        w: *mut <E as Num>::Acc, velocity: *mut <E as Num>::Acc, dw: *mut E, copy: *mut E,
        numbers: *mut <E as Num>::Acc, b: i32, n: i32
    )
    hidden(copies: u32)
    constants(block_size: i32)
} }
