//! Operations among the lanes of a warp.

use super::super::code::{Members, Step};
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::regs::lanes;
use super::super::syntax::{Inst, Operand};
use super::super::ty::Ty;
use super::Table;

pub(super) const TABLE: Table =
    &[("shfl", shuffle), ("vote", vote), ("redux", redux), ("match", matching), ("activemask", activemask)];

fn needs_sync(linker: &Linker<'_>, mods: &mut Mods<'_>) -> Result<(), PtxError> {
    if mods.flag("sync") { Ok(()) } else { Err(linker.decoder.fail("no .sync")) }
}

fn shuffle(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    needs_sync(linker, mods)?;
    let mode = mods.pick(|m| ["up", "down", "bfly", "idx"].iter().position(|name| *name == m));
    let mode = mode.ok_or_else(|| linker.decoder.fail("none of .up, .down, .bfly and .idx"))?;
    if linker.ty(mods)? != Ty::B(32) {
        return Err(linker.decoder.fail("only .b32 has this form"));
    }
    linker.decoder.count(inst, 5)?;
    let (d, p) = match &inst.operands[0] {
        Operand::Pair(d, p) => (Operand::Name(d.clone()), Some(linker.decoder.pred_dst(p)?)),
        d => (d.clone(), None),
    };
    let d = linker.decoder.dst(&d, 32)?;
    let [a, b, c, members] = [1, 2, 3, 4].map(|n| linker.decoder.src(&inst.operands[n], 32));
    let (a, b, c, members) = (a?, b?, c?, members?);
    let run = Step::Sync(
        Members::Named(members),
        Box::new(move |ctx, mask| {
            ctx.regs.need(mask, b)?;
            ctx.regs.need(mask, c)?;
            let (values, by, limit) = (*ctx.regs.row(a), *ctx.regs.row(b), *ctx.regs.row(c));
            let mut inside = 0;
            let mut bytes = [0_u8; 32];
            let mut out = [0; 32];
            for lane in lanes(mask) {
                let (own, by) = (lane as i64, (by[lane] & 31) as i64);
                let (clamp, segment) = ((limit[lane] & 31) as i64, (limit[lane] >> 8 & 31) as i64);
                let last = own & segment | clamp & !segment;
                let (source, valid) = match mode {
                    0 => (own - by, own - by >= last),
                    1 => (own + by, own + by <= last),
                    2 => (own ^ by, own ^ by <= last),
                    _ => {
                        let source = own & segment | by & !segment;
                        (source, source <= last)
                    }
                };
                let source = if valid { source as usize } else { lane };
                inside |= u32::from(valid) << lane;
                out[lane] = values[source];
                // A lane that takes no part gives nothing.
                let there = mask >> source & 1 == 1;
                bytes[lane] = if there { ctx.regs.bytes_defined(a, source) } else { 0 };
            }
            for lane in lanes(mask) {
                ctx.regs.write_partly(d, lane, out[lane], bytes[lane]);
            }
            if let Some(p) = p {
                ctx.regs.set_pred(mask, p, inside);
            }
            Ok(())
        }),
    );
    Ok(run)
}

fn vote(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    needs_sync(linker, mods)?;
    let mode = mods.pick(|m| ["all", "any", "uni", "ballot"].iter().position(|name| *name == m));
    let mode = mode.ok_or_else(|| linker.decoder.fail("none of .all, .any, .uni and .ballot"))?;
    let wanted = if mode == 3 { Ty::B(32) } else { Ty::Pred };
    if linker.ty(mods)? != wanted {
        return Err(linker.decoder.fail(format!("the result must be .{wanted}")));
    }
    linker.decoder.count(inst, 3)?;
    let a = linker.decoder.pred_src(&inst.operands[1])?;
    let members = Members::Named(linker.decoder.src(&inst.operands[2], 32)?);
    if mode == 3 {
        let d = linker.decoder.dst(&inst.operands[0], 32)?;
        return Ok(Step::Sync(
            members,
            Box::new(move |ctx, mask| {
                let votes = ctx.regs.pred(mask, a)? & mask;
                ctx.regs.write(mask, d, |_| votes as u64);
                Ok(())
            }),
        ));
    }
    let Operand::Name(p) = &inst.operands[0] else {
        return Err(linker.decoder.fail("the destination is no predicate"));
    };
    let p = linker.decoder.pred_dst(p)?;
    Ok(Step::Sync(
        members,
        Box::new(move |ctx, mask| {
            let votes = ctx.regs.pred(mask, a)? & mask;
            let holds = match mode {
                0 => votes == mask,
                1 => votes != 0,
                _ => votes == mask || votes == 0,
            };
            ctx.regs.set_pred(mask, p, if holds { u32::MAX } else { 0 });
            Ok(())
        }),
    ))
}

/// Joins two lanes' values.
type Fold = fn(u32, u32) -> u32;

fn redux(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    needs_sync(linker, mods)?;
    let operations = ["add", "min", "max", "and", "or", "xor"];
    let operation = mods.pick(|m| operations.into_iter().find(|name| *name == m));
    let ty = linker.ty(mods)?;
    let fold: Fold = match (operation, ty) {
        (Some("add"), Ty::U(32) | Ty::S(32)) => u32::wrapping_add,
        (Some("min"), Ty::U(32)) => |a, b| a.min(b),
        (Some("max"), Ty::U(32)) => |a, b| a.max(b),
        (Some("min"), Ty::S(32)) => |a, b| (a as i32).min(b as i32) as u32,
        (Some("max"), Ty::S(32)) => |a, b| (a as i32).max(b as i32) as u32,
        (Some("and"), Ty::B(32)) => |a, b| a & b,
        (Some("or"), Ty::B(32)) => |a, b| a | b,
        (Some("xor"), Ty::B(32)) => |a, b| a ^ b,
        _ => return Err(linker.decoder.fail(format!("no such reduction of .{ty}"))),
    };
    linker.decoder.count(inst, 3)?;
    let d = linker.decoder.dst(&inst.operands[0], 32)?;
    let a = linker.decoder.src(&inst.operands[1], 32)?;
    let members = Members::Named(linker.decoder.src(&inst.operands[2], 32)?);
    Ok(Step::Sync(
        members,
        Box::new(move |ctx, mask| {
            ctx.regs.need(mask, a)?;
            let row = ctx.regs.row(a);
            let total = lanes(mask).map(|lane| row[lane] as u32).reduce(fold).unwrap_or(0);
            ctx.regs.write(mask, d, |_| total as u64);
            Ok(())
        }),
    ))
}

/// `match.any` and `match.all`: which lanes hold the same value.
fn matching(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let all = mods.flag("all");
    if !all && !mods.flag("any") {
        return Err(linker.decoder.fail("neither .any nor .all"));
    }
    needs_sync(linker, mods)?;
    let ty = linker.ty(mods)?;
    if !matches!(ty, Ty::B(32 | 64)) {
        return Err(linker.decoder.fail(format!("it has no form for .{ty}")));
    }
    linker.decoder.count(inst, 3)?;
    let (d, p) = match &inst.operands[0] {
        Operand::Pair(d, p) if all => (Operand::Name(d.clone()), Some(linker.decoder.pred_dst(p)?)),
        d => (d.clone(), None),
    };
    let d = linker.decoder.dst(&d, 32)?;
    let a = linker.decoder.src(&inst.operands[1], ty.bits())?;
    let members = Members::Named(linker.decoder.src(&inst.operands[2], 32)?);
    Ok(Step::Sync(
        members,
        Box::new(move |ctx, mask| {
            ctx.regs.need(mask, a)?;
            let row = *ctx.regs.row(a);
            let same = |lane: usize| {
                lanes(mask).filter(|&other| row[other] == row[lane]).fold(0_u32, |m, other| m | 1 << other)
            };
            if !all {
                ctx.regs.write(mask, d, |lane| same(lane) as u64);
                return Ok(());
            }
            let agree = same(mask.trailing_zeros() as usize) == mask;
            ctx.regs.write(mask, d, |_| if agree { mask as u64 } else { 0 });
            if let Some(p) = p {
                ctx.regs.set_pred(mask, p, if agree { u32::MAX } else { 0 });
            }
            Ok(())
        }),
    ))
}

fn activemask(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    if linker.ty(mods)? != Ty::B(32) {
        return Err(linker.decoder.fail("only .b32 has this form"));
    }
    linker.decoder.count(inst, 1)?;
    let d = linker.decoder.dst(&inst.operands[0], 32)?;
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        ctx.regs.write(mask, d, |_| mask as u64);
        Ok(())
    })))
}
