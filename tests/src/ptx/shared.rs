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

/// Replaces up to 64 bits; those of a range that crosses no word in one go.
#[inline]
fn put_bits(bits: &mut [u64], start: usize, len: usize, value: u64) {
    let (word, shift) = (start / 64, start % 64);
    if shift + len <= 64 {
        let ones = if len == 64 { u64::MAX } else { (1 << len) - 1 };
        bits[word] = bits[word] & !(ones << shift) | (value & ones) << shift;
        return;
    }
    let here = 64 - shift;
    put_bits(bits, start, here, value);
    put_bits(bits, start + here, len - here, value >> here);
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
        let (mut low, mut high, mut all) = (u64::MAX, 0, 0);
        for lane in lanes(mask) {
            low = low.min(addresses[lane]);
            high = high.max(addresses[lane]);
            all |= addresses[lane];
        }
        let within = |p: &Place| low >= p.start && high.saturating_add(width as u64) <= p.start + p.bytes;
        if self.in_flight_count == 0 && all & (width as u64 - 1) == 0 && self.places.iter().any(within) {
            return Ok(());
        }
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
            self.check_in_flight(lane, address, width)?;
        }
        Ok(())
    }

    /// Fails if an unfinished copy is under way to these bytes.
    pub(crate) fn check_in_flight(&self, lane: usize, address: u64, width: usize) -> Outcome {
        if self.in_flight_count == 0 || bit_range(&self.in_flight, address as usize, width) == 0 {
            return Ok(());
        }
        let what = "touches bytes that an asynchronous copy has yet to write";
        Err(Fault::at(Kind::InFlight, lane as u32, self.describe(address), what))
    }

    /// Which bytes at an address are initialised, a bit a byte.
    #[inline]
    pub(crate) fn defined(&self, address: u64, width: usize) -> u64 {
        bit_range(&self.initialised, address as usize, width)
    }

    /// The lanes whose bytes are all initialised.
    pub(crate) fn all_defined(&self, mask: u32, addresses: &Row, width: usize) -> u32 {
        let all = (1_u64 << width) - 1;
        lanes(mask)
            .filter(|&lane| self.defined(addresses[lane], width) == all)
            .fold(0, |m, lane| m | 1 << lane)
    }

    /// Notes which bytes at an address are initialised.
    #[inline]
    pub(crate) fn set_defined(&mut self, address: u64, width: usize, bytes: u64) {
        put_bits(&mut self.initialised, address as usize, width, bytes);
    }

    #[inline(always)]
    pub(crate) fn load(&self, address: u64, width: usize) -> u64 {
        let at = address as usize;
        let bytes = &self.data[at..at + width];
        match *bytes {
            [a] => a as u64,
            [a, b] => u16::from_le_bytes([a, b]) as u64,
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as u64,
            [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => bytes.iter().rev().fold(0, |value, &byte| value << 8 | byte as u64),
        }
    }

    #[inline(always)]
    pub(crate) fn store(&mut self, address: u64, width: usize, value: u64) {
        let at = address as usize;
        let bytes = &mut self.data[at..at + width];
        match width {
            1 => bytes.copy_from_slice(&(value as u8).to_le_bytes()),
            2 => bytes.copy_from_slice(&(value as u16).to_le_bytes()),
            4 => bytes.copy_from_slice(&(value as u32).to_le_bytes()),
            8 => bytes.copy_from_slice(&value.to_le_bytes()),
            _ => bytes.copy_from_slice(&value.to_le_bytes()[..width]),
        }
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
            let granules = self.granules(addresses[lane], width);
            let stamps = self.readers[granules.clone()].iter_mut().zip(&self.writer[granules]);
            for (readers, &writer) in stamps {
                *readers = after_read(*readers, touch, who.clock);
                if conflicts(writer, touch, who.clock) {
                    return Err(self.race(lane, addresses[lane], "reads", "wrote", writer));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn stamp_writes(&mut self, mask: u32, addresses: &Row, width: usize, who: Who<'_>) -> Outcome {
        for lane in lanes(mask) {
            self.stamp_write(lane, addresses[lane], width, who)?;
        }
        Ok(())
    }

    /// Notes that a lane writes, and finds who wrote or read there unordered.
    pub(crate) fn stamp_write(&mut self, lane: usize, address: u64, width: usize, who: Who<'_>) -> Outcome {
        let touch = who.touch(lane);
        let granules = self.granules(address, width);
        let stamps = self.writer[granules.clone()].iter_mut().zip(&self.readers[granules]);
        for (writer, &readers) in stamps {
            let old = *writer;
            if conflicts(old, touch, who.clock) {
                return Err(self.race(lane, address, "writes", "wrote", old));
            }
            if conflicts(readers, touch, who.clock) {
                return Err(self.race(lane, address, "writes", "read", readers));
            }
            *writer = after_write(old, touch);
        }
        Ok(())
    }

    #[inline(always)]
    fn granules(&self, address: u64, width: usize) -> std::ops::Range<usize> {
        let at = address as usize;
        at >> self.shift..((at + width - 1) >> self.shift) + 1
    }

    fn race(&self, lane: usize, address: u64, does: &str, did: &str, stamp: u64) -> Box<Fault> {
        let who = super::race::describe(stamp);
        let what = format!("{does} what {who} {did}, with no barrier between");
        Fault::at(Kind::Race, lane as u32, self.describe(address), what)
    }
}
