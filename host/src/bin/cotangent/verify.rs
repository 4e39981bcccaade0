//! `cotangent verify`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use cotangent::verify::{Row, Scope, verify};
use cotangent::{DType, Device};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::output::{Problem, print, table};

/// Findings printed for a row of the table; the JSON file has them all.
const SHOWN: usize = 3;

/// What to verify, and where.
#[derive(Args)]
pub(crate) struct Options {
    /// Where: `auto` (the first GPU, or else the CPU), `cpu`, `cuda` or `cuda:N`.
    #[arg(long, default_value = "auto")]
    device: String,
    /// One kernel alone, such as `conv2d_forward`.
    #[arg(long)]
    kernel: Option<String>,
    /// One element type alone.
    #[arg(long)]
    dtype: Option<DType>,
    /// Write the results to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Problem> {
    let scope = Scope::new(options.kernel.as_deref(), options.dtype)?;
    let (device, remark) = device(&options.device)?;
    let scope = scope.plans(device.is_gpu());
    let start = Instant::now();
    let bar = ProgressBar::new(scope.len() as u64).with_style(style());
    let rows = verify(&device, &scope, |kernel, dtype| {
        bar.set_message(format!("{kernel} {dtype}"));
        bar.inc(1);
    });
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", report(&device, &rows, seconds));
        std::fs::write(path, text)
            .map_err(|error| Problem::File { path: path.display().to_string(), error })?;
    }
    let passed = rows.iter().all(Row::passed);
    match present(&device, remark.as_deref(), &rows, seconds) {
        Err(Problem::Pipe) | Ok(()) => {}
        Err(problem) => return Err(problem),
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The device of this name, and what there is to say about the choice.
fn device(name: &str) -> Result<(Device, Option<String>), Problem> {
    if name != "auto" {
        return Ok((Device::named(name)?, None));
    }
    Ok(match Device::cuda(0) {
        Ok(device) => (device, None),
        Err(error) => {
            let remark = format!(
                "No GPU was found ({error}). What a CPU can verify: the references, by worked literals, by the \
                 adjoint identity, and from one element type to another."
            );
            (Device::cpu(), Some(remark))
        }
    })
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Prints the table and what failed.
fn present(device: &Device, remark: Option<&str>, rows: &[Row], seconds: f64) -> Result<(), Problem> {
    if let Some(remark) = remark {
        print(remark)?;
    }
    let mut results = table(["kernel", "dtype", "cases", "largest error", "bound", "verdict"]);
    for row in rows {
        let (error, bound) = if row.worst.bound > 0.0 {
            (format!("{:.2e}", row.worst.error), format!("{:.2e}", row.worst.bound))
        } else {
            (row.worst.error.to_string(), "exact".to_owned())
        };
        let verdict = if row.passed() { "pass".to_owned() } else { format!("{} fail", row.findings.len()) };
        results.add_row([row.kernel, row.dtype.name(), &row.cases.to_string(), &error, &bound, &verdict]);
    }
    print(results)?;
    for row in rows {
        for finding in row.findings.iter().take(SHOWN) {
            print(format_args!("failed: {finding}"))?;
        }
        if let Some(more @ 1..) = row.findings.len().checked_sub(SHOWN) {
            print(format_args!("failed: {} {}: {more} more", row.kernel, row.dtype))?;
        }
    }
    let cases: usize = rows.iter().map(|row| row.cases).sum();
    let failed: usize = rows.iter().map(|row| row.findings.len()).sum();
    let verdict = if failed == 0 { "all passed".to_owned() } else { format!("{failed} failed") };
    print(format_args!("{cases} cases on {device} in {seconds:.1} s: {verdict}"))
}

/// The same as JSON. An infinite error, which JSON cannot say, is null.
fn report(device: &Device, rows: &[Row], seconds: f64) -> serde_json::Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let findings: Vec<_> = row.findings.iter().map(ToString::to_string).collect();
            json!({
                "kernel": row.kernel,
                "dtype": row.dtype.name(),
                "cases": row.cases,
                "largest_error": row.worst.error,
                "bound": row.worst.bound,
                "passed": row.passed(),
                "findings": findings,
            })
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "device": device.to_string(),
        "seconds": seconds,
        "passed": rows.iter().all(|row| row["passed"] == true),
        "rows": rows,
    })
}
