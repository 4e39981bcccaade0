//! From the device crate to the generated folder, and the comparison of the two.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::resume_unwind;
use std::thread;

use crate::compile::{self, CompileError, TARGETS, Target};
use crate::generate;
use crate::holes;
use crate::manifest::{
    self, Canonical, KernelRecord, Manifest, ManifestError, ModuleRecord, TargetRecord, sources_hash,
};
use crate::ptx::check::{self, CheckError};
use crate::ptx::split::{self, SplitError};
use crate::ptx::{self, ParseError, PtxFile};
use crate::source::{self, Kernel, SourceError};
use crate::toolchain::{NoToolchain, Toolchain};
use crate::workspace::{NoWorkspace, Workspace};

/// Why a build or a check stopped.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No compiler.
    #[error(transparent)]
    Toolchain(#[from] NoToolchain),
    /// No repository.
    #[error(transparent)]
    Workspace(#[from] NoWorkspace),
    /// The device sources were refused.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The device code does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The PTX has text that belongs to no module.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The PTX breaks a rule.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// An entry cannot be made a module.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The committed manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A generated file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file or folder.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The sources were edited during the build.
    #[error("the device sources changed while they were compiled; build again")]
    SourcesChanged,
    /// A kernel's source has not exactly one entry point.
    #[error("the source must have one entry point; it has {0}")]
    EntryPoints(usize),
}

/// The result of a build, not yet written.
#[derive(Clone, Debug)]
pub struct Output {
    /// Every generated file by its path in the generated folder.
    pub files: BTreeMap<String, String>,
    /// The manifest, which is among the files too.
    pub manifest: Manifest,
    /// The kernels as their sources declare them.
    pub kernels: Vec<Kernel>,
}

/// The entry point's symbol in a kernel's modules.
#[must_use]
pub fn entry_point_name(kernel: &str) -> String {
    format!("{kernel}_entry_point")
}

/// Compiles, checks and splits the whole device crate.
///
/// # Errors
/// The first fault of the sources, the compiler or the PTX.
pub fn build(workspace: &Workspace, toolchain: &Toolchain) -> Result<Output, BuildError> {
    let device = workspace.device();
    let sources_sha256 = sources_hash(&device)?;
    let kernels = source::read_kernels(&device)?;
    let mut files = BTreeMap::new();
    let mut records = Vec::new();
    let mut targets = Vec::new();
    let groups: Vec<(&Target, Vec<&Kernel>)> = TARGETS
        .iter()
        .map(|target| (target, kernels.iter().filter(|k| k.target == target).collect()))
        .filter(|(_, group): &(_, Vec<_>)| !group.is_empty())
        .collect();
    // One compiler uses one core, and each target has a folder of its own.
    let texts: Vec<Result<String, CompileError>> = thread::scope(|scope| {
        let runs: Vec<_> = groups
            .iter()
            .map(|(target, _)| scope.spawn(|| compile::entries(workspace, toolchain, target)))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    for ((target, group), text) in groups.into_iter().zip(texts) {
        records.extend(modules(&text?, target, &group, &mut files)?);
        targets.push(TargetRecord {
            arch: target.arch.to_owned(),
            ptx: target.version(),
            flags: compile::flags(target),
        });
    }
    if sources_hash(&device)? != sources_sha256 {
        return Err(BuildError::SourcesChanged);
    }
    records.sort_by(|a, b| a.name.cmp(&b.name));
    for kernel in &kernels {
        files.insert(format!("{}/source.rs", kernel.name), kernel.source.clone());
    }
    let manifest = Manifest {
        generated_by: generate::NOTE.to_owned(),
        sources_sha256,
        compiler: toolchain.identity(),
        targets,
        kernels: records,
    };
    files.insert(generate::RUST_FILE.to_owned(), generate::kernels_rs(&kernels));
    files.insert(manifest::FILE.to_owned(), manifest.to_json());
    Ok(Output { files, manifest, kernels })
}

/// Checks the compiler's output for one target and puts its modules into `files`.
fn modules(
    text: &str,
    target: &Target,
    kernels: &[&Kernel],
    files: &mut BTreeMap<String, String>,
) -> Result<Vec<KernelRecord>, BuildError> {
    check::no_panic(text)?;
    let file = ptx::parse(text)?;
    let symbol = |kernel: &Kernel, kind: &str| format!("{}__{kind}", entry_point_name(&kernel.name));
    let expected: Vec<String> =
        kernels.iter().flat_map(|k| k.family.kinds().iter().map(|kind| symbol(k, kind))).collect();
    check::inventory(&file, &expected, &target.version(), target.arch)?;
    let mut records = Vec::new();
    for kernel in kernels {
        let mut modules = Vec::new();
        for kind in kernel.family.kinds() {
            let name = symbol(kernel, kind);
            let (record, text) = module(&file, &name, kernel, kind)?;
            files.insert(format!("{}/{kind}.ptx", kernel.name), text);
            modules.push(record);
        }
        records.push(KernelRecord {
            name: kernel.name.clone(),
            file: format!("device/{}", kernel.file),
            family: kernel.family.word().to_owned(),
            target: target.arch.to_owned(),
            entry: entry_point_name(&kernel.name),
            barriers: kernel.barriers,
            canonical: kernel
                .constants
                .iter()
                .map(|c| Canonical { constant: c.name.clone(), divisor: c.divisor, value: c.canonical })
                .collect(),
            modules,
        });
    }
    Ok(records)
}

fn module(
    file: &PtxFile,
    symbol: &str,
    kernel: &Kernel,
    kind: &str,
) -> Result<(ModuleRecord, String), BuildError> {
    let entry = file
        .entries
        .iter()
        .find(|e| e.name == symbol)
        .ok_or_else(|| CheckError::MissingEntry(symbol.to_owned()))?;
    check::entry(file, entry, kernel, kind)?;
    let public = entry_point_name(&kernel.name);
    let text = split::module(file, entry, &public, generate::NOTE, kernel.threads)?;
    let holes: BTreeSet<&str> = entry
        .body
        .iter()
        .flat_map(|line| ptx::identifiers(line))
        .filter(|token| token.starts_with(holes::PREFIX))
        .collect();
    let record = ModuleRecord {
        kind: kind.to_owned(),
        sha256: manifest::sha256(&text),
        params: entry.params.iter().map(|p| p.replace(symbol, &public)).collect(),
        holes: holes.into_iter().map(str::to_owned).collect(),
    };
    Ok((record, text))
}

/// Writes a build into the generated folder; returns the names of the files that changed.
///
/// # Errors
/// A file that cannot be written.
pub fn write(workspace: &Workspace, output: &Output) -> Result<Vec<String>, BuildError> {
    let dir = workspace.kernels();
    generate::write(&dir, &output.files)
        .map_err(|error| BuildError::File { path: dir.display().to_string(), error })
}

/// How a comparison was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Byte for byte: the compiler is the manifest's.
    Bytes,
    /// Sources, entries, parameters and holes: another compiler writes other instructions.
    Contract,
}

/// Compares a fresh build with the committed folder; returns what differs, a line each.
///
/// # Errors
/// A committed file that cannot be read.
pub fn compare(workspace: &Workspace, fresh: &Output) -> Result<(Comparison, Vec<String>), BuildError> {
    let dir = workspace.kernels();
    let committed = Manifest::read(&dir)?;
    let mut differences = Vec::new();
    let comparison =
        if committed.compiler == fresh.manifest.compiler { Comparison::Bytes } else { Comparison::Contract };
    for (name, text) in &fresh.files {
        let generated_code = generate::is_module(name) || name == manifest::FILE;
        if generated_code && comparison == Comparison::Contract {
            continue;
        }
        match fs::read_to_string(dir.join(name)) {
            Ok(old) if old == *text => {}
            Ok(old) => differences.push(format!("{name}: {}", first_difference(&old, text))),
            Err(error) => differences.push(format!("{name}: {error}")),
        }
    }
    let stale = generate::stale(&dir, &fresh.files)
        .map_err(|error| BuildError::File { path: dir.display().to_string(), error })?;
    differences.extend(stale.into_iter().map(|name| format!("{name}: no kernel makes this file")));
    if comparison == Comparison::Contract {
        contract(&committed, &fresh.manifest, &mut differences);
        for kernel in &committed.kernels {
            for module in &kernel.modules {
                let name = format!("{}/{}.ptx", kernel.name, module.kind);
                let intact =
                    fs::read_to_string(dir.join(&name)).is_ok_and(|t| manifest::sha256(&t) == module.sha256);
                if !intact {
                    differences.push(format!("{name}: is not the file that the manifest describes"));
                }
            }
        }
    }
    Ok((comparison, differences))
}

fn first_difference(old: &str, new: &str) -> String {
    let (mut old_lines, mut new_lines) = (old.lines(), new.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (old_lines.next(), new_lines.next()) {
            (None, None) => return "differs in line ends alone".to_owned(),
            (a, b) if a == b => {}
            (a, b) => {
                let show = |l: Option<&str>| l.map_or("the end".to_owned(), |l| format!("`{}`", l.trim()));
                return format!("line {line} is {} and would be {}", show(a), show(b));
            }
        }
    }
}

/// What must hold whichever compiler made the modules.
fn contract(committed: &Manifest, fresh: &Manifest, differences: &mut Vec<String>) {
    if committed.sources_sha256 != fresh.sources_sha256 {
        differences.push("the device sources are not those of the manifest".to_owned());
    }
    if committed.targets != fresh.targets {
        differences.push("the targets or flags are not those of the manifest".to_owned());
    }
    let names = |m: &Manifest| m.kernels.iter().map(|k| k.name.clone()).collect::<Vec<_>>();
    if names(committed) != names(fresh) {
        differences.push(format!("the kernels are {:?} and would be {:?}", names(committed), names(fresh)));
    }
    for new in &fresh.kernels {
        let Some(old) = committed.kernels.iter().find(|k| k.name == new.name) else { continue };
        let strip = |k: &KernelRecord| KernelRecord { modules: Vec::new(), ..k.clone() };
        if strip(old) != strip(new) {
            differences.push(format!("{}: entry, barriers, target or canonical values differ", new.name));
        }
        let kinds = |k: &KernelRecord| k.modules.iter().map(|m| m.kind.clone()).collect::<Vec<_>>();
        if kinds(old) != kinds(new) {
            differences.push(format!("{}: its element kinds differ", new.name));
            continue;
        }
        let shape = |m: &ModuleRecord| (m.kind.clone(), m.params.clone(), m.holes.clone());
        for (old, new_module) in old.modules.iter().zip(&new.modules) {
            if shape(old) != shape(new_module) {
                differences.push(format!("{}/{}: parameters or holes differ", new.name, new_module.kind));
            }
        }
    }
}
