//! One case from nothing to a time: memory, verification, bursts, the median.

use cotangent::verify::{AnyKernel, Call, encode, kernel};
use cotangent::{MathMode, Workspace};
use serde::Serialize;

use crate::case::{Buffer, Case, Kind, Math};
use crate::check::{self, FILL, POISON};
use crate::error::{Error, Result};
use crate::pattern::Pattern;
use crate::place::{Burst, Place};

/// Bytes around each buffer, so that a base can be off a boundary and a stray write is seen.
const GAP: u64 = 512;

/// A footprint of this many bytes measures latency: it does not rotate.
const LATENCY_BYTES: u64 = 64 << 10;

/// Bytes of workspace that a launch limited by arithmetic gets, whether it wants them or not.
const WORKSPACE: u64 = 64 << 20;

/// How many times the cache the inputs rotate through.
const CACHES: u64 = 4;

/// How often and how long to time. Peers read the same numbers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Protocol {
    /// Bursts that count, at most.
    pub bursts: usize,
    /// Bursts that count however long they take.
    pub least_bursts: usize,
    /// Microseconds after which no further burst is begun.
    pub budget_us: f64,
    /// Microseconds that a burst should last.
    pub burst_us: f64,
    /// Microseconds that a burst may last to have every set of buffers in it.
    pub rotation_us: f64,
    /// Launches of a burst, at most.
    pub launches: usize,
}

impl Protocol {
    /// For records.
    pub const FULL: Self = Self {
        bursts: 15,
        least_bursts: 3,
        budget_us: 60_000.0,
        burst_us: 1000.0,
        rotation_us: 5000.0,
        launches: 512,
    };

    /// For a look at where things stand.
    pub const QUICK: Self = Self { bursts: 9, budget_us: 30_000.0, ..Self::FULL };

    /// For tests.
    pub const TINY: Self = Self {
        bursts: 3,
        least_bursts: 1,
        budget_us: 1000.0,
        burst_us: 20.0,
        rotation_us: 40.0,
        launches: 4,
    };

    /// Launches of a burst, if one takes this long and there are this many sets of buffers.
    pub fn launches(&self, one_us: f64, sets: usize) -> usize {
        let within = |us: f64| (us / one_us.max(0.1)).ceil() as usize;
        within(self.burst_us).max(sets.min(within(self.rotation_us))).clamp(1, self.launches)
    }
}

/// Where a case's buffers lie in the place's block.
struct Layout {
    /// The byte of a set at which each buffer starts.
    starts: Vec<u64>,
    set_bytes: u64,
    /// The sets lie behind the workspace.
    workspace_bytes: u64,
}

impl Layout {
    fn new(case: &Case) -> Self {
        let buffers = case.problem.buffers(case.direction);
        let size = case.dtype.size() as u64;
        let mut end = 0;
        let starts = buffers
            .iter()
            .map(|buffer| {
                let start = u64::next_multiple_of(end + GAP, GAP) + case.offset as u64 * size;
                end = start + buffer.elements * size;
                start
            })
            .collect();
        let workspace_bytes = if case.kind == Kind::Compute { WORKSPACE } else { 0 };
        Self { starts, set_bytes: u64::next_multiple_of(end + GAP, GAP), workspace_bytes }
    }

    /// Where a set begins in the block.
    fn set(&self, number: usize) -> u64 {
        self.workspace_bytes + number as u64 * self.set_bytes
    }
}

/// How many sets of buffers a case rotates through, on a device with this cache.
pub fn sets(case: &Case, cache_bytes: u64, protocol: &Protocol) -> usize {
    let buffers = case.problem.buffers(case.direction);
    let footprint = buffers.iter().map(|buffer| buffer.elements).sum::<u64>() * case.dtype.size() as u64;
    if footprint <= LATENCY_BYTES {
        return 1;
    }
    ((CACHES * cache_bytes).div_ceil(footprint) as usize).clamp(1, protocol.launches)
}

/// The bytes that a case needs of a place.
pub fn needs(case: &Case, cache_bytes: u64, protocol: &Protocol) -> u64 {
    Layout::new(case).set(sets(case, cache_bytes, protocol))
}

/// A case whose buffers lie ready.
pub struct Prepared<'a> {
    place: &'a dyn Place,
    case: &'a Case,
    kernel: Box<dyn AnyKernel>,
    extents: Vec<i32>,
    scalar: Vec<u8>,
    buffers: Vec<Buffer>,
    layout: Layout,
    sets: usize,
}

impl<'a> Prepared<'a> {
    /// Lays the buffers out; the place's block must be long enough.
    ///
    /// # Errors
    /// A constant that the kernel cannot have, and [`Error::Room`].
    pub fn new(place: &'a dyn Place, case: &'a Case, protocol: &Protocol) -> Result<Self> {
        let Case { problem, direction, dtype, .. } = case;
        let buffers = problem.buffers(*direction);
        let layout = Layout::new(case);
        let sets = sets(case, place.cache_bytes(), protocol);
        let needs = layout.set(sets);
        if needs > place.reserved() {
            return Err(Error::Room { needs, room: place.reserved() });
        }
        Ok(Self {
            place,
            case,
            kernel: kernel(problem.kernel(*direction), *dtype, &problem.constants(*direction, *dtype))?,
            extents: problem.extents(*direction),
            scalar: if problem.has_value(*direction) { encode(*dtype, &[FILL]) } else { Vec::new() },
            buffers,
            layout,
            sets,
        })
    }

    /// The launch without its memory.
    fn call(&self) -> Call<'_> {
        let mut options = self.place.options();
        if let Some(rows) = self.case.problem.rows() {
            options = options.rows(rows);
        }
        if self.case.math == Math::Tf32 {
            options = options.math(MathMode::Tf32);
        }
        if self.layout.workspace_bytes > 0 && self.place.gpu().is_some() {
            let (address, bytes) = (self.place.base(), self.layout.workspace_bytes);
            options = options.workspace(Workspace { address, bytes });
        }
        Call { kernel: &*self.kernel, extents: &self.extents, scalar: &self.scalar, options }
    }

    fn addresses(&self, set: usize) -> Vec<u64> {
        let base = self.place.base() + self.layout.set(set);
        self.layout.starts.iter().map(|start| base + start).collect()
    }

    /// Enqueues one launch on a set of buffers.
    fn launch(&self, call: &Call<'_>, addresses: &[u64]) -> Result<()> {
        // SAFETY: the layout gave every buffer the elements that the problem names, inside the place's block, and
        // all work on the block is in one order.
        unsafe { call.launch(self.place.device(), addresses) }?;
        Ok(())
    }

    /// Fills the inputs, poisons the outputs, launches, compares every output and the gaps around it, and gives
    /// all sets what the first one holds.
    ///
    /// # Errors
    /// [`Error::Wrong`], and whatever the launch answers.
    pub fn verify(&self, inputs: &Pattern) -> Result<()> {
        let (place, size) = (self.place, self.case.dtype.size() as u64);
        let first = self.layout.set(0);
        let from = if place.gpu().is_some() { 0 } else { first };
        place.fill(from, first + self.layout.set_bytes - from, POISON)?;
        for (number, (buffer, start)) in self.buffers.iter().zip(&self.layout.starts).enumerate() {
            let start = first + start;
            if !buffer.output {
                self.fill_input(number, start, buffer.elements * size, inputs)?;
            }
        }
        self.launch(&self.call(), &self.addresses(0))?;
        place.synchronize()?;
        for (number, (buffer, start)) in self.buffers.iter().zip(&self.layout.starts).enumerate() {
            let start = first + start;
            if buffer.output {
                check::output(place, self.case, number, start, inputs)?;
                self.check_gap(start - GAP / 2, number)?;
                self.check_gap(start + buffer.elements * size, number)?;
            }
        }
        (1..self.sets).try_for_each(|set| place.copy(self.layout.set(set), first, self.layout.set_bytes))?;
        place.synchronize()
    }

    /// Repeats the pattern's block over an input.
    fn fill_input(&self, number: usize, start: u64, bytes: u64, inputs: &Pattern) -> Result<()> {
        let block = inputs.block(number, bytes);
        let mut have = block.len() as u64;
        self.place.upload(start, &block)?;
        while have < bytes {
            let more = have.min(bytes - have);
            self.place.copy(start + have, start, more)?;
            have += more;
        }
        Ok(())
    }

    /// Fails if the bytes beside an output were written.
    fn check_gap(&self, offset: u64, number: usize) -> Result<()> {
        let mut gap = [0; (GAP / 2) as usize];
        self.place.download(offset, &mut gap)?;
        match gap.iter().position(|&byte| byte != POISON) {
            None => Ok(()),
            Some(at) => {
                let what = format!("byte {at} of the gap beside buffer {number} was written");
                Err(Error::Wrong(what))
            }
        }
    }

    /// A burst of launches over the sets in turn.
    ///
    /// # Errors
    /// Whatever the launches answer.
    pub fn burst(&'a self, launches: usize) -> Result<Box<dyn Burst + 'a>> {
        let call = self.call();
        let sets: Vec<_> = (0..self.sets).map(|set| self.addresses(set)).collect();
        self.place.burst(launches, Box::new(move |number| self.launch(&call, &sets[number % sets.len()])))
    }

    /// A burst as long as the protocol wants it, with its launches; warmed up.
    ///
    /// # Errors
    /// Whatever the launches answer.
    pub fn sized_burst(&'a self, protocol: &Protocol) -> Result<(Box<dyn Burst + 'a>, usize)> {
        sized(protocol, self.sets, |launches| self.burst(launches))
    }

    /// Microseconds of one launch.
    ///
    /// # Errors
    /// Whatever the launches answer.
    pub fn time_us(&'a self, protocol: &Protocol) -> Result<f64> {
        let (mut burst, launches) = self.sized_burst(protocol)?;
        Ok(median_burst_us(&mut *burst, protocol)? / launches as f64)
    }
}

/// Makes a burst as long as the protocol wants it, and warms it up.
fn sized<'a>(
    protocol: &Protocol,
    sets: usize,
    make: impl Fn(usize) -> Result<Box<dyn Burst + 'a>>,
) -> Result<(Box<dyn Burst + 'a>, usize)> {
    let mut one = make(1)?;
    one.time_us()?;
    let mut launches = protocol.launches(one.time_us()?, sets);
    if launches > 8 {
        // A single launch takes longer than its share of a burst.
        let mut few = make(8)?;
        few.time_us()?;
        launches = protocol.launches(few.time_us()? / 8.0, sets);
    }
    let mut burst = make(launches)?;
    burst.time_us()?;
    Ok((burst, launches))
}

/// The median time of a burst.
fn median_burst_us(burst: &mut dyn Burst, protocol: &Protocol) -> Result<f64> {
    let (mut times, mut spent) = (Vec::with_capacity(protocol.bursts), 0.0);
    while times.len() < protocol.bursts && (times.len() < protocol.least_bursts || spent < protocol.budget_us)
    {
        let us = burst.time_us()?;
        spent += us;
        times.push(us);
    }
    Ok(median(&mut times))
}

/// Microseconds of one piece of work, in bursts as the protocol wants them.
///
/// # Errors
/// What the work returns.
pub fn time_us<'a>(
    place: &'a dyn Place,
    protocol: &Protocol,
    work: impl Fn() -> Result<()> + Copy + 'a,
) -> Result<f64> {
    let make = |launches| place.burst(launches, Box::new(move |_| work()));
    let (mut burst, launches) = sized(protocol, 1, make)?;
    Ok(median_burst_us(&mut *burst, protocol)? / launches as f64)
}

/// The median; of an even number, the mean of the two in the middle.
pub fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    match times.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => times[len / 2],
        len => f64::midpoint(times[len / 2 - 1], times[len / 2]),
    }
}

/// What was measured of a case.
pub struct Measured<'a> {
    /// The case.
    pub case: &'a Case,
    /// Microseconds of one launch, or why there are none.
    pub us: Result<f64>,
}

/// Makes the place's block long enough for every case that its memory has room for.
///
/// # Errors
/// Memory that cannot be had.
pub fn reserve(place: &mut dyn Place, cases: &[&Case], protocol: &Protocol) -> Result<()> {
    let (room, cache) = (place.room()?, place.cache_bytes());
    let fitting = cases.iter().map(|case| needs(case, cache, protocol)).filter(|&bytes| bytes <= room);
    let most = fitting.max().unwrap_or(0);
    if most > place.reserved() { place.reserve(most) } else { Ok(()) }
}

/// Verifies and times every case in turn; `progress` is told of each before it begins.
///
/// # Errors
/// Memory that cannot be had. What concerns one case alone is in its place.
pub fn all<'a>(
    place: &mut dyn Place,
    cases: &[&'a Case],
    protocol: &Protocol,
    mut progress: impl FnMut(&Case),
) -> Result<Vec<Measured<'a>>> {
    reserve(place, cases, protocol)?;
    let mut patterns: Vec<Pattern> = Vec::new();
    Ok(cases
        .iter()
        .map(|case| {
            progress(case);
            if !patterns.iter().any(|pattern| pattern.dtype() == case.dtype) {
                patterns.push(Pattern::new(case.dtype));
            }
            let pattern = patterns.iter().find(|pattern| pattern.dtype() == case.dtype);
            let inputs = pattern.expect("it was made above");
            Measured { case, us: one(&*place, case, inputs, protocol) }
        })
        .collect())
}

/// Verifies and times one case.
fn one(place: &dyn Place, case: &Case, inputs: &Pattern, protocol: &Protocol) -> Result<f64> {
    let prepared = Prepared::new(place, case, protocol)?;
    prepared.verify(inputs)?;
    prepared.time_us(protocol)
}
