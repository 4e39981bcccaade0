//! One block: its warps take turns until all have exited, meeting at barriers.

use std::sync::atomic::{AtomicI64, Ordering};

use super::code::{Barrier, Code, Constant, Ctx, Image, Reduced, Special, Step};
use super::error::{Fault, Kind};
use super::exec::{Bounds, Event, Failure, run};
use super::memory::Memory;
use super::race::{Clock, MAX_TICK};
use super::regs::{LANES, lanes};
use super::shared::{Place, Shared};
use super::warp::{State, Turn, Warp};

/// Instructions that a warp runs before another gets its turn, and that a block takes from the budget.
const SLICE: u64 = 1 << 16;

/// What all blocks of a launch share.
pub(crate) struct Grid<'a> {
    pub(crate) code: &'a Code,
    pub(crate) memory: &'a Memory,
    pub(crate) params: Image,
    /// Blocks, x, y, z.
    pub(crate) blocks: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: u64,
    /// Values of the constants whose slots the code names, in the same order.
    pub(crate) constants: Vec<u64>,
    /// Thread instructions that may still be executed.
    pub(crate) budget: AtomicI64,
}

/// Where the dynamic shared memory starts.
pub(crate) fn dynamic_start(places: &[Place]) -> u64 {
    use super::shared::{FIRST_SHARED, SHARED_GAP};
    places.last().map_or(FIRST_SHARED, |p| (p.start + p.bytes + SHARED_GAP).next_multiple_of(1024))
}

/// The value of a constant.
pub(crate) fn constant(value: &Constant, code: &Code, variable: impl Fn(&str) -> u64) -> u64 {
    match value {
        Constant::Bits(bits) => *bits,
        Constant::Variable(name) => variable(name),
        Constant::DynamicShared => dynamic_start(&code.shared),
    }
}

/// A block barrier between two completions.
#[derive(Clone, Debug, Default)]
struct Meeting {
    arrived: u32,
    expected: Option<u32>,
    warps: u32,
    votes: u32,
    results: Vec<(usize, u32, Reduced)>,
}

/// A fault in its block.
pub(crate) struct BlockFault {
    pub(crate) failure: Failure,
    pub(crate) thread: u32,
}

/// The state of one block, reused from block to block.
pub(crate) struct Block {
    warps: Vec<Warp>,
    shared: Shared,
    clock: Clock,
    meetings: Vec<Meeting>,
    pub(crate) thread_instructions: u64,
    pub(crate) warp_instructions: u64,
    paid: u64,
}

impl Block {
    pub(crate) fn new(grid: &Grid<'_>) -> Self {
        let threads: u32 = grid.block.iter().product();
        let code = grid.code;
        let mut places = code.shared.clone();
        if let Some(name) = &code.dynamic_shared {
            let start = dynamic_start(&places);
            places.push(Place { name: name.clone(), start, bytes: grid.dynamic_shared });
        }
        Self {
            warps: (0..threads.div_ceil(LANES as u32)).map(|_| Warp::new(code)).collect(),
            shared: Shared::new(places, code.shared_shift),
            clock: Clock::new(),
            meetings: vec![Meeting::default(); 16],
            thread_instructions: 0,
            warp_instructions: 0,
            paid: 0,
        }
    }

    /// Runs the block with this number to its end.
    pub(crate) fn run(&mut self, grid: &Grid<'_>, number: u64) -> Result<(), BlockFault> {
        self.restart(grid, number);
        loop {
            let mut moved = false;
            for warp in 0..self.warps.len() {
                moved |= self.run_warp(grid, number, warp)?;
            }
            if self.warps.iter().all(|w| w.live == 0) {
                return Ok(());
            }
            if !moved {
                return Err(self.stuck(grid));
            }
        }
    }

    fn restart(&mut self, grid: &Grid<'_>, number: u64) {
        let threads: u32 = grid.block.iter().product();
        let [gx, gy, _] = grid.blocks.map(u64::from);
        let at = [number % gx, number / gx % gy, number / gx / gy];
        self.shared.restart();
        self.clock.restart();
        self.meetings.fill(Meeting::default());
        let warps = self.warps.len() as u64;
        for (index, warp) in self.warps.iter_mut().enumerate() {
            let first = (index * LANES) as u32;
            let count = (threads - first).min(LANES as u32);
            warp.restart((u64::from(u32::MAX) >> (32 - count)) as u32);
            for ((slot, _), &value) in grid.code.constants.iter().zip(&grid.constants) {
                warp.regs.broadcast(*slot, value);
            }
            for &(slot, special) in &grid.code.specials {
                warp.regs.write(u32::MAX, slot, |lane| {
                    let thread = first + lane as u32;
                    let [bx, by, _] = grid.block;
                    match special {
                        Special::Tid(0) => (thread % bx) as u64,
                        Special::Tid(1) => (thread / bx % by) as u64,
                        Special::Tid(_) => (thread / bx / by) as u64,
                        Special::Ntid(axis) => grid.block[axis] as u64,
                        Special::Ctaid(axis) => at[axis],
                        Special::Nctaid(axis) => grid.blocks[axis] as u64,
                        Special::LaneId => lane as u64,
                        Special::WarpId => index as u64,
                        Special::WarpCount => warps,
                        Special::MaskEq => 1 << lane,
                        Special::MaskLt => (1 << lane) - 1,
                        Special::MaskLe => (2 << lane) - 1,
                        Special::MaskGt => 0xffff_ffff & !((2 << lane) - 1),
                        Special::MaskGe => 0xffff_ffff & !((1 << lane) - 1),
                        Special::DynamicShared => grid.dynamic_shared,
                    }
                });
            }
        }
    }

    fn live_threads(&self) -> u32 {
        self.warps.iter().map(|w| w.live.count_ones()).sum()
    }

    /// Runs a warp until it waits, ends, or has had its slice; says whether it did anything.
    fn run_warp(&mut self, grid: &Grid<'_>, number: u64, index: usize) -> Result<bool, BlockFault> {
        let mut moved = false;
        let mut spent = 0;
        while spent < SLICE {
            let Some(turn) = self.warps[index].schedule() else { break };
            moved = true;
            let (event, pc, count) = self.run_fragment(grid, number, index, &turn, SLICE - spent)?;
            spent += count;
            self.handle(grid, index, &turn, event, pc)?;
        }
        if spent >= SLICE {
            self.warps[index].turn += 1;
        }
        Ok(moved)
    }

    fn run_fragment(
        &mut self,
        grid: &Grid<'_>,
        number: u64,
        index: usize,
        turn: &Turn,
        fuel: u64,
    ) -> Result<(Event, u32, u64), BlockFault> {
        let warp = &mut self.warps[index];
        let first_thread = (index * LANES) as u32;
        let bounds = Bounds { limit: turn.limit, others: !warp.fragments.is_empty(), fuel };
        let mut ctx = Ctx {
            regs: &mut warp.regs,
            local: &mut warp.local,
            shared: &mut self.shared,
            copies: &mut warp.copies,
            clock: &self.clock,
            memory: grid.memory,
            params: &grid.params,
            consts: &grid.code.consts,
            block: number + 1,
            first_thread,
            live: warp.live,
            line: 0,
        };
        let stop = run(&mut ctx, grid.code, turn.pc, turn.lanes, bounds)
            .map_err(|failure| BlockFault { thread: first_thread + failure.fault.lane, failure })?;
        self.warp_instructions += stop.count;
        self.thread_instructions += stop.count * u64::from(turn.lanes.count_ones());
        while self.thread_instructions > self.paid {
            if grid.budget.fetch_sub(SLICE as i64, Ordering::Relaxed) <= 0 {
                let what = "the instruction budget is spent: an endless loop, or too small a budget";
                return Err(Self::fault_at(grid, index, stop.pc, turn.lanes, Kind::Budget, what));
            }
            self.paid += SLICE;
        }
        Ok((stop.event, stop.pc, stop.count))
    }

    fn handle(
        &mut self,
        grid: &Grid<'_>,
        index: usize,
        turn: &Turn,
        event: Event,
        pc: u32,
    ) -> Result<(), BlockFault> {
        let warp = &mut self.warps[index];
        let all = turn.lanes;
        match event {
            Event::Yield => warp.push(pc, all, State::Ready),
            Event::Split { taken, target } => {
                warp.push(target, taken, State::Ready);
                warp.push(pc + 1, all & !taken, State::Ready);
            }
            Event::Scatter(parts) => {
                for (target, lanes) in parts {
                    warp.push(target, lanes, State::Ready);
                }
            }
            Event::Wait { waiting } => {
                warp.push(pc, waiting, State::Together);
                warp.push(pc + 1, all & !waiting, State::Ready);
            }
            Event::WarpBarrier { lanes, members, again } => {
                warp.push(pc, again, State::Ready);
                warp.push(pc + 1, all & !lanes & !again, State::Ready);
                let whole = warp.live & !members == 0;
                if warp.warp_barrier(pc, lanes, members) && whole {
                    self.clock.meet(1 << index);
                    self.check_tick(grid, index, pc, lanes)?;
                }
            }
            Event::Call { lanes } => {
                if let Step::Call(call) = &grid.code.ops[pc as usize].step {
                    for lane in super::regs::lanes(lanes) {
                        warp.callers[call.function][lane] = pc;
                    }
                    warp.push(grid.code.starts[call.function], lanes, State::Ready);
                }
                warp.push(pc + 1, all & !lanes, State::Ready);
            }
            Event::Return { lanes, function } => {
                warp.push(pc + 1, all & !lanes, State::Ready);
                for lane in super::regs::lanes(lanes) {
                    let caller = warp.callers[function][lane];
                    if let Step::Call(call) = &grid.code.ops[caller as usize].step {
                        for part in &call.results {
                            warp.local.transfer(lane, part.from, part.to, part.bytes);
                        }
                    }
                    warp.push(caller + 1, 1 << lane, State::Ready);
                }
            }
            Event::Exit { lanes } => {
                warp.push(pc + 1, all & !lanes, State::Ready);
                warp.exit(lanes);
                for id in 0..self.meetings.len() {
                    self.complete(grid, index, pc, lanes, id)?;
                }
            }
            Event::Barrier { lanes } => {
                warp.push(pc + 1, all & !lanes, State::Ready);
                if let Step::Barrier(barrier) = &grid.code.ops[pc as usize].step {
                    self.arrive(grid, index, pc, lanes, barrier)?;
                }
            }
        }
        Ok(())
    }

    /// Lanes of a warp arrive at a block barrier.
    fn arrive(
        &mut self,
        grid: &Grid<'_>,
        index: usize,
        pc: u32,
        lanes_here: u32,
        barrier: &Barrier,
    ) -> Result<(), BlockFault> {
        let wrong = |what: String| (Kind::Operand, what);
        let warp = &mut self.warps[index];
        let uniform = |slot| -> Result<u32, (Kind, String)> {
            if let Err(fault) = warp.regs.need(lanes_here, slot) {
                return Err((Kind::Undefined, fault.what));
            }
            let row = warp.regs.row(slot);
            let value = row[lanes_here.trailing_zeros() as usize];
            if lanes(lanes_here).any(|lane| row[lane] != value) {
                return Err((Kind::Operand, "lanes of one warp name different barriers or counts".to_owned()));
            }
            Ok(value as u32)
        };
        let checked = (|| {
            let id = uniform(barrier.id)? as usize;
            if id >= 16 {
                return Err(wrong(format!("barrier {id}; there are 16")));
            }
            let expected = barrier.count.map(uniform).transpose()?;
            if let Some(count) = expected.filter(|count| *count == 0 || count % 32 != 0) {
                return Err(wrong(format!("a barrier for {count} threads, which is no multiple of the warp size")));
            }
            let votes = match barrier.reduce {
                None => 0,
                Some(reduce) => {
                    let held = warp.regs.pred(lanes_here, reduce.source).map_err(|f| (f.kind, f.what))?;
                    (held & lanes_here).count_ones()
                }
            };
            Ok((id, expected, votes))
        })();
        let (id, expected, votes) = match checked {
            Ok(found) => found,
            Err((kind, what)) => return Err(Self::fault_at(grid, index, pc, lanes_here, kind, &what)),
        };
        let meeting = &mut self.meetings[id];
        if meeting.arrived > 0 && meeting.expected != expected {
            let what = format!("barrier {id} with a count of {expected:?}, where others gave {:?}", meeting.expected);
            return Err(Self::fault_at(grid, index, pc, lanes_here, Kind::Operand, &what));
        }
        meeting.expected = expected;
        meeting.arrived += lanes_here.count_ones();
        meeting.warps |= 1 << index;
        meeting.votes += votes;
        if let Some(reduce) = barrier.reduce {
            meeting.results.push((index, lanes_here, reduce.into));
        }
        if expected.is_some_and(|count| meeting.arrived > count) {
            let what = format!("barrier {id} for {expected:?} threads has {} arrivals", meeting.arrived);
            return Err(Self::fault_at(grid, index, pc, lanes_here, Kind::Barrier, &what));
        }
        let state = if barrier.arrive { State::Ready } else { State::Barrier(id as u32) };
        self.warps[index].push(pc + 1, lanes_here, state);
        self.complete(grid, index, pc, lanes_here, id)
    }

    /// Lets a barrier's threads go on, if all are there.
    fn complete(&mut self, grid: &Grid<'_>, index: usize, pc: u32, at: u32, id: usize) -> Result<(), BlockFault> {
        let live = self.live_threads();
        let meeting = &self.meetings[id];
        if meeting.arrived == 0 || meeting.arrived < meeting.expected.unwrap_or(live) {
            return Ok(());
        }
        let Meeting { arrived, votes, results, warps, .. } = std::mem::take(&mut self.meetings[id]);
        if arrived >= live {
            self.clock.meet_all();
        } else {
            self.clock.meet(warps);
        }
        for (warp, lanes, into) in results {
            let regs = &mut self.warps[warp].regs;
            let truth = |holds: bool| if holds { u32::MAX } else { 0 };
            match into {
                Reduced::Count(slot) => regs.write(lanes, slot, |_| votes as u64),
                Reduced::All(slot) => regs.set_pred(lanes, slot, truth(votes == arrived)),
                Reduced::Any(slot) => regs.set_pred(lanes, slot, truth(votes > 0)),
            }
        }
        let waiting = self.warps.iter_mut().flat_map(|w| &mut w.fragments);
        for fragment in waiting.filter(|f| f.state == State::Barrier(id as u32)) {
            fragment.state = State::Ready;
        }
        self.check_tick(grid, index, pc, at)
    }

    fn check_tick(&self, grid: &Grid<'_>, index: usize, pc: u32, at: u32) -> Result<(), BlockFault> {
        if self.clock.tick < MAX_TICK {
            return Ok(());
        }
        let what = format!("more than {MAX_TICK} barriers in one block");
        Err(Self::fault_at(grid, index, pc, at, Kind::Budget, &what))
    }

    fn fault_at(grid: &Grid<'_>, warp: usize, pc: u32, at: u32, kind: Kind, what: &str) -> BlockFault {
        let lane = at.trailing_zeros().min(31);
        let line = grid.code.ops.get(pc as usize).map_or(0, |op| op.line);
        let failure = Failure { fault: Fault::new(kind, lane, what), line };
        BlockFault { thread: (warp * LANES) as u32 + lane, failure }
    }

    /// Nobody can go on: says who waits for whom.
    fn stuck(&self, grid: &Grid<'_>) -> BlockFault {
        let line_of = |pc: u32| grid.code.ops.get(pc as usize).map_or(0, |op| op.line);
        let mut found: Option<(usize, u32, u32, Kind, String)> = None;
        for (index, warp) in self.warps.iter().enumerate() {
            for fragment in &warp.fragments {
                let others: Vec<String> = warp
                    .fragments
                    .iter()
                    .filter(|f| f.lanes != fragment.lanes)
                    .map(|f| {
                        let behind = u32::from(matches!(f.state, State::Barrier(_)));
                        format!("lanes {:#010x} wait at line {}", f.lanes, line_of(f.pc - behind))
                    })
                    .collect();
                let others = if others.is_empty() { "no other lane is left".to_owned() } else { others.join(", ") };
                let barrier = matches!(grid.code.ops[fragment.pc as usize].step, Step::Barrier(_));
                let lanes = fragment.lanes;
                let (rank, pc, kind, what) = match fragment.state {
                    State::Together if barrier => (
                        0,
                        fragment.pc,
                        Kind::Barrier,
                        format!("an aligned barrier reached by lanes {lanes:#010x} of the warp alone; {others}"),
                    ),
                    State::Barrier(id) => {
                        let meeting = &self.meetings[id as usize];
                        let wanted = meeting.expected.unwrap_or_else(|| self.live_threads());
                        let what = format!("barrier {id} has {} of {wanted} threads; {others}", meeting.arrived);
                        (2, fragment.pc - 1, Kind::Barrier, what)
                    }
                    _ => {
                        let what = format!("lanes {lanes:#010x} wait for lanes that never come; {others}");
                        (1, fragment.pc, Kind::Convergence, what)
                    }
                };
                if found.as_ref().is_none_or(|(best, ..)| rank < *best) {
                    found = Some((rank, pc, (index as u32) << 5 | lanes.trailing_zeros(), kind, what));
                }
            }
        }
        let (_, pc, thread, kind, what) = found.unwrap_or((0, 0, 0, Kind::Barrier, String::new()));
        Self::fault_at(grid, thread as usize / LANES, pc, 1 << (thread % 32), kind, &what)
    }
}
