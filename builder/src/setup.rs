//! Installs a compiler that can build for nvptx64.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::toolchain::clean_command;

/// Debian's packages: compiler, cargo, and the sources of `core`.
const DEBIAN_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// Why the set-up stopped.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Neither rustup nor root on Debian.
    #[error(
        "there is neither rustup nor Debian's apt-get as root here; install a Rust compiler with rust-src by hand"
    )]
    NoWay,
    /// A command failed or could not start.
    #[error("every way to install a compiler failed:\n{0}")]
    Failed(String),
}

/// One way to install a compiler.
struct Way {
    /// Its commands, in order.
    commands: Vec<Vec<String>>,
    /// False where the commands need rights that this process lacks.
    open: bool,
}

/// The commands that install a compiler here, as text: a line for each way.
#[must_use]
pub fn commands() -> Vec<String> {
    let line = |way: &Way| {
        let sudo = if way.open { "" } else { "sudo " };
        way.commands.iter().map(|c| format!("{sudo}{}", c.join(" "))).collect::<Vec<_>>().join(" && ")
    };
    let lines: Vec<String> = ways().iter().map(line).collect();
    if lines.is_empty() { vec!["rustup component add rust-src".to_owned()] } else { lines }
}

/// Runs the first way that works; `say` is told of each command before it runs.
///
/// # Errors
/// No way is open here, or all of them failed.
pub fn install(mut say: impl FnMut(&str)) -> Result<(), SetupError> {
    let ways: Vec<Way> = ways().into_iter().filter(|way| way.open).collect();
    if ways.is_empty() {
        return Err(SetupError::NoWay);
    }
    let mut failures = Vec::new();
    for way in ways {
        match run(&way, &mut say) {
            Ok(()) => return Ok(()),
            Err(failure) => {
                say(&failure);
                failures.push(failure);
            }
        }
    }
    Err(SetupError::Failed(failures.join("\n")))
}

fn run(way: &Way, say: &mut impl FnMut(&str)) -> Result<(), String> {
    for command in &way.commands {
        let text = command.join(" ");
        say(&format!("running: {text}"));
        let status = clean_command(Path::new(&command[0]))
            .args(&command[1..])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .map_err(|error| format!("`{text}` did not start: {error}"))?;
        if !status.success() {
            return Err(format!("`{text}` failed: {status}"));
        }
    }
    Ok(())
}

/// The sources for rustup's default toolchain, or Debian's compiler with its sources.
fn ways() -> Vec<Way> {
    let command = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let mut ways = Vec::new();
    if on_path("rustup") {
        ways.push(Way { commands: vec![command(&["rustup", "component", "add", "rust-src"])], open: true });
    }
    if is_debian() && on_path("apt-get") {
        let mut install = command(&["apt-get", "install", "--yes", "--no-install-recommends"]);
        install.extend(DEBIAN_PACKAGES.map(str::to_owned));
        ways.push(Way { commands: vec![command(&["apt-get", "update"]), install], open: is_root() });
    }
    ways
}

fn on_path(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn is_debian() -> bool {
    fs::read_to_string("/etc/os-release").is_ok_and(|text| text.lines().any(|line| line == "ID=debian"))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
