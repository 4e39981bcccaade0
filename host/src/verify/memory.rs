//! Buffers on their way to a device and back, and the executors of this crate.

use super::erased::Call;
use super::failure::Failure;
use crate::device::Device;
use crate::kernel::Algorithm;
use crate::launch::Access;

/// Bytes before and after each buffer that must stay as they are.
const RED_ZONE: usize = 256;

/// Reads as NaN, or as all ones.
const RED_INPUT: u8 = 0xff;

/// Another pattern, so that a copy from outside an input to outside an output is seen.
const RED_OUTPUT: u8 = 0xa5;

/// A buffer of a launch, in host memory.
#[derive(Clone, Debug)]
pub struct HostBuffer {
    /// The argument's name.
    pub name: &'static str,
    /// Bytes an element.
    pub element_bytes: usize,
    /// How many elements its base is off an aligned address.
    pub offset: usize,
    /// What the launch does with it.
    pub access: Access,
    /// Its elements.
    pub bytes: Vec<u8>,
}

impl HostBuffer {
    /// Where the elements start in [`guarded`](HostBuffer::guarded), whose own base should be aligned.
    pub fn start(&self) -> usize {
        RED_ZONE + self.offset * self.element_bytes
    }

    /// The elements between red zones, as an executor should place them.
    pub fn guarded(&self) -> Vec<u8> {
        let red = if self.access == Access::Read { RED_INPUT } else { RED_OUTPUT };
        let mut guarded = vec![red; self.start()];
        guarded.extend_from_slice(&self.bytes);
        guarded.resize(guarded.len() + RED_ZONE, red);
        guarded
    }

    /// Takes back what [`guarded`](HostBuffer::guarded) became.
    ///
    /// # Errors
    /// A byte of a red zone, or an input, that changed.
    pub fn take(&mut self, guarded: &[u8]) -> Result<(), Failure> {
        let buffer = self.name;
        let before = self.guarded();
        let (start, end) = (self.start(), self.start() + self.bytes.len());
        let changed = |range: std::ops::Range<usize>| range.into_iter().find(|&i| guarded[i] != before[i]);
        if let Some(at) = changed(0..start) {
            return Err(Failure::RedZone { buffer, side: "before", distance: start - at });
        }
        if let Some(at) = changed(end..before.len()) {
            return Err(Failure::RedZone { buffer, side: "after", distance: at - end + 1 });
        }
        if self.access == Access::Read {
            return match changed(start..end) {
                Some(at) => Err(Failure::InputChanged { buffer, element: (at - start) / self.element_bytes }),
                None => Ok(()),
            };
        }
        self.bytes.copy_from_slice(&guarded[start..end]);
        Ok(())
    }
}

/// Something that carries out launches: a device, or a machine that plays one.
pub trait Executor {
    /// What to call it.
    fn name(&self) -> String;

    /// Places the buffers with their red zones, launches, waits, and takes the outputs back.
    ///
    /// # Errors
    /// Whatever is wrong with the launch, and what [`HostBuffer::take`] finds.
    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure>;
}

impl Executor for Device {
    fn name(&self) -> String {
        self.to_string()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let placed =
            buffers.iter().map(|buffer| self.upload(&buffer.guarded())).collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<_> = placed
            .iter()
            .zip(&*buffers)
            .map(|(at, buffer)| at.as_ptr() as u64 + buffer.start() as u64)
            .collect();
        // SAFETY: every buffer has the elements that the contract names, which `check` compared with what the
        // launch touches, and nothing else uses the fresh copies.
        unsafe { call.launch(self, &addresses)? };
        self.synchronize()?;
        placed.iter().zip(buffers).try_for_each(|(at, buffer)| buffer.take(&at.to_vec()?))
    }
}

/// An executor whose convolutions run on the kernels of a choice.
#[derive(Clone, Copy)]
pub struct Choosing<'a> {
    executor: &'a dyn Executor,
    algorithm: Algorithm,
}

impl<'a> Choosing<'a> {
    /// The same executor with this choice.
    #[must_use]
    pub fn new(executor: &'a dyn Executor, algorithm: Algorithm) -> Self {
        Self { executor, algorithm }
    }
}

impl Executor for Choosing<'_> {
    fn name(&self) -> String {
        self.executor.name()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let mut call = *call;
        call.options.algorithm = self.algorithm;
        self.executor.run(&call, buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(access: Access) -> HostBuffer {
        HostBuffer { name: "x", element_bytes: 4, offset: 1, access, bytes: vec![1; 12] }
    }

    #[test]
    fn guarded_surrounds_the_elements() {
        let buffer = buffer(Access::Write);
        let guarded = buffer.guarded();
        assert_eq!(buffer.start(), 260);
        assert_eq!(guarded.len(), 260 + 12 + 256);
        assert_eq!(&guarded[buffer.start()..][..12], &buffer.bytes[..]);
    }

    #[test]
    fn take_sees_every_byte_outside() {
        for (at, expected) in [(0, "260 bytes before"), (259, "1 bytes before"), (272, "1 bytes after")] {
            let mut buffer = buffer(Access::Write);
            let mut guarded = buffer.guarded();
            guarded[at] ^= 1;
            let failure = buffer.take(&guarded).expect_err("a byte outside changed");
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }

    #[test]
    fn take_sees_a_changed_input() {
        let mut buffer = buffer(Access::Read);
        let mut guarded = buffer.guarded();
        guarded[265] ^= 1;
        let failure = buffer.take(&guarded).expect_err("an input changed");
        assert!(matches!(failure, Failure::InputChanged { element: 1, .. }), "{failure}");
    }

    #[test]
    fn take_brings_outputs_back() {
        let mut buffer = buffer(Access::Accumulate);
        let mut guarded = buffer.guarded();
        guarded[265] = 9;
        buffer.take(&guarded).expect("only an output changed");
        assert_eq!(buffer.bytes[5], 9);
    }
}
