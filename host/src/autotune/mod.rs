//! Which algorithm of a convolution is fastest on a device: measured on request, kept, and looked up.
//!
//! An answer belongs to one text, which has all that the measurement depends on: the GPU's model and its driver's
//! version, this crate's version, the kernel with its element type and constants, the math mode, the extents, how the
//! buffers lie, and the workspace. What differs in any of it has a text of its own, and so no answer is ever used for
//! another problem. An answer is a preference all the same: it counts where the algorithm fits, by the checks that an
//! [`Algorithm`] that is asked for has.

mod choice;
mod file;
mod text;
#[cfg(feature = "cuda")]
mod tuned;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxBuildHasher;

use crate::error::Result;
use crate::kernel::{Algorithm, Kernel, LaunchOptions, Workspace};
use crate::launch::{Launch, Target};

#[doc(hidden)]
pub use file::sealed;
#[doc(hidden)]
pub use text::of as text_of;
#[cfg(feature = "cuda")]
pub(crate) use tuned::Tuned;

/// A model of GPU, with its driver: what measurements are kept for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuModel {
    /// The device's name.
    pub name: String,
    /// Its capability and multiprocessors.
    pub target: Target,
    /// The CUDA version of the driver, major and minor.
    pub driver: (u32, u32),
}

/// Measured choices of algorithms; clones share them, and any thread may use one.
///
/// Nothing is measured unless [`Device::tune`](crate::Device::tune) or a `_tune` operation is called, and nothing is
/// looked up but by the device that [`Device::autotune`](crate::Device::autotune) returned, for launches with
/// [`Algorithm::Auto`]. Answers change how long a convolution takes. Algorithms differ in the last bits of sums, and so
/// a launch has the bits of the algorithm that was measured fastest: the same for as long as the answers stay, and
/// possibly others after another measurement. Whoever needs the same bits everywhere leaves this out.
///
/// **The file** has a line for each answer, as text with a checksum. It may be copied between machines, cut, merged
/// or deleted at any time. A line that is damaged, or belongs to another device, driver or version, is ignored, and the
/// log warns of it. Any number of threads and processes may use one file: each adds whole lines at its end, and sees
/// those that were there when it opened the file.
#[derive(Clone)]
pub struct Autotune(Arc<Shared>);

struct Shared {
    /// Where new answers are added.
    path: Option<PathBuf>,
    answers: RwLock<HashMap<String, Algorithm, FxBuildHasher>>,
    /// How often an answer was added.
    generation: AtomicU64,
}

impl Autotune {
    /// No answers, and none are kept beyond the last clone's life.
    pub fn in_memory() -> Self {
        Self::with(None, HashMap::default())
    }

    /// The answers of a file, which need not be there yet, and to which new ones are added.
    ///
    /// This never fails: a file that cannot be read is as one without answers, and the log warns of it. One that is
    /// something else, or larger than 16 MiB, is left as it is.
    pub fn open(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let (answers, ours) = file::read(path);
        Self::with(ours.then(|| path.to_owned()), answers)
    }

    /// The answers of a file's bytes, without the file.
    #[doc(hidden)]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::with(None, file::parse(bytes).answers)
    }

    fn with(path: Option<PathBuf>, answers: HashMap<String, Algorithm, FxBuildHasher>) -> Self {
        let (answers, generation) = (RwLock::new(answers), AtomicU64::new(0));
        Self(Arc::new(Shared { path, answers, generation }))
    }

    /// How many answers there are, those for other devices and versions included.
    pub fn len(&self) -> usize {
        self.0.answers.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The algorithm for a launch on this model of GPU: that of the options unless it is [`Auto`](Algorithm::Auto), and
    /// then the answer, if there is one that fits. Without a workspace in the options, the device is taken to give
    /// what each algorithm has use for.
    ///
    /// # Errors
    /// As [`Kernel::prepare`].
    pub fn answer<K: Kernel>(
        &self,
        model: &GpuModel,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<Algorithm> {
        let Some(text) = text::of(model, kernel, args, options)? else { return Ok(options.algorithm) };
        Ok(self.fitting(&text, model, kernel, args, options).unwrap_or(Algorithm::Auto))
    }

    /// The answer for a text, if there is one and it fits.
    fn fitting<K: Kernel>(
        &self,
        text: &str,
        model: &GpuModel,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Option<Algorithm> {
        let answers = self.0.answers.read().unwrap_or_else(PoisonError::into_inner);
        let algorithm = answers.get(text).copied()?;
        drop(answers);
        match choice::fits(kernel, args, options, &model.target, algorithm) {
            Ok(()) => Some(algorithm),
            Err(error) => {
                log::warn!("autotune: an answer is ignored, for it does not fit: {error}");
                None
            }
        }
    }

    /// The answer, or what is the fastest by `sample`, which is then kept.
    ///
    /// `sample` carries out launches so many times, and says how many microseconds one time took. `workspace` gives
    /// memory of so many bytes, and is asked once at most, where the options have none. Every algorithm that fits is
    /// sampled: once to warm up, once to learn how long it takes, and then, unless it is several times slower than
    /// another, in rounds with the others. The lowest median wins if it is at least 3 % below that of
    /// [`Auto`](Algorithm::Auto), which is the answer otherwise. Options choose neither algorithm nor accumulation here:
    /// samples overwrite.
    ///
    /// # Errors
    /// As [`Kernel::prepare`], and those of `workspace` and `sample`, after which nothing is kept.
    pub fn tune_with<K: Kernel>(
        &self,
        model: &GpuModel,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
        workspace: impl FnOnce(u64) -> Result<Workspace>,
        sample: impl FnMut(Algorithm, &[Launch], u32) -> Result<f64>,
    ) -> Result<Algorithm> {
        let mut options = options.algorithm(Algorithm::Auto).accumulate(false);
        let Some(text) = text::of(model, kernel, args, &options)? else { return Ok(Algorithm::Auto) };
        if let Some(known) = self.fitting(&text, model, kernel, args, &options) {
            return Ok(known);
        }
        if options.workspace.is_none() {
            let bytes = choice::most_workspace(kernel, args, &options, &model.target)?;
            options.workspace = (bytes > 0).then(|| workspace(bytes)).transpose()?;
        }
        let candidates = choice::candidates(kernel, args, &options, &model.target)?;
        let Some(fastest) = choice::fastest(&candidates, sample)? else { return Ok(Algorithm::Auto) };
        self.keep(text, fastest);
        Ok(fastest)
    }

    fn keep(&self, text: String, algorithm: Algorithm) {
        if let Some(path) = &self.0.path {
            file::append(path, &text, algorithm);
        }
        self.0.answers.write().unwrap_or_else(PoisonError::into_inner).insert(text, algorithm);
        self.0.generation.fetch_add(1, Ordering::Release);
    }
}

impl fmt::Debug for Autotune {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Autotune").field("path", &self.0.path).field("answers", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests;
