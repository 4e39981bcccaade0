//! Host memory that the launch checks know the length of.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Every live allocation: address to bytes.
static LIVE: RwLock<BTreeMap<u64, u64>> = RwLock::new(BTreeMap::new());

/// Bytes from an address to the end of the allocation that holds it, if it is one of ours.
pub(super) fn bytes_from(address: u64) -> Option<u64> {
    let live = LIVE.read().unwrap_or_else(PoisonError::into_inner);
    let (&start, &bytes) = live.range(..=address).next_back()?;
    (address - start).le(&bytes).then(|| bytes - (address - start))
}

/// Zeroed host memory, aligned for every element type.
pub(super) struct Memory {
    words: Box<[u64]>,
    bytes: usize,
}

impl Memory {
    pub(super) fn zeros(bytes: usize) -> Self {
        let memory = Self { words: vec![0; bytes.div_ceil(8)].into_boxed_slice(), bytes };
        if bytes > 0 {
            let mut live = LIVE.write().unwrap_or_else(PoisonError::into_inner);
            live.insert(memory.address(), bytes as u64);
        }
        memory
    }

    pub(super) fn address(&self) -> u64 {
        self.words.as_ptr().expose_provenance() as u64
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        // SAFETY: the words hold at least as many bytes as the buffer has, which the caller checked.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.words.as_mut_ptr().cast(), bytes.len()) };
    }

    pub(super) fn read(&self, bytes: &mut [u8]) {
        // SAFETY: as for write.
        unsafe { std::ptr::copy_nonoverlapping(self.words.as_ptr().cast(), bytes.as_mut_ptr(), bytes.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            LIVE.write().unwrap_or_else(PoisonError::into_inner).remove(&self.address());
        }
    }
}
