//! Memory that comes and goes while others work: large blocks are held and given back, more is asked for than there is,
//! and nobody may write to what is held.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::sleep;
use std::time::Duration;

use cotangent::driver::{CudaDevice, DriverError};
use cotangent::verify::{Failure, SplitMix64};
use cotangent::{Device, Error, Stream, Tensor};

/// What counts as a CPU's free memory. Blocks are zeros that the system has not made yet.
const CPU_BYTES: u64 = 1 << 30;

/// The CUDA result code of memory that has run out, where the driver allocates for itself.
const OUT_OF_MEMORY: u32 = 2;

/// Bytes of which memory has run out where they cannot be had.
const LEAST: u64 = 1 << 20;

/// Bytes at either end of a block that are looked at.
const ENDS: usize = 1 << 20;

/// Between one step and the next.
const PAUSE: Duration = Duration::from_millis(2);

/// What the workers and the thread that holds memory tell each other.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// Workers that ran out of memory, and want all of it back.
    starved: AtomicUsize,
    held: AtomicU64,
    /// Taken to write by each step of the thread that holds memory.
    steps: RwLock<()>,
    stopped: AtomicBool,
    pub(super) most_held: AtomicU64,
    /// Requests that were answered by the right error.
    pub(super) refused: AtomicUsize,
}

impl Pressure {
    /// Ends [`hold`](Self::hold).
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Calls this while nothing is held.
    pub(super) fn relieved<T>(&self, work: impl FnOnce() -> T) -> T {
        self.starved.fetch_add(1, Ordering::AcqRel);
        let quiet = loop {
            let quiet = self.steps.read().unwrap_or_else(PoisonError::into_inner);
            if self.held.load(Ordering::Acquire) == 0 {
                break quiet;
            }
            drop(quiet);
            sleep(PAUSE);
        };
        let result = work();
        drop(quiet);
        self.starved.fetch_sub(1, Ordering::AcqRel);
        result
    }

    /// Holds and releases blocks until [`stop`](Self::stop): at most so many percent of the bytes. With 100, it takes
    /// all there is.
    pub(super) fn hold(&self, device: &Device, bytes: u64, percent: u32, seed: u64) -> Result<(), Failure> {
        let _ends = Ends(&self.held);
        let stream = device.stream()?;
        let random = &mut SplitMix64::new(seed);
        let budget = bytes / 100 * u64::from(percent.min(100));
        let mut blocks: Vec<Tensor<u8>> = Vec::new();
        asks_too_much(&stream)?;
        self.refused.fetch_add(1, Ordering::Relaxed);
        while !self.stopped.load(Ordering::Acquire) {
            let step = self.steps.write().unwrap_or_else(PoisonError::into_inner);
            if self.starved.load(Ordering::Acquire) > 0 {
                release(&mut blocks, 0, &stream)?;
            } else {
                self.step(&mut blocks, budget, percent, &stream, random)?;
            }
            let held = bytes_of(&blocks);
            self.held.store(held, Ordering::Release);
            self.most_held.fetch_max(held, Ordering::Relaxed);
            drop(step);
            sleep(PAUSE);
        }
        release(&mut blocks, 0, &stream)
    }

    fn step(
        &self,
        blocks: &mut Vec<Tensor<u8>>,
        budget: u64,
        percent: u32,
        stream: &Stream,
        random: &mut SplitMix64,
    ) -> Result<(), Failure> {
        let bytes = (1 + random.below(budget / 4)).min(budget - bytes_of(blocks));
        match random.below(8) {
            0 => release(blocks, random.below(blocks.len() as u64 + 1) as usize, stream),
            1 => {
                asks_too_much(stream)?;
                self.refused.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            _ if bytes == 0 => release(blocks, blocks.len() / 2, stream),
            _ => {
                // To the last bit, or so much and no more.
                let least = if percent >= 100 { LEAST.min(bytes) } else { bytes };
                let zeros = |bytes: u64| Tensor::zeros(stream, &[bytes as usize]);
                let (block, refused) = as_much(bytes, least, zeros)?;
                self.refused.fetch_add(refused, Ordering::Relaxed);
                match block {
                    Some(block) => blocks.push(block),
                    // Others have memory too.
                    None => release(blocks, blocks.len() / 2, stream)?,
                }
                Ok(())
            }
        }
    }
}

/// The first of these bytes, half of them, and so on down to `least`, that can be had; none if there is not even that.
/// Also how many requests were refused for want of memory; another error is one.
fn as_much<T>(
    mut bytes: u64,
    least: u64,
    mut allocate: impl FnMut(u64) -> Result<T, Error>,
) -> Result<(Option<T>, usize), Error> {
    let mut refused = 0;
    loop {
        match allocate(bytes) {
            Ok(memory) => return Ok((Some(memory), refused)),
            Err(error) if names(&error, bytes) => refused += 1,
            Err(error) => return Err(error),
        }
        bytes /= 2;
        if bytes < least {
            return Ok((None, refused));
        }
    }
}

/// However [`Pressure::hold`] ends, nothing is held any more.
struct Ends<'a>(&'a AtomicU64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

fn bytes_of(blocks: &[Tensor<u8>]) -> u64 {
    blocks.iter().map(|block| block.len() as u64).sum()
}

/// Gives back all but `keep` blocks, which must still be zeros.
fn release(blocks: &mut Vec<Tensor<u8>>, keep: usize, stream: &Stream) -> Result<(), Failure> {
    for block in blocks.drain(keep.min(blocks.len())..) {
        let len = block.len().min(ENDS);
        for start in [0, block.len() - len] {
            let bytes = block.narrow(0, start, len)?.to_vec(stream)?;
            if let Some(at) = bytes.iter().position(|&byte| byte != 0) {
                let (at, of, byte) = (start + at, block.len(), bytes[at]);
                let what = format!("byte {at} of {of} of a block of zeros that nobody uses is {byte:#x}");
                return Err(Failure::Executor(what.into()));
            }
        }
    }
    // Memory is back when the stream has come so far.
    Ok(stream.synchronize()?)
}

/// Asks for more than there is: the error must say how much that was, and memory must work after it.
pub(super) fn asks_too_much(stream: &Stream) -> Result<(), Failure> {
    // On the CPU, beyond what any address space has.
    let bytes = memory(stream.device())?.map_or(1 << 50, |(_, total)| 2 * total);
    let what = match Tensor::<u8>::zeros(stream, &[bytes as usize]) {
        Ok(_) => format!("{bytes} bytes were given"),
        Err(error) if names(&error, bytes) => return Ok(()),
        Err(error) => format!("{bytes} bytes were asked for, and the error does not say so: {error}"),
    };
    Err(Failure::Executor(what.into()))
}

/// Whether an error says that memory has run out, and how many bytes were asked for.
fn names(error: &Error, asked: u64) -> bool {
    let said = match error {
        Error::OutOfMemory { bytes } | Error::Driver(DriverError::OutOfMemory { bytes, .. }) => *bytes,
        _ => return false,
    };
    said == asked && error.to_string().contains(&asked.to_string())
}

/// Whether memory has run out, our own or the driver's.
pub(super) fn is_out_of_memory(failure: &Failure) -> bool {
    let Failure::Launch(error) = failure else { return false };
    match error {
        Error::OutOfMemory { .. } | Error::Driver(DriverError::OutOfMemory { .. }) => true,
        Error::Driver(DriverError::Call { code, .. } | DriverError::Jit { code, .. }) => {
            *code == OUT_OF_MEMORY
        }
        _ => false,
    }
}

/// Bytes that are free on a device.
pub(super) fn free_bytes(device: &Device) -> Result<u64, Failure> {
    Ok(memory(device)?.map_or(CPU_BYTES, |(free, _)| free))
}

/// Bytes that are free on a GPU, and all there are.
fn memory(device: &Device) -> Result<Option<(u64, u64)>, Failure> {
    let Some(ordinal) = ordinal(device) else { return Ok(None) };
    let memory = CudaDevice::open(ordinal).and_then(|device| device.memory());
    Ok(Some(memory.map_err(Error::from)?))
}

/// The number of a GPU, as it prints itself.
fn ordinal(device: &Device) -> Option<u32> {
    let name = device.to_string();
    name.strip_prefix("cuda:")?.split(' ').next()?.parse().ok()
}

/// Fails if most of the bytes that were free once cannot be had on a device that was opened just now.
pub(super) fn is_given_back(device: &Device, once_free: u64) -> Result<(), Failure> {
    let stream = device.stream()?;
    drop(Tensor::<u8>::zeros(&stream, &[(once_free / 8 * 7) as usize])?);
    Ok(stream.synchronize()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_held_while_somebody_needs_it() {
        let (device, pressure) = (Device::cpu(), Pressure::default());
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| pressure.hold(&device, 1 << 24, 90, 3));
            for _ in 0..3 {
                while pressure.held.load(Ordering::Acquire) == 0 {
                    sleep(PAUSE);
                }
                let held = pressure.relieved(|| {
                    sleep(5 * PAUSE);
                    pressure.held.load(Ordering::Acquire)
                });
                assert_eq!(held, 0);
            }
            pressure.stop();
            holder.join().expect("no panic").expect("no failure");
        });
        assert_eq!(pressure.held.into_inner(), 0);
        let most = pressure.most_held.into_inner();
        assert!(most > 0 && most <= (1 << 24) / 100 * 90, "{most}");
    }

    #[test]
    fn a_write_to_a_block_that_is_held_is_found() {
        let stream = Device::cpu().stream().expect("a stream");
        let block = || Tensor::<u8>::zeros(&stream, &[3 * ENDS]).expect("memory");
        let mut blocks = vec![block(), block()];
        let mut end = blocks[1].narrow_mut(0, 3 * ENDS - 1, 1).expect("the last byte");
        end.copy_from_slice(&stream, &[7]).expect("written");
        let said = release(&mut blocks, 1, &stream).expect_err("a byte was written").to_string();
        assert!(
            said.contains(&format!("byte {} of {}", 3 * ENDS - 1, 3 * ENDS)) && said.contains("0x7"),
            "{said}"
        );
        release(&mut blocks, 0, &stream).expect("the other is as it was");
        assert!(blocks.is_empty());
    }

    #[test]
    fn memory_is_taken_to_the_last_bit() {
        let there_are = |most: u64| {
            move |bytes| if bytes <= most { Ok(bytes) } else { Err(Error::OutOfMemory { bytes }) }
        };
        assert_eq!(as_much(1000, 1000, there_are(1000)).expect("memory"), (Some(1000), 0));
        assert_eq!(as_much(1000, 1000, there_are(999)).expect("a refusal"), (None, 1));
        assert_eq!(as_much(1000, 100, there_are(300)).expect("memory"), (Some(250), 2));
        assert_eq!(as_much(1000, 100, there_are(99)).expect("refusals"), (None, 4));
        let wrong = as_much::<u64>(1000, 1, |_| Err(Error::OutOfMemory { bytes: 1 }));
        assert!(wrong.is_err(), "the error has another number");
    }

    #[test]
    fn more_than_there_is_is_refused_by_name_and_number() {
        asks_too_much(&Device::cpu().stream().expect("a stream")).expect("the right error");
        let said = |bytes| Error::OutOfMemory { bytes };
        assert!(names(&said(77), 77) && !names(&said(77), 78));
        assert!(!names(&Error::Device("out of memory: 77".to_owned()), 77));
        assert!(is_out_of_memory(&said(77).into()));
        let text = (String::new(), String::new());
        let driver = |code| {
            Error::from(DriverError::Call {
                call: "cuLaunchKernel",
                code,
                name: text.0.clone(),
                text: text.1.clone(),
            })
        };
        assert!(is_out_of_memory(&driver(2).into()) && !is_out_of_memory(&driver(700).into()));
    }
}
