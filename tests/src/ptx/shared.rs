//! A block's shared memory: its variables, their bytes, and the same checks as for device memory.

use super::error::{Fault, Kind, Outcome};
use super::global::Who;
use super::race::{after_read, after_write, conflicts};
use super::regs::{Row, lanes};

/// The first shared address, so that a null pointer hits nothing.
pub(crate) const FIRST_SHARED: u64 = 1024;
/// The distance between two variables, which is never touched.
pub(crate) const SHARED_GAP: u64 = 256;

/// A variable's place in shared memory. All dynamic variables share one place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// The shared memory of the block that runs now.
#[derive(Debug)]
pub(crate) struct Shared {
    places: Vec<Place>,
    pub(crate) data: Vec<u8>,
    /// One bit a byte, 64 in a word.
    initialised: Vec<u64>,
    /// Bytes that an asynchronous copy has yet to write.
    in_flight: Vec<u64>,
    in_flight_count: usize,
    shift: u32,
    writer: Vec<u64>,
    readers: Vec<u64>,
}

fn bit_range(bits: &[u64], start: usize, len: usize) -> u64 {
    let (word, shift) = (start / 64, start % 64);
    let low = bits[word] >> shift;
    let high = if shift == 0 { 0 } else { bits.get(word + 1).map_or(0, |next| next << (64 - shift)) };
    let all = low | high;
    if len >= 64 { all } else { all & ((1 << len) - 1) }
}

fn put_bits(bits: &mut [u64], start: usize, len: usize, value: u64) {
    for bit in 0..len {
        let (word, shift) = ((start + bit) / 64, (start + bit) % 64);
        bits[word] = bits[word] & !(1 << shift) | (value >> bit & 1) << shift;
    }
}

impl Shared {
    /// Memory for these variables, with stamps for granules of `1 << shift` bytes.
    pub(crate) fn new(places: Vec<Place>, shift: u32) -> Self {
        let bytes = places.iter().map(|p| p.start + p.bytes).max().unwrap_or(0) as usize;
        let granules = bytes.div_ceil(1 << shift);
        Self {
            places,
            data: vec![0; bytes],
            initialised: vec![0; bytes.div_ceil(64)],
            in_flight: vec![0; bytes.div_ceil(64)],
            in_flight_count: 0,
            shift,
            writer: vec![0; granules],
            readers: vec![0; granules],
        }
    }

    /// A new block: nothing is initialised.
    pub(crate) fn restart(&mut self) {
        self.initialised.fill(0);
        self.in_flight.fill(0);
        self.in_flight_count = 0;
        self.writer.fill(0);
        self.readers.fill(0);
    }

    pub(crate) fn describe(&self, address: u64) -> String {
        let nearest = self.places.iter().min_by_key(|p| {
            let end = p.start + p.bytes;
            if address < p.start { p.start - address } else { address.saturating_sub(end) }
        });
        match nearest {
            Some(p) if address < p.start => format!("shared `{}` - {} bytes", p.name, p.start - address),
            Some(p) => format!("shared `{}` + {} bytes, which has {}", p.name, address - p.start, p.bytes),
            None => format!("shared address {address:#x}; the block has no shared memory"),
        }
    }

    /// Checks bounds and alignment of every lane, and that no unfinished copy is under way there.
    pub(crate) fn check(&self, mask: u32, addresses: &Row, width: usize) -> Outcome {
        let mut place: Option<&Place> = None;
        for lane in lanes(mask) {
            let address = addresses[lane];
            let inside =
                |p: &&Place| address >= p.start && address.saturating_add(width as u64) <= p.start + p.bytes;
            if place.as_ref().is_none_or(|x| !inside(x)) {
                place = self.places.iter().find(inside);
                if place.is_none() {
                    let what = format!("access of {width} bytes outside every shared variable");
                    return Err(Fault::at(Kind::OutOfBounds, lane as u32, self.describe(address), what));
                }
            }
            if address & (width as u64 - 1) != 0 {
                let what =
                    format!("access of {width} bytes at shared address {address:#x}, which is misaligned");
                return Err(Fault::at(Kind::Misaligned, lane as u32, self.describe(address), what));
            }
            if self.in_flight_count > 0 && bit_range(&self.in_flight, address as usize, width) != 0 {
                let what = "touches bytes that an asynchronous copy has yet to write";
                return Err(Fault::at(Kind::InFlight, lane as u32, self.describe(address), what));
            }
        }
        Ok(())
    }

    /// Which bytes at an address are initialised, a bit a byte.
    #[inline]
    pub(crate) fn defined(&self, address: u64, width: usize) -> u64 {
        bit_range(&self.initialised, address as usize, width)
    }

    /// Notes which bytes at an address are initialised.
    #[inline]
    pub(crate) fn set_defined(&mut self, address: u64, width: usize, bytes: u64) {
        let (word, shift) = (address as usize / 64, address as usize % 64);
        if shift + width <= 64 {
            let ones = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            let cleared = self.initialised[word] & !(ones << shift);
            self.initialised[word] = cleared | (bytes & ones) << shift;
        } else {
            put_bits(&mut self.initialised, address as usize, width, bytes);
        }
    }

    #[inline]
    pub(crate) fn load(&self, address: u64, width: usize) -> u64 {
        let at = address as usize;
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(&self.data[at..at + width]);
        u64::from_le_bytes(bytes)
    }

    #[inline]
    pub(crate) fn store(&mut self, address: u64, width: usize, value: u64) {
        let at = address as usize;
        self.data[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    /// Notes that a copy is under way to these bytes, or that it has arrived.
    pub(crate) fn set_in_flight(&mut self, address: u64, width: usize, flying: bool) {
        put_bits(&mut self.in_flight, address as usize, width, if flying { u64::MAX } else { 0 });
        if flying {
            self.in_flight_count += 1;
        } else {
            self.in_flight_count -= 1;
        }
    }

    pub(crate) fn stamp_reads(&mut self, mask: u32, addresses: &Row, width: usize, who: Who<'_>) -> Outcome {
        for lane in lanes(mask) {
            let touch = who.touch(lane);
            let offset = addresses[lane] as usize;
            for granule in offset >> self.shift..=(offset + width - 1) >> self.shift {
                self.readers[granule] = after_read(self.readers[granule], touch, who.clock);
                if conflicts(self.writer[granule], touch, who.clock) {
                    return Err(self.race(lane, addresses[lane], "reads", "wrote", self.writer[granule]));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn stamp_writes(&mut self, mask: u32, addresses: &Row, width: usize, who: Who<'_>) -> Outcome {
        for lane in lanes(mask) {
            let touch = who.touch(lane);
            let offset = addresses[lane] as usize;
            for granule in offset >> self.shift..=(offset + width - 1) >> self.shift {
                if conflicts(self.writer[granule], touch, who.clock) {
                    return Err(self.race(lane, addresses[lane], "writes", "wrote", self.writer[granule]));
                }
                if conflicts(self.readers[granule], touch, who.clock) {
                    return Err(self.race(lane, addresses[lane], "writes", "read", self.readers[granule]));
                }
                self.writer[granule] = after_write(self.writer[granule], touch);
            }
        }
        Ok(())
    }

    fn race(&self, lane: usize, address: u64, does: &str, did: &str, stamp: u64) -> Box<Fault> {
        let who = super::race::describe(stamp);
        let what = format!("{does} what {who} {did}, with no barrier between");
        Fault::at(Kind::Race, lane as u32, self.describe(address), what)
    }
}
