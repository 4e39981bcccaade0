//! How fast the PTX machine executes the kernels that ship, on one core with all its checks on.
//!
//! Throughput is thread instructions a second: every instruction counts once for each thread that is there.
//! No GPU takes part.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use cotangent::DType;
use cotangent::launch::{Access, Launch as Prepared, Target};
use cotangent::verify::{Call, Case, Check, Executor, Failure, HostBuffer, run};
use cotangent_tests::ptx::{Launch, Machine, Memory, Module, Options};
use criterion::{Criterion, Throughput};

/// What one launch after the other cost.
#[derive(Clone, Copy, Default)]
struct Cost {
    instructions: u64,
    time: Duration,
}

/// Launches everything so many times, and adds up what the machine alone takes.
struct Timed {
    target: Option<Target>,
    rounds: u64,
    cost: Mutex<Cost>,
}

impl Timed {
    fn launch(&self, launch: &Prepared, memory: &mut Memory) -> Result<(), Failure> {
        let text = launch.specialised_ptx()?;
        let module = Module::parse(&text).map_err(|error| Failure::Executor(error.into()))?;
        let entry = launch.entry_point_name();
        let declared = module.entry(&entry).map_or(&[][..], |entry| &entry.params);
        let params: Vec<Vec<u8>> =
            launch.params().iter().zip(declared).map(|(bytes, param)| bytes[..param.size].to_vec()).collect();
        let geometry = launch.geometry();
        let shape = Launch {
            grid: [geometry.grid_x, 1, 1],
            block: [geometry.block_x, 1, 1],
            shared_bytes: geometry.shared_bytes as usize,
            params: &params,
        };
        let options = Options { parallel: false, ..Options::default() };
        for _ in 0..self.rounds {
            let start = Instant::now();
            let stats = Machine::new(&module)
                .launch(&entry, shape, memory, &options)
                .map_err(|report| Failure::Executor(report))?;
            let time = start.elapsed();
            if let Ok(mut cost) = self.cost.lock() {
                cost.instructions += stats.thread_instructions;
                cost.time += time;
            }
        }
        Ok(())
    }
}

impl Executor for Timed {
    fn name(&self) -> String {
        "the PTX machine, timed".to_owned()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let mut memory = Memory::new();
        let mut placed = Vec::new();
        for buffer in &*buffers {
            placed.push(match buffer.access {
                Access::Read => memory.alloc_read_only(buffer.name, &buffer.bytes, 0),
                Access::Write => memory.alloc(buffer.name, buffer.bytes.len(), 0),
                Access::Accumulate => memory.alloc_with(buffer.name, &buffer.bytes, 0),
            });
        }
        let addresses: Vec<u64> = placed.iter().map(|&buffer| memory.address(buffer)).collect();
        let launches = match &self.target {
            None => vec![call.prepare(&addresses)?],
            Some(target) => call.plan(&addresses, target)?,
        };
        for launch in &launches {
            self.launch(launch, &mut memory)?;
        }
        for (&at, buffer) in placed.iter().zip(buffers) {
            if buffer.access != Access::Read {
                buffer.bytes = memory.read_all(at).map_err(|error| Failure::Executor(error.into()))?;
            }
        }
        Ok(())
    }
}

/// What `rounds` rounds of a case cost.
fn cost(case: &Case, dtype: DType, target: Option<Target>, rounds: u64) -> Result<Cost, Failure> {
    let timed = Timed { target, rounds, cost: Mutex::default() };
    run(&timed, &Check::Reference(case.clone()), dtype)?;
    Ok(timed.cost.lock().map_or_else(|poisoned| *poisoned.into_inner(), |cost| *cost))
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(2))
        .without_plots()
        .configure_from_args();
    let hopper = Target { capability: (9, 0), multiprocessors: 132 };
    let conv = Case::new("conv2d_backward_dx", &[3, 3, 1, 1, 1, 1, 1, 128], &[2, 16, 16, 16, 16, 16, 16]);
    let cat = Case::new("channel_cat_backward", &[256], &[1000, 3000, 500]).rows(16);
    let cases = [
        ("conv2d_backward_dx f32, portable", &conv, DType::F32, None),
        ("conv2d_backward_dx bf16, planned", &conv, DType::Bf16, Some(hopper)),
        ("channel_cat_backward f32", &cat, DType::F32, None),
    ];
    let mut group = criterion.benchmark_group("ptx machine, one core");
    for (name, case, dtype, target) in cases {
        let once = match cost(case, dtype, target, 1) {
            Ok(once) => once,
            Err(failure) => panic!("{name}: {failure}"),
        };
        group.throughput(Throughput::Elements(once.instructions));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| {
                let spent =
                    cost(case, dtype, target, rounds).unwrap_or_else(|failure| panic!("{name}: {failure}"));
                // A check may launch more than once; the time is that of `once` as often as asked for.
                spent.time.mul_f64(once.instructions as f64 * rounds as f64 / spent.instructions as f64)
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
