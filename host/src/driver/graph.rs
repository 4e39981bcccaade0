//! CUDA graphs: a stream's work recorded once, and launched again as one.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cust::sys::{CUgraph, CUgraphExec};

use super::context::{CAPTURE_MODE_RELAXED, PrimaryContext, report_in_drop};
use super::error::DriverError;
use super::memory::Block;
use super::module::Module;
use super::raw;
use super::stream::Stream;

/// What a recording refers to, and what must therefore live as long as its graph.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) blocks: Vec<Block>,
    pub(super) modules: Vec<Arc<Module>>,
}

/// A recording in progress. Dropping it ends it and throws the work away.
#[derive(Debug)]
#[must_use = "dropping a recording throws it away"]
pub struct Capture {
    stream: Option<Stream>,
}

impl Capture {
    pub(super) fn begin(stream: &Stream) -> Result<Self, DriverError> {
        let handle = stream.handle();
        // SAFETY: the stream is live.
        let call = || unsafe { raw::cuStreamBeginCapture_v2(handle.raw(), CAPTURE_MODE_RELAXED) };
        handle.context().call(call)?;
        handle.set_kept(Some(Kept::default()));
        Ok(Self { stream: Some(stream.clone()) })
    }

    /// Ends the recording and makes it ready to launch.
    ///
    /// # Errors
    /// What the driver answers: work that can't be recorded comes out here.
    pub fn end(mut self) -> Result<Graph, DriverError> {
        let stream = self.stream.take().expect("a recording ends once");
        let (kept, graph) = finish(&stream);
        let graph = graph?;
        let context = stream.handle().context();
        let mut nodes = 0;
        // SAFETY: the graph is live; with a null list the call writes the count alone.
        context.call(|| unsafe { raw::cuGraphGetNodes(graph.raw, ptr::null_mut(), &raw mut nodes) })?;
        let mut exec = ptr::null_mut();
        // SAFETY: `exec` is valid for a write, and the graph is live.
        context.call(|| unsafe { raw::cuGraphInstantiateWithFlags(&raw mut exec, graph.raw, 0) })?;
        Ok(Graph { exec, nodes, kept, context: Arc::clone(context) })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        let (kept, graph) = finish(&stream);
        match graph {
            Ok(graph) => drop(graph),
            Err(error) => report_in_drop(&error),
        }
        drop(kept);
    }
}

/// Ends a recording, whatever comes of it.
fn finish(stream: &Stream) -> (Kept, Result<RecordedGraph, DriverError>) {
    let handle = stream.handle();
    let mut raw = ptr::null_mut();
    // SAFETY: the stream is live, and `raw` is valid for a write.
    let ended = handle.context().call(|| unsafe { raw::cuStreamEndCapture(handle.raw(), &raw mut raw) });
    let kept = handle.set_kept(None).unwrap_or_default();
    (kept, ended.map(|()| RecordedGraph { raw, context: Arc::clone(handle.context()) }))
}

/// A graph as the driver recorded it.
struct RecordedGraph {
    raw: CUgraph,
    context: Arc<PrimaryContext>,
}

impl Drop for RecordedGraph {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the last use of the graph; what was instantiated from it is its own.
            self.context.call_in_drop(|| unsafe { raw::cuGraphDestroy(self.raw) });
        }
    }
}

/// Recorded work, ready to launch any number of times. It refers to the buffers and streams' addresses that it
/// was recorded with.
pub struct Graph {
    exec: CUgraphExec,
    nodes: usize,
    kept: Kept,
    context: Arc<PrimaryContext>,
}

// SAFETY: executable graphs may be used from any thread that binds their context, one at a time: launches take
// `&mut self`.
unsafe impl Send for Graph {}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl Graph {
    /// How many operations (kernels, copies, fills) it has.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Launches the work in stream order. One graph's launches never overlap.
    ///
    /// # Safety
    /// What the recorded work needs still holds: its buffers are live (those that were dropped while it was
    /// recorded are), and no other work uses them at the same time.
    ///
    /// # Errors
    /// [`DriverError::OtherDevice`], and what the driver answers.
    pub unsafe fn launch(&mut self, stream: &Stream) -> Result<(), DriverError> {
        stream.handle().expect_context(&self.context)?;
        for block in &self.kept.blocks {
            block.use_on(stream)?;
        }
        // SAFETY: both handles are live; the work's needs are the caller's contract.
        self.context.launch(|| unsafe { raw::cuGraphLaunch(self.exec, stream.handle().raw()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the last use of the graph; the driver finishes launches in progress first.
        self.context.call_in_drop(|| unsafe { raw::cuGraphExecDestroy(self.exec) });
    }
}
