//! Assembles every module with ptxas and keeps what each needs in a committed table, so that a regression
//! shows up in its diff.
//!
//! The table belongs to one version of ptxas, [`PTXAS_VERSION`]; holes are filled with the canonical values of
//! the manifest.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;

use crate::generate;
use crate::holes;
use crate::manifest::{KernelRecord, Manifest};

/// The table's name in the folder of generated kernels.
pub const FILE: &str = "resources.tsv";

/// The ptxas that the table is made with: the newest that still takes `sm_70`.
pub const PTXAS_VERSION: &str = "12.9.86";

/// Real architectures that every portable module is assembled for, besides its own floor.
const ARCHITECTURES: [&str; 4] = ["sm_80", "sm_90", "sm_100", "sm_120"];

/// Registers are handed out to a thread in units of this many; a growth inside a unit costs nothing.
const REGISTER_UNIT: u32 = 8;

const COLUMNS: &str = "kernel\tkind\tarch\tregisters\tshared\tspill_stores\tspill_loads\tstack";

/// What one module needs on one architecture; memory in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kernel.
    pub kernel: String,
    /// The element kind.
    pub kind: String,
    /// The architecture it was assembled for.
    pub arch: String,
    /// What ptxas counted.
    pub usage: Usage,
}

/// What ptxas says of one entry; memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Registers a thread.
    pub registers: u32,
    /// Static shared memory a block.
    pub shared: u32,
    /// Spill stores a thread.
    pub spill_stores: u32,
    /// Spill loads a thread.
    pub spill_loads: u32,
    /// Stack frame a thread.
    pub stack: u32,
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// ptxas did not start.
    #[error("{} did not start: {error}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The table is for another ptxas.
    #[error("the table is made with ptxas {PTXAS_VERSION}; this one is {0}")]
    Version(String),
    /// ptxas refused modules.
    #[error("ptxas refuses {} modules:\n{}", .0.len(), .0.join("\n"))]
    Refused(Vec<String>),
    /// Modules that spill registers.
    #[error("{} modules spill registers:\n{}", .0.len(), .0.join("\n"))]
    Spills(Vec<String>),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A line of the table is malformed.
    #[error("{FILE}, line {line}: `{text}`")]
    Table {
        /// The line, from 1.
        line: usize,
        /// Its text.
        text: String,
    },
}

/// The architectures for a module compiled for `target`: its own, and the later ones if it is portable.
/// An architecture-specific target (`sm_90a`) runs nowhere else.
#[must_use]
pub fn architectures(target: &str) -> Vec<&str> {
    let number = |arch: &str| arch.strip_prefix("sm_").and_then(|n| n.parse::<u32>().ok());
    let mut all = vec![target];
    if let Some(floor) = number(target) {
        all.extend(ARCHITECTURES.iter().filter(|arch| number(arch) > Some(floor)));
    }
    all
}

/// The version that a ptxas says it is, such as `12.9.86`.
///
/// # Errors
/// It does not start.
pub fn ptxas_version(ptxas: &Path) -> Result<String, ResourceError> {
    let start = |error| ResourceError::Start { program: ptxas.to_owned(), error };
    let output = Command::new(ptxas).arg("--version").output().map_err(start)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split(|c: char| c == ',' || c.is_whitespace()).find_map(|word| word.strip_prefix('V'));
    Ok(version.unwrap_or("of no known version").to_owned())
}

/// Assembles every module of a build, given as file texts by name, for each of its architectures (or those of
/// them that `only` names); rows are sorted by kernel, the family's order of kinds, and architecture.
///
/// # Errors
/// ptxas refuses a module, or a module spills.
pub fn measure(
    ptxas: &Path,
    manifest: &Manifest,
    only: &[String],
    read: impl Fn(&str) -> std::io::Result<String>,
) -> Result<Vec<Row>, ResourceError> {
    let dir =
        tempfile::tempdir().map_err(|error| ResourceError::File { path: std::env::temp_dir(), error })?;
    let mut jobs: Vec<(&KernelRecord, &str, &str, PathBuf)> = Vec::new();
    for kernel in &manifest.kernels {
        for module in &kernel.modules {
            let name = format!("{}/{}.ptx", kernel.name, module.kind);
            let file = |path: &Path| {
                let path = path.to_owned();
                move |error| ResourceError::File { path, error }
            };
            let filled = holes::fill(&read(&name).map_err(file(Path::new(&name)))?, &kernel.canonical);
            let path = dir.path().join(name.replace('/', "."));
            fs::write(&path, filled).map_err(file(&path))?;
            let wanted = architectures(&kernel.target).into_iter();
            let wanted = wanted.filter(|arch| only.is_empty() || only.iter().any(|o| o == arch));
            jobs.extend(wanted.map(|arch| (kernel, module.kind.as_str(), arch, path.clone())));
        }
    }
    let results: Vec<Result<Row, String>> = jobs
        .par_iter()
        .map(|(kernel, kind, arch, path)| {
            let usage =
                assemble(ptxas, arch, path).map_err(|e| format!("{}/{kind} for {arch}: {e}", kernel.name))?;
            Ok(Row { kernel: kernel.name.clone(), kind: (*kind).to_owned(), arch: (*arch).to_owned(), usage })
        })
        .collect();
    let refused: Vec<String> = results.iter().filter_map(|r| r.as_ref().err().cloned()).collect();
    if !refused.is_empty() {
        return Err(ResourceError::Refused(refused));
    }
    let rows: Vec<Row> = results.into_iter().flatten().collect();
    let spills: Vec<String> = rows
        .iter()
        .filter(|row| row.usage.spill_stores + row.usage.spill_loads > 0)
        .map(|row| format!("{}/{} for {}: {:?}", row.kernel, row.kind, row.arch, row.usage))
        .collect();
    if spills.is_empty() { Ok(rows) } else { Err(ResourceError::Spills(spills)) }
}

/// One run of ptxas; the error is its messages.
fn assemble(ptxas: &Path, arch: &str, module: &Path) -> Result<Usage, String> {
    let output = Command::new(ptxas)
        .args(["-v", "-arch", arch, "-o"])
        .arg(module.with_extension(format!("{arch}.cubin")))
        .arg(module)
        .output()
        .map_err(|error| error.to_string())?;
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(text.trim().to_owned());
    }
    usage(&text).ok_or_else(|| format!("no register count in `{}`", text.trim()))
}

/// Reads what `ptxas -v` prints for a module with one entry.
#[must_use]
pub fn usage(text: &str) -> Option<Usage> {
    // The number in front of one of these words: "Used 31 registers, 2048 bytes smem".
    let before = |phrase: &str| {
        let at = text.find(phrase)?;
        text[..at].split_whitespace().next_back()?.parse::<u32>().ok()
    };
    Some(Usage {
        registers: before(" registers")?,
        shared: before(" bytes smem").unwrap_or(0),
        spill_stores: before(" bytes spill stores")?,
        spill_loads: before(" bytes spill loads")?,
        stack: before(" bytes stack frame")?,
    })
}

/// The table's text.
#[must_use]
pub fn to_table(rows: &[Row]) -> String {
    let mut out = format!("# {} ptxas {PTXAS_VERSION}; memory in bytes.\n{COLUMNS}\n", generate::NOTE);
    for Row { kernel, kind, arch, usage: u } in rows {
        let _ = writeln!(
            out,
            "{kernel}\t{kind}\t{arch}\t{}\t{}\t{}\t{}\t{}",
            u.registers, u.shared, u.spill_stores, u.spill_loads, u.stack
        );
    }
    out
}

/// Reads a table back.
///
/// # Errors
/// A malformed line.
pub fn from_table(text: &str) -> Result<Vec<Row>, ResourceError> {
    let mut rows = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.starts_with('#') || line == COLUMNS {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let numbers: Vec<u32> = fields.iter().skip(3).filter_map(|f| f.parse().ok()).collect();
        let (&[kernel, kind, arch, ..], &[registers, shared, spill_stores, spill_loads, stack], 8) =
            (fields.as_slice(), numbers.as_slice(), fields.len())
        else {
            return Err(ResourceError::Table { line: i + 1, text: line.to_owned() });
        };
        let usage = Usage { registers, shared, spill_stores, spill_loads, stack };
        rows.push(Row { kernel: kernel.to_owned(), kind: kind.to_owned(), arch: arch.to_owned(), usage });
    }
    Ok(rows)
}

/// Compares measured rows with those of the committed table for the same architectures; a line a difference.
/// With `same_compiler` false, registers may differ as long as they need no more allocation units.
#[must_use]
pub fn compare(committed: &[Row], measured: &[Row], same_compiler: bool) -> Vec<String> {
    let key = |row: &Row| (row.kernel.clone(), row.kind.clone(), row.arch.clone());
    let mut differences = Vec::new();
    for new in measured {
        let name = format!("{}/{} for {}", new.kernel, new.kind, new.arch);
        let Some(old) = committed.iter().find(|old| key(old) == key(new)) else {
            differences.push(format!("{name}: not in {FILE}"));
            continue;
        };
        let mut expected = old.usage;
        let units = |registers: u32| registers.div_ceil(REGISTER_UNIT);
        if !same_compiler && units(new.usage.registers) <= units(old.usage.registers) {
            expected.registers = new.usage.registers;
        }
        if expected != new.usage {
            differences.push(format!("{name}: {:?} in {FILE}, now {:?}", old.usage, new.usage));
        }
    }
    let measured_archs: Vec<&str> = measured.iter().map(|row| row.arch.as_str()).collect();
    for old in committed.iter().filter(|old| measured_archs.contains(&old.arch.as_str())) {
        if !measured.iter().any(|new| key(new) == key(old)) {
            differences.push(format!("{}/{} for {}: no such module", old.kernel, old.kind, old.arch));
        }
    }
    differences
}
