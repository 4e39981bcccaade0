//! The instructions, a family in each file: how each is decoded, and what it does to a warp's lanes.
//!
//! To add an instruction, add its name and its decoder to a family's table. The decoder consumes the
//! suffixes it knows (what is left over is an error), asks for its operands with their widths, and returns
//! the effect as a closure over slots.

mod arith;
mod async_copy;
mod atomic;
mod bits;
mod carry;
mod compare;
mod control;
mod convert;
mod float;
mod half_float;
mod int;
mod matrix;
mod memory;
mod mma;
mod moves;
mod special;
mod warp;

use super::code::Step;
use super::error::PtxError;
use super::link::Linker;
use super::mods::Mods;
use super::regs::{Lane, Slot};
use super::syntax::Inst;

/// Decodes one instruction.
pub(crate) type Decode = fn(&mut Linker<'_>, &Inst, &mut Mods<'_>) -> Result<Step, PtxError>;

/// Names and decoders of one family.
pub(crate) type Table = &'static [(&'static str, Decode)];

const TABLES: &[Table] = &[
    arith::TABLE,
    async_copy::TABLE,
    atomic::TABLE,
    bits::TABLE,
    carry::TABLE,
    compare::TABLE,
    control::TABLE,
    convert::TABLE,
    int::TABLE,
    matrix::TABLE,
    memory::TABLE,
    mma::TABLE,
    moves::TABLE,
    special::TABLE,
    warp::TABLE,
];

/// The decoder of an instruction by its name without suffixes.
pub(crate) fn find(name: &str) -> Option<Decode> {
    TABLES.iter().flat_map(|table| table.iter()).find(|(known, _)| *known == name).map(|(_, decode)| *decode)
}

/// `d = f(a)` in every active lane; an undefined operand is a fault.
pub(crate) fn map1<A: Lane, D: Lane>(d: Slot, a: Slot, f: impl Fn(A) -> D + Send + Sync + 'static) -> Step {
    Step::Exec(Box::new(move |ctx, mask| {
        ctx.regs.need(mask, a)?;
        let x = *ctx.regs.row(a);
        ctx.regs.write(mask, d, |lane| f(A::of(x[lane])).bits());
        Ok(())
    }))
}

/// `d = f(a, b)`.
pub(crate) fn map2<A: Lane, B: Lane, D: Lane>(
    d: Slot,
    [a, b]: [Slot; 2],
    f: impl Fn(A, B) -> D + Send + Sync + 'static,
) -> Step {
    Step::Exec(Box::new(move |ctx, mask| {
        ctx.regs.need(mask, a)?;
        ctx.regs.need(mask, b)?;
        let (x, y) = (*ctx.regs.row(a), *ctx.regs.row(b));
        ctx.regs.write(mask, d, |lane| f(A::of(x[lane]), B::of(y[lane])).bits());
        Ok(())
    }))
}

/// `d = f(a, b, c)`.
pub(crate) fn map3<A: Lane, B: Lane, C: Lane, D: Lane>(
    d: Slot,
    [a, b, c]: [Slot; 3],
    f: impl Fn(A, B, C) -> D + Send + Sync + 'static,
) -> Step {
    Step::Exec(Box::new(move |ctx, mask| {
        for slot in [a, b, c] {
            ctx.regs.need(mask, slot)?;
        }
        let (x, y, z) = (*ctx.regs.row(a), *ctx.regs.row(b), *ctx.regs.row(c));
        ctx.regs.write(mask, d, |lane| f(A::of(x[lane]), B::of(y[lane]), C::of(z[lane])).bits());
        Ok(())
    }))
}

/// Runs `$body` with `$T` as the Rust integer of a PTX integer type of 16, 32 or 64 bits.
macro_rules! with_int {
    ($linker:expr, $ty:expr, $T:ident => $body:expr) => {
        match $ty {
            Ty::U(16) | Ty::B(16) => {
                type $T = u16;
                $body
            }
            Ty::U(32) | Ty::B(32) => {
                type $T = u32;
                $body
            }
            Ty::U(64) | Ty::B(64) => {
                type $T = u64;
                $body
            }
            Ty::S(16) => {
                type $T = i16;
                $body
            }
            Ty::S(32) => {
                type $T = i32;
                $body
            }
            Ty::S(64) => {
                type $T = i64;
                $body
            }
            other => return Err($linker.decoder.fail(format!("it has no form for .{other}"))),
        }
    };
}
pub(crate) use with_int;

impl Linker<'_> {
    /// The destination and the sources of an instruction whose operands all have `bits` bits.
    pub(crate) fn same<const N: usize>(
        &mut self,
        inst: &Inst,
        bits: u32,
    ) -> Result<(Slot, [Slot; N]), PtxError> {
        self.decoder.count(inst, N + 1)?;
        let d = self.decoder.dst(&inst.operands[0], bits)?;
        let mut sources = [Slot(0); N];
        for (slot, operand) in sources.iter_mut().zip(&inst.operands[1..]) {
            *slot = self.decoder.src(operand, bits)?;
        }
        Ok((d, sources))
    }

    /// The instruction's type, which must be there.
    pub(crate) fn ty(&self, mods: &mut Mods<'_>) -> Result<super::ty::Ty, PtxError> {
        mods.ty().ok_or_else(|| self.decoder.fail("no type"))
    }
}
