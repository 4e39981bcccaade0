//! Integer arithmetic with a carry flag, from which wider integers are built.

use super::super::code::{Exec, Step};
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::regs::{Pred, PredSlot, Slot};
use super::super::syntax::Inst;
use super::super::ty::Ty;
use super::Table;

pub(super) const TABLE: Table = &[("addc", extended), ("subc", extended), ("madc", extended)];

/// What goes into the adder besides the carry.
#[derive(Clone, Copy)]
enum Terms {
    Sum([Slot; 2]),
    Difference([Slot; 2]),
    /// The low or the high half of a product, and a term.
    Product([Slot; 3], bool),
}

/// `add.cc`, `sub.cc`, `mad.cc`, `addc`, `subc` and `madc`; `ty` has been taken from the suffixes.
pub(super) fn with_carry(
    linker: &mut Linker<'_>,
    inst: &Inst,
    mods: &mut Mods<'_>,
    name: &str,
    ty: Ty,
) -> Result<Step, PtxError> {
    let bits = ty.bits();
    if !matches!(ty, Ty::U(32 | 64) | Ty::S(32 | 64)) {
        return Err(linker.decoder.fail(format!("it has no form for .{ty}")));
    }
    let reads = name.ends_with('c');
    let writes = mods.flag("cc");
    let (d, terms) = if name.starts_with("mad") {
        let high = mods.flag("hi");
        if !high && !mods.flag("lo") {
            return Err(linker.decoder.fail("neither .lo nor .hi"));
        }
        let (d, abc) = linker.same(inst, bits)?;
        (d, Terms::Product(abc, high))
    } else {
        let (d, ab) = linker.same(inst, bits)?;
        (d, if name.starts_with("sub") { Terms::Difference(ab) } else { Terms::Sum(ab) })
    };
    let flag = linker.decoder.carry();
    let run: Exec = Box::new(move |ctx, mask| {
        let slots = match &terms {
            Terms::Sum(ab) | Terms::Difference(ab) => &ab[..],
            Terms::Product(abc, _) => &abc[..],
        };
        for &slot in slots {
            ctx.regs.need(mask, slot)?;
        }
        let carry = if reads { ctx.regs.pred(mask, Pred { slot: flag, negated: false })? } else { 0 };
        let (mut out, mut carried) = ([0; 32], 0);
        for (lane, out) in out.iter_mut().enumerate() {
            let at = |slot: Slot| ctx.regs.row(slot)[lane] as u128;
            let carry = (carry >> lane & 1) as u128;
            // The flag holds the borrow of a difference, which leaves the wide result's upper bits set.
            let wide = match terms {
                Terms::Sum([a, b]) => at(a) + at(b) + carry,
                Terms::Difference([a, b]) => at(a).wrapping_sub(at(b)).wrapping_sub(carry),
                Terms::Product([a, b, c], high) => part(at(a), at(b), ty, high) + at(c) + carry,
            };
            *out = (wide & ((1 << bits) - 1)) as u64;
            carried |= ((wide >> bits & 1) as u32) << lane;
        }
        ctx.regs.write(mask, d, |lane| out[lane]);
        if writes {
            ctx.regs.set_pred(mask, flag, carried);
        }
        Ok(())
    });
    Ok(Step::Exec(run))
}

/// The low or high half of a product, as bits.
fn part(a: u128, b: u128, ty: Ty, high: bool) -> u128 {
    let bits = ty.bits();
    let extend =
        |x: u128| if ty.is_signed() { (x as i128) << (128 - bits) >> (128 - bits) } else { x as i128 };
    let product = extend(a).wrapping_mul(extend(b)) as u128;
    (if high { product >> bits } else { product }) & ((1 << bits) - 1)
}

fn extended(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let name = inst.opcode.split('.').next().unwrap_or("");
    let ty = linker.ty(mods)?;
    with_carry(linker, inst, mods, name, ty)
}

impl super::super::decode::Decoder<'_> {
    /// The carry flag, as a predicate that no name reaches.
    fn carry(&mut self) -> PredSlot {
        const NAME: &str = "the carry flag";
        let known = self.pred_names.iter().position(|name| name == NAME);
        PredSlot(known.unwrap_or_else(|| {
            self.pred_names.push(NAME.to_owned());
            self.pred_names.len() - 1
        }) as u32)
    }
}
