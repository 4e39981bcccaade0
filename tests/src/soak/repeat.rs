//! Every launch twice, on two streams.

use std::sync::atomic::{AtomicUsize, Ordering};

use cotangent::Stream;
use cotangent::launch::Access;
use cotangent::verify::{Call, Executor, Failure, HostBuffer};

/// Changes what a launch has left in its buffers, or fails, to see that this is found. The number is 0 for a launch and
/// 1 for its repetition.
pub type Fault = fn(&Call<'_>, usize, &mut [HostBuffer]) -> Result<(), Failure>;

/// An executor that launches everything twice, on streams in turn, and compares the bits.
pub(super) struct Repeating<'a> {
    executor: &'a dyn Executor,
    streams: &'a [Stream],
    next: AtomicUsize,
    fault: Option<Fault>,
}

impl<'a> Repeating<'a> {
    /// Starts with the stream of this number.
    pub(super) fn new(
        executor: &'a dyn Executor,
        streams: &'a [Stream],
        first: usize,
        fault: Option<Fault>,
    ) -> Self {
        Self { executor, streams, next: AtomicUsize::new(first), fault }
    }

    fn once(&self, call: &Call<'_>, number: usize, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let stream = &self.streams[self.next.fetch_add(1, Ordering::Relaxed) % self.streams.len()];
        let call = Call { options: call.options.stream(stream), ..*call };
        self.executor.run(&call, buffers)?;
        self.fault.map_or(Ok(()), |fault| fault(&call, number, buffers))
    }
}

impl Executor for Repeating<'_> {
    fn name(&self) -> String {
        self.executor.name()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let mut repeated = buffers.to_vec();
        self.once(call, 0, buffers)?;
        self.once(call, 1, &mut repeated)?;
        for (one, two) in buffers.iter().zip(&repeated).filter(|(one, _)| one.access != Access::Read) {
            let elements = |buffer: &HostBuffer| {
                let chunks = buffer.bytes.chunks(buffer.element_bytes);
                chunks.map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            if one.bytes != two.bytes {
                let pairs = elements(one).into_iter().zip(elements(two)).enumerate();
                let (element, (first, second)) =
                    pairs.into_iter().find(|(_, (a, b))| a != b).expect("some element differs");
                let [first, second] = [first, second].map(|bytes| format!("{bytes:02x?} on one stream"));
                return Err(Failure::Unsteady { buffer: one.name, element, first, second });
            }
        }
        Ok(())
    }
}
