//! Measures every case and the peers in one run, and writes the record.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use cotangent::DType;
use cotangent_benches::case::{Case, Size};
use cotangent_benches::ceiling::Ceiling;
use cotangent_benches::measure::{self, Protocol};
use cotangent_benches::peers::{self, Peers};
use cotangent_benches::place::{Choice, Cpu, Gpu, Place};
use cotangent_benches::report::{Report, summary};
use cotangent_benches::{Result, loads, ops};
use indicatif::{ProgressBar, ProgressStyle};

/// Seconds that each of the peers' scripts may take.
const PEER_SECONDS: u64 = 100;

/// Misses that are printed; the table has them all.
const SHOWN: usize = 40;

/// Measures cotangent's kernels and other libraries on one machine, in one run.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Where: `auto` (the first GPU), `cuda`, `cuda:N`, or `cpu`, which runs tiny shapes.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Write `<OUT>/<gpu>/<date>.csv`, `.md` and `.svg`.
    #[arg(long, default_value = "benches/record")]
    out: PathBuf,
    /// These operations alone.
    #[arg(long)]
    op: Vec<String>,
    /// These element types alone.
    #[arg(long)]
    dtype: Vec<DType>,
    /// Cases whose description has this in it alone.
    #[arg(long)]
    case: Option<String>,
    /// The yardstick's shapes alone, in f32 and bf16, with fewer repetitions.
    #[arg(long)]
    quick: bool,
    /// How large shapes are, instead of full on a GPU and tiny on the CPU.
    #[arg(long, value_enum)]
    shapes: Option<Size>,
    /// The folder with the peers' scripts, instead of the one beside this program.
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Leave the peers out.
    #[arg(long)]
    no_peers: bool,
    /// The Python that runs them.
    #[arg(long, default_value = "python3")]
    python: String,
    /// Seconds after which a peer's script is stopped.
    #[arg(long, default_value_t = PEER_SECONDS)]
    peer_seconds: u64,
    /// List the cases, and measure nothing.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    if loads::is_child() {
        return ExitCode::SUCCESS;
    }
    env_logger::init();
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode> {
    if options.list {
        let all = ops::ALL.iter().flat_map(|(_, cases)| cases(options.shapes.unwrap_or(Size::Full)));
        for case in all.filter(|case| wanted(options, case)) {
            println!("{case}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut place: Box<dyn Place> = match options.device.parse()? {
        Choice::Cpu => Box::new(Cpu::default()),
        Choice::Gpu(ordinal) => Box::new(Gpu::open(ordinal)?),
        Choice::Auto => match Gpu::open(0) {
            Ok(gpu) => Box::new(gpu),
            Err(error) => {
                println!("No GPU was found ({error}). Nothing is recorded; --device cpu runs tiny shapes.");
                return Ok(ExitCode::SUCCESS);
            }
        },
    };
    let on_gpu = place.gpu().is_some();
    let size = options.shapes.unwrap_or(if on_gpu { Size::Full } else { Size::Tiny });
    let protocol = match (size, options.quick) {
        (Size::Full, false) => Protocol::FULL,
        (Size::Full, true) => Protocol::QUICK,
        _ => Protocol::TINY,
    };
    let all: Vec<_> = ops::ALL.iter().flat_map(|(_, cases)| cases(size)).collect();
    let cases: Vec<_> = all.iter().filter(|case| wanted(options, case)).collect();
    if cases.is_empty() {
        println!("No case is left. The operations are {}.", ops::ALL.map(|(op, _)| op).join(", "));
        return Ok(ExitCode::FAILURE);
    }

    let start = Instant::now();
    let ceiling = Ceiling::measure(&mut *place, &protocol)?;
    let bar = progress(cases.len() as u64);
    let measured = measure::all(&mut *place, &cases, &protocol, |case| {
        bar.set_message(case.to_string());
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    let costs = match place.gpu() {
        Some(gpu) => loads::measure(gpu)?,
        None => Vec::new(),
    };
    let ours_seconds = start.elapsed().as_secs_f64();
    let mut report = Report {
        gpu: place.name(),
        driver: place.driver(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        ceiling,
        costs,
        measured,
        peers: Peers::default(),
    };
    // Written before the peers run, too: what is measured is kept whatever happens to them.
    report.write(&options.out)?;
    let request = peers::request(&cases, place.cache_bytes(), &protocol);
    drop(place);
    if !options.no_peers && (on_gpu || options.peers.is_some()) {
        report.peers = run_peers(options, &report.gpu, &request)?;
        report.write(&options.out)?;
    }
    present(options, &report, ours_seconds, start.elapsed().as_secs_f64());
    let failed = report.measured.iter().any(|measured| measured.us.is_err());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn wanted(options: &Options, case: &Case) -> bool {
    let among = |listed: bool, empty: bool| listed || empty;
    let op = case.problem.op();
    among(options.op.iter().any(|wanted| wanted == op), options.op.is_empty())
        && among(options.dtype.contains(&case.dtype), options.dtype.is_empty())
        && (case.quick || !options.quick)
        && options.case.as_ref().is_none_or(|text| case.to_string().contains(text))
}

fn progress(cases: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}");
    ProgressBar::new(cases).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn run_peers(options: &Options, gpu: &str, request: &serde_json::Value) -> Result<Peers> {
    let Some(folder) = options.peers.clone().or_else(peers::folder) else {
        let remark = "the peers' scripts were not found; --peers DIR names their folder".to_owned();
        return Ok(Peers { remarks: vec![remark], ..Peers::default() });
    };
    let scratch = std::env::temp_dir().join(format!("cotangent-peers-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)
        .map_err(|error| cotangent_benches::Error::File { path: scratch.clone(), error })?;
    eprintln!("{gpu}: running the peers in {}", folder.display());
    let limit = Duration::from_secs(options.peer_seconds);
    let peers = peers::run(&options.python, &folder, &scratch, request, limit);
    // What is left of the folder does no harm.
    let _ = std::fs::remove_dir_all(&scratch);
    peers
}

/// Prints the short table, last, and before it what misses its mark.
fn present(options: &Options, report: &Report<'_>, ours_seconds: f64, seconds: f64) {
    for remark in &report.peers.remarks {
        println!("{remark}");
    }
    let misses = report.misses();
    for miss in misses.iter().take(SHOWN) {
        println!("below: {miss}");
    }
    if misses.len() > SHOWN {
        println!("below: {} more", misses.len() - SHOWN);
    }
    for cost in &report.costs {
        let bound = cost.bound_us.map_or_else(String::new, |bound| {
            format!(", {} {bound} µs", if cost.holds() { "below" } else { "NOT below" })
        });
        println!("{}: {:.2} µs{bound}", cost.what, cost.us);
    }
    println!("{}", summary(report));
    println!(
        "{}: copy {:.0} GB/s; {} cases, {} below what is expected; {ours_seconds:.0} s, with peers {seconds:.0} s; \
         written to {}",
        report.gpu,
        report.ceiling.copy_gbps(),
        report.measured.len(),
        misses.len(),
        options.out.display(),
    );
}
