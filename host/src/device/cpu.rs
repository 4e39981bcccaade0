//! Host memory that the launch checks know the length of.

use std::alloc::{self, Layout};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{PoisonError, RwLock};

use crate::error::{Error, Result};

/// Every live allocation: address to bytes.
static LIVE: RwLock<BTreeMap<u64, u64>> = RwLock::new(BTreeMap::new());

/// Bytes from an address to the end of the allocation that holds it, if it is one of ours.
pub(crate) fn bytes_from(address: u64) -> Option<u64> {
    let live = LIVE.read().unwrap_or_else(PoisonError::into_inner);
    let (&start, &bytes) = live.range(..=address).next_back()?;
    (address - start).le(&bytes).then(|| bytes - (address - start))
}

/// Zeroed host memory, aligned for every element type.
///
/// It is reached through its address alone, never through a reference, so that kernels may write to it.
pub(crate) struct Memory {
    words: NonNull<[u64]>,
    bytes: usize,
}

// SAFETY: the memory is owned, and plain words may be read and written by any thread.
unsafe impl Send for Memory {}
// SAFETY: shared use is through the address alone, where those who use it keep writers apart.
unsafe impl Sync for Memory {}

impl Memory {
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn zeros(bytes: usize) -> Result<Self> {
        let words = bytes.div_ceil(8);
        let layout = Layout::array::<u64>(words).map_err(|_| Error::OutOfMemory { bytes: bytes as u64 })?;
        let start = if words == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: the layout has bytes.
            NonNull::new(unsafe { alloc::alloc_zeroed(layout) }.cast())
                .ok_or(Error::OutOfMemory { bytes: bytes as u64 })?
        };
        let memory = Self { words: NonNull::slice_from_raw_parts(start, words), bytes };
        if bytes > 0 {
            let mut live = LIVE.write().unwrap_or_else(PoisonError::into_inner);
            live.insert(memory.address(), bytes as u64);
        }
        Ok(memory)
    }

    pub(crate) fn address(&self) -> u64 {
        self.words.cast::<u8>().as_ptr().expose_provenance() as u64
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // SAFETY: the words hold at least as many bytes as the buffer has, which the caller checked.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.words.cast().as_ptr(), bytes.len()) };
    }

    pub(crate) fn read(&self, bytes: &mut [u8]) {
        // SAFETY: as for write.
        unsafe { std::ptr::copy_nonoverlapping(self.words.cast().as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            LIVE.write().unwrap_or_else(PoisonError::into_inner).remove(&self.address());
        }
        if let (false, Ok(layout)) = (self.words.is_empty(), Layout::array::<u64>(self.words.len())) {
            // SAFETY: it was allocated with this layout, and this is the last use of it.
            unsafe { alloc::dealloc(self.words.cast().as_ptr(), layout) };
        }
    }
}
