//! Streams: work in order, run at once, prepared, or recorded.
#![cfg_attr(
    not(feature = "cuda"),
    allow(
        unused,
        clippy::unnecessary_wraps,
        reason = "streams and foreign memory are of use with GPUs alone"
    )
)]

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Device, Place};
use crate::error::{Error, Result};
use crate::tensor::Storage;

/// A queue of work on a device; clones are the same queue. Any thread may use or drop one.
///
/// On a GPU a call returns before its work is done. On the CPU work is done when the call returns, so that a stream
/// is a formality there, but for [`capture`](Stream::capture).
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    device: Device,
    queue: Queue,
    phase: AtomicU8,
    recording: Mutex<Recording>,
}

/// Where the work goes.
pub(crate) enum Queue {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(crate::driver::Stream),
}

/// What a stream does with the operations that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Runs them.
    Run = 0,
    /// Loads what they need, and runs nothing.
    Prepare = 1,
    /// Records them.
    Capture = 2,
}

/// One recorded operation of a CPU stream.
pub(crate) type Step = Box<dyn Fn() -> Result<()> + Send>;

/// What was recorded so far.
#[derive(Default)]
pub(crate) struct Recording {
    /// What a replay reads and, where the flag is set, writes.
    pub(crate) uses: Vec<(Arc<Storage>, bool)>,
    /// A CPU stream's operations.
    pub(crate) steps: Vec<Step>,
    /// The first operation that could not be recorded.
    pub(crate) failed: Option<String>,
}

impl Recording {
    /// Takes note of a storage once.
    pub(crate) fn uses(&mut self, storage: &Arc<Storage>, writes: bool) {
        match self.uses.iter_mut().find(|(known, _)| Arc::ptr_eq(known, storage)) {
            Some((_, written)) => *written |= writes,
            None => self.uses.push((Arc::clone(storage), writes)),
        }
    }
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let queue = match &device.place {
            Place::Cpu => Queue::Cpu,
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => Queue::Cuda(crate::driver::Stream::new(gpu.device())?),
        };
        Ok(Self::wrap(device, queue))
    }

    fn wrap(device: &Device, queue: Queue) -> Self {
        let phase = AtomicU8::new(Phase::Run as u8);
        Self(Arc::new(Inner { device: device.clone(), queue, phase, recording: Mutex::default() }))
    }

    /// A stream that another library made on this GPU, as its `CUstream` or `cudaStream_t`; null is the legacy
    /// default stream. On the CPU the handle is not looked at.
    ///
    /// # Errors
    /// None at present.
    ///
    /// # Safety
    /// The handle is a stream of the device's primary context, and outlives the returned stream, its clones, and the
    /// tensors that were made or used on it.
    pub unsafe fn from_raw(device: &Device, handle: *mut std::ffi::c_void) -> Result<Self> {
        let _ = handle;
        let queue = match &device.place {
            Place::Cpu => Queue::Cpu,
            #[cfg(feature = "cuda")]
            // SAFETY: by this function's contract.
            Place::Cuda(gpu) => Queue::Cuda(unsafe { crate::driver::Stream::from_raw(gpu.device(), handle) }),
        };
        Ok(Self::wrap(device, queue))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Waits until everything on this stream has ended.
    ///
    /// # Errors
    /// What the driver says of the work; [`Error::Capturing`] while the stream is recorded.
    pub fn synchronize(&self) -> Result<()> {
        self.expect_run("synchronize")?;
        match &self.0.queue {
            Queue::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Queue::Cuda(stream) => Ok(stream.synchronize()?),
        }
    }

    /// A point in the stream's work to take the time from.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::Capturing`] while the stream is recorded.
    pub fn mark(&self) -> Result<Mark> {
        self.expect_run("mark")?;
        match &self.0.queue {
            Queue::Cpu => Ok(Mark(Point::Cpu(Instant::now()))),
            #[cfg(feature = "cuda")]
            Queue::Cuda(stream) => {
                let Place::Cuda(gpu) = &self.0.device.place else {
                    return Err(Error::Device("a GPU's stream is on a GPU".to_owned()));
                };
                let event = crate::driver::Event::new(gpu.device())?;
                event.record(stream)?;
                Ok(Mark(Point::Cuda(event)))
            }
        }
    }

    /// The driver's stream, on a GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Option<&crate::driver::Stream> {
        match &self.0.queue {
            Queue::Cuda(stream) => Some(stream),
            Queue::Cpu => None,
        }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.0.phase.load(Ordering::Acquire) {
            0 => Phase::Run,
            1 => Phase::Prepare,
            _ => Phase::Capture,
        }
    }

    /// Fails unless the stream runs what it is given.
    pub(crate) fn expect_run(&self, what: &'static str) -> Result<()> {
        if self.phase() == Phase::Run { Ok(()) } else { Err(Error::Capturing { what }) }
    }

    pub(crate) fn recording(&self) -> MutexGuard<'_, Recording> {
        self.0.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters another phase until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is in another phase already.
    pub(crate) fn enter(&self, phase: Phase) -> Result<InPhase<'_>> {
        let (run, next) = (Phase::Run as u8, phase as u8);
        self.0
            .phase
            .compare_exchange(run, next, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| Error::Capturing { what: "a second recording" })?;
        *self.recording() = Recording::default();
        Ok(InPhase(self))
    }
}

/// A stream in a phase; dropping it brings the stream back to running, on every way out.
pub(crate) struct InPhase<'a>(&'a Stream);

impl Drop for InPhase<'_> {
    fn drop(&mut self) {
        self.0.0.phase.store(Phase::Run as u8, Ordering::Release);
        let dropped = std::mem::take(&mut *self.0.recording());
        drop(dropped);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.0.device).field("phase", &self.phase()).finish()
    }
}

/// A point in a stream's work.
#[derive(Debug)]
pub struct Mark(Point);

#[derive(Debug)]
enum Point {
    Cpu(Instant),
    #[cfg(feature = "cuda")]
    Cuda(crate::driver::Event),
}

impl Mark {
    /// Microseconds of the device's time from `start` to this point, which is waited for.
    ///
    /// # Errors
    /// Whatever the driver answers; marks of two devices.
    pub fn elapsed_us(&self, start: &Self) -> Result<f64> {
        match (&self.0, &start.0) {
            (Point::Cpu(end), Point::Cpu(start)) => Ok((*end - *start).as_secs_f64() * 1e6),
            #[cfg(feature = "cuda")]
            (Point::Cuda(end), Point::Cuda(start)) => {
                end.synchronize()?;
                Ok(end.elapsed_us(start)?)
            }
            #[cfg(feature = "cuda")]
            _ => Err(Error::Device("the two marks belong to two devices".to_owned())),
        }
    }
}
