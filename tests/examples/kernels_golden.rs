//! Records what a GPU leaves in the outputs of every job of the suite, as digests: `ptx_corpus/golden/kernels.txt.gz`, or
//! the file that is given.
//!
//! `cargo run --release -p cotangent-tests --example kernels_golden [FILE]` on a machine with an NVIDIA GPU of compute
//! capability 9.0. Nothing is written unless every job passes.

use std::error::Error;

use cotangent::driver::CudaDevice;
use cotangent_tests::golden::{self, Digesting};
use cotangent_tests::gpu::Gpu;
use cotangent_tests::jobs;
use rayon::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let device = CudaDevice::open(0)?;
    let jobs = jobs::all();
    let digest = |gpu: &mut Result<Gpu, String>, job: &jobs::Job| {
        let gpu = gpu.as_ref().map_err(Clone::clone)?.for_job(job);
        let digesting = Digesting::new(&gpu);
        job.run(&digesting).map_err(|failure| format!("{}: {failure}", job.label))?;
        Ok(digesting.digest())
    };
    let gpu = || Gpu::new(&device).map_err(|error| error.to_string());
    let digests: Vec<Result<u32, String>> = jobs.par_iter().map_init(gpu, digest).collect();
    let failures: Vec<&String> = digests.iter().filter_map(|digest| digest.as_ref().err()).collect();
    if !failures.is_empty() {
        for failure in &failures {
            eprintln!("{failure}");
        }
        return Err(format!("{} of {} jobs failed", failures.len(), jobs.len()).into());
    }
    let digests: Vec<u32> = digests.into_iter().flatten().collect();
    let info = device.info();
    let version = 1000 * info.driver.major + 10 * info.driver.minor;
    let text = golden::write(&jobs, &digests, &format!("{}, CUDA driver API {version}", info.name));
    let path = std::env::args_os().nth(1).map_or_else(golden::file, Into::into);
    golden::save(&path, &text)?;
    println!("{} jobs: {}", jobs.len(), path.display());
    Ok(())
}
