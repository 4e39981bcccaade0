//! The CPU: references on host memory, timed by the clock.

use std::cell::UnsafeCell;
use std::time::Instant;

use cotangent::{Device, LaunchOptions};

use super::{Burst, Place, Work};
use crate::error::{Error, Result};

/// Bytes that a bench takes of the host's memory at most.
const ROOM: u64 = 1 << 30;

/// The CPU as a place.
pub struct Cpu {
    device: Device,
    /// Written through its address by launches, too.
    block: Box<[UnsafeCell<[u64; 32]>]>,
}

impl Default for Cpu {
    fn default() -> Self {
        Self { device: Device::cpu(), block: Box::default() }
    }
}

impl Cpu {
    /// Where bytes of the block lie.
    fn at(&self, offset: u64, bytes: u64) -> Result<*mut u8> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.reserved()) {
            return Err(Error::Room { needs: offset.saturating_add(bytes), room: self.reserved() });
        }
        Ok((self.base() + offset) as *mut u8)
    }
}

impl Place for Cpu {
    fn device(&self) -> &Device {
        &self.device
    }

    fn name(&self) -> String {
        "CPU".to_owned()
    }

    fn driver(&self) -> String {
        format!("rayon with {} threads", rayon::current_num_threads())
    }

    fn cache_bytes(&self) -> u64 {
        1 << 20
    }

    fn room(&self) -> Result<u64> {
        Ok(ROOM)
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        if bytes > ROOM {
            return Err(Error::Room { needs: bytes, room: ROOM });
        }
        // One more, so that the base can lie on a boundary.
        self.block = (0..=bytes.div_ceil(256)).map(|_| UnsafeCell::new([0; 32])).collect();
        Ok(())
    }

    fn base(&self) -> u64 {
        self.block.as_ptr().expose_provenance().next_multiple_of(256) as u64
    }

    fn reserved(&self) -> u64 {
        256 * self.block.len().saturating_sub(1) as u64
    }

    fn upload(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let to = self.at(offset, bytes.len() as u64)?;
        // SAFETY: `at` checked the range; the caller's bytes are elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    fn download(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let from = self.at(offset, bytes.len() as u64)?;
        // SAFETY: as for upload.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()> {
        let (to, from) = (self.at(to, bytes)?, self.at(from, bytes)?);
        // SAFETY: `at` checked both ranges, and the function allows them to overlap.
        unsafe { std::ptr::copy(from, to, bytes as usize) };
        Ok(())
    }

    fn fill(&self, offset: u64, bytes: u64, value: u8) -> Result<()> {
        let to = self.at(offset, bytes)?;
        // SAFETY: `at` checked the range.
        unsafe { std::ptr::write_bytes(to, value, bytes as usize) };
        Ok(())
    }

    fn options(&self) -> LaunchOptions<'_> {
        LaunchOptions::new()
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn burst<'a>(&'a self, launches: usize, work: Work<'a>) -> Result<Box<dyn Burst + 'a>> {
        Ok(Box::new(Calls { launches, work }))
    }
}

/// Calls one after the other.
struct Calls<'a> {
    launches: usize,
    work: Work<'a>,
}

impl Burst for Calls<'_> {
    fn time_us(&mut self) -> Result<f64> {
        let start = Instant::now();
        (0..self.launches).try_for_each(&self.work)?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }
}
