//! Mutated text never makes the parser or the machine panic or hang.

use super::common::kernel;
use cotangent_tests::fuzz::launch_all;
use cotangent_tests::ptx::Module;
use proptest::prelude::*;

/// Programs that between them use every family of instructions.
fn seeds() -> Vec<String> {
    let matrix = "mov.u32 %r10, tile; shl.b32 %r11, %r0, 4; add.s32 %r12, %r10, %r11;
        st.shared.v4.b32 [%r12], {%r0, %r0, %r0, %r0}; bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r12];
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r30, %r31, %r32, %r33}, {%r20, %r21, %r22, %r23}, {%r20, %r21}, {%r20, %r21, %r22, %r23};
        cp.async.cg.shared.global [%r12], [%d0], 16; cp.async.commit_group; cp.async.wait_group 0;";
    let lanes = "shfl.sync.bfly.b32 %r10|%p0, %r0, 1, 31, 0xffffffff; vote.sync.ballot.b32 %r11, %p0, 0xffffffff;
        redux.sync.add.s32 %r12, %r0, 0xffffffff; atom.global.add.u32 %r13, [%d0], 1; selp.b32 %r14, %r10, 7, %p0;
        LOOP: sub.s32 %r14, %r14, 1; setp.gt.s32 %p1, %r14, 0; @%p1 bra LOOP; bar.sync 0;
        cvt.rn.f32.s32 %r15, %r10; ex2.approx.f32 %r16, %r15; fma.rn.f32 %r17, %r15, %r16, 0f3F800000;
        cvt.rzi.s32.f32 %r18, %r17; bfe.u32 %r19, %r18, 3, 5; prmt.b32 %r20, %r18, %r19, 0x3715;";
    vec![
        kernel(1, ".shared .align 16 .b8 tile[512];\n", matrix),
        kernel(1, "", lanes),
        include_str!("data/conv2d_forward_f32.ptx").replace("__spec_", "3;//"),
        include_str!("data/channel_cat_backward_bf16.ptx").replace("__spec_block_size", "64"),
    ]
}

/// Words and marks to put in the place of others.
const PIECES: &[&str] = &[
    "%r10",
    "%d0",
    "%p0",
    "%h0",
    "0",
    "1",
    "-1",
    "4294967295",
    "18446744073709551615",
    "{",
    "}",
    "[",
    "]",
    ";",
    ",",
    "@",
    "!",
    "|",
    ".b32",
    ".b64",
    "bra LOOP;",
    "ret;",
    "bar.sync 0;",
    "trap;",
    "L:",
    "\"",
    "/*",
    "é",
    "0f",
    "+",
    "tile",
];

#[derive(Clone, Debug)]
enum Edit {
    Delete(usize, usize),
    Swap(usize, usize),
    Insert(usize, usize),
    Flip(usize, u8),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        (any::<usize>(), 1..12_usize).prop_map(|(at, len)| Edit::Delete(at, len)),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Edit::Swap(a, b)),
        (any::<usize>(), any::<usize>()).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (any::<usize>(), 0..128_u8).prop_map(|(at, byte)| Edit::Flip(at, byte)),
    ];
    prop::collection::vec(edit, 1..4)
}

fn apply(text: &str, edits: &[Edit]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for edit in edits {
        let len = bytes.len().max(1);
        match *edit {
            Edit::Delete(at, count) => {
                let at = at % len;
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Edit::Swap(a, b) => {
                // Two words change places.
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let mut words: Vec<&str> = text.split(' ').collect();
                let (a, b) = (a % words.len(), b % words.len());
                words.swap(a, b);
                bytes = words.join(" ").into_bytes();
            }
            Edit::Insert(at, piece) => {
                let at = at % len;
                bytes.splice(at..at, PIECES[piece % PIECES.len()].bytes());
            }
            Edit::Flip(at, byte) => {
                if let Some(place) = bytes.get_mut(at % len) {
                    *place = byte;
                }
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_text_is_an_error_or_runs(seed in 0..4_usize, edits in edits()) {
        let text = apply(&seeds()[seed], &edits);
        if let Ok(module) = Module::parse(&text) {
            launch_all(&module, 0, 1 << 19);
        }
    }

    #[test]
    fn arbitrary_text_is_an_error(text in "\\PC*") {
        prop_assert!(Module::parse(&text).is_err());
    }

    #[test]
    fn tokens_in_any_order_are_an_error_or_run(picks in prop::collection::vec(any::<usize>(), 0..60)) {
        let words: Vec<&str> = picks.iter().map(|pick| PIECES[pick % PIECES.len()]).collect();
        let text = kernel(1, "", &words.join(" "));
        if let Ok(module) = Module::parse(&text) {
            launch_all(&module, 0, 1 << 19);
        }
    }
}

#[test]
fn seeds_are_sound_before_they_are_mutated() {
    for seed in seeds() {
        let module = Module::parse(&seed).unwrap_or_else(|error| panic!("{error}\n{seed}"));
        launch_all(&module, 0, 1 << 19);
    }
}
