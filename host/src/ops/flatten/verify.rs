//! What verification knows of flatten: its contract in numbers, awkward shapes, and worked literals.

use super::{FlattenBackward, FlattenForward};
use crate::verify::erased::{build, plain};
use crate::verify::subject::{Adjoint, Spec, Subject};
use crate::verify::{Case, Literal};

const FORWARD: &str = "flatten_forward";
const BACKWARD: &str = "flatten_backward";
const NAN: f64 = f64::NAN;

plain! { FlattenForward("flatten_forward": block_b, block_n) pointers(input, output) extents(b, n, stride_ib, stride_in) }
plain! { FlattenBackward("flatten_backward": block_b, block_n) pointers(dy, dx) extents(b, n, stride_dxb, stride_dxn) }

pub(crate) const SUBJECTS: &[Subject] = &[
    Subject {
        name: FORWARD,
        build: build!(FlattenForward),
        specs: |case| vec![Spec::input("input", span(case)), Spec::output("output", area(case), 0)],
        cases: forward_cases,
        literals: forward_literals,
        adjoint: None,
    },
    Subject {
        name: BACKWARD,
        build: build!(FlattenBackward),
        specs: |case| {
            let dx = Spec::part("dx", span(case), offsets(case)).accumulated(case.accumulate);
            vec![Spec::input("dy", area(case)), dx]
        },
        cases: backward_cases,
        literals: backward_literals,
        adjoint: Some(Adjoint { forward: FORWARD, pairs: &[("input", "dx")] }),
    },
];

fn extents(case: &Case) -> [usize; 4] {
    std::array::from_fn(|i| case.extents[i] as usize)
}

/// Where the elements of the strided matrix lie.
fn offsets(case: &Case) -> impl Iterator<Item = usize> {
    let [b, n, stride_b, stride_n] = extents(case);
    (0..b).flat_map(move |i| (0..n).map(move |j| i * stride_b + j * stride_n))
}

fn span(case: &Case) -> usize {
    offsets(case).max().map_or(0, |last| last + 1)
}

fn area(case: &Case) -> usize {
    let [b, n, ..] = extents(case);
    b * n
}

/// Tiles: one element, one row, one column, and both.
const BLOCKS: [[i32; 2]; 6] = [[1, 1], [1, 64], [7, 64], [64, 7], [8, 128], [1000, 1]];

/// B and N: nothing, one, and around a warp, a vector and a tile.
const SHAPES: [[i32; 2]; 22] = [
    [0, 5],
    [1, 0],
    [1, 1],
    [33, 33],
    [1, 32],
    [1, 33],
    [3, 63],
    [2, 64],
    [2, 65],
    [1, 2],
    [2, 3],
    [3, 2],
    [5, 127],
    [2, 128],
    [1, 129],
    [2, 255],
    [2, 256],
    [1, 257],
    [1, 31],
    [64, 17],
    [100, 3],
    [1000, 1],
];

/// Row-major, column-major, with gaps in rows, in columns, and in both; none sends two (b, n) to one place.
fn strides([b, n]: [i32; 2], number: usize) -> [i32; 2] {
    match number % 5 {
        0 => [n, 1],
        1 => [1, b],
        2 => [n + 3, 1],
        3 => [1, b + 2],
        _ => [2 * n + 1, 2],
    }
}

fn shaped(kernel: &'static str) -> impl Iterator<Item = Case> {
    (0..SHAPES.len()).map(move |number| {
        let [b, n] = SHAPES[number];
        let [stride_b, stride_n] = strides(SHAPES[number], number);
        Case::new(kernel, &BLOCKS[number % BLOCKS.len()], &[b, n, stride_b, stride_n]).varied(number)
    })
}

fn forward_cases() -> Vec<Case> {
    // A broadcast row, a broadcast column, one element everywhere, and overlapping windows.
    let shared = [[5, 33, 0, 1], [33, 5, 1, 0], [4, 9, 0, 0], [40, 7, 1, 1], [6, 8, 3, 2]];
    let shared =
        shared.iter().enumerate().map(|(i, extents)| Case::new(FORWARD, &BLOCKS[i], extents).varied(i));
    shaped(FORWARD).chain(shared).collect()
}

fn backward_cases() -> Vec<Case> {
    // A stride of zero, or any, is fine along an extent of one.
    let single = [[1, 9, 0, 1], [9, 1, 1, 0], [1, 1, 0, 0], [1, 7, 5, 3], [3, 5, 5, 3]];
    let single =
        single.iter().enumerate().map(|(i, extents)| Case::new(BACKWARD, &BLOCKS[i], extents).varied(i));
    let accumulated = shaped(BACKWARD).skip(2).step_by(2).map(|case| case.accumulate(true));
    shaped(BACKWARD).chain(single).chain(accumulated).collect()
}

fn forward_literals() -> Vec<Literal> {
    vec![
        // Column-major: columns (1, 2), (3, 4), (5, 6).
        Literal::new(Case::new(FORWARD, &[1, 64], &[2, 3, 1, 2]))
            .given("input", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .gives("output", &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0]),
        // Rows five apart, every other element.
        Literal::new(Case::new(FORWARD, &[2, 2], &[2, 2, 5, 2]))
            .given("input", &[1.0, 90.0, 2.0, 91.0, 92.0, 3.0, 93.0, 4.0])
            .gives("output", &[1.0, 2.0, 3.0, 4.0]),
    ]
}

fn backward_literals() -> Vec<Literal> {
    let gaps = Case::new(BACKWARD, &[2, 2], &[2, 2, 5, 2]);
    vec![
        Literal::new(Case::new(BACKWARD, &[1, 64], &[2, 3, 1, 2]))
            .given("dy", &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0])
            .gives("dx", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        Literal::new(gaps.clone())
            .given("dy", &[1.0, 2.0, 3.0, 4.0])
            .gives("dx", &[1.0, NAN, 2.0, NAN, NAN, 3.0, NAN, 4.0]),
        Literal::new(gaps.accumulate(true))
            .given("dy", &[1.0, 2.0, 3.0, 4.0])
            .given("dx", &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0])
            .gives("dx", &[11.0, NAN, 32.0, NAN, NAN, 63.0, NAN, 84.0]),
    ]
}
