//! Planted faults in memory accesses: each is caught, and its sound twin passes.

use super::common::{HEAD, Run, kernel, try_eval};
use cotangent_tests::ptx::{Kind, Launch, Machine, Memory, Module, Options, Report};

fn fails(mut run: Run, text: &str, kind: Kind) -> Box<Report> {
    let report = run.launch(text).expect_err("the fault is caught");
    assert_eq!(report.kind, kind, "{report}");
    assert_eq!(report.kernel, "k");
    assert_eq!(text.lines().nth(report.line as usize - 1).map(str::trim), Some(report.instruction.as_str()));
    report
}

fn passes(mut run: Run, text: &str) -> Run {
    run.launch(text).unwrap_or_else(|report| panic!("the sound twin: {report}"));
    run
}

fn copy_kernel(offset: &str) -> String {
    kernel(
        2,
        "",
        &format!(
            "add.s64 %d10, %d0, %d31; add.s64 %d11, %d1, %d31;\nld.global.b32 %r10, [%d10{offset}];\nst.global.b32 [%d11], %r10;"
        ),
    )
}

#[test]
fn fault_out_of_bounds_by_one_element() {
    let run = || Run::new(32).grid(2).words("in", &[7; 64]).output("out", 256);
    passes(run(), &copy_kernel(""));
    let report = fails(run(), &copy_kernel("+4"), Kind::OutOfBounds);
    assert_eq!((report.block, report.thread), ([1, 0, 0], [31, 0, 0]));
    assert_eq!(report.address.as_deref(), Some("buffer `in` + 256 bytes, which has 256"));
    let report = fails(run(), &copy_kernel("+-4"), Kind::OutOfBounds);
    assert_eq!((report.block, report.thread), ([0; 3], [0; 3]));
    assert_eq!(report.address.as_deref(), Some("buffer `in` - 4 bytes"));
    let store = copy_kernel("").replace("st.global.b32 [%d11]", "st.global.b32 [%d11+4]");
    let report = fails(run(), &store, Kind::OutOfBounds);
    assert!(report.address.is_some_and(|at| at.starts_with("buffer `out` + 256")));
}

#[test]
fn fault_vector_straddles_the_end() {
    let text = kernel(1, "", "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%d0+16];");
    passes(Run::new(1).words("in", &[0; 8]), &text);
    fails(Run::new(1).words("in", &[0; 7]), &text, Kind::OutOfBounds);
    let wild = kernel(1, "", "mov.b64 %d10, 64; ld.global.b32 %r10, [%d10];");
    let report = fails(Run::new(1).words("in", &[0]), &wild, Kind::OutOfBounds);
    assert!(report.to_string().contains("OutOfBounds"), "{report}");
}

#[test]
fn fault_misaligned_vector() {
    let text = kernel(1, "", "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%d0];");
    let module = Module::parse(&text).expect("parses");
    for (misalign, sound) in [(0, true), (16, true), (4, false), (8, false), (2, false)] {
        let mut memory = Memory::new();
        let buffer = memory.alloc_with("in", &[0; 16], misalign);
        let params = [memory.address(buffer).to_le_bytes().to_vec()];
        let launch = Launch { grid: [1; 3], block: [1; 3], shared_bytes: 0, params: &params };
        let result = Machine::new(&module).launch("k", launch, &mut memory, &Options::default());
        match result {
            Ok(_) => assert!(sound, "{misalign}"),
            Err(report) => assert!(!sound && report.kind == Kind::Misaligned, "{report}"),
        }
    }
}

#[test]
fn fault_shared_memory_bounds_alignment_and_gaps() {
    let declare = ".shared .align 4 .b8 one[16];\n.shared .align 4 .b8 two[16];\n";
    let text = |at: &str, op: &str| {
        kernel(
            0,
            declare,
            &format!(
                "mov.b32 %r10, 1; mov.b64 %d10, 1;\n{op} [{at}], %{};",
                if op.ends_with("64") { "d10" } else { "r10" }
            ),
        )
    };
    passes(Run::new(1), &text("one+12", "st.shared.b32"));
    let report = fails(Run::new(1), &text("one+16", "st.shared.b32"), Kind::OutOfBounds);
    assert_eq!(report.address.as_deref(), Some("shared `one` + 16 bytes, which has 16"));
    fails(Run::new(1), &text("two+-4", "st.shared.b32"), Kind::OutOfBounds);
    fails(Run::new(1), &text("one+2", "st.shared.b32"), Kind::Misaligned);
    fails(Run::new(1), &text("one+4", "st.shared.b64"), Kind::Misaligned);
    fails(Run::new(1), &text("one+9999", "st.shared.b32"), Kind::OutOfBounds);
}

#[test]
fn fault_dynamic_shared_memory_is_as_large_as_the_launch_says() {
    let text = format!(
        "{HEAD}.extern .shared .align 16 .b8 tile[];\n.visible .entry k() {{ .reg .b32 %r0;\nmov.b32 %r0, 1;\nst.shared.b32 [tile+28], %r0;\nret; }}"
    );
    let run = |bytes| {
        let mut run = Run::new(1);
        run.shared_bytes = bytes;
        run
    };
    passes(run(32), &text);
    fails(run(28), &text, Kind::OutOfBounds);
}

#[test]
fn fault_uninitialised_read_is_reported_where_it_decides() {
    // Copying is fine; arithmetic is not.
    let copy = kernel(2, "", "ld.global.b32 %r10, [%d0];\nmov.b32 %r11, %r10;\nst.global.b32 [%d1], %r11;");
    let run = passes(Run::new(1).output("in", 4).output("out", 4), &copy);
    let missing = run.memory.check_written(run.buffers[1], 0..4).expect_err("undefined bytes");
    assert_eq!((missing.missing, missing.first), (4, 0));
    assert!(missing.to_string().contains("stored an undefined value at offset 0"), "{missing}");
    let add = kernel(2, "", "ld.global.b32 %r10, [%d0];\nadd.s32 %r11, %r10, 1;\nst.global.b32 [%d1], %r11;");
    let report = fails(Run::new(1).output("in", 4).output("out", 4), &add, Kind::Undefined);
    assert_eq!(report.what, "uses the undefined register `%r10`");
    passes(Run::new(1).words("in", &[1]).output("out", 4), &add);
}

#[test]
fn fault_undefined_registers_in_every_role() {
    let roles = [
        ("ld.global.b32 %r20, [%d20];", "%d20"),
        ("st.global.b32 [%d20], %r0;", "%d20"),
        ("setp.eq.s32 %p1, %r20, 0;", "%r20"),
        ("@%p3 bra L; L:", "%p3"),
        ("selp.b32 %r21, 1, 2, %p3;", "%p3"),
        ("fma.rn.f32 %r21, %r0, %r0, %r20;", "%r20"),
        ("cvt.rn.f32.s32 %r21, %r20;", "%r20"),
        ("shfl.sync.idx.b32 %r21, %r0, %r20, 31, 1;", "%r20"),
        ("shfl.sync.idx.b32 %r21, %r0, 0, 31, %r20;", "%r20"),
        ("bar.sync %r20;", "%r20"),
        ("red.global.add.u32 [%d0], %r20;", "%r20"),
    ];
    for (text, name) in roles {
        let report = fails(Run::new(1).words("x", &[0]), &kernel(1, "", text), Kind::Undefined);
        assert!(report.what.contains(&format!("`{name}`")), "{text}: {report}");
    }
}

#[test]
fn undefined_bytes_travel_through_copies() {
    // One half of a word is written; splitting it finds that half defined.
    let declare = ".shared .align 8 .b8 s[16];\n";
    let split = |part: &str| {
        kernel(
            1,
            declare,
            &format!(
                "mov.b16 %h0, 7; st.shared.b16 [s+2], %h0; ld.shared.b32 %r10, [s]; mov.b32 {{%h1, %h2}}, %r10;\nadd.s16 %h3, {part}, 1;"
            ),
        )
    };
    passes(Run::new(1).words("x", &[0]), &split("%h2"));
    fails(Run::new(1).words("x", &[0]), &split("%h1"), Kind::Undefined);
    // Packing, permuting, cutting and shuffling keep track of bytes as well.
    let sound = "mov.b16 %h0, 7; st.shared.b16 [s+2], %h0; ld.shared.b32 %r10, [s];
        prmt.b32 %r11, %r10, 0, 0x4432; add.s32 %r12, %r11, 1;
        mov.b64 %d10, {%r10, %r12}; st.shared.b64 [s+8], %d10; ld.shared.b32 %r13, [s+12]; add.s32 %r13, %r13, 1;
        mov.b32 {%h1, %h2}, %r10; cvt.u32.u16 %r14, %h2; add.s32 %r14, %r14, 1;
        shfl.sync.idx.b32 %r15, %r10, 0, 31, 1; prmt.b32 %r16, %r15, 0, 0x4443; add.s32 %r16, %r16, 1;
        setp.eq.s32 %p0, %r0, 0; selp.b32 %r17, %r12, %r10, %p0; add.s32 %r17, %r17, 1;";
    passes(Run::new(1).words("x", &[0]), &kernel(1, declare, sound));
    for (from, to) in [
        ("0x4432", "0x4431"),
        ("[s+12]", "[s+8]"),
        ("0x4443", "0x4440"),
        ("%r12, %r10, %p0", "%r10, %r12, %p0"),
    ] {
        fails(Run::new(1).words("x", &[0]), &kernel(1, declare, &sound.replace(from, to)), Kind::Undefined);
    }
}

#[test]
fn fault_half_written_output() {
    let text = |bound: u32| {
        kernel(
            1,
            "",
            &format!(
                "setp.ge.u32 %p0, %r3, {bound}; @%p0 bra E; add.s64 %d10, %d0, %d31; st.global.b32 [%d10], %r3; E:"
            ),
        )
    };
    let run = passes(Run::new(32).grid(2).output("out", 240), &text(60));
    run.memory.check_written(run.buffers[0], 0..240).expect("all of it");
    let run = passes(Run::new(32).grid(2).output("out", 240), &text(59));
    let missing = run.memory.check_written(run.buffers[0], 0..240).expect_err("the last is missing");
    assert_eq!((missing.missing, missing.first, missing.wanted), (4, 236, 240));
    // An output that the host filled before is initialised, and still not written.
    let run = passes(Run::new(32).grid(2).words("out", &[0; 60]), &text(59));
    let missing = run.memory.check_written(run.buffers[0], 0..240).expect_err("the last is missing");
    assert_eq!((missing.first, missing.state), (236, "written"));
    assert_eq!(run.memory.check_untouched(run.buffers[0], 236..240), Ok(()));
    assert_eq!(run.memory.check_untouched(run.buffers[0], 230..240), Err(230));
}

#[test]
fn fault_ragged_tile_overwrites_the_next_row() {
    // Rows of 5 in tiles of 4: without the guard, the second tile of a row runs into the next.
    let text = |guard: &str| {
        kernel(
            1,
            "",
            &format!(
                "mov.u32 %r10, %ctaid.y; shl.b32 %r11, %r1, 2; add.s32 %r12, %r11, %r0;\nsetp.ge.u32 %p0, %r12, 5;\n{guard}\nmad.lo.s32 %r13, %r10, 5, %r12; mul.wide.u32 %d10, %r13, 4; add.s64 %d11, %d0, %d10;\nst.global.b32 [%d11], %r10;\nE:"
            ),
        )
    };
    let run = || {
        let mut run = Run::new(4).output("y", 60);
        run.grid = [2, 3, 1];
        run
    };
    let done = passes(run(), &text("@%p0 bra E;"));
    done.memory.check_written(done.buffers[0], 0..60).expect("all of it");
    let mut faulty = run();
    let report = faulty.launch(&text("")).expect_err("caught");
    assert!(matches!(report.kind, Kind::Race | Kind::OutOfBounds), "{report}");
}

#[test]
fn fault_writes_to_read_only_memory() {
    let text = kernel(1, "", "st.global.b32 [%d0], %r0;");
    let module = Module::parse(&text).expect("parses");
    let mut memory = Memory::new();
    let buffer = memory.alloc_read_only("x", &[0; 4], 0);
    let params = [memory.address(buffer).to_le_bytes().to_vec()];
    let launch = Launch { grid: [1; 3], block: [1; 3], shared_bytes: 0, params: &params };
    let report =
        Machine::new(&module).launch("k", launch, &mut memory, &Options::default()).expect_err("caught");
    assert_eq!(report.kind, Kind::ReadOnly);
    let reading = kernel(1, "", "ld.global.b32 %r10, [%d0];");
    let module = Module::parse(&reading).expect("parses");
    Machine::new(&module).launch("k", launch, &mut memory, &Options::default()).expect("reading is allowed");
}

#[test]
fn fault_local_and_parameter_bounds() {
    let local =
        |at: u32| format!("{{ .local .align 4 .b8 d[8]; st.local.b32 [d+{at}], %ra; }} mov.b64 %do, 0;");
    assert!(try_eval(&local(4), &[1]).is_ok());
    assert_eq!(try_eval(&local(8), &[1]).expect_err("caught").kind, Kind::OutOfBounds);
    let param = |at: u32| format!("ld.param.b32 %ro, [in_a+{at}];");
    assert!(try_eval(&param(4), &[1]).is_ok());
    assert_eq!(try_eval(&param(8), &[1]).expect_err("caught").kind, Kind::OutOfBounds);
    assert_eq!(try_eval(&param(2), &[1]).expect_err("caught").kind, Kind::Misaligned);
}
