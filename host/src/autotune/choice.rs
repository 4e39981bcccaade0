//! Which algorithms fit a call, and which of them is fastest by a stopwatch.

use crate::error::Result;
use crate::kernel::{Algorithm, Kernel, LaunchOptions, Workspace};
use crate::launch::{Launch, Target};

/// What another algorithm's median must be below, as a part of Auto's: differences below this are noise.
const CLEARLY: f64 = 0.97;

/// Samples of each algorithm, of which the median counts.
const ROUNDS: usize = 9;

/// An algorithm that takes so many times as long as another is not worth more samples.
const HOPELESS: f64 = 4.0;

/// Microseconds that a sample is to take at least, and how often it runs the launches for that at most: events count in
/// half microseconds.
const SAMPLE_US: f64 = 400.0;
const MOST_RUNS: f64 = 16.0;

/// An algorithm that fits, with what it launches.
pub(super) type Candidate = (Algorithm, Vec<Launch>);

/// Bytes with which every algorithm has its way.
pub(super) fn most_workspace<K: Kernel>(
    kernel: &K,
    args: &K::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
) -> Result<u64> {
    Algorithm::ALL.into_iter().try_fold(0, |most, algorithm| {
        Ok(most.max(kernel.workspace_bytes(args, &options.algorithm(algorithm), target)?))
    })
}

/// Whether an algorithm fits: whether it can be planned, with what workspace it has use for where none is given.
pub(super) fn fits<K: Kernel>(
    kernel: &K,
    args: &K::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
    algorithm: Algorithm,
) -> Result<()> {
    let mut options = options.algorithm(algorithm);
    if options.workspace.is_none() {
        let bytes = kernel.workspace_bytes(args, &options, target)?;
        // Any address does: nothing is launched.
        options.workspace = (bytes > 0).then_some(Workspace { address: 256, bytes });
    }
    kernel.plan(args, &options, target).map(drop)
}

/// The algorithms that fit, Auto first, each with launches that none before it has.
pub(super) fn candidates<K: Kernel>(
    kernel: &K,
    args: &K::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
) -> Result<Vec<Candidate>> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for algorithm in Algorithm::ALL {
        let launches = match kernel.plan(args, &options.algorithm(algorithm), target) {
            Ok(launches) => launches,
            Err(error) if algorithm == Algorithm::Auto => return Err(error),
            Err(_) => continue,
        };
        let same = |(_, known): &Candidate| {
            known.len() == launches.len() && known.iter().zip(&launches).all(|(one, other)| one.is(other))
        };
        if !candidates.iter().any(same) {
            candidates.push((algorithm, launches));
        }
    }
    Ok(candidates)
}

/// The fastest candidate; none where there is nothing to compare, or Auto's time makes no sense.
pub(super) fn fastest(
    candidates: &[Candidate],
    mut sample: impl FnMut(Algorithm, &[Launch], u32) -> Result<f64>,
) -> Result<Option<Algorithm>> {
    let has_work = |(_, launches): &Candidate| launches.iter().any(|launch| launch.work() > 0);
    if candidates.len() < 2 || !candidates.iter().all(has_work) {
        return Ok(None);
    }
    let mut sample = |(algorithm, launches): &Candidate, runs: u32| -> Result<f64> {
        let us = sample(*algorithm, launches, runs)?;
        Ok(if us.is_finite() && us > 0.0 { us } else { f64::INFINITY })
    };
    let mut first = Vec::with_capacity(candidates.len());
    let mut least = f64::INFINITY;
    for candidate in candidates {
        // The first run finds caches cold and clocks low, and is no measure but for what is far slower.
        let cold = sample(candidate, 1)?;
        let us = if cold > HOPELESS * HOPELESS * least { cold } else { sample(candidate, 1)? };
        least = least.min(us);
        first.push(us);
    }
    if !first[0].is_finite() {
        return Ok(None);
    }
    // Auto stays: the others are measured against it. In rounds, what drifts meets all alike.
    let mut kept: Vec<_> = candidates
        .iter()
        .zip(first)
        .filter(|(candidate, us)| candidate.0 == Algorithm::Auto || *us <= HOPELESS * least)
        .map(|(candidate, us)| (candidate, (SAMPLE_US / us).clamp(1.0, MOST_RUNS) as u32, Vec::new()))
        .collect();
    for _ in 0..ROUNDS {
        for (candidate, runs, samples) in &mut kept {
            samples.push(sample(candidate, *runs)?);
        }
    }
    let medians = kept.iter_mut().map(|((algorithm, _), _, samples)| {
        samples.sort_by(f64::total_cmp);
        (*algorithm, samples[samples.len() / 2])
    });
    let medians: Vec<_> = medians.collect();
    let auto = medians[0].1;
    let best = medians.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1));
    log::debug!("autotune: microseconds {medians:?}");
    Ok(match best {
        _ if !auto.is_finite() => None,
        Some((algorithm, us)) if us < CLEARLY * auto => Some(algorithm),
        _ => Some(Algorithm::Auto),
    })
}
