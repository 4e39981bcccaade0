//! The formula in literal loops.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::SgdStep;
use crate::element::{Float, Num};
use crate::kernel::{Kernel, LaunchOptions};
use crate::ops::memory::{input, output};

/// Elements that a thread takes at a time.
const CHUNK: usize = 8192;

/// One step of each weight.
///
/// # Safety
/// The arguments passed the kernel's checks, and the buffers are valid host memory.
pub(super) unsafe fn step<D: Float>(
    _: &SgdStep<D>,
    args: &<SgdStep<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
) {
    let (w, velocity, dw, copy, numbers, b, n) = *args;
    let total = i64::from(b) * i64::from(n);
    let copied = if copy.is_null() { 0 } else { total };
    // SAFETY: by this function's contract.
    let (w, velocity, dw, copy, numbers) = unsafe {
        (output(w, total), output(velocity, total), input(dw, total), output(copy, copied), input(numbers, 4))
    };
    let numbers = [0, 1, 2, 3].map(|i| numbers[i].widen());
    let stretches = w.par_chunks_mut(CHUNK).zip(velocity.par_chunks_mut(CHUNK)).zip(dw.par_chunks(CHUNK));
    if copied == 0 {
        stretches.for_each(|((w, velocity), dw)| stretch(w, velocity, dw, &mut [], numbers));
    } else {
        stretches
            .zip(copy.par_chunks_mut(CHUNK))
            .for_each(|(((w, velocity), dw), copy)| stretch(w, velocity, dw, copy, numbers));
    }
}

fn stretch<D: Float>(
    w: &mut [MaybeUninit<D::Master>],
    velocity: &mut [MaybeUninit<D::Master>],
    dw: &[D],
    copy: &mut [MaybeUninit<D>],
    [rate, momentum, weight_decay, grad_scale]: [f64; 4],
) {
    for (i, ((w, velocity), dw)) in w.iter_mut().zip(velocity).zip(dw).enumerate() {
        // SAFETY: weights and velocities are read and written, so the caller gave initialised ones.
        let (weight, speed) = unsafe { (w.assume_init_read().widen(), velocity.assume_init_read().widen()) };
        let speed = D::Master::narrow(momentum * speed + (grad_scale * dw.widen() + weight_decay * weight));
        let weight = D::Master::narrow(weight - rate * speed.widen());
        velocity.write(speed);
        w.write(weight);
        if let Some(to) = copy.get_mut(i) {
            to.write(D::narrow(weight.widen()));
        }
    }
}
