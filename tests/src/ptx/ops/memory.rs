//! Loads and stores in every space.

use super::super::code::{Ctx, Exec, Image, Step};
use super::super::error::{Fault, Kind, Outcome, PtxError};
use super::super::link::Linker;
use super::super::memory_map::{space_of, window};
use super::super::mods::Mods;
use super::super::operands::Address;
use super::super::race::How;
use super::super::regs::{Row, Slot, lanes};
use super::super::syntax::{Inst, Operand, Space};
use super::super::ty::Ty;
use super::Table;

pub(super) const TABLE: Table = &[("ld", load), ("ldu", load), ("st", store), ("prefetch", prefetch)];

/// A decoded access: where, and how wide.
pub(super) struct Access {
    pub(super) address: Address,
    pub(super) space: Space,
    /// Bytes of one element.
    pub(super) element: usize,
    pub(super) count: usize,
    pub(super) how: How,
}

impl Access {
    pub(super) fn width(&self) -> usize {
        self.element * self.count
    }
}

/// The addresses of all lanes.
pub(super) fn addresses(ctx: &Ctx<'_>, mask: u32, address: &Address) -> Result<Row, Box<Fault>> {
    ctx.regs.need(mask, address.base)?;
    let mut row = *ctx.regs.row(address.base);
    for value in &mut row {
        *value = value.wrapping_add_signed(address.offset);
        if address.narrow {
            *value &= 0xffff_ffff;
        }
    }
    Ok(row)
}

/// Runs `body` once for each space that the lanes' generic addresses lie in, with the space's own addresses.
pub(super) fn by_space(
    ctx: &mut Ctx<'_>,
    mask: u32,
    space: Space,
    row: &Row,
    mut body: impl FnMut(&mut Ctx<'_>, u32, Space, &Row) -> Outcome,
) -> Outcome {
    if space != Space::Generic {
        return body(ctx, mask, space, row);
    }
    let mut rest = mask;
    while rest != 0 {
        let space = space_of(row[rest.trailing_zeros() as usize]);
        let here = lanes(rest).filter(|&lane| space_of(row[lane]) == space).fold(0, |m, lane| m | 1 << lane);
        let base = window(space);
        let own: Row = std::array::from_fn(|lane| row[lane].wrapping_sub(base));
        body(ctx, here, space, &own)?;
        rest &= !here;
    }
    Ok(())
}

/// The suffixes of a load or store, and the space that its address lies in.
fn access(linker: &mut Linker<'_>, address: &Operand, mods: &mut Mods<'_>) -> Result<(Access, Ty), PtxError> {
    let address = linker.decoder.address(address)?;
    let space = mods.pick(Space::from_suffix).unwrap_or(Space::Generic);
    let strong = ["volatile", "relaxed", "acquire", "release", "mmio"].iter().any(|m| mods.flag(m));
    for scope in ["cta", "cluster", "gpu", "sys", "weak"] {
        mods.flag(scope);
    }
    let how = match (mods.flag("nc"), strong) {
        (true, false) => How::NonCoherent,
        (true, true) => return Err(linker.decoder.fail("a strong access through the non-coherent cache")),
        (false, true) => How::Atomic,
        (false, false) => How::Plain,
    };
    // Hints about caches change nothing that a kernel can see.
    while mods
        .pick(|m| {
            let hint = m.starts_with("L1::") || m.starts_with("L2::") || m.starts_with("level::");
            (hint || matches!(m, "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt")).then_some(())
        })
        .is_some()
    {}
    let count = mods.pick(|m| match m {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    });
    let ty = linker.ty(mods)?;
    let element = ty.bytes();
    let count = count.unwrap_or(1);
    if ty == Ty::Pred || element > 8 || element * count > 32 {
        return Err(linker.decoder.fail(format!("{count} elements of .{ty}")));
    }
    // A variable's own space is more than the instruction says: a formal parameter of a function is local.
    let space = match (space, address.home) {
        (Space::Param, Some(Space::Local)) => Space::Local,
        (Space::Generic, Some(home)) => home,
        (space, Some(home)) if space != home => {
            return Err(linker.decoder.fail("the variable lies in another space"));
        }
        (space, _) => space,
    };
    if address.narrow && matches!(space, Space::Global | Space::Generic) {
        return Err(linker.decoder.fail("a 32-bit register as a 64-bit address"));
    }
    linker.decoder.accesses(space, element * count);
    Ok((Access { address, space, element, count, how }, ty))
}

/// The register operands of an access.
fn elements<'a>(
    linker: &Linker<'_>,
    operand: &'a Operand,
    count: usize,
) -> Result<Vec<&'a Operand>, PtxError> {
    let found: Vec<&Operand> = match operand {
        Operand::Vector(items) => items.iter().collect(),
        single => vec![single],
    };
    if found.len() == count {
        return Ok(found);
    }
    Err(linker.decoder.fail(format!("{} registers for {count} elements", found.len())))
}

fn load(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    linker.decoder.count(inst, 2)?;
    let (access, ty) = access(linker, &inst.operands[1], mods)?;
    let mut slots = Vec::new();
    for operand in elements(linker, &inst.operands[0], access.count)? {
        slots.push(linker.decoder.wide_dst(operand, ty.bits())?);
    }
    let room = linker.decoder.width_of(elements(linker, &inst.operands[0], access.count)?[0]).unwrap_or(64);
    let sign = ty.is_signed().then_some((64 - ty.bits(), 64 - room));
    let run: Exec = Box::new(move |ctx, mask| {
        let row = addresses(ctx, mask, &access.address)?;
        by_space(ctx, mask, access.space, &row, |ctx, mask, space, row| {
            load_lanes(ctx, mask, space, row, &access, &slots)
        })?;
        // Signed values fill a wider register with their sign.
        if let Some((up, down)) = sign {
            for slot in &slots {
                for lane in lanes(mask) {
                    let value = &mut ctx.regs.rows[slot.0 as usize][lane];
                    *value = ((*value << up) as i64 >> up) as u64 & (u64::MAX >> down);
                }
            }
        }
        Ok(())
    });
    Ok(Step::Exec(run))
}

/// Definedness of an element's register from that of its bytes: what lies above is zero.
fn filled(bytes: u64, element: usize) -> u8 {
    (bytes & ((1 << element) - 1)) as u8 | (0xff_u32 << element) as u8
}

fn load_lanes(
    ctx: &mut Ctx<'_>,
    mask: u32,
    space: Space,
    row: &Row,
    access: &Access,
    slots: &[Slot],
) -> Outcome {
    let (width, element) = (access.width(), access.element);
    match space {
        Space::Global | Space::Generic => {
            let who = ctx.who(access.how);
            ctx.memory.aligned(mask, row, width)?;
            let mut rest = mask;
            while rest != 0 {
                let (region, group) = ctx.memory.group(rest, row, width)?;
                rest &= !group;
                region.stamp_reads(group, row, width, who)?;
                let defined = region.defined(group, row, width);
                for (n, &slot) in slots.iter().enumerate() {
                    let at = |lane: usize| (row[lane] - region.base) as usize + n * element;
                    ctx.regs.write(defined, slot, |lane| region.data.load(at(lane), element));
                    for lane in lanes(group & !defined) {
                        let set = filled(region.initialised.get(at(lane), element), element);
                        ctx.regs.write_partly(slot, lane, region.data.load(at(lane), element), set);
                    }
                }
            }
        }
        Space::Shared => {
            ctx.shared.check(mask, row, width)?;
            let who = ctx.who(access.how);
            ctx.shared.stamp_reads(mask, row, width, who)?;
            let defined = ctx.shared.all_defined(mask, row, width);
            for (n, &slot) in slots.iter().enumerate() {
                let at = |lane: usize| row[lane] + (n * element) as u64;
                ctx.regs.write(defined, slot, |lane| ctx.shared.load(at(lane), element));
                for lane in lanes(mask & !defined) {
                    let set = filled(ctx.shared.defined(at(lane), element), element);
                    ctx.regs.write_partly(slot, lane, ctx.shared.load(at(lane), element), set);
                }
            }
        }
        Space::Local => {
            ctx.local.check(mask, row, width)?;
            for (n, &slot) in slots.iter().enumerate() {
                for lane in lanes(mask) {
                    let (value, set) = ctx.local.load(lane, row[lane] + (n * element) as u64, element);
                    ctx.regs.write_partly(slot, lane, value, filled(set, element));
                }
            }
        }
        Space::Const | Space::Param => {
            let (image, name) =
                if space == Space::Const { (ctx.consts, "constant") } else { (ctx.params, "parameter") };
            load_image(ctx, mask, image, name, row, access, slots)?;
        }
    }
    Ok(())
}

fn load_image(
    ctx: &mut Ctx<'_>,
    mask: u32,
    image: &Image,
    name: &str,
    row: &Row,
    access: &Access,
    slots: &[Slot],
) -> Outcome {
    let width = access.width();
    let first = row[mask.trailing_zeros() as usize];
    let uniform = lanes(mask).all(|lane| row[lane] == first);
    for lane in lanes(if uniform { mask & mask.wrapping_neg() } else { mask }) {
        let at = row[lane];
        if !image.holds(at, width) {
            let what = format!("access of {width} bytes outside every {name}");
            return Err(Fault::at(Kind::OutOfBounds, lane as u32, format!("{name} offset {at}"), what));
        }
        if at & (width as u64 - 1) != 0 {
            let what = format!("access of {width} bytes at {name} offset {at}, which is misaligned");
            return Err(Fault::at(Kind::Misaligned, lane as u32, format!("{name} offset {at}"), what));
        }
    }
    for (n, &slot) in slots.iter().enumerate() {
        let value = |lane: usize| {
            let at = row[lane] as usize + n * access.element;
            let mut bytes = [0; 8];
            bytes[..access.element].copy_from_slice(&image.data[at..at + access.element]);
            u64::from_le_bytes(bytes)
        };
        if uniform {
            let value = value(mask.trailing_zeros() as usize);
            ctx.regs.write(mask, slot, |_| value);
        } else {
            ctx.regs.write(mask, slot, value);
        }
    }
    Ok(())
}

fn store(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    linker.decoder.count(inst, 2)?;
    let (access, ty) = access(linker, &inst.operands[0], mods)?;
    if matches!(access.space, Space::Const | Space::Param) {
        return Err(linker.decoder.fail("a store to read-only memory"));
    }
    let mut slots = Vec::new();
    for operand in elements(linker, &inst.operands[1], access.count)? {
        slots.push(linker.decoder.wide_src(operand, ty.bits())?);
    }
    let run: Exec = Box::new(move |ctx, mask| {
        let row = addresses(ctx, mask, &access.address)?;
        by_space(ctx, mask, access.space, &row, |ctx, mask, space, row| {
            store_lanes(ctx, mask, space, row, &access, &slots)
        })
    });
    Ok(Step::Exec(run))
}

fn store_lanes(
    ctx: &mut Ctx<'_>,
    mask: u32,
    space: Space,
    row: &Row,
    access: &Access,
    slots: &[Slot],
) -> Outcome {
    let (width, element) = (access.width(), access.element);
    match space {
        Space::Global | Space::Generic => {
            let who = ctx.who(access.how);
            ctx.memory.aligned(mask, row, width)?;
            let mut rest = mask;
            while rest != 0 {
                let (region, group) = ctx.memory.group(rest, row, width)?;
                rest &= !group;
                region.stamp_writes(group, row, width, who)?;
                region.mark(group, row, width);
                for (n, &slot) in slots.iter().enumerate() {
                    let value = ctx.regs.row(slot);
                    let at = |lane: usize| (row[lane] - region.base) as usize + n * element;
                    for lane in lanes(group) {
                        region.data.store(at(lane), element, value[lane]);
                    }
                    for lane in lanes(group & !ctx.regs.defined[slot.0 as usize]) {
                        let set = ctx.regs.bytes_defined(slot, lane) as u64;
                        region.initialised.put(at(lane), element, set);
                        note_undefined(ctx, region, lane, row[lane]);
                    }
                }
            }
        }
        Space::Shared => {
            ctx.shared.check(mask, row, width)?;
            let who = ctx.who(access.how);
            ctx.shared.stamp_writes(mask, row, width, who)?;
            for lane in lanes(mask) {
                ctx.shared.set_defined(row[lane], width, u64::MAX);
            }
            for (n, &slot) in slots.iter().enumerate() {
                let value = ctx.regs.row(slot);
                let at = |lane: usize| row[lane] + (n * element) as u64;
                for lane in lanes(mask) {
                    ctx.shared.store(at(lane), element, value[lane]);
                }
                for lane in lanes(mask & !ctx.regs.defined[slot.0 as usize]) {
                    let set = ctx.regs.bytes_defined(slot, lane);
                    ctx.shared.set_defined(at(lane), element, set as u64);
                }
            }
        }
        Space::Local => {
            ctx.local.check(mask, row, width)?;
            for (n, &slot) in slots.iter().enumerate() {
                for lane in lanes(mask) {
                    let set = ctx.regs.bytes_defined(slot, lane);
                    let at = row[lane] + (n * element) as u64;
                    ctx.local.store(lane, at, element, ctx.regs.row(slot)[lane], set as u64);
                }
            }
        }
        Space::Const | Space::Param => {
            let what = "writes to read-only memory";
            return Err(Fault::new(Kind::ReadOnly, mask.trailing_zeros(), what));
        }
    }
    Ok(())
}

/// Remembers the first store of an undefined value, so that a later complaint can name it.
fn note_undefined(ctx: &Ctx<'_>, region: &super::super::memory::Region, lane: usize, address: u64) {
    if let Ok(mut note) = region.undefined_store.lock()
        && note.is_none()
    {
        let (line, block, thread) = (ctx.line, ctx.block - 1, ctx.first_thread as usize + lane);
        let offset = address - region.start;
        *note = Some(format!(
            "line {line} stored an undefined value at offset {offset} (block {block}, thread {thread})"
        ));
    }
}

fn prefetch(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    linker.decoder.count(inst, 1)?;
    let space = mods.pick(Space::from_suffix).unwrap_or(Space::Generic);
    if !matches!(space, Space::Global | Space::Generic) || !(mods.flag("L1") || mods.flag("L2")) {
        return Err(linker.decoder.fail("only .global and generic addresses to .L1 or .L2"));
    }
    let address = linker.decoder.address(&inst.operands[0])?;
    Ok(Step::Exec(Box::new(move |ctx, mask| ctx.regs.need(mask, address.base))))
}
