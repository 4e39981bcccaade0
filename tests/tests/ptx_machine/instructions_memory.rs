//! Loads, stores, atomics, asynchronous copies, calls and branches.

use super::common::{HEAD, Run, cases, eval, f, kernel};
use cotangent_tests::ptx::{Launch, Machine, Memory, Module, Options, ParamKind};

#[test]
fn memory_widths_extend_as_their_types_say() {
    let program = |load: &str| kernel(2, "", &format!("{load}\nst.global.b64 [%d1], %d10;"));
    let table = [
        ("ld.global.u8 %r10, [%d0]; cvt.u64.u32 %d10, %r10;", 0xf1),
        ("ld.global.s8 %r10, [%d0]; cvt.u64.u32 %d10, %r10;", 0xffff_fff1),
        ("ld.global.b16 %r10, [%d0+2]; cvt.u64.u32 %d10, %r10;", 0xf4f3),
        ("ld.global.s16 %d10, [%d0];", 0xffff_ffff_ffff_f2f1),
        ("ld.global.s32 %d10, [%d0+4];", 0xffff_ffff_f8f7_f6f5),
        ("ld.global.b64 %d10, [%d0];", 0xf8f7_f6f5_f4f3_f2f1),
        ("ld.b32 %r10, [%d0]; cvt.u64.u32 %d10, %r10;", 0xf4f3_f2f1),
        ("ld.global.nc.L1::no_allocate.b32 %r10, [%d0+-0]; cvt.u64.u32 %d10, %r10;", 0xf4f3_f2f1),
        ("ld.relaxed.gpu.global.b32 %r10, [%d0]; cvt.u64.u32 %d10, %r10;", 0xf4f3_f2f1),
        ("ld.acquire.cta.global.b32 %r10, [%d0]; cvt.u64.u32 %d10, %r10;", 0xf4f3_f2f1),
        ("ld.volatile.global.b32 %r10, [%d0]; cvt.u64.u32 %d10, %r10;", 0xf4f3_f2f1),
        ("ld.global.v2.b32 {%r10, %r11}, [%d0]; mov.b64 %d10, {%r11, %r10};", 0xf4f3_f2f1_f8f7_f6f5),
        (
            "ld.global.v4.b16 {%h0, %h1, %h2, %h3}, [%d0]; mov.b64 %d10, {%h3, %h2, %h1, %h0};",
            0xf2f1_f4f3_f6f5_f8f7,
        ),
        (
            "ld.global.v2.b64 {%d10, %d11}, [%d0]; sub.s64 %d10, %d10, %d11;",
            0xf8f7_f6f5_f4f3_f2f1_u64.wrapping_sub(7),
        ),
    ];
    for (load, expected) in table {
        let mut run = Run::new(1).words("in", &[0xf4f3_f2f1, 0xf8f7_f6f5, 7, 0]).output("out", 8);
        run.launch(&program(load)).unwrap_or_else(|report| panic!("{load}: {report}"));
        let words = run.read(1);
        assert_eq!((words[1] as u64) << 32 | words[0] as u64, expected, "{load}");
    }
}

#[test]
fn memory_stores_every_width() {
    let body = "mov.b32 %r10, 0x44332211; mov.b64 %d10, 0x8877665544332211;
        st.global.b8 [%d0], %r10; st.global.b16 [%d0+2], %r10; st.global.b32 [%d0+4], %r10;
        st.global.b64 [%d0+8], %d10; st.global.v2.b32 [%d0+16], {%r10, %r10};
        st.global.v4.b16 [%d0+24], {%h0, %h0, %h0, %h0}; st.relaxed.gpu.global.b32 [%d0+32], %r10;
        st.release.gpu.b32 [%d0+36], %r10; st.global.b8 [%d0+1], %r10;";
    let text = kernel(1, "", &format!("mov.b16 %h0, 0x2211;\n{body}"));
    let mut run = Run::new(1).output("out", 40);
    run.launch(&text).unwrap_or_else(|report| panic!("{report}"));
    let w = 0x4433_2211;
    let expected = [0x2211_1111, w, w, 0x8877_6655, w, w, 0x2211_2211, 0x2211_2211, w, w];
    assert_eq!(run.read(0), expected);
}

#[test]
fn memory_local_const_and_global_variables() {
    let text = format!(
        "{HEAD}.const .align 4 .b32 table[4] = {{10, 20, 30}};
.global .align 8 .b64 counter = 5;
.visible .entry k(.param .u64 p) {{
.local .align 8 .b8 depot[16];
.reg .b32 %r<8>; .reg .b64 %d<8>;
ld.param.u64 %d0, [p];
mov.u32 %r0, %tid.x;
mul.wide.u32 %d1, %r0, 4;
mov.b64 %d2, table; add.s64 %d3, %d2, %d1; ld.const.b32 %r1, [%d3];
mov.b64 %d2, depot; st.local.b32 [%d2+4], %r1; ld.local.b32 %r2, [depot+4];
cvta.local.u64 %d4, %d2; ld.b32 %r3, [%d4+4]; add.s32 %r2, %r2, %r3;
ld.const.b32 %r4, [table+4]; add.s32 %r2, %r2, %r4;
ld.global.b64 %d5, [counter]; cvt.u32.u64 %r5, %d5; add.s32 %r2, %r2, %r5;
add.s64 %d6, %d0, %d1; st.global.b32 [%d6], %r2;
ret; }}"
    );
    let mut run = Run::new(3).output("out", 12);
    run.launch(&text).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(run.read(0), [45, 65, 85]);
}

#[test]
fn memory_params_by_offset_and_address() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 out, .param .align 8 .b8 s[24]) {{
.reg .b32 %r<8>; .reg .b64 %d<8>;
ld.param.u64 %d0, [out];
ld.param.b64 %d1, [s+16];
mov.b64 %d2, s; ld.param.b32 %r0, [%d2+8];
cvta.param.u64 %d3, %d2; ld.b32 %r1, [%d3+4];
cvt.u64.u32 %d4, %r0; add.s64 %d1, %d1, %d4; cvt.u64.u32 %d4, %r1; add.s64 %d1, %d1, %d4;
st.global.b64 [%d0], %d1; ret; }}"
    );
    let module = Module::parse(&text).expect("parses");
    let params = &module.entries()[0].params;
    assert_eq!(
        (params[1].offset, params[1].size, params[1].align, params[1].kind),
        (8, 24, 8, ParamKind::Bytes)
    );
    let mut memory = Memory::new();
    let out = memory.alloc("out", 8, 0);
    let words = [1_u32, 200, 30, 4, 5000, 0];
    let arguments =
        [memory.address(out).to_le_bytes().to_vec(), words.iter().flat_map(|w| w.to_le_bytes()).collect()];
    let launch = Launch { grid: [1; 3], block: [1; 3], shared_bytes: 0, params: &arguments };
    Machine::new(&module).launch("k", launch, &mut memory, &Options::default()).expect("runs");
    assert_eq!(memory.read_all(out).expect("written"), 5230_u64.to_le_bytes());
}

#[test]
fn memory_shared_static_and_dynamic() {
    // Neighbours swap through static shared memory, and again through dynamic.
    let text = format!(
        "{HEAD}.extern .shared .align 128 .b8 dynamic[];
.visible .entry k(.param .u64 p) {{
.shared .align 4 .b8 tile[256];
.reg .b32 %r<16>; .reg .b64 %d<8>;
ld.param.u64 %d0, [p];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; xor.b32 %r2, %r1, 4;
mov.u32 %r3, tile; add.s32 %r4, %r3, %r1; add.s32 %r5, %r3, %r2;
st.shared.b32 [%r4], %r0;
bar.sync 0;
ld.shared.b32 %r6, [%r5];
mov.u32 %r7, dynamic; add.s32 %r8, %r7, %r1; add.s32 %r9, %r7, %r2;
mad.lo.s32 %r6, %r6, 10, 1;
st.shared.b32 [%r8], %r6;
barrier.sync.aligned 0;
ld.shared.b32 %r10, [%r9];
mul.wide.u32 %d1, %r1, 1; add.s64 %d2, %d0, %d1; st.global.b32 [%d2], %r10;
ret; }}"
    );
    let mut run = Run::new(64).output("out", 256);
    run.shared_bytes = 256;
    run.launch(&text).unwrap_or_else(|report| panic!("{report}"));
    let expected: Vec<u32> = (0..64).map(|n| n * 10 + 1).collect();
    assert_eq!(run.read(0), expected);
}

#[test]
fn atomics_read_modify_and_write() {
    let table: &[(&str, u32, u32)] = &[
        ("atom.global.add.u32 %r10, [%d0], 5;", 7, 12),
        ("atom.global.add.s32 %r10, [%d0], -5;", 7, 2),
        ("atom.add.u32 %r10, [%d0], 5;", 7, 12),
        ("atom.relaxed.gpu.global.add.u32 %r10, [%d0], 5;", 7, 12),
        ("atom.global.min.s32 %r10, [%d0], -5;", 7, -5_i32 as u32),
        ("atom.global.max.u32 %r10, [%d0], 9;", 7, 9),
        ("atom.global.and.b32 %r10, [%d0], 5;", 7, 5),
        ("atom.global.or.b32 %r10, [%d0], 8;", 7, 15),
        ("atom.global.xor.b32 %r10, [%d0], 5;", 7, 2),
        ("atom.global.inc.u32 %r10, [%d0], 7;", 7, 0),
        ("atom.global.inc.u32 %r10, [%d0], 8;", 7, 8),
        ("atom.global.dec.u32 %r10, [%d0], 5;", 7, 5),
        ("atom.global.exch.b32 %r10, [%d0], 5;", 7, 5),
        ("atom.global.cas.b32 %r10, [%d0], 7, 9;", 7, 9),
        ("atom.global.cas.b32 %r10, [%d0], 8, 9;", 7, 7),
        ("atom.global.add.f32 %r10, [%d0], 0f3F800000;", f(2.5) as u32, f(3.5) as u32),
        // Additions in device memory flush subnormals.
        ("atom.global.add.f32 %r10, [%d0], 0f00000001;", 1, 0),
    ];
    for (text, old, new) in table {
        let mut run = Run::new(1).words("cell", &[*old]).output("out", 4);
        run.launch(&kernel(2, "", &format!("{text}\nst.global.b32 [%d1], %r10;")))
            .unwrap_or_else(|r| panic!("{r}"));
        assert_eq!((run.read(0)[0], run.read(1)[0]), (*new, *old), "{text}");
    }
    let mut run = Run::new(1).words("cell", &[7, 1]);
    run.launch(&kernel(1, "", "red.global.add.u64 [%d0], 0x100000002;")).expect("runs");
    assert_eq!(run.read(0), [9, 2]);
    let mut run = Run::new(1).words("cell", &[0, 0x3ff0_0000]);
    run.launch(&kernel(1, "", "red.global.add.f64 [%d0], 0d3FF0000000000000;")).expect("runs");
    assert_eq!(run.read(0), [0, 0x4000_0000]);
    let mut run = Run::new(1).words("cell", &[0x3c00_3c00]);
    run.launch(&kernel(1, "", "mov.b32 %r10, 0x40003c00; red.global.add.noftz.f16x2 [%d0], %r10;"))
        .expect("runs");
    assert_eq!(run.read(0), [0x4200_4000]);
}

#[test]
fn atomics_of_many_threads_add_up() {
    let mut run = Run::new(96).words("cell", &[0]).grid(7);
    run.launch(&kernel(1, "", "red.relaxed.gpu.global.add.u32 [%d0], %r0;")).expect("runs");
    assert_eq!(run.read(0), [7 * (95 * 96 / 2)]);
    // The same in shared memory, where singles keep subnormals.
    let body = "setp.ne.s32 %p0, %r0, 0; @%p0 bra L; st.shared.b32 [cell], 0; L: bar.sync 0;
        mov.u32 %r10, cell; atom.shared.add.f32 %r11, [%r10], 0f00000001; bar.sync 0;
        @%p0 bra DONE; ld.shared.b32 %r12, [cell]; st.global.b32 [%d0], %r12; DONE:";
    let mut run = Run::new(64).output("out", 4);
    run.launch(&kernel(1, ".shared .align 4 .b32 cell;\n", body)).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(run.read(0), [64]);
}

#[test]
fn async_copies_arrive_after_the_wait() {
    let body = "mov.u32 %r10, tile; shl.b32 %r11, %r0, 4; add.s32 %r10, %r10, %r11;
        mul.wide.u32 %d10, %r0, 16; add.s64 %d11, %d0, %d10; add.s64 %d12, %d1, %d10;
        cp.async.cg.shared.global [%r10], [%d11], 16; cp.async.commit_group;
        cp.async.ca.shared.global [%r10+2048], [%d11], 4; cp.async.commit_group;
        cp.async.wait_group 1; bar.sync 0;
        xor.b32 %r12, %r11, 16; mov.u32 %r13, tile; add.s32 %r13, %r13, %r12;
        ld.shared.v4.b32 {%r14, %r15, %r16, %r17}, [%r13];
        cp.async.wait_all; ld.shared.b32 %r17, [%r10+2048];
        st.global.v4.b32 [%d12], {%r14, %r15, %r16, %r17};";
    let input: Vec<u32> = (0..256).collect();
    let mut run = Run::new(64).words("in", &input).output("out", 1024);
    run.launch(&kernel(2, ".shared .align 16 .b8 tile[4096];\n", body))
        .unwrap_or_else(|report| panic!("{report}"));
    let expected: Vec<u32> = (0..256).map(|n| if n % 4 == 3 { n - 3 } else { n ^ 4 }).collect();
    assert_eq!(run.read(1), expected);
}

#[test]
fn async_copies_fill_with_zeros_past_the_source() {
    for (size, expected) in [(0, [0, 0, 0, 0]), (4, [1, 0, 0, 0]), (8, [1, 2, 0, 0]), (12, [1, 2, 3, 0])] {
        let body = format!(
            "mov.b32 %r10, {size}; mov.u32 %r11, tile; cp.async.cg.shared.global.L2::128B [%r11], [%d0], 16, %r10;
             cp.async.wait_all; ld.shared.v4.b32 {{%r14, %r15, %r16, %r17}}, [tile];
             st.global.v4.b32 [%d1], {{%r14, %r15, %r16, %r17}};"
        );
        // The source ends where the copy does: the zeros come from nowhere.
        let mut run = Run::new(1).words("in", &[1, 2, 3][..size / 4]).output("out", 16);
        run.launch(&kernel(2, ".shared .align 16 .b8 tile[16];\n", &body))
            .unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(run.read(1), expected);
    }
}

#[test]
fn calls_pass_and_return_values_by_lane() {
    let text = format!(
        "{HEAD}.func (.param .b32 out) twice(.param .b32 x) {{
.reg .b32 %r<4>; .reg .pred %p<2>;
ld.param.b32 %r0, [x]; setp.gt.u32 %p0, %r0, 5; @%p0 bra BIG;
add.s32 %r1, %r0, %r0; st.param.b32 [out], %r1; ret;
BIG: mov.b32 %r1, 99; st.param.b32 [out], %r1; ret; }}
.visible .entry k(.param .u64 p) {{
.reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<2>;
ld.param.u64 %d0, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0;
setp.lt.u32 %p0, %r0, 2; @%p0 bra OTHER;
{{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], %r0; call.uni (r0), twice, (a0); ld.param.b32 %r1, [r0]; }}
bra.uni STORE;
OTHER: {{ .param .b32 a0; .param .b32 r0; add.s32 %r2, %r0, 100; st.param.b32 [a0], %r2;
call (r0), twice, (a0); ld.param.b32 %r1, [r0]; }}
add.s32 %r1, %r1, 1000;
STORE: st.global.b32 [%d1], %r1; ret; }}"
    );
    let mut run = Run::new(8).output("out", 32);
    run.launch(&text).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(run.read(0), [1099, 1099, 4, 6, 8, 10, 99, 99]);
}

#[test]
fn branches_by_table_and_in_loops() {
    let body = "add.s64 %d10, %d0, %d30; and.b32 %r10, %r0, 3; ts: .branchtargets A, B, C, A;
        brx.idx %r10, ts;
        A: mov.b32 %r11, 1; bra.uni END; B: mov.b32 %r11, 2; bra END; C: mov.b32 %r11, 3;
        END: mov.b32 %r12, 0; LOOP: setp.ge.u32 %p0, %r12, %r0; @%p0 bra OUT;
        add.s32 %r11, %r11, 10; add.s32 %r12, %r12, 1; bra LOOP;
        OUT: st.global.b32 [%d10], %r11;";
    let mut run = Run::new(40).output("out", 160);
    run.launch(&kernel(1, "", body)).unwrap_or_else(|report| panic!("{report}"));
    let expected: Vec<u32> = (0..40).map(|n| 10 * n + [1, 2, 3, 1][n as usize % 4]).collect();
    assert_eq!(run.read(0), expected);
}

#[test]
fn special_registers_name_the_thread() {
    let text = kernel(
        1,
        "",
        "mov.u32 %r10, %tid.y; mov.u32 %r11, %tid.z; mov.u32 %r12, %ntid.x; mov.u32 %r13, %ntid.y;
         mad.lo.s32 %r14, %r11, %r13, %r10; mad.lo.s32 %r14, %r14, %r12, %r0;
         mov.u32 %r15, %laneid; mov.u32 %r16, %warpid; mad.lo.s32 %r17, %r16, 32, %r15; sub.s32 %r18, %r14, %r17;
         mov.u32 %r20, %ctaid.y; mov.u32 %r21, %nctaid.x; mad.lo.s32 %r22, %r20, %r21, %r1;
         mov.u32 %r23, %ntid.z; mul.lo.s32 %r24, %r12, %r13; mul.lo.s32 %r24, %r24, %r23;
         mad.lo.s32 %r25, %r22, %r24, %r14; mul.wide.u32 %d10, %r25, 4; add.s64 %d11, %d0, %d10;
         mov.u32 %r26, %lanemask_lt; popc.b32 %r27, %r26; sub.s32 %r27, %r27, %r15;
         add.s32 %r28, %r18, %r27; mad.lo.s32 %r28, %r28, 100000, %r25; st.global.b32 [%d11], %r28;",
    );
    let mut run = Run::new(1).output("out", 4 * 5 * 3 * 2 * 3 * 2);
    run.block = [5, 3, 2];
    run.grid = [3, 2, 1];
    run.launch(&text).unwrap_or_else(|report| panic!("{report}"));
    let expected: Vec<u32> = (0..180).collect();
    assert_eq!(run.read(0), expected);
}

#[test]
fn addresses_convert_between_spaces() {
    let text = "{ .shared .align 8 .b64 s; .reg .b64 %t; st.shared.b64 [s], %da; mov.b64 %t, s; cvta.shared.u64 %t, %t;
        st.b8 [%t+7], 9; cvta.to.shared.u64 %t, %t; ld.shared.b64 %do, [%t]; }";
    assert_eq!(eval(text, &[5]), 9 << 56 | 5);
    cases("prefetch.global.L2 [%at]; mov.b64 %do, %da;", &[([3], 3)]);
}
