//! Runs one warp's converged lanes until something needs the warp's or the block's attention.

use std::sync::atomic::Ordering;

use super::code::{Code, Ctx, Members, Op, Step};
use super::error::{Fault, Kind};
use super::regs::lanes;

/// Why a run stopped. `pc` is where the lanes stand.
pub(crate) enum Event {
    /// Other lanes may be next.
    Yield,
    /// Some lanes jump to the target; the rest go on.
    Split {
        taken: u32,
        target: u32,
    },
    /// Lanes jump to several places.
    Scatter(Vec<(u32, u32)>),
    /// These lanes wait for others at this instruction; the rest go on.
    Wait {
        waiting: u32,
    },
    /// These lanes are at a `bar.warp.sync` for `members`; those of `again` stand there for other members, and
    /// the rest go on.
    WarpBarrier {
        lanes: u32,
        members: u32,
        again: u32,
    },
    /// These lanes are at a block barrier; the rest go on.
    Barrier {
        lanes: u32,
    },
    /// These lanes are done; the rest go on.
    Exit {
        lanes: u32,
    },
    Call {
        lanes: u32,
    },
    Return {
        lanes: u32,
        function: usize,
    },
}

/// Where a run stopped and what it cost.
pub(crate) struct Stop {
    pub(crate) event: Event,
    pub(crate) pc: u32,
    /// Warp instructions executed.
    pub(crate) count: u64,
}

/// A fault and the instruction that it happened at.
pub(crate) struct Failure {
    pub(crate) fault: Box<Fault>,
    pub(crate) line: u32,
}

/// What bounds a run.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Stop before this instruction: other lanes stand there or behind it.
    pub(crate) limit: u32,
    /// Whether the warp has other lanes at all, so that any jump must look for them.
    pub(crate) others: bool,
    /// Stop at a jump after so many instructions.
    pub(crate) fuel: u64,
}

/// Runs the lanes of `mask` from `pc` on.
pub(crate) fn run(
    ctx: &mut Ctx<'_>,
    code: &Code,
    mut pc: u32,
    mask: u32,
    bounds: Bounds,
) -> Result<Stop, Failure> {
    let mut count = 0;
    loop {
        if pc >= bounds.limit {
            return Ok(Stop { event: Event::Yield, pc, count });
        }
        let op = &code.ops[pc as usize];
        ctx.line = op.line;
        match step(ctx, op, pc, mask) {
            Ok(Next::Fall) => {
                count += 1;
                pc += 1;
            }
            Ok(Next::Jump(target)) => {
                count += u64::from(!matches!(op.step, Step::Goto(_)));
                pc = target;
                if bounds.others || count >= bounds.fuel {
                    return Ok(Stop { event: Event::Yield, pc, count });
                }
            }
            Ok(Next::Stop(event)) => {
                // An instruction that waits is counted when it is done.
                count += u64::from(!matches!(event, Event::Wait { .. }));
                return Ok(Stop { event, pc, count });
            }
            Err(fault) => return Err(Failure { fault, line: op.line }),
        }
    }
}

enum Next {
    Fall,
    Jump(u32),
    Stop(Event),
}

#[inline(always)]
fn step(ctx: &mut Ctx<'_>, op: &Op, pc: u32, mask: u32) -> Result<Next, Box<Fault>> {
    let active = match op.guard {
        None => mask,
        Some(guard) => mask & ctx.regs.pred(mask, guard)?,
    };
    // Read first: a write would take the line away from the other cores.
    if active != 0 && !op.reached.load(Ordering::Relaxed) {
        op.reached.store(true, Ordering::Relaxed);
    }
    match &op.step {
        Step::Exec(exec) => {
            if active != 0 {
                exec(ctx, active)?;
            }
            Ok(Next::Fall)
        }
        Step::Goto(target) => Ok(Next::Jump(*target)),
        _ if active == 0 => Ok(Next::Fall),
        Step::Branch(target) if active == mask => Ok(Next::Jump(*target)),
        Step::Branch(target) => Ok(Next::Stop(Event::Split { taken: active, target: *target })),
        _ => rare(ctx, op, pc, mask, active),
    }
}

/// Steps that are not worth a place in the inner loop.
#[inline(never)]
fn rare(ctx: &mut Ctx<'_>, op: &Op, pc: u32, mask: u32, active: u32) -> Result<Next, Box<Fault>> {
    match &op.step {
        Step::Sync(Members::Full, exec) => {
            if ctx.live != u32::MAX {
                let what = format!("needs all 32 lanes; lanes {:#010x} have exited or never were", !ctx.live);
                return Err(Fault::new(Kind::Convergence, active.trailing_zeros(), what));
            }
            if active != u32::MAX {
                return Ok(Next::Stop(Event::Wait { waiting: active }));
            }
            exec(ctx, active)?;
            Ok(Next::Fall)
        }
        Step::Sync(Members::Named(slot), exec) => {
            let row = {
                ctx.regs.need(active, *slot)?;
                *ctx.regs.row(*slot)
            };
            let mut rest = active;
            let mut waiting = 0;
            while rest != 0 {
                let members = row[rest.trailing_zeros() as usize] as u32;
                let group =
                    lanes(rest).filter(|&lane| row[lane] as u32 == members).fold(0, |m, lane| m | 1 << lane);
                rest &= !group;
                check_members(group, members)?;
                let missing = members & ctx.live & !group;
                if missing == 0 {
                    exec(ctx, group)?;
                } else if missing & active != 0 {
                    let what = format!("names lanes {members:#010x}, of which some name other lanes");
                    return Err(Fault::new(Kind::Convergence, group.trailing_zeros(), what));
                } else {
                    waiting |= group;
                }
            }
            Ok(if waiting == 0 { Next::Fall } else { Next::Stop(Event::Wait { waiting }) })
        }
        Step::WarpBarrier(members) => {
            let Members::Named(slot) = members else { return Ok(Next::Fall) };
            ctx.regs.need(active, *slot)?;
            let row = ctx.regs.row(*slot);
            let members = row[active.trailing_zeros() as usize] as u32;
            let group =
                lanes(active).filter(|&lane| row[lane] as u32 == members).fold(0, |m, lane| m | 1 << lane);
            check_members(group, members)?;
            Ok(Next::Stop(Event::WarpBarrier { lanes: group, members, again: active & !group }))
        }
        Step::Barrier(barrier) => {
            if barrier.aligned && active != ctx.live {
                return Ok(Next::Stop(Event::Wait { waiting: active }));
            }
            Ok(Next::Stop(Event::Barrier { lanes: active }))
        }
        Step::Indexed(index, targets) => {
            ctx.regs.need(active, *index)?;
            let row = ctx.regs.row(*index);
            let mut parts = vec![(pc + 1, mask & !active)];
            for lane in lanes(active) {
                let Some(&target) = targets.get(row[lane] as usize) else {
                    let what = format!("index {} of a list of {} targets", row[lane], targets.len());
                    return Err(Fault::new(Kind::Operand, lane as u32, what));
                };
                match parts.iter_mut().find(|(at, _)| *at == target) {
                    Some((_, lanes)) => *lanes |= 1 << lane,
                    None => parts.push((target, 1 << lane)),
                }
            }
            parts.retain(|(_, lanes)| *lanes != 0);
            Ok(Next::Stop(Event::Scatter(parts)))
        }
        Step::Call(call) => {
            for lane in lanes(active) {
                for part in &call.arguments {
                    ctx.local.transfer(lane, part.from, part.to, part.bytes);
                }
            }
            Ok(Next::Stop(Event::Call { lanes: active }))
        }
        Step::Return(function) => Ok(Next::Stop(Event::Return { lanes: active, function: *function })),
        Step::Exit => Ok(Next::Stop(Event::Exit { lanes: active })),
        Step::Trap => Err(Fault::new(Kind::Trap, active.trailing_zeros(), "executes `trap`")),
        Step::Exec(_) | Step::Goto(_) | Step::Branch(_) => Ok(Next::Fall),
    }
}

fn check_members(group: u32, members: u32) -> Result<(), Box<Fault>> {
    let outside = group & !members;
    if outside == 0 {
        return Ok(());
    }
    let what = format!("takes part in an operation of lanes {members:#010x}, which do not include it");
    Err(Fault::new(Kind::Convergence, outside.trailing_zeros(), what))
}
