//! The same convolution has the same bits: run after run, on any stream, in any process.
//!
//! On a GPU twenty runs on two streams at once; on the PTX machine, which takes its time, a few. The second process is
//! this program again.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use cotangent::driver::CudaDevice;
use cotangent::kernels::KERNELS;
use cotangent::launch::Target;
use cotangent::verify::{Call, Executor, Failure, HostBuffer};
use cotangent::{Device, Stream};
use cotangent_tests::gpu::Gpu;
use cotangent_tests::jobs::{Convolution, convolutions};
use sha2::{Digest, Sha256};

/// Tells the second process to print a fingerprint.
const CHILD: &str = "COTANGENT_BITS_CHILD";

/// What comes before it.
const FINGERPRINT: &str = "fingerprint of all convolutions: ";

/// Runs on a GPU, of which each of two streams has half.
const GPU_RUNS: usize = 20;

/// Runs on the machine.
const MACHINE_RUNS: usize = 2;

/// The first GPU, twice: as the library has it, and as its driver layer has it.
struct Opened {
    device: Device,
    driver: Arc<CudaDevice>,
}

impl Opened {
    fn first() -> Option<Self> {
        let device = Device::cuda(0).inspect_err(|error| println!("on the PTX machine: {error}")).ok()?;
        println!("on {device}");
        Some(Self { device, driver: CudaDevice::open(0).unwrap() })
    }

    fn target(&self) -> Target {
        let info = self.driver.info();
        let capability = (info.compute_capability.major, info.compute_capability.minor);
        Target { capability, multiprocessors: info.multiprocessors }
    }
}

/// The GPU, or a large one that the machine plays; a small one, which has larger tiles; and one without tensor cores, which
/// has kernels of its own.
fn targets(gpu: Option<&Opened>) -> [Target; 3] {
    let own = gpu.map_or(Target { capability: (9, 0), multiprocessors: 132 }, Opened::target);
    [own, Target { multiprocessors: 1, ..own }, Target { capability: (7, 0), ..own }]
}

/// A GPU that launches on one stream: what it plans itself as the library does, and what is planned for another.
struct OnStream<'a> {
    gpu: &'a Opened,
    stream: Stream,
    other: Option<Gpu>,
}

impl Executor for OnStream<'_> {
    fn name(&self) -> String {
        self.gpu.device.to_string()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        if let Some(other) = &self.other {
            return other.run(call, buffers);
        }
        let call = Call { options: call.options.stream(&self.stream), ..*call };
        self.gpu.device.run(&call, buffers)
    }
}

/// The bits of each convolution, run after run, on an executor that is made for it.
fn runs<'a>(
    all: &[Convolution],
    runs: usize,
    executor: impl Fn(&Convolution) -> Box<dyn Executor + 'a>,
) -> Vec<Vec<Vec<u8>>> {
    let bits = |convolution: &Convolution| {
        let executor = executor(convolution);
        let bits: Result<Vec<_>, _> = (0..runs).map(|_| convolution.bits(&*executor)).collect();
        bits.unwrap_or_else(|failure| panic!("{}: {failure}", convolution.label()))
    };
    all.iter().map(bits).collect()
}

/// The same, half of the runs on each of two streams.
fn runs_on_streams(gpu: &Opened, all: &[Convolution], total: usize) -> Vec<Vec<Vec<u8>>> {
    let own = gpu.target();
    let on_stream = || {
        let stream = gpu.device.stream().unwrap();
        let second = Gpu::new(&gpu.driver).unwrap();
        runs(all, total / 2, |convolution| {
            let other = (convolution.target != own)
                .then(|| second.planned(convolution.target, convolution.algorithm));
            Box::new(OnStream { gpu, stream: stream.clone(), other })
        })
    };
    let [one, two] = thread::scope(|scope| {
        let streams = [scope.spawn(on_stream), scope.spawn(on_stream)];
        streams.map(|stream| stream.join().expect("a stream's runs"))
    });
    one.into_iter().zip(two).map(|(one, two)| [one, two].concat()).collect()
}

#[test]
fn conv2d_has_the_same_bits_over_runs_streams_and_processes() {
    let is_child = std::env::var_os(CHILD).is_some();
    let second = (!is_child).then(|| {
        let name = thread::current().name().expect("a test's thread has its name").to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &name, "--nocapture"]).env(CHILD, "1");
        command.stdout(Stdio::piped()).spawn().expect("this program again")
    });
    let gpu = Opened::first();
    let all = convolutions(&targets(gpu.as_ref()));
    let total = match (&gpu, is_child) {
        (Some(_), true) => 2,
        (Some(_), false) => GPU_RUNS,
        (None, true) => 1,
        (None, false) => MACHINE_RUNS,
    };
    let bits = match &gpu {
        Some(gpu) => runs_on_streams(gpu, &all, total),
        None => runs(&all, total, |convolution| Box::new(convolution.machine())),
    };
    let mut hash = Sha256::new();
    for (convolution, bits) in all.iter().zip(&bits) {
        assert_eq!(bits.len(), total, "{}", convolution.label());
        assert!(!bits[0].is_empty(), "{}", convolution.label());
        let other = bits.iter().position(|other| *other != bits[0]);
        assert_eq!(other, None, "{}: a run with other bits than the first", convolution.label());
        hash.update(&bits[0]);
    }
    let own = format!("{:02x?}", hash.finalize().as_slice());
    println!("{FINGERPRINT}{own}");
    let Some(second) = second else { return };
    let output = second.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let theirs = text.lines().find_map(|line| line.split_once(FINGERPRINT)).map(|(_, theirs)| theirs);
    assert_eq!(theirs, Some(&*own), "a second process: {text}");
}

#[test]
fn these_convolutions_launch_every_kernel_of_a_convolution() {
    let targets = targets(Opened::first().as_ref());
    let all = convolutions(&targets);
    let called: BTreeSet<_> = all.iter().map(Convolution::kernel).collect();
    assert_eq!(called.len(), 4);
    let launched: BTreeSet<_> = all.iter().flat_map(|one| &one.modules).map(|module| module.0).collect();
    println!("{} convolutions, {} kernels", all.len(), launched.len());
    if targets[0].capability < (8, 0) {
        println!("{:?} has no tensor cores, and so not all kernels", targets[0]);
        return;
    }
    for kernel in KERNELS.iter().filter(|kernel| kernel.name.starts_with("conv2d_")) {
        assert!(launched.contains(kernel.name), "{} is launched by none", kernel.name);
    }
}
