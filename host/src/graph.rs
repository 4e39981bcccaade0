//! Recorded work: a stream's operations as one object, to run again and again.
//!
//! [`Stream::prepare`] and [`Stream::capture`] take the same closure. The first loads what its operations need and
//! runs nothing; the second records them. Operations with `_into` in their name allocate nothing, so they can be
//! recorded as they are; what others allocate while they are recorded lives as long as the graph.

use std::fmt;
use std::sync::Arc;

use crate::device::{Device, Phase, Queue, Step, Stream};
use crate::error::{Error, Result};
use crate::tensor::{Storage, expect_device};

/// Recorded work. It keeps the memory that it uses alive.
///
/// On a GPU it is a CUDA graph: one launch runs all of it, without the host's cost of each operation. On the CPU it
/// is a list of operations.
pub struct Graph {
    work: Work,
    /// What a run reads and, where the flag is set, writes.
    uses: Vec<(Arc<Storage>, bool)>,
    device: Device,
}

enum Work {
    Cpu(Vec<Step>),
    #[cfg(feature = "cuda")]
    Cuda(crate::driver::Graph),
}

impl Stream {
    /// Loads what the closure's operations need, so that they can be recorded; none of them runs. Outputs that the
    /// closure allocates hold nothing in particular.
    ///
    /// # Errors
    /// The closure's; [`Error::Capturing`] while the stream is prepared or recorded already.
    pub fn prepare(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let _phase = self.enter(Phase::Prepare)?;
        work(self)
    }

    /// Records the closure's operations instead of running them.
    ///
    /// A failed operation ends the recording: its error comes back, nothing is kept, and the stream runs what it is
    /// given again. Work of other streams is not recorded. While recorded work waits to be launched, other streams
    /// see the tensors as they were.
    ///
    /// # Errors
    /// The closure's; [`Error::NotPrepared`] for an operation that was neither run before nor
    /// [prepared](Stream::prepare); [`Error::CaptureFailed`] if the closure went on after a failure;
    /// [`Error::Capturing`] while the stream is recorded already; what the driver answers.
    pub fn capture(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<Graph> {
        // What a stream did before its recording is waited for once, so that nobody has to wait for a stream that
        // is being recorded, which CUDA forbids.
        self.synchronize()?;
        let _phase = self.enter(Phase::Capture)?;
        let recorded = match self.queue() {
            Queue::Cpu => {
                work(self)?;
                Work::Cpu(std::mem::take(&mut self.recording().steps))
            }
            #[cfg(feature = "cuda")]
            Queue::Cuda(stream) => {
                let capture = stream.begin_capture()?;
                work(self)?;
                if self.recording().failed.is_none() {
                    Work::Cuda(capture.end()?)
                } else {
                    drop(capture);
                    Work::Cpu(Vec::new())
                }
            }
        };
        let mut recording = self.recording();
        if let Some(failed) = recording.failed.take() {
            return Err(Error::CaptureFailed(failed));
        }
        let uses = std::mem::take(&mut recording.uses);
        Ok(Graph { work: recorded, uses, device: self.device().clone() })
    }
}

impl Graph {
    /// How many operations it has.
    pub fn nodes(&self) -> usize {
        match &self.work {
            Work::Cpu(steps) => steps.len(),
            #[cfg(feature = "cuda")]
            Work::Cuda(graph) => graph.nodes(),
        }
    }

    /// Runs the work in the stream's order, behind all work on the tensors that it uses.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] for a stream of another device; [`Error::Capturing`] while the stream is recorded;
    /// [`Error::InUse`] for host memory that another thread uses; what the driver answers.
    pub fn launch(&mut self, stream: &Stream) -> Result<()> {
        stream.expect_run("the launch of a graph")?;
        expect_device("the graph", &self.device, stream)?;
        match &mut self.work {
            Work::Cpu(steps) => steps.iter().try_for_each(|step| step()),
            #[cfg(feature = "cuda")]
            Work::Cuda(graph) => {
                let (crate::device::Place::Cuda(gpu), Some(queue)) = (&self.device.place, stream.cuda())
                else {
                    return Ok(());
                };
                let _order = gpu.order();
                for (storage, writes) in &self.uses {
                    storage.order(queue, *writes)?;
                    storage.use_on(queue)?;
                }
                // SAFETY: the graph keeps its buffers alive, and the stream is ordered behind their other users.
                unsafe { graph.launch(queue)? };
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("device", &self.device)
            .field("nodes", &self.nodes())
            .field("tensors", &self.uses.len())
            .finish_non_exhaustive()
    }
}
