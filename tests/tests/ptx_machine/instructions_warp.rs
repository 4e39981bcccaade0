//! Operations among lanes, and on matrices.

use super::common::{HEAD, Run, kernel};

/// Runs `body`, which leaves a word a lane in `%r40`, on one warp.
fn warp(body: &str) -> Vec<u32> {
    warp_of(32, body)
}

fn warp_of(threads: u32, body: &str) -> Vec<u32> {
    let body = format!("add.s64 %d10, %d0, %d30;\n{body}\nst.global.b32 [%d10], %r40;");
    let mut run = Run::new(threads).output("out", 4 * threads as usize);
    run.launch(&kernel(1, "", &body)).unwrap_or_else(|report| panic!("{report}"));
    run.read(0)
}

fn lanes(f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(f).collect()
}

#[test]
fn shuffle_in_every_mode() {
    let all = "0xffffffff";
    assert_eq!(warp(&format!("shfl.sync.bfly.b32 %r40, %r0, 16, 31, {all};")), lanes(|l| l ^ 16));
    assert_eq!(warp(&format!("shfl.sync.idx.b32 %r40, %r0, 5, 31, {all};")), lanes(|_| 5));
    assert_eq!(
        warp(&format!("shfl.sync.down.b32 %r40, %r0, 3, 31, {all};")),
        lanes(|l| if l + 3 < 32 { l + 3 } else { l })
    );
    assert_eq!(
        warp(&format!("shfl.sync.up.b32 %r40, %r0, 3, 0, {all};")),
        lanes(|l| if l >= 3 { l - 3 } else { l })
    );
    // Segments of eight: the mask 0x18 in bits 8 to 12.
    assert_eq!(warp(&format!("shfl.sync.idx.b32 %r40, %r0, 1, 0x181f, {all};")), lanes(|l| l & !7 | 1));
    assert_eq!(
        warp(&format!("shfl.sync.down.b32 %r40|%p0, %r0, 6, 0x1807, {all}; @!%p0 mov.b32 %r40, 99;")),
        lanes(|l| if l % 8 < 2 { l + 6 } else { 99 })
    );
}

#[test]
fn shuffle_among_a_part_of_the_warp() {
    let body = "mov.b32 %r40, 7; setp.ge.u32 %p0, %r0, 8; @%p0 bra SKIP;
        shfl.sync.bfly.b32 %r40, %r0, 1, 31, 0xff; SKIP:";
    assert_eq!(warp(body), lanes(|l| if l < 8 { l ^ 1 } else { 7 }));
    // Two groups at one instruction, each with a mask of its own.
    let body = "and.b32 %r10, %r0, 16; mov.b32 %r11, 0xffff; shl.b32 %r11, %r11, %r10;
        shfl.sync.idx.b32 %r40, %r0, 3, 0x100f, %r11;";
    assert_eq!(warp(body), lanes(|l| (l & 16) + 3));
    // Lanes that have exited are not waited for.
    let body = "setp.ge.u32 %p0, %r0, 30; @!%p0 bra GO; mov.b32 %r40, 1; st.global.b32 [%d10], %r40; ret;
        GO: shfl.sync.bfly.b32 %r40, %r0, 1, 31, 0xffffffff;";
    assert_eq!(warp(body), lanes(|l| if l < 30 { l ^ 1 } else { 1 }));
}

#[test]
fn shuffle_waits_for_lanes_on_another_path() {
    // Both paths lead to the same shuffle, one of them through a loop.
    let body = "setp.lt.u32 %p0, %r0, 4; @%p0 bra LONG; bra.uni MEET;
        LONG: mov.b32 %r10, 20; L: sub.s32 %r10, %r10, 1; setp.ne.s32 %p1, %r10, 0; @%p1 bra L;
        MEET: shfl.sync.bfly.b32 %r40, %r0, 31, 31, 0xffffffff;";
    assert_eq!(warp(body), lanes(|l| l ^ 31));
}

#[test]
fn vote_match_redux_activemask() {
    let odd = "and.b32 %r10, %r0, 1; setp.eq.s32 %p0, %r10, 1;";
    assert_eq!(warp(&format!("{odd} vote.sync.ballot.b32 %r40, %p0, 0xffffffff;")), lanes(|_| 0xaaaa_aaaa));
    for (mode, answer) in [("all", 0), ("any", 1), ("uni", 0)] {
        let body = format!("{odd} vote.sync.{mode}.pred %p1, %p0, 0xffffffff; selp.b32 %r40, 1, 0, %p1;");
        assert_eq!(warp(&body), lanes(|_| answer), "{mode}");
    }
    assert_eq!(warp("redux.sync.add.s32 %r40, %r0, 0xffffffff;"), lanes(|_| 496));
    assert_eq!(
        warp("sub.s32 %r10, %r0, 5; redux.sync.min.s32 %r40, %r10, 0xffffffff;"),
        lanes(|_| -5_i32 as u32)
    );
    assert_eq!(warp("sub.s32 %r10, %r0, 5; redux.sync.max.u32 %r40, %r10, 0xffffffff;"), lanes(|_| u32::MAX));
    assert_eq!(warp("redux.sync.xor.b32 %r40, %r0, 0xffffffff;"), lanes(|_| 0));
    assert_eq!(warp("redux.sync.or.b32 %r40, %r0, 0xffffffff;"), lanes(|_| 31));
    assert_eq!(warp("or.b32 %r10, %r0, 64; redux.sync.and.b32 %r40, %r10, 0xffffffff;"), lanes(|_| 64));
    assert_eq!(
        warp("and.b32 %r10, %r0, 3; match.any.sync.b32 %r40, %r10, 0xffffffff;"),
        lanes(|l| 0x1111_1111 << (l % 4))
    );
    assert_eq!(warp("match.all.sync.b32 %r40|%p0, %r0, 0xffffffff;"), lanes(|_| 0));
    assert_eq!(warp("mov.b32 %r10, 3; match.all.sync.b32 %r40|%p0, %r10, 0xffffffff;"), lanes(|_| u32::MAX));
    let body = "activemask.b32 %r40; setp.lt.u32 %p0, %r0, 3; @%p0 activemask.b32 %r40;";
    assert_eq!(warp(body), lanes(|l| if l < 3 { 7 } else { u32::MAX }));
    assert_eq!(warp_of(5, "activemask.b32 %r40;"), [31; 5]);
}

#[test]
fn barriers_reduce_and_name() {
    let body = "add.s64 %d10, %d0, %d30; setp.lt.u32 %p0, %r0, 40; bar.red.popc.u32 %r10, 0, %p0;
        bar.red.and.pred %p1, 1, %p0; bar.red.or.pred %p2, 2, %p0; selp.b32 %r11, 100, 0, %p1; selp.b32 %r12, 1000, 0, %p2;
        add.s32 %r10, %r10, %r11; add.s32 %r10, %r10, %r12; st.global.b32 [%d10], %r10;";
    let mut run = Run::new(64).output("out", 256);
    run.launch(&kernel(1, "", body)).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(run.read(0), [1040; 64]);
}

#[test]
fn ldmatrix_and_stmatrix_place_their_elements() {
    // Shared memory holds halves 0, 1, 2, …; lane l names row l of the four matrices laid end to end.
    let setup = "mov.u32 %r10, tile; shl.b32 %r11, %r0, 4; add.s32 %r12, %r10, %r11; shl.b32 %r13, %r0, 3;
        mov.b32 %r14, 0x00010000; mad.lo.s32 %r15, %r13, 0x10001, %r14; add.s32 %r16, %r15, 0x20002;
        add.s32 %r17, %r15, 0x40004; add.s32 %r18, %r15, 0x60006;
        st.shared.v4.b32 [%r12], {%r15, %r16, %r17, %r18}; bar.warp.sync 0xffffffff;";
    let store = "mul.wide.u32 %d10, %r0, 16; add.s64 %d11, %d0, %d10; st.global.v4.b32 [%d11], {%r20, %r21, %r22, %r23};";
    let run_it = |body: &str| {
        let mut run = Run::new(32).output("out", 512);
        run.launch(&kernel(1, ".shared .align 16 .b8 tile[512];\n", &format!("{setup}\n{body}\n{store}")))
            .unwrap_or_else(|report| panic!("{report}"));
        run.read(0)
    };
    let element = |matrix: u32, row: u32, column: u32| 64 * matrix + 8 * row + column;
    let plain = |m: u32, l: u32| element(m, l / 4, 2 * (l % 4)) | element(m, l / 4, 2 * (l % 4) + 1) << 16;
    let turned = |m: u32, l: u32| element(m, 2 * (l % 4), l / 4) | element(m, 2 * (l % 4) + 1, l / 4) << 16;
    let x4 = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r12];";
    let expected: Vec<u32> = (0..128).map(|n| plain(n % 4, n / 4)).collect();
    assert_eq!(run_it(x4), expected);
    let expected: Vec<u32> = (0..128).map(|n| turned(n % 4, n / 4)).collect();
    assert_eq!(run_it(&x4.replace("x4", "x4.trans")), expected);
    let x2 =
        "mov.b32 %r22, 0; mov.b32 %r23, 0; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r20, %r21}, [%r12];";
    let expected: Vec<u32> = (0..128).map(|n| if n % 4 < 2 { plain(n % 4, n / 4) } else { 0 }).collect();
    assert_eq!(run_it(x2), expected);
    let x1 = "mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r20}, [%r12];";
    let expected: Vec<u32> = (0..128).map(|n| if n % 4 == 0 { turned(0, n / 4) } else { 0 }).collect();
    assert_eq!(run_it(x1), expected);
    // What is loaded and stored back transposed is transposed.
    let back = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r12]; bar.warp.sync 0xffffffff;
        stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r12], {%r20, %r21, %r22, %r23}; bar.warp.sync 0xffffffff;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r12];";
    let expected: Vec<u32> = (0..128).map(|n| turned(n % 4, n / 4)).collect();
    assert_eq!(run_it(back), expected);
}

/// Runs an mma whose fragments are filled from matrices by the layouts of the PTX manual, and compares D
/// with a literal product. `load(name, register, element)` is the code that leaves an element in `%r50`.
struct Product {
    shape: &'static str,
    k: u32,
    /// Bits of an input, and how a small integer is written in it.
    bits: u32,
    encode: fn(i32) -> u32,
}

#[test]
fn mma_multiplies_matrices() {
    let half = |x: i32| half::f16::from_f32(x as f32).to_bits() as u32;
    let brain = |x: i32| half::bf16::from_f32(x as f32).to_bits() as u32;
    let single = |x: i32| (x as f32).to_bits();
    for product in [
        Product { shape: "m16n8k8.row.col.f32.tf32.tf32.f32", k: 8, bits: 32, encode: single },
        Product { shape: "m16n8k4.row.col.f32.tf32.tf32.f32", k: 4, bits: 32, encode: single },
        Product { shape: "m16n8k16.row.col.f32.f16.f16.f32", k: 16, bits: 16, encode: half },
        Product { shape: "m16n8k8.row.col.f32.f16.f16.f32", k: 8, bits: 16, encode: half },
        Product { shape: "m16n8k16.row.col.f32.bf16.bf16.f32", k: 16, bits: 16, encode: brain },
        Product { shape: "m16n8k8.row.col.f32.bf16.bf16.f32", k: 8, bits: 16, encode: brain },
    ] {
        check_product(&product);
    }
}

/// Element (row, k) of A, (k, column) of B and (row, column) of C: small, and different everywhere.
fn a(row: u32, k: u32) -> i32 {
    (row * 7 + k * 3) as i32 % 11 - 5
}

fn b(k: u32, column: u32) -> i32 {
    (k * 5 + column * 2) as i32 % 9 - 4
}

fn c(row: u32, column: u32) -> i32 {
    (row * 8 + column) as i32 - 60
}

fn check_product(product: &Product) {
    let Product { shape, k, bits, encode } = *product;
    let per = 32 / bits;
    let (a_registers, b_registers) = (16 * k / 32 / per, 8 * k / 32 / per);
    // The host writes each lane's registers by the manual's layout: groupID = lane / 4, thread = lane % 4.
    let mut words = Vec::new();
    for lane in 0..32 {
        let (group, thread) = (lane / 4, lane % 4);
        for r in 0..a_registers {
            let row = group + if r % 2 == 1 { 8 } else { 0 };
            let first = thread * per + if r >= 2 { 4 * per } else { 0 };
            words.push((0..per).fold(0, |word, e| word | encode(a(row, first + e)) << (16 * e)));
        }
        for r in 0..b_registers {
            let first = thread * per + 4 * per * r;
            words.push((0..per).fold(0, |word, e| word | encode(b(first + e, group)) << (16 * e)));
        }
        for i in 0..4 {
            let (row, column) = (group + if i >= 2 { 8 } else { 0 }, thread * 2 + i % 2);
            words.push((c(row, column) as f32).to_bits());
        }
    }
    let stride = a_registers + b_registers + 4;
    let mut body =
        format!("mul.lo.s32 %r10, %r0, {stride}; mul.wide.u32 %d10, %r10, 4; add.s64 %d11, %d0, %d10;\n");
    let names = |first: u32, count: u32| {
        (first..first + count).map(|n| format!("%r{n}")).collect::<Vec<_>>().join(", ")
    };
    for n in 0..stride {
        body += &format!("ld.global.b32 %r{}, [%d11+{}];\n", 20 + n, 4 * n);
    }
    let (ra, rb, rc) = (
        names(20, a_registers),
        names(20 + a_registers, b_registers),
        names(20 + a_registers + b_registers, 4),
    );
    body += &format!("mma.sync.aligned.{shape} {{{}}}, {{{ra}}}, {{{rb}}}, {{{rc}}};\n", names(40, 4));
    body += "mul.wide.u32 %d12, %r0, 16; add.s64 %d13, %d1, %d12; st.global.v4.b32 [%d13], {%r40, %r41, %r42, %r43};";
    let mut run = Run::new(32).words("in", &words).output("out", 512);
    run.launch(&kernel(2, "", &body)).unwrap_or_else(|report| panic!("{shape}: {report}"));
    for (index, word) in run.read(1).into_iter().enumerate() {
        let (lane, i) = (index as u32 / 4, index as u32 % 4);
        let (row, column) = (lane / 4 + if i >= 2 { 8 } else { 0 }, lane % 4 * 2 + i % 2);
        let sum = (0..k).map(|n| a(row, n) * b(n, column)).sum::<i32>() + c(row, column);
        assert_eq!(f32::from_bits(word), sum as f32, "{shape}: ({row}, {column})");
    }
}

#[test]
fn mma_of_doubles() {
    let number = |x: i32| (x as f64).to_bits();
    let mut words = Vec::new();
    for lane in 0..32_u32 {
        let (group, thread) = (lane / 4, lane % 4);
        let values = [a(group, thread), b(thread, group), c(group, 2 * thread), c(group, 2 * thread + 1)];
        words.extend(values.into_iter().flat_map(|v| [number(v) as u32, (number(v) >> 32) as u32]));
    }
    let body = "mul.wide.u32 %d10, %r0, 32; add.s64 %d11, %d0, %d10; mul.wide.u32 %d12, %r0, 16; add.s64 %d13, %d1, %d12;
        ld.global.v2.b64 {%d20, %d21}, [%d11]; ld.global.v2.b64 {%d22, %d23}, [%d11+16];
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d24, %d25}, {%d20}, {%d21}, {%d22, %d23};
        st.global.v2.b64 [%d13], {%d24, %d25};";
    let mut run = Run::new(32).words("in", &words).output("out", 512);
    run.launch(&kernel(2, "", body)).unwrap_or_else(|report| panic!("{report}"));
    for (index, pair) in run.read(1).chunks(2).enumerate() {
        let (lane, i) = (index as u32 / 2, index as u32 % 2);
        let (row, column) = (lane / 4, lane % 4 * 2 + i);
        let sum = (0..4).map(|n| a(row, n) * b(n, column)).sum::<i32>() + c(row, column);
        let found = f64::from_bits((pair[1] as u64) << 32 | pair[0] as u64);
        assert_eq!(found, sum as f64, "({row}, {column})");
    }
}

#[test]
fn mma_ignores_the_low_bits_of_tf32() {
    let text = |low: u32| {
        let one = 0x3f80_0000 | low;
        format!(
            "mov.b32 %r10, {one}; mov.b32 %r11, 0;
             mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%r40, %r41, %r42, %r43}}, {{%r10, %r10, %r10, %r10}}, {{%r10, %r10}}, {{%r11, %r11, %r11, %r11}};"
        )
    };
    assert_eq!(warp(&text(0x1fff)), lanes(|_| 8.0_f32.to_bits()));
    assert_eq!(warp(&text(0)), lanes(|_| 8.0_f32.to_bits()));
}

#[test]
fn mma_cuts_terms_and_sums() {
    // Eight products of `a` and `b`, and `c`.
    let sum = |a: f32, b: f32, c: f32| {
        let [a, b, c] = [a, b, c].map(f32::to_bits);
        let text = format!(
            "mov.b32 %r10, {a}; mov.b32 %r11, {b}; mov.b32 %r12, {c};
             mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%r40, %r41, %r42, %r43}}, {{%r10, %r10, %r10, %r10}}, {{%r11, %r11}}, {{%r12, %r12, %r12, %r12}};"
        );
        f32::from_bits(warp(&text)[0])
    };
    let big = 2.0_f32.powi(24);
    assert_eq!(sum(1.0, 0.5, big), big + 4.0);
    // What a term has below 2⁻²⁵ of the largest is lost, whatever its sign.
    assert_eq!(sum(1.0, 0.25, big), big);
    assert_eq!(sum(1.0, -0.25, big), big);
    assert_eq!(sum(1.0, 1.0, f32::from_bits(0x3f80_0007)), 9.0);
    assert_eq!(sum(-1.0, 1.0, f32::from_bits(0xbf80_0007)), -9.0);
    let tiny = f32::from_bits(0x1f80_0000);
    assert_eq!(sum(tiny, tiny, 0.0), 8.0 * tiny * tiny);
    assert_eq!(sum(0.0, 1.0, f32::from_bits(1)).to_bits(), 1);
    assert_eq!(sum(0.0, 0.0, 0.0).to_bits(), 0);
    assert_eq!(sum(f32::INFINITY, 1.0, 1.0), f32::INFINITY);
    assert_eq!(sum(f32::INFINITY, 0.0, 1.0).to_bits(), 0x7fff_ffff);
}

#[test]
fn launch_bounds_are_compared() {
    let text = format!("{HEAD}.visible .entry k() .reqntid 64, 1, 1 {{ ret; }}");
    assert!(Run::new(64).launch(&text).is_ok());
    let report = Run::new(32).launch(&text).expect_err("a wrong block");
    assert!(report.what.contains("[64, 1, 1]"), "{report}");
}
