//! Points in a stream's work.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cust::sys::CUevent;

use super::codes;
use super::context::PrimaryContext;
use super::device::CudaDevice;
use super::error::DriverError;
use super::raw;
use super::stream::{Stream, StreamHandle};

const DISABLE_TIMING: u32 = 2;

/// A point in a stream's work that can be waited for, or that time is measured from.
pub struct Event {
    raw: CUevent,
    context: Arc<PrimaryContext>,
}

// SAFETY: events may be used from any thread that binds their context, and each call here does.
unsafe impl Send for Event {}
// SAFETY: as above; the driver orders concurrent calls.
unsafe impl Sync for Event {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Event").field(&self.raw).finish()
    }
}

impl Event {
    /// An event that keeps the time.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn new(device: &CudaDevice) -> Result<Self, DriverError> {
        Self::create(device.context(), 0)
    }

    /// An event for ordering alone, which is cheaper.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn without_timing(device: &CudaDevice) -> Result<Self, DriverError> {
        Self::create(device.context(), DISABLE_TIMING)
    }

    /// An untimed event behind the work that `stream` has now.
    pub(super) fn behind(stream: &StreamHandle) -> Result<Self, DriverError> {
        let event = Self::create(stream.context(), DISABLE_TIMING)?;
        // SAFETY: both handles are live and of this context.
        stream.context().call(|| unsafe { raw::cuEventRecord(event.raw, stream.raw()) })?;
        Ok(event)
    }

    fn create(context: &Arc<PrimaryContext>, flags: u32) -> Result<Self, DriverError> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is valid for a write.
        context.call(|| unsafe { raw::cuEventCreate(&raw mut raw, flags) })?;
        Ok(Self { raw, context: Arc::clone(context) })
    }

    /// Moves the event behind the work that `stream` has now.
    ///
    /// # Errors
    /// [`DriverError::OtherDevice`], and what the driver answers.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        stream.handle().expect_context(&self.context)?;
        // SAFETY: both handles are live and of this context.
        self.context.call(|| unsafe { raw::cuEventRecord(self.raw, stream.handle().raw()) })
    }

    /// Whether the work before the event is done; an event that was never recorded is.
    ///
    /// # Errors
    /// What the driver answers: errors of that work come out here.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        let bound = self.context.bind()?;
        // SAFETY: the event is live.
        let answer = unsafe { raw::cuEventQuery(self.raw) };
        drop(bound);
        if answer.code == codes::NOT_READY {
            return Ok(false);
        }
        self.context.check(answer).map(|()| true)
    }

    /// Waits until the work before the event is done.
    ///
    /// # Errors
    /// What the driver answers: errors of that work come out here.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the event is live.
        self.context.call(|| unsafe { raw::cuEventSynchronize(self.raw) })
    }

    /// Microseconds from `start` to this event. Both keep the time and are done.
    ///
    /// # Errors
    /// [`DriverError::OtherDevice`], and what the driver answers, for events that are not done, say.
    pub fn elapsed_us(&self, start: &Self) -> Result<f64, DriverError> {
        if !Arc::ptr_eq(&self.context, &start.context) {
            return Err(DriverError::OtherDevice {
                what: "the first event",
                has: start.context.ordinal(),
                needs: self.context.ordinal(),
            });
        }
        let mut milliseconds = 0.0;
        // SAFETY: both events are live, and `milliseconds` is valid for a write.
        let call = || unsafe { raw::cuEventElapsedTime(&raw mut milliseconds, start.raw, self.raw) };
        self.context.call(call)?;
        Ok(f64::from(milliseconds) * 1e3)
    }

    pub(super) fn raw(&self) -> CUevent {
        self.raw
    }

    /// Gives the handle away.
    pub(super) fn into_raw(self) -> CUevent {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the reference count goes to this copy, which is dropped here.
        drop(unsafe { ptr::read(&raw const this.context) });
        this.raw
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the last use of the event; the driver keeps its own state until the work before it is done.
        self.context.call_in_drop(|| unsafe { raw::cuEventDestroy_v2(self.raw) });
    }
}
