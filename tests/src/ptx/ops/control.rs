//! Branches, calls, ends, barriers and fences.

use super::super::code::{Barrier, Call, Members, Reduce, Reduced, Step, Transfer};
use super::super::decode::Home;
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::syntax::{Inst, Operand};
use super::super::ty::Ty;
use super::Table;

pub(super) const TABLE: Table = &[
    ("bra", bra),
    ("brx", brx),
    ("call", call),
    ("ret", ret),
    ("exit", exit),
    ("trap", trap),
    ("bar", bar),
    ("barrier", bar),
    ("membar", fence),
    ("fence", fence),
    ("nanosleep", nanosleep),
];

fn bra(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    mods.flag("uni");
    linker.decoder.count(inst, 1)?;
    let Operand::Name(label) = &inst.operands[0] else {
        return Err(linker.decoder.fail("the target is no label"));
    };
    Ok(Step::Branch(linker.label(label)))
}

fn brx(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    if !mods.flag("idx") {
        return Err(linker.decoder.fail("no .idx"));
    }
    mods.flag("uni");
    linker.decoder.count(inst, 2)?;
    let index = linker.decoder.src(&inst.operands[0], 32)?;
    Ok(Step::Indexed(index, linker.branch_targets(&inst.operands[1])?))
}

/// The places of a call's list of `.param` variables.
fn places(linker: &Linker<'_>, operand: &Operand) -> Result<Vec<(u64, usize)>, PtxError> {
    let Operand::List(items) = operand else {
        return Err(linker.decoder.fail("a list in parentheses is needed"));
    };
    let mut out = Vec::new();
    for item in items {
        let home = match item {
            Operand::Name(name) => linker.decoder.home(name),
            _ => None,
        };
        let Some(Home::Local(at, bytes)) = home else {
            return Err(linker.decoder.fail("an argument that is no .param variable"));
        };
        out.push((at, bytes));
    }
    Ok(out)
}

fn transfers(
    linker: &Linker<'_>,
    from: &[(u64, usize)],
    to: &[(u64, usize)],
) -> Result<Vec<Transfer>, PtxError> {
    if from.len() != to.len() {
        return Err(linker.decoder.fail(format!("{} values where {} are needed", from.len(), to.len())));
    }
    let pairs = from.iter().zip(to);
    let sized = pairs.map(|(&(from, have), &(to, need))| {
        if have != need {
            return Err(linker.decoder.fail(format!("a value of {have} bytes where {need} are needed")));
        }
        Ok(Transfer { from, to, bytes: have })
    });
    sized.collect()
}

/// `call (results), function, (arguments)`, with the parts that the function has.
fn call(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    mods.flag("uni");
    let operands = &inst.operands[..];
    let (results, rest) = match operands {
        [list @ Operand::List(_), rest @ ..] => (places(linker, list)?, rest),
        rest => (Vec::new(), rest),
    };
    let (name, arguments) = match rest {
        [Operand::Name(name)] => (name, Vec::new()),
        [Operand::Name(name), list @ Operand::List(_)] => (name, places(linker, list)?),
        _ => return Err(linker.decoder.fail("only calls of a function by its name are supported")),
    };
    let function = linker.callee(name)?;
    linker.note_call(function);
    let callee = &linker.callees[function];
    let arguments = transfers(linker, &arguments, &callee.params)?;
    let results = transfers(linker, &callee.returns, &results)?;
    Ok(Step::Call(Call { function, arguments, results }))
}

fn ret(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    mods.flag("uni");
    linker.decoder.count(inst, 0)?;
    Ok(if linker.current == 0 { Step::Exit } else { Step::Return(linker.current) })
}

fn exit(linker: &mut Linker<'_>, inst: &Inst, _: &mut Mods<'_>) -> Result<Step, PtxError> {
    linker.decoder.count(inst, 0)?;
    Ok(Step::Exit)
}

fn trap(linker: &mut Linker<'_>, inst: &Inst, _: &mut Mods<'_>) -> Result<Step, PtxError> {
    linker.decoder.count(inst, 0)?;
    Ok(Step::Trap)
}

/// `bar.sync`, `bar.arrive`, `bar.red`, `bar.warp.sync` and the `barrier` forms.
fn bar(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let bar = inst.opcode.starts_with("bar.");
    if bar && mods.flag("warp") {
        if !mods.flag("sync") {
            return Err(linker.decoder.fail("only .sync is known after .warp"));
        }
        linker.decoder.count(inst, 1)?;
        return Ok(Step::WarpBarrier(Members::Named(linker.decoder.src(&inst.operands[0], 32)?)));
    }
    mods.flag("cta");
    let aligned = mods.flag("aligned") || bar;
    if mods.flag("red") {
        return reduce(linker, inst, mods, aligned);
    }
    let arrive = mods.flag("arrive");
    if !arrive && !mods.flag("sync") {
        return Err(linker.decoder.fail("none of .sync, .arrive and .red"));
    }
    let (id, count) = match &inst.operands[..] {
        [id] if !arrive => (linker.decoder.src(id, 32)?, None),
        [id, count] => (linker.decoder.src(id, 32)?, Some(linker.decoder.src(count, 32)?)),
        other => return Err(linker.decoder.fail(format!("{} operands", other.len()))),
    };
    Ok(Step::Barrier(Barrier { id, count, aligned, arrive, reduce: None }))
}

fn reduce(
    linker: &mut Linker<'_>,
    inst: &Inst,
    mods: &mut Mods<'_>,
    aligned: bool,
) -> Result<Step, PtxError> {
    let operation = mods.pick(|m| ["popc", "and", "or"].iter().position(|name| *name == m));
    let operation = operation.ok_or_else(|| linker.decoder.fail("none of .popc, .and and .or"))?;
    let wanted = if operation == 0 { Ty::U(32) } else { Ty::Pred };
    if linker.ty(mods)? != wanted {
        return Err(linker.decoder.fail(format!("the result must be .{wanted}")));
    }
    let (d, id, count, source) = match &inst.operands[..] {
        [d, id, p] => (d, id, None, p),
        [d, id, count, p] => (d, id, Some(linker.decoder.src(count, 32)?), p),
        other => return Err(linker.decoder.fail(format!("{} operands", other.len()))),
    };
    let source = linker.decoder.pred_src(source)?;
    let into = match (operation, d) {
        (0, d) => Reduced::Count(linker.decoder.dst(d, 32)?),
        (1, Operand::Name(p)) => Reduced::All(linker.decoder.pred_dst(p)?),
        (_, Operand::Name(p)) => Reduced::Any(linker.decoder.pred_dst(p)?),
        _ => return Err(linker.decoder.fail("the destination is no predicate")),
    };
    let id = linker.decoder.src(id, 32)?;
    Ok(Step::Barrier(Barrier { id, count, aligned, arrive: false, reduce: Some(Reduce { source, into }) }))
}

/// Fences order one thread's accesses. Within a block, barriers order threads in this machine, and
/// nothing orders blocks, so a fence by itself changes nothing here.
fn fence(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    linker.decoder.count(inst, 0)?;
    for known in ["sc", "acq_rel", "acquire", "release", "cta", "gpu", "sys", "gl", "cluster"] {
        mods.flag(known);
    }
    Ok(Step::Exec(Box::new(|_, _| Ok(()))))
}

fn nanosleep(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    if linker.ty(mods)? != Ty::U(32) {
        return Err(linker.decoder.fail("only .u32 has this form"));
    }
    linker.decoder.count(inst, 1)?;
    let time = linker.decoder.src(&inst.operands[0], 32)?;
    Ok(Step::Exec(Box::new(move |ctx, mask| ctx.regs.need(mask, time))))
}
