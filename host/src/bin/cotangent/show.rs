//! `cotangent show`.

use std::process::ExitCode;

use clap::Args;
use cotangent::{DType, Error, kernels, verify};

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
    let name = &options.kernel;
    let info = kernels::find(name).ok_or_else(|| {
        let known: Vec<_> = kernels::KERNELS.iter().map(|kernel| kernel.name).collect();
        Problem::Kernel { name: name.clone(), known: known.join(", ") }
    })?;
    let (want, have) = (info.constants.len(), options.constants.len());
    if want != have {
        let names: Vec<_> = info.constants.iter().map(|constant| constant.name).collect();
        return Err(Problem::Constants { kernel: info.name, want, names: names.join(", "), have });
    }
    if verify::kernels().contains(&info.name) {
        // Its struct knows which constants it can have.
        verify::kernel(name, options.dtype, &options.constants)?;
    }
    let (kernel, dtype) = (info.name, options.dtype);
    let missing = Error::MissingModule { kernel, dtype: dtype.name() };
    let module = info.module(dtype.kind(info.family)).ok_or(missing)?;
    let entry_point = info.entry_point_source(dtype, &options.constants);
    if options.ptx {
        print(info.specialise(module, &options.constants)?.trim_end())?;
    } else if options.entry_point {
        print(entry_point.trim_end())?;
    } else {
        print(format!("{}\n\n{}", info.source, entry_point.trim_end()))?;
    }
    Ok(ExitCode::SUCCESS)
}
