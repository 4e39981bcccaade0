//! `cotangent devices`.

use std::process::ExitCode;

use comfy_table::Table;

use crate::output::{Problem, print, table};

pub(crate) fn run() -> Result<ExitCode, Problem> {
    let mut devices = table(["device", "name", "capability", "memory", "driver"]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    devices.add_row([
        "cpu".to_owned(),
        format!("{threads} threads"),
        String::new(),
        String::new(),
        String::new(),
    ]);
    let absence = add_gpus(&mut devices);
    print(&devices)?;
    if let Some(absence) = absence {
        print(absence)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds a row for each GPU, or says why there is none.
#[cfg(feature = "cuda")]
fn add_gpus(devices: &mut Table) -> Option<String> {
    match cotangent::driver::CudaDevice::list() {
        Ok(gpus) if gpus.is_empty() => Some("There is an NVIDIA driver, but no GPU.".to_owned()),
        Ok(gpus) => {
            for gpu in gpus {
                devices.add_row([
                    format!("cuda:{}", gpu.ordinal),
                    gpu.name,
                    gpu.compute_capability.to_string(),
                    format!("{:.1} GiB", gpu.memory_bytes as f64 / f64::from(1 << 30)),
                    format!("CUDA {}", gpu.driver),
                ]);
            }
            None
        }
        Err(error) => Some(format!("No GPU can be used: {error}.")),
    }
}

#[cfg(not(feature = "cuda"))]
fn add_gpus(_: &mut Table) -> Option<String> {
    Some("No GPU can be used: this build is without the feature cuda.".to_owned())
}
