//! Finds a Rust compiler that can build for nvptx64.
//!
//! Candidates, in order: the one that `COTANGENT_RUSTC` names, rustup's toolchains (nightlies first), and
//! `/usr/bin/rustc`, which Debian's packages install. Each is tried on a small kernel with the very flags of
//! the device crate, and the first that compiles it is taken.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile::{self, CompileError};
use crate::workspace::Workspace;

/// The variable that names a compiler to try first.
pub const RUSTC_VARIABLE: &str = "COTANGENT_RUSTC";

/// The target triple of device code.
pub const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Where the compiler's `core` for nvptx64 comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// Built from the sources that come with the compiler.
    FromSource,
    /// Installed with the target.
    Installed,
}

/// A compiler with its cargo.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// The cargo beside it.
    pub cargo: PathBuf,
    /// The first line of `rustc -vV`, such as `rustc 1.96.0 (ac68faa20 2026-05-25)`.
    pub version: String,
    /// The LLVM version.
    pub llvm: String,
    /// Where `core` comes from.
    pub core: Core,
    /// How the candidate was found.
    pub origin: String,
}

impl Toolchain {
    /// The one line that the manifest keeps: what the bytes of the modules depend on besides the sources.
    #[must_use]
    pub fn identity(&self) -> String {
        let core = match self.core {
            Core::FromSource => "",
            Core::Installed => ", installed core",
        };
        format!("{}, LLVM {}{core}", self.version, self.llvm)
    }

    /// A command with the environment of an outer cargo or rustup removed and this compiler set.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = clean_command(program);
        command.env("RUSTC", &self.rustc).env("RUSTC_BOOTSTRAP", "1").env("RUSTC_WRAPPER", "");
        command
    }
}

/// A candidate and why it did not do.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The candidate: a path, or a toolchain's name.
    pub origin: String,
    /// What it lacks.
    pub reason: String,
}

/// The compiler chosen, and those before it that did not do.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The compiler.
    pub toolchain: Toolchain,
    /// The candidates tried before it.
    pub rejected: Vec<Rejected>,
}

/// No candidate does.
#[derive(Debug, thiserror::Error)]
#[error(
    "no Rust compiler here can build for {TRIPLE}.\n{}\n\
     Install one with `cargo ptx-setup`, or by hand:\n{}\n\
     or set {RUSTC_VARIABLE} to a rustc that has the sources of `core`.",
    list(rejected),
    commands.iter().map(|c| format!("    {c}")).collect::<Vec<_>>().join("\n")
)]
pub struct NoToolchain {
    /// Every candidate with its reason.
    pub rejected: Vec<Rejected>,
    /// Commands that install one.
    pub commands: Vec<String>,
}

fn list(rejected: &[Rejected]) -> String {
    if rejected.is_empty() {
        return "No candidate was found.".to_owned();
    }
    rejected.iter().map(|r| format!("  {}: {}", r.origin, r.reason)).collect::<Vec<_>>().join("\n")
}

/// The first candidate that compiles the probe. A candidate whose [`Toolchain::identity`] is `preferred` is
/// tried before the others, so that a comparison with a manifest uses its compiler where it is installed.
///
/// # Errors
/// None does; the error holds every reason and the commands that install one.
pub fn find(workspace: &Workspace, preferred: Option<&str>) -> Result<Choice, NoToolchain> {
    let mut rejected = Vec::new();
    let mut ready = Vec::new();
    for candidate in candidates() {
        match inspect(&candidate) {
            Ok(toolchain) => ready.push(toolchain),
            Err(reason) => rejected.push(Rejected { origin: candidate.origin, reason }),
        }
    }
    ready.sort_by_key(|t| preferred.is_some_and(|p| p != t.identity()));
    for toolchain in ready {
        log::debug!("trying {}", toolchain.origin);
        match compile::probe(workspace, &toolchain) {
            Ok(()) => return Ok(Choice { toolchain, rejected }),
            Err(error) => rejected.push(Rejected { origin: toolchain.origin, reason: reason_of(&error) }),
        }
    }
    Err(NoToolchain { rejected, commands: crate::setup::commands() })
}

/// The lines of a failed probe that say what is wrong.
fn reason_of(error: &CompileError) -> String {
    let CompileError::Failed { output, .. } = error else { return error.to_string() };
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let first = lines.iter().position(|line| line.starts_with("error"));
    first.map_or_else(
        || error.to_string(),
        |at| lines[at..].iter().take(2).copied().collect::<Vec<_>>().join(" "),
    )
}

struct Candidate {
    rustc: PathBuf,
    origin: String,
}

fn candidates() -> Vec<Candidate> {
    let mut all = Vec::new();
    if let Some(rustc) = env::var_os(RUSTC_VARIABLE) {
        let rustc = PathBuf::from(rustc);
        all.push(Candidate { origin: format!("{} ({RUSTC_VARIABLE})", rustc.display()), rustc });
    }
    for (name, path) in rustup_toolchains() {
        all.push(Candidate { rustc: path.join("bin/rustc"), origin: format!("rustup toolchain {name}") });
    }
    let system = PathBuf::from("/usr/bin/rustc");
    if system.exists() {
        all.push(Candidate { rustc: system, origin: "/usr/bin/rustc".to_owned() });
    }
    all
}

/// Names and folders of rustup's toolchains, nightlies first; a name that links to another is left out.
fn rustup_toolchains() -> Vec<(String, PathBuf)> {
    let home = env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".rustup")));
    let Some(entries) = home.and_then(|home| fs::read_dir(home.join("toolchains")).ok()) else {
        return Vec::new();
    };
    let mut found: Vec<(String, PathBuf)> = entries
        .flatten()
        .filter(|entry| !entry.file_type().is_ok_and(|t| t.is_symlink()) || is_custom(&entry.path()))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(_, path)| path.join("bin/rustc").exists())
        .collect();
    found.sort_by_key(|(name, _)| (!name.starts_with("nightly"), name.clone()));
    found
}

/// True for a link made by `rustup toolchain link`: it leads out of the toolchains' folder.
fn is_custom(link: &Path) -> bool {
    match (link.parent().map(Path::canonicalize), link.canonicalize()) {
        (Some(Ok(parent)), Ok(target)) => !target.starts_with(parent),
        _ => false,
    }
}

/// What a candidate says of itself, and whether it has a `core` for the target.
fn inspect(candidate: &Candidate) -> Result<Toolchain, String> {
    let verbose = output(&candidate.rustc, &["-vV"])?;
    let field = |name: &str| {
        verbose.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let version = verbose.lines().next().unwrap_or_default().to_owned();
    let llvm = field("LLVM version:").ok_or("its version names no LLVM")?;
    let sysroot = PathBuf::from(output(&candidate.rustc, &["--print", "sysroot"])?.trim());
    let source = sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    let installed = sysroot.join("lib/rustlib").join(TRIPLE).join("lib");
    let core = if source.is_file() {
        Core::FromSource
    } else if installed.is_dir() {
        Core::Installed
    } else {
        return Err(format!(
            "{version} has neither the sources of `core` (rust-src) nor the target {TRIPLE}"
        ));
    };
    let beside = candidate.rustc.with_file_name("cargo");
    let cargo = if beside.exists() { beside } else { PathBuf::from("cargo") };
    let (rustc, origin) = (candidate.rustc.clone(), candidate.origin.clone());
    Ok(Toolchain { rustc, cargo, version, llvm, core, origin })
}

fn output(program: &Path, args: &[&str]) -> Result<String, String> {
    let output =
        clean_command(program).args(args).output().map_err(|error| format!("it does not run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("`{}` failed: {said}", args.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command without the variables that an outer cargo or rustup sets for its own compiler.
pub(crate) fn clean_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if is_outer(&name) {
            command.env_remove(&name);
        }
    }
    command
}

/// True for variables that would redirect a nested cargo; the user's home, network and registry settings
/// are kept.
fn is_outer(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let kept = ["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    let cargo = (name == "CARGO" || name.starts_with("CARGO_")) && !kept.iter().any(|k| name.starts_with(k));
    cargo
        || name.starts_with("RUSTC")
        || name.starts_with("RUSTFLAGS")
        || name.starts_with("RUSTDOC")
        || name == "RUSTUP_TOOLCHAIN"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_cargo_variables_are_removed_and_user_settings_kept() {
        for name in [
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "CARGO",
            "CARGO_TARGET_DIR",
            "CARGO_PKG_NAME",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(is_outer(OsStr::new(name)), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "CARGO_HTTP_PROXY",
            "CARGO_NET_OFFLINE",
            "CARGO_REGISTRIES_MINE_TOKEN",
            "PATH",
            "RUSTUP_HOME",
            "RUST_LOG",
        ] {
            assert!(!is_outer(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_error_names_every_candidate_and_the_commands() {
        let rejected =
            vec![Rejected { origin: "rustup toolchain nightly".into(), reason: "no rust-src".into() }];
        let text = NoToolchain { rejected, commands: vec!["do this".into()] }.to_string();
        assert!(
            text.contains("rustup toolchain nightly: no rust-src") && text.contains("    do this"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_compiler_is_refused_with_a_reason() {
        let candidate = Candidate { rustc: PathBuf::from("/nowhere/rustc"), origin: "test".into() };
        assert!(inspect(&candidate).unwrap_err().contains("does not run"));
    }
}
