//! Random cases: what every operation's strategies share, and how they run on device code.

use cotangent::verify::{Case, Check, Data, Grid};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::executor::places;
use crate::suite;

/// How many blocks to launch.
pub fn grid() -> impl Strategy<Value = Grid> {
    prop_oneof![Just(Grid::Own), Just(Grid::One), Just(Grid::Twice)]
}

/// What copies are fed with.
pub fn data() -> impl Strategy<Value = Data> {
    prop_oneof![Just(Data::Plain), Just(Data::Special)]
}

/// How many elements each buffer's base is off an aligned address.
pub fn offsets() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..4_usize, 5)
}

/// The properties' settings: many cases on the CPU, where they are quick.
#[must_use]
pub fn config() -> ProptestConfig {
    ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() }
}

/// Runs a check for random cases on the CPU.
pub fn on_cpu(cases: impl Strategy<Value = Case>, check: fn(Case) -> Check) {
    let result = TestRunner::new(config())
        .run(&cases, |case| suite::on_cpu(&check(case)).map_err(TestCaseError::fail));
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Runs a check for random cases on device code, fewer of them.
pub fn on_device(cases: impl Strategy<Value = Case>, check: fn(Case) -> Check) {
    let places = places();
    let config = ProptestConfig { cases: 12, ..config() };
    let result = TestRunner::new(config)
        .run(&cases, |case| suite::on_device(&places, &check(case)).map_err(TestCaseError::fail));
    result.unwrap_or_else(|failure| panic!("{failure}"));
}
