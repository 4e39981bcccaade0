//! The instruction corpus on the PTX machine: against the answers of a GPU, and against Rust's own arithmetic.

use cotangent_tests::corpus::{BLOCK, Backend, ELEMENTS, ENTRY, GRID, PROGRAMS, Program};
use cotangent_tests::ptx::{Launch, Machine, Memory, Module, Options};

struct OnMachine;

impl Backend for OnMachine {
    type Error = String;

    fn run(&mut self, program: &Program, input: &[u8]) -> Result<Vec<u8>, String> {
        let module = Module::parse(program.text).map_err(|error| error.to_string())?.with_label(program.name);
        let mut memory = Memory::new();
        let from = memory.alloc_read_only("in", input, 0);
        let to = memory.alloc("out", program.output_bytes(), 0);
        let params = [
            memory.address(from).to_le_bytes().to_vec(),
            memory.address(to).to_le_bytes().to_vec(),
            (ELEMENTS as u32).to_le_bytes().to_vec(),
        ];
        let launch = Launch { grid: [GRID, 1, 1], block: [BLOCK, 1, 1], shared_bytes: 0, params: &params };
        Machine::new(&module)
            .launch(ENTRY, launch, &mut memory, &Options::default())
            .map_err(|report| report.to_string())?;
        memory.check_written(to, 0..program.output_bytes()).map_err(|missing| missing.to_string())?;
        memory.read_all(to).map_err(|missing| missing.to_string())
    }
}

fn run(program: &Program) -> Vec<u8> {
    OnMachine.run(program, &program.input()).unwrap_or_else(|error| panic!("{}: {error}", program.name))
}

#[test]
fn corpus_matches_golden() {
    let mut wrong = Vec::new();
    for program in PROGRAMS {
        let expected = program.golden().unwrap_or_else(|error| panic!("{}: {error}", program.name));
        wrong.extend(program.compare(&run(program), &expected).iter().map(ToString::to_string));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn corpus_runs_alike_twice_and_in_any_order() {
    for program in PROGRAMS {
        assert_eq!(run(program), run(program), "{}", program.name);
    }
}

#[test]
fn corpus_headers_say_what_the_table_says() {
    for program in PROGRAMS {
        let words = format!("// Output: {} 32-bit words an element.", program.words);
        let inputs = format!("// Input: {:?}, three 64-bit words", program.inputs).to_lowercase();
        assert!(program.text.starts_with(&format!("// {}: ", program.name)), "{}", program.name);
        assert!(program.text.contains(&words), "{}", program.name);
        assert!(program.text.to_lowercase().contains(&inputs), "{}", program.name);
        for word in 0..program.words {
            assert_ne!(program.instruction(word), "no store", "{}: word {word}", program.name);
        }
    }
}

#[test]
fn corpus_compare_finds_one_wrong_bit_and_keeps_to_its_bounds() {
    let exact = Program::find("int32").expect("it exists");
    let right = run(exact);
    let mut wrong = right.clone();
    wrong[4 * (exact.words * 5 + 1)] ^= 1;
    wrong[4 * (exact.words * 6 + 1)] ^= 1;
    wrong[4 * (exact.words * 7)] ^= 1;
    let [sat, add] = &exact.compare(&wrong, &right)[..] else { panic!("two instructions differ") };
    assert_eq!((sat.element, sat.word, sat.count), (5, 1, 2));
    assert_eq!(sat.instruction, "add.sat.s32 %x, %ra, %rb;");
    assert_eq!((add.element, add.word, add.count), (7, 0, 1));
    let near = Program::find("approximate").expect("it exists");
    let right = run(near);
    let mut wrong = right.clone();
    wrong[0] ^= 1;
    assert_eq!(near.compare(&wrong, &right), []);
    wrong[1] ^= 1;
    assert_eq!(near.compare(&wrong, &right).len(), 1);
}

/// A column's answer from the element's words.
type Oracle = (&'static str, &'static str, fn([u64; 3]) -> u64);

fn single(word: u64) -> f32 {
    f32::from_bits(word as u32)
}

/// Bits of a single, with the one NaN that arithmetic gives.
fn bits(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits() as u64 }
}

/// Rust's own answers, where it has them.
const ORACLES: &[Oracle] = &[
    ("int32", "add.s32 %x, %ra, %rb;", |[a, b, _]| (a as u32).wrapping_add(b as u32) as u64),
    ("int32", "sub.sat.s32 %x, %ra, %rb;", |[a, b, _]| (a as i32).saturating_sub(b as i32) as u32 as u64),
    ("int32", "mul.hi.s32 %x, %ra, %rb;", |[a, b, _]| {
        ((a as i32 as i64 * b as i32 as i64) >> 32) as u32 as u64
    }),
    ("int32", "mad.wide.u32 %y, %ra, %rb, %dc;", |[a, b, c]| {
        (a as u32 as u64 * b as u32 as u64).wrapping_add(c)
    }),
    ("int32", "abs.s32 %x, %ra;", |[a, ..]| (a as i32).unsigned_abs() as u64),
    ("int64", "mul.hi.u64 %y, %da, %db;", |[a, b, _]| ((a as u128 * b as u128) >> 64) as u64),
    ("int64", "max.s64 %y, %da, %db;", |[a, b, _]| (a as i64).max(b as i64) as u64),
    ("divide", "div.s32 %x, %t2, %t1;", |[a, b, _]| ((a as i32 >> 1) / (b as i32 | 1)) as u32 as u64),
    ("divide", "rem.u64 %y, %da, %u1;", |[a, b, _]| a % (b | 1)),
    ("bits", "shl.b32 %x, %ra, %rb;", |[a, b, _]| (a as u32).checked_shl(b as u32).unwrap_or(0) as u64),
    ("bits", "shr.s32 %x, %ra, %rb;", |[a, b, _]| ((a as i32 as i64) >> (b as u32).min(63)) as u32 as u64),
    ("bits", "lop3.b32 %x, %ra, %rb, %rc, 0xe8;", |[a, b, c]| (a & b | b & c | a & c) as u32 as u64),
    ("bits", "brev.b64 %y, %da;", |[a, ..]| a.reverse_bits()),
    ("bits", "clz.b64 %x, %da;", |[a, ..]| a.leading_zeros() as u64),
    ("compare_singles", "setp.lt.f32 %p, %ra, %rb;", |[a, b, _]| u64::from(single(a) < single(b))),
    ("compare_singles", "setp.geu.f32 %p, %ra, %rb;", |[a, b, _]| {
        u64::from(!matches!(single(a).partial_cmp(&single(b)), Some(std::cmp::Ordering::Less)))
    }),
    ("single_arithmetic", "add.rn.f32 %x, %ra, %rb;", |[a, b, _]| bits(single(a) + single(b))),
    ("single_arithmetic", "mul.rn.f32 %x, %ra, %rb;", |[a, b, _]| bits(single(a) * single(b))),
    ("single_arithmetic", "fma.rn.f32 %x, %ra, %rb, %rc;", |[a, b, c]| {
        bits(single(a).mul_add(single(b), single(c)))
    }),
    ("single_functions", "div.rn.f32 %x, %ra, %rb;", |[a, b, _]| bits(single(a) / single(b))),
    ("single_functions", "sqrt.rn.f32 %x, %ra;", |[a, ..]| bits(single(a).sqrt())),
    ("convert_integers", "cvt.sat.s8.s32 %x, %ra;", |[a, ..]| (a as i32).clamp(-128, 127) as u32 as u64),
    ("convert_singles_to_integers", "cvt.rzi.s32.f32 %x, %ra;", |[a, ..]| single(a) as i32 as u32 as u64),
    ("convert_singles_to_integers", "cvt.rzi.u32.f32 %x, %ra;", |[a, ..]| single(a) as u32 as u64),
    ("convert_doubles", "cvt.rn.f32.f64 %x, %da;", |[a, ..]| {
        // A NaN keeps the upper bits of its payload, and is quiet.
        let [sign, payload] = [a >> 63 << 31, a >> 29 & 0x3f_ffff];
        let double = f64::from_bits(a);
        if double.is_nan() { sign | 0x7fc0_0000 | payload } else { bits(double as f32) }
    }),
    ("convert_integers_to_floats", "cvt.rn.f32.s64 %x, %da;", |[a, ..]| bits(a as i64 as f32)),
    ("convert_integers_to_floats", "cvt.rn.f32.u64 %x, %da;", |[a, ..]| bits(a as f32)),
    ("convert_integers_to_floats", "cvt.rn.f64.u64 %y, %da;", |[a, ..]| (a as f64).to_bits()),
    ("convert_singles_to_floats", "cvt.rn.f16.f32 %z, %ra;", |[a, ..]| {
        let half = half::f16::from_f32(single(a));
        if half.is_nan() { 0x7fff } else { half.to_bits() as u64 }
    }),
    ("convert_singles_to_floats", "cvt.rn.bf16.f32 %z, %ra;", |[a, ..]| {
        let brain = half::bf16::from_f32(single(a));
        if brain.is_nan() { 0x7fff } else { brain.to_bits() as u64 }
    }),
    ("convert_halves", "cvt.f32.f16 %x, %ha;", |[a, ..]| bits(half::f16::from_bits(a as u16).to_f32())),
    ("half_arithmetic", "mul.f16 %z, %ha, %hb;", |[a, b, _]| {
        let [a, b] = [a, b].map(|x| half::f16::from_bits(x as u16).to_f32());
        // The product of two halves is exact in single, so this rounds once.
        let half = half::f16::from_f32(a * b);
        if half.is_nan() { 0x7fff } else { half.to_bits() as u64 }
    }),
];

#[test]
fn corpus_agrees_with_rust_where_rust_has_the_answer() {
    for &(name, instruction, oracle) in ORACLES {
        let program = Program::find(name).unwrap_or_else(|| panic!("no program {name}"));
        let word = (0..program.words).find(|&word| program.instruction(word) == instruction);
        let word = word.unwrap_or_else(|| panic!("{name} has no `{instruction}`"));
        let wide = instruction.contains("%y");
        let output = run(program);
        for (element, input) in program.words_in().into_iter().enumerate() {
            let at = 4 * (element * program.words + word);
            let mut bytes = [0; 8];
            let width = if wide { 8 } else { 4 };
            bytes[..width].copy_from_slice(&output[at..at + width]);
            let (found, expected) = (u64::from_le_bytes(bytes), oracle(input));
            assert_eq!(
                found, expected,
                "{name}: `{instruction}` of {input:x?}: {found:#x}, not {expected:#x}"
            );
        }
    }
}
