//! Arithmetic on singles and doubles.
//!
//! Singles keep subnormals unless `.ftz` is there, and every NaN that arithmetic gives, changes of sign
//! included, is [`NAN_F32`](super::super::numeric::NAN_F32). Doubles pass a NaN on, made quiet and with its sign:
//! that of the second operand before that of the third before that of the first, but a division's dividend
//! before its divisor.

use super::super::code::Step;
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::numeric::{
    Round, canonical, canonical64, flush, odd_quotient, odd_sum, saturate, single as rounded,
};
use super::super::regs::{LANES, Row, Slot};
use super::super::syntax::Inst;
use super::{map1, map2, map3};

/// `.ftz` and `.sat` of a single.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Flags {
    pub(super) ftz: bool,
    pub(super) sat: bool,
}

impl Flags {
    pub(super) fn take(mods: &mut Mods<'_>) -> Self {
        Self { ftz: mods.flag("ftz"), sat: mods.flag("sat") }
    }

    pub(super) fn none(self) -> bool {
        !self.ftz && !self.sat
    }

    pub(super) fn input(self, value: f32) -> f32 {
        if self.ftz { flush(value) } else { value }
    }

    pub(super) fn output(self, value: f32) -> f32 {
        let value = self.input(value);
        if self.sat { saturate(value as f64) as f32 } else { canonical(value) }
    }
}

fn rounding(linker: &Linker<'_>, mods: &mut Mods<'_>, wanted: bool) -> Result<Round, PtxError> {
    match mods.pick(Round::from_suffix) {
        Some(Round::NearestAway) => Err(linker.decoder.fail("unknown modifier `.rna`")),
        Some(mode) => Ok(mode),
        None if wanted => Err(linker.decoder.fail("no rounding modifier")),
        None => Ok(Round::Nearest),
    }
}

/// `max` of two singles or doubles: the other operand where one is NaN, and −0 below +0.
pub(super) fn maximum(a: f64, b: f64, propagate: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        if propagate || (a.is_nan() && b.is_nan()) {
            return f64::NAN;
        }
        return if a.is_nan() { b } else { a };
    }
    if a == b {
        return if a.is_sign_negative() { b } else { a };
    }
    if a > b { a } else { b }
}

/// `min`, by the same rules.
pub(super) fn minimum(a: f64, b: f64, propagate: bool) -> f64 {
    -maximum(-a, -b, propagate)
}

/// Arithmetic on singles.
pub(super) fn single(
    linker: &mut Linker<'_>,
    inst: &Inst,
    mods: &mut Mods<'_>,
    name: &str,
) -> Result<Step, PtxError> {
    let flags = Flags::take(mods);
    match name {
        "neg" | "abs" => {
            let (d, [a]) = linker.same(inst, 32)?;
            let negate = name == "neg";
            return Ok(map1(d, a, move |x: f32| {
                let x = flags.input(x);
                canonical(if negate { -x } else { x.abs() })
            }));
        }
        "min" | "max" => {
            let propagate = mods.flag("NaN");
            let (d, ab) = linker.same(inst, 32)?;
            let choose = if name == "min" { minimum } else { maximum };
            return Ok(map2(d, ab, move |a: f32, b: f32| {
                let (a, b) = (flags.input(a), flags.input(b));
                canonical(choose(a as f64, b as f64, propagate) as f32)
            }));
        }
        "fma" | "mad" => {
            let mode = rounding(linker, mods, true)?;
            let (d, abc) = linker.same(inst, 32)?;
            if mode == Round::Nearest && flags.none() {
                return Ok(fused(d, abc));
            }
            return Ok(map3(d, abc, move |a: f32, b: f32, c: f32| {
                let [a, b, c] = [a, b, c].map(|x| flags.input(x) as f64);
                flags.output(directed_sum(a * b, c, mode))
            }));
        }
        "div" => return divide(linker, inst, mods, flags),
        _ => {}
    }
    let mode = rounding(linker, mods, false)?;
    let (d, ab) = linker.same(inst, 32)?;
    if mode == Round::Nearest && flags.none() {
        return Ok(match name {
            "add" => map2(d, ab, |a: f32, b: f32| canonical(a + b)),
            "sub" => map2(d, ab, |a: f32, b: f32| canonical(a - b)),
            _ => map2(d, ab, |a: f32, b: f32| canonical(a * b)),
        });
    }
    let (sign, product) = (if name == "sub" { -1.0 } else { 1.0 }, name == "mul");
    Ok(map2(d, ab, move |a: f32, b: f32| {
        let (a, b) = (flags.input(a) as f64, flags.input(b) as f64 * sign);
        if product {
            return flags.output(rounded(a * b, mode));
        }
        flags.output(directed_sum(a, b, mode))
    }))
}

/// `a + b`, rounded once. Terms that cancel give −0 when rounding down.
fn directed_sum(a: f64, b: f64, mode: Round) -> f32 {
    let value = odd_sum(a, b);
    let cancelled = value == 0.0 && mode == Round::Down && a.is_sign_negative() != b.is_sign_negative();
    if cancelled { -0.0 } else { rounded(value, mode) }
}

/// `a · b + c` of singles, rounded once, a row at a time where the host has the instruction.
fn fused(d: Slot, abc: [Slot; 3]) -> Step {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") {
        return Step::Exec(Box::new(move |ctx, mask| {
            for slot in abc {
                ctx.regs.need(mask, slot)?;
            }
            let mut out = [0; LANES];
            let [a, b, c] = abc.map(|slot| ctx.regs.row(slot));
            // SAFETY: the feature was detected just above.
            unsafe { fused_row(a, b, c, &mut out) };
            ctx.regs.write(mask, d, |lane| out[lane]);
            Ok(())
        }));
    }
    map3(d, abc, |a: f32, b: f32, c: f32| canonical(a.mul_add(b, c)))
}

/// # Safety
/// The host must have the `fma` feature.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "fma")]
unsafe fn fused_row(a: &Row, b: &Row, c: &Row, out: &mut Row) {
    for lane in 0..LANES {
        let [x, y, z] = [a, b, c].map(|row| f32::from_bits(row[lane] as u32));
        out[lane] = canonical(x.mul_add(y, z)).to_bits() as u64;
    }
}

fn divide(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>, flags: Flags) -> Result<Step, PtxError> {
    // The fast forms are within two units of the last place; the machine gives the nearest value.
    if mods.flag("approx") || mods.flag("full") {
        linker.note_approximate();
        let (d, ab) = linker.same(inst, 32)?;
        return Ok(map2(d, ab, move |a: f32, b: f32| flags.output(flags.input(a) / flags.input(b))));
    }
    let mode = rounding(linker, mods, true)?;
    let (d, ab) = linker.same(inst, 32)?;
    if mode == Round::Nearest && flags.none() {
        return Ok(map2(d, ab, |a: f32, b: f32| canonical(a / b)));
    }
    Ok(map2(d, ab, move |a: f32, b: f32| {
        let value = odd_quotient(flags.input(a) as f64, flags.input(b) as f64);
        flags.output(rounded(value, mode))
    }))
}

/// Arithmetic on doubles, rounded to nearest.
pub(super) fn double(
    linker: &mut Linker<'_>,
    inst: &Inst,
    mods: &mut Mods<'_>,
    name: &str,
) -> Result<Step, PtxError> {
    match name {
        "neg" | "abs" => {
            let (d, [a]) = linker.same(inst, 64)?;
            let negate = name == "neg";
            return Ok(map1(d, a, move |x: f64| canonical64(if negate { -x } else { x.abs() }, [x])));
        }
        "min" | "max" => {
            let (d, ab) = linker.same(inst, 64)?;
            let choose = if name == "min" { minimum } else { maximum };
            return Ok(map2(d, ab, move |a: f64, b: f64| canonical64(choose(a, b, false), [b, a])));
        }
        _ => {}
    }
    let needs_mode = matches!(name, "fma" | "mad" | "div");
    if rounding(linker, mods, needs_mode)? != Round::Nearest {
        return Err(linker.decoder.fail("doubles are rounded to nearest only"));
    }
    if matches!(name, "fma" | "mad") {
        let (d, abc) = linker.same(inst, 64)?;
        return Ok(map3(d, abc, |a: f64, b: f64, c: f64| canonical64(a.mul_add(b, c), [b, c, a])));
    }
    let (d, ab) = linker.same(inst, 64)?;
    Ok(match name {
        "add" => map2(d, ab, |a: f64, b: f64| canonical64(a + b, [b, a])),
        "sub" => map2(d, ab, |a: f64, b: f64| canonical64(a - b, [b, a])),
        "mul" => map2(d, ab, |a: f64, b: f64| canonical64(a * b, [b, a])),
        _ => map2(d, ab, |a: f64, b: f64| canonical64(a / b, [a, b])),
    })
}
