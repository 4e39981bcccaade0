//! What verification knows of upsampling: its contract in numbers, awkward shapes, and worked literals.

use super::{UpsampleNearest2dBackward, UpsampleNearest2dForward};
use crate::verify::erased::{build, plain};
use crate::verify::subject::{Adjoint, Spec, Subject};
use crate::verify::{Case, Literal};

const FORWARD: &str = "upsample_nearest2d_forward";
const BACKWARD: &str = "upsample_nearest2d_backward";

plain! {
    UpsampleNearest2dForward("upsample_nearest2d_forward": scale_h, scale_w, block_ow)
    pointers(x, y) extents(b, c, h, w, oh, ow)
}
plain! {
    UpsampleNearest2dBackward("upsample_nearest2d_backward": scale_h, scale_w, block_iw)
    pointers(dy, dx) extents(b, c, h, w, oh, ow)
}

pub(crate) const SUBJECTS: &[Subject] = &[
    Subject {
        name: FORWARD,
        build: build!(UpsampleNearest2dForward),
        specs: |case| {
            let [small, large] = volumes(case);
            vec![Spec::input("x", small), Spec::output("y", large, 0)]
        },
        cases: forward_cases,
        literals: forward_literals,
        adjoint: None,
    },
    Subject {
        name: BACKWARD,
        build: build!(UpsampleNearest2dBackward),
        specs: |case| {
            let [small, large] = volumes(case);
            let dx = Spec::output("dx", small, case.constants[0] as u64 * case.constants[1] as u64)
                .accumulated(case.accumulate);
            vec![Spec::input("dy", large), dx]
        },
        cases: backward_cases,
        literals: backward_literals,
        adjoint: Some(Adjoint { forward: FORWARD, pairs: &[("x", "dx")] }),
    },
];

/// Elements of the small and of the large tensor.
fn volumes(case: &Case) -> [usize; 2] {
    let [b, c, h, w, oh, ow] = std::array::from_fn(|i| case.extents[i] as usize);
    [b * c * h * w, b * c * oh * ow]
}

/// `scale_h`, `scale_w` and the block.
const CONSTANTS: [[i32; 3]; 8] =
    [[2, 2, 64], [1, 1, 7], [3, 2, 128], [1, 4, 64], [5, 1, 1], [7, 3, 1000], [4, 4, 64], [2, 2, 128]];

/// B, C, H and W: nothing, one, odd, and around a warp, a vector and a tile.
const SHAPES: [[i32; 4]; 25] = [
    [1, 1, 1, 1],
    [0, 2, 3, 4],
    [2, 0, 3, 4],
    [1, 2, 0, 4],
    [1, 2, 3, 0],
    [2, 3, 4, 5],
    [1, 2, 3, 7],
    [1, 1, 1, 31],
    [1, 1, 2, 32],
    [2, 1, 1, 33],
    [1, 1, 31, 1],
    [1, 3, 2, 9],
    [1, 1, 1, 63],
    [1, 2, 1, 64],
    [1, 1, 2, 65],
    [70, 1, 1, 2],
    [1, 90, 2, 1],
    [1, 1, 1, 127],
    [1, 1, 2, 128],
    [1, 1, 1, 129],
    [2, 2, 8, 8],
    [1, 1, 1, 255],
    [1, 1, 1, 256],
    [1, 1, 1, 257],
    [3, 2, 5, 5],
];

fn shaped(kernel: &'static str) -> impl Iterator<Item = Case> {
    SHAPES.iter().enumerate().map(move |(number, &[b, c, h, w])| {
        let constants = CONSTANTS[number % CONSTANTS.len()];
        Case::new(kernel, &constants, &[b, c, h, w, h * constants[0], w * constants[1]]).varied(number)
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
        Literal::new(Case::new(FORWARD, &[2, 3, 64], &[1, 1, 2, 2, 4, 6]))
            .given("x", &[1.0, 2.0, 3.0, 4.0])
            .gives(
                "y",
                &[
                    1.0, 1.0, 1.0, 2.0, 2.0, 2.0, //
                    1.0, 1.0, 1.0, 2.0, 2.0, 2.0, //
                    3.0, 3.0, 3.0, 4.0, 4.0, 4.0, //
                    3.0, 3.0, 3.0, 4.0, 4.0, 4.0,
                ],
            ),
        // Two planes, of one row and one column more.
        Literal::new(Case::new(FORWARD, &[1, 2, 7], &[1, 2, 2, 1, 2, 2]))
            .given("x", &[1.0, 2.0, 3.0, 4.0])
            .gives("y", &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]),
    ]
}

fn backward_literals() -> Vec<Literal> {
    let case = Case::new(BACKWARD, &[2, 3, 64], &[1, 1, 2, 2, 4, 6]);
    let dy = [
        1.0, 2.0, 0.0, 4.0, 1.0, 1.0, //
        0.0, 3.0, 1.0, 2.0, 2.0, 0.0, //
        5.0, 0.0, 0.0, 1.0, 0.0, 7.0, //
        0.0, 1.0, 2.0, 0.0, 3.0, 9.0,
    ];
    vec![
        Literal::new(case.clone()).given("dy", &dy).gives("dx", &[7.0, 10.0, 8.0, 20.0]),
        Literal::new(case.accumulate(true))
            .given("dy", &dy)
            .given("dx", &[1.0, 2.0, 3.0, 4.0])
            .gives("dx", &[8.0, 12.0, 11.0, 24.0]),
    ]
}
