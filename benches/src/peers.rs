//! Other libraries on the same work, measured by their own scripts with the protocol of this crate.
//!
//! A script reads one JSON file (the protocol and the cases) and writes one JSON object a line, a case at a
//! time, so that what was measured is there even when the script is stopped.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::case::Case;
use crate::error::{Error, Result, file};
use crate::measure::{Protocol, sets};

/// The scripts, in the order in which they run.
pub const SCRIPTS: [&str; 2] = ["torch_peer.py", "seed_peer.py"];

/// What one peer did with one case.
#[derive(Clone, Debug, Deserialize)]
pub struct PeerTime {
    /// The case's number.
    pub id: usize,
    /// `torch`, `torch_deterministic` or `seed`.
    pub peer: String,
    /// Microseconds; none where the peer failed.
    pub us: Option<f64>,
    /// Why it failed.
    pub error: Option<String>,
}

/// A rate that a script measured beside the cases.
#[derive(Clone, Debug, Deserialize)]
pub struct Rate {
    /// What ran at this rate.
    pub rate: String,
    /// Gigabytes a second, if it moves bytes.
    pub gbps: Option<f64>,
    /// Tera-operations a second, if it computes.
    pub tflops: Option<f64>,
}

/// One line of a script's output.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Time(PeerTime),
    Rate(Rate),
    Version { version: String },
}

/// What the peers came to.
#[derive(Debug, Default)]
pub struct Peers {
    /// Their times, case by case.
    pub times: HashMap<usize, Vec<PeerTime>>,
    /// What else they measured.
    pub rates: Vec<Rate>,
    /// Which versions ran.
    pub versions: Vec<String>,
    /// What went wrong, in words.
    pub remarks: Vec<String>,
}

impl Peers {
    /// Takes in a script's output; lines that are cut off are left out.
    pub fn read(&mut self, text: &str) {
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(Line::Time(time)) => self.times.entry(time.id).or_default().push(time),
                Ok(Line::Rate(rate)) => self.rates.push(rate),
                Ok(Line::Version { version }) => self.versions.push(version),
                Err(error) => self.remarks.push(format!("a peer's line {line:?} is not understood: {error}")),
            }
        }
    }
}

/// The folder with the scripts: beside the executable, or in the sources.
pub fn folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let candidates = program
        .ancestors()
        .skip(1)
        .flat_map(|folder| [folder.join("peers"), folder.join("benches/peers")])
        .take(10)
        .chain([Path::new(env!("CARGO_MANIFEST_DIR")).join("peers"), PathBuf::from("benches/peers")]);
    candidates.into_iter().find(|folder| SCRIPTS.iter().all(|script| folder.join(script).is_file()))
}

/// What the scripts read.
pub fn request(cases: &[&Case], cache_bytes: u64, protocol: &Protocol) -> serde_json::Value {
    let cases: Vec<_> = cases
        .iter()
        .enumerate()
        .map(|(id, case)| {
            json!({
                "id": id,
                "op": case.problem.op(),
                "direction": case.direction,
                "dtype": case.dtype.name(),
                "math": case.math,
                "offset": case.offset,
                "quick": case.quick,
                "sets": sets(case, cache_bytes, protocol),
                "problem": case.problem.peer(),
            })
        })
        .collect();
    json!({ "protocol": protocol, "cases": cases })
}

/// Runs the scripts of a folder with `python`, each for so long at most. What goes wrong is a remark.
///
/// # Errors
/// Files that cannot be written.
pub fn run(
    python: &str,
    folder: &Path,
    scratch: &Path,
    request: &serde_json::Value,
    limit: Duration,
) -> Result<Peers> {
    let input = scratch.join("cases.json");
    file(&input, fs::write(&input, request.to_string()))?;
    let mut peers = Peers::default();
    for name in SCRIPTS {
        let output = scratch.join(name).with_extension("jsonl");
        if let Err(error) = run_script(python, &folder.join(name), &input, &output, limit) {
            peers.remarks.push(error.to_string());
        }
        if let Ok(text) = fs::read_to_string(&output) {
            peers.read(&text);
        }
    }
    Ok(peers)
}

/// Runs one script; its messages go where this process's go.
fn run_script(python: &str, script: &Path, input: &Path, output: &Path, limit: Duration) -> Result<()> {
    file(output, File::create(output))?;
    let mut command = Command::new(python);
    command.arg(script).arg(input).arg(output).stdin(Stdio::null());
    // The scripts' folder stays as it is.
    let child = command.env("PYTHONDONTWRITEBYTECODE", "1").spawn();
    let mut child = file(Path::new(python), child)?;
    let start = Instant::now();
    let status: ExitStatus = loop {
        if let Some(status) = file(script, child.try_wait())? {
            break status;
        }
        if start.elapsed() > limit {
            file(script, child.kill())?;
            file(script, child.wait())?;
            return Err(Error::Peer(format!(
                "{}: stopped after {} s; what it had measured by then is kept",
                script.display(),
                limit.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if status.success() {
        return Ok(());
    }
    Err(Error::Peer(format!("{}: {status}", script.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Size;
    use crate::ops;

    #[test]
    fn lines_of_all_kinds_are_read_and_cut_ones_are_remarks() {
        let mut peers = Peers::default();
        peers.read(
            "{\"version\": \"torch 2\"}\n{\"id\": 3, \"peer\": \"torch\", \"us\": 1.5}\n\
             {\"id\": 3, \"peer\": \"seed\", \"error\": \"out of memory\"}\n\
             {\"rate\": \"matmul f32\", \"tflops\": 51.5}\n{\"id\": 4, \"pe",
        );
        assert_eq!(peers.versions, ["torch 2"]);
        let times = &peers.times[&3];
        assert_eq!((times[0].us, times[1].us), (Some(1.5), None));
        assert_eq!(times[1].error.as_deref(), Some("out of memory"));
        assert_eq!(peers.rates[0].tflops, Some(51.5));
        assert_eq!(peers.remarks.len(), 1, "{:?}", peers.remarks);
    }

    #[test]
    fn scripts_are_found_and_requests_name_every_case() {
        assert!(folder().is_some());
        let cases: Vec<_> = ops::ALL.iter().flat_map(|(_, cases)| cases(Size::Full)).collect();
        let cases: Vec<_> = cases.iter().collect();
        let request = request(&cases, 60 << 20, &Protocol::FULL);
        let listed = request["cases"].as_array().expect("a list");
        assert_eq!(listed.len(), cases.len());
        assert!(listed.iter().enumerate().all(|(id, case)| case["id"] == id && case["problem"].is_object()));
    }

    #[test]
    fn a_script_that_fails_or_hangs_is_a_remark() {
        let scratch = tempfile::tempdir().expect("a folder");
        let script = scratch.path().join("script");
        fs::write(&script, "echo '{\"version\": \"shell\"}' > $2\nexec sleep 60\n").expect("written");
        let output = scratch.path().join("out");
        let run = |limit| run_script("sh", &script, Path::new("in"), &output, Duration::from_millis(limit));
        let error = run(300).expect_err("it hangs").to_string();
        assert!(error.contains("stopped after"), "{error}");
        assert!(fs::read_to_string(&output).expect("output").contains("shell"));
        fs::write(&script, "exit 3\n").expect("written");
        let error = run(10_000).expect_err("it fails").to_string();
        assert!(error.contains('3'), "{error}");
    }
}
