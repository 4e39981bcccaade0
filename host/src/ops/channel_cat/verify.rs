//! What verification knows of channel cat: its contract in numbers, awkward shapes, and worked literals.

use super::{ChannelCatBackward, ChannelCatForward};
use crate::verify::erased::{build, plain};
use crate::verify::subject::{Adjoint, Spec, Subject};
use crate::verify::{Case, Literal};

const FORWARD: &str = "channel_cat_forward";
const BACKWARD: &str = "channel_cat_backward";
const NAN: f64 = f64::NAN;

plain! { ChannelCatForward("channel_cat_forward": block_size) pointers(x, y) extents(chunk_c, c_total, chunk_offset) }
plain! { ChannelCatBackward("channel_cat_backward": block_size) pointers(dy, dx) extents(chunk_c, c_total, chunk_offset) }

pub(crate) const SUBJECTS: &[Subject] = &[
    Subject {
        name: FORWARD,
        build: build!(ChannelCatForward),
        specs: |case| {
            let [rows, chunk_c, c_total, offset] = numbers(case);
            let written = (0..rows).flat_map(move |r| (0..chunk_c).map(move |c| r * c_total + offset + c));
            vec![Spec::input("x", rows * chunk_c), Spec::part("y", joined(case), written)]
        },
        cases: forward_cases,
        literals: forward_literals,
        adjoint: None,
    },
    Subject {
        name: BACKWARD,
        build: build!(ChannelCatBackward),
        specs: |case| {
            let [rows, chunk_c, ..] = numbers(case);
            let dx = Spec::output("dx", rows * chunk_c, 0).accumulated(case.accumulate);
            vec![Spec::input("dy", joined(case)), dx]
        },
        cases: backward_cases,
        literals: backward_literals,
        adjoint: Some(Adjoint { forward: FORWARD, pairs: &[("x", "dx")] }),
    },
];

/// Rows, and the extents.
fn numbers(case: &Case) -> [usize; 4] {
    let [chunk_c, c_total, offset] = std::array::from_fn(|i| case.extents[i] as usize);
    [case.rows.unwrap_or(0) as usize, chunk_c, c_total, offset]
}

/// Elements of the joined tensor; an empty chunk does not touch it.
fn joined(case: &Case) -> usize {
    let [rows, chunk_c, c_total, _] = numbers(case);
    if chunk_c == 0 { 0 } else { rows * c_total }
}

const BLOCKS: [i32; 5] = [1, 7, 64, 128, 1000];

/// Rows, `chunk_c`, `c_total` and `chunk_offset`: nothing, one, around a warp, a vector and a tile; first, last and
/// between; offsets that break a vector's alignment.
const SHAPES: [[i32; 4]; 24] = [
    [0, 4, 9, 2],
    [5, 0, 5, 2],
    [1, 1, 1, 0],
    [3, 2, 3, 1],
    [2, 7, 20, 5],
    [2, 31, 33, 2],
    [3, 32, 96, 32],
    [2, 33, 100, 67],
    [1, 63, 64, 1],
    [2, 64, 64, 0],
    [2, 65, 66, 0],
    [5, 4, 12, 4],
    [4, 16, 48, 16],
    [3, 127, 128, 1],
    [2, 128, 300, 172],
    [1, 129, 131, 1],
    [2, 255, 257, 1],
    [1, 256, 512, 256],
    [1, 257, 261, 3],
    [70, 3, 8, 5],
    [257, 1, 2, 1],
    [1, 1, 1000, 999],
    [9, 8, 24, 8],
    [33, 5, 31, 7],
];

fn shaped(kernel: &'static str) -> impl Iterator<Item = Case> {
    SHAPES.iter().enumerate().map(move |(number, &[rows, chunk_c, c_total, offset])| {
        let block = BLOCKS[number % BLOCKS.len()];
        Case::new(kernel, &[block], &[chunk_c, c_total, offset]).rows(i64::from(rows)).varied(number)
    })
}

fn forward_cases() -> Vec<Case> {
    shaped(FORWARD).collect()
}

fn backward_cases() -> Vec<Case> {
    shaped(BACKWARD).chain(shaped(BACKWARD).skip(1).step_by(2).map(|case| case.accumulate(true))).collect()
}

/// Two rows of two channels, the second and third of five.
fn small(kernel: &'static str) -> Case {
    Case::new(kernel, &[64], &[2, 5, 1]).rows(2)
}

fn forward_literals() -> Vec<Literal> {
    vec![
        Literal::new(small(FORWARD))
            .given("x", &[1.0, 2.0, 3.0, 4.0])
            .gives("y", &[NAN, 1.0, 2.0, NAN, NAN, NAN, 3.0, 4.0, NAN, NAN]),
        Literal::new(Case::new(FORWARD, &[1], &[3, 3, 0]).rows(1))
            .given("x", &[7.0, 8.0, 9.0])
            .gives("y", &[7.0, 8.0, 9.0]),
    ]
}

fn backward_literals() -> Vec<Literal> {
    let dy = [10.0, 11.0, 12.0, 13.0, 14.0, 20.0, 21.0, 22.0, 23.0, 24.0];
    vec![
        Literal::new(small(BACKWARD)).given("dy", &dy).gives("dx", &[11.0, 12.0, 21.0, 22.0]),
        Literal::new(small(BACKWARD).accumulate(true))
            .given("dy", &dy)
            .given("dx", &[1.0, 2.0, 3.0, 4.0])
            .gives("dx", &[12.0, 14.0, 24.0, 26.0]),
    ]
}
