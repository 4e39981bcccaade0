//! A warp's thread-local memory: the same variables in each lane, each lane with bytes of its own.

use super::error::{Fault, Kind, Outcome};
use super::regs::{LANES, Row, lanes};
use super::shared::Place;

/// The first local address.
pub(crate) const FIRST_LOCAL: u64 = 1024;

/// The local memory of one warp.
#[derive(Debug)]
pub(crate) struct Local {
    places: Vec<Place>,
    stride: usize,
    data: Vec<u8>,
    /// One byte a byte: 1 where it is initialised.
    initialised: Vec<u8>,
}

impl Local {
    pub(crate) fn new(places: Vec<Place>) -> Self {
        let stride = places.iter().map(|p| p.start + p.bytes).max().unwrap_or(0) as usize;
        Self { places, stride, data: vec![0; stride * LANES], initialised: vec![0; stride * LANES] }
    }

    /// New threads: nothing is initialised.
    pub(crate) fn restart(&mut self) {
        self.initialised.fill(0);
    }

    fn describe(&self, address: u64) -> String {
        match self.places.iter().rfind(|p| p.start <= address) {
            Some(p) => format!("local `{}` + {} bytes, which has {}", p.name, address - p.start, p.bytes),
            None => format!("local address {address:#x}"),
        }
    }

    /// Checks bounds and alignment of every lane.
    pub(crate) fn check(&self, mask: u32, addresses: &Row, width: usize) -> Outcome {
        for lane in lanes(mask) {
            let address = addresses[lane];
            let end = address.saturating_add(width as u64);
            if !self.places.iter().any(|p| address >= p.start && end <= p.start + p.bytes) {
                let what = format!("access of {width} bytes outside every local variable");
                return Err(Fault::at(Kind::OutOfBounds, lane as u32, self.describe(address), what));
            }
            if address & (width as u64 - 1) != 0 {
                let what =
                    format!("access of {width} bytes at local address {address:#x}, which is misaligned");
                return Err(Fault::at(Kind::Misaligned, lane as u32, self.describe(address), what));
            }
        }
        Ok(())
    }

    /// The value at a checked address, and which of its bytes are initialised.
    pub(crate) fn load(&self, lane: usize, address: u64, width: usize) -> (u64, u64) {
        let at = lane * self.stride + address as usize;
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(&self.data[at..at + width]);
        let defined = (0..width).fold(0, |set, byte| set | (self.initialised[at + byte] as u64) << byte);
        (u64::from_le_bytes(bytes), defined)
    }

    /// Stores the low `width` bytes at a checked address; `defined` has a bit a byte.
    pub(crate) fn store(&mut self, lane: usize, address: u64, width: usize, value: u64, defined: u64) {
        let at = lane * self.stride + address as usize;
        self.data[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        for byte in 0..width {
            self.initialised[at + byte] = (defined >> byte & 1) as u8;
        }
    }

    /// Copies bytes with their definedness, within one lane.
    pub(crate) fn transfer(&mut self, lane: usize, from: u64, to: u64, bytes: usize) {
        let base = lane * self.stride;
        let (from, to) = (base + from as usize, base + to as usize);
        self.data.copy_within(from..from + bytes, to);
        self.initialised.copy_within(from..from + bytes, to);
    }
}
