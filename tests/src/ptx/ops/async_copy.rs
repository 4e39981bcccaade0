//! `cp.async`: copies from device memory to shared memory that run beside the thread.

use super::super::code::{Exec, Step};
use super::super::copies::{Copy, wait};
use super::super::error::{Fault, Kind, PtxError};
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::race::How;
use super::super::regs::lanes;
use super::super::syntax::{Inst, Operand, Space};
use super::Table;
use super::memory::addresses;

pub(super) const TABLE: Table = &[("cp", copy)];

fn copy(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    if !mods.flag("async") {
        return Err(linker.decoder.fail("no .async"));
    }
    if mods.flag("commit_group") {
        linker.decoder.count(inst, 0)?;
        return Ok(Step::Exec(Box::new(|ctx, mask| {
            ctx.copies.commit(mask);
            Ok(())
        })));
    }
    if mods.flag("wait_all") {
        linker.decoder.count(inst, 0)?;
        return Ok(Step::Exec(Box::new(|ctx, mask| wait(ctx, mask, 0, true))));
    }
    if mods.flag("wait_group") {
        linker.decoder.count(inst, 1)?;
        let keep = number(linker, &inst.operands[0])?;
        return Ok(Step::Exec(Box::new(move |ctx, mask| wait(ctx, mask, keep, false))));
    }
    issue(linker, inst, mods)
}

fn number(linker: &Linker<'_>, operand: &Operand) -> Result<usize, PtxError> {
    match operand {
        Operand::Int(value) if (0..=1 << 16).contains(value) => Ok(*value as usize),
        _ => Err(linker.decoder.fail("a number is needed")),
    }
}

fn issue(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let wide = mods.flag("cg");
    if !wide && !mods.flag("ca") {
        return Err(linker.decoder.fail("neither .ca nor .cg"));
    }
    let to_shared = mods.flag("shared") || mods.flag("shared::cta");
    if !to_shared || !mods.flag("global") {
        return Err(linker.decoder.fail("only copies from .global to .shared"));
    }
    while mods.pick(|m| m.starts_with("L2::").then_some(())).is_some() {}
    if !matches!(inst.operands.len(), 3 | 4) {
        return Err(linker.decoder.fail(format!("{} operands where 3 or 4 are needed", inst.operands.len())));
    }
    let to = linker.decoder.address(&inst.operands[0])?;
    let from = linker.decoder.address(&inst.operands[1])?;
    if from.narrow {
        return Err(linker.decoder.fail("a 32-bit register as a 64-bit address"));
    }
    let size = number(linker, &inst.operands[2])?;
    if !(size == 16 || (!wide && matches!(size, 4 | 8))) {
        return Err(linker.decoder.fail(format!("a copy of {size} bytes")));
    }
    let source = match inst.operands.get(3) {
        Some(operand) => Some(linker.decoder.src(operand, 32)?),
        None => None,
    };
    linker.decoder.accesses(Space::Shared, size);
    // With a source size, any number of bytes may be read.
    linker.decoder.accesses(Space::Global, if source.is_some() { 4 } else { size });
    let run: Exec = Box::new(move |ctx, mask| {
        let target = addresses(ctx, mask, &to)?;
        let origin = addresses(ctx, mask, &from)?;
        if let Some(source) = source {
            ctx.regs.need(mask, source)?;
        }
        ctx.shared.check(mask, &target, size)?;
        ctx.memory.aligned(mask, &origin, size)?;
        let who = ctx.who(How::Plain);
        ctx.shared.stamp_writes(mask, &target, size, who)?;
        let mut copies = Vec::with_capacity(32);
        let mut rest = mask;
        while rest != 0 {
            // Lanes that read as many bytes from one buffer are looked at together.
            let read_of = |lane: usize| source.map_or(size, |slot| ctx.regs.row(slot)[lane] as usize);
            let first = rest.trailing_zeros() as usize;
            let read = read_of(first);
            let alike = lanes(rest).filter(|&lane| read_of(lane) == read).fold(0, |m, lane| m | 1 << lane);
            if read > size {
                let what = format!("a source of {read} bytes for a copy of {size}");
                return Err(Fault::new(Kind::Operand, first as u32, what));
            }
            let mut copy = Copy { to: 0, bytes: size, data: [0; 16], defined: (1 << size) - 1 };
            if read == 0 {
                copies.extend(lanes(alike).map(|lane| (lane, Copy { to: target[lane], ..copy.clone() })));
                rest &= !alike;
                continue;
            }
            let (region, group) = ctx.memory.group(alike, &origin, read)?;
            rest &= !group;
            region.stamp_reads(group, &origin, read, who)?;
            let defined = region.defined(group, &origin, read);
            let step = if read.is_multiple_of(4) { 4 } else { 1 };
            for lane in lanes(group) {
                let at = (origin[lane] - region.base) as usize;
                copy.to = target[lane];
                for (n, bytes) in copy.data[..read].chunks_exact_mut(step).enumerate() {
                    bytes.copy_from_slice(&region.data.load(at + n * step, step).to_le_bytes()[..step]);
                }
                copy.defined = (1 << size) - 1;
                if defined >> lane & 1 == 0 {
                    copy.defined &= region.initialised.get(at, read) | u64::MAX << read;
                }
                copies.push((lane, copy.clone()));
            }
        }
        for (lane, copy) in copies {
            // Two lanes may name one place: the second finds the first's copy under way.
            ctx.shared.check_in_flight(lane, copy.to, size)?;
            ctx.shared.set_in_flight(copy.to, size, true);
            ctx.copies.add(lane, copy);
        }
        Ok(())
    });
    Ok(Step::Exec(run))
}
