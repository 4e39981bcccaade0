//! Mutants: the PTX that ships with one mistake in it each, which the suite must catch.
//!
//! Mutants are drawn with a fixed seed, as many for each kernel; a mutant is a line of a module and what is done to
//! it. It is caught when any job that runs its module fails: by a wrong result, by the machine's report, or by a
//! spent budget. [`record`] writes the result down, with the explanation of every survivor.

mod line;
mod operator;
mod record;

use std::collections::BTreeSet;

use cotangent::kernels::{KERNELS, Module};
use cotangent::verify::SplitMix64;
use rayon::prelude::*;

use line::Line;
pub use operator::Operator;
pub use record::{caught, explanations, is_explained, record};

use crate::executor::ModuleName;
use crate::jobs::{Job, Swept};
use crate::ptx::Options;

/// Mutants of each module at least, and of all modules of a kernel together.
const PER_MODULE: usize = 2;
const PER_KERNEL: usize = 8;

/// What the draws start from.
const SEED: u64 = 4;

/// One mistake in one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The module.
    pub module: ModuleName,
    /// The line, counted from zero.
    pub line: usize,
    /// The mistake.
    pub operator: Operator,
    /// The line as it ships.
    pub before: String,
    /// The line with the mistake.
    pub after: String,
    element: usize,
}

impl Mutant {
    /// The same without the mistake, to see that it is the mistake that is caught.
    #[must_use]
    pub fn unmutated(&self) -> Self {
        Self { line: usize::MAX, ..self.clone() }
    }

    /// The module's text, with its constants written in, with the mistake.
    #[must_use]
    pub fn of(&self, ptx: &str) -> String {
        let mut mutated = String::with_capacity(ptx.len() + 16);
        for (number, line) in ptx.lines().enumerate() {
            let mistake = (number == self.line).then(|| self.operator.apply(line, self.element)).flatten();
            mutated.push_str(mistake.as_deref().unwrap_or(line));
            mutated.push('\n');
        }
        mutated
    }
}

/// Bytes of an element of this kind, `f16` or `b8` for example.
fn element_bytes(kind: &str) -> usize {
    let bits: usize =
        kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().expect("kinds end in bits");
    bits / 8
}

/// Every mutant that an operator makes of a module.
fn sites(name: ModuleName, module: &Module, unused: &BTreeSet<usize>, operator: Operator) -> Vec<Mutant> {
    let element = element_bytes(module.kind);
    let lines = module.ptx.lines().enumerate().filter(|(number, _)| !unused.contains(number));
    lines
        .filter_map(|(number, text)| {
            let after = operator.apply(text, element)?;
            let before = text.trim().replace('\t', "");
            Some(Mutant { module: name, line: number, operator, before, after, element })
        })
        .collect()
}

/// The lines with loads whose results nothing reads: going down the text, and on from its start, the registers are
/// written first. A mistake in such a line is none, but for the access itself.
fn unused_loads(ptx: &str) -> BTreeSet<usize> {
    let registers = |text: &str| -> Vec<String> {
        let names = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '%' || c == '_'));
        names.filter(|name| name.starts_with('%')).map(str::to_owned).collect()
    };
    let mut loads = Vec::new();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for (number, text) in ptx.lines().enumerate() {
        let line = Line::parse(text).filter(|line| !line.opcode.starts_with("st"));
        let written = line.as_ref().and_then(|line| line.operands.first()).map(|first| registers(first));
        let rest = line.as_ref().map_or_else(
            || registers(text),
            |line| registers(&line.operands.iter().skip(1).cloned().collect::<Vec<_>>().join(" ")),
        );
        if let (Some(line), Some(written)) = (&line, &written)
            && line.opcode.starts_with("ld.")
            && !line.opcode.starts_with("ld.param")
        {
            loads.push((number, written.clone()));
        }
        // Where its guard is false, an instruction leaves the old value.
        let sure = line.is_some_and(|line| line.guard.is_none());
        reads.push(rest);
        writes.push(written.filter(|_| sure).unwrap_or_default());
    }
    let count = reads.len();
    let used = |number: usize, name: &String| {
        let after = (1..count).map(|step| (number + step) % count);
        let first = after.into_iter().find(|&at| reads[at].contains(name) || writes[at].contains(name));
        first.is_some_and(|at| reads[at].contains(name))
    };
    loads.retain(|(number, names)| !names.iter().any(|name| used(*number, name)));
    loads.into_iter().map(|(number, _)| number).collect()
}

/// The mutants, the same each time for the same modules. Each module has its own draws, so that its mutants stay when
/// others change: an operator that it has a place for, then a place.
#[must_use]
pub fn mutants() -> Vec<Mutant> {
    let modules = KERNELS.iter().flat_map(|kernel| kernel.modules.iter().map(move |module| (kernel, module)));
    modules
        .flat_map(|(kernel, module)| drawn((kernel.name, module.kind), module, kernel.modules.len()))
        .collect()
}

/// A module's mutants, all different.
fn drawn(name: ModuleName, module: &Module, modules: usize) -> Vec<Mutant> {
    let random = &mut SplitMix64::from_text(&format!("{SEED} {} {}", name.0, name.1));
    let mut pick = |len: usize| random.below(len as u64) as usize;
    let unused = unused_loads(module.ptx);
    let mut places = Operator::ALL.map(|operator| sites(name, module, &unused, operator)).to_vec();
    let mut mutants = Vec::new();
    for _ in 0..PER_MODULE.max(PER_KERNEL.div_ceil(modules)) {
        places.retain(|places| !places.is_empty());
        let operator = pick(places.len());
        let place = pick(places[operator].len());
        mutants.push(places[operator].swap_remove(place));
    }
    mutants
}

/// What catches a mutant: the first job that fails, cheap ones first, and how. `swept` is what the jobs do when
/// nothing is wrong.
#[must_use]
pub fn catch(mutant: &Mutant, jobs: &[Job], swept: &[Swept]) -> Option<String> {
    let cost = |i: usize| swept[i].executed.values().copied().max().unwrap_or(0);
    let mut order: Vec<_> = (0..jobs.len()).filter(|&i| jobs[i].modules.contains(&mutant.module)).collect();
    order.sort_by_key(|&i| cost(i));
    order.into_iter().find_map(|i| {
        // A kernel that does much more than it should hangs.
        let options = Options { budget: 4 * cost(i) + 100_000, parallel: false };
        let rewrite = mutant.clone();
        let machine = jobs[i].machine().options(options).rewrite(move |launch, ptx| {
            let here = (launch.kernel().name, launch.module().kind) == rewrite.module;
            if here { rewrite.of(&ptx) } else { ptx }
        });
        jobs[i].run(&machine).err().map(|failure| format!("{}: {failure}", jobs[i].label))
    })
}

/// What catches each mutant.
#[must_use]
pub fn catch_all(mutants: &[Mutant], jobs: &[Job], swept: &[Swept]) -> Vec<Option<String>> {
    mutants.par_iter().map(|mutant| catch(mutant, jobs, swept)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_whose_results_nothing_reads_are_found() {
        let text = "mov.b32 %r1, 0;\n@take ld.global.v2.b32 {%r2, %r3}, [%rd1];\nst.global.b32 [%rd2], %r2;\n\
                    @take ld.global.b32 %r1, [%rd3];\nld.global.b32 %r4, [%rd3];\nbra.uni $L;";
        assert_eq!(unused_loads(text), BTreeSet::from([3, 4]));
    }

    #[test]
    fn mutants_are_the_same_each_time_and_differ() {
        let mutants = mutants();
        assert_eq!(mutants, super::mutants());
        assert!(mutants.len() >= 200, "{}", mutants.len());
        for kernel in KERNELS {
            for module in kernel.modules {
                let name = (kernel.name, module.kind);
                let own: Vec<_> = mutants.iter().filter(|mutant| mutant.module == name).collect();
                assert!(own.len() >= PER_MODULE, "{name:?}");
                for (i, mutant) in own.iter().enumerate() {
                    assert!(!own[..i].contains(mutant), "{mutant:?}");
                    assert_ne!(mutant.of(module.ptx), format!("{}\n", module.ptx.trim_end()), "{mutant:?}");
                }
            }
        }
    }
}
