//! wgrad with a byte of workspace less than it has use for: x is brought to the blocked format in parts of the batch, whose
//! sums are added. Otherwise images of many megabytes alone are.

use cotangent::launch::Target;
use cotangent::verify::{Call, Case, Check, Executor, Failure, HostBuffer, run};
use cotangent::{Algorithm, DType, MathMode, Workspace};

use super::shapes::convolution;
use super::{Job, Work, module, planned_for, tf32};
use crate::executor::{Blocks, names, planned};

/// Constants and sizes, with tiles of 64 and of 128 output channels; parts of two batch items, and a last one of one.
const CASES: [([i32; 8], [i32; 5]); 3] = [
    ([3, 3, 1, 1, 1, 1, 1, 64], [3, 18, 70, 6, 5]),
    ([3, 3, 2, 2, 1, 1, 1, 64], [2, 40, 64, 7, 9]),
    ([2, 3, 1, 1, 0, 1, 2, 64], [2, 36, 48, 5, 11]),
];

/// One for split products, whose parts have sums of their own: those must take less than parts of x spare.
const SPLIT: ([i32; 8], [i32; 5]) = ([2, 3, 1, 1, 0, 1, 2, 64], [2, 36, 32, 5, 11]);

/// An executor whose workspace is of so many bytes at most.
struct Scarce<'a> {
    executor: &'a dyn Executor,
    bytes: u64,
}

impl Executor for Scarce<'_> {
    fn name(&self) -> String {
        self.executor.name()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let mut call = *call;
        call.options.workspace = Some(Workspace { address: 0, bytes: self.bytes });
        self.executor.run(&call, buffers)
    }
}

/// Each in all types that tensor cores multiply, f32 split and in TF32.
pub(super) fn jobs(target: &Target) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut add = |(constants, sizes), types: &[(DType, MathMode)]| {
        let case = convolution("conv2d_backward_dw", constants, sizes);
        jobs.extend(types.iter().map(|&(dtype, math)| job(&case, dtype, math, *target)));
    };
    let plain = [(DType::F16, MathMode::Ieee), (DType::Bf16, MathMode::Ieee), (DType::F32, MathMode::Tf32)];
    for case in CASES {
        add(case, &plain);
    }
    add(SPLIT, &[(DType::F32, MathMode::Ieee)]);
    jobs
}

fn job(case: &Case, dtype: DType, math: MathMode, target: Target) -> Job {
    let (plan, wanted) =
        planned(case, dtype, &target, Algorithm::Large, math).expect("a case that can be planned");
    let bytes = wanted - 1;
    let of = case.clone();
    let tf32 = math == MathMode::Tf32;
    let check = Check::Reference(case.clone());
    let mode = if tf32 { ", in TF32" } else { "" };
    let planned_for = planned_for(target);
    Job {
        kernel: case.kernel,
        dtype,
        label: format!("{case}{mode}{planned_for}, a byte of workspace less, {dtype}"),
        modules: names(&plan).iter().map(|name| module(name, dtype)).collect(),
        target: Some(target),
        algorithm: Algorithm::Large,
        blocks: Blocks::Planned,
        work: Work::Body(Box::new(move |executor| {
            let scarce = Scarce { executor, bytes };
            if tf32 { tf32::products(&scarce, &of) } else { run(&scarce, &check, dtype) }
        })),
    }
}
