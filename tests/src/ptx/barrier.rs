//! Block barriers: who has arrived, what follows when all are there, and who is stuck when they never come.

use super::block::{Block, BlockFault, Grid};
use super::code::{Barrier, Reduced, Step};
use super::error::{Fault, Kind};
use super::exec::Failure;
use super::race::MAX_TICK;
use super::regs::{LANES, lanes};
use super::warp::State;

/// A block barrier between two completions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meeting {
    arrived: u32,
    expected: Option<u32>,
    warps: u32,
    votes: u32,
    results: Vec<(usize, u32, Reduced)>,
}

impl Block {
    /// Lanes of a warp arrive at a block barrier.
    pub(crate) fn arrive(
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
                return Err((
                    Kind::Operand,
                    "lanes of one warp name different barriers or counts".to_owned(),
                ));
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
                return Err(wrong(format!(
                    "a barrier for {count} threads, which is no multiple of the warp size"
                )));
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
            let what = format!(
                "barrier {id} with a count of {expected:?}, where others gave {:?}",
                meeting.expected
            );
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
    pub(crate) fn complete(
        &mut self,
        grid: &Grid<'_>,
        index: usize,
        pc: u32,
        at: u32,
        id: usize,
    ) -> Result<(), BlockFault> {
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

    pub(crate) fn check_tick(
        &self,
        grid: &Grid<'_>,
        index: usize,
        pc: u32,
        at: u32,
    ) -> Result<(), BlockFault> {
        if self.clock.tick < MAX_TICK {
            return Ok(());
        }
        let what = format!("more than {MAX_TICK} barriers in one block");
        Err(Self::fault_at(grid, index, pc, at, Kind::Budget, &what))
    }

    pub(crate) fn fault_at(
        grid: &Grid<'_>,
        warp: usize,
        pc: u32,
        at: u32,
        kind: Kind,
        what: &str,
    ) -> BlockFault {
        let lane = at.trailing_zeros().min(31);
        let line = grid.code.ops.get(pc as usize).map_or(0, |op| op.line);
        let failure = Failure { fault: Fault::new(kind, lane, what), line };
        BlockFault { thread: (warp * LANES) as u32 + lane, failure }
    }

    /// Nobody can go on: says who waits for whom.
    pub(crate) fn stuck(&self, grid: &Grid<'_>) -> BlockFault {
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
                let others =
                    if others.is_empty() { "no other lane is left".to_owned() } else { others.join(", ") };
                let barrier = matches!(grid.code.ops[fragment.pc as usize].step, Step::Barrier(_));
                let lanes = fragment.lanes;
                let (rank, pc, kind, what) = match fragment.state {
                    State::Together if barrier => (
                        0,
                        fragment.pc,
                        Kind::Barrier,
                        format!(
                            "an aligned barrier reached by lanes {lanes:#010x} of the warp alone; {others}"
                        ),
                    ),
                    State::Barrier(id) => {
                        let meeting = &self.meetings[id as usize];
                        let wanted = meeting.expected.unwrap_or_else(|| self.live_threads());
                        let what =
                            format!("barrier {id} has {} of {wanted} threads; {others}", meeting.arrived);
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
