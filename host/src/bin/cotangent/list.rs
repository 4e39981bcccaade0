//! `cotangent list`.

use std::process::ExitCode;

use cotangent::DType;
use cotangent::kernels::KERNELS;

use crate::output::{Problem, print, table};

pub(crate) fn run() -> Result<ExitCode, Problem> {
    let mut kernels = table(["kernel", "constants", "element types", "modules"]);
    for kernel in KERNELS {
        let constants: Vec<_> = kernel.constants.iter().map(|constant| constant.name).collect();
        let served = |dtype: &&DType| kernel.module(dtype.kind(kernel.family)).is_some();
        let dtypes: Vec<_> = DType::ALL.iter().filter(served).map(|dtype| dtype.name()).collect();
        let modules: Vec<_> =
            kernel.modules.iter().map(|module| format!("{} ({})", module.kind, module.target)).collect();
        kernels.add_row([kernel.name, &constants.join(", "), &dtypes.join(", "), &modules.join(", ")]);
    }
    print(kernels)?;
    Ok(ExitCode::SUCCESS)
}
