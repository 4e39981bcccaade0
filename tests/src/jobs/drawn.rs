//! Jobs of random shapes, for as long as somebody likes: small ones around every edge, and others that fill many blocks
//! and reach the kernels that plans choose.

use cotangent::DType;
use cotangent::verify::{Case, Check, Data, Grid, kernels};

use super::around::Around;
use super::shapes::{convolution, one};
use super::{Job, check_job, elementwise, exact, tf32};
use crate::executor::Blocks;

/// Elements of a large tensor, about.
const ELEMENTS: i32 = 1 << 17;

/// Products of a large convolution, about.
const PRODUCTS: i64 = 1 << 22;

/// Every kernel that is called by its own name. Those that plans choose are reached through them.
#[must_use]
pub fn callable() -> Vec<&'static str> {
    kernels().into_iter().chain(elementwise::NAMES).collect()
}

/// The job of this seed: a kernel, an element type, a shape, and what is checked.
#[must_use]
pub fn drawn(seed: u64) -> Job {
    let around = &mut Around::new(&format!("job {seed:#x}"));
    let kernel = around.of(&callable());
    if !kernels().contains(&kernel) {
        return elementwise::drawn(kernel, around);
    }
    let (backward, convolves) = (kernel.contains("backward"), kernel.starts_with("conv2d"));
    let is_large = around.between(0, 1) == 1;
    let case = if is_large { large(kernel, around) } else { one(kernel, around) };
    let case = case.accumulate(backward && around.between(0, 2) == 0);
    let mut dtype = around.of(&DType::ALL);
    if convolves && around.between(0, 2) > 0 {
        // What plans have kernels for.
        dtype = around.of(&[DType::F16, DType::Bf16, DType::F32]);
    }
    match around.between(0, 9) {
        0 | 1 if dtype == DType::F32 && convolves && kernel != "conv2d_backward" => {
            return tf32::job(&case, None, &[kernel]);
        }
        // A pad's value is no integer there.
        2 if matches!(dtype, DType::F16 | DType::Bf16) && (convolves || backward) => {
            return exact::job(&case, dtype, None, &[kernel]);
        }
        3 if backward && !case.accumulate => {
            return check_job(&Check::Adjoint(case), dtype, None, &[kernel], Blocks::Planned);
        }
        _ => {}
    }
    let tiny = if is_large { Data::Plain } else { Data::Tiny };
    let [special, overflow] = infinities(&case);
    let data = around.of(&[Data::Plain, Data::Plain, Data::Plain, tiny, special, overflow]);
    check_job(&Check::Reference(case.data(data)), dtype, None, &[kernel], Blocks::Planned)
}

/// What inputs may hold that is not finite. Tiles multiply with the zeros of a pad: in a convolution infinities may be
/// where the pad is, and not in the other factor.
fn infinities(case: &Case) -> [Data; 2] {
    if !case.kernel.starts_with("conv2d") {
        return [Data::Special, Data::Overflow];
    }
    let first_is_padded = ["conv2d_forward", "conv2d_backward_dx"].contains(&case.kernel);
    let has_no_pad = case.constants[4..6] == [0, 0];
    [Data::Plain, if first_is_padded || has_no_pad { Data::Overflow } else { Data::Plain }]
}

/// A case with many blocks, or with the channels that tiles want.
fn large(kernel: &'static str, around: &mut Around) -> Case {
    let block = around.of(&[64, 100, 512, 8192]);
    let case = match kernel {
        "flatten_forward" | "flatten_backward" => {
            let b = around.between(1, 700);
            let n = around.between(1, ELEMENTS / b);
            let strides = around.of(&[[n, 1], [1, b], [n + 5, 1], [1, b + 3], [3 * n, 3], [2, 2 * b + 1]]);
            let rows = around.of(&[1, 3, 32, 100]);
            Case::new(kernel, &[rows, block], &[b, n, strides[0], strides[1]])
        }
        "channel_cat_forward" | "channel_cat_backward" => {
            let rows = around.between(1, 300);
            let chunk = around.between(1, ELEMENTS / rows);
            let (before, after) = (around.between(0, 300), around.between(0, 300));
            Case::new(kernel, &[block], &[chunk, before + chunk + after, before]).rows(i64::from(rows))
        }
        "constant_pad1d_forward" | "constant_pad1d_backward" => {
            let (b, c) = (around.between(1, 4), around.between(1, 40));
            let l = around.between(1, ELEMENTS / (b * c));
            let left = around.between(-l.min(20), 40);
            let right = around.between(-(l + left).clamp(0, 20), 40);
            Case::new(kernel, &[left, right, block], &[b, c, l, l + left + right])
        }
        "upsample_nearest2d_forward" | "upsample_nearest2d_backward" => {
            let (b, c, h) = (around.between(1, 2), around.between(1, 8), around.between(1, 30));
            let (scale_h, scale_w) = (around.between(1, 4), around.of(&[1, 2, 3, 4, 5, 7, 8, 9]));
            let w = around.between(1, (ELEMENTS / (b * c * h * scale_h * scale_w)).max(1));
            Case::new(kernel, &[scale_h, scale_w, block], &[b, c, h, w, h * scale_h, w * scale_w])
        }
        _ => return large_convolution(kernel, around),
    };
    case.grid(around.of(&[Grid::Own, Grid::Own, Grid::One, Grid::Twice])).offsets(&around.offsets())
}

fn large_convolution(kernel: &'static str, around: &mut Around) -> Case {
    const TAPS: [i32; 9] = [1, 1, 2, 3, 3, 3, 4, 5, 7];
    const CHANNELS: [i32; 17] = [1, 2, 3, 4, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 128];
    let taps = [around.of(&TAPS), around.of(&TAPS)];
    let strides = [0; 2].map(|_| around.of(&[1, 1, 1, 2, 3]));
    let pads = taps.map(|taps| around.between(0, taps - 1));
    let (g, per_group, results) = match around.between(0, 5) {
        0 => (around.of(&[1, 2, 3, 8, 16, 33]), 1, around.of(&[1, 1, 2])),
        1 => (around.between(2, 3), around.of(&[4, 8, 16, 17, 32]), around.of(&[4, 8, 16, 17, 32])),
        _ => (1, around.of(&CHANNELS), around.of(&CHANNELS)),
    };
    let b = around.between(1, 4);
    let places = PRODUCTS / i64::from(g * results * per_group * taps[0] * taps[1]);
    let oh = around.between(1, 24);
    let ow = around.between(1, (places / i64::from(b * oh)).clamp(1, 160) as i32);
    // Some rows and columns at the end may be of no use.
    let [h, w] = [(oh, 0), (ow, 1)].map(|(extent, i)| {
        let needed = (extent - 1) * strides[i] + taps[i] - 2 * pads[i];
        needed.max(1) + around.between(0, strides[i] - 1)
    });
    let skewed = around.offsets();
    let offsets = around.of(&[[0; 5], skewed]);
    let constants = [taps[0], taps[1], strides[0], strides[1], pads[0], pads[1], g, 64];
    convolution(kernel, constants, [b, g * per_group, g * results, h, w]).offsets(&offsets)
}
