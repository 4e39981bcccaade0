//! Text is an error or a module, for the machine and for the builder: neither panics nor hangs.

use cotangent::kernels::KERNELS;
use cotangent_builder::ptx::{self, check as rules, split};

use super::draws::Draws;
use crate::ptx::{Launch, Machine, Memory, Module, Options};

/// Words and marks to put in the place of others.
const PIECES: [&str; 40] = [
    "%r1",
    "%rd1",
    "%p1",
    "%f1",
    "0",
    "1",
    "-1",
    "4294967295",
    "18446744073709551615",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ";",
    ",",
    "@%p1 ",
    "!",
    "|",
    ".b32",
    ".b64",
    ".f32",
    "bra $L__BB0_1;",
    "$L__BB0_1:",
    "ret;",
    "bar.sync 0;",
    "trap;",
    "\"",
    "/*",
    "*/",
    "//",
    "é",
    "0f3F800000",
    "+",
    ".entry ",
    ".func ",
    ".reg ",
    "__spec_kh",
    "\n",
];

/// A small module to start from.
const SMALL: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\n.visible .entry scale_entry_point(\n\t.param .u64 \
                     scale_entry_point_param_0,\n\t.param .u32 scale_entry_point_param_1\n)\n{\n\t.reg .pred \
                     %p<3>;\n\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<5>;\n\n\tld.param.b64 %rd1, \
                     [scale_entry_point_param_0];\n\tmov.u32 %r1, %tid.x;\n\tmov.b32 %r2, \
                     __spec_kh;\n$L__BB0_1:\n\tsetp.ge.s32 %p1, %r1, 8;\n\t@%p1 bra $L__BB0_2;\n\tmul.wide.s32 %rd2, \
                     %r1, 4;\n\tadd.s64 %rd3, %rd1, %rd2;\n\tld.global.b32 %r3, [%rd3];\n\tmad.lo.s32 %r4, %r3, %r2, \
                     1;\n\tst.global.b32 [%rd3], %r4;\n\tbar.sync 0;\n$L__BB0_2:\n\tret;\n}\n";

/// Modules longer than this would take most of the time.
const ENOUGH: usize = 16_000;

pub(super) fn check(data: &[u8]) {
    let text = text(data);
    machine(&text);
    builder(&text);
}

/// The bytes as text, or a module with some of it changed.
pub(super) fn text(data: &[u8]) -> String {
    let mut draws = Draws::new(data);
    let seed = match draws.below(4) {
        0 => return String::from_utf8_lossy(draws.rest()).into_owned(),
        1 => SMALL,
        _ => {
            let modules = KERNELS.iter().flat_map(|kernel| kernel.modules).map(|module| module.ptx);
            let modules: Vec<_> = modules.filter(|ptx| ptx.len() < ENOUGH).collect();
            draws.of(&modules)
        }
    };
    let mut bytes = seed.as_bytes().to_vec();
    for _ in 0..draws.below(5) {
        let at = draws.below(bytes.len().max(1)).min(bytes.len());
        match draws.below(4) {
            0 => drop(bytes.drain(at..(at + draws.below(24)).min(bytes.len()))),
            1 => drop(bytes.splice(at..at, draws.of(&PIECES).bytes())),
            2 => {
                let words =
                    bytes[at..].iter().position(|&byte| byte == b' ').map_or(at, |word| at + word + 1);
                let end = bytes[words..].iter().position(|byte| b" ,;\n".contains(byte));
                drop(bytes.splice(words..end.map_or(words, |end| words + end), draws.of(&PIECES).bytes()));
            }
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = draws.any()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The machine reads it, and runs what it read with plausible arguments, or says what is wrong.
fn machine(text: &str) {
    if let Ok(module) = Module::parse(text) {
        launch_all(&module, 256, 1 << 15);
    }
}

/// Launches every entry of a module with plausible arguments. The results do not matter: what counts is that there are
/// some.
pub fn launch_all(module: &Module, shared_bytes: usize, budget: u64) {
    for entry in module.entries() {
        let mut memory = Memory::new();
        let params: Vec<Vec<u8>> = entry
            .params
            .iter()
            .map(|param| {
                if param.size == 8 {
                    let buffer = memory.alloc_with(&param.name, &[1; 512], 0);
                    memory.address(buffer).to_le_bytes().to_vec()
                } else {
                    vec![2; param.size.min(1 << 12)]
                }
            })
            .collect();
        let launch = Launch { grid: [2, 1, 1], block: [64, 1, 1], shared_bytes, params: &params };
        let options = Options { budget, parallel: false };
        let _ = Machine::new(module).launch(&entry.name, launch, &mut memory, &options);
    }
}

/// The builder takes it apart or says what is wrong, and what it makes of it can be taken apart again.
fn builder(text: &str) {
    let Ok(file) = ptx::parse(text) else { return };
    let _ = rules::no_panic(text);
    for entry in &file.entries {
        let _ = rules::body(&file, entry, &[]);
        let _ = rules::barriers(entry);
        let _ = rules::declared_holes(entry, &[]);
        let Ok(module) = split::module(&file, entry, "fuzzed_entry_point", "fuzzed", Some([64, 1])) else {
            continue;
        };
        let again = ptx::parse(&module).unwrap_or_else(|error| panic!("{error}\n{module}"));
        assert_eq!(again.entries.len(), 1, "{module}");
        assert_eq!(again.entries[0].params.len(), entry.params.len(), "{module}");
    }
}
