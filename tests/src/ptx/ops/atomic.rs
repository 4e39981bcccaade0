//! Atomic read-modify-write. Lanes take their turn in lane order; the GPU's order is open.

use super::super::code::{Ctx, Exec, Step};
use super::super::error::{Fault, Kind, Outcome, PtxError};
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::numeric::{canonical, canonical64, flush};
use super::super::race::How;
use super::super::regs::{Lane, Row, Slot, lanes};
use super::super::syntax::{Inst, Space};
use super::super::ty::Ty;
use super::memory::{addresses, by_space};
use super::{Table, half_float};

pub(super) const TABLE: Table = &[("atom", atomic), ("red", atomic)];

/// The new value from the old one and the operands.
type Change = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;

fn binary<T: Lane>(f: impl Fn(T, T) -> T + Send + Sync + 'static) -> Change {
    Box::new(move |old, b, _| f(T::of(old), T::of(b)).bits())
}

fn change(linker: &Linker<'_>, operation: &str, ty: Ty, space: Space) -> Result<Change, PtxError> {
    Ok(match (operation, ty) {
        ("add", Ty::U(32) | Ty::S(32)) => binary(u32::wrapping_add),
        ("add", Ty::U(64)) => binary(u64::wrapping_add),
        // Single additions in device memory flush subnormals; those in shared memory keep them.
        ("add", Ty::F32) if space == Space::Shared => binary(|a: f32, b: f32| canonical(a + b)),
        ("add", Ty::F32) => binary(|a: f32, b: f32| canonical(flush(flush(a) + flush(b)))),
        ("add", Ty::F64) => binary(|a: f64, b: f64| canonical64(a + b, [a, b])),
        ("add", Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2) => half_float::atomic_add(ty),
        ("min", Ty::U(32)) => binary(|a: u32, b: u32| a.min(b)),
        ("min", Ty::S(32)) => binary(|a: i32, b: i32| a.min(b)),
        ("min", Ty::U(64)) => binary(|a: u64, b: u64| a.min(b)),
        ("min", Ty::S(64)) => binary(|a: i64, b: i64| a.min(b)),
        ("max", Ty::U(32)) => binary(|a: u32, b: u32| a.max(b)),
        ("max", Ty::S(32)) => binary(|a: i32, b: i32| a.max(b)),
        ("max", Ty::U(64)) => binary(|a: u64, b: u64| a.max(b)),
        ("max", Ty::S(64)) => binary(|a: i64, b: i64| a.max(b)),
        ("and", Ty::B(32 | 64)) => binary(|a: u64, b: u64| a & b),
        ("or", Ty::B(32 | 64)) => binary(|a: u64, b: u64| a | b),
        ("xor", Ty::B(32 | 64)) => binary(|a: u64, b: u64| a ^ b),
        ("inc", Ty::U(32)) => binary(|a: u32, b: u32| if a >= b { 0 } else { a + 1 }),
        ("dec", Ty::U(32)) => binary(|a: u32, b: u32| if a == 0 || a > b { b } else { a - 1 }),
        ("exch", Ty::B(32 | 64)) => Box::new(|_, b, _| b),
        ("cas", Ty::B(16 | 32 | 64)) => Box::new(|old, b, c| if old == b { c } else { old }),
        _ => return Err(linker.decoder.fail(format!("no .{operation} of .{ty}"))),
    })
}

const OPERATIONS: [&str; 11] =
    ["add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas", "noftz"];

fn atomic(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    for known in ["relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"] {
        mods.flag(known);
    }
    let space = mods.pick(Space::from_suffix).unwrap_or(Space::Generic);
    let operation = mods.pick(|m| OPERATIONS.into_iter().find(|known| *known == m));
    let operation = operation.ok_or_else(|| linker.decoder.fail("no operation"))?;
    let ty = linker.ty(mods)?;
    let half = matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2);
    if half && !mods.flag("noftz") {
        return Err(linker.decoder.fail("no .noftz"));
    }
    let returns = inst.opcode.starts_with("atom");
    let inputs = if operation == "cas" { 2 } else { 1 };
    linker.decoder.count(inst, usize::from(returns) + 1 + inputs)?;
    let bits = ty.bits();
    let d = if returns { Some(linker.decoder.dst(&inst.operands[0], bits)?) } else { None };
    let rest = &inst.operands[usize::from(returns)..];
    let address = linker.decoder.address(&rest[0])?;
    let space = address.home.filter(|_| space == Space::Generic).unwrap_or(space);
    if !matches!(space, Space::Global | Space::Shared | Space::Generic) {
        return Err(linker.decoder.fail("only .global, .shared and generic addresses"));
    }
    let b = linker.decoder.src(&rest[1], bits)?;
    let c = if operation == "cas" { linker.decoder.src(&rest[2], bits)? } else { b };
    let width = ty.bytes();
    linker.decoder.accesses(space, width);
    // A generic address may turn out to be shared, where singles keep subnormals.
    let in_global = change(linker, operation, ty, Space::Global)?;
    let in_shared = change(linker, operation, ty, Space::Shared)?;
    let run: Exec = Box::new(move |ctx, mask| {
        let row = addresses(ctx, mask, &address)?;
        ctx.regs.need(mask, b)?;
        ctx.regs.need(mask, c)?;
        by_space(ctx, mask, space, &row, |ctx, mask, space, row| match space {
            Space::Shared => shared(ctx, mask, row, width, &in_shared, d, [b, c]),
            Space::Global | Space::Generic => global(ctx, mask, row, width, &in_global, d, [b, c]),
            _ => Err(Fault::new(
                Kind::Operand,
                mask.trailing_zeros(),
                "an atomic outside device and shared memory",
            )),
        })
    });
    Ok(Step::Exec(run))
}

fn uninitialised(lane: usize, place: String) -> Box<Fault> {
    Fault::at(Kind::Undefined, lane as u32, place, "an atomic operation on uninitialised bytes")
}

fn global(
    ctx: &mut Ctx<'_>,
    mask: u32,
    row: &Row,
    width: usize,
    change: &Change,
    d: Option<Slot>,
    [b, c]: [Slot; 2],
) -> Outcome {
    ctx.memory.aligned(mask, row, width)?;
    let who = ctx.who(How::Atomic);
    for lane in lanes(mask) {
        let (region, one) = ctx.memory.group(1 << lane, row, width)?;
        region.stamp_writes(one, row, width, who)?;
        let at = (row[lane] - region.base) as usize;
        if !region.initialised.all(at, width) {
            return Err(uninitialised(lane, ctx.memory.describe(row[lane])));
        }
        region.written.set(at, width);
        let (y, z) = (ctx.regs.row(b)[lane], ctx.regs.row(c)[lane]);
        let old = region.data.update(at, width, |old| change(old, y, z));
        if let Some(d) = d {
            ctx.regs.write(1 << lane, d, |_| old);
        }
    }
    Ok(())
}

fn shared(
    ctx: &mut Ctx<'_>,
    mask: u32,
    row: &Row,
    width: usize,
    change: &Change,
    d: Option<Slot>,
    [b, c]: [Slot; 2],
) -> Outcome {
    ctx.shared.check(mask, row, width)?;
    let who = ctx.who(How::Atomic);
    for lane in lanes(mask) {
        let at = row[lane];
        ctx.shared.stamp_write(lane, at, width, who)?;
        if ctx.shared.defined(at, width) != (1 << width) - 1 {
            return Err(uninitialised(lane, ctx.shared.describe(at)));
        }
        let old = ctx.shared.load(at, width);
        let (y, z) = (ctx.regs.row(b)[lane], ctx.regs.row(c)[lane]);
        ctx.shared.store(at, width, change(old, y, z));
        if let Some(d) = d {
            ctx.regs.write(1 << lane, d, |_| old);
        }
    }
    Ok(())
}
