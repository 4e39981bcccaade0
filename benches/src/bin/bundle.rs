//! Packs what runs on a GPU machine without Rust into one folder: the command line, tests, benches, the record
//! runner, and the peers' scripts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use serde_json::Value;

/// The packed tests and benches. Each has the library and all of its PTX, so together they would be several times
/// [`LARGEST`]; packed as one, what they share counts once.
const ARCHIVE: &str = "programs.tar.xz";

/// xz's preset: the least whose memory, 16 MB, reaches from a program back to the one before.
const PRESET: &str = "-7";

/// The largest folder that still travels well, in bytes.
const LARGEST: u64 = 60 << 20;

const README: &str = include_str!("bundle/README.md");
const RUN: &str = include_str!("bundle/run.sh");

/// Packs release binaries and the peers' scripts into one folder.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The folder, which is made anew.
    #[arg(long, default_value = "target/bundle")]
    out: PathBuf,
    /// Leave the tests out.
    #[arg(long)]
    no_tests: bool,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
    #[error("`{command}` failed: {reason}")]
    Command { command: String, reason: String },
    #[error("{path} exists and is no bundle; name another folder")]
    NoBundle { path: PathBuf },
    #[error("the bundle has {bytes} bytes, more than {LARGEST}; the largest file is {largest}")]
    TooLarge { bytes: u64, largest: String },
}

/// A program that cargo built.
struct Program {
    package: String,
    target: String,
    kind: &'static str,
    path: PathBuf,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut programs =
        build(&root, &["build", "--package", "cotangent", "--package", "cotangent-benches", "--bins"])?;
    programs.extend(build(&root, &["bench", "--no-run", "--package", "cotangent-benches"])?);
    if !options.no_tests {
        let tests = ["test", "--no-run", "--tests", "--package", "cotangent", "--package", "cotangent-tests"];
        programs.extend(build(&root, &tests)?);
        programs.extend(build(&root, &["build", "--package", "cotangent-tests", "--bin", "soak"])?);
    }
    let out = &options.out;
    clear(out)?;
    let write = |name: &str, text: &str| done(out, fs::write(out.join(name), text));
    write("README.md", README)?;
    write("run.sh", RUN)?;
    let peers = out.join("peers");
    done(&peers, fs::create_dir_all(&peers))?;
    let scripts = root.join("benches/peers");
    for entry in done(&scripts, fs::read_dir(&scripts))? {
        let path = done(&scripts, entry)?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            copy(&path, &peers)?;
        }
    }
    for Program { package, target, kind, path } in &programs {
        let name = if *kind == "tests" { format!("{package}-{target}") } else { target.clone() };
        let folder = out.join(kind);
        done(&folder, fs::create_dir_all(&folder))?;
        let to = folder.join(name);
        done(path, fs::copy(path, &to))?;
        strip(&to)?;
    }
    pack(out, if options.no_tests { &["benches"] } else { &["benches", "soak", "tests"] })?;
    let mut files = Vec::new();
    list(out, &mut files)?;
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    if bytes > LARGEST {
        let largest = files.iter().max_by_key(|(_, bytes)| *bytes);
        let largest =
            largest.map_or_else(String::new, |(path, bytes)| format!("{} with {bytes}", path.display()));
        return Err(Error::TooLarge { bytes, largest });
    }
    println!("{} files, {:.1} MB, in {}", files.len(), bytes as f64 / 1e6, out.display());
    Ok(())
}

/// Runs a cargo command in release mode, and returns the programs that it names.
fn build(root: &Path, arguments: &[&str]) -> Result<Vec<Program>, Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(arguments).arg("--message-format=json-render-diagnostics");
    if arguments[0] != "bench" {
        command.arg("--release");
    }
    let named = format!("cargo {}", arguments.join(" "));
    let failed = |reason: String| Error::Command { command: named.clone(), reason };
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect())
}

/// The program in one of cargo's messages, if it is worth packing.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    let target = message["target"]["name"].as_str()?.to_owned();
    let kind = match message["target"]["kind"][0].as_str()? {
        _ if target == "bundle" => return None,
        "bench" => "benches",
        // With the tests, whose code it shares.
        "bin" if target == "soak" => "soak",
        _ if message["profile"]["test"] == true => "tests",
        _ => "bin",
    };
    // `path+file:///…/host#cotangent@0.1.0`, or `…/cotangent#0.1.0` where folder and package have one name.
    let id = message["package_id"].as_str()?;
    let (folder, name) = id.rsplit_once('#')?;
    let package = match name.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next()?,
    };
    Some(Program { package: package.to_owned(), target, kind, path })
}

/// Makes the folder anew; one that is not a bundle is left alone.
fn clear(out: &Path) -> Result<(), Error> {
    if out.exists() {
        if !out.join("run.sh").is_file() {
            return Err(Error::NoBundle { path: out.to_owned() });
        }
        done(out, fs::remove_dir_all(out))?;
    }
    done(out, fs::create_dir_all(out))
}

/// Takes symbols and line tables out of a program, where binutils are installed.
fn strip(path: &Path) -> Result<(), Error> {
    match Command::new("strip").arg(path).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Error::Command { command: format!("strip {}", path.display()), reason: status.to_string() })
        }
        Err(_) => {
            eprintln!("{} keeps its symbols: there is no `strip`", path.display());
            Ok(())
        }
    }
}

/// Packs folders of the bundle into its archive.
fn pack(out: &Path, folders: &[&str]) -> Result<(), Error> {
    let failed = |reason: String| Error::Command { command: format!("tar -cJf {ARCHIVE}"), reason };
    let mut tar = Command::new("tar");
    tar.current_dir(out).env("XZ_OPT", PRESET).args(["-cJf", ARCHIVE]).args(folders);
    let status = tar.status().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(format!("{status}; it needs xz")));
    }
    folders.iter().try_for_each(|folder| done(out, fs::remove_dir_all(out.join(folder))))
}

fn copy(from: &Path, folder: &Path) -> Result<(), Error> {
    let name = from.file_name().unwrap_or(from.as_os_str());
    done(from, fs::copy(from, folder.join(name)).map(drop))
}

/// Every file below a folder, with its bytes.
fn list(folder: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<(), Error> {
    for entry in done(folder, fs::read_dir(folder))? {
        let entry = done(folder, entry)?;
        let metadata = done(&entry.path(), entry.metadata())?;
        if metadata.is_dir() {
            list(&entry.path(), files)?;
        } else {
            files.push((entry.path(), metadata.len()));
        }
    }
    Ok(())
}

fn done<T>(path: &Path, result: io::Result<T>) -> Result<T, Error> {
    result.map_err(|error| Error::File { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart() {
        let message = |kind: &str, name: &str, test: bool, id: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id, "executable": "/there/x",
                "target": { "name": name, "kind": [kind] }, "profile": { "test": test },
            })
            .to_string()
        };
        let found = |message: String| program(&message).map(|program| (program.kind, program.package));
        let host = "path+file:///there/host#cotangent@0.1.0";
        let own = "path+file:///there/cotangent-tests#0.1.0";
        assert_eq!(found(message("bin", "cotangent", false, host)), Some(("bin", "cotangent".to_owned())));
        assert_eq!(found(message("bench", "flatten", true, host)).map(|found| found.0), Some("benches"));
        assert_eq!(
            found(message("test", "flatten", true, own)),
            Some(("tests", "cotangent-tests".to_owned()))
        );
        assert_eq!(found(message("bin", "soak", false, own)).map(|found| found.0), Some("soak"));
        assert_eq!(found(message("bin", "bundle", false, host)), None);
        assert_eq!(found("{\"reason\": \"build-finished\"}".to_owned()), None);
    }

    #[test]
    fn folders_that_are_no_bundles_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("precious");
        fs::write(&file, "x").expect("written");
        assert!(matches!(clear(folder.path()), Err(Error::NoBundle { .. })));
        assert!(file.exists());
        fs::write(folder.path().join("run.sh"), RUN).expect("written");
        clear(folder.path()).expect("cleared");
        assert!(!file.exists() && folder.path().exists());
    }
}
