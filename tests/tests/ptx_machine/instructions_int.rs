//! Integer arithmetic, logic, shifts, fields and comparisons.

use super::common::{cases, eval, try_eval};
use cotangent_tests::ptx::Kind;

const M1: u64 = 0xffff_ffff;
const MIN: u64 = 0x8000_0000;

#[test]
fn int_add_and_sub_wrap_and_saturate() {
    cases("add.s32 %ro, %ra, %rb;", &[([M1, 1], 0), ([0x7fff_ffff, 1], MIN)]);
    cases("add.sat.s32 %ro, %ra, %rb;", &[([0x7fff_ffff, 1], 0x7fff_ffff), ([MIN, M1], MIN), ([5, M1], 4)]);
    cases("sub.sat.s32 %ro, %ra, %rb;", &[([MIN, 1], MIN), ([0x7fff_ffff, M1], 0x7fff_ffff)]);
    cases("add.s16 %ho, %ha, %hb;", &[([0xffff, 2], 1)]);
    cases("sub.u64 %do, %da, %db;", &[([0, 1], u64::MAX)]);
    cases("add.u32 %ro, %ra, -1;", &[([0], M1)]);
    cases("sub.u16 %ho, %ha, %hb;", &[([0, 1], 0xffff)]);
    cases("add.s64 %do, %da, %db;", &[([u64::MAX, 3], 2)]);
}

#[test]
fn int_mul_keeps_the_part_asked_for() {
    cases("mul.lo.s32 %ro, %ra, %rb;", &[([0x1_0001, 0x1_0001], 0x2_0001)]);
    cases("mul.hi.u32 %ro, %ra, %rb;", &[([M1, M1], 0xffff_fffe)]);
    cases("mul.hi.s32 %ro, %ra, %rb;", &[([M1, M1], 0), ([MIN, 2], M1)]);
    cases("mul.hi.u64 %do, %da, %db;", &[([u64::MAX, u64::MAX], u64::MAX - 1)]);
    cases("mul.hi.s64 %do, %da, %db;", &[([u64::MAX, 2], u64::MAX)]);
    cases("mul.hi.u16 %ho, %ha, %hb;", &[([0xffff, 0xffff], 0xfffe)]);
    cases("mul.hi.s16 %ho, %ha, %hb;", &[([0xffff, 2], 0xffff)]);
    cases("mul.wide.u32 %do, %ra, %rb;", &[([M1, M1], 0xffff_fffe_0000_0001)]);
    cases("mul.wide.s32 %do, %ra, %rb;", &[([M1, 3], (-3_i64) as u64)]);
    cases("mul.wide.u16 %ro, %ha, %hb;", &[([0xffff, 0xffff], 0xfffe_0001)]);
    cases("mul.wide.s16 %ro, %ha, %hb;", &[([0xffff, 5], 0xffff_fffb)]);
    cases("mul.lo.s64 %do, %da, %db;", &[([1 << 40, 1 << 30], 0), ([u64::MAX, 7], (-7_i64) as u64)]);
    cases("mul.lo.u16 %ho, %ha, %hb;", &[([0x100, 0x101], 0x100)]);
}

#[test]
fn int_mad_adds_after_the_part() {
    cases("mad.lo.s32 %ro, %ra, %rb, %rc;", &[([3, 4, 5], 17), ([M1, 2, 1], M1)]);
    cases("mad.hi.u32 %ro, %ra, %rb, %rc;", &[([M1, M1, 3], 1)]);
    cases("mad.hi.s32 %ro, %ra, %rb, %rc;", &[([MIN, 2, 1], 0)]);
    cases("mad.hi.u64 %do, %da, %db, %dc;", &[([1 << 63, 4, 1], 3)]);
    cases("mad.hi.s64 %do, %da, %db, %dc;", &[([1 << 63, 4, 1], u64::MAX)]);
    cases("mad.wide.u32 %do, %ra, %rb, %dc;", &[([M1, M1, 2], 0xffff_fffe_0000_0003)]);
    cases("mad.wide.s32 %do, %ra, %rb, %dc;", &[([M1, 3, 1], (-2_i64) as u64)]);
    cases("mad.wide.u16 %ro, %ha, %hb, %rc;", &[([0xffff, 2, 1], 0x1_ffff)]);
    cases("mad.wide.s16 %ro, %ha, %hb, %rc;", &[([0xffff, 2, 1], M1)]);
    cases("mad.lo.s64 %do, %da, %db, %dc;", &[([u64::MAX, 2, 5], 3)]);
    cases("mad.lo.s16 %ho, %ha, %hb, %hc;", &[([0x100, 0x100, 7], 7)]);
    cases("mad.hi.u16 %ho, %ha, %hb, %hc;", &[([0x100, 0x100, 7], 8)]);
    cases("mad.hi.s16 %ho, %ha, %hb, %hc;", &[([0xffff, 2, 1], 0)]);
}

#[test]
fn int_mul24_takes_low_bits() {
    cases(
        "mul24.lo.u32 %ro, %ra, %rb;",
        &[([0xff00_0003, 0xaa00_0005], 15), ([0xff_ffff, 0xff_ffff], 0xfe00_0001)],
    );
    cases("mul24.lo.s32 %ro, %ra, %rb;", &[([0xff_ffff, 3], 0xffff_fffd)]);
    cases("mul24.hi.u32 %ro, %ra, %rb;", &[([0xff_ffff, 0xff_ffff], 0xffff_fe00)]);
    cases("mad24.lo.s32 %ro, %ra, %rb, %rc;", &[([0xff_ffff, 3, 4], 1)]);
}

#[test]
fn int_carries_chain_into_wider_sums() {
    let add = "add.cc.u32 %rq, %ra, %rb; addc.cc.u32 %ro, %rc, 0; addc.u32 %rq, 0, 0; shl.b32 %rq, %rq, 8; add.u32 %ro, %ro, %rq;";
    cases(add, &[([M1, 1, 5], 6), ([M1, 0, 5], 5), ([M1, 1, M1], 0x100)]);
    let sub = "sub.cc.s64 %at, %da, %db; subc.s64 %do, %dc, 0;";
    let eval_sub = |a, b, c| eval(&format!("{{ .reg .b64 %at; {sub} }}"), &[a, b, c]);
    assert_eq!([eval_sub(0, 1, 5), eval_sub(1, 1, 5), eval_sub(u64::MAX, 0, 0)], [4, 5, 0]);
    cases(
        "mad.lo.cc.u32 %rq, %ra, %rb, %rc; madc.hi.u32 %ro, %ra, %rb, 0;",
        &[([M1, M1, M1], 0xffff_ffff), ([M1, M1, 1], 0xffff_fffe)],
    );
    cases(
        "mad.lo.cc.s32 %rq, %ra, %rb, %rc; madc.hi.s32 %ro, %ra, %rb, 0;",
        &[([M1, 3, 3], 0), ([M1, 3, 2], M1)],
    );
    let report = try_eval("addc.u32 %ro, %ra, %rb;", &[1, 2]).expect_err("no carry yet");
    assert!(report.what.contains("the carry flag"), "{report}");
}

#[test]
fn int_div_and_rem_truncate() {
    cases("div.s32 %ro, %ra, %rb;", &[([(-7_i32) as u32 as u64, 2], (-3_i32) as u32 as u64)]);
    cases("div.u32 %ro, %ra, %rb;", &[([M1, 10], 429_496_729)]);
    cases("rem.s32 %ro, %ra, %rb;", &[([(-7_i32) as u32 as u64, 2], M1)]);
    cases("rem.u64 %do, %da, %db;", &[([u64::MAX, 10], 5)]);
    cases("div.s64 %do, %da, %db;", &[([(-9_i64) as u64, 4], (-2_i64) as u64)]);
    for text in ["div.u32 %ro, %ra, %rb;", "rem.s32 %ro, %ra, %rb;"] {
        let report = try_eval(text, &[1, 0]).expect_err("division by zero");
        assert_eq!(report.kind, Kind::Operand);
        assert_eq!(report.instruction, text);
    }
}

#[test]
fn int_neg_abs_min_max_sad() {
    cases("neg.s32 %ro, %ra;", &[([1], M1), ([MIN], MIN)]);
    cases("neg.s64 %do, %da;", &[([1], u64::MAX)]);
    cases("neg.s16 %ho, %ha;", &[([1], 0xffff)]);
    cases("abs.s32 %ro, %ra;", &[([M1], 1), ([MIN], MIN), ([7], 7)]);
    cases("min.s32 %ro, %ra, %rb;", &[([M1, 1], M1)]);
    cases("min.u32 %ro, %ra, %rb;", &[([M1, 1], 1)]);
    cases("max.s64 %do, %da, %db;", &[([u64::MAX, 1], 1)]);
    cases("max.u16 %ho, %ha, %hb;", &[([0xffff, 1], 0xffff)]);
    cases("max.s16 %ho, %ha, %hb;", &[([0xffff, 1], 1)]);
    cases("sad.s32 %ro, %ra, %rb, %rc;", &[([M1, 4, 10], 15)]);
    cases("sad.u32 %ro, %ra, %rb, %rc;", &[([3, 10, 1], 8)]);
}

#[test]
fn int_dp4a_sums_four_products() {
    cases("dp4a.u32.u32 %ro, %ra, %rb, %rc;", &[([0x0102_0304, 0x0506_0708, 100], 5 + 12 + 21 + 32 + 100)]);
    cases("dp4a.s32.s32 %ro, %ra, %rb, %rc;", &[([0xff01_0000, 0x0203_0000, 10], 11)]);
    cases("dp4a.u32.s32 %ro, %ra, %rb, %rc;", &[([0xff00_0000, 0xff00_0000, 0], (-255_i32) as u32 as u64)]);
}

#[test]
fn bits_logic_and_shifts() {
    cases("and.b32 %ro, %ra, %rb;", &[([0xff00, 0x0ff0], 0x0f00)]);
    cases("or.b16 %ho, %ha, %hb;", &[([0xff00, 0x0ff0], 0xfff0)]);
    cases("xor.b64 %do, %da, %db;", &[([0xff00, 0x0ff0], 0xf0f0)]);
    cases("not.b32 %ro, %ra;", &[([0xff], 0xffff_ff00)]);
    cases("not.b16 %ho, %ha;", &[([0xff], 0xff00)]);
    cases("cnot.b32 %ro, %ra;", &[([0], 1), ([5], 0)]);
    cases("shl.b32 %ro, %ra, %rb;", &[([1, 31], MIN), ([1, 32], 0), ([1, 99], 0)]);
    cases("shl.b16 %ho, %ha, %rb;", &[([1, 15], 0x8000), ([1, 16], 0)]);
    cases("shr.u64 %do, %da, %rb;", &[([1 << 63, 63], 1), ([1 << 63, 64], 0)]);
    cases("shr.s32 %ro, %ra, %rb;", &[([MIN, 31], M1), ([MIN, 40], M1), ([0x4000_0000, 40], 0)]);
    cases("shr.b32 %ro, %ra, %rb;", &[([MIN, 4], 0x0800_0000)]);
    cases("shr.s64 %do, %da, 1;", &[([1 << 63], 3 << 62)]);
    cases("shr.s16 %ho, %ha, 4;", &[([0x8000], 0xf800)]);
    cases("and.pred %po, %pa, %pb;", &[([1, 0], 0), ([1, 1], 1)]);
    cases("or.pred %po, %pa, !%pb;", &[([0, 0], 1), ([0, 1], 0)]);
    cases("xor.pred %po, %pa, %pb;", &[([1, 0], 1), ([1, 1], 0)]);
    cases("not.pred %po, %pa;", &[([1], 0)]);
    cases("mov.pred %po, %pa;", &[([1], 1)]);
}

#[test]
fn bits_funnel_shift() {
    cases("shf.l.wrap.b32 %ro, %ra, %rb, %rc;", &[([MIN, 1, 1], 3), ([MIN, 1, 33], 3)]);
    cases("shf.l.clamp.b32 %ro, %ra, %rb, %rc;", &[([0x1234, 1, 33], 0x1234)]);
    cases("shf.r.wrap.b32 %ro, %ra, %rb, %rc;", &[([2, 1, 1], 0x8000_0001), ([2, 1, 32], 2)]);
    cases("shf.r.clamp.b32 %ro, %ra, %rb, %rc;", &[([2, 1, 40], 1)]);
}

#[test]
fn bits_fields() {
    cases("bfe.u32 %ro, %ra, 16, 1;", &[([0x1_0000], 1), ([0xfffe_ffff], 0)]);
    cases(
        "bfe.u32 %ro, %ra, %rb, %rc;",
        &[([0xabcd_ef01, 8, 8], 0xef), ([M1, 28, 8], 0xf), ([M1, 0, 0], 0), ([M1, 32, 4], 0)],
    );
    cases(
        "bfe.s32 %ro, %ra, %rb, %rc;",
        &[([0x80, 4, 4], 0xffff_fff8), ([MIN, 28, 8], 0xffff_fff8), ([MIN, 40, 4], M1), ([MIN, 4, 0], 0)],
    );
    cases("bfe.u64 %do, %da, 60, 8;", &[([u64::MAX], 15)]);
    cases("bfe.s64 %do, %da, 0, 64;", &[([u64::MAX - 1], u64::MAX - 1)]);
    cases(
        "bfi.b32 %ro, %ra, %rb, %rc, %re;",
        &[([0xff, 0, 4, 4], 0xf0), ([0, M1, 28, 8], 0x0fff_ffff), ([M1, 5, 3, 0], 5)],
    );
    cases("bfi.b32 %ro, %ra, %rb, %rc, %re;", &[([M1, 5, 40, 8], 5)]);
    cases("bfi.b64 %do, %da, %db, 32, 32;", &[([7, 9], 7 << 32 | 9)]);
    // 32 bits look at the low byte of the start and the length, 64 bits at all of them.
    cases("bfe.u32 %ro, %ra, %rb, %rc;", &[([M1, 0x104, 0x101], 1)]);
    cases("bfi.b32 %ro, %ra, %rb, 256, 257;", &[([M1, 0], 1)]);
    cases("bfe.u64 %do, %da, 4, %rb;", &[([u64::MAX, 0x100], u64::MAX >> 4)]);
    cases("bfe.s64 %do, %da, %rb, 4;", &[([1 << 63, 0x100], u64::MAX), ([1, 0x100], 0)]);
    cases("bfi.b64 %do, %da, %db, %rc, 256;", &[([7, 9, 0], 7), ([7, 9, 256], 9)]);
}

#[test]
fn bits_permute_and_lop3() {
    cases("prmt.b32 %ro, %ra, %rb, 0x7531;", &[([0x3322_1100, 0x7766_5544], 0x7755_3311)]);
    cases("prmt.b32 %ro, %ra, %rb, 0x0008;", &[([0x80, 0], 0x8080_80ff)]);
    cases("prmt.b32.f4e %ro, %ra, %rb, %rc;", &[([0x3322_1100, 0x7766_5544, 1], 0x4433_2211)]);
    cases("prmt.b32.b4e %ro, %ra, %rb, %rc;", &[([0x3322_1100, 0x7766_5544, 0], 0x5566_7700)]);
    cases("prmt.b32.rc8 %ro, %ra, %rb, %rc;", &[([0x3322_1100, 0, 2], 0x2222_2222)]);
    cases("prmt.b32.ecl %ro, %ra, %rb, %rc;", &[([0x3322_1100, 0, 2], 0x3322_2222)]);
    cases("prmt.b32.ecr %ro, %ra, %rb, %rc;", &[([0x3322_1100, 0, 2], 0x2222_1100)]);
    cases("prmt.b32.rc16 %ro, %ra, %rb, %rc;", &[([0x3322_1100, 0, 1], 0x3322_3322)]);
    cases("lop3.b32 %ro, %ra, %rb, %rc, 0x80;", &[([0xf0, 0xcc, 0xaa], 0x80)]);
    cases("lop3.b32 %ro, %ra, %rb, %rc, 0x96;", &[([0xf0, 0xcc, 0xaa], 0x96)]);
    cases("lop3.b32 %ro, %ra, %rb, %rc, 0xea;", &[([0x0f, 0x33, 0x40], 0x43)]);
}

#[test]
fn bits_counts() {
    cases("popc.b32 %ro, %ra;", &[([0xf0f0], 8)]);
    cases("popc.b64 %ro, %da;", &[([u64::MAX], 64)]);
    cases("clz.b32 %ro, %ra;", &[([1], 31), ([0], 32)]);
    cases("clz.b64 %ro, %da;", &[([1], 63), ([0], 64)]);
    cases("brev.b32 %ro, %ra;", &[([1], MIN), ([0x1234_5678], 0x1e6a_2c48)]);
    cases("brev.b64 %do, %da;", &[([1], 1 << 63)]);
    cases("bfind.u32 %ro, %ra;", &[([0x10], 4), ([0], M1)]);
    cases("bfind.s32 %ro, %ra;", &[([M1], M1), ([0xffff_ff00], 7), ([0x10], 4)]);
    cases("bfind.shiftamt.u32 %ro, %ra;", &[([0x10], 27), ([0], M1)]);
    cases("bfind.u64 %ro, %da;", &[([1 << 40], 40)]);
}

#[test]
fn compare_integers_by_sign() {
    for (name, table) in [
        ("lt.s32", [1, 0, 0]),
        ("lt.u32", [0, 0, 1]),
        ("le.s32", [1, 1, 0]),
        ("gt.s32", [0, 0, 1]),
        ("gt.u32", [1, 0, 0]),
        ("ge.u32", [1, 1, 0]),
        ("eq.b32", [0, 1, 0]),
        ("ne.s32", [1, 0, 1]),
        ("lo.u32", [0, 0, 1]),
        ("ls.u32", [0, 1, 1]),
        ("hi.u32", [1, 0, 0]),
        ("hs.u32", [1, 1, 0]),
    ] {
        let text = format!("setp.{name} %po, %ra, %rb;");
        cases(&text, &[([M1, 1], table[0]), ([5, 5], table[1]), ([1, M1], table[2])]);
    }
    cases("setp.lt.s16 %po, %ha, %hb;", &[([0xffff, 0], 1)]);
    cases("setp.ge.u64 %po, %da, %db;", &[([u64::MAX, 0], 1)]);
    cases("setp.lt.s64 %po, %da, -1;", &[([u64::MAX - 1], 1)]);
}

#[test]
fn compare_joins_and_writes_both_predicates() {
    cases("setp.eq.and.s32 %po, %ra, %rb, %pc;", &[([1, 1, 0], 0), ([1, 1, 1], 1)]);
    cases("setp.eq.or.s32 %po, %ra, %rb, !%pc;", &[([1, 2, 0], 1), ([1, 2, 1], 0)]);
    cases("setp.eq.xor.s32 %po, %ra, %rb, %pc;", &[([1, 1, 1], 0), ([1, 2, 1], 1)]);
    cases("setp.lt.s32 %pq|%po, %ra, %rb;", &[([1, 2], 0), ([2, 1], 1)]);
    // The negated comparison is joined in the same way.
    cases("setp.lt.and.s32 %pq|%po, %ra, %rb, %pc;", &[([2, 1, 0], 0), ([2, 1, 1], 1)]);
    cases("set.lt.u32.s32 %ro, %ra, %rb;", &[([1, 2], M1), ([2, 1], 0)]);
    cases("set.lt.f32.s32 %ro, %ra, %rb;", &[([1, 2], 0x3f80_0000), ([2, 1], 0)]);
    cases("slct.b32.s32 %ro, %ra, %rb, %rc;", &[([1, 2, 0], 1), ([1, 2, MIN], 2)]);
    cases("selp.b16 %ho, %ha, %hb, %pc;", &[([1, 2, 1], 1), ([1, 2, 0], 2)]);
    cases("selp.b64 %do, %da, 5, !%pb;", &[([1, 1], 5), ([1, 0], 1)]);
}

#[test]
fn moves_split_and_pack() {
    cases("{ .reg .b32 t; mov.b64 {t, %ro}, %da; }", &[([0x1111_2222_3333_4444], 0x1111_2222)]);
    cases("{ .reg .b16 t; mov.b32 {t, %ho}, %ra; }", &[([0x1111_2222], 0x1111)]);
    cases("mov.b64 %do, {%ra, %rb};", &[([1, 2], 2 << 32 | 1)]);
    cases("mov.b32 %ro, {%ha, %hb};", &[([1, 2], 2 << 16 | 1)]);
    cases("mov.b64 %do, {%ha, %hb, %hc, %ha};", &[([1, 2, 3], 1 << 48 | 3 << 32 | 2 << 16 | 1)]);
    cases("mov.u32 %ro, WARP_SZ;", &[([], 32)]);
    cases("mov.f32 %ro, 0f3F800000;", &[([], 0x3f80_0000)]);
    assert_eq!(eval("mov.f64 %do, 0d3FF0000000000000;", &[]), 1.0_f64.to_bits());
}
