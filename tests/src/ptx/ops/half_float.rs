//! Arithmetic on f16 and bf16, alone and in pairs. Every result is rounded once, to nearest.

use super::super::code::Step;
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::numeric::{BF16, F16, Format, NAN_16, Round, odd_sum, saturate};
use super::super::regs::Slot;
use super::super::syntax::Inst;
use super::super::ty::Ty;
use super::float::{maximum, minimum};
use super::{map1, map2, map3};

/// The format of the elements, and whether a register holds two.
pub(super) fn format(ty: Ty) -> (Format, bool) {
    match ty {
        Ty::F16 => (F16, false),
        Ty::F16x2 => (F16, true),
        Ty::Bf16 => (BF16, false),
        _ => (BF16, true),
    }
}

/// The suffixes of 16-bit float arithmetic.
#[derive(Clone, Copy)]
struct Style {
    format: Format,
    pair: bool,
    ftz: bool,
    sat: bool,
    relu: bool,
}

impl Style {
    fn input(self, bits: u16) -> f64 {
        let bits = bits as u32;
        if self.format.is_nan(bits) {
            return f64::NAN;
        }
        let value = self.format.value(bits);
        let smallest = self.format.value(1 << self.format.mantissa);
        if self.ftz && value.abs() < smallest { 0.0_f64.copysign(value) } else { value }
    }

    fn output(self, value: f64) -> u16 {
        let value = if self.sat { saturate(value) } else { value };
        if value.is_nan() {
            return NAN_16;
        }
        let value = if self.relu { maximum(value, 0.0, true) } else { value };
        let bits = self.format.round(value, Round::Nearest);
        let subnormal =
            bits << 17 != 0 && bits & ((1 << self.format.exponent) - 1) << self.format.mantissa == 0;
        (if self.ftz && subnormal { bits & 0x8000 } else { bits }) as u16
    }

    fn step1(self, d: Slot, a: Slot, f: impl Fn(u16) -> u16 + Send + Sync + 'static) -> Step {
        if self.pair {
            map1(d, a, move |x: u32| f(x as u16) as u32 | (f((x >> 16) as u16) as u32) << 16)
        } else {
            map1(d, a, f)
        }
    }

    fn step2(self, d: Slot, ab: [Slot; 2], f: impl Fn(f64, f64) -> f64 + Send + Sync + 'static) -> Step {
        let f = move |a, b| self.output(f(self.input(a), self.input(b)));
        if self.pair {
            map2(d, ab, move |x: u32, y: u32| {
                f(x as u16, y as u16) as u32 | (f((x >> 16) as u16, (y >> 16) as u16) as u32) << 16
            })
        } else {
            map2(d, ab, f)
        }
    }

    fn step3(
        self,
        d: Slot,
        abc: [Slot; 3],
        f: impl Fn(f64, f64, f64) -> f64 + Send + Sync + 'static,
    ) -> Step {
        let f = move |a, b, c| self.output(f(self.input(a), self.input(b), self.input(c)));
        if self.pair {
            map3(d, abc, move |x: u32, y: u32, z: u32| {
                let high = f((x >> 16) as u16, (y >> 16) as u16, (z >> 16) as u16);
                f(x as u16, y as u16, z as u16) as u32 | (high as u32) << 16
            })
        } else {
            map3(d, abc, f)
        }
    }
}

/// `add`, `sub`, `mul`, `fma`, `neg`, `abs`, `min`, `max`.
pub(super) fn arith(
    linker: &mut Linker<'_>,
    inst: &Inst,
    mods: &mut Mods<'_>,
    name: &str,
    ty: Ty,
) -> Result<Step, PtxError> {
    let (format, pair) = format(ty);
    let arithmetic = matches!(name, "add" | "sub" | "mul" | "fma");
    let style = Style {
        format,
        pair,
        ftz: mods.flag("ftz"),
        sat: arithmetic && mods.flag("sat"),
        relu: name == "fma" && mods.flag("relu"),
    };
    if arithmetic && !mods.flag("rn") && name == "fma" {
        return Err(linker.decoder.fail("no rounding modifier"));
    }
    let bits = ty.bits();
    match name {
        "neg" | "abs" => {
            let (d, [a]) = linker.same(inst, bits)?;
            let negate = name == "neg";
            Ok(style.step1(d, a, move |x| {
                if style.format.is_nan(x as u32) {
                    return NAN_16;
                }
                let flat = style.ftz && style.input(x) == 0.0;
                let x = if flat { x & 0x8000 } else { x };
                if negate { x ^ 0x8000 } else { x & 0x7fff }
            }))
        }
        "fma" => {
            let (d, abc) = linker.same(inst, bits)?;
            // A product of two 11-bit mantissas is exact in a double; the sum is rounded to odd there, so
            // that the one rounding left is the true one.
            Ok(style.step3(d, abc, |a, b, c| odd_sum(a * b, c)))
        }
        "add" | "sub" | "mul" => {
            let (d, ab) = linker.same(inst, bits)?;
            Ok(match name {
                "add" => style.step2(d, ab, odd_sum),
                "sub" => style.step2(d, ab, |a, b| odd_sum(a, -b)),
                _ => style.step2(d, ab, |a, b| a * b),
            })
        }
        "min" | "max" => {
            let propagate = mods.flag("NaN");
            let (d, ab) = linker.same(inst, bits)?;
            Ok(if name == "min" {
                style.step2(d, ab, move |a, b| minimum(a, b, propagate))
            } else {
                style.step2(d, ab, move |a, b| maximum(a, b, propagate))
            })
        }
        _ => Err(linker.decoder.fail(format!("it has no form for .{ty}"))),
    }
}

/// Addition for atomics, which keep subnormals.
pub(super) fn atomic_add(ty: Ty) -> Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync> {
    let (format, pair) = format(ty);
    let style = Style { format, pair, ftz: false, sat: false, relu: false };
    let add = move |a: u16, b: u16| style.output(odd_sum(style.input(a), style.input(b))) as u64;
    Box::new(move |old, b, _| {
        let low = add(old as u16, b as u16);
        if pair { low | add((old >> 16) as u16, (b >> 16) as u16) << 16 } else { low }
    })
}
