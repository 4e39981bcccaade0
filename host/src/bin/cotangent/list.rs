//! `cotangent list`.

use std::process::ExitCode;

use cotangent::DType;
use cotangent::kernels::{KERNELS, Module};

use crate::output::{Problem, print, table};

pub(crate) fn run() -> Result<ExitCode, Problem> {
    let mut kernels = table(["kernel", "constants", "element types", "modules"]);
    for kernel in KERNELS {
        let constants: Vec<_> = kernel.constants.iter().map(|constant| constant.name).collect();
        let served = |dtype: &&DType| kernel.module(dtype.kind(kernel.family)).is_some();
        let dtypes: Vec<_> = DType::ALL.iter().filter(served).map(|dtype| dtype.name()).collect();
        kernels.add_row([kernel.name, &constants.join(", "), &dtypes.join(", "), &modules(kernel.modules)]);
    }
    print(kernels)?;
    Ok(ExitCode::SUCCESS)
}

/// The modules' element kinds, those of one target together: `sm_70: b8 b16 b32 b64`.
fn modules(modules: &[Module]) -> String {
    let targets = modules.chunk_by(|a, b| a.target == b.target).map(|group| {
        let kinds: Vec<_> = group.iter().map(|module| module.kind).collect();
        format!("{}: {}", group[0].target, kinds.join(" "))
    });
    targets.collect::<Vec<_>>().join("; ")
}
