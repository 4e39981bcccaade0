//! Random cases, and how they run.

use std::sync::LazyLock;

use cotangent::launch::Access;
use cotangent::verify::{Call, Case, Executor, Grid, HostBuffer, SplitMix64, encode, kernel};
use cotangent::{DType, Device, LaunchOptions};
use cotangent_tests::executor::{Place, places};
use cotangent_tests::random::{grid, offsets};
use cotangent_tests::suite::prepared;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

static PLACES: LazyLock<Vec<Place>> = LazyLock::new(places);

fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let asked = |name| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if asked("PROPTEST_CASES") { default.cases } else { cases },
        rng_seed: if asked("PROPTEST_RNG_SEED") { default.rng_seed } else { RngSeed::Fixed(20_260_101) },
        failure_persistence: None,
        ..default
    }
}

/// Runs a property for random values on the CPU, and for fewer of them on device code.
pub(crate) fn everywhere<S: Strategy>(
    values: &S,
    property: impl Fn(&Place, &S::Value) -> Result<(), TestCaseError>,
) {
    let cpu = Place::Gpu(Device::cpu());

    for (place, cases) in std::iter::once((&cpu, 24)).chain(PLACES.iter().map(|place| (place, 8))) {
        let result = TestRunner::new(config(cases)).run(values, |value| property(place, &value));
        result.unwrap_or_else(|failure| panic!("on {}: {failure}", place.name()));
    }
}

/// What every argument holds after a launch, in the kernel's order. `before` says what an argument of this name and so
/// many bytes holds before.
pub(crate) fn launch(
    place: &Place,
    case: &Case,
    dtype: DType,
    scalar: f64,
    mut before: impl FnMut(&'static str, usize) -> Vec<u8>,
) -> Result<Vec<Vec<u8>>, TestCaseError> {
    let fail =
        |failure: cotangent::verify::Failure| TestCaseError::fail(format!("{case}, {dtype}: {failure}"));
    let own = prepared(case, dtype).map_err(fail)?;
    let mut buffers: Vec<_> = own
        .touched()
        .iter()
        .enumerate()
        .map(|(i, touched)| HostBuffer {
            name: touched.name,
            element_bytes: dtype.size(),
            offset: case.offsets.get(i).copied().unwrap_or(0),
            access: touched.access,
            bytes: before(touched.name, touched.bytes as usize),
        })
        .collect();
    let kernel = kernel(case.kernel, dtype, &case.constants).map_err(fail)?;
    let mut options = LaunchOptions::new().accumulate(case.accumulate);
    options.rows = case.rows;
    let blocks = match case.grid {
        Grid::Own => None,
        Grid::One => Some(1),
        Grid::Twice => Some(2 * own.geometry().grid_x),
    };
    options.grid = blocks.and_then(std::num::NonZeroU32::new);
    let scalar = if kernel.scalar_bytes() == 0 { Vec::new() } else { encode(dtype, &[scalar]) };
    let call = Call { kernel: &*kernel, extents: &case.extents, scalar: &scalar, options };
    place.run(&call, &mut buffers).map_err(fail)?;
    Ok(buffers.into_iter().map(|buffer| buffer.bytes).collect())
}

/// The case as a place runs it: a plan has its own grid.
pub(crate) fn at(place: &Place, case: &Case) -> Case {
    let case = case.clone();
    if matches!(place, Place::Planned { .. }) { case.grid(Grid::Own) } else { case }
}

/// Whether a place runs the portable kernels, which are all that there are for integers.
pub(crate) fn is_portable(place: &Place) -> bool {
    !matches!(place, Place::Planned { .. })
}

/// The results of a launch, which are its last arguments. Elements that are left alone are zero.
pub(crate) fn results(
    place: &Place,
    case: &Case,
    dtype: DType,
    inputs: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, TestCaseError> {
    let mut inputs = inputs.iter();
    let reads = input_bytes(case, dtype).len();
    let mut at = 0;
    let after = launch(place, case, dtype, 0.0, |_, bytes| {
        at += 1;
        if at <= reads { inputs.next().cloned().unwrap_or_default() } else { vec![0; bytes] }
    })?;
    Ok(after[reads..].to_vec())
}

/// The results of a launch that adds to what its outputs hold.
pub(crate) fn added(
    place: &Place,
    case: &Case,
    dtype: DType,
    inputs: &[Vec<u8>],
    before: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, TestCaseError> {
    let case = case.clone().accumulate(true);
    let (mut inputs, mut before) = (inputs.iter(), before.iter());
    let reads = input_bytes(&case, dtype).len();
    let mut at = 0;
    let after = launch(place, &case, dtype, 0.0, |_, _| {
        at += 1;
        let next = if at <= reads { inputs.next() } else { before.next() };
        next.cloned().unwrap_or_default()
    })?;
    Ok(after[reads..].to_vec())
}

/// The bytes of each input of a case.
pub(crate) fn input_bytes(case: &Case, dtype: DType) -> Vec<usize> {
    let launch = prepared(case, dtype).expect("strategies make good cases");
    launch.touched().iter().filter(|t| t.access == Access::Read).map(|t| t.bytes as usize).collect()
}

/// Any bits.
pub(crate) fn bits(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..bytes).map(|_| random.next_u64() as u8).collect()
}

/// Numbers from −1 to 1 in f32.
pub(crate) fn floats(seed: u64, bytes: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..bytes / 4).map(|_| random.unit() as f32).collect()
}

/// Elements as numbers modulo a power of two.
pub(crate) fn words(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    let widen = |element: &[u8]| element.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    bytes.chunks_exact(dtype.size()).map(widen).collect()
}

/// The low bits of numbers, as elements.
pub(crate) fn elements(dtype: DType, words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(|word| word.to_le_bytes().into_iter().take(dtype.size())).collect()
}

/// Integers of each width.
pub(crate) fn integers() -> impl Strategy<Value = DType> {
    prop_oneof![Just(DType::I8), Just(DType::U16), Just(DType::I32), Just(DType::I64)]
}

prop_compose! {
    fn flatten(name: &'static str)(
        b in 0..20_i32, n in 0..40_i32, gap in 0..5_i32, step in 1..4_i32, by_columns in any::<bool>(),
        block_b in 1..9_i32, block_n in 1..70_i32,
    ) -> Case {
        let inner = if by_columns { b } else { n };
        let outer = inner.max(1) * step + gap;
        let [stride_b, stride_n] = if by_columns { [step, outer] } else { [outer, step] };
        Case::new(name, &[block_b, block_n], &[b, n, stride_b, stride_n])
    }
}

prop_compose! {
    fn channel_cat(name: &'static str)(
        rows in 0..6_i64, chunk in 0..70_i32, before in 0..9_i32, after in 0..9_i32, block in 1..200_i32,
    ) -> Case {
        Case::new(name, &[block], &[chunk, before + chunk + after, before]).rows(rows)
    }
}

prop_compose! {
    fn constant_pad1d(name: &'static str)(
        b in 0..3_i32, c in 0..4_i32, len in 0..60_i32, left in -9..9_i32, right in -9..9_i32, block in 1..200_i32,
    ) -> Case {
        let (left, right) = (left.max(-len), right.max(-(len + left.max(-len))));
        Case::new(name, &[left, right, block], &[b, c, len, len + left + right])
    }
}

prop_compose! {
    fn upsample(name: &'static str)(
        b in 0..3_i32, c in 0..4_i32, h in 0..7_i32, w in 0..30_i32, scale_h in 1..5_i32, scale_w in 1..6_i32,
        block in 1..200_i32,
    ) -> Case {
        Case::new(name, &[scale_h, scale_w, block], &[b, c, h, w, h * scale_h, w * scale_w])
    }
}

prop_compose! {
    /// Convolutions, some with as many channels as tiles want.
    pub(crate) fn conv2d(name: &'static str)(
        kh in 1..4_i32, kw in 1..4_i32, stride_h in 1..3_i32, stride_w in 1..3_i32, pad_h in 0..3_i32,
        pad_w in 0..3_i32, g in 1..3_i32, block in 1..200_i32, b in 0..3_i32, cig in 1..4_i32, cog in 1..4_i32,
        more_h in 0..4_i32, more_w in 0..6_i32, many in prop::bool::weighted(0.7),
    ) -> Case {
        let more = if many { 16 } else { 0 };
        let (c_in, c_out) = (g * (cig + more), g * (cog + more));
        let (h, w) = ((kh - 2 * pad_h).max(0) + more_h, (kw - 2 * pad_w).max(0) + more_w);
        let (oh, ow) = ((h + 2 * pad_h - kh) / stride_h + 1, (w + 2 * pad_w - kw) / stride_w + 1);
        let constants = [kh, kw, stride_h, stride_w, pad_h, pad_w, g, block];
        Case::new(name, &constants, &[b, c_in, c_out, h, w, oh, ow])
    }
}

/// Any case of a kernel, on any bases and with any grid.
pub(crate) fn any_case(name: &'static str) -> impl Strategy<Value = Case> {
    let case = match name {
        _ if name.starts_with("flatten") => flatten(name).boxed(),
        _ if name.starts_with("channel_cat") => channel_cat(name).boxed(),
        _ if name.starts_with("constant_pad1d") => constant_pad1d(name).boxed(),
        _ if name.starts_with("conv2d") => conv2d(name).boxed(),
        _ => upsample(name).boxed(),
    };
    (case, grid(), offsets()).prop_map(|(case, grid, offsets)| case.grid(grid).offsets(&offsets))
}
