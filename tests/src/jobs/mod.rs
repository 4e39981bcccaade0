//! The suite as data: everything that device code is checked with, each job by itself.
//!
//! Jobs are verification's fixed set, shapes drawn around every edge, exact sums, convolutions in TF32, and the kernels
//! beside the five operations; on the portable kernels, and on what is planned for four targets. The operations' tests
//! run them, on a GPU where there is one; the machine runs them with mistakes in the modules
//! ([`mutate`](crate::mutate)); and its results are held against a GPU's, bit for bit ([`golden`](crate::golden)).

mod around;
mod bits;
mod drawn;
mod elementwise;
mod exact;
mod scarce;
mod shapes;
mod tf32;
mod typed;

use std::collections::BTreeMap;
use std::fmt;

use cotangent::launch::Target;
use cotangent::verify::{Check, Choosing, Executor, Failure, Measured, checks, kernels, run};
use cotangent::{Algorithm, DType, Device, MathMode};
use rayon::prelude::*;

use crate::executor::{Blocks, ModuleName, Place, PtxMachine, is_tuned, names, plan};
use crate::golden::Digesting;
use crate::ptx::Options;

pub use bits::{Convolution, convolutions};
pub use drawn::{callable, drawn};

/// Something that device code computes, with its right answer.
pub struct Job {
    /// The kernel that is called.
    pub kernel: &'static str,
    /// Its element type.
    pub dtype: DType,
    /// What it is, different for every job.
    pub label: String,
    /// The modules that it executes.
    pub modules: Vec<ModuleName>,
    /// What its launches are planned for; none for the portable kernel.
    pub target: Option<Target>,
    /// The choice of kernels for a convolution.
    pub algorithm: Algorithm,
    /// How many blocks it launches.
    pub blocks: Blocks,
    work: Work,
}

type Body = Box<dyn Fn(&dyn Executor) -> Result<Measured, Failure> + Send + Sync>;

enum Work {
    Check(Box<Check>, DType),
    Body(Body),
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl Job {
    /// A machine for this job, fresh.
    #[must_use]
    pub fn machine(&self) -> PtxMachine {
        let machine = self.target.map_or_else(PtxMachine::new, PtxMachine::planned);
        machine.algorithm(self.algorithm).blocks(self.blocks)
    }

    /// Runs the job, and returns the element of its results that came closest to its bound. Launches are those of its
    /// target on [`machine`](Self::machine), and those of its own on a device.
    ///
    /// # Errors
    /// What is wrong.
    pub fn run(&self, executor: &dyn Executor) -> Result<Measured, Failure> {
        match &self.work {
            Work::Check(check, dtype) => run(executor, check, *dtype),
            Work::Body(body) => body(executor),
        }
    }

    fn is_literal(&self) -> bool {
        matches!(&self.work, Work::Check(check, _) if matches!(**check, Check::Literal(_)))
    }
}

/// A large and a small GPU with tensor cores, and without.
pub(crate) const TARGETS: [Target; 4] = [
    Target { capability: (9, 0), multiprocessors: 132 },
    Target { capability: (9, 0), multiprocessors: 1 },
    Target { capability: (7, 0), multiprocessors: 80 },
    Target { capability: (7, 0), multiprocessors: 1 },
];

/// What plans are for: the kernels for large problems, [`LARGE`] times, then those that suit a problem's size.
const CHOICES: [(Target, Algorithm); 5] = [
    (TARGETS[0], Algorithm::Large),
    (TARGETS[1], Algorithm::Large),
    (TARGETS[2], Algorithm::Large),
    (TARGETS[3], Algorithm::Large),
    (TARGETS[0], Algorithm::Auto),
];

/// See [`CHOICES`].
const LARGE: usize = 4;

/// Every job for the machine, in an order that stays.
#[must_use]
pub fn all() -> Vec<Job> {
    let mut jobs: Vec<_> =
        kernels().into_iter().flat_map(|kernel| checked(kernel, &one_a_module(kernel))).collect();
    jobs.extend(tf32::jobs(&TARGETS[0], &TARGETS[1]));
    jobs.extend(exact::jobs());
    jobs.extend(scarce::jobs(&TARGETS[1]));
    jobs.extend(elementwise::jobs());
    jobs
}

/// An element type for each module of a kernel.
fn one_a_module(kernel: &str) -> Vec<DType> {
    Place::Portable(PtxMachine::new()).dtypes(kernel)
}

/// What the machine found in a job.
#[derive(Clone, Debug)]
pub struct Swept {
    /// The modules that it executed, with the most thread instructions of one launch of each.
    pub executed: BTreeMap<ModuleName, u64>,
    /// The digest of its outputs.
    pub digest: u32,
}

/// Runs every job on the machine.
///
/// # Panics
/// If a job fails.
#[must_use]
pub fn sweep(jobs: &[Job]) -> Vec<Swept> {
    let one = |job: &Job| {
        let machine = job.machine().options(Options { parallel: false, ..Options::default() });
        let digesting = Digesting::new(&machine);
        if let Err(failure) = job.run(&digesting) {
            panic!("{}: {failure}", job.label);
        }
        let digest = digesting.digest();
        Swept { executed: machine.executed(), digest }
    };
    jobs.par_iter().map(one).collect()
}

/// The jobs of a kernel that verification has cases of, for these element types.
fn checked(kernel: &'static str, dtypes: &[DType]) -> Vec<Job> {
    let mut jobs = Vec::new();
    let fixed = checks(kernel).expect("a known kernel").into_iter();
    let fixed = fixed.filter(|check| !matches!(check, Check::Adjoint(_)));
    let drawn = shapes::drawn(kernel).into_iter().map(Check::Reference);
    for check in fixed.chain(drawn) {
        for &dtype in dtypes {
            jobs.push(check_job(&check, dtype, None, &[kernel], Blocks::Planned));
            planned(&check, dtype, &CHOICES, &mut jobs);
        }
    }
    for check in shapes::tiled(kernel).into_iter().map(Check::Reference) {
        for &dtype in dtypes {
            planned(&check, dtype, &CHOICES[..LARGE], &mut jobs);
        }
    }
    jobs
}

/// A check wherever the plan has other kernels than the portable one, and other kernels or grids than at the targets
/// before; some of those with other grids too, since any grid is right.
fn planned(check: &Check, dtype: DType, choices: &[(Target, Algorithm)], jobs: &mut Vec<Job>) {
    let case = check.case();
    let mut before = Vec::new();
    for &(target, algorithm) in choices {
        let plan = plan(case, dtype, &target, algorithm, MathMode::default()).unwrap_or_default();
        let names = names(&plan);
        let launches = plan.iter().map(|launch| (launch.kernel().name, launch.geometry().grid_x));
        let launches: Vec<_> = launches.collect();
        if is_tuned(case, &plan) && !before.contains(&launches) {
            jobs.push(check_job(check, dtype, Some((target, algorithm)), &names, Blocks::Planned));
            if plan.iter().any(|launch| launch.geometry().grid_x > 1) && case.offsets.is_empty() {
                jobs.push(check_job(check, dtype, Some((target, algorithm)), &names, Blocks::One));
                if algorithm == Algorithm::Large {
                    jobs.push(check_job(check, dtype, Some((target, algorithm)), &names, Blocks::OneMore));
                }
            }
            before.push(launches);
        }
    }
}

fn check_job(
    check: &Check,
    dtype: DType,
    planned: Option<(Target, Algorithm)>,
    names: &[&'static str],
    blocks: Blocks,
) -> Job {
    let (target, algorithm) =
        planned.map_or((None, Algorithm::Auto), |(target, choice)| (Some(target), choice));
    let planned = target.map_or_else(String::new, planned_for);
    let choice = if target.is_some() && algorithm == Algorithm::Auto { ", small" } else { "" };
    let grid = match blocks {
        Blocks::Planned => "",
        Blocks::One => ", one block a launch",
        Blocks::OneMore => ", one block more a launch",
    };
    Job {
        kernel: check.case().kernel,
        dtype,
        label: format!("{check}{planned}{choice}{grid}, {dtype}"),
        modules: names.iter().map(|name| module(name, dtype)).collect(),
        target,
        algorithm,
        blocks,
        work: Work::Check(Box::new(check.clone()), dtype),
    }
}

/// A target, for labels.
fn planned_for(target: Target) -> String {
    let Target { capability: (major, minor), multiprocessors } = target;
    format!(", planned for {major}.{minor} with {multiprocessors} multiprocessors")
}

/// The module of a kernel for an element type.
fn module(kernel: &str, dtype: DType) -> ModuleName {
    let info = cotangent::kernels::find(kernel).expect("a kernel that ships");
    (info.name, dtype.kind(info.family))
}

/// Runs jobs of a kernel, on the first GPU with what is planned for it and for every element type, or on the machine
/// where there is none, with what is planned for a large GPU. Which it is goes to the test's output.
///
/// # Panics
/// If a job fails, and if there is none.
fn run_on_device(kernel: &str, wanted: fn(&Job) -> bool) {
    let device = Device::cuda(0);
    match &device {
        Ok(device) => println!("on {device}"),
        Err(error) => println!("on the PTX machine: {error}"),
    }
    let mut jobs = elementwise::jobs();
    if let Some(kernel) = kernels().into_iter().find(|&name| name == kernel) {
        let dtypes = if device.is_ok() { DType::ALL.to_vec() } else { one_a_module(kernel) };
        jobs = checked(kernel, &dtypes);
        jobs.extend(tf32::jobs(&TARGETS[0], &TARGETS[1]));
        jobs.extend(exact::jobs());
    }
    // A GPU plans for itself; on the machine, [`sweep`] runs what is planned for other targets, and other grids.
    let own = |job: &Job| job.target.is_none_or(|target| target == TARGETS[0]);
    jobs.retain(|job| job.blocks == Blocks::Planned && own(job));
    jobs.retain(|job| job.kernel == kernel && wanted(job));
    assert!(!jobs.is_empty(), "{kernel} has no such job");
    let run = |job: &Job| {
        let result = match &device {
            Ok(device) => job.run(&Choosing::new(device, job.algorithm)),
            Err(_) => job.run(&job.machine()),
        };
        result.unwrap_or_else(|failure| panic!("{}: {failure}", job.label));
    };
    if device.is_ok() { jobs.iter().for_each(run) } else { jobs.par_iter().for_each(run) }
}

/// Device code against the CPU reference, over verification's fixed set of awkward shapes, and around every edge.
pub fn matches_reference(kernel: &str) {
    run_on_device(kernel, |job| !job.is_literal());
}

/// Device code against verification's worked literals.
pub fn equals_literals(kernel: &str) {
    run_on_device(kernel, Job::is_literal);
}
