//! `cotangent show`.

use std::process::ExitCode;

use clap::Args;
use cotangent::DType;
use cotangent::verify::kernel;

use crate::output::{Problem, print};

/// What to show, and of which kernel. Without a choice: the whole source.
#[derive(Args)]
pub(crate) struct Options {
    /// The kernel's name, such as `conv2d_backward`; `cotangent list` has them all.
    kernel: String,
    /// The constants, in the kernel's order.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true)]
    constants: Vec<i32>,
    /// The element type.
    #[arg(long)]
    dtype: DType,
    /// The kernel function and its entry point.
    #[arg(long, group = "what")]
    source: bool,
    /// The entry point alone, with the constants as literals.
    #[arg(long, group = "what")]
    entry_point: bool,
    /// The PTX, with the constants written in.
    #[arg(long, group = "what")]
    ptx: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Problem> {
    let kernel = kernel(&options.kernel, options.dtype, &options.constants)?;
    if options.ptx {
        print(kernel.specialised_ptx()?.trim_end())?;
    } else if options.entry_point {
        print(kernel.entry_point_source().trim_end())?;
    } else {
        print(kernel.source().trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
