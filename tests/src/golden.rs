//! What the suite's jobs leave in their outputs, as digests: those of a GPU, and how the machine's compare with them.
//!
//! The file has a line for each job but for its element type, then a digest for each element type of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cotangent::DType;
use cotangent::launch::Access;
use cotangent::verify::{Call, Executor, Failure, HostBuffer};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::jobs::Job;

/// An executor that keeps a digest of everything that launches leave in outputs.
pub struct Digesting<'a> {
    executor: &'a dyn Executor,
    digest: Mutex<u64>,
}

impl<'a> Digesting<'a> {
    /// Nothing has run yet.
    pub fn new(executor: &'a dyn Executor) -> Self {
        // FNV-1a, 64 bits: its offset.
        Self { executor, digest: Mutex::new(0xcbf2_9ce4_8422_2325) }
    }

    /// The digest of all outputs so far, in their order.
    #[must_use]
    pub fn digest(self) -> u32 {
        let digest = self.digest.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        (digest ^ digest >> 32) as u32
    }
}

impl Executor for Digesting<'_> {
    fn name(&self) -> String {
        self.executor.name()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        self.executor.run(call, buffers)?;
        let open = leaves_nans_open(call);
        let mut digest = self.digest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut add = |byte: &u8| {
            // FNV-1a, 64 bits: its prime.
            *digest = (*digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        };
        for buffer in buffers.iter().filter(|buffer| buffer.access != Access::Read) {
            if open && buffer.element_bytes == size_of::<f64>() {
                let doubles = buffer.bytes.as_chunks().0;
                doubles.iter().flat_map(|bytes| one_nan(*bytes)).for_each(|byte| add(&byte));
            } else {
                buffer.bytes.iter().for_each(&mut add);
            }
        }
        Ok(())
    }
}

/// Whether PTX leaves open which NaN a result is: where doubles are summed, of two NaNs one survives, and the assembler
/// may exchange an instruction's factors. Modules that copy are compiled for a width, not for a type.
fn leaves_nans_open(call: &Call<'_>) -> bool {
    call.kernel.info().modules.iter().any(|module| module.kind == "f64") && call.kernel.dtype() == DType::F64
}

/// A double with one NaN for all.
fn one_nan(bytes: [u8; 8]) -> [u8; 8] {
    if f64::from_le_bytes(bytes).is_nan() { f64::NAN.to_le_bytes() } else { bytes }
}

/// Where a GPU's digests are.
#[must_use]
pub fn file() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/ptx_corpus/golden/kernels.txt.gz"))
}

/// A job's name in two parts: what it is, and its element type.
fn parts(job: &Job) -> (&str, &str) {
    job.label.rsplit_once(", ").expect("labels end in an element type")
}

/// The text of [`file()`].
///
/// # Errors
/// It is not there, or not what [`save`] writes.
pub fn load() -> std::io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(file())?).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes such a text to a file, compressed.
///
/// # Errors
/// What the system answers.
pub fn save(path: &Path, text: &str) -> std::io::Result<()> {
    let mut encoder = GzEncoder::new(std::fs::File::create(path)?, Compression::best());
    encoder.write_all(text.as_bytes())?;
    encoder.finish().map(drop)
}

/// The text of these digests, headed by what made them.
#[must_use]
pub fn write(jobs: &[Job], digests: &[u32], device: &str) -> String {
    let mut text = format!("{device}\n");
    let mut last = None;
    for (job, digest) in jobs.iter().zip(digests) {
        let (name, dtype) = parts(job);
        let written = if last == Some(name) {
            write!(text, ", {dtype} {digest:08x}")
        } else {
            write!(text, "\n{name}\n    {dtype} {digest:08x}")
        };
        written.expect("writing to a String cannot fail");
        last = Some(name);
    }
    text.push('\n');
    text
}

/// The digests of such a file, by the jobs' labels.
#[must_use]
pub fn read(text: &str) -> BTreeMap<String, u32> {
    let mut digests = BTreeMap::new();
    let mut name = "";
    for line in text.lines().skip(1) {
        let Some(line) = line.strip_prefix("    ") else {
            name = line;
            continue;
        };
        for (dtype, digest) in line.split(", ").filter_map(|one| one.split_once(' ')) {
            if let Ok(digest) = u32::from_str_radix(digest, 16) {
                digests.insert(format!("{name}, {dtype}"), digest);
            }
        }
    }
    digests
}

/// What is wrong with digests where a GPU's are known: jobs that the GPU never ran, jobs that are gone, and other bits.
#[must_use]
pub fn compare(jobs: &[Job], digests: &[u32], golden: &BTreeMap<String, u32>) -> Vec<String> {
    let mut known = golden.clone();
    let mut wrong = Vec::new();
    for (job, &digest) in jobs.iter().zip(digests) {
        match known.remove(&job.label) {
            None => wrong.push(format!("no GPU has run: {}", job.label)),
            Some(other) if other != digest => wrong.push(format!("other bits than a GPU's: {}", job.label)),
            Some(_) => {}
        }
    }
    wrong.extend(known.into_keys().map(|label| format!("no such job any more: {label}")));
    wrong
}
