//! `mma.sync`: D = A · B + C over a warp, A row-major and B column-major.
//!
//! PTX leaves the order and the rounding of the accumulation open; the machine does what an H200 does. A sum in
//! f32 takes all products of the instruction and the old value at once: each is cut to a multiple of 2⁻²⁵ of the
//! largest one's power of two, the sum of these is exact, and it is cut again to a single. Doubles are a chain of
//! fused multiply-adds. A sum in f16 is exact here and rounded once, which no recorded answer confirms; nor do
//! any for singles that are subnormal, infinite or NaN.

use super::super::code::{Exec, Members, Step};
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::numeric::{F16, NAN_16, Round, canonical, canonical64, power_of_two, single};
use super::super::regs::{LANES, Regs, Slot};
use super::super::syntax::{Inst, Operand};
use super::super::ty::Ty;
use super::Table;

pub(super) const TABLE: Table = &[("mma", mma)];

/// Extents and element types of one form.
#[derive(Clone, Copy, Debug)]
struct Shape {
    m: usize,
    k: usize,
    /// The element type of A and B.
    input: Ty,
    /// The element type of C and D.
    sum: Ty,
}

const N: usize = 8;

impl Shape {
    /// Elements of an input that one register holds.
    fn packed(self) -> usize {
        if self.input.bits() == 16 { 2 } else { 1 }
    }

    fn a_registers(self) -> usize {
        self.m * self.k / LANES / self.packed()
    }

    fn b_registers(self) -> usize {
        self.k * N / LANES / self.packed()
    }

    fn c_registers(self) -> usize {
        self.m * N / LANES / if self.sum == Ty::F16 { 2 } else { 1 }
    }

    /// The row and column of A of element `e` of register `r` of a lane. Registers alternate between the
    /// upper and the lower eight rows.
    fn a_place(self, lane: usize, r: usize, e: usize) -> (usize, usize) {
        let halves = self.m / 8;
        let (group, thread) = (lane / 4, lane % 4);
        let row = group + 8 * (r % halves);
        (row, self.packed() * thread + e + 4 * self.packed() * (r / halves))
    }

    /// The row and column of B of element `e` of register `r` of a lane.
    fn b_place(self, lane: usize, r: usize, e: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        (self.packed() * thread + e + 4 * self.packed() * r, group)
    }

    /// The row and column of C of the lane's element `i`.
    fn c_place(lane: usize, i: usize) -> (usize, usize) {
        (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2)
    }
}

fn shape(linker: &Linker<'_>, mods: &mut Mods<'_>) -> Result<Shape, PtxError> {
    for needed in ["sync", "aligned"] {
        if !mods.flag(needed) {
            return Err(linker.decoder.fail(format!("no .{needed}")));
        }
    }
    let extents = mods.pick(|m| {
        Some(match m {
            "m16n8k4" => (16, 4),
            "m16n8k8" => (16, 8),
            "m16n8k16" => (16, 16),
            "m8n8k4" => (8, 4),
            _ => return None,
        })
    });
    let (m, k) = extents.ok_or_else(|| linker.decoder.fail("unknown shape"))?;
    if !mods.flag("row") || !mods.flag("col") {
        return Err(linker.decoder.fail("only .row.col is supported"));
    }
    let [d, a, b, c] = [linker.ty(mods)?, linker.ty(mods)?, linker.ty(mods)?, linker.ty(mods)?];
    let known = matches!(
        (m, k, a, d),
        (16, 4 | 8, Ty::Tf32, Ty::F32)
            | (16, 8 | 16, Ty::Bf16, Ty::F32)
            | (16, 8 | 16, Ty::F16, Ty::F32 | Ty::F16)
            | (8, 4, Ty::F64, Ty::F64)
            | (16, 4 | 8 | 16, Ty::F64, Ty::F64)
    );
    if a != b || c != d || !known {
        return Err(linker.decoder.fail(format!("no m{m}n8k{k} of .{d}.{a}.{b}.{c}")));
    }
    Ok(Shape { m, k, input: a, sum: d })
}

fn registers(
    linker: &mut Linker<'_>,
    operand: &Operand,
    count: usize,
    bits: u32,
    write: bool,
) -> Result<Vec<Slot>, PtxError> {
    let single = std::slice::from_ref(operand);
    let items = match operand {
        Operand::Vector(items) => items,
        _ => single,
    };
    if items.len() != count {
        return Err(linker.decoder.fail(format!("{} registers where {count} are needed", items.len())));
    }
    let decoder = &mut linker.decoder;
    items.iter().map(|item| if write { decoder.dst(item, bits) } else { decoder.src(item, bits) }).collect()
}

/// Adds the product of two matrices to a third.
fn multiply(shape: Shape, left: &[f64; 256], right: &[f64; 16 * N], sums: &mut [f64; 16 * N]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: both features were detected just above.
        unsafe { multiply_wide(shape, left, right, sums) };
        return;
    }
    multiply_plain(shape, left, right, sums);
}

/// The same code, compiled for wider registers.
///
/// # Safety
/// The host must have the `avx` and `fma` features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,fma")]
unsafe fn multiply_wide(shape: Shape, left: &[f64; 256], right: &[f64; 16 * N], sums: &mut [f64; 16 * N]) {
    multiply_plain(shape, left, right, sums);
}

#[inline(always)]
fn multiply_plain(shape: Shape, left: &[f64; 256], right: &[f64; 16 * N], sums: &mut [f64; 16 * N]) {
    let rows = sums.as_chunks_mut::<N>().0.iter_mut().zip(left.as_chunks::<16>().0).take(shape.m);
    let exponents = right.map(exponent);
    let (right, exponents) = (right.as_chunks::<N>().0, exponents.as_chunks::<N>().0);
    for (sums, left) in rows {
        let left = &left[..shape.k];
        match shape.sum {
            Ty::F32 => aligned_sums(left, right, exponents, sums),
            Ty::F64 => each_product(left, right, sums, fused),
            _ => each_product(left, right, sums, |sum, x, y| sum + x * y),
        }
    }
}

#[inline(always)]
fn each_product(left: &[f64], right: &[[f64; N]], sums: &mut [f64; N], add: impl Fn(f64, f64, f64) -> f64) {
    for (&x, right) in left.iter().zip(right) {
        for (sum, &y) in sums.iter_mut().zip(right) {
            *sum = add(*sum, x, y);
        }
    }
}

#[inline(always)]
fn fused(sum: f64, x: f64, y: f64) -> f64 {
    canonical64(x.mul_add(y, sum), [y, sum, x])
}

/// Bits kept below the power of two of the largest term.
const KEPT_BITS: i32 = 25;

/// Adds one row of products to a row of sums, each term cut to a multiple of the same power of two. Every
/// product is exact in a double, and so is every sum of what is kept.
#[inline(always)]
fn aligned_sums(left: &[f64], right: &[[f64; N]], exponents: &[[i32; N]], sums: &mut [f64; N]) {
    let mut top = sums.map(exponent);
    for (&x, exponents) in left.iter().zip(exponents) {
        let x = exponent(x);
        for (top, y) in top.iter_mut().zip(exponents) {
            *top = (*top).max(x + y);
        }
    }
    // The bounds are beyond every finite product but zero, and keep both powers finite.
    let top = top.map(|top| top.clamp(-400, 400));
    let scale = top.map(|top| power_of_two(KEPT_BITS - top));
    for (sum, scale) in sums.iter_mut().zip(scale) {
        *sum = (*sum * scale).trunc();
    }
    for (&x, right) in left.iter().zip(right) {
        for ((sum, &y), scale) in sums.iter_mut().zip(right).zip(scale) {
            *sum += (x * y * scale).trunc();
        }
    }
    for (sum, top) in sums.iter_mut().zip(top) {
        *sum *= power_of_two(top - KEPT_BITS);
    }
}

/// The exponent of a double's power of two. That of a zero is below that of every product.
#[inline(always)]
fn exponent(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

/// A single from a sum, cut.
fn cut(sum: f64) -> f32 {
    if sum.abs() < f32::MIN_POSITIVE as f64 {
        return single(sum, Round::Zero);
    }
    canonical(f64::from_bits(sum.to_bits() & !0x1fff_ffff) as f32)
}

fn mma(linker: &mut Linker<'_>, inst: &Inst, mods: &mut Mods<'_>) -> Result<Step, PtxError> {
    let shape = shape(linker, mods)?;
    linker.decoder.count(inst, 4)?;
    let input_bits = if shape.input == Ty::F64 { 64 } else { 32 };
    let sum_bits = if shape.sum == Ty::F64 { 64 } else { 32 };
    let d = registers(linker, &inst.operands[0], shape.c_registers(), sum_bits, true)?;
    let a = registers(linker, &inst.operands[1], shape.a_registers(), input_bits, false)?;
    let b = registers(linker, &inst.operands[2], shape.b_registers(), input_bits, false)?;
    let c = registers(linker, &inst.operands[3], shape.c_registers(), sum_bits, false)?;
    if shape.sum != Ty::F64 {
        linker.note_approximate();
    }
    let packed = shape.packed();
    let per = if shape.sum == Ty::F16 { 2 } else { 1 };
    let a = parts(&a, packed, 16, |lane, r, e| shape.a_place(lane, r, e));
    let b = parts(&b, packed, N, |lane, r, e| shape.b_place(lane, r, e));
    let c = parts(&c, per, N, |lane, r, e| Shape::c_place(lane, per * r + e));
    let d = parts(&d, per, N, |lane, r, e| Shape::c_place(lane, per * r + e));
    let run: Exec = Box::new(move |ctx, mask| {
        for part in a.iter().chain(&b).chain(&c) {
            ctx.regs.need(mask, part.slot)?;
        }
        let (mut left, mut right, mut sums) = ([0.0; 16 * 16], [0.0; 16 * N], [0.0; 16 * N]);
        gather(ctx.regs, shape.input, &a, &mut left);
        gather(ctx.regs, shape.input, &b, &mut right);
        gather(ctx.regs, shape.sum, &c, &mut sums);
        multiply(shape, &left, &right, &mut sums);
        for pieces in d.chunks(per) {
            let value = |lane: usize| {
                pieces.iter().fold(0, |word, piece| {
                    word | number_bits(shape.sum, sums[piece.places[lane] as usize]) << piece.shift
                })
            };
            ctx.regs.write(mask, pieces[0].slot, value);
        }
        Ok(())
    });
    Ok(Step::Sync(Members::Full, run))
}

/// One element of one register, in every lane: its place in its matrix, row by row.
struct Part {
    slot: Slot,
    shift: u32,
    places: [u8; LANES],
}

fn parts(
    slots: &[Slot],
    per: usize,
    columns: usize,
    place: impl Fn(usize, usize, usize) -> (usize, usize),
) -> Vec<Part> {
    let part = |(r, slot): (usize, &Slot), e: usize| {
        let places = std::array::from_fn(|lane| {
            let (row, column) = place(lane, r, e);
            (row * columns + column) as u8
        });
        Part { slot: *slot, shift: 16 * e as u32, places }
    };
    slots
        .iter()
        .enumerate()
        .flat_map(|register| (0..per).map(move |e| (register, e)))
        .map(|(r, e)| part(r, e))
        .collect()
}

fn gather(regs: &Regs, ty: Ty, parts: &[Part], out: &mut [f64]) {
    fn each(regs: &Regs, parts: &[Part], out: &mut [f64], value: impl Fn(u64) -> f64) {
        for part in parts {
            for (&place, &bits) in part.places.iter().zip(regs.row(part.slot)) {
                out[place as usize] = value(bits >> part.shift);
            }
        }
    }
    match ty {
        Ty::F64 => each(regs, parts, out, f64::from_bits),
        Ty::F16 => each(regs, parts, out, |bits| half::f16::from_bits(bits as u16).to_f32() as f64),
        Ty::Bf16 => each(regs, parts, out, |bits| f32::from_bits((bits as u32) << 16) as f64),
        // The low 13 bits of a tf32 are not looked at.
        Ty::Tf32 => each(regs, parts, out, |bits| f32::from_bits(bits as u32 & !0x1fff) as f64),
        _ => each(regs, parts, out, |bits| f32::from_bits(bits as u32) as f64),
    }
}

fn number_bits(ty: Ty, sum: f64) -> u64 {
    match ty {
        Ty::F64 => sum.to_bits(),
        Ty::F16 if sum.is_nan() => NAN_16 as u64,
        Ty::F16 => F16.round(sum, Round::Nearest) as u64,
        _ => cut(sum).to_bits() as u64,
    }
}
