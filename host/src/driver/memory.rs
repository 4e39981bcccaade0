//! Device memory in stream order.

use std::ffi::c_int;
use std::fmt;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cust::sys::CUdeviceptr;

use super::codes;
use super::context::{PrimaryContext, report_in_drop};
use super::device::CudaDevice;
use super::error::DriverError;
use super::event::Event;
use super::raw;
use super::registry;
use super::stream::Stream;

/// The pointer attribute that names its device.
const DEVICE_ORDINAL: u32 = 9;

/// A buffer of device memory, from the device's default memory pool.
///
/// It is made in the order of a stream, its *home*, and may be used there at once. Before its address is used on
/// another stream, [`prepare`](super::prepare) (which [`Device::launch`](crate::Device::launch) calls) or
/// [`DeviceMemory::use_on`] orders that stream behind it. Dropping it gives the memory back behind all that work,
/// without waiting on the host. (A device without memory pools, as under some hypervisors, allocates at once, and
/// dropping then waits for the buffer's streams.)
pub struct DeviceMemory {
    /// `None` without bytes, which takes no memory.
    block: Option<Arc<Block>>,
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMemory({:#x}, {} bytes)", self.address(), self.bytes())
    }
}

impl DeviceMemory {
    /// A buffer with nothing in particular in it. Its address is a multiple of 256 bytes.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`], [`DriverError::OtherDevice`], and what the driver answers.
    pub fn alloc(device: &CudaDevice, bytes: usize, stream: &Stream) -> Result<Self, DriverError> {
        stream.handle().expect_context(device.context())?;
        if bytes == 0 {
            return Ok(Self { block: None });
        }
        let block = Arc::new(Block::alloc(device, bytes, stream, true)?);
        registry::insert(block.address, bytes as u64, stream, Arc::downgrade(&block));
        Ok(Self { block: Some(block) })
    }

    /// The same for the use of one stream alone: no other stream can be ordered behind it, and a launch does not know
    /// its bytes.
    pub(crate) fn scratch(device: &CudaDevice, bytes: usize, stream: &Stream) -> Result<Self, DriverError> {
        stream.handle().expect_context(device.context())?;
        let block = (bytes > 0).then(|| Block::alloc(device, bytes, stream, false)).transpose()?;
        Ok(Self { block: block.map(Arc::new) })
    }

    /// The address on the device; null without bytes.
    pub fn address(&self) -> u64 {
        self.block.as_ref().map_or(0, |block| block.address)
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.bytes)
    }

    /// The stream that it was made on; none without bytes.
    pub fn home(&self) -> Option<&Stream> {
        self.block.as_ref().map(|block| &block.home)
    }

    /// Orders another stream behind the buffer, and the buffer's end behind the work that the stream has then.
    ///
    /// # Errors
    /// [`DriverError::OtherDevice`], and what the driver answers.
    pub fn use_on(&self, stream: &Stream) -> Result<(), DriverError> {
        self.block.as_ref().map_or(Ok(()), |block| block.use_on(stream))
    }

    /// Copies `from` into the buffer from byte `offset`, behind the work of `stream`, and waits for it.
    ///
    /// # Errors
    /// [`DriverError::OutOfRange`], and what the driver answers.
    pub fn copy_from_host(&self, offset: usize, from: &[u8], stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: the copy is waited for while `from` is borrowed.
        unsafe { self.copy_from_host_async(offset, from, stream) }?;
        stream.synchronize()
    }

    /// Copies `from` into the buffer from byte `offset`, in stream order.
    ///
    /// # Safety
    /// `from` stays as it is until the stream has done the copy.
    ///
    /// # Errors
    /// [`DriverError::OutOfRange`], and what the driver answers.
    pub unsafe fn copy_from_host_async(
        &self,
        offset: usize,
        from: &[u8],
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let Some(to) = self.part(offset, from.len(), stream)? else { return Ok(()) };
        let stream = stream.handle();
        // SAFETY: both ranges are valid: `part` checked the one, and the other is a slice that the caller keeps.
        stream
            .context()
            .call(|| unsafe { raw::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), from.len(), stream.raw()) })
    }

    /// Copies bytes from `offset` out of the buffer, behind the work of `stream`, and waits for them.
    ///
    /// # Errors
    /// [`DriverError::OutOfRange`], and what the driver answers.
    pub fn copy_to_host(&self, offset: usize, to: &mut [u8], stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: the copy is waited for while `to` is borrowed.
        unsafe { self.copy_to_host_async(offset, to, stream) }?;
        stream.synchronize()
    }

    /// Copies bytes from `offset` out of the buffer, in stream order.
    ///
    /// # Safety
    /// Nothing else uses `to` until the stream has done the copy.
    ///
    /// # Errors
    /// [`DriverError::OutOfRange`], and what the driver answers.
    pub unsafe fn copy_to_host_async(
        &self,
        offset: usize,
        to: &mut [u8],
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let Some(from) = self.part(offset, to.len(), stream)? else { return Ok(()) };
        let stream = stream.handle();
        // SAFETY: both ranges are valid: `part` checked the one, and the other is a slice that the caller keeps.
        stream.context().call(|| unsafe {
            raw::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, to.len(), stream.raw())
        })
    }

    /// Copies `bytes` from byte `from_offset` of another buffer to byte `offset` of this one, in stream order.
    ///
    /// # Errors
    /// [`DriverError::OutOfRange`], [`DriverError::OtherDevice`], and what the driver answers.
    pub fn copy_from_device(
        &self,
        offset: usize,
        from: &Self,
        from_offset: usize,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let from = from.part(from_offset, bytes, stream)?;
        let (Some(to), Some(from)) = (self.part(offset, bytes, stream)?, from) else { return Ok(()) };
        let stream = stream.handle();
        // SAFETY: `part` checked both ranges.
        stream.context().call(|| unsafe { raw::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.raw()) })
    }

    /// Sets `bytes` bytes from `offset` to `value`, in stream order.
    ///
    /// # Errors
    /// [`DriverError::OutOfRange`], and what the driver answers.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8, stream: &Stream) -> Result<(), DriverError> {
        let Some(to) = self.part(offset, bytes, stream)? else { return Ok(()) };
        let stream = stream.handle();
        // SAFETY: `part` checked the range.
        stream.context().call(|| unsafe { raw::cuMemsetD8Async(to, value, bytes, stream.raw()) })
    }

    /// The address of a part of the buffer, ready for use on `stream`; none if the part is empty.
    fn part(&self, offset: usize, len: usize, stream: &Stream) -> Result<Option<CUdeviceptr>, DriverError> {
        if offset.checked_add(len).is_none_or(|end| end > self.bytes()) {
            return Err(DriverError::OutOfRange {
                offset: offset as u64,
                len: len as u64,
                bytes: self.bytes() as u64,
            });
        }
        match &self.block {
            Some(block) if len > 0 => {
                block.use_on(stream)?;
                Ok(Some(block.address + offset as u64))
            }
            _ => Ok(None),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Some(block) = &self.block {
            registry::remove(block.address);
        }
    }
}

/// The memory of a buffer. Dropping it gives the memory back behind the work of its streams.
pub(super) struct Block {
    address: CUdeviceptr,
    bytes: usize,
    home: Stream,
    others: Mutex<Vec<Stream>>,
    /// The point in the home's work from which on the memory exists; none if it did before, or if the home alone
    /// uses it.
    ready: Option<Event>,
    pooled: bool,
}

impl Block {
    fn alloc(device: &CudaDevice, bytes: usize, stream: &Stream, shared: bool) -> Result<Self, DriverError> {
        free_parked();
        let context = device.context();
        let _bound = context.bind()?;
        let pooled = device.has_pools();
        let recorded = stream.is_capturing()?;
        let mut address = 0;
        let allocated = if !pooled {
            // SAFETY: `address` is valid for a write.
            context.call(|| unsafe { raw::cuMemAlloc_v2(&raw mut address, bytes) })
        } else if recorded {
            // An allocation in a recording would be part of the graph and exist only while the graph runs.
            // Memory is got on a stream of its own instead, and exists before the graph does.
            let aside = Stream::create(context)?;
            // SAFETY: `address` is valid for a write, and the stream is live.
            let call = || unsafe { raw::cuMemAllocAsync(&raw mut address, bytes, aside.handle().raw()) };
            context.call(call).and_then(|()| aside.synchronize())
        } else {
            // SAFETY: `address` is valid for a write, and the stream is live.
            let call = || unsafe { raw::cuMemAllocAsync(&raw mut address, bytes, stream.handle().raw()) };
            context.call(call)
        };
        allocated.map_err(|error| explain(context, bytes, error))?;
        let home = stream.clone();
        let mut block = Self { address, bytes, home, others: Mutex::default(), ready: None, pooled };
        if pooled && !recorded && shared {
            block.ready = Some(Event::behind(stream.handle())?);
        }
        Ok(block)
    }

    fn others(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`DeviceMemory::use_on`].
    pub(super) fn use_on(&self, stream: &Stream) -> Result<(), DriverError> {
        if stream.same(&self.home) {
            return Ok(());
        }
        stream.handle().expect_context(self.home.handle().context())?;
        let mut others = self.others();
        if others.iter().any(|other| other.same(stream)) {
            return Ok(());
        }
        if let Some(ready) = &self.ready
            && !ready.is_done()?
        {
            // A recording can't wait for work outside of it, so the host does.
            if stream.is_capturing()? {
                ready.synchronize()?;
            } else {
                stream.wait(ready)?;
            }
        }
        others.push(stream.clone());
        Ok(())
    }

    /// Gives the memory back behind the work of its streams.
    fn free(&self) -> Result<(), DriverError> {
        let home = self.home.handle();
        let context = home.context();
        if !self.pooled {
            for stream in self.others().iter().chain([&self.home]) {
                stream.synchronize()?;
            }
            // SAFETY: the last use of the memory, and its streams' work is done.
            return context.call(|| unsafe { raw::cuMemFree_v2(self.address) });
        }
        for other in self.others().iter() {
            self.home.wait(&Event::behind(other.handle())?)?;
        }
        // SAFETY: the last use of the memory on the host, and the home waits for its use on other streams.
        context.call(|| unsafe { raw::cuMemFreeAsync(self.address, home.raw()) })
    }

    /// The stream of the block whose work is being recorded, if there is one.
    fn captured_stream(&self) -> Option<Stream> {
        let others = self.others();
        let stream = others.iter().chain([&self.home]).find(|stream| stream.handle().may_be_capturing());
        stream.cloned()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let home = self.home.clone();
        // Without it, each call below tries again and says what is wrong.
        let bound = home.handle().context().bind();
        let Some(captured) = self.captured_stream() else {
            let freed = self.free();
            self.ready = None;
            drop(bound);
            if let Err(error) = freed {
                report_in_drop(&error);
            }
            return;
        };
        let others = take(&mut *self.others());
        let block = Self {
            address: self.address,
            bytes: self.bytes,
            home: self.home.clone(),
            others: Mutex::new(others),
            ready: self.ready.take(),
            pooled: self.pooled,
        };
        match captured.handle().kept().as_mut() {
            Some(kept) => kept.blocks.push(block),
            None => parked().push(block),
        }
    }
}

/// Blocks that were dropped while another library recorded one of their streams. A free can't be recorded there,
/// so they wait for the recording's end.
static PARKED: Mutex<Vec<Block>> = Mutex::new(Vec::new());

fn parked() -> MutexGuard<'static, Vec<Block>> {
    PARKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops the parked blocks again; those that are still part of a recording come back to the list.
pub(super) fn free_parked() {
    let blocks = take(&mut *parked());
    drop(blocks);
}

pub(super) fn free_and_total(context: &PrimaryContext) -> Result<(u64, u64), DriverError> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both are valid for a write.
    context.call(|| unsafe { raw::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
    Ok((free as u64, total as u64))
}

/// Names the bytes where memory has run out.
fn explain(context: &PrimaryContext, bytes: usize, error: DriverError) -> DriverError {
    if error.code() != Some(codes::OUT_OF_MEMORY) {
        return error;
    }
    let (free, total) = free_and_total(context).unwrap_or_default();
    DriverError::OutOfMemory { bytes: bytes as u64, free, total }
}

/// First address and bytes of the device allocation around `address`, whoever made it; `None` if there is none.
///
/// This asks the driver. For this crate's own buffers [`super::known_bytes`] is faster.
///
/// # Errors
/// What the driver answers.
pub fn address_range(device: &CudaDevice, address: u64) -> Result<Option<(u64, u64)>, DriverError> {
    let (mut base, mut bytes) = (0, 0);
    let context = device.context();
    let bound = context.bind()?;
    // SAFETY: both are valid for a write; the driver looks the address up and does not use it.
    let answer = unsafe { raw::cuMemGetAddressRange_v2(&raw mut base, &raw mut bytes, address) };
    drop(bound);
    if matches!(answer.code, codes::NOT_FOUND | codes::INVALID_VALUE) {
        return Ok(None);
    }
    context.check(answer).map(|()| Some((base, bytes as u64)))
}

/// The number of the device whose memory `address` is in, whoever made it; `None` for memory that CUDA does not
/// know, such as the host's own.
///
/// # Errors
/// What the driver answers.
pub fn address_device(device: &CudaDevice, address: u64) -> Result<Option<u32>, DriverError> {
    let mut ordinal: c_int = -1;
    let context = device.context();
    let bound = context.bind()?;
    // SAFETY: the attribute is an int; the driver looks the address up and does not use it.
    let answer = unsafe { raw::cuPointerGetAttribute((&raw mut ordinal).cast(), DEVICE_ORDINAL, address) };
    drop(bound);
    if answer.code == codes::INVALID_VALUE {
        return Ok(None);
    }
    context.check(answer).map(|()| u32::try_from(ordinal).ok())
}
