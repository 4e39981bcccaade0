//! A warp's access to device memory, with every check.

use std::sync::atomic::Ordering::SeqCst;

use super::error::{Fault, Kind, Outcome};
use super::memory::{Memory, Region};
use super::race::{Clock, How, Touch, after_read, after_write, conflicts, describe};
use super::regs::{Row, lanes};

/// The warp that accesses memory.
#[derive(Clone, Copy)]
pub(crate) struct Who<'a> {
    /// The block, counted from one.
    pub(crate) block: u64,
    /// The number in its block of the warp's first thread.
    pub(crate) first_thread: u32,
    pub(crate) clock: &'a Clock,
    pub(crate) how: How,
}

impl Who<'_> {
    #[inline(always)]
    pub(crate) fn touch(&self, lane: usize) -> Touch {
        let thread = self.first_thread + lane as u32;
        Touch { block: self.block, tick: self.clock.tick, thread, how: self.how }
    }
}

impl Memory {
    /// The region of the first lane of `mask`, and which lanes lie in it in full.
    #[inline]
    pub(crate) fn group(
        &self,
        mask: u32,
        addresses: &Row,
        width: usize,
    ) -> Result<(&Region, u32), Box<Fault>> {
        let first = mask.trailing_zeros() as usize;
        let address = addresses[first];
        let index = self.regions.partition_point(|r| r.start <= address);
        let region = index.checked_sub(1).map(|index| &self.regions[index]);
        let Some(region) = region.filter(|r| address < r.end && r.end - address >= width as u64) else {
            let what = format!("access of {width} bytes outside every buffer");
            return Err(Fault::at(Kind::OutOfBounds, first as u32, self.describe(address), what));
        };
        let size = region.end - region.start;
        let mut inside = 0_u32;
        for (lane, address) in addresses.iter().enumerate() {
            // One comparison for both ends: an address below the start wraps to a huge offset.
            let offset = address.wrapping_sub(region.start);
            let fits = offset <= size.wrapping_sub(width as u64);
            inside |= (fits as u32) << lane;
        }
        Ok((region, inside & mask))
    }

    /// Fails if a lane's address is not a multiple of `width`.
    #[inline]
    pub(crate) fn aligned(&self, mask: u32, addresses: &Row, width: usize) -> Outcome {
        let low = width as u64 - 1;
        let bad = lanes(mask).find(|&lane| addresses[lane] & low != 0);
        match bad {
            None => Ok(()),
            Some(lane) => {
                let what = format!("access of {width} bytes at {:#x}, which is misaligned", addresses[lane]);
                Err(Fault::at(Kind::Misaligned, lane as u32, self.describe(addresses[lane]), what))
            }
        }
    }
}

/// The lowest and the highest address of some lanes.
#[inline]
fn extent(mask: u32, addresses: &Row) -> (u64, u64) {
    let mut low = u64::MAX;
    let mut high = 0;
    for lane in lanes(mask) {
        low = low.min(addresses[lane]);
        high = high.max(addresses[lane]);
    }
    (low, high)
}

/// Ranges up to this long are looked at as a whole before each lane is.
const DENSE: u64 = 1024;

impl Region {
    /// The lanes whose bytes are all initialised.
    #[inline]
    pub(crate) fn defined(&self, mask: u32, addresses: &Row, width: usize) -> u32 {
        let (low, high) = extent(mask, addresses);
        if high - low < DENSE
            && self.initialised.all((low - self.base) as usize, (high - low) as usize + width)
        {
            return mask;
        }
        lanes(mask)
            .filter(|&lane| self.initialised.all((addresses[lane] - self.base) as usize, width))
            .fold(0, |found, lane| found | 1 << lane)
    }

    /// Marks the bytes of stores as written, and as initialised.
    #[inline]
    pub(crate) fn mark(&self, mask: u32, addresses: &Row, width: usize) {
        let (low, high) = extent(mask, addresses);
        let span = (high - low) as usize + width;
        if span == width * mask.count_ones() as usize && consecutive(mask, addresses, width) {
            self.initialised.set((low - self.base) as usize, span);
            self.written.set((low - self.base) as usize, span);
            return;
        }
        for lane in lanes(mask) {
            let offset = (addresses[lane] - self.base) as usize;
            self.initialised.set(offset, width);
            self.written.set(offset, width);
        }
    }

    /// Notes that the lanes read, and finds who wrote there unordered.
    pub(crate) fn stamp_reads(&self, mask: u32, addresses: &Row, width: usize, who: Who<'_>) -> Outcome {
        let Some(stamps) = &self.stamps else { return Ok(()) };
        for lane in lanes(mask) {
            let touch = who.touch(lane);
            let offset = (addresses[lane] - self.base) as usize;
            for granule in offset >> stamps.shift..=(offset + width - 1) >> stamps.shift {
                let cell = &stamps.readers[granule];
                let mut old = cell.load(SeqCst);
                loop {
                    let new = after_read(old, touch, who.clock);
                    if new == old {
                        break;
                    }
                    match cell.compare_exchange_weak(old, new, SeqCst, SeqCst) {
                        Ok(_) => break,
                        Err(now) => old = now,
                    }
                }
                // The reader's stamp stands before the writer's is looked at, and a writer does the reverse:
                // whichever comes second sees the other.
                let writer = stamps.writer[granule].load(SeqCst);
                if conflicts(writer, touch, who.clock) {
                    return Err(self.race(lane, addresses[lane], "reads", "wrote", writer));
                }
            }
        }
        Ok(())
    }

    /// Notes that the lanes write, and finds who wrote or read there unordered.
    pub(crate) fn stamp_writes(&self, mask: u32, addresses: &Row, width: usize, who: Who<'_>) -> Outcome {
        let Some(stamps) = &self.stamps else {
            let lane = mask.trailing_zeros();
            let address = format!("buffer `{}` + {} bytes", self.name, addresses[lane as usize] - self.start);
            return Err(Fault::at(Kind::ReadOnly, lane, address, "writes to read-only memory"));
        };
        for lane in lanes(mask) {
            let touch = who.touch(lane);
            let offset = (addresses[lane] - self.base) as usize;
            for granule in offset >> stamps.shift..=(offset + width - 1) >> stamps.shift {
                let cell = &stamps.writer[granule];
                let mut old = cell.load(SeqCst);
                loop {
                    if conflicts(old, touch, who.clock) {
                        return Err(self.race(lane, addresses[lane], "writes", "wrote", old));
                    }
                    let new = after_write(old, touch);
                    if new == old {
                        break;
                    }
                    match cell.compare_exchange_weak(old, new, SeqCst, SeqCst) {
                        Ok(_) => break,
                        Err(now) => old = now,
                    }
                }
                let readers = stamps.readers[granule].load(SeqCst);
                if conflicts(readers, touch, who.clock) {
                    return Err(self.race(lane, addresses[lane], "writes", "read", readers));
                }
            }
        }
        Ok(())
    }

    fn race(&self, lane: usize, address: u64, does: &str, did: &str, stamp: u64) -> Box<Fault> {
        let place = format!("buffer `{}` + {} bytes", self.name, address - self.start);
        let what = format!("{does} what {} {did}, with nothing to order the two", describe(stamp));
        Fault::at(Kind::Race, lane as u32, place, what)
    }
}

/// Whether each lane's address follows the one before without a gap.
#[inline]
fn consecutive(mask: u32, addresses: &Row, width: usize) -> bool {
    let mut expected = addresses[mask.trailing_zeros() as usize];
    lanes(mask).all(|lane| {
        let matches = addresses[lane] == expected;
        expected += width as u64;
        matches
    })
}
