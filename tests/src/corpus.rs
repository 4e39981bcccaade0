//! The instruction corpus: small PTX programs that a GPU and the PTX machine must answer alike.
//!
//! Every program has one entry `corpus(in, out, n)`: a thread for each of [`ELEMENTS`] elements, in blocks of
//! [`BLOCK`]. An element's input is three 64-bit words, and its output [`Program::words`] 32-bit words. The
//! inputs are made here, from a table of edge values and a fixed pseudo-random sequence, so that any backend
//! gets the same bytes.
//!
//! `ptx_corpus/golden/<name>.bin` holds the output of an H200, element after element; `ptx_corpus/README.md` says
//! how it is recorded. An output must equal it to the bit, apart from the words of [`Program::tolerances`]: those
//! come from functions that the GPU takes from tables, and the tolerance is the bound that is tested instead.

mod inputs;

use std::fmt::Display;
use std::path::PathBuf;

pub use inputs::Inputs;
use inputs::Sequence;

/// Elements of every program.
pub const ELEMENTS: usize = 768;
/// Threads of a block.
pub const BLOCK: u32 = 128;
/// Blocks of a launch.
pub const GRID: u32 = ELEMENTS as u32 / BLOCK;
/// The name of the entry.
pub const ENTRY: &str = "corpus";
/// 64-bit words of input an element.
pub const INPUT_WORDS: usize = 3;

/// How far an open result may be from the golden.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The first word it applies to.
    pub first: usize,
    /// The first word behind.
    pub end: usize,
    /// The part of the golden's magnitude.
    pub relative: f64,
    /// What is allowed at any magnitude.
    pub absolute: f64,
}

/// One program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, which is also that of its files.
    pub name: &'static str,
    /// Its PTX.
    pub text: &'static str,
    /// What its input holds.
    pub inputs: Inputs,
    /// 32-bit words of output an element.
    pub words: usize,
    /// Words that are singles whose bits PTX leaves open.
    pub tolerances: &'static [Tolerance],
}

/// Something that runs a program: a GPU, or the PTX machine.
pub trait Backend {
    /// Why a program could not be run.
    type Error: Display;

    /// Launches [`ENTRY`] with [`GRID`] blocks of [`BLOCK`] threads over this input, and returns the output,
    /// [`Program::output_bytes`] long. The output buffer must be aligned to 16 bytes, the input to 16.
    ///
    /// # Errors
    /// Whatever the backend says.
    fn run(&mut self, program: &Program, input: &[u8]) -> Result<Vec<u8>, Self::Error>;
}

/// The first word of an instruction's results that differs from what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{program}: `{instruction}` (word {word} of element {element}) of {input:x?} gave {found:#010x}, not \
     {expected:#010x}; {count} of its words differ"
)]
pub struct Mismatch {
    /// The program.
    pub program: &'static str,
    /// The instruction that made the word.
    pub instruction: String,
    /// The element.
    pub element: usize,
    /// The word of the element's output.
    pub word: usize,
    /// The element's input.
    pub input: [u64; INPUT_WORDS],
    /// The word found.
    pub found: u32,
    /// The word that is right.
    pub expected: u32,
    /// How many words of the instruction differ.
    pub count: usize,
}

macro_rules! programs {
    ($($name:ident $inputs:ident $words:literal $tolerances:expr;)*) => {
        /// All programs.
        pub const PROGRAMS: &[Program] = &[$(Program {
            name: stringify!($name),
            text: include_str!(concat!("../ptx_corpus/", stringify!($name), ".ptx")),
            inputs: Inputs::$inputs,
            words: $words,
            tolerances: &$tolerances,
        }),*];
    };
}

/// 2 to the power of −n.
const fn ulp(n: u64) -> f64 {
    f64::from_bits((1023 - n) << 52)
}

const fn relative(first: usize, bits: u64) -> Tolerance {
    Tolerance { first, end: first + 1, relative: ulp(bits), absolute: 0.0 }
}

const fn absolute(first: usize, end: usize, bits: u64) -> Tolerance {
    Tolerance { first, end, relative: 0.0, absolute: ulp(bits) }
}

/// In the order of the program: ex2, lg2, rcp, rsqrt, sqrt, div, div.full, sin, cos, tanh. The manual's bounds,
/// each widened to the next power of two for the machine's own rounding.
const APPROXIMATE: [Tolerance; 10] = [
    relative(0, 21),
    Tolerance { first: 1, end: 2, relative: ulp(21), absolute: ulp(21) },
    relative(2, 22),
    relative(3, 21),
    relative(4, 22),
    relative(5, 21),
    relative(6, 21),
    absolute(7, 8, 20),
    absolute(8, 9, 20),
    relative(9, 10),
];

programs! {
    int32 Integers 36 [];
    int64 Integers 28 [];
    int16 Integers 20 [];
    divide Integers 12 [];
    bits Integers 54 [];
    compare_integers Integers 32 [];
    compare_singles Singles 28 [];
    compare_doubles Doubles 20 [];
    compare_halves Halves 14 [];
    compare_brains Brains 14 [];
    single_arithmetic Singles 24 [];
    single_functions Singles 26 [];
    double_arithmetic Doubles 24 [];
    half_arithmetic Halves 26 [];
    brain_arithmetic Brains 20 [];
    convert_integers Integers 28 [];
    convert_singles_to_integers Singles 28 [];
    convert_doubles Doubles 36 [];
    convert_integers_to_floats Integers 44 [];
    convert_singles_to_floats Singles 18 [];
    convert_halves Halves 16 [];
    convert_brains Brains 2 [];
    approximate Units 10 APPROXIMATE;
    memory Integers 22 [];
    warp Integers 32 [];
    atomics Singles 50 [];
    async_copy Integers 12 [];
    matrices Integers 22 [];
    mma_exact Integers 30 [];
    mma_near Units 12 [];
    mma_doubles Doubles 12 [];
    control Integers 4 [];
}

impl Program {
    /// A program by name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// The input words of every element: all pairs of edge values with a third beside them, then elements from
    /// the pseudo-random sequence.
    #[must_use]
    pub fn words_in(&self) -> Vec<[u64; INPUT_WORDS]> {
        let mut sequence = Sequence(0x9e37_79b9_7f4a_7c15);
        let element = |index: usize| {
            let (first, second) = (index % 26, index / 26);
            if second < 26 {
                return [first, second, 5 * index + 3 * second + 1].map(|edge| self.inputs.edge(edge));
            }
            [(); INPUT_WORDS].map(|()| self.inputs.random(&mut sequence))
        };
        (0..ELEMENTS).map(element).collect()
    }

    /// The input as bytes.
    #[must_use]
    pub fn input(&self) -> Vec<u8> {
        self.words_in().iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The size of the output.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        ELEMENTS * self.words * 4
    }

    /// The file that holds the output of a GPU.
    #[must_use]
    pub fn golden_file(&self) -> PathBuf {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ptx_corpus/golden");
        folder.join(format!("{}.bin", self.name))
    }

    /// The output of a GPU.
    ///
    /// # Errors
    /// When it has not been recorded, or cannot be read.
    pub fn golden(&self) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.golden_file())
    }

    /// The instruction whose result a word of the output is: the last one before its store that is no helper.
    #[must_use]
    pub fn instruction(&self, word: usize) -> String {
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        let stores = |line: &str| {
            let at = |width: usize| format!("st.global.b{} [%out+{}]", 32 * width, 4 * (word + 1 - width));
            line.starts_with(&at(1)) || (word > 0 && line.starts_with(&at(2))) || {
                line.starts_with(&format!("st.global.b64 [%out+{}]", 4 * word))
            }
        };
        let Some(store) = lines.iter().position(|line| stores(line)) else { return "no store".to_owned() };
        let helper = |line: &str| {
            ["st.", "selp.b32 %x, 1, 0", "cvt.u32.u16 %x, %z", "mov.b32 %x, %t", "mov.b64 %y, %u"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        if lines[store].ends_with(", 0;") {
            return "padding".to_owned();
        }
        lines[..store]
            .iter()
            .rev()
            .find(|line| !helper(line))
            .map_or("no instruction", |line| line)
            .to_owned()
    }

    fn allows(&self, word: usize, found: u32, expected: u32) -> bool {
        if found == expected {
            return true;
        }
        let Some(bound) = self.tolerances.iter().find(|t| (t.first..t.end).contains(&word)) else {
            return false;
        };
        let (found, expected) = (f32::from_bits(found) as f64, f32::from_bits(expected) as f64);
        (found.is_nan() && expected.is_nan())
            || (found - expected).abs() <= bound.absolute + bound.relative * expected.abs()
    }

    /// Compares an output with what it should be: a mismatch for each instruction that has words which are not
    /// allowed.
    ///
    /// # Panics
    /// If a length is wrong.
    #[must_use]
    pub fn compare(&self, found: &[u8], expected: &[u8]) -> Vec<Mismatch> {
        assert_eq!(
            (found.len(), expected.len()),
            (self.output_bytes(), self.output_bytes()),
            "{}",
            self.name
        );
        let word_at =
            |bytes: &[u8], index: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[4 * index + n]));
        let inputs = self.words_in();
        let mut mismatches: Vec<Mismatch> = Vec::new();
        for index in 0..ELEMENTS * self.words {
            let (element, word) = (index / self.words, index % self.words);
            let (found, expected) = (word_at(found, index), word_at(expected, index));
            if self.allows(word, found, expected) {
                continue;
            }
            let instruction = self.instruction(word);
            if let Some(known) = mismatches.iter_mut().find(|known| known.instruction == instruction) {
                known.count += 1;
                continue;
            }
            let (program, input) = (self.name, inputs[element]);
            let first = Mismatch { program, instruction, element, word, input, found, expected, count: 1 };
            mismatches.push(first);
        }
        mismatches
    }
}
