//! Asynchronous copies under way: what `cp.async` has read and not yet written.
//!
//! The hardware may write at any moment between the copy's issue and the end of the wait for its group.
//! So the destination counts as written at both ends, and any touch between is a fault.

use super::code::Ctx;
use super::error::Outcome;
use super::race::How;
use super::regs::{LANES, lanes};

/// One thread's copy.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) to: u64,
    pub(crate) bytes: usize,
    pub(crate) data: [u8; 16],
    /// Which bytes are defined, a bit a byte.
    pub(crate) defined: u64,
}

/// The copies of one thread.
#[derive(Clone, Debug, Default)]
struct Pending {
    /// Copies since the last commit.
    open: Vec<Copy>,
    /// Committed groups, the oldest first.
    groups: std::collections::VecDeque<Vec<Copy>>,
}

/// The copies of one warp.
#[derive(Debug)]
pub(crate) struct Copies {
    pending: Vec<Pending>,
    used: bool,
}

impl Copies {
    pub(crate) fn new() -> Self {
        Self { pending: vec![Pending::default(); LANES], used: false }
    }

    pub(crate) fn restart(&mut self) {
        if self.used {
            *self = Self::new();
        }
    }

    pub(crate) fn add(&mut self, lane: usize, copy: Copy) {
        self.used = true;
        self.pending[lane].open.push(copy);
    }

    pub(crate) fn commit(&mut self, mask: u32) {
        self.used = true;
        for lane in lanes(mask) {
            let group = std::mem::take(&mut self.pending[lane].open);
            self.pending[lane].groups.push_back(group);
        }
    }

    /// The copies of the groups older than the newest `keep`; with `everything`, those not committed too.
    fn take(&mut self, lane: usize, keep: usize, everything: bool) -> Vec<Copy> {
        let pending = &mut self.pending[lane];
        let finished = pending.groups.len().saturating_sub(keep);
        let mut done: Vec<Copy> = pending.groups.drain(..finished).flatten().collect();
        if everything {
            done.append(&mut pending.open);
        }
        done
    }
}

/// Waits until at most `keep` groups of each thread are under way: the older ones' bytes arrive.
pub(crate) fn wait(ctx: &mut Ctx<'_>, mask: u32, keep: usize, everything: bool) -> Outcome {
    for lane in lanes(mask) {
        for copy in ctx.copies.take(lane, keep, everything) {
            ctx.shared.set_in_flight(copy.to, copy.bytes, false);
            let who = ctx.who(How::Plain);
            ctx.shared.stamp_write(lane, copy.to, copy.bytes, who)?;
            let at = copy.to as usize;
            ctx.shared.data[at..at + copy.bytes].copy_from_slice(&copy.data[..copy.bytes]);
            ctx.shared.set_defined(copy.to, copy.bytes, copy.defined);
        }
    }
    Ok(())
}
