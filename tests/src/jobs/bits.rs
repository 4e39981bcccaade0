//! Convolutions that between them launch every kernel of a convolution, to compare bits.

use std::collections::BTreeSet;

use cotangent::launch::{Access, Target};
use cotangent::verify::{Call, Case, Executor, Failure, HostBuffer, SplitMix64, encode, kernel};
use cotangent::{Algorithm, DType, LaunchOptions, MathMode};

use super::module;
use super::shapes::{CONVOLUTIONS, DEPTHWISE, FEW_CHANNELS, convolution};
use crate::executor::{ModuleName, PtxMachine, plan};

/// Blocks of a launch, at most: the machine takes its time.
const BLOCKS: u32 = 128;

/// A convolution, or gradients of one, with what it launches on a target.
#[derive(Clone, Debug)]
pub struct Convolution {
    /// What it launches.
    pub modules: Vec<ModuleName>,
    /// What that is planned for.
    pub target: Target,
    /// The choice of kernels.
    pub algorithm: Algorithm,
    case: Case,
    dtype: DType,
    math: MathMode,
}

impl Convolution {
    /// What it is.
    #[must_use]
    pub fn label(&self) -> String {
        let Self { case, dtype, math, target, algorithm, .. } = self;
        format!("{case}, {dtype}, {math:?}, {algorithm:?} for {target:?}")
    }

    /// The kernel that is called.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        self.case.kernel
    }

    /// A machine for the target, fresh.
    #[must_use]
    pub fn machine(&self) -> PtxMachine {
        PtxMachine::planned(self.target).algorithm(self.algorithm)
    }

    /// The bytes of its results, for inputs that follow from what it is. Sums of these differ in another order.
    ///
    /// # Errors
    /// What the executor finds.
    pub fn bits(&self, executor: &dyn Executor) -> Result<Vec<u8>, Failure> {
        let kernel = kernel(self.case.kernel, self.dtype, &self.case.constants)?;
        let options = LaunchOptions::new().math(self.math).algorithm(self.algorithm);
        let call = Call { kernel: &*kernel, extents: &self.case.extents, scalar: &[], options };
        let nowhere: Vec<u64> = (1..=kernel.pointers() as u64).map(|i| i << 44).collect();
        let mut random = SplitMix64::from_text(&self.case.to_string());
        let size = self.dtype.size();
        let mut numbers =
            |count: usize| encode(self.dtype, &(0..count).map(|_| random.unit()).collect::<Vec<_>>());
        let launch = call.prepare(&nowhere)?;
        let buffers = launch.touched().iter().map(|touched| HostBuffer {
            name: touched.name,
            element_bytes: size,
            offset: 0,
            access: touched.access,
            bytes: numbers(touched.bytes as usize / size),
        });
        let mut buffers: Vec<_> = buffers.collect();
        executor.run(&call, &mut buffers)?;
        let results = buffers.into_iter().filter(|buffer| buffer.access != Access::Read);
        Ok(results.flat_map(|buffer| buffer.bytes).collect())
    }
}

/// A handful, small ones first, planned for these targets: each launches a module that no one before it does for the
/// kernel that is called.
#[must_use]
pub fn convolutions(targets: &[Target]) -> Vec<Convolution> {
    let mut shapes: Vec<_> = CONVOLUTIONS.iter().chain(&DEPTHWISE).chain(&FEW_CHANNELS).collect();
    shapes.sort_by_key(|(constants, sizes)| {
        let all = sizes.iter().chain(&constants[..2]).map(|&extent| i64::from(extent));
        all.product::<i64>() / i64::from(constants[6])
    });
    let ways = [DType::F64, DType::F32, DType::F16, DType::Bf16].map(|dtype| (dtype, MathMode::Ieee));
    let ways: Vec<_> = ways.into_iter().chain([(DType::F32, MathMode::Tf32)]).collect();
    let mut seen = BTreeSet::new();
    let mut chosen = Vec::new();
    let ways: Vec<_> = [Algorithm::Large, Algorithm::Auto, Algorithm::Portable]
        .iter()
        .flat_map(|&algorithm| ways.iter().map(move |&(dtype, math)| (dtype, math, algorithm)))
        .collect();
    let wanted = targets.iter().flat_map(|target| ways.iter().map(move |way| (target, way)));
    for (target, &(dtype, math, algorithm)) in wanted {
        for name in ["conv2d_forward", "conv2d_backward_dx", "conv2d_backward_dw", "conv2d_backward"] {
            for &&(constants, sizes) in &shapes {
                let case = convolution(name, constants, sizes);
                let plan = plan(&case, dtype, target, algorithm, math).expect("a case that can be planned");
                let modules: Vec<_> = plan.iter().map(|launch| module(launch.kernel().name, dtype)).collect();
                let small = plan.iter().all(|launch| launch.geometry().grid_x <= BLOCKS);
                let key = |&module| (name, math == MathMode::Tf32, module);
                if small && modules.iter().any(|module| !seen.contains(&key(module))) {
                    seen.extend(modules.iter().map(key));
                    chosen.push(Convolution { modules, target: *target, algorithm, case, dtype, math });
                }
            }
        }
    }
    chosen
}
