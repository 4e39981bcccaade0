//! Device memory as a test sees it: named buffers with red zones, and which of their bytes were written.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::cells::{Bits, Bytes, zeroed};

/// The first device address. Above 2³², so that an address cut to 32 bits hits nothing.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;
/// Every buffer's base is a multiple of this, before its misalignment.
const BASE_ALIGN: u64 = 256;
/// The least distance between two buffers. It grows with the buffer: a far-off stride hits no neighbour.
const RED_ZONE: u64 = 1 << 16;

/// A buffer of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer(usize);

/// Bytes that should have been written and were not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("buffer `{buffer}`: {missing} of {wanted} bytes are not {state}, the first at offset {first}{note}")]
pub struct Unwritten {
    /// The buffer's name.
    pub buffer: String,
    /// How many bytes of the range are missing.
    pub missing: usize,
    /// The length of the range.
    pub wanted: usize,
    /// The offset in the buffer of the first one.
    pub first: usize,
    /// What was asked for: "initialised" or "written".
    pub state: &'static str,
    /// The undefined store that hit the buffer, where there was one.
    pub note: String,
}

/// Last writer and readers of each granule, for one launch.
#[derive(Debug)]
pub(crate) struct Stamps {
    /// A granule is `1 << shift` bytes.
    pub(crate) shift: u32,
    pub(crate) writer: Box<[AtomicU64]>,
    pub(crate) readers: Box<[AtomicU64]>,
}

/// One buffer's bytes and what is known of them. Offsets count from `base`, which is aligned.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) name: String,
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) read_only: bool,
    pub(crate) data: Bytes,
    /// Bytes that hold a defined value.
    pub(crate) initialised: Bits,
    /// Bytes that a kernel stored to since the host last forgot it.
    pub(crate) written: Bits,
    pub(crate) stamps: Option<Stamps>,
    /// The first store of an undefined value, as text.
    pub(crate) undefined_store: Mutex<Option<String>>,
}

impl Region {
    fn new(name: &str, base: u64, bytes: usize, misalign: usize) -> Self {
        let total = misalign + bytes;
        let start = base + misalign as u64;
        Self {
            name: name.to_owned(),
            base,
            start,
            end: start + bytes as u64,
            read_only: false,
            data: Bytes::new(total),
            initialised: Bits::new(total),
            written: Bits::new(total),
            stamps: None,
            undefined_store: Mutex::new(None),
        }
    }

    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn lead(&self) -> usize {
        (self.start - self.base) as usize
    }

    fn fill(&self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len());
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "writing {} bytes at {offset} of buffer `{}`, which has {}",
            bytes.len(),
            self.name,
            self.len()
        );
        for (index, &byte) in bytes.iter().enumerate() {
            self.data.store(self.lead() + offset + index, 1, byte as u64);
        }
        self.initialised.set(self.lead() + offset, bytes.len());
    }

    fn check(&self, bits: &Bits, range: Range<usize>, state: &'static str) -> Result<(), Unwritten> {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "range {range:?} of buffer `{}`, which has {} bytes",
            self.name,
            self.len()
        );
        let wanted = range.len();
        if bits.all(self.lead() + range.start, wanted) {
            return Ok(());
        }
        let gone: Vec<usize> = range.filter(|&at| !bits.all(self.lead() + at, 1)).collect();
        let note = self.undefined_store.lock().ok().and_then(|note| note.clone());
        Err(Unwritten {
            buffer: self.name.clone(),
            missing: gone.len(),
            wanted,
            first: gone.first().copied().unwrap_or(0),
            state,
            note: note.map_or_else(String::new, |note| format!("; {note}")),
        })
    }
}

/// The device memory of a test.
///
/// A buffer starts uninitialised. Its neighbours are at least 64 KiB and at least its own size away, and
/// every byte between is a red zone: touching it is reported.
#[derive(Debug, Default)]
pub struct Memory {
    pub(crate) regions: Vec<Region>,
    /// Module variables in `.global`, by module label and name.
    pub(crate) variables: HashMap<(String, String), Buffer>,
}

impl Memory {
    /// No buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates `bytes` uninitialised bytes at an address that is `misalign` past a multiple of 256.
    ///
    /// # Panics
    /// If `misalign` is 256 or more.
    pub fn alloc(&mut self, name: &str, bytes: usize, misalign: usize) -> Buffer {
        assert!((misalign as u64) < BASE_ALIGN, "a misalignment of {misalign} is not below {BASE_ALIGN}");
        let base = self.regions.last().map_or(FIRST_ADDRESS, |last| {
            let gap = RED_ZONE.max(last.end - last.base);
            (last.end + gap).next_multiple_of(BASE_ALIGN)
        });
        self.regions.push(Region::new(name, base, bytes, misalign));
        Buffer(self.regions.len() - 1)
    }

    /// Allocates a buffer that holds `bytes`.
    pub fn alloc_with(&mut self, name: &str, bytes: &[u8], misalign: usize) -> Buffer {
        let buffer = self.alloc(name, bytes.len(), misalign);
        self.write(buffer, bytes);
        buffer
    }

    /// Allocates a buffer that holds `bytes` and that kernels must not write.
    pub fn alloc_read_only(&mut self, name: &str, bytes: &[u8], misalign: usize) -> Buffer {
        let buffer = self.alloc_with(name, bytes, misalign);
        self.regions[buffer.0].read_only = true;
        buffer
    }

    /// The device address of the first byte.
    #[must_use]
    pub fn address(&self, buffer: Buffer) -> u64 {
        self.regions[buffer.0].start
    }

    /// The size in bytes.
    #[must_use]
    pub fn len(&self, buffer: Buffer) -> usize {
        self.regions[buffer.0].len()
    }

    /// Whether the buffer has no bytes.
    #[must_use]
    pub fn is_empty(&self, buffer: Buffer) -> bool {
        self.len(buffer) == 0
    }

    /// Writes from the buffer's start, as a host copy does: the bytes are initialised after it.
    ///
    /// # Panics
    /// If the bytes do not fit the buffer.
    pub fn write(&mut self, buffer: Buffer, bytes: &[u8]) {
        self.write_at(buffer, 0, bytes);
    }

    /// Writes at an offset in bytes.
    ///
    /// # Panics
    /// If the bytes do not fit the buffer.
    pub fn write_at(&mut self, buffer: Buffer, offset: usize, bytes: &[u8]) {
        self.regions[buffer.0].fill(offset, bytes);
    }

    /// The bytes, and for each whether it is initialised. Uninitialised bytes read as zero or as what a kernel
    /// left there.
    #[must_use]
    pub fn read(&self, buffer: Buffer) -> (Vec<u8>, Vec<bool>) {
        let region = &self.regions[buffer.0];
        let places = region.lead()..region.lead() + region.len();
        let bytes = places.clone().map(|at| region.data.load(at, 1) as u8).collect();
        let mask = places.map(|at| region.initialised.all(at, 1)).collect();
        (bytes, mask)
    }

    /// The bytes of a buffer that is initialised in full.
    ///
    /// # Errors
    /// Names the first byte that is not.
    pub fn read_all(&self, buffer: Buffer) -> Result<Vec<u8>, Unwritten> {
        self.check_initialised(buffer, 0..self.len(buffer))?;
        Ok(self.read(buffer).0)
    }

    /// Checks that every byte of the range holds a defined value, from the host or from a kernel.
    ///
    /// # Errors
    /// Names the first byte that does not.
    pub fn check_initialised(&self, buffer: Buffer, range: Range<usize>) -> Result<(), Unwritten> {
        let region = &self.regions[buffer.0];
        region.check(&region.initialised, range, "initialised")
    }

    /// Checks that kernels wrote every byte of the range, with a defined value.
    ///
    /// # Errors
    /// Names the first byte that they did not.
    pub fn check_written(&self, buffer: Buffer, range: Range<usize>) -> Result<(), Unwritten> {
        self.check_initialised(buffer, range.clone())?;
        let region = &self.regions[buffer.0];
        region.check(&region.written, range, "written")
    }

    /// For each byte, whether a kernel stored to it.
    #[must_use]
    pub fn written(&self, buffer: Buffer) -> Vec<bool> {
        let region = &self.regions[buffer.0];
        (0..region.len()).map(|at| region.written.all(region.lead() + at, 1)).collect()
    }

    /// Checks that kernels stored nothing to the range.
    ///
    /// # Errors
    /// The offset in the buffer of the first byte stored to.
    pub fn check_untouched(&self, buffer: Buffer, mut range: Range<usize>) -> Result<(), usize> {
        let region = &self.regions[buffer.0];
        match range.find(|&at| region.written.all(region.lead() + at, 1)) {
            Some(at) => Err(at),
            None => Ok(()),
        }
    }

    /// Forgets which bytes kernels wrote; the values stay.
    pub fn forget_written(&mut self, buffer: Buffer) {
        let region = &mut self.regions[buffer.0];
        region.written = Bits::new(region.lead() + region.len());
    }

    /// Makes every byte uninitialised again.
    pub fn forget(&mut self, buffer: Buffer) {
        self.forget_written(buffer);
        let region = &mut self.regions[buffer.0];
        region.initialised = Bits::new(region.lead() + region.len());
    }

    /// Fresh stamps for a launch whose narrowest access has `1 << shift` bytes.
    pub(crate) fn restamp(&mut self, shift: u32) {
        for region in &mut self.regions {
            let granules = ((region.end - region.base) as usize).div_ceil(1 << shift);
            region.stamps = (!region.read_only).then(|| Stamps {
                shift,
                writer: zeroed(granules),
                readers: zeroed(granules),
            });
        }
    }

    /// An address as a report shows it: a buffer and an offset.
    pub(crate) fn describe(&self, address: u64) -> String {
        let after = self.regions.partition_point(|r| r.start <= address);
        let before = after.checked_sub(1).map(|index| &self.regions[index]);
        let next = self.regions.get(after);
        // Past the end of one buffer and before the start of the next: the nearer one is meant.
        let distance = before.map_or(u64::MAX, |r| address.saturating_sub(r.end));
        match (before, next) {
            (Some(region), _) if address < region.end => {
                format!("buffer `{}` + {} bytes", region.name, address - region.start)
            }
            (_, Some(region)) if region.start - address <= distance => {
                format!("buffer `{}` - {} bytes", region.name, region.start - address)
            }
            (Some(region), _) => {
                let past = address - region.start;
                format!("buffer `{}` + {past} bytes, which has {}", region.name, region.len())
            }
            (None, _) => format!("address {address:#x}, in no buffer"),
        }
    }
}
