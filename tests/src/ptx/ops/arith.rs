//! Names that integers and floats share: the type decides the family.

use super::super::code::Step;
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::syntax::Inst;
use super::super::ty::Ty;
use super::{Table, carry, float, half_float, int};

pub(super) const TABLE: Table = &[
    ("add", arith),
    ("sub", arith),
    ("mul", arith),
    ("mad", arith),
    ("fma", arith),
    ("div", arith),
    ("neg", arith),
    ("abs", arith),
    ("min", arith),
    ("max", arith),
];

fn arith(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let name = inst.opcode.split('.').next().unwrap_or("");
    match linker.ty(mods)? {
        Ty::F32 => float::single(linker, inst, mods, name),
        Ty::F64 => float::double(linker, inst, mods, name),
        ty @ (Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2) => half_float::arith(linker, inst, mods, name, ty),
        ty if mods.has("cc") && matches!(name, "add" | "sub" | "mad") => {
            carry::with_carry(linker, inst, mods, name, ty)
        }
        ty => int::arith(linker, inst, mods, name, ty),
    }
}
