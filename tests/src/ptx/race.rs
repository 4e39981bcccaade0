//! Who touched a byte last, and whether a new touch is ordered after that.
//!
//! Each granule of memory has two stamps: its last writer and its readers. A stamp names a block, a thread
//! and the *tick* of the block at that moment; the tick counts the events that order threads (barriers and
//! warp barriers). [`Clock`] knows, for each pair of warps, up to which tick the accesses of the one happen
//! before everything that the other does now. Two touches by different threads, one of them a write, that
//! are not so ordered are a race, in whichever order the machine happened to run them. Blocks of one
//! launch are never ordered.

/// Warps in the largest block.
pub(crate) const MAX_WARPS: usize = 32;

/// The largest tick, block and thread that a stamp holds.
pub(crate) const MAX_TICK: u32 = (1 << 24) - 1;
pub(crate) const MAX_BLOCK: u64 = (1 << 26) - 3;
const MANY_THREADS: u64 = (1 << 11) - 1;
const MANY_BLOCKS: u64 = (1 << 26) - 1;
/// Readers through the cache that must not see writes of the launch.
const NON_COHERENT: u64 = (1 << 26) - 2;

/// Plain readers in several blocks.
const MANY_READERS: u64 = MANY_BLOCKS << 35 | MANY_THREADS;

/// Stamp layout, from the low end: 11 bits thread, 24 bits tick, 26 bits block (counted from one), and
/// this flag: for a writer "atomic", for readers "all of them atomic".
const ATOMIC: u64 = 1 << 61;

/// One thread's touch, now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    /// The block, counted from one.
    pub(crate) block: u64,
    pub(crate) tick: u32,
    pub(crate) thread: u32,
    pub(crate) how: How,
}

/// What kind of access a touch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Plain,
    /// Atomic, or strong in the sense of the memory model: it does not race with others of its kind.
    Atomic,
    /// A read through the non-coherent cache: nobody may write there during the whole launch.
    NonCoherent,
}

#[inline(always)]
fn pack(block: u64, tick: u64, thread: u64, atomic: bool) -> u64 {
    block << 35 | tick << 11 | thread | if atomic { ATOMIC } else { 0 }
}

#[inline(always)]
fn block_of(stamp: u64) -> u64 {
    stamp >> 35 & MANY_BLOCKS
}

#[inline(always)]
fn tick_of(stamp: u64) -> u32 {
    (stamp >> 11) as u32 & MAX_TICK
}

#[inline(always)]
fn thread_of(stamp: u64) -> u64 {
    stamp & MANY_THREADS
}

/// What the warps of one block know of each other.
#[derive(Debug)]
pub(crate) struct Clock {
    /// `known[u][v]`: accesses of warp v up to this tick happen before what warp u does now.
    known: Box<[[u32; MAX_WARPS]; MAX_WARPS]>,
    /// The least of each row.
    least: [u32; MAX_WARPS],
    pub(crate) tick: u32,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { known: Box::new([[0; MAX_WARPS]; MAX_WARPS]), least: [0; MAX_WARPS], tick: 1 }
    }

    /// A new block: nothing is known.
    pub(crate) fn restart(&mut self) {
        self.known.fill([0; MAX_WARPS]);
        self.least = [0; MAX_WARPS];
        self.tick = 1;
    }

    /// Every warp of the block has met: all that was, happened before all that comes.
    pub(crate) fn meet_all(&mut self) {
        self.known.fill([self.tick; MAX_WARPS]);
        self.least = [self.tick; MAX_WARPS];
        self.tick += 1;
    }

    /// The warps of the mask have met: each learns what the others know.
    pub(crate) fn meet(&mut self, warps: u32) {
        let mut joined = [0; MAX_WARPS];
        for u in (0..MAX_WARPS).filter(|&u| warps >> u & 1 == 1) {
            for (best, &known) in joined.iter_mut().zip(&self.known[u]) {
                *best = known.max(*best);
            }
        }
        for u in (0..MAX_WARPS).filter(|&u| warps >> u & 1 == 1) {
            joined[u] = self.tick;
        }
        for u in (0..MAX_WARPS).filter(|&u| warps >> u & 1 == 1) {
            self.known[u] = joined;
            self.least[u] = joined.iter().copied().min().unwrap_or(0);
        }
        self.tick += 1;
    }

    /// Whether a stamp of this block happens before what `thread` does now.
    #[inline(always)]
    fn orders(&self, stamp: u64, thread: u32) -> bool {
        let warp = thread as usize / 32;
        let old = thread_of(stamp);
        if old == MANY_THREADS {
            tick_of(stamp) <= self.least[warp]
        } else {
            tick_of(stamp) <= self.known[warp][old as usize / 32]
        }
    }
}

/// Whether a touch conflicts with the writer or the readers that a stamp names.
#[inline(always)]
pub(crate) fn conflicts(stamp: u64, touch: Touch, clock: &Clock) -> bool {
    if stamp == 0 || (touch.how == How::Atomic && stamp & ATOMIC != 0) {
        return false;
    }
    if block_of(stamp) != touch.block || touch.how == How::NonCoherent {
        return true;
    }
    thread_of(stamp) != touch.thread as u64 && !clock.orders(stamp, touch.thread)
}

/// The readers' stamp after a read.
#[inline(always)]
pub(crate) fn after_read(readers: u64, touch: Touch, clock: &Clock) -> u64 {
    if touch.how == How::NonCoherent {
        return pack(NON_COHERENT, 0, MANY_THREADS, false);
    }
    let atomic = touch.how == How::Atomic;
    let mine = pack(touch.block, touch.tick as u64, touch.thread as u64, atomic);
    if readers == 0 {
        return mine;
    }
    // What is read over and over has one of these already.
    let many_here = pack(touch.block, touch.tick as u64, MANY_THREADS, false);
    if readers == mine || readers == many_here || readers == MANY_READERS {
        return readers;
    }
    if block_of(readers) == NON_COHERENT {
        return readers;
    }
    let replaces = !atomic || readers & ATOMIC != 0;
    let atomic = atomic && readers & ATOMIC != 0;
    if block_of(readers) != touch.block {
        return pack(MANY_BLOCKS, 0, MANY_THREADS, atomic);
    }
    let same = thread_of(readers) == touch.thread as u64;
    // What happens before this read need not be kept: a write that races with it races with this read too,
    // or happens after it and so after the older one.
    if clock.orders(readers, touch.thread) && replaces {
        return mine;
    }
    let thread = if same { touch.thread as u64 } else { MANY_THREADS };
    pack(touch.block, touch.tick.max(tick_of(readers)) as u64, thread, atomic)
}

/// The writer's stamp after a write.
#[inline(always)]
pub(crate) fn after_write(writer: u64, touch: Touch) -> u64 {
    let atomic = touch.how == How::Atomic;
    let mine = pack(touch.block, touch.tick as u64, touch.thread as u64, atomic);
    if !atomic || writer == 0 {
        return mine;
    }
    if writer & ATOMIC == 0 {
        // A plain write of this thread, or one that is ordered before: it stays the one to conflict with.
        return writer;
    }
    if block_of(writer) != touch.block {
        return pack(MANY_BLOCKS, 0, MANY_THREADS, true);
    }
    let same = thread_of(writer) == touch.thread as u64;
    let thread = if same { touch.thread as u64 } else { MANY_THREADS };
    pack(touch.block, touch.tick.max(tick_of(writer)) as u64, thread, true)
}

/// Who a stamp names, for a report; threads as numbers in their block.
pub(crate) fn describe(stamp: u64) -> String {
    let block = block_of(stamp);
    let thread = thread_of(stamp);
    if block == NON_COHERENT {
        return "a load through the non-coherent cache".to_owned();
    }
    match (block == MANY_BLOCKS, thread == MANY_THREADS) {
        (true, _) => "threads of several blocks".to_owned(),
        (false, true) => format!("several threads of block {}", block - 1),
        (false, false) => format!("thread {thread} of block {}", block - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(block: u64, tick: u32, thread: u32) -> Touch {
        Touch { block, tick, thread, how: How::Plain }
    }

    #[test]
    fn race_two_threads_conflict_until_their_warps_meet() {
        let mut clock = Clock::new();
        let writer = after_write(0, touch(1, clock.tick, 0));
        assert!(!conflicts(writer, touch(1, clock.tick, 0), &clock), "a thread is ordered with itself");
        assert!(conflicts(writer, touch(1, clock.tick, 1), &clock), "lanes of one warp are not");
        assert!(conflicts(writer, touch(1, clock.tick, 64), &clock));
        clock.meet(0b101);
        assert!(!conflicts(writer, touch(1, clock.tick, 64), &clock));
        assert!(conflicts(writer, touch(1, clock.tick, 32), &clock), "warp 1 was not there");
        clock.meet(0b110);
        assert!(!conflicts(writer, touch(1, clock.tick, 32), &clock), "warp 1 learns it through warp 2");
        assert!(conflicts(writer, touch(2, clock.tick, 0), &clock), "blocks never meet");
    }

    #[test]
    fn race_readers_are_remembered_as_a_set() {
        let mut clock = Clock::new();
        let mut readers = after_read(0, touch(1, 1, 3), &clock);
        assert!(!conflicts(readers, touch(1, 1, 3), &clock));
        readers = after_read(readers, touch(1, 1, 40), &clock);
        assert!(conflicts(readers, touch(1, 1, 3), &clock), "the other reader conflicts");
        clock.meet_all();
        assert!(!conflicts(readers, touch(1, clock.tick, 3), &clock));
        readers = after_read(readers, touch(1, clock.tick, 3), &clock);
        assert!(!conflicts(readers, touch(1, clock.tick, 3), &clock), "older readers are ordered");
        readers = after_read(readers, touch(2, 1, 0), &clock);
        assert!(conflicts(readers, touch(1, clock.tick, 3), &clock));
        assert_eq!(describe(readers), "threads of several blocks");
    }

    #[test]
    fn race_atomics_conflict_with_plain_touches_only() {
        let clock = Clock::new();
        let atomic = |thread| Touch { how: How::Atomic, ..touch(1, 1, thread) };
        let writer = after_write(after_write(0, atomic(0)), atomic(1));
        assert!(!conflicts(writer, atomic(2), &clock));
        assert!(conflicts(writer, touch(1, 1, 0), &clock));
        let plain = after_write(0, touch(1, 1, 0));
        assert!(
            conflicts(after_write(plain, atomic(0)), atomic(1), &clock),
            "the plain write is not forgotten"
        );
    }
}
