//! Arithmetic on f16, bf16 and their pairs.

use super::common::cases;
use half::{bf16, f16};

fn h(value: f32) -> u64 {
    f16::from_f32(value).to_bits() as u64
}

fn b(value: f32) -> u64 {
    bf16::from_f32(value).to_bits() as u64
}

#[test]
fn half_arithmetic_rounds_once() {
    cases(
        "add.f16 %ho, %ha, %hb;",
        &[([h(1.0), h(0.0004)], h(1.0)), ([0x7c00, 0xfc00], 0x7fff), ([1, 1], 2)],
    );
    cases(
        "add.rn.f16 %ho, %ha, %hb;",
        &[([h(65504.0), h(16.0)], 0x7c00), ([h(65504.0), h(15.0)], h(65504.0))],
    );
    cases("sub.f16 %ho, %ha, %hb;", &[([h(3.0), h(5.0)], h(-2.0))]);
    cases("mul.f16 %ho, %ha, %hb;", &[([h(3.0), h(0.5)], h(1.5)), ([1, h(0.5)], 0), ([3, h(0.5)], 2)]);
    // 1 + 2⁻¹¹ + 2⁻²²: the last term decides the tie, and only a single rounding sees it.
    let e = 1.0 + 2.0_f32.powi(-10);
    cases(
        "fma.rn.f16 %ho, %ha, %hb, %hc;",
        &[([h(e), h(2.0_f32.powi(-11)), h(1.0)], h(e)), ([h(2.0), h(3.0), h(4.0)], h(10.0))],
    );
    cases("fma.rn.relu.f16 %ho, %ha, %hb, %hc;", &[([h(2.0), h(-3.0), h(4.0)], 0), ([0x7e00, 0, 0], 0x7fff)]);
    cases("fma.rn.sat.f16 %ho, %ha, %hb, %hc;", &[([h(2.0), h(3.0), h(4.0)], h(1.0)), ([0x7e00, 0, 0], 0)]);
    cases("add.ftz.f16 %ho, %ha, %hb;", &[([1, 1], 0), ([h(1.0), 1], h(1.0))]);
    cases("neg.f16 %ho, %ha;", &[([h(1.0)], h(-1.0)), ([0x7fff], 0x7fff), ([0xfe00], 0x7fff)]);
    cases("abs.f16 %ho, %ha;", &[([h(-1.0)], h(1.0)), ([0xfc01], 0x7fff)]);
    cases("min.f16 %ho, %ha, %hb;", &[([0x7e00, h(1.0)], h(1.0)), ([0, 0x8000], 0x8000)]);
    cases("max.NaN.f16 %ho, %ha, %hb;", &[([0x7e00, h(1.0)], 0x7fff)]);
}

#[test]
fn half_pairs_work_in_both_halves() {
    let pair = |low: u64, high: u64| high << 16 | low;
    cases(
        "add.f16x2 %ro, %ra, %rb;",
        &[([pair(h(1.0), h(2.0)), pair(h(3.0), h(-5.0))], pair(h(4.0), h(-3.0)))],
    );
    cases(
        "mul.f16x2 %ro, %ra, %rb;",
        &[([pair(h(1.5), h(2.0)), pair(h(2.0), h(0.25))], pair(h(3.0), h(0.5)))],
    );
    cases(
        "fma.rn.f16x2 %ro, %ra, %rb, %rc;",
        &[([pair(h(2.0), h(3.0)), pair(h(2.0), h(3.0)), pair(h(1.0), h(1.0))], pair(h(5.0), h(10.0)))],
    );
    cases(
        "fma.rn.bf16x2 %ro, %ra, %rb, %rc;",
        &[([pair(b(2.0), b(3.0)), pair(b(2.0), b(3.0)), pair(b(1.0), b(1.0))], pair(b(5.0), b(10.0)))],
    );
    cases(
        "max.bf16x2 %ro, %ra, %rb;",
        &[([pair(b(2.0), b(3.0)), pair(b(5.0), b(-3.0))], pair(b(5.0), b(3.0)))],
    );
    cases(
        "neg.bf16x2 %ro, %ra;",
        &[([pair(b(2.0), b(-3.0))], pair(b(-2.0), b(3.0))), ([pair(0x7fc1, b(1.0))], pair(0x7fff, b(-1.0)))],
    );
}

#[test]
fn bf16_arithmetic_rounds_once() {
    cases(
        "add.bf16 %ho, %ha, %hb;",
        &[([b(1.0), b(0.001)], b(1.0)), ([b(1.0), b(1.0 / 128.0)], b(1.0 + 1.0 / 128.0))],
    );
    cases("mul.bf16 %ho, %ha, %hb;", &[([b(3.0), b(0.5)], b(1.5)), ([0x7f80, 0], 0x7fff)]);
    cases(
        "fma.rn.bf16 %ho, %ha, %hb, %hc;",
        &[([b(2.0), b(3.0), b(4.0)], b(10.0)), ([b(1e30), b(1e30), 0], 0x7f80)],
    );
    // A product far below the sum still decides a tie.
    cases("fma.rn.bf16 %ho, %ha, %hb, %hc;", &[([b(1.0 / 256.0), b(1.0), b(1.0)], b(1.0))]);
    cases(
        "fma.rn.bf16 %ho, %ha, %hb, %hc;",
        &[([b(1.0 + 1.0 / 128.0), b(1.0 / 256.0), b(1.0)], b(1.0 + 1.0 / 128.0))],
    );
    cases("min.bf16 %ho, %ha, %hb;", &[([b(3.0), b(-0.5)], b(-0.5))]);
}
