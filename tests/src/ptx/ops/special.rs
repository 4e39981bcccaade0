//! Reciprocals, roots, and the functions whose bits PTX leaves open.

use super::super::code::Step;
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::numeric::{Round, canonical64, odd_quotient, odd_root, single};
use super::super::syntax::Inst;
use super::super::ty::Ty;
use super::float::Flags;
use super::{Table, map1, map2};

pub(super) const TABLE: Table = &[
    ("rcp", root_or_reciprocal),
    ("sqrt", root_or_reciprocal),
    ("rsqrt", approximate),
    ("ex2", approximate),
    ("lg2", approximate),
    ("sin", approximate),
    ("cos", approximate),
    ("tanh", approximate),
    ("copysign", copysign),
];

impl Linker<'_> {
    /// Remembers that the result of the current instruction has bits that PTX leaves open.
    pub(super) fn note_approximate(&mut self) {
        let entry = (self.decoder.line, self.decoder.opcode.clone());
        self.decoder.approximate.push(entry);
    }
}

/// `rcp` and `sqrt`, which have exact forms too.
fn root_or_reciprocal(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let root = inst.opcode.starts_with("sqrt");
    let ty = linker.ty(mods)?;
    let flags = Flags { ftz: mods.flag("ftz"), sat: false };
    let mode = if mods.flag("approx") { None } else { mods.pick(Round::from_suffix) };
    match (ty, mode) {
        (Ty::F32, Some(mode)) if mode != Round::NearestAway => {
            let (d, [a]) = linker.same(inst, 32)?;
            Ok(map1(d, a, move |x: f32| {
                let x = flags.input(x) as f64;
                flags.output(single(if root { odd_root(x) } else { odd_quotient(1.0, x) }, mode))
            }))
        }
        (Ty::F32, None) if inst.opcode.contains(".approx") => {
            linker.note_approximate();
            let (d, [a]) = linker.same(inst, 32)?;
            Ok(map1(d, a, move |x: f32| {
                let x = flags.input(x);
                flags.output(if root { x.sqrt() } else { x.recip() })
            }))
        }
        (Ty::F64, Some(Round::Nearest)) if !flags.ftz => {
            let (d, [a]) = linker.same(inst, 64)?;
            Ok(if root {
                map1(d, a, |x: f64| canonical64(x.sqrt(), [x]))
            } else {
                map1(d, a, |x: f64| canonical64(x.recip(), [x]))
            })
        }
        _ => Err(linker.decoder.fail(format!("it has no such form for .{ty}"))),
    }
}

/// The machine gives the value of the function in double precision, rounded to nearest. What the GPU gives
/// is within the bound that the PTX manual states for each.
fn approximate(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let name = inst.opcode.split('.').next().unwrap_or("");
    let ty = linker.ty(mods)?;
    let approx = mods.flag("approx");
    let flags = Flags { ftz: mods.flag("ftz"), sat: false };
    if ty != Ty::F32 || !approx {
        return Err(linker.decoder.fail(format!("it has no such form for .{ty}")));
    }
    let function: fn(f64) -> f64 = match name {
        "rsqrt" => |x| if x == 0.0 { f64::INFINITY.copysign(x) } else { x.sqrt().recip() },
        "ex2" => f64::exp2,
        "lg2" => f64::log2,
        "sin" => f64::sin,
        "cos" => f64::cos,
        _ => f64::tanh,
    };
    linker.note_approximate();
    let (d, [a]) = linker.same(inst, 32)?;
    Ok(map1(d, a, move |x: f32| flags.output(single(function(flags.input(x) as f64), Round::Nearest))))
}

/// The sign of the first operand on the magnitude of the second.
fn copysign(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let ty = linker.ty(mods)?;
    let sign: u64 = match ty {
        Ty::F32 => 1 << 31,
        Ty::F64 => 1 << 63,
        _ => return Err(linker.decoder.fail(format!("it has no form for .{ty}"))),
    };
    let (d, ab) = linker.same(inst, ty.bits())?;
    Ok(map2(d, ab, move |a: u64, b: u64| a & sign | b & !sign))
}
