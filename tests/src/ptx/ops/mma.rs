//! `mma.sync`: D = A · B + C over a warp, A row-major and B column-major.
//!
//! PTX leaves the order and the rounding of the accumulation open. For results in f32 and f16 the machine
//! sums exact products in double precision and rounds once; doubles are a chain of fused multiply-adds.

use super::super::code::{Exec, Members, Step};
use super::super::error::PtxError;
use super::super::link::Linker;
use super::super::mods::Mods;
use super::super::numeric::{BF16, F16, F32, Format, NAN_16, NAN_F32, Round, canonical64};
use super::super::regs::{LANES, Slot};
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

fn number(ty: Ty, bits: u64) -> f64 {
    let narrow = |format: Format, bits: u32| if format.is_nan(bits) { f64::NAN } else { format.value(bits) };
    match ty {
        Ty::F64 => f64::from_bits(bits),
        Ty::F16 => narrow(F16, bits as u32 & 0xffff),
        Ty::Bf16 => narrow(BF16, bits as u32 & 0xffff),
        // The low 13 bits of a tf32 are not looked at.
        Ty::Tf32 => f32::from_bits(bits as u32 & !0x1fff) as f64,
        _ => f32::from_bits(bits as u32) as f64,
    }
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
    let run: Exec = Box::new(move |ctx, mask| {
        for &slot in a.iter().chain(&b).chain(&c) {
            ctx.regs.need(mask, slot)?;
        }
        let element = |bits: u64, e: usize| number(shape.input, bits >> (16 * e));
        let mut left = [[0.0; 16]; 16];
        let mut right = [[0.0; N]; 16];
        for lane in 0..LANES {
            for e in 0..shape.packed() {
                for (r, &slot) in a.iter().enumerate() {
                    let (row, column) = shape.a_place(lane, r, e);
                    left[row][column] = element(ctx.regs.row(slot)[lane], e);
                }
                for (r, &slot) in b.iter().enumerate() {
                    let (row, column) = shape.b_place(lane, r, e);
                    right[row][column] = element(ctx.regs.row(slot)[lane], e);
                }
            }
        }
        let dot = |row: usize, column: usize, start: f64| {
            (0..shape.k).fold(start, |sum, k| {
                let (x, y) = (left[row][k], right[k][column]);
                if shape.sum == Ty::F64 { canonical64(x.mul_add(y, sum), [x, y, sum]) } else { sum + x * y }
            })
        };
        let halves = shape.sum == Ty::F16;
        for (r, (&to, &from)) in d.iter().zip(&c).enumerate() {
            let start = *ctx.regs.row(from);
            ctx.regs.write(mask, to, |lane| {
                if halves {
                    return (0..2).fold(0, |out, e| {
                        let (row, column) = Shape::c_place(lane, 2 * r + e);
                        let sum = dot(row, column, number(Ty::F16, start[lane] >> (16 * e)));
                        out | (if sum.is_nan() { NAN_16 as u32 } else { F16.round(sum, Round::Nearest) }
                            as u64)
                            << (16 * e)
                    });
                }
                let (row, column) = Shape::c_place(lane, r);
                let sum = dot(row, column, number(shape.sum, start[lane]));
                match shape.sum {
                    Ty::F64 => sum.to_bits(),
                    _ if sum.is_nan() => NAN_F32 as u64,
                    _ => F32.round(sum, Round::Nearest) as u64,
                }
            });
        }
        Ok(())
    });
    Ok(Step::Sync(Members::Full, run))
}
