//! Keeps a device busy with every kernel over random shapes, from several threads and on several streams, while memory
//! comes and goes; compares all results with the references, and their bits with those of a repetition.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use comfy_table::{Table, presets};
use cotangent::Device;
use cotangent_tests::soak::{self, Finding, Report};

/// Runs every kernel over random shapes for a given time, and compares with the references.
#[derive(Debug, Parser)]
#[command(name = "soak", version)]
struct Arguments {
    /// For how long, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What the cases follow from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where: `auto` (the first GPU, or else the CPU), `cpu`, `cuda`, `cuda:N`, or `machine`, which executes device code
    /// on the CPU.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Cases at a time; there is a stream more than that.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// How much of a GPU's free memory is held at most meanwhile, in percent (on the CPU, of 1 GiB). 0 holds none; with
    /// 100 memory runs out, and cases that get none run again.
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u32).range(0..=100))]
    memory_pressure: u32,
    /// The case of this seed alone, again and again, as a failure names it.
    #[arg(long, value_name = "SEED", value_parser = number)]
    case: Option<u64>,
}

/// A decimal number, or one in hexadecimal after `0x`.
fn number(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let device = if arguments.device == "auto" { first_device() } else { arguments.device.clone() };
    let options = soak::Options {
        device: device.clone(),
        time: Duration::from_secs(arguments.seconds),
        seed: arguments.seed,
        threads: usize::from(arguments.threads),
        pressure: arguments.memory_pressure,
        case: arguments.case,
        fault: None,
    };
    println!(
        "{device} for {} s: seed {}, {} threads, {} % of the memory",
        arguments.seconds, arguments.seed, arguments.threads, arguments.memory_pressure
    );
    let start = Instant::now();
    let tell = |finding: &Finding| match finding.seed {
        Some(seed) => println!("failed: case {seed:#018x}: {}", finding.what),
        None => println!("failed: {}", finding.what),
    };
    match soak::run(&options, &tell) {
        Ok(report) => {
            present(&device, &report, start.elapsed());
            if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

/// The first GPU, or the CPU, of which not much can be said.
fn first_device() -> String {
    match Device::cuda(0) {
        Ok(_) => "cuda:0".to_owned(),
        Err(error) => {
            println!(
                "No GPU was found ({error}), so no device code runs here. What a CPU can soak: the references, from \
                 one element type to another, by the adjoint identity and by repetition, and host memory. With \
                 `--device machine` the checking PTX machine runs device code on the CPU."
            );
            "cpu".to_owned()
        }
    }
}

fn present(device: &str, report: &Report, took: Duration) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["kernel", "dtype", "cases", "failures", "largest error", "bound"]);
    for (&(kernel, dtype), row) in &report.rows {
        let (error, bound) = if row.worst.bound > 0.0 {
            (format!("{:.2e}", row.worst.error), format!("{:.2e}", row.worst.bound))
        } else {
            (row.worst.error.to_string(), "exact".to_owned())
        };
        let [cases, failures] = [row.cases, row.failures].map(|count| count.to_string());
        table.add_row([kernel, dtype, &cases, &failures, &error, &bound]);
    }
    println!("{table}");
    println!(
        "memory: {} bytes held at most, {} requests refused as they should, {} cases ran again after running out",
        report.most_held, report.refused, report.starved
    );
    let verdict = match report.findings.len() {
        0 => "all passed".to_owned(),
        failed => format!("{failed} failed; --device {device} --case SEED repeats one"),
    };
    println!("{} cases on {device} in {:.1} s: {verdict}", report.cases(), took.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failures_seed_is_read_as_it_is_printed() {
        for seed in [0, 10, u64::MAX] {
            let printed = format!("{seed:#018x}");
            let arguments = Arguments::try_parse_from(["soak", "--case", &printed]).expect("good arguments");
            assert_eq!(arguments.case, Some(seed), "{printed}");
            assert_eq!(number(&seed.to_string()), Ok(seed));
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (option, value) in
            [("--threads", "0"), ("--memory-pressure", "101"), ("--case", "0xg"), ("--seconds", "-1")]
        {
            assert!(Arguments::try_parse_from(["soak", option, value]).is_err(), "{option} {value}");
        }
    }
}
