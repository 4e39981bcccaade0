//! Streams: work that runs in the order it was given.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cust::sys::CUstream;

use super::codes;
use super::context::{PrimaryContext, report_in_drop};
use super::device::CudaDevice;
use super::error::DriverError;
use super::event::Event;
use super::graph::{Capture, Kept};
use super::raw;

/// The stream does not wait for the legacy default stream, nor that for it.
const NON_BLOCKING: u32 = 1;
const NOT_CAPTURING: u32 = 0;

/// A stream of a device; clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<StreamHandle>);

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.0.raw).finish()
    }
}

impl Stream {
    /// A new stream. It is non-blocking: it neither waits for the legacy default stream nor holds it up.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn new(device: &CudaDevice) -> Result<Self, DriverError> {
        Self::create(device.context())
    }

    pub(super) fn create(context: &Arc<PrimaryContext>) -> Result<Self, DriverError> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is valid for a write.
        context.call(|| unsafe { raw::cuStreamCreate(&raw mut raw, NON_BLOCKING) })?;
        Ok(Self::wrap(context, raw, true))
    }

    /// A stream that another library made, given as its `CUstream` or `cudaStream_t`; null is the legacy
    /// default stream. It is not destroyed on drop.
    ///
    /// # Safety
    /// The handle is a stream of this device's primary context, and outlives the returned stream, its clones,
    /// and the buffers that were made or used on it.
    pub unsafe fn from_raw(device: &CudaDevice, raw: *mut c_void) -> Self {
        Self::wrap(device.context(), raw.cast(), false)
    }

    fn wrap(context: &Arc<PrimaryContext>, raw: CUstream, owned: bool) -> Self {
        let handle = Arc::new(StreamHandle {
            raw,
            owned,
            capturing: AtomicBool::new(false),
            kept: Mutex::new(None),
            context: Arc::clone(context),
        });
        context.add_stream(&handle);
        Self(handle)
    }

    /// The handle, a `CUstream` or `cudaStream_t`, for other libraries. It lives as long as the stream.
    pub fn raw(&self) -> *mut c_void {
        self.0.raw.cast()
    }

    /// Waits until the stream's work is done.
    ///
    /// # Errors
    /// What the driver answers: errors of that work come out here.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the stream is live.
        self.0.context.call(|| unsafe { raw::cuStreamSynchronize(self.0.raw) })
    }

    /// Whether the stream's work is done.
    ///
    /// # Errors
    /// What the driver answers: errors of that work come out here.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        let bound = self.0.context.bind()?;
        // SAFETY: the stream is live.
        let answer = unsafe { raw::cuStreamQuery(self.0.raw) };
        drop(bound);
        if answer.code == codes::NOT_READY {
            return Ok(false);
        }
        self.0.context.check(answer).map(|()| true)
    }

    /// Lets later work of the stream wait for what comes before the event. The host does not wait.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn wait(&self, event: &Event) -> Result<(), DriverError> {
        // SAFETY: both are live. An event of another device is fine here.
        self.0.context.call(|| unsafe { raw::cuStreamWaitEvent(self.0.raw, event.raw(), 0) })
    }

    /// Begins to record the stream's work in a graph instead of running it.
    ///
    /// Work of other streams joins where they wait for this one's events. The mode is relaxed: this crate may
    /// load modules and allocate meanwhile, neither of which is part of the graph. Memory that is dropped and
    /// modules that are launched meanwhile live as long as the graph.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn begin_capture(&self) -> Result<Capture, DriverError> {
        Capture::begin(self)
    }

    /// Whether the stream's work is being recorded, by whomever.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn is_capturing(&self) -> Result<bool, DriverError> {
        self.0.is_capturing()
    }

    pub(super) fn handle(&self) -> &StreamHandle {
        &self.0
    }

    /// Whether both are the same stream of the driver.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.0.same(&other.0)
    }
}

/// What the clones of a [`Stream`] share.
pub(super) struct StreamHandle {
    raw: CUstream,
    owned: bool,
    /// Whether `kept` is there, readable without its lock.
    capturing: AtomicBool,
    kept: Mutex<Option<Kept>>,
    context: Arc<PrimaryContext>,
}

// SAFETY: streams may be used from any thread that binds their context, and each call here does.
unsafe impl Send for StreamHandle {}
// SAFETY: as above; the driver orders concurrent calls.
unsafe impl Sync for StreamHandle {}

impl StreamHandle {
    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    pub(super) fn context(&self) -> &Arc<PrimaryContext> {
        &self.context
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        self.raw == other.raw && Arc::ptr_eq(&self.context, &other.context)
    }

    /// Refuses a stream of another device.
    pub(super) fn expect_context(&self, context: &Arc<PrimaryContext>) -> Result<(), DriverError> {
        if Arc::ptr_eq(&self.context, context) {
            return Ok(());
        }
        Err(DriverError::OtherDevice {
            what: "the stream",
            has: self.context.ordinal(),
            needs: context.ordinal(),
        })
    }

    pub(super) fn is_capturing(&self) -> Result<bool, DriverError> {
        let mut status = NOT_CAPTURING;
        // SAFETY: the stream is live, and `status` is valid for a write.
        self.context.call(|| unsafe { raw::cuStreamIsCapturing(self.raw, &raw mut status) })?;
        Ok(status != NOT_CAPTURING)
    }

    /// Whether the stream must not be touched because its work is part of a recording. The legacy default stream
    /// can't say while any other stream is recorded, so it counts as recorded then.
    pub(super) fn may_be_capturing(&self) -> bool {
        match self.is_capturing() {
            Ok(capturing) => capturing,
            Err(error) => error.code() == Some(codes::STREAM_CAPTURE_IMPLICIT),
        }
    }

    /// Whether this crate records the stream's work.
    pub(super) fn captured_here(&self) -> bool {
        self.capturing.load(Ordering::Acquire)
    }

    /// What the recording of this stream keeps alive, if there is one of this crate.
    pub(super) fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_kept(&self, kept: Option<Kept>) -> Option<Kept> {
        let mut slot = self.kept();
        self.capturing.store(kept.is_some(), Ordering::Release);
        std::mem::replace(&mut slot, kept)
    }

    /// Leaves an event behind the stream's last work, for modules that this work may run, unless it is done.
    fn retire(&self) -> Result<(), DriverError> {
        let bound = self.context.bind()?;
        // SAFETY: the stream is live.
        if unsafe { raw::cuStreamQuery(self.raw) }.code == codes::NOT_READY {
            self.context.retire(Event::behind(self)?.into_raw());
        }
        drop(bound);
        Ok(())
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        if self.may_be_capturing() {
            log::debug!("a stream is dropped while its work is recorded");
        } else if let Err(error) = self.retire() {
            report_in_drop(&error);
        }
        if self.owned {
            // SAFETY: the last use of the stream; the driver finishes its work first.
            self.context.call_in_drop(|| unsafe { raw::cuStreamDestroy_v2(self.raw) });
        }
    }
}
