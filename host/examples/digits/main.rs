//! Trains a small network on real handwritten digits, forward and backward through this library's kernels, on a GPU or
//! on the CPU.
//!
//! `cargo run --release --example digits`

#![allow(missing_docs, reason = "a program")]

mod data;
mod network;
mod plot;
mod timing;
mod train;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use cotangent::Device;
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressStyle};

use data::Digits;
use train::{BATCH, Outcome, Plan, train};

/// Trains a small network on handwritten digits.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Where to train: auto (the first GPU, else the CPU), cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Passes over the training set.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    epochs: u16,
    /// The element type that the network computes in; weights are kept in f32.
    #[arg(long, value_enum, default_value_t = Type::F32)]
    dtype: Type,
    /// What all randomness follows from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Whether to record an epoch's steps once and replay them; auto does on a GPU.
    #[arg(long, value_enum, default_value_t = Switch::Auto)]
    graph: Switch,
    /// Another data file: 64 pixels from 0 to 16 and the label a line, as CSV or CSV in gzip.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Where the picture goes.
    #[arg(long, default_value = "target/digits.png")]
    plot: PathBuf,
    /// Writes the loss of each step to this file, one a line.
    #[arg(long)]
    losses: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Type {
    F32,
    F16,
    Bf16,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    Auto,
    On,
    Off,
}

fn main() -> ExitCode {
    env_logger::init();
    let start = Instant::now();
    match run(&Options::parse(), start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, start: Instant) -> Result<(), Box<dyn std::error::Error>> {
    let digits = Digits::load(options.data.as_deref())?;
    let (training, test) = digits.split(options.data.as_deref(), BATCH)?;
    let device = Device::named(&options.device)?;
    let graph = match options.graph {
        Switch::Auto => device.is_gpu(),
        switch => switch == Switch::On,
    };
    // Gradients of f16 below 2⁻²⁴ would be zero.
    let loss_scale = if options.dtype == Type::F16 { 256.0 } else { 1.0 };
    let plan = Plan { epochs: options.epochs.into(), seed: options.seed, graph, loss_scale };
    println!("{} digits to train on, {} to test on, on {device}", training.len(), test.len());

    let style = "{bar:30} {pos}/{len} epochs  {msg}  {elapsed}";
    let bar = ProgressBar::new(plan.epochs as u64).with_style(ProgressStyle::with_template(style)?);
    let outcome = match options.dtype {
        Type::F32 => train::<f32>(&device, &plan, &training, &test, &bar)?,
        Type::F16 => train::<f16>(&device, &plan, &training, &test, &bar)?,
        Type::Bf16 => train::<bf16>(&device, &plan, &training, &test, &bar)?,
    };
    bar.finish();

    println!("{}", table(&outcome));
    println!("{} weights, fingerprint {:016x}", outcome.weights, outcome.fingerprint);
    let steps = outcome.losses.len();
    println!(
        "{steps} steps in {:.3} s, {:.1} µs a step, graph replay {}",
        outcome.stepping.as_secs_f64(),
        outcome.stepping.as_secs_f64() * 1e6 / steps as f64,
        if graph { "on" } else { "off" }
    );
    if let Some(path) = &options.losses {
        let lines: Vec<String> = outcome.losses.iter().map(|loss| format!("{loss}\n")).collect();
        std::fs::write(path, lines.concat())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    plot::draw(&options.plot, &outcome, &test).map_err(|error| {
        format!("cannot draw {}: {error}; --plot FILE puts it elsewhere", options.plot.display())
    })?;
    println!("picture: {}", options.plot.display());
    let right =
        outcome.told.iter().zip(&test.labels).filter(|&(&told, &label)| told == label as usize).count();
    println!(
        "test accuracy {:.2} % ({right}/{}) in {:.1} s on {}",
        100.0 * right as f64 / test.len() as f64,
        test.len(),
        start.elapsed().as_secs_f64(),
        if device.is_gpu() { options.device.replace("auto", "cuda") } else { "cpu".to_owned() }
    );
    Ok(())
}

/// Time of each operation in one epoch.
fn table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["operation", "calls", "µs a call", "share"]);
    let total: f64 = outcome.rows.iter().map(|row| row.us).sum();
    let mut rows: Vec<_> = outcome.rows.iter().collect();
    rows.sort_by(|a, b| b.us.total_cmp(&a.us));
    for row in rows {
        table.add_row([
            row.name.to_owned(),
            row.calls.to_string(),
            format!("{:.1}", row.us / row.calls as f64),
            format!("{:.1} %", 100.0 * row.us / total),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
