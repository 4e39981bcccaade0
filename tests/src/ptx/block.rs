//! One block: its warps take turns until all have exited, meeting at barriers.

use std::sync::atomic::{AtomicI64, Ordering};

use super::barrier::Meeting;
use super::code::{Code, Constant, Ctx, Image, Special, Step};
use super::error::Kind;
use super::exec::{Bounds, Event, Failure, run};
use super::memory::Memory;
use super::race::Clock;
use super::regs::LANES;
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

/// A fault in its block.
pub(crate) struct BlockFault {
    pub(crate) failure: Failure,
    pub(crate) thread: u32,
}

/// The state of one block, reused from block to block.
pub(crate) struct Block {
    pub(crate) warps: Vec<Warp>,
    shared: Shared,
    pub(crate) clock: Clock,
    pub(crate) meetings: Vec<Meeting>,
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

    pub(crate) fn live_threads(&self) -> u32 {
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
}
