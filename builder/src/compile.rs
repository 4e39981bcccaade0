//! How device code is compiled: the targets, the flags and the runs. The one place for compiler flags.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::toolchain::{Core, TRIPLE, Toolchain};
use crate::workspace::Workspace;

/// One architecture that entries are compiled for.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// The virtual architecture; an `entry!` block may start with it.
    pub arch: &'static str,
    /// The PTX ISA version, which sets the oldest driver: 70 is 7.0.
    pub ptx: u32,
    /// The device crate's feature that stamps this target's entries.
    pub feature: &'static str,
}

/// The targets; the first is the floor, which blocks without a target word get.
pub static TARGETS: &[Target] = &[
    Target { arch: "sm_70", ptx: 70, feature: "entries" },
    Target { arch: "sm_80", ptx: 71, feature: "entries_sm_80" },
];

impl Target {
    /// The version as the PTX header says it, such as `7.0`.
    #[must_use]
    pub fn version(&self) -> String {
        format!("{}.{}", self.ptx / 10, self.ptx % 10)
    }
}

/// The target of this architecture.
#[must_use]
pub fn target(arch: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.arch == arch)
}

/// The compiler's flags beyond the profile's. `ARCHITECTURE.md` says which measured fault each one prevents.
#[must_use]
pub fn flags(target: &Target) -> Vec<String> {
    let mut flags =
        vec![format!("-Ctarget-cpu={}", target.arch), format!("-Ctarget-feature=+ptx{}", target.ptx)];
    flags.extend(
        [
            // Nothing is linked: the assembly text is the result.
            "-Clinker=true",
            // ptxas unrolls loops over holes itself, once their bound is a number.
            "-Cllvm-args=-unroll-runtime=false",
            // Accumulator arrays stay in registers only where every loop over them is unrolled.
            "-Cllvm-args=-unroll-threshold=8000",
            // Packed narrow reductions keep ptxas from unrolling.
            "-Cno-vectorize-loops",
            "-Cno-vectorize-slp",
            // Jump threading duplicates barriers into divergent branches.
            "-Zmir-enable-passes=-JumpThreading",
        ]
        .map(str::to_owned),
    );
    flags
}

/// The cargo profile's settings as command-line configuration: one complete, inlined PTX file.
const PROFILE: &str = "ptx";
const PROFILE_SETTINGS: [&str; 6] = [
    "profile.ptx.inherits=\"release\"",
    "profile.ptx.debug=false",
    "profile.ptx.lto=\"fat\"",
    "profile.ptx.codegen-units=1",
    "profile.ptx.panic=\"abort\"",
    "profile.ptx.opt-level=3",
];

/// The same settings for a direct run of the compiler.
const PROFILE_FLAGS: [&str; 4] = ["-Copt-level=3", "-Clto=fat", "-Ccodegen-units=1", "-Cpanic=abort"];

/// Why device code did not compile.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A tool did not start.
    #[error("{} did not start: {error}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The compiler refused the code; its messages, where they were not printed already.
    #[error("{what} does not compile ({status}){}{output}", if output.is_empty() { "" } else { ":\n" })]
    Failed {
        /// What was compiled.
        what: String,
        /// The exit status.
        status: String,
        /// The compiler's messages.
        output: String,
    },
    /// A file of the run could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The compiler's report lacks a library that the next step needs.
    #[error("the build made no `{0}` library")]
    NoLibrary(String),
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> CompileError + '_ {
    |error| CompileError::File { path: path.to_owned(), error }
}

/// A target folder of its own for each clone, compiler and set of flags: outputs there have no hash in their
/// names, so that cargo would take another build's output for fresh.
fn target_dir(workspace: &Workspace, toolchain: &Toolchain, target: &Target) -> PathBuf {
    let mut hash = Sha256::new();
    hash.update(toolchain.identity());
    for path in [&toolchain.rustc, &workspace.device()] {
        hash.update([0]);
        hash.update(path.to_string_lossy().as_bytes());
    }
    for flag in flags(target).iter().map(String::as_str).chain(PROFILE_SETTINGS) {
        hash.update([0]);
        hash.update(flag);
    }
    let mut name = format!("{}-", target.arch);
    for byte in &hash.finalize()[..4] {
        let _ = write!(name, "{byte:02x}");
    }
    workspace.target().join(name)
}

/// A cargo run for device code; the caller adds what follows the common arguments.
fn cargo(
    toolchain: &Toolchain,
    target: &Target,
    target_dir: &Path,
    package: &Path,
    crate_type: &str,
) -> Command {
    let mut command = toolchain.command(&toolchain.cargo);
    command.current_dir(package).env("CARGO_ENCODED_RUSTFLAGS", flags(target).join("\x1f"));
    command.args(["rustc", "--lib", "--crate-type", crate_type, "--profile", PROFILE, "--target", TRIPLE]);
    for setting in PROFILE_SETTINGS {
        command.args(["--config", setting]);
    }
    if toolchain.core == Core::FromSource {
        command.arg("-Zbuild-std=core");
    }
    command.arg("--target-dir").arg(target_dir);
    command
}

/// Compiles the device crate's entries for one target; the compiler's messages go to the terminal.
///
/// # Errors
/// The device crate does not compile.
pub fn entries(
    workspace: &Workspace,
    toolchain: &Toolchain,
    target: &Target,
) -> Result<String, CompileError> {
    let dir = target_dir(workspace, toolchain, target);
    let mut command = cargo(toolchain, target, &dir, &workspace.device(), "cdylib");
    command.args(["--features", target.feature, "--", "--emit=asm"]);
    let status =
        command.status().map_err(|error| CompileError::Start { program: toolchain.cargo.clone(), error })?;
    if !status.success() {
        let what = format!("the device crate for {}", target.arch);
        return Err(CompileError::Failed { what, status: status.to_string(), output: String::new() });
    }
    let path = dir.join(TRIPLE).join(PROFILE).join("deps/cotangent_device.s");
    fs::read_to_string(&path).map_err(file_error(&path))
}

/// Compiles a tiny kernel: does this compiler do what the device crate needs? After the first time, which
/// builds `core`, this takes a fraction of a second.
///
/// # Errors
/// It does not; the error holds the compiler's messages.
pub fn probe(workspace: &Workspace, toolchain: &Toolchain) -> Result<(), CompileError> {
    let package = workspace.target().join("probe");
    let write = |name: &str, text: &str| {
        let path = package.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        fs::create_dir_all(path.parent().unwrap_or(&package)).map_err(file_error(&path))?;
        fs::write(&path, text).map_err(file_error(&path))
    };
    write("Cargo.toml", PROBE_MANIFEST)?;
    write("src/lib.rs", PROBE_SOURCE)?;
    let target = &TARGETS[0];
    let dir = target_dir(workspace, toolchain, target);
    let mut command = cargo(toolchain, target, &dir, &package, "cdylib");
    command.args(["--", "--emit=asm"]);
    let output =
        command.output().map_err(|error| CompileError::Start { program: toolchain.cargo.clone(), error })?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        let what = "a probe kernel".to_owned();
        return Err(CompileError::Failed { what, status: output.status.to_string(), output: messages });
    }
    let path = dir.join(TRIPLE).join(PROFILE).join("deps/cotangent_probe.s");
    let ptx = fs::read_to_string(&path).map_err(file_error(&path))?;
    let header = format!(".target {}", target.arch);
    if ptx.contains(&header) && ptx.contains(".entry probe") {
        return Ok(());
    }
    let what = "a probe kernel".to_owned();
    Err(CompileError::Failed { what, status: format!("its PTX lacks `{header}` or its entry"), output: ptx })
}

const PROBE_MANIFEST: &str = r#"[package]
name = "cotangent-probe"
version = "0.0.0"
edition = "2024"

[workspace]
"#;

const PROBE_SOURCE: &str = r#"#![no_std]
#![feature(abi_ptx, asm_experimental_arch, core_intrinsics, stdarch_nvptx)]
#![allow(internal_features)]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn probe(to: *mut u32) {
    unsafe { *to = core::arch::nvptx::_thread_idx_x() as u32 }
}
"#;

/// What a direct run of the compiler on a kernel's source needs: the libraries it is linked with.
pub struct Libraries {
    device: PathBuf,
    /// `core` and `compiler_builtins`, where they were built from source.
    core: Vec<(String, PathBuf)>,
    dependencies: PathBuf,
}

/// Builds the device crate as a library, without its entries.
///
/// # Errors
/// The device crate does not compile.
pub fn libraries(
    workspace: &Workspace,
    toolchain: &Toolchain,
    target: &Target,
) -> Result<Libraries, CompileError> {
    let dir = target_dir(workspace, toolchain, target);
    let mut command = cargo(toolchain, target, &dir, &workspace.device(), "rlib");
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let output =
        command.output().map_err(|error| CompileError::Start { program: toolchain.cargo.clone(), error })?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        let what = "the device crate as a library".to_owned();
        return Err(CompileError::Failed { what, status: output.status.to_string(), output: messages });
    }
    let made = artifacts(&String::from_utf8_lossy(&output.stdout));
    let find = |name: &str| made.iter().find(|(n, _)| n == name).map(|(_, path)| path.clone());
    let device =
        find("cotangent_device").ok_or_else(|| CompileError::NoLibrary("cotangent_device".to_owned()))?;
    let mut core = Vec::new();
    if toolchain.core == Core::FromSource {
        for name in ["core", "compiler_builtins"] {
            core.push((name.to_owned(), find(name).ok_or_else(|| CompileError::NoLibrary(name.to_owned()))?));
        }
    }
    Ok(Libraries { device, core, dependencies: dir.join(TRIPLE).join(PROFILE).join("deps") })
}

/// Names and `.rlib` files in cargo's JSON report.
fn artifacts(report: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for line in report.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let (Some(name), Some(files)) = (message["target"]["name"].as_str(), message["filenames"].as_array())
        else {
            continue;
        };
        let library = files
            .iter()
            .filter_map(|f| f.as_str())
            .map(PathBuf::from)
            .find(|f| f.extension().is_some_and(|e| e == "rlib"));
        found.extend(library.map(|path| (name.to_owned(), path)));
    }
    found
}

/// Compiles one crate's source text to PTX, with the device crate as `cotangent_device`.
///
/// # Errors
/// The source does not compile; the error holds the compiler's messages.
pub fn source(
    toolchain: &Toolchain,
    target: &Target,
    libraries: &Libraries,
    text: &str,
) -> Result<String, CompileError> {
    let dir =
        tempfile::tempdir().map_err(|error| CompileError::File { path: std::env::temp_dir(), error })?;
    let (input, output) = (dir.path().join("kernel.rs"), dir.path().join("kernel.s"));
    fs::write(&input, text).map_err(file_error(&input))?;
    let mut command = toolchain.command(&toolchain.rustc);
    command.args(["--crate-name", "kernel", "--edition", "2024", "--crate-type", "cdylib", "--emit", "asm"]);
    command.args(["--target", TRIPLE, "--cap-lints", "allow", "-Zunstable-options"]);
    command.args(PROFILE_FLAGS).args(flags(target));
    command.arg("-L").arg(format!("dependency={}", libraries.dependencies.display()));
    command.arg("--extern").arg(format!("cotangent_device={}", libraries.device.display()));
    for (name, path) in &libraries.core {
        command.arg("--extern").arg(format!("noprelude,nounused:{name}={}", path.display()));
    }
    command.arg("-o").arg(&output).arg(&input);
    let run =
        command.output().map_err(|error| CompileError::Start { program: toolchain.rustc.clone(), error })?;
    if !run.status.success() {
        let messages = String::from_utf8_lossy(&run.stderr).into_owned();
        let what = "the kernel's source".to_owned();
        return Err(CompileError::Failed { what, status: run.status.to_string(), output: messages });
    }
    fs::read_to_string(&output).map_err(file_error(&output))
}
