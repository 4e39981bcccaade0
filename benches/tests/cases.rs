//! The whole path of a record on the CPU, and that its verification can fail.

use cotangent_benches::case::{Buffer, Case, Direction, Expected, Problem, Size};
use cotangent_benches::measure::{self, Prepared, Protocol, median};
use cotangent_benches::ops;
use cotangent_benches::pattern::Pattern;
use cotangent_benches::place::Cpu;
use cotangent_benches::{Error, traffic};

use cotangent::DType;

fn tiny() -> Vec<Case> {
    ops::ALL.iter().flat_map(|(_, cases)| cases(Size::Tiny)).collect()
}

#[test]
fn every_case_verifies_and_is_timed_on_the_cpu() {
    let cases = tiny();
    let cases: Vec<_> = cases.iter().collect();
    let mut seen = 0;
    let measured = measure::all(&mut Cpu::default(), &cases, &Protocol::TINY, |_| seen += 1).expect("memory");
    assert_eq!((seen, measured.len()), (cases.len(), cases.len()));
    for case in measured {
        let us = case.us.unwrap_or_else(|error| panic!("{error}"));
        assert!(us > 0.0 && us.is_finite(), "{}: {us}", case.case);
    }
}

/// A problem whose formula is off by one element of the result.
struct Shifted(Box<dyn Problem>);

impl Problem for Shifted {
    fn op(&self) -> &'static str {
        self.0.op()
    }

    fn shape(&self) -> String {
        self.0.shape()
    }

    fn kernel(&self, direction: Direction) -> &'static str {
        self.0.kernel(direction)
    }

    fn constants(&self, direction: Direction, dtype: DType) -> Vec<i32> {
        self.0.constants(direction, dtype)
    }

    fn extents(&self, direction: Direction) -> Vec<i32> {
        self.0.extents(direction)
    }

    fn rows(&self) -> Option<i64> {
        self.0.rows()
    }

    fn has_value(&self, direction: Direction) -> bool {
        self.0.has_value(direction)
    }

    fn buffers(&self, direction: Direction) -> Vec<Buffer> {
        self.0.buffers(direction)
    }

    fn bytes(&self, direction: Direction, size: u64, base: u64) -> u64 {
        self.0.bytes(direction, size, base)
    }

    fn expect(&self, direction: Direction, output: usize, index: u64, inputs: &Pattern) -> Expected {
        self.0.expect(direction, output, index + 1, inputs)
    }

    fn row(&self, direction: Direction, output: usize) -> u64 {
        self.0.row(direction, output)
    }

    fn peer(&self) -> serde_json::Value {
        self.0.peer()
    }
}

#[test]
fn a_wrong_formula_is_found_in_every_kernel() {
    let mut kernels = std::collections::HashSet::new();
    for mut case in tiny() {
        if !kernels.insert((case.problem.kernel(case.direction), case.dtype)) {
            continue;
        }
        case.problem = Box::new(Shifted(case.problem));
        let mut place = Cpu::default();
        measure::reserve(&mut place, &[&case], &Protocol::TINY).expect("memory");
        let prepared = Prepared::new(&place, &case, &Protocol::TINY).expect("a launch");
        let error = prepared.verify(&Pattern::new(case.dtype)).expect_err("a shifted result");
        assert!(matches!(error, Error::Wrong(_)), "{case}: {error}");
    }
    assert!(kernels.len() > 20, "{kernels:?}");
}

#[test]
fn full_cases_count_their_bytes() {
    let cases = ops::ALL.iter().flat_map(|(_, cases)| cases(Size::Full)).collect::<Vec<_>>();
    for case in &cases {
        let size = case.dtype.size() as u64;
        let elements: u64 = case.problem.buffers(case.direction).iter().map(|buffer| buffer.elements).sum();
        // Windows of wider rows touch at most all of them, and the sectors at the ends.
        assert!(case.bytes() <= elements * size + 2 * 32, "{case}");
        assert!(case.bytes() > 0, "{case}");
    }
    let beyond =
        |case: &&Case| case.problem.buffers(case.direction).iter().any(|buffer| buffer.elements > 1 << 31);
    for (op, _) in ops::ALL.iter().filter(|(op, _)| *op != "conv2d") {
        let of_op = || cases.iter().filter(|case| case.problem.op() == *op);
        assert!(of_op().filter(beyond).count() >= 4, "{op} goes beyond 2^31 elements");
        assert!(of_op().any(|case| case.offset == 1), "{op} has a base off by one");
        let small = |case: &&Case| case.bytes() <= 16 << 10;
        assert!(of_op().filter(small).count() >= 4, "{op} has cases of a few kilobytes");
    }
}

#[test]
fn bursts_are_as_long_as_the_protocol_wants() {
    let protocol = Protocol::FULL;
    assert_eq!(protocol.launches(2000.0, 1), 1);
    assert_eq!(protocol.launches(300.0, 1), 4);
    // Twenty-five sets of 50 µs each are all visited; of 1000 µs each, five.
    assert_eq!(protocol.launches(50.0, 25), 25);
    assert_eq!(protocol.launches(1000.0, 25), 5);
    assert_eq!(protocol.launches(0.5, 1), protocol.launches);
    assert_eq!((median(&mut [3.0, 1.0, 2.0]), median(&mut [4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
    assert_eq!(traffic::windows(0, 1, 4, 8), 32);
}
