//! `cvt`: between every pair of scalar types, with each rounding.

use super::super::code::Step;
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::numeric::{
    BF16, F16, F32, Format, NAN_16, NAN_F32, NAN_F64, Round, TF32, integral, saturate,
};
use super::super::regs::lanes;
use super::super::syntax::Inst;
use super::super::ty::Ty;
use super::{Table, map1, map2};

pub(super) const TABLE: Table = &[("cvt", cvt)];

/// The suffixes of a conversion.
#[derive(Clone, Copy)]
struct Style {
    /// Rounding to a float.
    round: Option<Round>,
    /// Rounding to an integral value.
    integral: Option<Round>,
    ftz: bool,
    sat: bool,
    relu: bool,
}

fn narrow(ty: Ty) -> Option<Format> {
    Some(match ty {
        Ty::F16 | Ty::F16x2 => F16,
        Ty::Bf16 | Ty::Bf16x2 => BF16,
        Ty::Tf32 => TF32,
        Ty::F32 => F32,
        _ => return None,
    })
}

fn cvt(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let (to, from) = (linker.ty(mods)?, linker.ty(mods)?);
    let style = Style {
        integral: mods.pick(Round::from_integral_suffix),
        round: mods.pick(Round::from_suffix),
        ftz: mods.flag("ftz"),
        sat: mods.flag("sat"),
        relu: mods.flag("relu"),
    };
    check(linker, to, from, style)?;
    let plain = !style.ftz && !style.sat && !style.relu && style.round == Some(Round::Nearest);
    if let (Ty::F16x2 | Ty::Bf16x2, true) = (to, plain) {
        let (d, ab) = linker.same(inst, 32)?;
        let half = if to == Ty::F16x2 { single_to_half } else { single_to_brain };
        return Ok(map2(d, ab, move |a: f32, b: f32| (half(a) as u32) << 16 | half(b) as u32));
    }
    if let Ty::F16x2 | Ty::Bf16x2 = to {
        linker.decoder.count(inst, 3)?;
        let d = linker.decoder.dst(&inst.operands[0], 32)?;
        let ab = [linker.decoder.src(&inst.operands[1], 32)?, linker.decoder.src(&inst.operands[2], 32)?];
        // The first source goes to the upper half.
        return Ok(map2(d, ab, move |a: u32, b: u32| {
            let half = |x: u32| to_float(read(Ty::F32, x as u64, style), to, style) as u32;
            half(a) << 16 | half(b)
        }));
    }
    linker.decoder.count(inst, 2)?;
    let d = linker.decoder.wide_dst(&inst.operands[0], to.bits())?;
    let a = linker.decoder.wide_src(&inst.operands[1], from.bits())?;
    // A destination register that is wider than the type is extended as the type says.
    let room = linker.decoder.width_of(&inst.operands[0]).unwrap_or(64);
    if to.is_integer() && from.is_integer() {
        if style.sat {
            return Ok(map1(d, a, move |x: u64| extend(to, clamp(to, integer(from, x)), room)));
        }
        return Ok(resize(d, a, to, from, room));
    }
    Ok(match (to, from) {
        (Ty::F16, Ty::F32) if plain => map1(d, a, single_to_half),
        (Ty::Bf16, Ty::F32) if plain => map1(d, a, single_to_brain),
        (Ty::F32, Ty::F16) if !style.sat && !style.ftz => map1(d, a, |x: u16| {
            let x = half::f16::from_bits(x);
            if x.is_nan() { NAN_F32 } else { x.to_f32().to_bits() }
        }),
        _ if to.is_integer() => map1(d, a, move |x: u64| {
            let value = read(from, x, style);
            extend(to, to_integer(value, to, from, style), room)
        }),
        _ if from.is_integer() => map1(d, a, move |x: u64| from_integer(integer(from, x), to, style)),
        (Ty::F32, Ty::Bf16) if !style.sat && !style.ftz => map1(d, a, |x: u16| (x as u32) << 16),
        _ => map1(d, a, move |x: u64| {
            let value = read(from, x, style);
            if value.is_nan() && !style.sat { nan(x, to, from, style) } else { to_float(value, to, style) }
        }),
    })
}

/// Rounded to nearest, as most conversions are.
fn single_to_half(x: f32) -> u16 {
    if x.is_nan() { NAN_16 } else { half::f16::from_f32(x).to_bits() }
}

fn single_to_brain(x: f32) -> u16 {
    if x.is_nan() { NAN_16 } else { half::bf16::from_f32(x).to_bits() }
}

/// What PTX asks of the suffixes for these types.
fn check(linker: &Linker<'_>, to: Ty, from: Ty, style: Style) -> Result<(), PtxError> {
    let fail = |what: &str| Err(linker.decoder.fail(format!("{what} in a conversion to .{to} from .{from}")));
    let float = |ty: Ty| matches!(ty, Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::F64);
    let int = |ty: Ty| matches!(ty, Ty::U(_) | Ty::S(_));
    let pair = matches!(to, Ty::F16x2 | Ty::Bf16x2);
    if !(int(from) || float(from)) || !(int(to) || float(to) || pair || to == Ty::Tf32) {
        return fail("unsupported type");
    }
    if (pair || to == Ty::Tf32) && from != Ty::F32 {
        return fail("unsupported type");
    }
    let narrows = to == Ty::Tf32 || pair || (to.bits(), from.bits()) == (16, 16) || to.bits() < from.bits();
    let rounds = style.round.is_some();
    match (int(to), int(from)) {
        (true, true) if rounds || style.integral.is_some() => fail("a rounding modifier"),
        (true, false) if style.integral.is_none() => fail("no rounding to an integer"),
        (true, false) if rounds => fail("two rounding modifiers"),
        (false, true) if !rounds => fail("no rounding modifier"),
        (false, true) if style.integral.is_some() => fail("two rounding modifiers"),
        (false, false) if narrows && to != from && !rounds => fail("no rounding modifier"),
        (false, false) if !narrows && rounds => fail("a rounding modifier"),
        (false, false) if style.integral.is_some() && to != from => fail("a rounding to an integer"),
        _ if style.round == Some(Round::NearestAway) && to != Ty::Tf32 => fail("unknown modifier `.rna`"),
        _ if style.relu && !(pair || matches!(to, Ty::F16 | Ty::Bf16 | Ty::Tf32)) => {
            fail("unknown modifier `.relu`")
        }
        _ if style.sat && !int(to) && to != Ty::F32 && to != Ty::F16 && to != Ty::F64 => {
            fail("unknown modifier `.sat`")
        }
        _ if style.ftz && to != Ty::F32 && from != Ty::F32 => fail("unknown modifier `.ftz`"),
        _ => Ok(()),
    }
}

/// An integer register's value.
fn integer(ty: Ty, bits: u64) -> i128 {
    let shift = 64 - ty.bits();
    if ty.is_signed() { ((bits << shift) as i64 >> shift) as i128 } else { (bits << shift >> shift) as i128 }
}

/// The value of a float register; NaN for every NaN.
fn read(ty: Ty, bits: u64, style: Style) -> f64 {
    match narrow(ty) {
        None => f64::from_bits(bits),
        Some(format) => {
            let bits = if ty.bits() == 16 { bits as u32 & 0xffff } else { bits as u32 };
            if format.is_nan(bits) {
                return f64::NAN;
            }
            let value = format.value(bits);
            let subnormal = ty == Ty::F32 && value.abs() < f32::MIN_POSITIVE as f64;
            if style.ftz && subnormal { 0.0_f64.copysign(value) } else { value }
        }
    }
}

/// Clamps a value to an integer type's range; the result has the type's width.
fn clamp(ty: Ty, value: i128) -> u64 {
    let bits = ty.bits();
    let (low, high) =
        if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    (value.clamp(low, high) as u64) << (64 - bits) >> (64 - bits)
}

/// Extends a value of an integer type to `room` bits.
fn extend(ty: Ty, value: u64, room: u32) -> u64 {
    let wide = integer(ty, value) as u64;
    if room >= 64 { wide } else { wide & ((1 << room) - 1) }
}

/// Integer to integer: bytes are copied, defined or not.
fn resize(d: super::super::regs::Slot, a: super::super::regs::Slot, to: Ty, from: Ty, room: u32) -> Step {
    let whole = move |x: u64| extend(to, integer(from, x) as u64, room);
    Step::Exec(Box::new(move |ctx, mask| {
        let x = *ctx.regs.row(a);
        let defined = ctx.regs.defined[a.0 as usize];
        ctx.regs.write(mask & defined, d, |lane| whole(x[lane]));
        for lane in lanes(mask & !defined) {
            let set = ctx.regs.bytes_defined(a, lane);
            // The bytes above the narrower type are known only with its top byte, which holds the sign.
            let kept = (to.bits().min(from.bits()) / 8) as u8;
            let low = ((1_u32 << kept) - 1) as u8;
            let sign_known = !(to.is_signed() || from.is_signed()) || set >> (kept - 1) & 1 == 1;
            let set = if sign_known { set & low | !low } else { set & low };
            ctx.regs.write_partly(d, lane, whole(x[lane]), set);
        }
        Ok(())
    }))
}

fn to_integer(value: f64, to: Ty, from: Ty, style: Style) -> u64 {
    if value.is_nan() {
        let wide = from == Ty::F64 || to.bits() == 64;
        return if wide { 1 << (to.bits() - 1) } else { 0 };
    }
    let rounded = integral(value, style.integral.unwrap_or(Round::Zero));
    clamp(to, rounded as i128)
}

/// What a conversion between floats makes of a NaN. Those from and to doubles keep its sign and the upper bits of
/// its payload, and make it quiet; two others copy bits; the rest give the NaN of arithmetic.
fn nan(bits: u64, to: Ty, from: Ty, style: Style) -> u64 {
    match (to, from) {
        (Ty::Tf32, _) => bits & 0xffff_e000,
        (Ty::F32, Ty::Bf16) => bits << 16 & 0xffff_ffff,
        _ if to != Ty::F64 && from != Ty::F64 => canonical_nan(to),
        _ => {
            // A flush is an operation on singles that comes first.
            let flushed = style.ftz && from == Ty::F32;
            let bits = if flushed { canonical_nan(from) } else { bits };
            let stored = |ty: Ty| narrow(ty).map_or(52, |format| format.mantissa);
            let payload = bits << (64 - stored(from)) >> (64 - stored(to));
            let negative = bits >> (from.bits() - 1) & 1;
            // All bits of the exponent, and the highest of the mantissa.
            let quiet = ((2 << (to.bits() - 1 - stored(to))) - 1) << (stored(to) - 1);
            negative << (to.bits() - 1) | quiet | payload
        }
    }
}

/// The NaN that arithmetic gives.
fn canonical_nan(ty: Ty) -> u64 {
    match ty {
        Ty::F64 => NAN_F64,
        Ty::F32 | Ty::Tf32 => NAN_F32 as u64,
        _ => NAN_16 as u64,
    }
}

/// A float's bits from an exact value.
fn to_float(value: f64, to: Ty, style: Style) -> u64 {
    if value.is_nan() {
        return if style.sat { 0 } else { canonical_nan(to) };
    }
    let value = style.integral.map_or(value, |mode| integral(value, mode));
    let value = if style.sat { saturate(value) } else { value };
    let value = if style.relu && value <= 0.0 { 0.0 } else { value };
    let mode = style.round.unwrap_or(Round::Nearest);
    match narrow(to) {
        None => value.to_bits(),
        // A tf32 has the exponent of a single and stands in its upper bits.
        Some(format) if to == Ty::Tf32 => (format.round(value, mode) << 13) as u64,
        Some(format) => {
            let bits = format.round(value, mode);
            let flushes = style.ftz && to == Ty::F32 && bits & 0x7f80_0000 == 0;
            (if flushes { bits & 0x8000_0000 } else { bits }) as u64
        }
    }
}

/// A float's bits from an integer.
fn from_integer(value: i128, to: Ty, style: Style) -> u64 {
    let mode = style.round.unwrap_or(Round::Nearest);
    let magnitude = value.unsigned_abs();
    // The 53 bits that a double holds, and whether what is cut off makes them grow.
    let cut = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = (magnitude >> cut) as u64;
    let rest = magnitude & ((1 << cut) - 1);
    let half = if cut == 0 { u128::MAX } else { 1 << (cut - 1) };
    let kept = if to == Ty::F64 {
        let grows = match mode {
            Round::Nearest => rest > half || (rest == half && kept & 1 == 1),
            Round::NearestAway => rest >= half,
            Round::Zero => false,
            Round::Down => rest != 0 && value < 0,
            Round::Up => rest != 0 && value > 0,
        };
        kept + u64::from(grows)
    } else {
        // Rounded to odd, so that the rounding to the narrower format is the only one.
        kept | u64::from(rest != 0)
    };
    let scaled = kept as f64 * (1_u64 << cut) as f64;
    to_float(if value < 0 { -scaled } else { scaled }, to, style)
}
