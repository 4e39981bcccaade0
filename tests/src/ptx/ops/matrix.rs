//! `ldmatrix` and `stmatrix`: 8×8 matrices of 16-bit elements between shared memory and a warp.
//!
//! Lane 8·i + r names the 16 bytes of row r of matrix i. Lane l holds, of each matrix, the elements
//! (l / 4, 2·(l % 4)) and the next one in the row; with `.trans`, the same places of the transpose.

use super::super::code::{Exec, Members, Step};
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::memory_map::window;
use super::super::mods::Mods;
use super::super::operands::Address;
use super::super::race::How;
use super::super::regs::{LANES, Slot};
use super::super::syntax::{Inst, Operand, Space};
use super::super::ty::Ty;
use super::Table;
use super::memory::addresses;

pub(super) const TABLE: Table = &[("ldmatrix", load), ("stmatrix", store)];

/// The suffixes that both have.
fn suffixes(linker: &mut Linker<'_>, mods: &mut Mods<'_>) -> Result<(usize, bool, bool), PtxError> {
    for needed in ["sync", "aligned", "m8n8"] {
        if !mods.flag(needed) {
            return Err(linker.decoder.fail(format!("no .{needed}")));
        }
    }
    let count = mods.pick(|m| match m {
        "x1" => Some(1),
        "x2" => Some(2),
        "x4" => Some(4),
        _ => None,
    });
    let count = count.ok_or_else(|| linker.decoder.fail("none of .x1, .x2 and .x4"))?;
    let transposed = mods.flag("trans");
    let generic = match mods.pick(Space::from_suffix) {
        Some(Space::Shared) => false,
        None => true,
        Some(_) => return Err(linker.decoder.fail("only shared memory has this form")),
    };
    if linker.ty(mods)? != Ty::B(16) {
        return Err(linker.decoder.fail("only .b16 has this form"));
    }
    linker.decoder.accesses(Space::Shared, 16);
    Ok((count, transposed, generic))
}

fn registers<'a>(linker: &Linker<'_>, operand: &'a Operand, count: usize) -> Result<&'a [Operand], PtxError> {
    match operand {
        Operand::Vector(items) if items.len() == count => Ok(items),
        _ => Err(linker.decoder.fail(format!("{count} registers in braces are needed"))),
    }
}

/// The place of a lane's element `n` (0 or 1) in a matrix: (row, column).
fn place(lane: usize, n: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, 2 * (lane % 4) + n);
    if transposed { (column, row) } else { (row, column) }
}

/// The lanes whose addresses count.
fn naming(count: usize) -> u32 {
    (u32::MAX as u64 >> (LANES - 8 * count)) as u32
}

fn own_address(address: &Address, generic: bool) -> (Address, u64) {
    let named = address.home == Some(Space::Shared);
    (address.clone(), if generic && !named { window(Space::Shared) } else { 0 })
}

fn load(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let (count, transposed, generic) = suffixes(linker, mods)?;
    linker.decoder.count(inst, 2)?;
    let mut slots = Vec::new();
    for operand in registers(linker, &inst.operands[0], count)? {
        slots.push(linker.decoder.dst(operand, 32)?);
    }
    let address = linker.decoder.address(&inst.operands[1])?;
    let (address, base) = own_address(&address, generic);
    let run: Exec = Box::new(move |ctx, _| {
        let naming = naming(slots.len());
        let mut rows = addresses(ctx, naming, &address)?;
        for at in &mut rows {
            *at = at.wrapping_sub(base);
        }
        ctx.shared.check(naming, &rows, 16)?;
        let who = ctx.who(How::Plain);
        ctx.shared.stamp_reads(naming, &rows, 16, who)?;
        for (matrix, &slot) in slots.iter().enumerate() {
            for lane in 0..LANES {
                if !transposed {
                    // The two elements lie side by side.
                    let (row, column) = place(lane, 0, false);
                    let at = rows[8 * matrix + row] + 2 * column as u64;
                    let set = 0xf0 | ctx.shared.defined(at, 4);
                    ctx.regs.write_partly(slot, lane, ctx.shared.load(at, 4), set as u8);
                    continue;
                }
                let mut value = 0;
                let mut set = 0xf0;
                for n in 0..2 {
                    let (row, column) = place(lane, n, true);
                    let at = rows[8 * matrix + row] + 2 * column as u64;
                    value |= ctx.shared.load(at, 2) << (16 * n);
                    set |= ctx.shared.defined(at, 2) << (2 * n);
                }
                ctx.regs.write_partly(slot, lane, value, set as u8);
            }
        }
        Ok(())
    });
    Ok(Step::Sync(Members::Full, run))
}

fn store(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let (count, transposed, generic) = suffixes(linker, mods)?;
    linker.decoder.count(inst, 2)?;
    let address = linker.decoder.address(&inst.operands[0])?;
    let (address, base) = own_address(&address, generic);
    let mut slots: Vec<Slot> = Vec::new();
    for operand in registers(linker, &inst.operands[1], count)? {
        slots.push(linker.decoder.src(operand, 32)?);
    }
    let run: Exec = Box::new(move |ctx, _| {
        let naming = naming(slots.len());
        let mut rows = addresses(ctx, naming, &address)?;
        for at in &mut rows {
            *at = at.wrapping_sub(base);
        }
        ctx.shared.check(naming, &rows, 16)?;
        let who = ctx.who(How::Plain);
        ctx.shared.stamp_writes(naming, &rows, 16, who)?;
        for (matrix, &slot) in slots.iter().enumerate() {
            for lane in 0..LANES {
                let value = ctx.regs.row(slot)[lane];
                let set = ctx.regs.bytes_defined(slot, lane) as u64;
                for n in 0..2 {
                    let (row, column) = place(lane, n, transposed);
                    let at = rows[8 * matrix + row] + 2 * column as u64;
                    ctx.shared.store(at, 2, value >> (16 * n) & 0xffff);
                    ctx.shared.set_defined(at, 2, set >> (2 * n) & 3);
                }
            }
        }
        Ok(())
    });
    Ok(Step::Sync(Members::Full, run))
}
