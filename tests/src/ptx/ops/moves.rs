//! Copies: they keep undefined bytes undefined and fault on none.

use super::super::code::{Ctx, Step};
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::memory_map::window;
use super::super::mods::Mods;
use super::super::regs::{Slot, lanes};
use super::super::syntax::{Inst, Operand, Space};
use super::super::ty::Ty;
use super::Table;

pub(super) const TABLE: Table = &[("mov", mov), ("selp", selp), ("cvta", cvta)];

fn mov(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    linker.decoder.count(inst, 2)?;
    let (to, from) = (&inst.operands[0], &inst.operands[1]);
    if ty == Ty::Pred {
        let Operand::Name(to) = to else {
            return Err(linker.decoder.fail("the destination is no predicate"));
        };
        let to = linker.decoder.pred_dst(to)?;
        // LLVM writes true as -1.
        if let Operand::Int(value @ (-1..=1)) = from {
            let value = if *value == 0 { 0 } else { u32::MAX };
            return Ok(Step::Exec(Box::new(move |ctx, mask| {
                ctx.regs.set_pred(mask, to, value);
                Ok(())
            })));
        }
        let from = linker.decoder.pred_src(from)?;
        return Ok(Step::Exec(Box::new(move |ctx, mask| {
            let value = ctx.regs.pred(mask, from)?;
            ctx.regs.set_pred(mask, to, value);
            Ok(())
        })));
    }
    match (to, from) {
        (Operand::Vector(parts), _) => unpack(linker, ty, parts, from),
        (_, Operand::Vector(parts)) => pack(linker, ty, to, parts),
        _ => {
            let to = linker.decoder.dst(to, ty.bits())?;
            let from = move_source(linker, from, ty)?;
            Ok(Step::Exec(Box::new(move |ctx, mask| {
                ctx.regs.copy(mask, to, from);
                Ok(())
            })))
        }
    }
}

/// A register, a number, or the address of a variable in its own space.
fn move_source(linker: &mut Linker<'_>, operand: &Operand, ty: Ty) -> Result<Slot, PtxError> {
    let (name, offset) = match operand {
        Operand::Name(name) => (name, 0),
        Operand::Offset(name, offset) => (name, *offset),
        _ => return linker.decoder.src(operand, ty.bits()),
    };
    match linker.decoder.home(name) {
        Some(home) if ty.bits() >= 32 => {
            let (slot, _) = linker.decoder.address_of(&home);
            if offset == 0 {
                return Ok(slot);
            }
            let known = linker.decoder.constants.iter().find(|(s, _)| *s == slot).map(|(_, c)| c.clone());
            match known {
                Some(super::super::code::Constant::Bits(at)) => {
                    let at = at.wrapping_add_signed(offset);
                    Ok(linker.decoder.constant(super::super::code::Constant::Bits(at)))
                }
                _ => Err(linker.decoder.fail("an offset on the address of a variable placed at the launch")),
            }
        }
        _ if offset != 0 => Err(linker.decoder.fail("an offset on what is no variable")),
        _ => linker.decoder.src(operand, ty.bits()),
    }
}

/// The bits of each element of a register of type `ty` split into `count`.
fn element_bits(linker: &Linker<'_>, ty: Ty, count: usize) -> Result<u32, PtxError> {
    let bits = ty.bits() / count.max(1) as u32;
    if matches!(count, 2 | 4) && matches!(bits, 8 | 16 | 32) {
        return Ok(bits);
    }
    Err(linker.decoder.fail(format!("{count} elements in .{ty}")))
}

fn unpack(linker: &mut Linker<'_>, ty: Ty, parts: &[Operand], from: &Operand) -> Result<Step, PtxError> {
    let bits = element_bits(linker, ty, parts.len())?;
    let from = linker.decoder.src(from, ty.bits())?;
    let mut slots = Vec::new();
    for part in parts {
        slots.push(linker.decoder.dst(part, bits)?);
    }
    let width = bits / 8;
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        let source = *ctx.regs.row(from);
        let whole = mask & !ctx.regs.defined[from.0 as usize] == 0;
        let ones = (1_u64 << bits) - 1;
        for (n, &slot) in slots.iter().enumerate() {
            let shift = bits * n as u32;
            if whole {
                ctx.regs.write(mask, slot, |lane| source[lane] >> shift & ones);
                continue;
            }
            for lane in lanes(mask) {
                let set = ctx.regs.bytes_defined(from, lane) as u32 >> (width * n as u32);
                let set = set as u8 | (0xff_u32 << width) as u8;
                ctx.regs.write_partly(slot, lane, source[lane] >> shift & ones, set);
            }
        }
        Ok(())
    })))
}

fn pack(linker: &mut Linker<'_>, ty: Ty, to: &Operand, parts: &[Operand]) -> Result<Step, PtxError> {
    let bits = element_bits(linker, ty, parts.len())?;
    let to = linker.decoder.dst(to, ty.bits())?;
    let mut slots = Vec::new();
    for part in parts {
        slots.push(linker.decoder.src(part, bits)?);
    }
    let width = bits / 8;
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        let mut value = [0; 32];
        let mut whole = mask;
        for (n, &slot) in slots.iter().enumerate() {
            let row = ctx.regs.row(slot);
            let shift = bits * n as u32;
            for (out, &part) in value.iter_mut().zip(row) {
                *out |= part << shift;
            }
            whole &= ctx.regs.defined[slot.0 as usize];
        }
        let partial: Vec<(usize, u8)> = lanes(mask & !whole)
            .map(|lane| {
                let high = (0xff_u32 << (width * slots.len() as u32)) as u8;
                let set = slots.iter().enumerate().fold(high, |set, (n, &slot)| {
                    let part = ctx.regs.bytes_defined(slot, lane) as u32 & ((1 << width) - 1);
                    set | (part << (width * n as u32)) as u8
                });
                (lane, set)
            })
            .collect();
        ctx.regs.write(whole, to, |lane| value[lane]);
        for (lane, set) in partial {
            ctx.regs.write_partly(to, lane, value[lane], set);
        }
        Ok(())
    })))
}

/// `d = p ? a : b`: only the chosen operand need be defined, and the predicate.
fn selp(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    linker.decoder.count(inst, 4)?;
    let bits = ty.bits();
    let d = linker.decoder.dst(&inst.operands[0], bits)?;
    let a = linker.decoder.src(&inst.operands[1], bits)?;
    let b = linker.decoder.src(&inst.operands[2], bits)?;
    let p = linker.decoder.pred_src(&inst.operands[3])?;
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        let chosen = ctx.regs.pred(mask, p)?;
        select(ctx, mask, chosen, d, [a, b]);
        Ok(())
    })))
}

/// Copies `a` in the lanes of `chosen` and `b` in the others.
pub(super) fn select(ctx: &mut Ctx<'_>, mask: u32, chosen: u32, d: Slot, [a, b]: [Slot; 2]) {
    let defined = ctx.regs.defined[a.0 as usize] & chosen | ctx.regs.defined[b.0 as usize] & !chosen;
    let (x, y) = (*ctx.regs.row(a), *ctx.regs.row(b));
    let value = |lane: usize| if chosen >> lane & 1 == 1 { x[lane] } else { y[lane] };
    let partial: Vec<(usize, u8)> = lanes(mask & !defined)
        .map(|lane| (lane, ctx.regs.bytes_defined(if chosen >> lane & 1 == 1 { a } else { b }, lane)))
        .collect();
    ctx.regs.write(mask & defined, d, value);
    for (lane, set) in partial {
        ctx.regs.write_partly(d, lane, value(lane), set);
    }
}

/// `cvta` and `cvta.to`: between a space's own addresses and generic ones.
fn cvta(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let to_space = mods.flag("to");
    let space = mods.pick(Space::from_suffix).ok_or_else(|| linker.decoder.fail("no state space"))?;
    if linker.ty(mods)? != Ty::U(64) {
        return Err(linker.decoder.fail("only .u64 addresses are supported"));
    }
    linker.decoder.count(inst, 2)?;
    let d = linker.decoder.dst(&inst.operands[0], 64)?;
    let a = move_source(linker, &inst.operands[1], Ty::U(64))?;
    let base = window(space);
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        ctx.regs.need(mask, a)?;
        let x = *ctx.regs.row(a);
        if to_space {
            ctx.regs.write(mask, d, |lane| x[lane].wrapping_sub(base));
        } else {
            ctx.regs.write(mask, d, |lane| x[lane].wrapping_add(base));
        }
        Ok(())
    })))
}
