//! Logic, shifts, fields and counts.

use super::super::code::Step;
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::regs::{Slot, lanes};
use super::super::syntax::{Inst, Operand};
use super::super::ty::Ty;
use super::{Table, map1, map2, map3};

pub(super) const TABLE: Table = &[
    ("and", logic),
    ("or", logic),
    ("xor", logic),
    ("not", not),
    ("cnot", cnot),
    ("shl", shift),
    ("shr", shift),
    ("shf", funnel),
    ("bfe", extract),
    ("bfi", insert),
    ("prmt", permute),
    ("lop3", lop3),
    ("popc", count),
    ("clz", count),
    ("brev", reverse),
    ("bfind", find),
];

fn logic(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let name = inst.opcode.split('.').next().unwrap_or("").to_owned();
    let combine = match name.as_str() {
        "and" => |a: u64, b: u64| a & b,
        "or" => |a: u64, b: u64| a | b,
        _ => |a: u64, b: u64| a ^ b,
    };
    if ty == Ty::Pred {
        linker.decoder.count(inst, 3)?;
        let Operand::Name(d) = &inst.operands[0] else {
            return Err(linker.decoder.fail("the destination is no predicate"));
        };
        let d = linker.decoder.pred_dst(d)?;
        let a = linker.decoder.pred_src(&inst.operands[1])?;
        let b = linker.decoder.pred_src(&inst.operands[2])?;
        return Ok(Step::Exec(Box::new(move |ctx, mask| {
            let (x, y) = (ctx.regs.pred(mask, a)?, ctx.regs.pred(mask, b)?);
            ctx.regs.set_pred(mask, d, combine(x as u64, y as u64) as u32);
            Ok(())
        })));
    }
    untyped(linker, ty)?;
    let (d, ab) = linker.same(inst, ty.bits())?;
    // Each name has a closure of its own, so that the loop over lanes holds the operation itself.
    Ok(match name.as_str() {
        "and" => map2(d, ab, |a: u64, b: u64| a & b),
        "or" => map2(d, ab, |a: u64, b: u64| a | b),
        _ => map2(d, ab, |a: u64, b: u64| a ^ b),
    })
}

fn untyped(linker: &Linker<'_>, ty: Ty) -> Result<(), PtxError> {
    if matches!(ty, Ty::B(16 | 32 | 64)) {
        return Ok(());
    }
    Err(linker.decoder.fail(format!("it has no form for .{ty}")))
}

fn not(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    if ty == Ty::Pred {
        linker.decoder.count(inst, 2)?;
        let Operand::Name(d) = &inst.operands[0] else {
            return Err(linker.decoder.fail("the destination is no predicate"));
        };
        let d = linker.decoder.pred_dst(d)?;
        let a = linker.decoder.pred_src(&inst.operands[1])?;
        return Ok(Step::Exec(Box::new(move |ctx, mask| {
            let x = ctx.regs.pred(mask, a)?;
            ctx.regs.set_pred(mask, d, !x);
            Ok(())
        })));
    }
    untyped(linker, ty)?;
    let (d, [a]) = linker.same(inst, ty.bits())?;
    Ok(match ty.bits() {
        16 => map1(d, a, |x: u16| !x),
        32 => map1(d, a, |x: u32| !x),
        _ => map1(d, a, |x: u64| !x),
    })
}

fn cnot(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    untyped(linker, ty)?;
    let (d, [a]) = linker.same(inst, ty.bits())?;
    Ok(map1(d, a, |x: u64| u64::from(x == 0)))
}

/// Shifts by the width or more give zero, or the sign.
fn shift(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let left = inst.opcode.starts_with("shl");
    linker.decoder.count(inst, 3)?;
    let d = linker.decoder.dst(&inst.operands[0], ty.bits())?;
    let by = [linker.decoder.src(&inst.operands[1], ty.bits())?, linker.decoder.src(&inst.operands[2], 32)?];
    Ok(match (left, ty) {
        (true, Ty::B(16)) => map2(d, by, |a: u16, b: u32| if b < 16 { a << b } else { 0 }),
        (true, Ty::B(32)) => map2(d, by, |a: u32, b: u32| if b < 32 { a << b } else { 0 }),
        (true, Ty::B(64)) => map2(d, by, |a: u64, b: u32| if b < 64 { a << b } else { 0 }),
        (false, Ty::B(16) | Ty::U(16)) => map2(d, by, |a: u16, b: u32| if b < 16 { a >> b } else { 0 }),
        (false, Ty::B(32) | Ty::U(32)) => map2(d, by, |a: u32, b: u32| if b < 32 { a >> b } else { 0 }),
        (false, Ty::B(64) | Ty::U(64)) => map2(d, by, |a: u64, b: u32| if b < 64 { a >> b } else { 0 }),
        (false, Ty::S(16)) => map2(d, by, |a: i16, b: u32| a >> b.min(15)),
        (false, Ty::S(32)) => map2(d, by, |a: i32, b: u32| a >> b.min(31)),
        (false, Ty::S(64)) => map2(d, by, |a: i64, b: u32| a >> b.min(63)),
        _ => return Err(linker.decoder.fail(format!("it has no form for .{ty}"))),
    })
}

/// `shf`: 32 bits out of the pair `b:a`.
fn funnel(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let left = mods.flag("l");
    if !left && !mods.flag("r") {
        return Err(linker.decoder.fail("neither .l nor .r"));
    }
    let clamp = mods.flag("clamp");
    if !clamp && !mods.flag("wrap") {
        return Err(linker.decoder.fail("neither .clamp nor .wrap"));
    }
    if linker.ty(mods)? != Ty::B(32) {
        return Err(linker.decoder.fail("only .b32 has this form"));
    }
    let (d, abc) = linker.same(inst, 32)?;
    Ok(map3(d, abc, move |a: u32, b: u32, c: u32| {
        let by = if clamp { c.min(32) } else { c & 31 };
        let pair = (b as u64) << 32 | a as u64;
        if left { (pair << by >> 32) as u32 } else { (pair >> by) as u32 }
    }))
}

/// The start and the length of a field of a word of `bits` bits. The GPU has an instruction for 32 bits, which
/// looks at the low byte of each; what the assembler puts together for 64 bits looks at all of it.
fn bounds(bits: u32, start: u32, len: u32) -> (u32, u32) {
    if bits == 32 { (start & 0xff, len & 0xff) } else { (start.min(bits), len.min(bits)) }
}

/// `bfe`: a field, extended by the sign of its highest bit that exists.
fn extract(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    if !matches!(ty, Ty::U(32 | 64) | Ty::S(32 | 64)) {
        return Err(linker.decoder.fail(format!("it has no form for .{ty}")));
    }
    linker.decoder.count(inst, 4)?;
    let bits = ty.bits();
    let d = linker.decoder.dst(&inst.operands[0], bits)?;
    let a = linker.decoder.src(&inst.operands[1], bits)?;
    let field = [linker.decoder.src(&inst.operands[2], 32)?, linker.decoder.src(&inst.operands[3], 32)?];
    let width = if bits == 32 { u32::MAX as u64 } else { u64::MAX };
    Ok(map3(d, [a, field[0], field[1]], move |a: u64, start: u32, len: u32| {
        let (start, len) = bounds(bits, start, len);
        let field = if start >= bits { 0 } else { a >> start };
        let kept = if len >= 64 { field } else { field & ((1 << len) - 1) };
        let negative = ty.is_signed() && len > 0 && a >> (start + len - 1).min(bits - 1) & 1 == 1;
        let have = len.min(bits.saturating_sub(start));
        let high = if have >= 64 { 0 } else { u64::MAX << have };
        (if negative { kept | high } else { kept }) & width
    }))
}

/// `bfi`: the low bits of `a` into a field of `b`.
fn insert(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    if !matches!(ty, Ty::B(32 | 64)) {
        return Err(linker.decoder.fail(format!("it has no form for .{ty}")));
    }
    linker.decoder.count(inst, 5)?;
    let bits = ty.bits();
    let d = linker.decoder.dst(&inst.operands[0], bits)?;
    let [a, b, start, len] = [
        linker.decoder.src(&inst.operands[1], bits)?,
        linker.decoder.src(&inst.operands[2], bits)?,
        linker.decoder.src(&inst.operands[3], 32)?,
        linker.decoder.src(&inst.operands[4], 32)?,
    ];
    let width = if bits == 32 { u32::MAX as u64 } else { u64::MAX };
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        for slot in [a, b, start, len] {
            ctx.regs.need(mask, slot)?;
        }
        let [a, b, start, len] = [a, b, start, len].map(|slot| *ctx.regs.row(slot));
        ctx.regs.write(mask, d, |lane| {
            let (start, len) = bounds(bits, start[lane] as u32, len[lane] as u32);
            let ones = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
            let field = if start >= 64 { 0 } else { ones << start & width };
            let value = if start >= 64 { 0 } else { a[lane] << start };
            b[lane] & !field | value & field
        });
        Ok(())
    })))
}

/// `prmt`: four bytes chosen out of eight. Bytes are copied, defined or not.
fn permute(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    if linker.ty(mods)? != Ty::B(32) {
        return Err(linker.decoder.fail("only .b32 has this form"));
    }
    let mode = mods.pick(|m| ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"].iter().position(|name| *name == m));
    let (d, [a, b, c]) = linker.same(inst, 32)?;
    // Each mode is a selector of its own; the third operand's low bits say which.
    let selector = move |c: u32| -> u32 {
        let (n, twice) = ((c & 3) as usize, (c & 1) as usize);
        match mode {
            None => c,
            Some(0) => [0x3210, 0x4321, 0x5432, 0x6543][n],
            Some(1) => [0x5670, 0x6701, 0x7012, 0x0123][n],
            Some(2) => [0x0000, 0x1111, 0x2222, 0x3333][n],
            Some(3) => [0x3210, 0x3211, 0x3222, 0x3333][n],
            Some(4) => [0x0000, 0x1110, 0x2210, 0x3210][n],
            Some(_) => [0x1010, 0x3232][twice],
        }
    };
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        ctx.regs.need(mask, c)?;
        let [x, y, z] = [a, b, c].map(|slot| *ctx.regs.row(slot));
        let choose = |lane: usize, pair: u64, sign: bool| -> u64 {
            let selector = selector(z[lane] as u32);
            (0..4).fold(0, |out, n| {
                let pick = selector >> (4 * n) & 0xf;
                let byte = pair >> (8 * (pick & 7)) & 0xff;
                let byte = if pick & 8 != 0 && sign { (byte as i8 >> 7) as u8 as u64 } else { byte };
                out | byte << (8 * n)
            })
        };
        for lane in lanes(mask) {
            let bytes = |slot: Slot| {
                let set = ctx.regs.bytes_defined(slot, lane);
                (0..4).fold(0_u64, |out, n| out | if set >> n & 1 == 1 { 0xff << (8 * n) } else { 0 })
            };
            let known = choose(lane, bytes(b) << 32 | bytes(a), false);
            let value = choose(lane, y[lane] << 32 | x[lane], true);
            let set = (0..4).fold(0xf0_u8, |out, n| out | u8::from(known >> (8 * n) & 0xff != 0) << n);
            ctx.regs.write_partly(d, lane, value, set);
        }
        Ok(())
    })))
}

/// `lop3`: any function of three bits, as a table of eight.
fn lop3(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    if linker.ty(mods)? != Ty::B(32) {
        return Err(linker.decoder.fail("only .b32 has this form"));
    }
    linker.decoder.count(inst, 5)?;
    let Operand::Int(table) = inst.operands[4] else {
        return Err(linker.decoder.fail("the table is no number"));
    };
    let table =
        u8::try_from(table).map_err(|_| linker.decoder.fail(format!("the table {table} is no byte")))?;
    let d = linker.decoder.dst(&inst.operands[0], 32)?;
    let mut abc = [d; 3];
    for (slot, operand) in abc.iter_mut().zip(&inst.operands[1..4]) {
        *slot = linker.decoder.src(operand, 32)?;
    }
    Ok(map3(d, abc, move |a: u32, b: u32, c: u32| {
        (0..8).filter(|row| table >> row & 1 == 1).fold(0, |out, row| {
            let pick = |value: u32, bit: u32| if row >> bit & 1 == 1 { value } else { !value };
            out | pick(a, 2) & pick(b, 1) & pick(c, 0)
        })
    }))
}

fn count(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    linker.decoder.count(inst, 2)?;
    let d = linker.decoder.dst(&inst.operands[0], 32)?;
    let a = linker.decoder.src(&inst.operands[1], ty.bits())?;
    Ok(match (inst.opcode.starts_with("popc"), ty) {
        (true, Ty::B(32)) => map1(d, a, u32::count_ones),
        (true, Ty::B(64)) => map1(d, a, u64::count_ones),
        (false, Ty::B(32)) => map1(d, a, u32::leading_zeros),
        (false, Ty::B(64)) => map1(d, a, u64::leading_zeros),
        _ => return Err(linker.decoder.fail(format!("it has no form for .{ty}"))),
    })
}

fn reverse(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let (d, [a]) = linker.same(inst, ty.bits())?;
    Ok(match ty {
        Ty::B(32) => map1(d, a, u32::reverse_bits),
        Ty::B(64) => map1(d, a, u64::reverse_bits),
        _ => return Err(linker.decoder.fail(format!("it has no form for .{ty}"))),
    })
}

/// `bfind`: the highest bit that differs from the sign, or all ones where there is none.
fn find(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let amount = mods.flag("shiftamt");
    let ty = linker.ty(mods)?;
    if !matches!(ty, Ty::U(32 | 64) | Ty::S(32 | 64)) {
        return Err(linker.decoder.fail(format!("it has no form for .{ty}")));
    }
    linker.decoder.count(inst, 2)?;
    let bits = ty.bits();
    let d = linker.decoder.dst(&inst.operands[0], 32)?;
    let a = linker.decoder.src(&inst.operands[1], bits)?;
    Ok(map1(d, a, move |x: u64| {
        let negative = ty.is_signed() && x >> (bits - 1) & 1 == 1;
        let width = if bits == 32 { u32::MAX as u64 } else { u64::MAX };
        let magnitude = if negative { !x & width } else { x };
        if magnitude == 0 {
            return u32::MAX;
        }
        let place = magnitude.ilog2();
        if amount { bits - 1 - place } else { place }
    }))
}
