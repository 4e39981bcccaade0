//! A device under load for as long as somebody likes: every kernel over random shapes against its reference, and chains
//! of checked operations, from several threads and on several streams, while memory comes and goes.
//!
//! A case is a [drawn](crate::jobs::drawn) job, or a chain. It follows from its seed alone, so that a failure can be
//! repeated; which cases run follows from the run's seed. Each launch runs twice, on two streams, and must give the same
//! bits. The device is opened anew now and then, and all memory must then be there again.

mod chain;
mod pressure;
mod repeat;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cotangent::Algorithm;
use cotangent::verify::{Choosing, Executor, Failure, Measured, SplitMix64};
use cotangent::{Device, Stream};

use crate::executor::PtxMachine;
use crate::jobs::{self, TARGETS};
use pressure::Pressure;
pub use repeat::Fault;
use repeat::Repeating;

/// How long a device stays open: every shape has modules of its own, which stay loaded.
const ROUND: Duration = Duration::from_mins(1);

/// Failures after which there is nothing more to learn.
const ENOUGH: usize = 20;

/// How long a case may take before its seed is printed, in case that it never ends.
const SLOW: Duration = Duration::from_mins(1);

/// One case in so many is a chain of operations.
const CHAINS: u64 = 8;

/// The name of the PTX machine, which plays GPUs large and small, and finds more than a GPU does, in more time. It has no
/// tensors, and so no chains; the memory is the host's.
pub const MACHINE: &str = "machine";

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The device, as [`Device::named`] knows it, or [`MACHINE`].
    pub device: String,
    /// For how long.
    pub time: Duration,
    /// What the cases follow from.
    pub seed: u64,
    /// Cases at a time. There is a stream more than that.
    pub threads: usize,
    /// The most of a GPU's free memory that is held meanwhile, in percent (on the CPU, of 1 GiB); none for no pressure.
    pub pressure: u32,
    /// The case of this seed alone, again and again.
    pub case: Option<u64>,
    /// A fault to plant.
    pub fault: Option<Fault>,
}

/// What came of one kernel for one element type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// Cases that ran.
    pub cases: usize,
    /// Those that failed.
    pub failures: usize,
    /// The element of all results that came closest to its bound.
    pub worst: Measured,
}

/// A case that failed.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case's seed; none for what is no case.
    pub seed: Option<u64>,
    /// What it was, and what was wrong.
    pub what: String,
}

/// What came of a soak.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By kernel and element type.
    pub rows: BTreeMap<(&'static str, &'static str), Row>,
    /// What was wrong.
    pub findings: Vec<Finding>,
    /// Cases that ran out of memory, and ran again when it was there.
    pub starved: usize,
    /// The most bytes that were held.
    pub most_held: u64,
    /// Requests for too much memory that were refused as they should.
    pub refused: usize,
}

impl Report {
    /// Cases that ran.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.rows.values().map(|row| row.cases).sum()
    }

    /// Whether nothing was wrong.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Soaks a device. `each` hears of every failure when it is found.
///
/// # Errors
/// A device that cannot be opened.
pub fn run(options: &Options, each: &(dyn Fn(&Finding) + Sync)) -> Result<Report, Failure> {
    let end = Instant::now() + options.time;
    let shared = Shared {
        options,
        each,
        report: Mutex::default(),
        next: AtomicU64::new(0),
        done: AtomicBool::new(false),
    };
    let open = || Device::named(if options.device == MACHINE { "cpu" } else { &options.device });
    let mut device = open()?;
    let free = pressure::free_bytes(&device)?;
    loop {
        shared.round(&device, end.min(Instant::now() + ROUND), free)?;
        // With it goes what was loaded.
        drop(device);
        device = open()?;
        if device.is_gpu()
            && let Err(failure) = pressure::is_given_back(&device, free)
        {
            shared.found(None, format!("memory after a round: {failure}"));
        }
        if Instant::now() >= end || shared.done.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(shared.report.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Shared<'a> {
    options: &'a Options,
    each: &'a (dyn Fn(&Finding) + Sync),
    report: Mutex<Report>,
    next: AtomicU64,
    done: AtomicBool,
}

/// A case that a worker is at, and since when.
type AtWork = Mutex<Option<(u64, Instant)>>;

impl Shared<'_> {
    /// Runs cases on an open device until then.
    fn round(&self, device: &Device, until: Instant, free: u64) -> Result<(), Failure> {
        let Options { threads, pressure: percent, seed, .. } = *self.options;
        let streams = (0..=threads).map(|_| device.stream()).collect::<Result<Vec<_>, _>>()?;
        let pressure = Pressure::default();
        let slots: Vec<AtWork> = (0..threads).map(|_| Mutex::default()).collect();
        thread::scope(|scope| {
            let holder = (percent > 0).then(|| scope.spawn(|| pressure.hold(device, free, percent, seed)));
            let pressure_or_none = (percent > 0).then_some(&pressure);
            let workers: Vec<_> = slots
                .iter()
                .enumerate()
                .map(|(number, slot)| {
                    let streams = &streams;
                    scope.spawn(move || self.work(device, streams, number, until, pressure_or_none, slot))
                })
                .collect();
            let mut told = Vec::new();
            while workers.iter().any(|worker| !worker.is_finished()) {
                tell_slow(&slots, &mut told);
                if holder.as_ref().is_some_and(thread::ScopedJoinHandle::is_finished) {
                    self.done.store(true, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(20));
            }
            pressure.stop();
            match holder.map(thread::ScopedJoinHandle::join) {
                Some(Err(panic)) => {
                    self.found(None, format!("the thread that holds memory: {}", text(&*panic)));
                }
                Some(Ok(Err(failure))) => {
                    self.found(None, format!("the thread that holds memory: {failure}"));
                }
                Some(Ok(Ok(()))) | None => {}
            }
        });
        let mut report = self.report();
        report.most_held = report.most_held.max(pressure.most_held.into_inner());
        report.refused += pressure.refused.into_inner();
        Ok(())
    }

    /// One case after the other, at least one.
    fn work(
        &self,
        device: &Device,
        streams: &[Stream],
        number: usize,
        until: Instant,
        pressure: Option<&Pressure>,
        slot: &AtWork,
    ) {
        loop {
            let count = self.next.fetch_add(1, Ordering::Relaxed);
            let seed = self.options.case.unwrap_or_else(|| case_seed(self.options.seed, count));
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some((seed, Instant::now()));
            let run = || one(seed, self.options, device, streams, number);
            let mut ran = run();
            if let (Some(pressure), Err(Wrong::Failed(failure))) = (pressure, &ran.result)
                && pressure::is_out_of_memory(failure)
            {
                self.report().starved += 1;
                ran = pressure.relieved(run);
            }
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.ran(seed, ran);
            if self.done.load(Ordering::Relaxed) || Instant::now() >= until {
                return;
            }
        }
    }

    fn ran(&self, seed: u64, Ran { kernel, dtype, label, result }: Ran) {
        let mut report = self.report();
        let row = report.rows.entry((kernel, dtype)).or_default();
        row.cases += 1;
        match &result {
            Ok(measured) => row.worst = row.worst.worst(*measured),
            Err(wrong) => {
                row.failures += 1;
                if let Wrong::Failed(Failure::Wrong { error, bound, .. }) = *wrong {
                    row.worst = row.worst.worst(Measured { error, bound });
                }
            }
        }
        drop(report);
        match result {
            Ok(_) => {}
            Err(Wrong::Failed(failure)) => self.found(Some(seed), format!("{label}: {failure}")),
            Err(Wrong::Panicked(said)) => self.found(Some(seed), format!("{label}: panicked: {said}")),
        }
    }

    fn found(&self, seed: Option<u64>, what: String) {
        let finding = Finding { seed, what };
        (self.each)(&finding);
        let mut report = self.report();
        report.findings.push(finding);
        if report.findings.len() >= ENOUGH {
            self.done.store(true, Ordering::Relaxed);
        }
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The seed of a run's case of this number.
fn case_seed(seed: u64, number: u64) -> u64 {
    SplitMix64::from_text(&format!("{seed} {number}")).next_u64()
}

/// What came of a case.
struct Ran {
    kernel: &'static str,
    dtype: &'static str,
    label: String,
    result: Result<Measured, Wrong>,
}

enum Wrong {
    Failed(Failure),
    Panicked(String),
}

/// Runs the case of this seed.
fn one(seed: u64, options: &Options, device: &Device, streams: &[Stream], number: usize) -> Ran {
    static LAUNCHED: AtomicUsize = AtomicUsize::new(0);
    let first = number + LAUNCHED.fetch_add(1, Ordering::Relaxed);
    let random = &mut SplitMix64::new(seed);
    let on_machine = options.device == MACHINE;
    if random.below(CHAINS) == 0 && !on_machine {
        let pair = [first, first + 1].map(|at| &streams[at % streams.len()]);
        let mut dtype = "";
        let mut label = "operations one behind the other".to_owned();
        let result = guarded(|| {
            let (shapes, of, result) = chain::run(seed, pair);
            (dtype, label) = (of.name(), shapes);
            result.map(|()| Measured::default())
        });
        return Ran { kernel: "chain of operations", dtype, label, result };
    }
    let job = jobs::drawn(seed);
    let target = TARGETS[random.below(TARGETS.len() as u64) as usize];
    let algorithm = [Algorithm::Large, Algorithm::Auto][random.below(2) as usize];
    let machine = PtxMachine::planned(target).algorithm(algorithm);
    let choosing = Choosing::new(device, algorithm);
    let executor: &dyn Executor = if on_machine { &machine } else { &choosing };
    let repeating = Repeating::new(executor, streams, first, options.fault);
    let result = guarded(|| job.run(&repeating));
    let planned = if on_machine { format!(", planned for {target:?}") } else { String::new() };
    let label = format!("{}, {algorithm:?}{planned}", job.label);
    Ran { kernel: job.kernel, dtype: job.dtype.name(), label, result }
}

/// Runs a case, and takes a panic for a failure like others.
fn guarded(case: impl FnOnce() -> Result<Measured, Failure>) -> Result<Measured, Wrong> {
    match catch_unwind(AssertUnwindSafe(case)) {
        Ok(result) => result.map_err(Wrong::Failed),
        Err(panic) => Err(Wrong::Panicked(text(&*panic))),
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text").to_owned()
}

/// Prints the seeds of cases that take long, each once.
fn tell_slow(slots: &[AtWork], told: &mut Vec<u64>) {
    for slot in slots {
        let at_work = *slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seed, since)) = at_work
            && since.elapsed() > SLOW
            && !told.contains(&seed)
        {
            eprintln!("the case {seed:#018x} has been running for {} s", SLOW.as_secs());
            told.push(seed);
        }
    }
}
