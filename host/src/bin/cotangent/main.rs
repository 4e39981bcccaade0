//! The command line: which devices there are, which kernels, what they look like, and whether they are right.

mod devices;
mod list;
mod output;
mod show;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::Problem;

/// Typed GPU kernels for the forward and backward pass of neural-network operations.
#[derive(Parser)]
#[command(name = "cotangent", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the GPUs of this machine, and its CPU.
    Devices,
    /// List the kernels with their constants, element types and modules.
    List,
    /// Print a kernel's source or its PTX.
    Show(show::Options),
    /// Run the operations' kernels in every element type over awkward shapes, and compare with the right answers.
    Verify(verify::Options),
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let result = match Cli::parse().command {
        Command::Devices => devices::run(),
        Command::List => list::run(),
        Command::Show(options) => show::run(&options),
        Command::Verify(options) => verify::run(&options),
    };
    match result {
        Ok(code) => code,
        Err(Problem::Pipe) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}
