//! The live buffers of this crate by address, so that a launch can check the pointers it is given.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, Weak};

use super::error::DriverError;
use super::memory::Block;
use super::stream::Stream;

struct Entry {
    bytes: u64,
    /// The stream that the buffer was made on, to tell without touching the buffer that no ordering is needed.
    home: Home,
    block: Weak<Block>,
}

/// A stream's handle and device. Every device has a default stream with the handle null.
type Home = (usize, u32);

fn home(stream: &Stream) -> Home {
    (stream.raw().addr(), stream.handle().context().ordinal())
}

type Entries = BTreeMap<u64, Entry>;

/// Addresses are unique in a process: CUDA gives all devices and the host one address space.
static LIVE: RwLock<Entries> = RwLock::new(BTreeMap::new());

fn live() -> RwLockReadGuard<'static, Entries> {
    LIVE.read().unwrap_or_else(PoisonError::into_inner)
}

/// The buffer around `address`, and the bytes from there to its end.
fn find(entries: &Entries, address: u64) -> Option<(&Entry, u64)> {
    let (start, entry) = entries.range(..=address).next_back()?;
    let left = (start + entry.bytes).checked_sub(address)?;
    (left > 0).then_some((entry, left))
}

/// Bytes from `address` to the end of the live [`super::DeviceMemory`] that holds it; `None` for memory of other
/// origin.
pub fn known_bytes(address: u64) -> Option<u64> {
    find(&live(), address).map(|(_, left)| left)
}

/// Looks up the buffers that a launch on `stream` touches, in one go: `known[i]` becomes
/// [`known_bytes`]`(addresses[i])`.
///
/// Buffers that were made on another stream are ordered on the way: `stream` waits for them to exist, and
/// dropping them later waits, on the device, for the work that `stream` has then.
///
/// # Errors
/// [`DriverError::OtherDevice`] for a buffer of another device, and what the driver answers.
///
/// # Panics
/// If the slices differ in length.
pub fn prepare(stream: &Stream, addresses: &[u64], known: &mut [Option<u64>]) -> Result<(), DriverError> {
    assert_eq!(addresses.len(), known.len(), "one answer for each address");
    let home = home(stream);
    let mut strangers = Vec::new();
    {
        let entries = live();
        for (address, known) in addresses.iter().zip(known) {
            let found = find(&entries, *address);
            *known = found.map(|(_, left)| left);
            if let Some((entry, _)) = found
                && entry.home != home
            {
                strangers.extend(entry.block.upgrade());
            }
        }
    }
    strangers.iter().try_for_each(|block| block.use_on(stream))
}

pub(super) fn insert(address: u64, bytes: u64, stream: &Stream, block: Weak<Block>) {
    let entry = Entry { bytes, home: home(stream), block };
    LIVE.write().unwrap_or_else(PoisonError::into_inner).insert(address, entry);
}

pub(super) fn remove(address: u64) {
    LIVE.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
}
