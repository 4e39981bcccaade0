//! Arithmetic on singles and doubles.

use super::common::{cases, d, eval, f};

const NAN: u64 = 0x7fff_ffff;
const INF: u64 = 0x7f80_0000;
const TINY: u64 = 1;
const NEG0: u64 = 0x8000_0000;

#[test]
fn single_add_rounds_and_keeps_subnormals() {
    cases(
        "add.rn.f32 %ro, %ra, %rb;",
        &[
            ([f(1.0), f(2.0_f32.powi(-24))], f(1.0)),
            ([f(1.0), f(3.0 * 2.0_f32.powi(-24))], f(1.0 + 2.0_f32.powi(-22))),
            ([TINY, TINY], 2),
            ([NEG0, NEG0], NEG0),
            ([NEG0, 0], 0),
            ([INF, INF | NEG0], NAN),
            ([0xffc1_2345, f(1.0)], NAN),
        ],
    );
    cases("add.ftz.f32 %ro, %ra, %rb;", &[([TINY, 0x8000_0001], 0), ([0x80_0000, 0x807f_ffff], 0x80_0000)]);
    cases("sub.f32 %ro, %ra, %rb;", &[([f(1.0), f(1.0)], 0), ([f(3.0), f(5.0)], f(-2.0))]);
    cases(
        "add.sat.f32 %ro, %ra, %rb;",
        &[([f(0.75), f(0.5)], f(1.0)), ([f(-1.0), f(0.5)], 0), ([NAN, 0], 0)],
    );
    cases("add.rz.f32 %ro, %ra, %rb;", &[([f(1.0), f(0.9 * 2.0_f32.powi(-23))], f(1.0))]);
    cases("add.rp.f32 %ro, %ra, %rb;", &[([f(1.0), TINY], f(1.0_f32.next_up()))]);
    cases(
        "add.rm.f32 %ro, %ra, %rb;",
        &[([f(1.0), 0x8000_0001], f(1.0_f32.next_down())), ([f(1.0), f(-1.0)], NEG0)],
    );
    cases("sub.rm.f32 %ro, %ra, %rb;", &[([f(1.0), f(1.0)], NEG0), ([0, 0], NEG0)]);
}

#[test]
fn single_mul_in_every_mode() {
    cases("mul.rn.f32 %ro, %ra, %rb;", &[([f(1.5), f(-2.0)], f(-3.0)), ([INF, 0], NAN), ([TINY, f(0.5)], 0)]);
    cases("mul.rp.f32 %ro, %ra, %rb;", &[([TINY, f(0.5)], 1), ([f(3e38), f(10.0)], INF)]);
    cases("mul.rz.f32 %ro, %ra, %rb;", &[([f(3e38), f(10.0)], 0x7f7f_ffff), ([TINY, f(0.5)], 0)]);
    cases("mul.rm.f32 %ro, %ra, %rb;", &[([f(3e38), f(-10.0)], INF | NEG0)]);
    cases("mul.ftz.f32 %ro, %ra, %rb;", &[([TINY, f(1e30)], 0), ([f(-1e-20), f(1e-20)], NEG0)]);
}

#[test]
fn single_fma_rounds_once() {
    let e = 2.0_f32.powi(-12);
    // (1 + e)² = 1 + 2e + e²; the e² is lost when the product is rounded first.
    cases(
        "fma.rn.f32 %ro, %ra, %rb, %rc;",
        &[
            ([f(1.0 + e), f(1.0 + e), f(-1.0 - 2.0 * e)], f(e * e)),
            ([INF, 0, f(1.0)], NAN),
            ([TINY, f(1.0), TINY], 2),
        ],
    );
    cases("fma.rz.f32 %ro, %ra, %rb, %rc;", &[([f(1.0), f(1.0), 0x8000_0001], f(1.0_f32.next_down()))]);
    cases("fma.rp.f32 %ro, %ra, %rb, %rc;", &[([f(1.0), f(1.0), TINY], f(1.0_f32.next_up()))]);
    cases("fma.rm.f32 %ro, %ra, %rb, %rc;", &[([f(1.0), f(1.0), f(-1.0)], NEG0)]);
    cases("fma.rn.ftz.f32 %ro, %ra, %rb, %rc;", &[([TINY, f(1.0), f(1.0)], f(1.0)), ([0, 0, TINY], 0)]);
    cases("fma.rn.sat.f32 %ro, %ra, %rb, %rc;", &[([f(2.0), f(2.0), 0], f(1.0))]);
    cases("mad.rn.f32 %ro, %ra, %rb, %rc;", &[([f(2.0), f(3.0), f(4.0)], f(10.0))]);
}

#[test]
fn single_div_rcp_sqrt() {
    cases("div.rn.f32 %ro, %ra, %rb;", &[([f(1.0), f(3.0)], 0x3eaa_aaab), ([f(1.0), 0], INF), ([0, 0], NAN)]);
    cases("div.rz.f32 %ro, %ra, %rb;", &[([f(1.0), f(3.0)], 0x3eaa_aaaa), ([f(1.0), NEG0], INF | NEG0)]);
    cases("div.rp.f32 %ro, %ra, %rb;", &[([f(-1.0), f(3.0)], 0xbeaa_aaaa)]);
    cases("rcp.rn.f32 %ro, %ra;", &[([f(3.0)], 0x3eaa_aaab), ([0], INF), ([INF], 0)]);
    cases("rcp.rm.f32 %ro, %ra;", &[([f(3.0)], 0x3eaa_aaaa)]);
    cases("sqrt.rn.f32 %ro, %ra;", &[([f(2.0)], 0x3fb5_04f3), ([NEG0], NEG0), ([f(-1.0)], NAN)]);
    cases("sqrt.rp.f32 %ro, %ra;", &[([f(2.0)], 0x3fb5_04f4)]);
    cases("sqrt.rn.ftz.f32 %ro, %ra;", &[([TINY], 0)]);
    cases("rcp.rn.f64 %do, %da;", &[([d(4.0)], d(0.25))]);
    cases("sqrt.rn.f64 %do, %da;", &[([d(2.0)], 0x3ff6_a09e_667f_3bcd)]);
}

#[test]
fn single_min_max_with_nan_and_zeros() {
    cases("min.f32 %ro, %ra, %rb;", &[([NAN, f(1.0)], f(1.0)), ([0, NEG0], NEG0), ([0xffc0_0000, NAN], NAN)]);
    cases("max.f32 %ro, %ra, %rb;", &[([f(1.0), NAN], f(1.0)), ([NEG0, 0], 0), ([f(-1.0), f(2.0)], f(2.0))]);
    cases("max.NaN.f32 %ro, %ra, %rb;", &[([f(1.0), 0xffc0_0000], NAN)]);
    cases("min.ftz.f32 %ro, %ra, %rb;", &[([TINY, f(1.0)], 0)]);
    cases("min.f64 %do, %da, %db;", &[([d(f64::NAN), d(1.0)], d(1.0)), ([d(0.0), d(-0.0)], d(-0.0))]);
    cases("max.f64 %do, %da, %db;", &[([d(3.0), d(1.0)], d(3.0))]);
}

#[test]
fn single_signs_and_tests() {
    cases("neg.f32 %ro, %ra;", &[([0], NEG0), ([f(1.0)], f(-1.0)), ([NAN], NAN), ([0xff81_2345], NAN)]);
    cases("abs.f32 %ro, %ra;", &[([NEG0], 0), ([f(-2.0)], f(2.0)), ([0xffc0_0001], NAN)]);
    cases("neg.ftz.f32 %ro, %ra;", &[([TINY], NEG0), ([0x7fc0_0000], NAN)]);
    // A double's NaN keeps its sign.
    let (loud, quiet) = (0x7ff0_0000_0000_0001, 0xfff8_0000_0000_0001);
    cases("neg.f64 %do, %da;", &[([0], 1 << 63), ([quiet], quiet), ([loud], loud | 1 << 51)]);
    cases("abs.f64 %do, %da;", &[([d(-2.0)], d(2.0)), ([quiet], quiet), ([loud], loud | 1 << 51)]);
    cases("copysign.f32 %ro, %ra, %rb;", &[([NEG0, f(3.0)], f(-3.0))]);
    cases("copysign.f64 %do, %da, %db;", &[([d(1.0), d(-3.0)], d(3.0))]);
    cases("testp.subnormal.f32 %po, %ra;", &[([TINY], 1), ([0], 0), ([f(1.0)], 0)]);
    cases("testp.normal.f32 %po, %ra;", &[([TINY], 0), ([f(1.0)], 1), ([INF], 0), ([NEG0], 1)]);
    cases("testp.normal.f64 %po, %da;", &[([1], 0), ([0], 1), ([d(f64::NAN)], 0)]);
    cases("testp.notanumber.f64 %po, %da;", &[([d(f64::NAN)], 1), ([0], 0)]);
    cases("testp.number.f32 %po, %ra;", &[([NAN], 0), ([INF], 1)]);
    cases("testp.infinite.f32 %po, %ra;", &[([INF], 1), ([NAN], 0)]);
    cases("testp.finite.f32 %po, %ra;", &[([INF], 0), ([TINY], 1)]);
}

#[test]
fn double_arithmetic() {
    cases("add.rn.f64 %do, %da, %db;", &[([d(1.0), d(f64::EPSILON / 2.0)], d(1.0)), ([1, 1], 2)]);
    cases("sub.f64 %do, %da, %db;", &[([d(1.0), d(0.5)], d(0.5))]);
    cases("mul.f64 %do, %da, %db;", &[([d(3.0), d(0.5)], d(1.5))]);
    cases("div.rn.f64 %do, %da, %db;", &[([d(1.0), d(3.0)], 0x3fd5_5555_5555_5555)]);
    let e = 2.0_f64.powi(-30);
    cases("fma.rn.f64 %do, %da, %db, %dc;", &[([d(1.0 + e), d(1.0 + e), d(-1.0 - 2.0 * e)], d(e * e))]);
}

#[test]
fn double_nan_is_that_of_one_operand() {
    let [a, b, c] = [1, 2, 3].map(|payload| 0xfff8_0000_0000_0000 | payload);
    let one = d(1.0);
    for name in ["add.rn", "sub.rn", "mul.rn", "min", "max"] {
        cases(&format!("{name}.f64 %do, %da, %db;"), &[([a, b], b)]);
    }
    for name in ["add.rn", "sub.rn", "mul.rn"] {
        cases(&format!("{name}.f64 %do, %da, %db;"), &[([a, one], a), ([one, b], b)]);
    }
    cases("div.rn.f64 %do, %da, %db;", &[([a, b], a), ([one, b], b)]);
    cases(
        "fma.rn.f64 %do, %da, %db, %dc;",
        &[([a, b, c], b), ([a, one, c], c), ([a, b, one], b), ([a, one, one], a)],
    );
}

#[test]
fn compare_floats_ordered_and_not() {
    for (name, [less, equal, greater, unordered]) in [
        ("eq", [0, 1, 0, 0]),
        ("ne", [1, 0, 1, 0]),
        ("lt", [1, 0, 0, 0]),
        ("le", [1, 1, 0, 0]),
        ("gt", [0, 0, 1, 0]),
        ("ge", [0, 1, 1, 0]),
        ("equ", [0, 1, 0, 1]),
        ("neu", [1, 0, 1, 1]),
        ("ltu", [1, 0, 0, 1]),
        ("leu", [1, 1, 0, 1]),
        ("gtu", [0, 0, 1, 1]),
        ("geu", [0, 1, 1, 1]),
        ("num", [1, 1, 1, 0]),
        ("nan", [0, 0, 0, 1]),
    ] {
        let table = [
            ([f(-1.0), f(2.0)], less),
            ([0, NEG0], equal),
            ([INF, f(1.0)], greater),
            ([NAN, f(1.0)], unordered),
        ];
        cases(&format!("setp.{name}.f32 %po, %ra, %rb;"), &table);
        let double =
            table.map(|([a, b], answer)| ([a, b].map(|x| d(f32::from_bits(x as u32) as f64)), answer));
        cases(&format!("setp.{name}.f64 %po, %da, %db;"), &double);
    }
    cases("setp.eq.ftz.f32 %po, %ra, %rb;", &[([TINY, 0], 1)]);
    cases("setp.eq.f32 %po, %ra, %rb;", &[([TINY, 0], 0)]);
    cases("setp.lt.f16 %po, %ha, %hb;", &[([0xbc00, 0x3c00], 1), ([0x7e00, 0], 0)]);
    cases("setp.gtu.bf16 %po, %ha, %hb;", &[([0x7fc0, 0], 1)]);
    cases("slct.b32.f32 %ro, %ra, %rb, %rc;", &[([1, 2, NEG0], 1), ([1, 2, NAN], 2), ([1, 2, f(-1.0)], 2)]);
}

#[test]
fn approximate_functions_are_near() {
    // PTX's bounds: the machine is the nearest value, and the GPU within these of the true one.
    let near = |text: &str, x: f32, truth: f64, bound: f64| {
        let found = f32::from_bits(eval(text, &[f(x)]) as u32) as f64;
        assert!((found - truth).abs() <= bound * truth.abs(), "{text} of {x}: {found} for {truth}");
    };
    for x in [0.3_f32, 1.0, 2.5, 10.0, 77.7] {
        let t = x as f64;
        near("ex2.approx.f32 %ro, %ra;", x, t.exp2(), 2.0_f64.powf(-22.5));
        near("lg2.approx.f32 %ro, %ra;", x + 2.0, (t + 2.0).log2(), 2.0_f64.powi(-22));
        near("rsqrt.approx.f32 %ro, %ra;", x, t.sqrt().recip(), 2.0_f64.powf(-22.4));
        near("rcp.approx.f32 %ro, %ra;", x, t.recip(), 2.0_f64.powi(-23));
        near("sqrt.approx.f32 %ro, %ra;", x, t.sqrt(), 2.0_f64.powi(-23));
        near("tanh.approx.f32 %ro, %ra;", x, t.tanh(), 2.0_f64.powi(-11));
        near("sin.approx.f32 %ro, %ra;", 0.7, 0.7_f32.sin() as f64, 1e-6);
        near("cos.approx.f32 %ro, %ra;", 0.7, 0.7_f32.cos() as f64, 1e-6);
    }
    cases("ex2.approx.f32 %ro, %ra;", &[([INF | NEG0], 0), ([INF], INF), ([0], f(1.0)), ([NAN], NAN)]);
    cases("lg2.approx.f32 %ro, %ra;", &[([0], INF | NEG0), ([f(-1.0)], NAN), ([f(8.0)], f(3.0))]);
    cases("rsqrt.approx.f32 %ro, %ra;", &[([NEG0], INF | NEG0), ([f(4.0)], f(0.5))]);
    cases("div.approx.f32 %ro, %ra, %rb;", &[([f(6.0), f(3.0)], f(2.0))]);
    cases("div.full.f32 %ro, %ra, %rb;", &[([f(6.0), f(3.0)], f(2.0))]);
}
