//! Comparisons and what chooses by them.

use super::super::code::{Ctx, Step};
use super::super::error::{Fault, PtxError};
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::numeric::flush;
use super::super::regs::{LANES, Lane, Row, Slot};
use super::super::syntax::{Inst, Operand};
use super::super::ty::Ty;
use super::Table;
use super::half_float::format;
use super::moves::select;

pub(super) const TABLE: Table = &[("setp", setp), ("set", set), ("slct", slct), ("testp", testp)];

/// A comparison: which of less, equal, greater and unordered make it true, as bits 0 to 3.
#[derive(Clone, Copy)]
struct Test(u8);

const LESS: u8 = 1;
const EQUAL: u8 = 2;
const GREATER: u8 = 4;
const UNORDERED: u8 = 8;

fn test(suffix: &str, ty: Ty) -> Option<Test> {
    let float = !ty.is_integer();
    let base = |name: &str| {
        Some(match name {
            "eq" => EQUAL,
            "ne" => LESS | GREATER,
            "lt" => LESS,
            "le" => LESS | EQUAL,
            "gt" => GREATER,
            "ge" => GREATER | EQUAL,
            _ => return None,
        })
    };
    let set = match suffix {
        "lo" | "ls" | "hi" | "hs" if matches!(ty, Ty::U(_)) => match suffix {
            "lo" => LESS,
            "ls" => LESS | EQUAL,
            "hi" => GREATER,
            _ => GREATER | EQUAL,
        },
        "num" if float => LESS | EQUAL | GREATER,
        "nan" if float => UNORDERED,
        _ => match suffix.strip_suffix('u').filter(|_| float) {
            Some(stem) => base(stem)? | UNORDERED,
            None => base(suffix)?,
        },
    };
    if matches!(ty, Ty::B(_)) && !matches!(suffix, "eq" | "ne") {
        return None;
    }
    Some(Test(set))
}

/// Compares two rows; a bit a lane.
type Comparison = Box<dyn Fn(&Row, &Row) -> u32 + Send + Sync>;

fn ordering<T: Lane + PartialOrd>(test: Test, view: impl Fn(u64) -> T + Send + Sync + 'static) -> Comparison {
    fn rows<T: PartialOrd>(a: &Row, b: &Row, view: impl Fn(u64) -> T, f: impl Fn(&T, &T) -> bool) -> u32 {
        let mut out = 0;
        for lane in 0..LANES {
            out |= u32::from(f(&view(a[lane]), &view(b[lane]))) << lane;
        }
        out
    }
    // The common tests have a loop of their own, without a branch on the test inside.
    match test.0 {
        LESS => Box::new(move |a, b| rows(a, b, &view, |x, y| x < y)),
        EQUAL => Box::new(move |a, b| rows(a, b, &view, |x, y| x == y)),
        GREATER => Box::new(move |a, b| rows(a, b, &view, |x, y| x > y)),
        3 => Box::new(move |a, b| rows(a, b, &view, |x, y| x <= y)),
        6 => Box::new(move |a, b| rows(a, b, &view, |x, y| x >= y)),
        set => Box::new(move |a, b| {
            rows(a, b, &view, |x, y| {
                let relation = match x.partial_cmp(y) {
                    Some(std::cmp::Ordering::Less) => LESS,
                    Some(std::cmp::Ordering::Equal) => EQUAL,
                    Some(std::cmp::Ordering::Greater) => GREATER,
                    None => UNORDERED,
                };
                set & relation != 0
            })
        }),
    }
}

fn comparison(linker: &Linker<'_>, test: Test, ty: Ty, ftz: bool) -> Result<Comparison, PtxError> {
    Ok(match ty {
        Ty::B(16) | Ty::U(16) => ordering(test, u16::of),
        Ty::B(32) | Ty::U(32) => ordering(test, u32::of),
        Ty::B(64) | Ty::U(64) => ordering(test, u64::of),
        Ty::S(16) => ordering(test, i16::of),
        Ty::S(32) => ordering(test, i32::of),
        Ty::S(64) => ordering(test, i64::of),
        Ty::F32 if ftz => ordering(test, |bits| flush(f32::of(bits))),
        Ty::F32 => ordering(test, f32::of),
        Ty::F64 => ordering(test, f64::of),
        Ty::F16 | Ty::Bf16 => {
            let (format, _) = format(ty);
            ordering(test, move |bits| {
                let bits = bits as u32;
                if format.is_nan(bits) { f64::NAN } else { format.value(bits) }
            })
        }
        other => return Err(linker.decoder.fail(format!("it has no form for .{other}"))),
    })
}

/// How a comparison's result is joined with a further predicate.
type Join = fn(u32, u32) -> u32;

/// A decoded comparison with its operands.
struct Compare {
    run: Comparison,
    ab: [Slot; 2],
    join: Option<(Join, super::super::regs::Pred)>,
}

impl Compare {
    /// The result, and that of the negated comparison, both joined.
    fn evaluate(&self, ctx: &Ctx<'_>, mask: u32) -> Result<[u32; 2], Box<Fault>> {
        for slot in self.ab {
            ctx.regs.need(mask, slot)?;
        }
        let holds = (self.run)(ctx.regs.row(self.ab[0]), ctx.regs.row(self.ab[1]));
        match self.join {
            None => Ok([holds, !holds]),
            Some((join, with)) => {
                let with = ctx.regs.pred(mask, with)?;
                Ok([join(holds, with), join(!holds, with)])
            }
        }
    }
}

/// Reads the test, the join, and the operands from the second on. `source` is the type compared.
fn compare(
    linker: &mut Linker<'_>,
    inst: &Inst,
    mods: &mut Mods<'_>,
    source: Ty,
) -> Result<Compare, PtxError> {
    let test = mods.pick(|m| test(m, source));
    let test = test.ok_or_else(|| linker.decoder.fail(format!("no comparison that .{source} has")))?;
    let join: Option<Join> = mods.pick(|m| {
        Some(match m {
            "and" => (|a, b| a & b) as Join,
            "or" => |a, b| a | b,
            "xor" => |a, b| a ^ b,
            _ => return None,
        })
    });
    let ftz = source == Ty::F32 && mods.flag("ftz");
    linker.decoder.count(inst, if join.is_some() { 4 } else { 3 })?;
    let run = comparison(linker, test, source, ftz)?;
    let a = linker.decoder.src(&inst.operands[1], source.bits())?;
    let b = linker.decoder.src(&inst.operands[2], source.bits())?;
    let join = match join {
        Some(join) => Some((join, linker.decoder.pred_src(&inst.operands[3])?)),
        None => None,
    };
    Ok(Compare { run, ab: [a, b], join })
}

fn setp(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let compare = compare(linker, inst, mods, ty)?;
    let (holds, fails) = match &inst.operands[0] {
        Operand::Name(p) => (linker.decoder.pred_dst(p)?, None),
        Operand::Pair(p, q) => (linker.decoder.pred_dst(p)?, Some(linker.decoder.pred_dst(q)?)),
        _ => return Err(linker.decoder.fail("the destination is no predicate")),
    };
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        let [p, q] = compare.evaluate(ctx, mask)?;
        ctx.regs.set_pred(mask, holds, p);
        if let Some(fails) = fails {
            ctx.regs.set_pred(mask, fails, q);
        }
        Ok(())
    })))
}

/// `set`: a comparison's result as all ones or 1.0.
fn set(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let (to, from) = (linker.ty(mods)?, linker.ty(mods)?);
    let yes: u64 = match to {
        Ty::U(32) | Ty::S(32) | Ty::B(32) => u32::MAX as u64,
        Ty::F32 => 1.0_f32.to_bits() as u64,
        _ => return Err(linker.decoder.fail(format!("it has no form for .{to}"))),
    };
    let compare = compare(linker, inst, mods, from)?;
    let d = linker.decoder.dst(&inst.operands[0], 32)?;
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        let [p, _] = compare.evaluate(ctx, mask)?;
        ctx.regs.write(mask, d, |lane| if p >> lane & 1 == 1 { yes } else { 0 });
        Ok(())
    })))
}

/// `slct`: the first operand where the third is not negative, else the second.
fn slct(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let (ty, by) = (linker.ty(mods)?, linker.ty(mods)?);
    let ftz = by == Ty::F32 && mods.flag("ftz");
    if !matches!(by, Ty::S(32) | Ty::F32) {
        return Err(linker.decoder.fail(format!("it cannot choose by .{by}")));
    }
    linker.decoder.count(inst, 4)?;
    let d = linker.decoder.dst(&inst.operands[0], ty.bits())?;
    let a = linker.decoder.src(&inst.operands[1], ty.bits())?;
    let b = linker.decoder.src(&inst.operands[2], ty.bits())?;
    let c = linker.decoder.src(&inst.operands[3], 32)?;
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        ctx.regs.need(mask, c)?;
        let mut chosen = 0;
        for (lane, &bits) in ctx.regs.row(c).iter().enumerate() {
            let value = f32::of(bits);
            let value = if ftz { flush(value) } else { value };
            let first = if by == Ty::F32 { value >= 0.0 } else { i32::of(bits) >= 0 };
            chosen |= u32::from(first) << lane;
        }
        select(ctx, mask, chosen, d, [a, b]);
        Ok(())
    })))
}

/// `testp`: what kind of float a value is.
fn testp(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    type Property = fn(f64, bool) -> bool;
    let property = mods.pick(|m| {
        Some(match m {
            "finite" => (|x, _| x.is_finite()) as Property,
            "infinite" => |x: f64, _| x.is_infinite(),
            "number" => |x: f64, _| !x.is_nan(),
            "notanumber" => |x: f64, _| x.is_nan(),
            // On the GPU a zero is normal.
            "normal" => |x: f64, subnormal: bool| x.is_finite() && !subnormal,
            "subnormal" => |_, subnormal| subnormal,
            _ => return None,
        })
    });
    let property = property.ok_or_else(|| linker.decoder.fail("no property"))?;
    let ty = linker.ty(mods)?;
    if !matches!(ty, Ty::F32 | Ty::F64) {
        return Err(linker.decoder.fail(format!("it has no form for .{ty}")));
    }
    linker.decoder.count(inst, 2)?;
    let Operand::Name(p) = &inst.operands[0] else {
        return Err(linker.decoder.fail("the destination is no predicate"));
    };
    let p = linker.decoder.pred_dst(p)?;
    let a = linker.decoder.src(&inst.operands[1], ty.bits())?;
    Ok(Step::Exec(Box::new(move |ctx, mask| {
        ctx.regs.need(mask, a)?;
        let mut holds = 0;
        for (lane, &bits) in ctx.regs.row(a).iter().enumerate() {
            let (value, subnormal) = match ty {
                Ty::F32 => (f32::of(bits) as f64, f32::of(bits).is_subnormal()),
                _ => (f64::of(bits), f64::of(bits).is_subnormal()),
            };
            holds |= u32::from(property(value, subnormal)) << lane;
        }
        ctx.regs.set_pred(mask, p, holds);
        Ok(())
    })))
}
