//! One warp: where its lanes stand, and how they part and meet.
//!
//! Lanes that stand at one instruction form a fragment. The fragment at the lowest instruction runs first;
//! `order` lays code out so that lanes which parted meet again that way. A fragment that needs lanes which
//! are elsewhere waits for them.

use super::code::Code;
use super::copies::Copies;
use super::local::Local;
use super::regs::{LANES, Regs};

/// What a fragment is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// It waits at its instruction for other lanes of the warp to come to the same one.
    Together,
    /// It waits in a `bar.warp.sync` for these lanes.
    Members(u32),
    /// It has arrived at a block barrier and stands behind it.
    Barrier(u32),
}

/// Lanes at one instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    pub(crate) pc: u32,
    pub(crate) lanes: u32,
    pub(crate) state: State,
}

/// A warp of the block that runs now.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(crate) regs: Regs,
    pub(crate) local: Local,
    pub(crate) copies: Copies,
    pub(crate) fragments: Vec<Fragment>,
    /// Lanes that have not exited.
    pub(crate) live: u32,
    /// For each function, the call that each lane came from.
    pub(crate) callers: Vec<[u32; LANES]>,
    /// Counts the turns taken away from a fragment that ran for long, so that others get theirs.
    pub(crate) turn: usize,
}

/// What runs next, and what bounds it.
pub(crate) struct Turn {
    pub(crate) pc: u32,
    pub(crate) lanes: u32,
    pub(crate) limit: u32,
}

impl Warp {
    pub(crate) fn new(code: &Code) -> Self {
        Self {
            regs: Regs::new(code.names.len(), code.pred_names.len()),
            local: Local::new(code.local.clone()),
            copies: Copies::new(),
            fragments: Vec::new(),
            live: 0,
            callers: vec![[0; LANES]; code.starts.len()],
            turn: 0,
        }
    }

    /// New threads, all at the entry's start.
    pub(crate) fn restart(&mut self, lanes: u32) {
        self.regs.forget();
        self.local.restart();
        self.copies.restart();
        self.fragments.clear();
        self.fragments.push(Fragment { pc: 0, lanes, state: State::Ready });
        self.live = lanes;
        self.turn = 0;
    }

    pub(crate) fn push(&mut self, pc: u32, lanes: u32, state: State) {
        if lanes != 0 {
            self.fragments.push(Fragment { pc, lanes, state });
        }
    }

    /// Takes out the fragment to run next, together with all that stand at the same instruction.
    pub(crate) fn schedule(&mut self) -> Option<Turn> {
        let ready = self.fragments.iter().filter(|f| f.state == State::Ready).map(|f| f.pc);
        let pc = if self.turn == 0 {
            ready.min()?
        } else {
            let mut ready: Vec<u32> = ready.collect();
            ready.sort_unstable();
            ready.dedup();
            *ready.get(self.turn % ready.len().max(1))?
        };
        let mut lanes = 0;
        self.fragments.retain(|f| {
            let here = f.pc == pc && matches!(f.state, State::Ready | State::Together);
            lanes |= if here { f.lanes } else { 0 };
            !here
        });
        let ahead = self.fragments.iter().filter(|f| f.pc > pc && !matches!(f.state, State::Barrier(_)));
        let limit = ahead.map(|f| f.pc).min().unwrap_or(u32::MAX);
        Some(Turn { pc, lanes, limit })
    }

    /// Lanes have exited: who waited may wait no more.
    pub(crate) fn exit(&mut self, lanes: u32) {
        self.live &= !lanes;
        for fragment in &mut self.fragments {
            if matches!(fragment.state, State::Together | State::Members(_)) {
                fragment.state = State::Ready;
            }
        }
    }

    /// Lanes have come to a `bar.warp.sync` at `pc`. If all members are there, they go on; says so.
    pub(crate) fn warp_barrier(&mut self, pc: u32, lanes: u32, members: u32) -> bool {
        self.push(pc, lanes, State::Members(members));
        let waiting = self.fragments.iter().filter(|f| f.state == State::Members(members));
        let there = waiting.fold(0, |all, f| all | f.lanes);
        if members & self.live & !there != 0 {
            return false;
        }
        for fragment in self.fragments.iter_mut().filter(|f| f.state == State::Members(members)) {
            fragment.pc += 1;
            fragment.state = State::Ready;
        }
        true
    }
}
