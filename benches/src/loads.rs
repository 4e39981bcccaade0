//! What loading a kernel and launching it cost the host, each beside its bound.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cotangent::{ChannelCatForward, Device, FlattenForward, LaunchOptions};

use crate::error::{Error, Result};
use crate::measure::{Protocol, median};
use crate::place::{Gpu, Place};

/// Tells a child process to load the kernel with this block, and to print the microseconds.
const CHILD: &str = "COTANGENT_BENCH_LOAD";

/// Kernels that are compiled.
const COMPILED: usize = 9;

/// Loads from the cache.
const CACHED: usize = 1001;

/// Launches.
const LAUNCHES: usize = 10_000;

/// Launches after which the device catches up, so that none waits for room in the driver's queue.
const IN_FLIGHT: usize = 256;

/// A cost, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// What costs it.
    pub what: &'static str,
    /// The median.
    pub us: f64,
    /// What it must stay below, if there is such a number.
    pub bound_us: Option<f64>,
}

impl Cost {
    /// Whether it is below the bound.
    pub fn holds(&self) -> bool {
        self.bound_us.is_none_or(|bound| self.us < bound)
    }
}

/// Measures all costs on a GPU.
///
/// # Errors
/// What the driver answers, and a child process that failed.
pub fn measure(gpu: &Gpu) -> Result<Vec<Cost>> {
    let ordinal = gpu.driver_device().info().ordinal;
    let base = unused_block();
    let load = |block: i32| load_us(gpu.device(), &gpu.options(), block);
    // The driver starts its compiler with the first module.
    load(base)?;
    let mut compiled = (1..=COMPILED as i32).map(|i| load(base + i)).collect::<Result<Vec<_>>>()?;
    let mut cached = (0..CACHED).map(|_| load(base)).collect::<Result<Vec<_>>>()?;
    let mut others = (1..=COMPILED as i32)
        .map(|i| child(&["cuda", &ordinal.to_string(), &(base + i).to_string()]))
        .collect::<Result<Vec<_>>>()?;
    let cost = |what, us, bound| Cost { what, us, bound_us: bound };
    Ok(vec![
        cost("load: specialise and compile", median(&mut compiled), Some(40_000.0)),
        cost("load: from the cache", median(&mut cached), Some(10.0)),
        cost("load: second process, from the driver's disk cache", median(&mut others), Some(10_000.0)),
        cost("launch, on the host", launch_us(gpu)?, Some(5.0)),
        cost("empty kernel to empty kernel", crate::ceiling::empty_us(gpu, &Protocol::FULL)?, None),
    ])
}

/// If this process was started to load a kernel, loads it, prints the microseconds, and says so.
pub fn is_child() -> bool {
    let Ok(request) = std::env::var(CHILD) else { return false };
    match serve(&request) {
        Ok(us) => println!("{us}"),
        Err(error) => eprintln!("{error}"),
    }
    true
}

fn serve(request: &str) -> Result<f64> {
    let words: Vec<_> = request.split(' ').collect();
    let unreadable = || Error::Peer(format!("a child was asked for {request:?}"));
    let [kind, ordinal, block] = words[..] else { return Err(unreadable()) };
    let block = block.parse().map_err(|_| unreadable())?;
    let device = match (kind, ordinal.parse()) {
        ("cuda", Ok(ordinal)) => Device::cuda(ordinal)?,
        ("cpu", _) => Device::cpu(),
        _ => return Err(unreadable()),
    };
    load_us(&device, &LaunchOptions::new(), block)
}

/// Asks a process of its own for the time of a load.
fn child(request: &[&str]) -> Result<f64> {
    let program = crate::error::file("this program".as_ref(), std::env::current_exe())?;
    let output = Command::new(&program).env(CHILD, request.join(" ")).output();
    let output = crate::error::file(&program, output)?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        Error::Peer(format!("a second process answered {:?}", String::from_utf8_lossy(&output.stderr)))
    })
}

/// A block size that no run before had, so that the driver's disk cache does not have the module.
fn unused_block() -> i32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    4096 + (now.as_millis() % (1 << 28)) as i32
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Microseconds of loading a kernel that is not launched. Building its struct, which makes its source, is no part
/// of that.
fn load_us(device: &Device, options: &LaunchOptions<'_>, block: i32) -> Result<f64> {
    let kernel = ChannelCatForward::<f32>::try_new(block)?;
    let (x, y) = ((1_u64 << 40) as *mut f32, (1_u64 << 41) as *mut f32);
    let options = options.rows(64);
    timed(|| Ok(device.load(&kernel, (x, y, 64, 128, 0), &options)?))
}

/// The median microseconds that launching a small kernel costs the host.
fn launch_us(gpu: &Gpu) -> Result<f64> {
    let (device, options) = (gpu.device(), gpu.options());
    let kernel = FlattenForward::<f32>::recommended();
    let (from, to) = (device.zeros::<f32>(512)?, device.zeros::<f32>(512)?);
    let mut times = Vec::with_capacity(LAUNCHES);
    for number in 0..LAUNCHES {
        if number % IN_FLIGHT == 0 {
            gpu.synchronize()?;
        }
        // SAFETY: both buffers have 16 · 32 elements and live until the device is synchronised.
        times.push(timed(|| unsafe {
            Ok(device.launch(&kernel, (from.as_ptr(), to.as_ptr(), 16, 32, 32, 1), &options)?)
        })?);
    }
    gpu.synchronize()?;
    Ok(median(&mut times))
}
