//! What the criterion benches share: which device, verification, timing by events, and a table at the end.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};

use crate::case::{Case, Size};
use crate::ceiling::Ceiling;
use crate::error::Result;
use crate::measure::{self, Measured, Prepared, Protocol, median};
use crate::ops::Cases;
use crate::pattern::Pattern;
use crate::place::{Choice, Cpu, Gpu, Place};
use crate::report::cases_table;

/// The environment variable that names the device: `auto`, `cpu`, `cuda` or `cuda:N`.
pub const DEVICE: &str = "COTANGENT_DEVICE";

/// Whether benches are run as tests: each once, on shapes of a few elements.
pub fn is_test() -> bool {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    !has("--bench") || has("--test")
}

/// The device of the benches.
pub struct Target {
    gpu: Option<Gpu>,
    /// Why there is no GPU.
    reason: String,
}

impl Target {
    /// The GPU that the environment names, or the first one. One that was asked for and is not there is an error.
    fn find() -> Result<Self> {
        let choice = match std::env::var(DEVICE) {
            Ok(name) => name.parse()?,
            Err(_) => Choice::Auto,
        };
        let without = |reason| Self { gpu: None, reason };
        let with = |gpu| Self { gpu: Some(gpu), reason: String::new() };
        match choice {
            Choice::Auto => Ok(Gpu::open(0).map_or_else(|error| without(error.to_string()), with)),
            Choice::Cpu => Ok(without(format!("{DEVICE} is cpu"))),
            Choice::Gpu(ordinal) => Gpu::open(ordinal).map(with),
        }
    }
}

/// Runs a bench's body on the device that the environment names. Without a GPU, or asked for one that is not
/// there, it says so, which is no failure.
pub fn run(body: impl FnOnce(&mut Criterion, &mut Target) -> Result<()>) -> ExitCode {
    env_logger::init();
    let mut target = match Target::find() {
        Ok(target) => target,
        Err(error) => {
            println!("{error}; nothing was measured");
            return ExitCode::SUCCESS;
        }
    };
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .without_plots()
        .configure_from_args();
    let result = body(&mut criterion, &mut target);
    criterion.final_summary();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a part that needs a GPU, or says that there is none.
///
/// # Errors
/// What the part returns.
pub fn on_gpu(target: &Target, name: &str, part: impl FnOnce(&Gpu) -> Result<()>) -> Result<()> {
    if let Some(gpu) = &target.gpu {
        return part(gpu);
    }
    println!("{name}: no device, so the GPU is left out ({})", target.reason);
    Ok(())
}

/// Benches an operation: its CPU references on small shapes, and its kernels on all of them.
///
/// # Errors
/// A result that is wrong, and what the driver answers.
pub fn op(criterion: &mut Criterion, target: &mut Target, cases: Cases) -> Result<()> {
    let (small, full, protocol) = if is_test() {
        (Size::Tiny, Size::Tiny, Protocol::TINY)
    } else {
        (Size::Small, Size::Full, Protocol::FULL)
    };
    let on_cpu: Vec<_> = cases(small).into_iter().filter(|case| case.quick).collect();
    let name = on_cpu.first().map_or("", |case| case.problem.op());
    let mut cpu = Cpu::default();
    let results = group(&mut criterion.benchmark_group(format!("{name}/cpu")), &mut cpu, &on_cpu, &protocol)?;
    print(&results, None);
    let Some(gpu) = &mut target.gpu else { return on_gpu(target, name, |_| Ok(())) };
    let on_gpu = cases(full);
    let ceiling = Ceiling::measure(gpu, &protocol)?;
    let results = group(&mut criterion.benchmark_group(format!("{name}/gpu")), gpu, &on_gpu, &protocol)?;
    print(&results, Some(ceiling.copy_gbps()));
    Ok(())
}

/// Prints the table, where anything was timed.
fn print(results: &[Measured<'_>], copy_gbps: Option<f64>) {
    if !is_test() && !results.is_empty() {
        println!("{}", cases_table(results, copy_gbps));
    }
}

/// Verifies each case, then lets criterion time it.
fn group<'a>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    place: &mut dyn Place,
    cases: &'a [Case],
    protocol: &Protocol,
) -> Result<Vec<Measured<'a>>> {
    let mut seen = HashSet::new();
    let cases: Vec<_> = cases.iter().filter(|case| seen.insert(case.to_string())).collect();
    measure::reserve(place, &cases, protocol)?;
    let mut inputs: Option<Pattern> = None;
    let mut results = Vec::new();
    for case in cases {
        let prepared = match Prepared::new(&*place, case, protocol) {
            Ok(prepared) => prepared,
            Err(error @ crate::Error::Room { .. }) => {
                println!("{}", error.of(case));
                continue;
            }
            Err(error) => return Err(error.of(case)),
        };
        let known = inputs.take().filter(|pattern| pattern.dtype() == case.dtype);
        let pattern = inputs.insert(known.unwrap_or_else(|| Pattern::new(case.dtype)));
        prepared.verify(pattern).map_err(|error| error.of(case))?;
        let (mut burst, launches) = prepared.sized_burst(protocol).map_err(|error| error.of(case))?;
        let mut times = Vec::new();
        let id = format!("{} {} {}", case.direction.name(), case.precision(), case.shape());
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|wanted| {
                let bursts = wanted.div_ceil(launches as u64);
                let total: Result<f64> = (0..bursts).map(|_| burst.time_us()).sum();
                let total = total.unwrap_or_else(|error| panic!("{case}, while it was timed: {error}"));
                let one_us = total / (bursts * launches as u64) as f64;
                times.push(one_us);
                Duration::from_secs_f64(one_us * wanted as f64 / 1e6)
            });
        });
        if !times.is_empty() {
            results.push(Measured { case, us: Ok(median(&mut times)) });
        }
    }
    Ok(results)
}
