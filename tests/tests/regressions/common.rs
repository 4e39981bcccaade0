//! How a regression is checked.

use std::sync::LazyLock;

use cotangent::verify::{Case, Check, Literal, SplitMix64};
use cotangent::{Device, Stream};
use cotangent_tests::executor::{Place, places};
use cotangent_tests::suite;

/// Where device code runs.
pub(crate) static PLACES: LazyLock<Vec<Place>> = LazyLock::new(places);

/// A check passes on the CPU, and on device code.
#[track_caller]
pub(crate) fn holds(check: &Check) {
    let result = suite::on_cpu(check).and_then(|()| suite::on_device(&PLACES, check));
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A case equals the reference, twice, and touches nothing else.
#[track_caller]
pub(crate) fn matches(case: Case) {
    holds(&Check::Reference(case));
}

/// A case with these inputs gives these outputs, exactly. Numbers from 0 to 255 are the same in every type.
#[track_caller]
pub(crate) fn equals(case: Case, given: &[(&'static str, &[f64])], gives: &[(&'static str, &[f64])]) {
    let mut literal = Literal::new(case);
    for &(name, values) in given {
        literal = literal.given(name, values);
    }
    for &(name, values) in gives {
        let small = |value: &f64| value.is_nan() || (0.0..256.0).contains(value) && value.fract() == 0.0;
        assert!(values.iter().all(small), "{name} is not the same in every type");
        literal = literal.gives(name, values);
    }
    holds(&Check::Literal(literal));
}

/// Whole numbers from 0 to `most`.
pub(crate) fn numbers(seed: u64, len: usize, most: u64) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    (0..len).map(|_| random.below(most + 1) as f64).collect()
}

/// How many elements extents have.
pub(crate) fn volume(extents: &[i32]) -> usize {
    extents.iter().map(|&extent| extent as usize).product()
}

/// The CPU's stream, and the GPU's where there is one.
pub(crate) fn streams() -> Vec<Stream> {
    let devices = std::iter::once(Device::cpu()).chain(Device::cuda(0));
    devices.map(|device| device.stream().expect("a stream")).collect()
}

/// A GPU's stream, for what needs so many bytes of its memory; where there is none, the output says what was not done.
pub(crate) fn large_gpu(bytes: u64, what: &str) -> Option<Stream> {
    let gib = bytes >> 30;
    if let Ok(device) = Device::cuda(0) {
        println!("{what} takes {gib} GiB on {device}");
        Some(device.stream().expect("a stream"))
    } else {
        println!("no GPU: {what} is not tried, which takes {gib} GiB");
        None
    }
}
