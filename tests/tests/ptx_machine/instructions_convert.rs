//! `cvt` in every direction.

use super::common::{cases, d, f};

const NAN: u64 = 0x7fff_ffff;

#[test]
fn convert_integers_extend_and_cut() {
    cases("cvt.u64.u32 %do, %ra;", &[([0xffff_ffff], 0xffff_ffff)]);
    cases("cvt.s64.s32 %do, %ra;", &[([0xffff_ffff], u64::MAX)]);
    cases("cvt.u32.u64 %ro, %da;", &[([0x1_2345_6789], 0x2345_6789)]);
    cases("cvt.s32.s8 %ro, %ra;", &[([0x1ff], 0xffff_ffff), ([0x17f], 0x7f)]);
    cases("cvt.u32.u8 %ro, %ra;", &[([0x1ff], 0xff)]);
    cases("cvt.u8.u32 %ro, %ra;", &[([0x1ff], 0xff)]);
    cases("cvt.s8.s32 %ro, %ra;", &[([0x180], 0xffff_ff80)]);
    cases("cvt.s16.s8 %ho, %ra;", &[([0x80], 0xff80)]);
    cases("cvt.u16.u64 %ho, %da;", &[([0x12345], 0x2345)]);
    cases("cvt.sat.s8.s32 %ro, %ra;", &[([1000], 127), ([0xffff_0000], 0xffff_ff80)]);
    cases("cvt.sat.u8.s32 %ro, %ra;", &[([0xffff_ffff], 0), ([300], 255)]);
    cases("cvt.sat.u16.u32 %ho, %ra;", &[([0x12345], 0xffff)]);
    cases("cvt.sat.s32.u32 %ro, %ra;", &[([0xffff_ffff], 0x7fff_ffff)]);
}

#[test]
fn convert_floats_to_integers_round_clamp_and_map_nan() {
    cases(
        "cvt.rzi.s32.f32 %ro, %ra;",
        &[
            ([f(-1.9)], 0xffff_ffff),
            ([f(3e9)], 0x7fff_ffff),
            ([NAN], 0),
            ([f(f32::NEG_INFINITY)], 0x8000_0000),
        ],
    );
    cases("cvt.rni.s32.f32 %ro, %ra;", &[([f(2.5)], 2), ([f(3.5)], 4), ([f(-0.5)], 0)]);
    cases("cvt.rmi.s32.f32 %ro, %ra;", &[([f(-0.1)], 0xffff_ffff)]);
    cases("cvt.rpi.u32.f32 %ro, %ra;", &[([f(0.1)], 1), ([f(-5.0)], 0), ([f(5e9)], 0xffff_ffff)]);
    cases("cvt.rzi.u8.f32 %ro, %ra;", &[([f(300.0)], 255)]);
    cases("cvt.rzi.s64.f32 %do, %ra;", &[([f(1e30)], 0x7fff_ffff_ffff_ffff), ([NAN], 1 << 63)]);
    cases(
        "cvt.rzi.u64.f64 %do, %da;",
        &[([d(1e18)], 1_000_000_000_000_000_000), ([d(f64::NAN)], 1 << 63), ([d(1e30)], u64::MAX)],
    );
    cases("cvt.rzi.s32.f64 %ro, %da;", &[([d(f64::NAN)], 1 << 31), ([d(-7.9)], (-7_i32) as u32 as u64)]);
    cases("cvt.rzi.s16.f16 %ho, %ha;", &[([0x5640], 100), ([0x7e00], 0)]);
    cases("cvt.rzi.ftz.s32.f32 %ro, %ra;", &[([1], 0)]);
    cases("cvt.rpi.ftz.s32.f32 %ro, %ra;", &[([1], 0)]);
    cases("cvt.rpi.s32.f32 %ro, %ra;", &[([1], 1)]);
}

#[test]
fn convert_integers_to_floats_in_every_mode() {
    cases(
        "cvt.rn.f32.s32 %ro, %ra;",
        &[([0xffff_ffff], f(-1.0)), ([16_777_217], f(16_777_216.0)), ([16_777_219], f(16_777_220.0))],
    );
    cases("cvt.rz.f32.u32 %ro, %ra;", &[([0xffff_ffff], 0x4f7f_ffff)]);
    cases(
        "cvt.rp.f32.s32 %ro, %ra;",
        &[([16_777_217], f(16_777_218.0)), ([(-16_777_217_i32) as u32 as u64], f(-16_777_216.0))],
    );
    cases("cvt.rm.f32.s32 %ro, %ra;", &[([(-16_777_217_i32) as u32 as u64], f(-16_777_218.0))]);
    cases(
        "cvt.rn.f64.u64 %do, %da;",
        &[([u64::MAX], d(18_446_744_073_709_551_616.0)), ([(1 << 53) + 1], d(9_007_199_254_740_992.0))],
    );
    cases("cvt.rz.f64.u64 %do, %da;", &[([u64::MAX], d(18_446_744_073_709_549_568.0))]);
    cases("cvt.rp.f64.s64 %do, %da;", &[([(1 << 53) + 1], d(9_007_199_254_740_994.0))]);
    cases("cvt.rn.f64.s64 %do, %da;", &[([u64::MAX], d(-1.0))]);
    // A tie in single that the last of 64 bits breaks.
    cases(
        "cvt.rn.f32.u64 %ro, %da;",
        &[([(1 << 62) + (1 << 38) + 1], f(4.611_686_6e18)), ([(1 << 62) + (1 << 38)], f(4.611_686e18))],
    );
    cases("cvt.rn.f16.s32 %ho, %ra;", &[([2049], 0x6800), ([100_000], 0x7c00)]);
    cases("cvt.rn.f16.u16 %ho, %ha;", &[([3], 0x4200)]);
    cases("cvt.rn.bf16.s32 %ho, %ra;", &[([257], 0x4380)]);
    cases("cvt.rn.f32.s8 %ro, %ra;", &[([0xff], f(-1.0))]);
}

#[test]
fn convert_between_floats() {
    cases(
        "cvt.f32.f16 %ro, %ha;",
        &[([0x3c00], f(1.0)), ([1], f(2.0_f32.powi(-24))), ([0xfc00], 0xff80_0000), ([0x7e01], NAN)],
    );
    cases(
        "cvt.rn.f16.f32 %ho, %ra;",
        &[
            ([f(1.0)], 0x3c00),
            ([f(65520.0)], 0x7c00),
            ([NAN], 0x7fff),
            ([0xffc0_0000], 0x7fff),
            ([f(6e-8)], 1),
        ],
    );
    cases("cvt.rz.f16.f32 %ho, %ra;", &[([f(65520.0)], 0x7bff)]);
    cases("cvt.rn.relu.f16.f32 %ho, %ra;", &[([f(-1.0)], 0), ([f(2.0)], 0x4000)]);
    cases(
        "cvt.rn.bf16.f32 %ho, %ra;",
        &[([0x3f80_8000], 0x3f80), ([0x3f81_8000], 0x3f82), ([0x3f80_8001], 0x3f81), ([NAN], 0x7fff)],
    );
    cases("cvt.rz.bf16.f32 %ho, %ra;", &[([0x3f80_ffff], 0x3f80)]);
    cases("cvt.f32.bf16 %ro, %ha;", &[([0x3f81], 0x3f81_0000), ([0xff81], 0xff81_0000)]);
    cases(
        "cvt.f64.f32 %do, %ra;",
        &[
            ([f(1.5)], d(1.5)),
            ([1], d(2.0_f64.powi(-149))),
            ([0x7fff_ffff], 0x7fff_ffff_e000_0000),
            ([0xff80_0001], 0xfff8_0000_2000_0000),
        ],
    );
    cases("cvt.ftz.f64.f32 %do, %ra;", &[([1], 0), ([0xff80_0001], 0x7fff_ffff_e000_0000)]);
    cases(
        "cvt.rn.f32.f64 %ro, %da;",
        &[
            ([d(0.1)], f(0.1)),
            ([d(1e300)], 0x7f80_0000),
            ([1 << 63 | d(f64::NAN) | 1], 0xffc0_0000),
            ([d(1e-46)], 0),
        ],
    );
    cases("cvt.rn.f32.f64 %ro, %da;", &[([0x7ff0_1234_5678_9abc], 0x7fc0_91a2)]);
    cases("cvt.rp.f32.f64 %ro, %da;", &[([d(1e-46)], 1)]);
    cases("cvt.rz.f32.f64 %ro, %da;", &[([d(1e300)], 0x7f7f_ffff)]);
    cases("cvt.rn.ftz.f32.f64 %ro, %da;", &[([d(1e-40)], 0)]);
    cases("cvt.f64.f16 %do, %ha;", &[([0xc000], d(-2.0)), ([0x7c01], 0x7ff8_0400_0000_0000)]);
    cases(
        "cvt.rn.f16.f64 %ho, %da;",
        &[
            ([d(31_464.0)], 0x77ae),
            ([d(31_464.000_000_001)], 0x77af),
            ([0x7ff8_1234_5678_9abc], 0x7e04),
            ([0xfff8_0000_0000_0001], 0xfe00),
        ],
    );
    cases("cvt.rni.f32.f32 %ro, %ra;", &[([f(2.5)], f(2.0)), ([f(-0.4)], 0x8000_0000), ([NAN], NAN)]);
    cases("cvt.rzi.f32.f32 %ro, %ra;", &[([f(-2.9)], f(-2.0))]);
    cases("cvt.rmi.f64.f64 %do, %da;", &[([d(-2.1)], d(-3.0))]);
    cases("cvt.rpi.f32.f32 %ro, %ra;", &[([f(2.1)], f(3.0))]);
    cases("cvt.sat.f32.f32 %ro, %ra;", &[([f(2.0)], f(1.0)), ([f(-2.0)], 0), ([NAN], 0), ([1 << 31], 0)]);
    cases("cvt.sat.f32.f16 %ro, %ha;", &[([0x8000], 0), ([0x4000], f(1.0)), ([0x7e00], 0)]);
    cases("cvt.ftz.f32.f32 %ro, %ra;", &[([0x8000_0001], 0x8000_0000)]);
}

#[test]
fn convert_pairs_and_tf32() {
    cases("cvt.rn.f16x2.f32 %ro, %ra, %rb;", &[([f(1.0), f(2.0)], 0x3c00_4000)]);
    cases("cvt.rz.f16x2.f32 %ro, %ra, %rb;", &[([f(65520.0), f(-65520.0)], 0x7bff_fbff)]);
    cases("cvt.rn.bf16x2.f32 %ro, %ra, %rb;", &[([f(1.0), f(2.0)], 0x3f80_4000)]);
    cases("cvt.rn.relu.bf16x2.f32 %ro, %ra, %rb;", &[([f(-1.0), f(2.0)], 0x4000)]);
    cases(
        "cvt.rna.tf32.f32 %ro, %ra;",
        &[
            ([0x3f80_1000], 0x3f80_2000),
            ([0x3f80_0fff], 0x3f80_0000),
            ([0xbf80_1000], 0xbf80_2000),
            ([0x7f7f_ffff], 0x7f80_0000),
            ([0x7fff_ffff], 0x7fff_e000),
            ([0xff81_2345], 0xff81_2000),
        ],
    );
}
