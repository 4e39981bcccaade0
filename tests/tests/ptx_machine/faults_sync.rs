//! Planted faults among threads: races, barriers, convergence, endless loops.

use super::common::{Run, kernel};
use cotangent_tests::ptx::{Kind, Report};

fn fails(mut run: Run, text: &str, kind: Kind) -> Box<Report> {
    let report = run.launch(text).expect_err("the fault is caught");
    assert_eq!(report.kind, kind, "{report}");
    report
}

fn passes(mut run: Run, text: &str) -> Run {
    run.launch(text).unwrap_or_else(|report| panic!("the sound twin: {report}"));
    run
}

/// Each thread writes its word of a tile, then reads that of the thread `distance` away.
fn exchange(barrier: &str, distance: u32) -> String {
    kernel(
        1,
        ".shared .align 4 .b8 tile[512];\n",
        &format!(
            "mov.u32 %r10, tile; shl.b32 %r11, %r0, 2; add.s32 %r12, %r10, %r11;\nst.shared.b32 [%r12], %r0;\n{barrier}\n\
             add.s32 %r13, %r0, {distance}; and.b32 %r13, %r13, 127; shl.b32 %r13, %r13, 2; add.s32 %r14, %r10, %r13;\n\
             ld.shared.b32 %r15, [%r14];\nadd.s64 %d10, %d0, %d30; st.global.b32 [%d10], %r15;"
        ),
    )
}

#[test]
fn fault_missing_barrier_in_shared_memory() {
    let run = || Run::new(128).output("out", 512);
    for distance in [1, 32, 100] {
        let done = passes(run(), &exchange("bar.sync 0;", distance));
        assert_eq!(done.read(0)[5], (5 + distance) % 128);
    }
    let report = fails(run(), &exchange("", 1), Kind::Race);
    assert!(report.what.contains("no barrier between"), "{report}");
    assert_eq!(report.instruction, "ld.shared.b32 %r15, [%r14];");
    // The machine runs warp 0 first, so later warps read what is already there: a race all the same.
    fails(run(), &exchange("", 96), Kind::Race);
    // A barrier of each warp by itself orders lanes of one warp, and no more.
    fails(run(), &exchange("bar.warp.sync 0xffffffff;", 32), Kind::Race);
}

#[test]
fn fault_write_after_read_without_a_barrier() {
    let round = |barrier: &str| {
        kernel(
            0,
            ".shared .align 4 .b8 tile[256];\n",
            &format!(
                "mov.u32 %r10, tile; shl.b32 %r11, %r0, 2; add.s32 %r12, %r10, %r11; xor.b32 %r13, %r11, 128; add.s32 %r14, %r10, %r13; mov.b32 %r20, 0;
                 LOOP:\nst.shared.b32 [%r12], %r20;\nbar.sync 0;\nld.shared.b32 %r15, [%r14];\n{barrier}\n
                 add.s32 %r20, %r20, 1; setp.lt.u32 %p0, %r20, 3; @%p0 bra LOOP;"
            ),
        )
    };
    passes(Run::new(64), &round("bar.sync 0;"));
    // Whichever of the two accesses the machine comes to last is the one it reports.
    let report = fails(Run::new(64), &round(""), Kind::Race);
    assert!(report.instruction.contains(".shared.b32"), "{report}");
}

#[test]
fn warp_barrier_orders_a_warp() {
    let text = |barrier: &str| exchange(barrier, 1).replace("127", "31");
    passes(Run::new(32).output("out", 128), &text("bar.warp.sync 0xffffffff;"));
    fails(Run::new(32).output("out", 128), &text(""), Kind::Race);
}

#[test]
fn fault_write_write_race_in_device_memory() {
    let text =
        |address: &str| kernel(1, "", &format!("add.s64 %d10, %d0, {address};\nst.global.b32 [%d10], %r3;"));
    let run = |blocks| Run::new(32).grid(blocks).output("out", 256);
    passes(run(2), &text("%d31"));
    // Two threads of a warp, two warps, two blocks.
    let report = fails(run(1), &text("0"), Kind::Race);
    assert!(report.what.contains("writes what thread 0 of block 0 wrote"), "{report}");
    let report = fails(run(2), &text("%d30"), Kind::Race);
    assert!(report.what.contains("of block"), "{report}");
    // Bytes of one word by two threads are no race.
    let bytes = kernel(1, "", "cvt.u64.u32 %d10, %r3; add.s64 %d10, %d0, %d10; st.global.b8 [%d10], %r3;");
    passes(run(4), &bytes);
}

#[test]
fn fault_read_write_race_across_blocks_in_either_order() {
    // Block `writer` writes a word that the other block reads. Blocks run one after the other or at once:
    // the race is found whichever is first.
    let text = |writer: u32| {
        kernel(
            1,
            "",
            &format!(
                "setp.ne.s32 %p0, %r0, 0; @%p0 bra E; setp.eq.s32 %p1, %r1, {writer}; @%p1 bra W;\nld.global.b32 %r10, [%d0]; bra E;\nW: st.global.b32 [%d0], %r1;\nE:"
            ),
        )
    };
    for writer in [0, 1] {
        for _ in 0..20 {
            let report = fails(Run::new(32).grid(2).words("x", &[1]), &text(writer), Kind::Race);
            assert!(report.what.contains("of block"), "{report}");
        }
    }
    passes(Run::new(32).grid(2).words("x", &[1]), &text(7));
    passes(Run::new(32).grid(1).words("x", &[1]), &text(0));
}

#[test]
fn races_in_device_memory_end_at_barriers_of_the_block() {
    let text = |barrier: &str| {
        kernel(
            2,
            "",
            &format!(
                "add.s64 %d10, %d0, %d30; xor.b64 %d11, %d30, 128; add.s64 %d11, %d0, %d11; st.global.b32 [%d10], %r0;\n{barrier}\n\
                 ld.global.b32 %r10, [%d11]; add.s64 %d12, %d1, %d30; st.global.b32 [%d12], %r10;"
            ),
        )
    };
    let run = || Run::new(64).output("x", 256).output("y", 256);
    let done = passes(run(), &text("bar.sync 0;"));
    assert_eq!(done.read(1)[1], 33);
    let mut faulty = run();
    assert!(faulty.launch(&text("")).is_err());
}

#[test]
fn atomics_do_not_race_with_each_other_but_with_plain_accesses() {
    let text = |plain: &str| kernel(1, "", &format!("red.global.add.u32 [%d0], 1;\n{plain}"));
    passes(Run::new(64).grid(3).words("x", &[0]), &text(""));
    passes(Run::new(64).grid(3).words("x", &[0]), &text("ld.relaxed.gpu.global.b32 %r10, [%d0];"));
    fails(Run::new(64).grid(3).words("x", &[0]), &text("ld.global.b32 %r10, [%d0];"), Kind::Race);
    fails(Run::new(64).grid(3).words("x", &[0]), &text("st.global.b32 [%d0], %r0;"), Kind::Race);
}

#[test]
fn fault_non_coherent_load_of_what_the_launch_writes() {
    let own = |load: &str| {
        kernel(
            1,
            "",
            &format!(
                "add.s64 %d10, %d0, %d30; {load}.b32 %r10, [%d10]; add.s32 %r10, %r10, 1; st.global.b32 [%d10], %r10; {load}.b32 %r11, [%d10];"
            ),
        )
    };
    let run = || Run::new(32).words("x", &[3; 32]);
    passes(run(), &own("ld.global"));
    let report = fails(run(), &own("ld.global.nc"), Kind::Race);
    assert!(report.what.contains("non-coherent"), "{report}");
    let mixed = own("ld.global").replace("ld.global.b32 %r11", "ld.global.nc.b32 %r11");
    fails(run(), &mixed, Kind::Race);
    passes(run(), &kernel(1, "", "ld.global.nc.b32 %r10, [%d0]; ld.global.b32 %r11, [%d0];"));
}

#[test]
fn fault_divergent_barrier() {
    let text = |body: &str| kernel(0, "", body);
    passes(Run::new(64), &text("setp.lt.u32 %p0, %r0, 40; @%p0 bra A; A: bar.sync 0;"));
    // Half of a warp goes round the barrier.
    let report = fails(
        Run::new(64),
        &text("setp.lt.u32 %p0, %r0, 40; @%p0 bra A;\nbar.sync 0;\nA: bar.sync 1;"),
        Kind::Barrier,
    );
    assert!(report.what.contains("reached by lanes"), "{report}");
    // The barrier was duplicated into both branches: one barrier, two instructions, one warp.
    let twice = "setp.lt.u32 %p0, %r0, 40; @%p0 bra A;\nbar.sync 0;\nbra E;\nA: bar.sync 0;\nE:";
    fails(Run::new(64), &text(twice), Kind::Barrier);
    // Whole warps may take different instructions to one barrier, and lanes too where it is not aligned.
    passes(Run::new(64), &text(&twice.replace("40", "32")));
    passes(Run::new(64), &text(&twice.replace("bar.sync", "barrier.sync")));
    // A guard that holds for some lanes alone.
    fails(Run::new(64), &text("setp.lt.u32 %p0, %r0, 40;\n@%p0 bar.sync 0;\nbar.sync 1;"), Kind::Barrier);
}

#[test]
fn fault_barrier_that_some_warp_never_reaches() {
    let text = |skip: &str| {
        kernel(0, "", &format!("setp.ge.u32 %p0, %r0, 32;\n@%p0 bra B;\nbar.sync 0;\nbra E;\nB: {skip}\nE:"))
    };
    // Threads that have exited are not waited for.
    passes(Run::new(64), &text("ret;"));
    passes(Run::new(64), &text("bar.sync 0;"));
    let report = fails(Run::new(64), &text("bar.sync 1;"), Kind::Barrier);
    assert!(report.what.contains("32 of 64"), "{report}");
    // Barriers with a count.
    passes(Run::new(96), &kernel(0, "", "setp.ge.u32 %p0, %r0, 64; @%p0 bra E; bar.sync 3, 64; E:"));
    passes(
        Run::new(64),
        &kernel(
            0,
            "",
            "setp.ge.u32 %p0, %r0, 32; @%p0 bra B; bar.arrive 3, 64; bra E; B: bar.sync 3, 64; E:",
        ),
    );
    fails(Run::new(64), &kernel(0, "", "bar.sync 3, 96;"), Kind::Barrier);
    fails(Run::new(96), &kernel(0, "", "bar.sync 3, 40;"), Kind::Operand);
    fails(Run::new(32), &kernel(0, "", "bar.sync 16;"), Kind::Operand);
}

#[test]
fn fault_convergence_of_warp_operations() {
    let shuffle = |members: &str, guard: &str| {
        kernel(
            0,
            "",
            &format!("setp.lt.u32 %p0, %r0, 16;\n{guard} shfl.sync.bfly.b32 %r10, %r0, 1, 31, {members};"),
        )
    };
    passes(Run::new(32), &shuffle("0xffffffff", ""));
    passes(Run::new(32), &shuffle("0xffff", "@%p0"));
    let report = fails(
        Run::new(32),
        &shuffle("0xffffffff", "@%p0 bra A; bra E; A:")
            .replace("31, 0xffffffff;", "31, 0xffffffff;\nbra E2; E: bar.warp.sync 0xffffffff; E2:"),
        Kind::Convergence,
    );
    assert!(report.what.contains("never come"), "{report}");
    let report = fails(Run::new(32), &shuffle("0xffff", ""), Kind::Convergence);
    assert!(report.what.contains("do not include it"), "{report}");
    // A matrix operation needs the whole warp.
    let mma = "mov.b32 %r10, 0; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r20, %r21, %r22, %r23}, {%r10, %r10, %r10, %r10}, {%r10, %r10}, {%r10, %r10, %r10, %r10};";
    passes(Run::new(32), &kernel(0, "", mma));
    fails(Run::new(31), &kernel(0, "", mma), Kind::Convergence);
    fails(
        Run::new(32),
        &kernel(0, "", &format!("setp.lt.u32 %p0, %r0, 9; @%p0 ret;\n{mma}")),
        Kind::Convergence,
    );
}

#[test]
fn fault_asynchronous_copy_not_waited_for() {
    let text = |wait: &str| {
        kernel(
            2,
            ".shared .align 16 .b8 tile[512];\n",
            &format!(
                "mov.u32 %r10, tile; shl.b32 %r11, %r0, 2; add.s32 %r10, %r10, %r11; add.s64 %d10, %d0, %d30;\n\
                 cp.async.ca.shared.global [%r10], [%d10], 4; cp.async.commit_group;\n{wait}\n\
                 mov.u32 %r12, tile; xor.b32 %r13, %r11, 128; add.s32 %r12, %r12, %r13;\nld.shared.b32 %r14, [%r12];\n\
                 add.s64 %d11, %d1, %d30; st.global.b32 [%d11], %r14;"
            ),
        )
    };
    let run = || Run::new(64).words("x", &[5; 64]).output("y", 256);
    let done = passes(run(), &text("cp.async.wait_group 0; bar.sync 0;"));
    assert_eq!(done.read(1), [5; 64]);
    fails(run(), &text("bar.sync 0;"), Kind::InFlight);
    fails(run(), &text("cp.async.wait_group 1; bar.sync 0;"), Kind::InFlight);
    // Waiting shows a thread its own copies alone; the others' need a barrier after the wait.
    let mut unordered = run();
    assert!(unordered.launch(&text("cp.async.wait_group 0;")).is_err());
    fails(run(), &text("bar.sync 0; cp.async.wait_group 0;"), Kind::InFlight);
}

#[test]
fn fault_asynchronous_copy_over_a_tile_still_read() {
    // Two rounds over one tile: the second copy is issued while other warps may still read the first.
    let text = |barrier: &str| {
        kernel(
            1,
            ".shared .align 16 .b8 tile[256];\n",
            &format!(
                "mov.u32 %r10, tile; shl.b32 %r11, %r0, 2; add.s32 %r10, %r10, %r11; add.s64 %d10, %d0, %d30; mov.b32 %r20, 0;
                 mov.u32 %r12, tile; xor.b32 %r13, %r11, 128; add.s32 %r12, %r12, %r13;
                 LOOP:\ncp.async.ca.shared.global [%r10], [%d10], 4;\ncp.async.wait_all; bar.sync 0; ld.shared.b32 %r14, [%r12];\n{barrier}\n
                 add.s32 %r20, %r20, 1; setp.lt.u32 %p0, %r20, 3; @%p0 bra LOOP;"
            ),
        )
    };
    let run = || Run::new(64).words("x", &[5; 64]);
    passes(run(), &text("bar.sync 0;"));
    fails(run(), &text(""), Kind::Race);
}

#[test]
fn fault_endless_loop_spends_the_budget() {
    let mut run = Run::new(32);
    run.budget = 100_000;
    let report = fails(run, &kernel(0, "", "L: bra L;"), Kind::Budget);
    assert!(report.line > 0 && report.what.contains("budget"), "{report}");
    let mut run = Run::new(64);
    run.budget = 100_000;
    fails(run, &kernel(0, "", "L: bar.sync 0; bra L;"), Kind::Budget);
    let mut run = Run::new(32);
    run.budget = 100_000;
    passes(
        run,
        &kernel(0, "", "mov.b32 %r10, 0; L: add.s32 %r10, %r10, 1; setp.lt.u32 %p0, %r10, 50; @%p0 bra L;"),
    );
}

#[test]
fn lanes_that_spin_do_not_starve_the_lane_they_wait_for() {
    // Lane 0 sets the flag that the others of its warp, and the other warps, wait for.
    let body = "setp.eq.s32 %p0, %r0, 0; @%p0 bra SET;
        SPIN: ld.volatile.global.b32 %r10, [%d0]; setp.eq.s32 %p1, %r10, 0; @%p1 bra SPIN; bra E;
        SET: mov.b32 %r11, 1; st.volatile.global.b32 [%d0], %r11; E:";
    passes(Run::new(96).words("flag", &[0]), &kernel(1, "", body));
}

#[test]
fn fault_trap_says_where() {
    let report = fails(Run::new(32), &kernel(0, "", "setp.eq.s32 %p0, %r0, 9;\n@%p0 trap;"), Kind::Trap);
    assert_eq!((report.thread, report.instruction.as_str()), ([9, 0, 0], "@%p0 trap;"));
}
