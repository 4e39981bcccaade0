//! What verification knows of convolution: its contract in numbers, awkward shapes, and worked literals.

use super::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward};
use crate::verify::erased::{build, plain};
use crate::verify::subject::{Adjoint, Spec, Subject};
use crate::verify::{Case, Data, Grid, Literal};

const FORWARD: &str = "conv2d_forward";
const BACKWARD: &str = "conv2d_backward";
const BACKWARD_DX: &str = "conv2d_backward_dx";
const BACKWARD_DW: &str = "conv2d_backward_dw";

macro_rules! plain_conv {
    ($($kernel:ident($name:literal) pointers($($pointer:ident),+);)+) => { $(
        plain! {
            $kernel($name: kh, kw, stride_h, stride_w, pad_h, pad_w, g, block_ow)
            pointers($($pointer),+) extents(b, c_in, c_out, h, wd, oh, ow)
        }
    )+ };
}

plain_conv! {
    Conv2dForward("conv2d_forward") pointers(x, w, y);
    Conv2dBackward("conv2d_backward") pointers(dy, x, w, dx, dw);
    Conv2dBackwardDx("conv2d_backward_dx") pointers(dy, w, dx);
    Conv2dBackwardDw("conv2d_backward_dw") pointers(dy, x, dw);
}

pub(crate) const SUBJECTS: &[Subject] = &[
    Subject {
        name: FORWARD,
        build: build!(Conv2dForward),
        specs: |case| {
            let sizes = Sizes::of(case);
            let y = Spec::output("y", sizes.y, sizes.y_terms);
            vec![Spec::input("x", sizes.x), Spec::input("w", sizes.w), y]
        },
        cases: || shaped(FORWARD).collect(),
        literals: forward_literals,
        adjoint: None,
    },
    Subject {
        name: BACKWARD,
        build: build!(Conv2dBackward),
        specs: |case| {
            let sizes = Sizes::of(case);
            let (dx, dw) = (sizes.dx(case), sizes.dw(case));
            vec![Spec::input("dy", sizes.y), Spec::input("x", sizes.x), Spec::input("w", sizes.w), dx, dw]
        },
        cases: || backward_cases(BACKWARD),
        literals: backward_literals,
        adjoint: Some(Adjoint { forward: FORWARD, pairs: &[("x", "dx"), ("w", "dw")] }),
    },
    Subject {
        name: BACKWARD_DX,
        build: build!(Conv2dBackwardDx),
        specs: |case| {
            let sizes = Sizes::of(case);
            vec![Spec::input("dy", sizes.y), Spec::input("w", sizes.w), sizes.dx(case)]
        },
        cases: || backward_cases(BACKWARD_DX),
        literals: backward_dx_literals,
        adjoint: Some(Adjoint { forward: FORWARD, pairs: &[("x", "dx")] }),
    },
    Subject {
        name: BACKWARD_DW,
        build: build!(Conv2dBackwardDw),
        specs: |case| {
            let sizes = Sizes::of(case);
            vec![Spec::input("dy", sizes.y), Spec::input("x", sizes.x), sizes.dw(case)]
        },
        cases: || backward_cases(BACKWARD_DW),
        literals: backward_dw_literals,
        adjoint: Some(Adjoint { forward: FORWARD, pairs: &[("w", "dw")] }),
    },
];

/// Elements of each tensor, and the most terms that a sum of each kind has.
struct Sizes {
    x: usize,
    w: usize,
    y: usize,
    y_terms: u64,
    dx_terms: u64,
    dw_terms: u64,
}

impl Sizes {
    fn of(case: &Case) -> Self {
        let [kh, kw, _, _, _, _, g, _] = std::array::from_fn(|i| case.constants[i] as usize);
        let [b, c_in, c_out, h, wd, oh, ow] = std::array::from_fn(|i| case.extents[i] as usize);
        let taps = kh * kw;
        Self {
            x: b * c_in * h * wd,
            w: c_out * (c_in / g) * taps,
            y: b * c_out * oh * ow,
            y_terms: (c_in / g * taps) as u64,
            dx_terms: (c_out / g * taps) as u64,
            dw_terms: (b * oh * ow) as u64,
        }
    }

    fn dx(&self, case: &Case) -> Spec {
        Spec::output("dx", self.x, self.dx_terms).accumulated(case.accumulate)
    }

    fn dw(&self, case: &Case) -> Spec {
        Spec::output("dw", self.w, self.dw_terms).accumulated(case.accumulate)
    }
}

/// The constants, and B, `C_in`, `C_out`, H and W.
type Shape = ([i32; 8], [i32; 5]);

/// `kh, kw, stride_h, stride_w, pad_h, pad_w, g, block_ow`, then the extents.
const SHAPES: [Shape; 22] = [
    // One element, one tap; then the everyday filters at odd and even sizes.
    ([1, 1, 1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [2, 5, 3, 4, 7]),
    ([3, 3, 1, 1, 1, 1, 1, 64], [2, 3, 4, 7, 6]),
    ([3, 3, 2, 2, 1, 1, 1, 7], [1, 2, 3, 8, 9]),
    ([3, 3, 2, 2, 0, 0, 1, 128], [1, 3, 2, 9, 8]),
    // Filters, strides and pads that differ between the axes.
    ([1, 7, 1, 2, 0, 3, 1, 64], [1, 2, 2, 3, 13]),
    ([5, 2, 2, 1, 3, 0, 1, 7], [1, 2, 2, 6, 5]),
    // A stride beyond the filter, which leaves gaps; a filter as large as the padded image; pads beyond the
    // filter; a pad alone.
    ([2, 2, 3, 4, 0, 1, 1, 64], [1, 2, 2, 8, 11]),
    ([4, 5, 1, 1, 1, 1, 1, 1000], [2, 2, 3, 2, 3]),
    ([2, 3, 1, 2, 4, 5, 1, 128], [1, 1, 2, 3, 4]),
    ([3, 3, 1, 1, 2, 2, 1, 64], [1, 2, 2, 0, 3]),
    // Groups: some, one a channel, one a channel with two filters each.
    ([3, 3, 1, 1, 1, 1, 2, 64], [2, 4, 6, 5, 5]),
    ([3, 3, 2, 2, 1, 1, 4, 7], [1, 4, 4, 4, 4]),
    ([3, 3, 2, 2, 1, 1, 5, 64], [1, 5, 5, 7, 9]),
    ([2, 2, 1, 1, 0, 0, 3, 128], [1, 3, 6, 4, 5]),
    // Nothing: an empty batch, no input channels, no output channels.
    ([3, 3, 1, 1, 1, 1, 1, 64], [0, 2, 3, 4, 4]),
    ([3, 3, 1, 1, 1, 1, 1, 64], [2, 0, 3, 4, 4]),
    ([3, 3, 1, 1, 1, 1, 1, 64], [2, 3, 0, 4, 4]),
    // Rows and planes around a warp and a tile.
    ([1, 3, 1, 1, 0, 1, 1, 64], [1, 1, 2, 2, 65]),
    ([3, 1, 1, 1, 1, 0, 1, 64], [1, 2, 1, 3, 33]),
    ([2, 2, 1, 1, 0, 0, 1, 64], [1, 2, 2, 17, 17]),
    ([1, 1, 1, 1, 0, 0, 1, 128], [3, 17, 9, 4, 4]),
];

/// Shapes with enough channels in a group for tiles, where a target has tiled kernels.
const TILED: [Shape; 8] = [
    // Ragged tiles, the residue classes of a stride, groups, gaps in dx, and padding alone.
    ([3, 3, 1, 1, 1, 1, 1, 64], [1, 16, 17, 6, 7]),
    ([3, 3, 2, 2, 1, 1, 1, 64], [2, 18, 16, 7, 8]),
    ([2, 2, 1, 1, 0, 1, 2, 64], [1, 32, 40, 5, 6]),
    ([1, 2, 2, 3, 2, 0, 1, 64], [1, 17, 16, 4, 9]),
    // Enough pixels for the reduction of dw to be split.
    ([1, 1, 1, 1, 0, 0, 1, 64], [2, 2, 16, 23, 23]),
    // Enough channels for the larger tiles on a GPU of a few multiprocessors; then enough groups for them on
    // one of many, in the forward and in dx.
    ([1, 1, 1, 1, 0, 0, 1, 64], [1, 66, 70, 3, 5]),
    ([1, 2, 1, 1, 0, 0, 67, 64], [1, 67, 4355, 1, 2]),
    ([1, 2, 1, 1, 0, 0, 67, 64], [1, 4355, 67, 1, 2]),
];

/// The output's extents.
fn extents(constants: &[i32; 8], [b, c_in, c_out, h, wd]: [i32; 5]) -> [i32; 7] {
    let [kh, kw, stride_h, stride_w, pad_h, pad_w, ..] = *constants;
    [b, c_in, c_out, h, wd, (h + 2 * pad_h - kh) / stride_h + 1, (wd + 2 * pad_w - kw) / stride_w + 1]
}

fn shaped(kernel: &'static str) -> impl Iterator<Item = Case> {
    let case = move |(number, (constants, sizes)): (usize, &Shape)| {
        Case::new(kernel, constants, &extents(constants, *sizes)).varied(number)
    };
    let tiled = TILED.iter().enumerate().map(move |(number, shape)| {
        // Tiles multiply with the zeros of a pad: infinities may be where the pad is, not in the other factor.
        let [_, _, _, _, pad_h, pad_w, ..] = shape.0;
        let first_is_padded = [FORWARD, BACKWARD_DX].contains(&kernel) || pad_h + pad_w == 0;
        let data = if number % 2 == 1 && first_is_padded { Data::Overflow } else { Data::Plain };
        // A grid of the caller's own would be for the portable kernel.
        case((number, shape)).grid(Grid::Own).data(data)
    });
    SHAPES.iter().enumerate().map(case).chain(tiled)
}

fn backward_cases(kernel: &'static str) -> Vec<Case> {
    let accumulated = shaped(kernel).enumerate().filter(|(number, _)| number % 3 != 0);
    let accumulated = accumulated.map(|(_, case)| {
        let data = if matches!(case.data, Data::Special | Data::Overflow) { Data::Plain } else { case.data };
        case.accumulate(true).data(data)
    });
    shaped(kernel).chain(accumulated).collect()
}

/// x [1, 1, 3, 3], w [1, 1, 2, 2], strides 1 and 1: y is [1, 1, 2, 2].
const SMALL: [i32; 8] = [2, 2, 1, 1, 0, 0, 1, 64];
const SMALL_X: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
const SMALL_W: [f64; 4] = [1.0, 0.0, 2.0, 1.0];
const SMALL_DY: [f64; 4] = [1.0, 2.0, 0.0, 3.0];
/// dy spread by w: at (0, 0) 1·w, at (0, 1) 2·w, at (1, 1) 3·w.
const SMALL_DX: [f64; 9] = [1.0, 2.0, 0.0, 2.0, 8.0, 2.0, 0.0, 6.0, 3.0];
/// x over dy: 1·x(i, j) + 2·x(i, j + 1) + 3·x(i + 1, j + 1).
const SMALL_DW: [f64; 4] = [20.0, 26.0, 38.0, 44.0];

/// x [1, 2, 2, 3], w [2, 1, 1, 2], two groups, strides 1 and 2, pads 0 and 1: y is [1, 2, 2, 2].
const GROUPED: [i32; 8] = [1, 2, 1, 2, 0, 1, 2, 7];
const GROUPED_X: [f64; 12] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0];
const GROUPED_W: [f64; 4] = [1.0, 2.0, 3.0, 1.0];
const GROUPED_DY: [f64; 8] = [1.0, 2.0, 3.0, 0.0, 0.0, 1.0, 2.0, 1.0];

fn small(kernel: &'static str) -> Case {
    Case::new(kernel, &SMALL, &[1, 1, 1, 3, 3, 2, 2])
}

fn grouped(kernel: &'static str) -> Case {
    Case::new(kernel, &GROUPED, &[1, 2, 2, 2, 3, 2, 2])
}

fn forward_literals() -> Vec<Literal> {
    vec![
        // x(0, 0) + 2·x(1, 0) + x(1, 1), and so on.
        Literal::new(small(FORWARD))
            .given("x", &SMALL_X)
            .given("w", &SMALL_W)
            .gives("y", &[14.0, 18.0, 26.0, 30.0]),
        // Rows are (0, 1, 2, 3, 0) with the pads: taps at 0 and 2.
        Literal::new(grouped(FORWARD))
            .given("x", &GROUPED_X)
            .given("w", &GROUPED_W)
            .gives("y", &[2.0, 8.0, 8.0, 17.0, 7.0, 33.0, 1.0, 9.0]),
    ]
}

fn backward_dx_literals() -> Vec<Literal> {
    let small = Literal::new(small(BACKWARD_DX)).given("dy", &SMALL_DY).given("w", &SMALL_W);
    let mut accumulated = small.clone().given("dx", &[1.0; 9]);
    accumulated.case.accumulate = true;
    vec![
        small.gives("dx", &SMALL_DX),
        accumulated.gives("dx", &SMALL_DX.map(|value| value + 1.0)),
        Literal::new(grouped(BACKWARD_DX))
            .given("dy", &GROUPED_DY)
            .given("w", &GROUPED_W)
            .gives("dx", &[2.0, 2.0, 4.0, 6.0, 0.0, 0.0, 0.0, 3.0, 1.0, 2.0, 3.0, 1.0]),
    ]
}

fn backward_dw_literals() -> Vec<Literal> {
    let small = Literal::new(small(BACKWARD_DW)).given("dy", &SMALL_DY).given("x", &SMALL_X);
    let mut accumulated = small.clone().given("dw", &[1.0; 4]);
    accumulated.case.accumulate = true;
    let empty = Case::new(BACKWARD_DW, &SMALL, &[0, 1, 1, 3, 3, 2, 2]);
    vec![
        small.gives("dw", &SMALL_DW),
        accumulated.gives("dw", &SMALL_DW.map(|value| value + 1.0)),
        Literal::new(grouped(BACKWARD_DW))
            .given("dy", &GROUPED_DY)
            .given("x", &GROUPED_X)
            .gives("dw", &[4.0, 19.0, 10.0, 14.0]),
        Literal::new(empty).gives("dw", &[0.0; 4]),
    ]
}

fn backward_literals() -> Vec<Literal> {
    let small =
        Literal::new(small(BACKWARD)).given("dy", &SMALL_DY).given("x", &SMALL_X).given("w", &SMALL_W);
    let mut accumulated = small.clone().given("dx", &[1.0; 9]).given("dw", &[1.0; 4]);
    accumulated.case.accumulate = true;
    vec![
        small.gives("dx", &SMALL_DX).gives("dw", &SMALL_DW),
        accumulated
            .gives("dx", &SMALL_DX.map(|value| value + 1.0))
            .gives("dw", &SMALL_DW.map(|value| value + 1.0)),
    ]
}
