//! Integer arithmetic. It wraps, except where `.sat` says otherwise.

use super::super::code::Step;
use super::super::error::{Fault, Kind, PtxError};
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::regs::{Slot, lanes};
use super::super::syntax::Inst;
use super::super::ty::Ty;
use super::{Table, map1, map2, map3, with_int};

pub(super) const TABLE: Table =
    &[("rem", rem), ("mul24", mul24), ("mad24", mad24), ("sad", sad), ("dp4a", dp4a)];

/// Which part of a product is kept.
#[derive(Clone, Copy)]
enum Part {
    Low,
    High,
    Wide,
}

fn part(linker: &Linker<'_>, mods: &mut Mods<'_>) -> Result<Part, PtxError> {
    let part = mods.pick(|m| match m {
        "lo" => Some(Part::Low),
        "hi" => Some(Part::High),
        "wide" => Some(Part::Wide),
        _ => None,
    });
    part.ok_or_else(|| linker.decoder.fail("none of .lo, .hi and .wide"))
}

/// `add`, `sub`, `mul`, `mad`, `div`, `neg`, `abs`, `min`, `max` of integers.
pub(super) fn arith(
    linker: &mut Linker<'_>,
    inst: &Inst,
    mods: &mut Mods<'_>,
    name: &str,
    ty: Ty,
) -> Result<Step, PtxError> {
    let bits = ty.bits();
    if !matches!(ty, Ty::U(16 | 32 | 64) | Ty::S(16 | 32 | 64)) {
        return Err(linker.decoder.fail(format!("it has no form for .{ty}")));
    }
    match name {
        "mul" => {
            let part = part(linker, mods)?;
            return multiply(linker, inst, ty, part);
        }
        "mad" => {
            let part = part(linker, mods)?;
            return multiply_add(linker, inst, ty, part);
        }
        "neg" | "abs" => {
            let (d, [a]) = linker.same(inst, bits)?;
            let negate = name == "neg";
            return Ok(match ty {
                Ty::S(16) => {
                    map1(d, a, move |x: i16| if negate { x.wrapping_neg() } else { x.wrapping_abs() })
                }
                Ty::S(32) => {
                    map1(d, a, move |x: i32| if negate { x.wrapping_neg() } else { x.wrapping_abs() })
                }
                Ty::S(64) => {
                    map1(d, a, move |x: i64| if negate { x.wrapping_neg() } else { x.wrapping_abs() })
                }
                other => return Err(linker.decoder.fail(format!("it has no form for .{other}"))),
            });
        }
        _ => {}
    }
    let (d, ab) = linker.same(inst, bits)?;
    if (name == "add" || name == "sub") && mods.flag("sat") {
        if ty != Ty::S(32) {
            return Err(linker.decoder.fail(format!(".sat of .{ty}; only .s32 saturates")));
        }
        return Ok(match name {
            "add" => map2(d, ab, i32::saturating_add),
            _ => map2(d, ab, i32::saturating_sub),
        });
    }
    Ok(with_int!(linker, ty, T => match name {
        "add" => map2(d, ab, T::wrapping_add),
        "sub" => map2(d, ab, T::wrapping_sub),
        "min" => map2(d, ab, |a: T, b: T| a.min(b)),
        "max" => map2(d, ab, |a: T, b: T| a.max(b)),
        "div" => checked(map2(d, ab, |a: T, b: T| if b == 0 { 0 } else { a.wrapping_div(b) }), ab[1]),
        _ => return Err(linker.decoder.fail("it has no integer form")),
    }))
}

/// Division by zero gives an unspecified value in PTX, so it is a fault here.
fn checked(step: Step, divisor: Slot) -> Step {
    let Step::Exec(divide) = step else { return step };
    Step::Exec(Box::new(move |ctx, mask| {
        let row = ctx.regs.row(divisor);
        if let Some(lane) = lanes(mask).find(|&lane| row[lane] == 0) {
            ctx.regs.need(mask, divisor)?;
            return Err(Fault::new(Kind::Operand, lane as u32, "divides an integer by zero"));
        }
        divide(ctx, mask)
    }))
}

fn rem(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let (d, ab) = linker.same(inst, ty.bits())?;
    let step =
        with_int!(linker, ty, T => map2(d, ab, |a: T, b: T| if b == 0 { 0 } else { a.wrapping_rem(b) }));
    Ok(checked(step, ab[1]))
}

fn multiply(linker: &mut Linker<'_>, inst: &Inst, ty: Ty, part: Part) -> Result<Step, PtxError> {
    if let Part::Wide = part {
        linker.decoder.count(inst, 3)?;
        let bits = ty.bits();
        if bits > 32 {
            return Err(linker.decoder.fail(format!(".wide of .{ty}")));
        }
        let d = linker.decoder.dst(&inst.operands[0], 2 * bits)?;
        let ab = [linker.decoder.src(&inst.operands[1], bits)?, linker.decoder.src(&inst.operands[2], bits)?];
        return Ok(match ty {
            Ty::U(16) => map2(d, ab, |a: u16, b: u16| a as u32 * b as u32),
            Ty::S(16) => map2(d, ab, |a: i16, b: i16| a as i32 * b as i32),
            Ty::U(32) => map2(d, ab, |a: u32, b: u32| a as u64 * b as u64),
            _ => map2(d, ab, |a: i32, b: i32| a as i64 * b as i64),
        });
    }
    let (d, ab) = linker.same(inst, ty.bits())?;
    Ok(match (part, ty) {
        (Part::High, Ty::U(16)) => map2(d, ab, |a: u16, b: u16| ((a as u32 * b as u32) >> 16) as u16),
        (Part::High, Ty::S(16)) => map2(d, ab, |a: i16, b: i16| ((a as i32 * b as i32) >> 16) as i16),
        (Part::High, Ty::U(32)) => map2(d, ab, |a: u32, b: u32| ((a as u64 * b as u64) >> 32) as u32),
        (Part::High, Ty::S(32)) => map2(d, ab, |a: i32, b: i32| ((a as i64 * b as i64) >> 32) as i32),
        (Part::High, Ty::U(64)) => map2(d, ab, |a: u64, b: u64| ((a as u128 * b as u128) >> 64) as u64),
        (Part::High, _) => map2(d, ab, |a: i64, b: i64| ((a as i128 * b as i128) >> 64) as i64),
        _ => with_int!(linker, ty, T => map2(d, ab, T::wrapping_mul)),
    })
}

fn multiply_add(linker: &mut Linker<'_>, inst: &Inst, ty: Ty, part: Part) -> Result<Step, PtxError> {
    linker.decoder.count(inst, 4)?;
    let bits = ty.bits();
    let sum = if let Part::Wide = part { 2 * bits } else { bits };
    if sum > 64 {
        return Err(linker.decoder.fail(format!(".wide of .{ty}")));
    }
    let [d, a, b, c] = [0, 1, 2, 3].map(|n| &inst.operands[n]);
    let d = linker.decoder.dst(d, sum)?;
    let abc = [linker.decoder.src(a, bits)?, linker.decoder.src(b, bits)?, linker.decoder.src(c, sum)?];
    Ok(match (part, ty) {
        (Part::Wide, Ty::U(16)) => {
            map3(d, abc, |a: u16, b: u16, c: u32| (a as u32 * b as u32).wrapping_add(c))
        }
        (Part::Wide, Ty::S(16)) => {
            map3(d, abc, |a: i16, b: i16, c: i32| (a as i32 * b as i32).wrapping_add(c))
        }
        (Part::Wide, Ty::U(32)) => {
            map3(d, abc, |a: u32, b: u32, c: u64| (a as u64 * b as u64).wrapping_add(c))
        }
        (Part::Wide, _) => map3(d, abc, |a: i32, b: i32, c: i64| (a as i64 * b as i64).wrapping_add(c)),
        (Part::High, Ty::U(16)) => {
            map3(d, abc, |a: u16, b: u16, c: u16| (((a as u32 * b as u32) >> 16) as u16).wrapping_add(c))
        }
        (Part::High, Ty::S(16)) => {
            map3(d, abc, |a: i16, b: i16, c: i16| (((a as i32 * b as i32) >> 16) as i16).wrapping_add(c))
        }
        (Part::High, Ty::U(32)) => {
            map3(d, abc, |a: u32, b: u32, c: u32| (((a as u64 * b as u64) >> 32) as u32).wrapping_add(c))
        }
        (Part::High, Ty::S(32)) => {
            map3(d, abc, |a: i32, b: i32, c: i32| (((a as i64 * b as i64) >> 32) as i32).wrapping_add(c))
        }
        (Part::High, Ty::U(64)) => {
            map3(d, abc, |a: u64, b: u64, c: u64| (((a as u128 * b as u128) >> 64) as u64).wrapping_add(c))
        }
        (Part::High, _) => {
            map3(d, abc, |a: i64, b: i64, c: i64| (((a as i128 * b as i128) >> 64) as i64).wrapping_add(c))
        }
        _ => with_int!(linker, ty, T => map3(d, abc, |a: T, b: T, c: T| a.wrapping_mul(b).wrapping_add(c))),
    })
}

/// The low 24 bits of a register, extended as its type says.
fn low24(ty: Ty, value: u32) -> i64 {
    if ty.is_signed() { ((value << 8) as i32 >> 8) as i64 } else { (value & 0xff_ffff) as i64 }
}

/// `.lo` keeps bits 31..0 of the 48-bit product, `.hi` bits 47..16.
fn product24(
    linker: &Linker<'_>,
    mods: &mut Mods<'_>,
    ty: Ty,
) -> Result<impl Fn(u32, u32) -> u32 + use<>, PtxError> {
    if !matches!(ty, Ty::U(32) | Ty::S(32)) {
        return Err(linker.decoder.fail(format!("it has no form for .{ty}")));
    }
    let shift = match part(linker, mods)? {
        Part::Low => 0,
        Part::High => 16,
        Part::Wide => return Err(linker.decoder.fail("unknown modifier `.wide`")),
    };
    Ok(move |a, b| ((low24(ty, a) * low24(ty, b)) >> shift) as u32)
}

fn mul24(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let product = product24(linker, mods, ty)?;
    let (d, ab) = linker.same(inst, 32)?;
    Ok(map2(d, ab, product))
}

fn mad24(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let product = product24(linker, mods, ty)?;
    let (d, abc) = linker.same(inst, 32)?;
    Ok(map3(d, abc, move |a: u32, b: u32, c: u32| product(a, b).wrapping_add(c)))
}

fn sad(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let (d, abc) = linker.same(inst, ty.bits())?;
    Ok(with_int!(linker, ty, T => map3(d, abc, |a: T, b: T, c: T| {
        let gap = if a < b { b.wrapping_sub(a) } else { a.wrapping_sub(b) };
        c.wrapping_add(gap)
    })))
}

/// Four products of bytes, added to the third operand.
fn dp4a(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let (a, b) = (linker.ty(mods)?, linker.ty(mods)?);
    if !matches!((a, b), (Ty::U(32) | Ty::S(32), Ty::U(32) | Ty::S(32))) {
        return Err(linker.decoder.fail(format!("it has no form for .{a}.{b}")));
    }
    let byte = |ty: Ty, word: u32, n: u32| {
        let byte = (word >> (8 * n)) as u8;
        if ty.is_signed() { byte as i8 as i32 } else { byte as i32 }
    };
    let (d, abc) = linker.same(inst, 32)?;
    Ok(map3(d, abc, move |x: u32, y: u32, z: u32| {
        (0..4).fold(z, |sum, n| sum.wrapping_add((byte(a, x, n) * byte(b, y, n)) as u32))
    }))
}
