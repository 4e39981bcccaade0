//! Bad input: malformed text and launches that do not fit give errors with the line.

use super::common::{HEAD, Run, kernel};
use cotangent_tests::ptx::{Kind, Launch, Machine, Memory, Module, Options, PtxError};

fn error(text: &str) -> PtxError {
    Module::parse(text).expect_err(text)
}

/// An entry whose body starts on line 7.
fn body(text: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 p) {{\n.reg .pred %p<4>; .reg .b16 %h<4>;\n.reg .b32 %r<8>; .reg .b64 %d<8>;\n{text}\nret;\n}}\n"
    )
}

#[test]
fn parse_unknown_instructions_and_modifiers_are_named() {
    for (text, instruction, what) in [
        ("frobnicate.b32 %r0, %r1;", "frobnicate.b32", "does not know"),
        ("add.s32.wobble %r0, %r1, %r2;", "add.s32.wobble", ".wobble"),
        ("add.cc.u16 %h0, %h1, %h2;", "add.cc.u16", "no form for .u16"),
        ("ld.global.v3.b32 %r0, [%d0];", "ld.global.v3.b32", ".v3"),
        ("cvt.f32.s32 %r0, %r1;", "cvt.f32.s32", "no rounding"),
        ("cvt.rn.s32.f32 %r0, %r1;", "cvt.rn.s32.f32", "no rounding to an integer"),
        ("fma.f32 %r0, %r1, %r2, %r3;", "fma.f32", "no rounding"),
        ("fma.rz.f64 %d0, %d1, %d2, %d3;", "fma.rz.f64", "nearest"),
        ("mul.s32 %r0, %r1, %r2;", "mul.s32", ".wide"),
        ("atom.global.add.s64 %d0, [%d1], %d2;", "atom.global.add.s64", "no .add of .s64"),
        ("mbarrier.init.shared.b64 [%r0], 1;", "mbarrier.init.shared.b64", "does not know"),
        ("setp.lo.s32 %p0, %r0, %r1;", "setp.lo.s32", "no comparison"),
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned", "does not know"),
        ("add.s32 %r0, %r1;", "add.s32", "2 operands"),
        ("add.s32 %r0, %d1, %r2;", "add.s32", "64 bits where 32"),
        ("add.s32 %r0, %r1, 4294967296;", "add.s32", "does not fit"),
        ("add.s32 %r0, %p1, %r2;", "add.s32", "predicate"),
        ("mov.b32 5, %r1;", "mov.b32", "no register"),
        ("ld.global.b32 %r0, [%r1];", "ld.global.b32", "64-bit address"),
        ("st.param.b32 [p], %r0;", "st.param.b32", "read-only"),
        ("call nobody;", "call", "no function"),
        ("brx.idx %r0, nowhere;", "brx.idx", "no list"),
    ] {
        match error(&body(text)) {
            PtxError::Unsupported { line, instruction: found, what: why } => {
                assert_eq!((line, found.as_str()), (7, instruction), "{text}");
                assert!(why.contains(what), "{text}: {why}");
            }
            other @ PtxError::Syntax { .. } => panic!("{text}: {other}"),
        }
    }
}

#[test]
fn parse_syntax_errors_name_their_line() {
    for (text, line, what) in [
        (body("mov.b32 %r0, %r99;"), 7, "unknown symbol `%r99`"),
        (body("mov.b32 %r0, __spec_kh;"), 7, "unknown symbol `__spec_kh`"),
        (body("bra NOWHERE;"), 4, "label `NOWHERE`"),
        (body("L: ret;\nL: ret;"), 8, "defined twice"),
        (body("add.s32 %r0, %r1, %r2"), 8, "expected `;`"),
        (body("add.s32 %r0, [%r1"), 8, "expected `]`"),
        (body(".reg .b33 %x;"), 7, "unknown register type"),
        (body(".frob;"), 7, "unknown directive"),
        (body("@%p0;"), 7, "expected an instruction"),
        (format!("{HEAD}.visible .entry k( {{ ret; }}"), 4, "`.param`"),
        (format!("{HEAD}.visible .entry k() {{ ret;"), 4, "a statement"),
        (format!("{HEAD}.global .b32 x;\n.global .b32 x;"), 5, "declared twice"),
        (format!("{HEAD}.global .align 3 .b32 x;"), 4, "alignment 3"),
        (format!("{HEAD}.shared .b8 x[99999999999];"), 4, "the limit"),
        (format!("{HEAD}.shared .b8 x[];"), 4, "no size"),
        (format!("{HEAD}.visible .entry k() {{ ret; }}\n.visible .entry k() {{ ret; }}"), 5, "defined twice"),
        (".version 7.0\n.target sm_70\n.address_size 32\n".to_owned(), 3, "address size 32"),
        ("hello".to_owned(), 1, "unknown directive"),
        (String::new(), 1, "no `.target`"),
        (
            format!("{HEAD}.func f() {{ call f; ret; }}\n.visible .entry k() {{ call f; ret; }}"),
            4,
            "recursion",
        ),
    ] {
        let found = error(&text);
        assert!(found.to_string().contains(what), "{text}\n{found}");
        assert_eq!(found.line(), line, "{text}\n{found}");
    }
}

#[test]
fn launch_errors_give_the_numbers() {
    let text = format!("{HEAD}.visible .entry k(.param .u64 p, .param .u32 n) {{ ret; }}");
    let module = Module::parse(&text).expect("parses");
    let sound = [vec![0; 8], vec![0; 4]];
    let launch = Launch { grid: [1; 3], block: [1; 3], shared_bytes: 0, params: &sound };
    let run = |entry: &str, launch: Launch<'_>| {
        Machine::new(&module).launch(entry, launch, &mut Memory::new(), &Options::default())
    };
    assert!(run("k", launch).is_ok());
    let short = [vec![0; 8]];
    let narrow = [vec![0; 8], vec![0; 8]];
    for (entry, launch, what) in [
        ("j", launch, "no such entry"),
        ("k", Launch { params: &short, ..launch }, "1 arguments for 2 parameters"),
        ("k", Launch { params: &narrow, ..launch }, "has 4 bytes, its argument 8"),
        ("k", Launch { grid: [0, 1, 1], ..launch }, "grid [0, 1, 1]"),
        ("k", Launch { grid: [1, 65_536, 1], ..launch }, "grid [1, 65536, 1]"),
        ("k", Launch { block: [1024, 2, 1], ..launch }, "2048 threads"),
        ("k", Launch { block: [1, 1, 65], ..launch }, "block [1, 1, 65]"),
        ("k", Launch { shared_bytes: 4, ..launch }, "does not use"),
        ("k", Launch { shared_bytes: 300_000, ..launch }, "300000 bytes of shared memory"),
        ("k", Launch { grid: [i32::MAX as u32, 2, 1], ..launch }, "blocks"),
    ] {
        let report = run(entry, launch).expect_err(what);
        assert_eq!(report.kind, Kind::Launch);
        assert!(report.what.contains(what), "{report}");
        assert_eq!(report.line, if entry == "k" { 4 } else { 0 });
    }
}

#[test]
fn parse_accepts_what_compilers_write() {
    let text = "//\n// Generated by LLVM NVPTX Back-End\n//\n\n.version 7.8\n.target sm_80, debug\n.address_size 64\n
.file 1 \"a.rs\"\n.extern .func (.param .b32 r) missing(.param .b32 a);\n.weak .func helper() { ret; }
.visible .entry k(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 s[24]) .maxntid 128, 1, 1 .minnctapersm 2
{\n.reg .b32 %r<2>;\n.loc 1 5 3\n.pragma \"nounroll\";\n// begin inline asm\n{ .reg .b32 t; mov.b32 t, 1; }\n// end inline asm\n/* x */ ret;\n}\n.section .debug_str { .b8 1, 2 }\n";
    let module = Module::parse(text).expect("parses");
    let entry = &module.entries()[0];
    assert_eq!((entry.name.as_str(), entry.line, entry.threads), ("k", 12, Some(([128, 1, 1], false))));
    assert_eq!((module.version(), module.target()), ((7, 8), "sm_80"));
}

#[test]
fn approximate_instructions_are_listed() {
    let text =
        kernel(0, "", "mov.b32 %r10, 0f3F800000;\nex2.approx.f32 %r11, %r10;\nadd.f32 %r12, %r11, %r10;");
    let module = Module::parse(&text).expect("parses");
    let listed = module.approximate("k");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].1, "ex2.approx.f32");
    assert!(Run::new(1).launch(&text).is_ok());
}
