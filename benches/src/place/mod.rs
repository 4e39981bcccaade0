//! Where cases run and are timed: memory, launches and clocks of a GPU or of the CPU.

mod cpu;
mod gpu;

use cotangent::{Device, LaunchOptions};

use crate::error::{Error, Result};

pub use cpu::Cpu;
pub use gpu::Gpu;

/// Enqueues the launch of this number.
pub type Work<'a> = Box<dyn Fn(usize) -> Result<()> + 'a>;

/// Launches that are timed together.
pub trait Burst {
    /// Runs them once, and returns the microseconds that they took together.
    ///
    /// # Errors
    /// What the driver says of the work.
    fn time_us(&mut self) -> Result<f64>;
}

/// A device with one block of memory for everything that a case needs. Offsets count its bytes.
pub trait Place {
    /// The device.
    fn device(&self) -> &Device;

    /// What the device is called in records.
    fn name(&self) -> String;

    /// What drives it, with its version.
    fn driver(&self) -> String;

    /// Bytes of the last cache before the memory.
    fn cache_bytes(&self) -> u64;

    /// Bytes that [`reserve`](Place::reserve) can give.
    ///
    /// # Errors
    /// What the driver answers.
    fn room(&self) -> Result<u64>;

    /// Makes the block this long, and forgets what it held.
    ///
    /// # Errors
    /// Out of memory.
    fn reserve(&mut self, bytes: u64) -> Result<()>;

    /// The block's address, a multiple of 256.
    fn base(&self) -> u64;

    /// The block's bytes.
    fn reserved(&self) -> u64;

    /// Copies bytes into the block.
    ///
    /// # Errors
    /// A range outside the block.
    fn upload(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Copies bytes out of the block, after all work.
    ///
    /// # Errors
    /// A range outside the block, and what the driver says of earlier work.
    fn download(&self, offset: u64, bytes: &mut [u8]) -> Result<()>;

    /// Copies bytes within the block, in the order of the work.
    ///
    /// # Errors
    /// A range outside the block.
    fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()>;

    /// Sets bytes of the block, in the order of the work.
    ///
    /// # Errors
    /// A range outside the block.
    fn fill(&self, offset: u64, bytes: u64, value: u8) -> Result<()>;

    /// The options that put a launch in the order of the work.
    fn options(&self) -> LaunchOptions<'_>;

    /// Waits for all work.
    ///
    /// # Errors
    /// What the driver says of it.
    fn synchronize(&self) -> Result<()>;

    /// Puts launches together. The work is called for each of them, now or whenever the burst is timed.
    ///
    /// # Errors
    /// What the work returns.
    fn burst<'a>(&'a self, launches: usize, work: Work<'a>) -> Result<Box<dyn Burst + 'a>>;

    /// The GPU, if it is one.
    fn gpu(&self) -> Option<&Gpu> {
        None
    }
}

/// The place of this name: `auto`, `cpu`, `cuda` or `cuda:N`.
///
/// # Errors
/// A name that is none of these, or a GPU that cannot be used.
pub fn named(name: &str) -> Result<Box<dyn Place>> {
    match name {
        "cpu" => Ok(Box::new(Cpu::default())),
        "auto" => match Gpu::open(0) {
            Ok(gpu) => Ok(Box::new(gpu)),
            Err(_) => Ok(Box::new(Cpu::default())),
        },
        "cuda" => Ok(Box::new(Gpu::open(0)?)),
        _ => match name.strip_prefix("cuda:").map(str::parse) {
            Some(Ok(ordinal)) => Ok(Box::new(Gpu::open(ordinal)?)),
            // The library's words for a name that is none.
            _ => match Device::named(name) {
                Ok(device) => Err(Error::Peer(format!("{device} cannot be measured"))),
                Err(error) => Err(error.into()),
            },
        },
    }
}
