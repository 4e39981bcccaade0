//! Sums of small integers, which are exact in any order: the one rounding at the end gives the same bits everywhere.

use cotangent::launch::Target;
use cotangent::verify::{
    Call, Case, Executor, Failure, HostBuffer, Measured, SplitMix64, decode, encode, kernel,
};
use cotangent::{Algorithm, DType, Device, LaunchOptions, MathMode};

use super::shapes::{CONVOLUTIONS, DEPTHWISE, FEW_CHANNELS, convolution};
use super::{Job, TARGETS, Work, module, planned_for};
use crate::executor::{Blocks, is_tuned, names, plan};

/// Types whose results round.
const DTYPES: [DType; 2] = [DType::F16, DType::Bf16];

/// The largest magnitude of an element. Products of two, as many as a sum here has, stay below 2²⁴.
const LARGEST: u64 = 20;

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kernel in ["conv2d_forward", "conv2d_backward", "conv2d_backward_dx", "conv2d_backward_dw"] {
        for (constants, sizes) in
            [([3, 3, 1, 1, 1, 1, 1, 64], [2, 9, 11, 7, 8]), ([2, 3, 2, 1, 0, 1, 2, 64], [2, 8, 6, 7, 9])]
        {
            cases.push(convolution(kernel, constants, sizes));
        }
    }
    for &(constants, sizes) in CONVOLUTIONS.iter().chain(&DEPTHWISE).chain(&FEW_CHANNELS) {
        for kernel in ["conv2d_forward", "conv2d_backward_dx", "conv2d_backward_dw"] {
            cases.push(convolution(kernel, constants, sizes));
        }
    }
    for (scale_h, scale_w) in [(1, 1), (3, 1), (2, 2), (5, 3), (3, 4), (4, 7)] {
        let (h, w) = (3, 77);
        let extents = [1, 2, h, w, h * scale_h, w * scale_w];
        cases.push(Case::new("upsample_nearest2d_backward", &[scale_h, scale_w, 512], &extents));
    }
    let added = [
        Case::new("channel_cat_backward", &[512], &[333, 700, 9]).rows(5),
        Case::new("constant_pad1d_backward", &[-3, 5, 512], &[2, 3, 333, 335]),
        Case::new("flatten_backward", &[32, 64], &[40, 70, 1, 43]),
        Case::new("flatten_backward", &[1, 512], &[5, 333, 340, 1]),
    ];
    let gradients = cases.iter().filter(|case| case.kernel.contains("backward")).cloned();
    let added = gradients.chain(added).map(|case| case.accumulate(true).offsets(&[1, 2, 0, 3, 1]));
    let added: Vec<_> = added.collect();
    cases.extend(added);
    cases
}

/// Each case on the portable kernel, and tiled where a target has tiles for it.
pub(super) fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for case in cases() {
        for dtype in DTYPES {
            let mut before = Vec::new();
            for target in [TARGETS[0], TARGETS[1], TARGETS[2]] {
                let plan =
                    plan(&case, dtype, &target, Algorithm::Large, MathMode::default()).unwrap_or_default();
                let names = names(&plan);
                if is_tuned(&case, &plan) && !before.contains(&names) {
                    jobs.push(job(&case, dtype, Some(target), &names));
                    before.push(names);
                }
            }
            // The portable kernels would take long for what tiles are for.
            if before.is_empty() {
                jobs.push(job(&case, dtype, None, &[case.kernel]));
            }
        }
    }
    jobs
}

/// A case with such inputs.
pub(super) fn job(case: &Case, dtype: DType, target: Option<Target>, names: &[&'static str]) -> Job {
    let planned = target.map_or_else(String::new, planned_for);
    let body = case.clone();
    Job {
        kernel: case.kernel,
        dtype,
        label: format!("{case}, exact sums{planned}, {dtype}"),
        modules: names.iter().map(|name| module(name, dtype)).collect(),
        target,
        algorithm: Algorithm::Large,
        blocks: Blocks::Planned,
        work: Work::Body(Box::new(move |executor| equal(executor, &body, dtype))),
    }
}

/// Runs a case, and compares every buffer with the reference's, bit for bit.
fn equal(executor: &dyn Executor, case: &Case, dtype: DType) -> Result<Measured, Failure> {
    let kernel = kernel(case.kernel, dtype, &case.constants)?;
    let mut options = LaunchOptions::new().accumulate(case.accumulate);
    options.rows = case.rows;
    let call = Call { kernel: &*kernel, extents: &case.extents, scalar: &[], options };
    let nowhere: Vec<u64> = (1..=kernel.pointers() as u64).map(|i| i << 44).collect();
    let mut random = SplitMix64::from_text(&case.to_string());
    let mut integers = |count: usize| {
        let value = |_| random.below(2 * LARGEST + 1) as f64 - LARGEST as f64;
        encode(dtype, &(0..count).map(value).collect::<Vec<_>>())
    };
    let launch = call.prepare(&nowhere)?;
    let buffers = launch.touched().iter().enumerate().map(|(i, touched)| HostBuffer {
        name: touched.name,
        element_bytes: dtype.size(),
        offset: case.offsets.get(i).copied().unwrap_or(0),
        access: touched.access,
        bytes: integers(touched.bytes as usize / dtype.size()),
    });
    let mut got: Vec<_> = buffers.collect();
    let mut expected = got.clone();
    Device::cpu().run(&call, &mut expected)?;
    executor.run(&call, &mut got)?;
    for (got, expected) in got.iter().zip(&expected) {
        let pairs = got.bytes.chunks(dtype.size()).zip(expected.bytes.chunks(dtype.size()));
        if let Some((element, (got_bytes, expected))) = pairs.enumerate().find(|(_, (a, b))| a != b) {
            let [got_value, expected] = [got_bytes, expected].map(|bytes| decode(dtype, bytes)[0]);
            let what = format!("{}: element {element} is {got_value}, not {expected}", got.name);
            return Err(Failure::Executor(what.into()));
        }
    }
    Ok(Measured::default())
}
