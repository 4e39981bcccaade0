//! A device's primary context, bound for each call.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, take};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cust::context::{Context, ContextHandle};
use cust::device::Device;
use cust::sys::{CUcontext, CUevent};

use super::codes;
use super::error::{DriverError, code_name};
use super::raw::{self, Answer};
use super::stream::StreamHandle;

/// The mode of recordings, and of a thread towards those of others, that forbids nothing beforehand.
pub(super) const CAPTURE_MODE_RELAXED: u32 = 2;

/// The primary context of a device, which the CUDA runtime and other libraries of the process share.
///
/// Everything made from a device holds one of these; the last to go releases the context.
pub(super) struct PrimaryContext {
    context: ManuallyDrop<Context>,
    ordinal: u32,
    /// The first answer that made the context useless, and the call that got it.
    lost: OnceLock<Answer>,
    work: Mutex<Work>,
}

/// What may still run on the device.
#[derive(Default)]
struct Work {
    streams: Vec<Weak<StreamHandle>>,
    /// The last work of streams that were dropped before it was done.
    retired: Vec<RetiredEvent>,
}

thread_local! {
    /// What a guard further out on this thread has bound.
    static HELD: Cell<Held> = const { Cell::new(Held { context: ptr::null(), relaxed: false }) };
}

/// What a thread's outermost guards hold, so that those further in need not ask the driver.
#[derive(Clone, Copy)]
struct Held {
    context: *const PrimaryContext,
    /// Whether the thread said that it knows what it does beside recordings.
    relaxed: bool,
}

/// An event that belongs to the context's list alone.
struct RetiredEvent(CUevent);

// SAFETY: events may be used from any thread that binds their context.
unsafe impl Send for RetiredEvent {}

impl PrimaryContext {
    /// Retains the primary context, leaving the thread's current context as it was.
    pub(super) fn retain(device: Device, ordinal: u32) -> Result<Self, DriverError> {
        let mut before = ptr::null_mut();
        // SAFETY: `before` is valid for a write.
        unsafe { raw::cuCtxGetCurrent(&raw mut before) }.ok()?;
        let context =
            Context::new(device).map_err(|error| DriverError::cust("cuDevicePrimaryCtxRetain", error))?;
        // SAFETY: `before` was current a moment ago, on this thread. cust has put its context in its place, and
        // null takes that away again.
        let restored = unsafe { raw::cuCtxSetCurrent(before) }.ok();
        let this = Self {
            context: ManuallyDrop::new(context),
            ordinal,
            lost: OnceLock::new(),
            work: Mutex::default(),
        };
        restored.map(|()| this)
    }

    /// The device's number.
    pub(super) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    fn raw(&self) -> CUcontext {
        self.context.get_inner()
    }

    /// Makes the context current on this thread until the guard is dropped.
    ///
    /// Other code on the thread may bind what it likes between our calls, and what it has bound decides where
    /// its own later calls go. So the current context is asked for each time, never remembered, and is put back
    /// afterwards. Where it is ours already (after [`super::CudaDevice::make_current`], or on a thread that
    /// uses the CUDA runtime on this device), that is one call, else three; each reads or writes a variable of
    /// the thread and does not reach the device.
    ///
    /// Inside another guard of this context nothing is asked: what runs there is this crate's alone.
    pub(super) fn bind_for_launch(&self) -> Result<Bound<'_>, DriverError> {
        let mut bound = Bound { pushed: false, mode: None, before: HELD.get(), lifetime: PhantomData };
        if ptr::eq(bound.before.context, self) {
            return Ok(bound);
        }
        let mut current = ptr::null_mut();
        // SAFETY: `current` is valid for a write.
        self.check(unsafe { raw::cuCtxGetCurrent(&raw mut current) })?;
        if current != self.raw() {
            // SAFETY: the context is retained.
            self.check(unsafe { raw::cuCtxPushCurrent_v2(self.raw()) })?;
            bound.pushed = true;
        }
        HELD.set(Held { context: self, ..bound.before });
        Ok(bound)
    }

    /// The same, and what the thread does is allowed beside recordings of other streams.
    ///
    /// A recording in CUDA's default mode forbids allocating, waiting, asking and loading modules to all threads
    /// of the process, and an attempt spoils the recording. Where no recorded stream is concerned, all of them
    /// are harmless to it, drops included, so the thread says that it knows what it does.
    pub(super) fn bind(&self) -> Result<Bound<'_>, DriverError> {
        let mut bound = self.bind_for_launch()?;
        if bound.before.relaxed {
            return Ok(bound);
        }
        let mut mode = CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` is valid for a read and a write.
        if unsafe { raw::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.ok().is_ok() {
            bound.mode = Some(mode);
            HELD.set(Held { context: self, relaxed: true });
        }
        Ok(bound)
    }

    /// Makes the context current on this thread for good.
    pub(super) fn make_current(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained.
        self.check(unsafe { raw::cuCtxSetCurrent(self.raw()) })
    }

    /// Makes one call with the context bound.
    pub(super) fn call(&self, call: impl FnOnce() -> Answer) -> Result<(), DriverError> {
        let bound = self.bind()?;
        let answer = call();
        drop(bound);
        self.check(answer)
    }

    /// Makes one call that launches work, in as few steps as there can be.
    pub(super) fn launch(&self, call: impl FnOnce() -> Answer) -> Result<(), DriverError> {
        let bound = self.bind_for_launch()?;
        let answer = call();
        drop(bound);
        self.check(answer)
    }

    /// Makes one call of a drop: what goes wrong is only reported.
    pub(super) fn call_in_drop(&self, call: impl FnOnce() -> Answer) {
        if let Err(error) = self.call(call) {
            report_in_drop(&error);
        }
    }

    /// The error of an answer. One that stays is kept, and explains every later error.
    pub(super) fn check(&self, answer: Answer) -> Result<(), DriverError> {
        if answer.code == codes::SUCCESS {
            return Ok(());
        }
        let first = if codes::is_sticky(answer.code) {
            Some(self.lost.get_or_init(|| answer))
        } else {
            self.lost.get()
        };
        match first {
            Some(first) if answer.code != codes::NOT_READY => Err(DriverError::ContextLost {
                call: answer.call,
                ordinal: self.ordinal,
                first: code_name(first.code),
                first_call: first.call,
            }),
            _ => answer.ok(),
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a stream, whose work a module may belong to.
    pub(super) fn add_stream(&self, stream: &Arc<StreamHandle>) {
        let mut work = self.work();
        work.streams.retain(|stream| stream.strong_count() > 0);
        work.streams.push(Arc::downgrade(stream));
    }

    /// Keeps the event that follows the last work of a dropped stream, and lets go of those that are done.
    pub(super) fn retire(&self, event: CUevent) {
        let mut work = self.work();
        work.retired.push(RetiredEvent(event));
        // SAFETY: the context is bound by the caller, and the list's events are live.
        let (waiting, done) = take(&mut work.retired)
            .into_iter()
            .partition(|event| unsafe { raw::cuEventQuery(event.0) }.code == codes::NOT_READY);
        work.retired = waiting;
        drop(work);
        destroy(done);
    }

    /// Waits until the work of this crate's streams on the device is done; captured streams have none.
    ///
    /// For the unloading of modules, whose code that work may run. Nothing else of the process is waited for.
    pub(super) fn finish_work(&self) {
        if self.lost.get().is_some() {
            return;
        }
        let mut work = self.work();
        let streams: Vec<_> = work.streams.iter().filter_map(Weak::upgrade).collect();
        let retired = take(&mut work.retired);
        drop(work);
        for stream in streams {
            if !stream.may_be_capturing() {
                // SAFETY: `stream` keeps the handle alive.
                self.call_in_drop(|| unsafe { raw::cuStreamSynchronize(stream.raw()) });
            }
        }
        let Ok(_bound) = self.bind() else { return };
        for event in &retired {
            // SAFETY: the event is live and ours.
            if let Err(error) = self.check(unsafe { raw::cuEventSynchronize(event.0) }) {
                report_in_drop(&error);
            }
        }
        destroy(retired);
    }
}

/// Destroys events; the context is bound.
fn destroy(events: Vec<RetiredEvent>) {
    for event in events {
        // SAFETY: the event is live, and this is the last use of it.
        if let Err(error) = unsafe { raw::cuEventDestroy_v2(event.0) }.ok() {
            report_in_drop(&error);
        }
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        let retired = take(&mut self.work().retired);
        if let Ok(_bound) = self.bind() {
            destroy(retired);
        }
        // SAFETY: the context is taken once, here.
        let context = unsafe { ManuallyDrop::take(&mut self.context) };
        if let Err((error, context)) = Context::drop(context) {
            // Its own drop would release a second time.
            std::mem::forget(context);
            report_in_drop(&DriverError::cust("cuDevicePrimaryCtxRelease", error));
        }
    }
}

/// Reports an error that a drop can't return. A driver that is shutting down with the process is no news, nor is
/// a context that is known to be lost.
pub(super) fn report_in_drop(error: &DriverError) {
    if error.code() == Some(codes::DEINITIALIZED) || matches!(error, DriverError::ContextLost { .. }) {
        log::debug!("while dropping: {error}");
    } else {
        log::warn!("while dropping: {error}");
    }
}

/// A context that is current on this thread.
///
/// While there is one, the thread runs nothing but this crate's code, and guards end in the opposite order.
#[must_use]
pub(super) struct Bound<'a> {
    pushed: bool,
    /// The thread's mode towards recordings, to put back.
    mode: Option<u32>,
    /// What was held before.
    before: Held,
    /// Of the context, on this thread alone.
    lifetime: PhantomData<(&'a PrimaryContext, *const ())>,
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        HELD.set(self.before);
        if let Some(mut mode) = self.mode {
            // SAFETY: `mode` is valid for a read and a write.
            if let Err(error) = unsafe { raw::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.ok() {
                report_in_drop(&error);
            }
        }
        if self.pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: `popped` is valid for a write; the context on top is the one that was pushed.
            if let Err(error) = unsafe { raw::cuCtxPopCurrent_v2(&raw mut popped) }.ok() {
                report_in_drop(&error);
            }
        }
    }
}
