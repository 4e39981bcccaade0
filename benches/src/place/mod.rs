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

/// What a device's name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first GPU, if there is one.
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this number.
    Gpu(u32),
}

impl std::str::FromStr for Choice {
    type Err = Error;

    /// `auto`, `cpu`, `cuda` or `cuda:N`.
    fn from_str(name: &str) -> Result<Self> {
        let ordinal = || name.strip_prefix("cuda:")?.parse().ok();
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Gpu(0)),
            _ => ordinal().map(Self::Gpu).ok_or_else(|| Error::Name(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let choice = |name: &str| name.parse::<Choice>();
        assert_eq!(choice("auto").expect("a name"), Choice::Auto);
        assert_eq!(choice("cuda").expect("a name"), Choice::Gpu(0));
        assert_eq!(choice("cuda:7").expect("a name"), Choice::Gpu(7));
        for wrong in ["gpu", "cuda:", "cuda:-1", ""] {
            assert!(matches!(choice(wrong), Err(Error::Name(name)) if name == wrong));
        }
    }

    #[test]
    fn cpu_moves_bytes_within_its_block_alone() {
        let mut cpu = Cpu::default();
        cpu.reserve(1000).expect("memory");
        assert!(cpu.base().is_multiple_of(256) && cpu.reserved() >= 1000);
        cpu.fill(0, 1000, 7).expect("inside");
        cpu.upload(10, &[1, 2, 3]).expect("inside");
        cpu.copy(500, 9, 5).expect("inside");
        let mut bytes = [0; 6];
        cpu.download(499, &mut bytes).expect("inside");
        assert_eq!(bytes, [7, 7, 1, 2, 3, 7]);
        let end = cpu.reserved();
        assert!(matches!(cpu.upload(end - 2, &[1, 2, 3]), Err(Error::Room { .. })));
        assert!(matches!(cpu.copy(u64::MAX, 0, 2), Err(Error::Room { .. })));
    }
}
