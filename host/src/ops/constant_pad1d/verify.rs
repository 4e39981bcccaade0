//! What verification knows of constant padding: its contract in numbers, awkward shapes, and worked literals.

use super::{ConstantPad1dBackward, ConstantPad1dForward};
use crate::verify::erased::{build, plain};
use crate::verify::subject::{Adjoint, Spec, Subject};
use crate::verify::{Case, Literal};

const FORWARD: &str = "constant_pad1d_forward";
const BACKWARD: &str = "constant_pad1d_backward";

plain! {
    ConstantPad1dForward("constant_pad1d_forward": pad_left, pad_right, block_ol)
    pointers(input, output) extents(b, c, l, ol) scalar(value)
}
plain! {
    ConstantPad1dBackward("constant_pad1d_backward": pad_left, pad_right, block_ol)
    pointers(dy, dx) extents(b, c, l, ol)
}

pub(crate) const SUBJECTS: &[Subject] = &[
    Subject {
        name: FORWARD,
        build: build!(ConstantPad1dForward),
        specs: |case| {
            let [bare, padded] = volumes(case);
            vec![Spec::input("input", bare), Spec::output("output", padded, 0), Spec::scalar("value")]
        },
        cases: forward_cases,
        literals: forward_literals,
        adjoint: None,
    },
    Subject {
        name: BACKWARD,
        build: build!(ConstantPad1dBackward),
        specs: |case| {
            let [bare, padded] = volumes(case);
            let dx = Spec::output("dx", bare, 0).accumulated(case.accumulate);
            vec![Spec::input("dy", padded), dx]
        },
        cases: backward_cases,
        literals: backward_literals,
        adjoint: Some(Adjoint { forward: FORWARD, pairs: &[("input", "dx")] }),
    },
];

/// Elements of the unpadded and of the padded tensor.
fn volumes(case: &Case) -> [usize; 2] {
    let [b, c, l, ol] = std::array::from_fn(|i| case.extents[i] as usize);
    [b * c * l, b * c * ol]
}

/// `pad_left`, `pad_right` and `block_ol`: none, either side, both; crops; pads longer than the row.
const CONSTANTS: [[i32; 3]; 12] = [
    [0, 0, 64],
    [1, 1, 64],
    [3, 3, 128],
    [0, 5, 7],
    [5, 0, 1],
    [-1, 0, 64],
    [0, -2, 128],
    [-2, 3, 1000],
    [3, -2, 7],
    [40, 70, 64],
    [-3, -3, 128],
    [-1, -1, 1],
];

/// B, C and L: nothing, one, and around a warp, a vector and a tile; many short rows.
const SHAPES: [[i32; 3]; 21] = [
    [1, 1, 6],
    [0, 3, 7],
    [2, 0, 7],
    [2, 3, 7],
    [1, 1, 31],
    [1, 2, 32],
    [1, 1, 33],
    [2, 1, 64],
    [1, 3, 65],
    [1, 1, 63],
    [2, 2, 127],
    [1, 2, 128],
    [1, 1, 129],
    [1, 2, 255],
    [1, 1, 256],
    [1, 1, 257],
    [70, 1, 8],
    [1, 300, 6],
    [3, 5, 16],
    [2, 2, 15],
    [1, 1, 1000],
];

/// Rows of nothing but pad, and rows that are cropped to nothing.
const EDGES: [([i32; 3], [i32; 3]); 5] = [
    ([2, 3, 64], [2, 2, 0]),
    ([-5, 0, 64], [3, 2, 5]),
    ([0, -4, 7], [1, 2, 4]),
    ([-7, 9, 64], [2, 2, 5]),
    ([6, -8, 128], [2, 1, 5]),
];

fn shaped(kernel: &'static str) -> impl Iterator<Item = Case> {
    let constants = CONSTANTS.iter().copied().cycle();
    let plain = constants.zip(SHAPES.iter().copied());
    plain.chain(EDGES.iter().copied()).enumerate().map(move |(number, (constants, [b, c, l]))| {
        let ol = l + constants[0] + constants[1];
        Case::new(kernel, &constants, &[b, c, l, ol]).varied(number)
    })
}

fn forward_cases() -> Vec<Case> {
    shaped(FORWARD).collect()
}

fn backward_cases() -> Vec<Case> {
    shaped(BACKWARD).chain(shaped(BACKWARD).step_by(2).map(|case| case.accumulate(true))).collect()
}

fn forward_literals() -> Vec<Literal> {
    vec![
        Literal::new(Case::new(FORWARD, &[2, 1, 64], &[1, 2, 3, 6]))
            .given("input", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .given("value", &[9.0])
            .gives("output", &[9.0, 9.0, 1.0, 2.0, 3.0, 9.0, 9.0, 9.0, 4.0, 5.0, 6.0, 9.0]),
        // The first element of each row is cropped, and two are added.
        Literal::new(Case::new(FORWARD, &[-1, 2, 64], &[2, 1, 3, 4]))
            .given("input", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .given("value", &[9.0])
            .gives("output", &[2.0, 3.0, 9.0, 9.0, 5.0, 6.0, 9.0, 9.0]),
    ]
}

fn backward_literals() -> Vec<Literal> {
    let cropped = Case::new(BACKWARD, &[-1, 2, 64], &[2, 1, 3, 4]);
    let dy = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    vec![
        Literal::new(Case::new(BACKWARD, &[2, 1, 64], &[1, 2, 3, 6]))
            .given("dy", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0])
            .gives("dx", &[3.0, 4.0, 5.0, 9.0, 10.0, 11.0]),
        Literal::new(cropped.clone()).given("dy", &dy).gives("dx", &[0.0, 1.0, 2.0, 0.0, 5.0, 6.0]),
        Literal::new(cropped.accumulate(true))
            .given("dy", &dy)
            .given("dx", &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
            .gives("dx", &[10.0, 21.0, 32.0, 40.0, 55.0, 66.0]),
    ]
}
