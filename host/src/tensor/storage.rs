//! The memory behind tensors, and who uses it.
#![cfg_attr(
    not(feature = "cuda"),
    allow(
        unused,
        clippy::unnecessary_wraps,
        reason = "streams and foreign memory are of use with GPUs alone"
    )
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
#[cfg(feature = "cuda")]
use std::sync::{Mutex, PoisonError};

use crate::device::{Device, Phase, Place, Stream, cpu};
#[cfg(feature = "cuda")]
use crate::driver;
use crate::error::{Error, Result};

/// Memory on a device. It is reached through its address alone; what keeps its users apart is here.
///
/// On a GPU that is order: a stream that reads waits for the last writer, one that writes waits for all, each by an
/// event. In host memory it is a count: a writer excludes everybody else, and who comes second gets an error.
pub struct Storage {
    device: Device,
    address: u64,
    bytes: u64,
    memory: Memory,
    /// Readers of host memory; −1 is a writer.
    users: AtomicIsize,
    #[cfg(feature = "cuda")]
    order: Mutex<Order>,
}

enum Memory {
    /// Kept until nobody uses it.
    Cpu(#[expect(dead_code, reason = "host memory is reached through its address")] cpu::Memory),
    #[cfg(feature = "cuda")]
    Cuda(driver::DeviceMemory),
    Foreign(Foreign),
}

/// Memory of another owner, who is told when it is no longer used.
pub(crate) struct Foreign {
    pub(crate) release: Option<Box<dyn FnOnce() + Send + Sync>>,
    /// The owner's stream, which waits for ours before it gets the memory back.
    pub(crate) stream: Stream,
}

/// The streams whose work may still use the memory.
#[cfg(feature = "cuda")]
#[derive(Default)]
struct Order {
    writer: Option<driver::Stream>,
    /// Other streams, which are ordered behind the writer.
    readers: Vec<driver::Stream>,
}

impl Storage {
    /// Zeroed memory, or on a GPU memory with nothing in particular in it.
    pub(crate) fn alloc(stream: &Stream, bytes: usize) -> Result<Arc<Self>> {
        let device = stream.device();
        let (address, memory) = match &device.place {
            Place::Cpu => {
                let memory = cpu::Memory::zeros(bytes)?;
                (memory.address(), Memory::Cpu(memory))
            }
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => {
                let stream = stream.cuda().expect("a GPU's stream is on a GPU");
                let memory = driver::DeviceMemory::alloc(gpu.device(), bytes, stream)?;
                (memory.address(), Memory::Cuda(memory))
            }
        };
        Ok(Arc::new(Self::new(device, address, bytes as u64, memory)))
    }

    /// Memory of another owner.
    pub(crate) fn foreign(device: &Device, address: u64, bytes: u64, foreign: Foreign) -> Arc<Self> {
        #[cfg(feature = "cuda")]
        let writer = foreign.stream.cuda().cloned();
        let storage = Self::new(device, address, bytes, Memory::Foreign(foreign));
        #[cfg(feature = "cuda")]
        {
            storage.order.lock().unwrap_or_else(PoisonError::into_inner).writer = writer;
        }
        Arc::new(storage)
    }

    fn new(device: &Device, address: u64, bytes: u64, memory: Memory) -> Self {
        Self {
            device: device.clone(),
            address,
            bytes,
            memory,
            users: AtomicIsize::new(0),
            #[cfg(feature = "cuda")]
            order: Mutex::default(),
        }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Whether the memory is ours to copy in and out by the driver's own copies.
    pub(crate) fn is_ours(&self) -> bool {
        !matches!(self.memory, Memory::Foreign(_)) || !self.device.is_gpu()
    }

    /// Whether it is a GPU's memory from this crate's driver layer.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_drivers(&self) -> bool {
        matches!(self.memory, Memory::Cuda(_))
    }

    /// Takes host memory for a reader or a writer.
    pub(crate) fn enter(&self, writes: bool, what: &'static str) -> Result<Entered<'_>> {
        let entered = self.users.fetch_update(Ordering::Acquire, Ordering::Relaxed, |users| {
            if writes { (users == 0).then_some(-1) } else { (users >= 0).then_some(users + 1) }
        });
        entered.map(|_| Entered { storage: self, writes }).map_err(|_| Error::InUse { what })
    }

    /// Ends the use of a writer whose guard was forgotten.
    pub(super) fn leave_writer(&self) {
        self.users.store(0, Ordering::Release);
    }

    /// Lets the memory's end wait for the work that a stream has then.
    #[cfg(feature = "cuda")]
    pub(crate) fn use_on(&self, stream: &driver::Stream) -> Result<()> {
        match &self.memory {
            Memory::Cuda(memory) => Ok(memory.use_on(stream)?),
            Memory::Cpu(_) | Memory::Foreign(_) => Ok(()),
        }
    }

    /// Orders a stream behind those that used the memory before, and takes note of it.
    #[cfg(feature = "cuda")]
    pub(crate) fn order(&self, stream: &driver::Stream, writes: bool) -> Result<()> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let Order { writer, readers } = &mut *order;
        let same = |one: &driver::Stream| one.raw() == stream.raw();
        if writes {
            for other in readers.iter().chain(&*writer).filter(|other| !same(other)) {
                self.wait(stream, other)?;
            }
            readers.clear();
            if !writer.as_ref().is_some_and(same) {
                *writer = Some(stream.clone());
            }
            return Ok(());
        }
        // Who waits for the writer's stream waits for what that stream reads, too.
        if !writer.iter().chain(&*readers).any(same) {
            if let Some(writer) = writer {
                self.wait(stream, writer)?;
            }
            readers.push(stream.clone());
        }
        Ok(())
    }

    /// Lets `stream` wait for the work that `other` has now.
    #[cfg(feature = "cuda")]
    fn wait(&self, stream: &driver::Stream, other: &driver::Stream) -> Result<()> {
        // A recording begins when its stream's work is done, and what is recorded has not run.
        if other.is_capturing()? {
            return Ok(());
        }
        let Place::Cuda(gpu) = &self.device.place else { return Ok(()) };
        let event = driver::Event::without_timing(gpu.device())?;
        event.record(other)?;
        Ok(stream.wait(&event)?)
    }

    /// Copies bytes in, behind the stream's work, and waits for that.
    pub(crate) fn write(&self, offset: usize, from: &[u8], stream: &Stream) -> Result<()> {
        match &self.memory {
            #[cfg(feature = "cuda")]
            Memory::Cuda(memory) => {
                let (Place::Cuda(gpu), Some(queue)) = (&self.device.place, stream.cuda()) else {
                    return Ok(());
                };
                let order = gpu.order();
                self.order(queue, true)?;
                drop(order);
                Ok(memory.copy_from_host(offset, from, queue)?)
            }
            Memory::Cpu(_) | Memory::Foreign(_) => {
                let _entered = self.enter(true, "the tensor")?;
                let to = self.host_bytes(offset, from.len())?;
                // SAFETY: the range lies inside the memory, and nobody else uses it until `_entered` goes.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
                Ok(())
            }
        }
    }

    /// Copies bytes out, behind the stream's work, and waits for that.
    pub(crate) fn read(&self, offset: usize, to: &mut [u8], stream: &Stream) -> Result<()> {
        match &self.memory {
            #[cfg(feature = "cuda")]
            Memory::Cuda(memory) => {
                let (Place::Cuda(gpu), Some(queue)) = (&self.device.place, stream.cuda()) else {
                    return Ok(());
                };
                let order = gpu.order();
                self.order(queue, false)?;
                drop(order);
                Ok(memory.copy_to_host(offset, to, queue)?)
            }
            Memory::Cpu(_) | Memory::Foreign(_) => {
                let _entered = self.enter(false, "the tensor")?;
                let from = self.host_bytes(offset, to.len())?;
                // SAFETY: the range lies inside the memory, and nobody writes to it until `_entered` goes.
                unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
                Ok(())
            }
        }
    }

    /// Sets all bytes of memory that was just got to zero, in the stream's order.
    pub(crate) fn zero(self: &Arc<Self>, stream: &Stream) -> Result<()> {
        match &self.memory {
            #[cfg(feature = "cuda")]
            Memory::Cuda(memory) => {
                let (Place::Cuda(gpu), Some(queue)) = (&self.device.place, stream.cuda()) else {
                    return Ok(());
                };
                let _order = gpu.order();
                match stream.phase() {
                    Phase::Prepare => return Ok(()),
                    Phase::Capture => stream.recording().uses(self, true),
                    Phase::Run => self.order(queue, true)?,
                }
                Ok(memory.fill(0, self.bytes as usize, 0, queue)?)
            }
            // Host memory is made of zeros.
            Memory::Cpu(_) | Memory::Foreign(_) => Ok(()),
        }
    }

    /// The host address of some of the bytes.
    fn host_bytes(&self, offset: usize, len: usize) -> Result<*mut u8> {
        let inside = offset.checked_add(len).is_some_and(|end| end as u64 <= self.bytes);
        if !inside || self.device.is_gpu() {
            return Err(Error::Length { have: len, need: self.bytes as usize });
        }
        Ok((self.address as usize + offset) as *mut u8)
    }

    /// The streams that used the memory, none twice.
    #[cfg(feature = "cuda")]
    fn streams(&self) -> Vec<driver::Stream> {
        let order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.readers.iter().chain(&order.writer).cloned().collect()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        #[cfg(feature = "cuda")]
        let streams = self.streams();
        let Memory::Foreign(foreign) = &mut self.memory else { return };
        let release = foreign.release.take();
        #[cfg(feature = "cuda")]
        if let Some(owner) = foreign.stream.cuda().cloned() {
            for stream in streams.iter().filter(|stream| stream.raw() != owner.raw()) {
                if let Err(error) = self.wait(&owner, stream) {
                    log::warn!("while giving back a foreign tensor: {error}");
                }
            }
        }
        if let Some(release) = release {
            release();
        }
    }
}

/// Host memory in use; dropping it lets others in.
pub(crate) struct Entered<'a> {
    storage: &'a Storage,
    writes: bool,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.writes {
            self.storage.users.store(0, Ordering::Release);
        } else {
            self.storage.users.fetch_sub(1, Ordering::Release);
        }
    }
}
