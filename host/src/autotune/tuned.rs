//! What a device knows of its answers, so that most launches need no text.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLock};

use rustc_hash::FxBuildHasher;

use super::{Autotune, GpuModel, choice, text};
use crate::error::Result;
use crate::kernel::{Algorithm, Kernel, LaunchOptions, Workspace};
use crate::launch::{Launch, PlanKey};

/// How many calls a device remembers the answers of.
const MOST_CALLS: usize = 1024;

/// A device's answers: those of calls that were looked up before need no text to be made.
pub(crate) struct Tuned {
    autotune: Autotune,
    model: GpuModel,
    known: RwLock<Known>,
}

/// What was found for calls.
type Calls<T> = HashMap<PlanKey, T, FxBuildHasher>;

#[derive(Default)]
struct Known {
    generation: u64,
    calls: Calls<Algorithm>,
    workspaces: Calls<u64>,
}

impl Tuned {
    pub(crate) fn new(autotune: &Autotune, model: GpuModel) -> Self {
        let own = text::of_model(&model);
        let answers = autotune.0.answers.read().unwrap_or_else(PoisonError::into_inner);
        let foreign = answers.keys().filter(|text| !text.starts_with(&own)).count();
        drop(answers);
        if foreign > 0 {
            let name = &model.name;
            log::warn!("autotune: {foreign} answers are of other devices or drivers, and not used on {name}");
        }
        Self { autotune: autotune.clone(), model, known: RwLock::default() }
    }

    /// [`Autotune::tune_with`] for this device.
    pub(crate) fn tune<K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
        workspace: impl FnOnce(u64) -> Result<Workspace>,
        sample: impl FnMut(Algorithm, &[Launch], u32) -> Result<f64>,
    ) -> Result<Algorithm> {
        self.autotune.tune_with(&self.model, kernel, args, options, workspace, sample)
    }

    /// Bytes with which every algorithm that fits can be taken.
    pub(crate) fn most_workspace<K: Kernel>(&self, kernel: &K, args: &K::Args<'_>) -> Result<u64> {
        let options = LaunchOptions::new();
        let call = kernel.plan_key(args, &options)?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = call.as_ref().and_then(|(key, _)| known.workspaces.get(key).copied());
        drop(known);
        if let Some(bytes) = found {
            return Ok(bytes);
        }
        let bytes = choice::most_workspace(kernel, args, &options, &self.model.target)?;
        if let Some((key, _)) = call {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            remember(&mut known.workspaces, key, bytes);
        }
        Ok(bytes)
    }

    /// The options with the answer for their algorithm. What is wrong with a call is left to its launch to find.
    pub(crate) fn resolve<'a, K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'a>,
    ) -> LaunchOptions<'a> {
        if options.algorithm != Algorithm::Auto {
            return *options;
        }
        let Ok(Some((key, _))) = kernel.plan_key(args, options) else { return *options };
        let generation = self.autotune.0.generation.load(Ordering::Acquire);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.calls.get(&key).copied().filter(|_| known.generation == generation);
        drop(known);
        if let Some(algorithm) = found {
            return options.algorithm(algorithm);
        }
        let Ok(algorithm) = self.autotune.answer(&self.model, kernel, args, options) else { return *options };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.generation != generation {
            known.generation = generation;
            known.calls.clear();
        }
        remember(&mut known.calls, key, algorithm);
        options.algorithm(algorithm)
    }
}

/// Keeps what was found for a call, and forgets all others where they are too many.
fn remember<T>(calls: &mut Calls<T>, key: PlanKey, found: T) {
    if calls.len() >= MOST_CALLS {
        calls.clear();
    }
    calls.insert(key, found);
}
