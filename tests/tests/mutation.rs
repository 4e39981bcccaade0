//! What the suite's jobs are worth on the PTX machine: every module is executed, every mistake in one is caught or
//! known and explained (`tests/mutation.md`), and the results have the bits of a GPU's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use cotangent::kernels::KERNELS;
use cotangent_tests::golden;
use cotangent_tests::jobs::{self, Job, Swept};
use cotangent_tests::mutate;
use cotangent_tests::ptx::Module;

static JOBS: LazyLock<Vec<Job>> = LazyLock::new(jobs::all);

/// What the jobs do when nothing is wrong; none fails.
static SWEPT: LazyLock<Vec<Swept>> = LazyLock::new(|| jobs::sweep(&JOBS));

/// The smallest part of the mutants that must be caught, in percent, whatever is explained.
const LEAST: usize = 95;

#[test]
fn every_shipped_module_is_executed_by_a_job() {
    let mut executed: BTreeMap<_, u64> = BTreeMap::new();
    for (job, swept) in JOBS.iter().zip(SWEPT.iter()) {
        for (module, &instructions) in &swept.executed {
            // The mutation check runs the jobs that name a module.
            assert!(job.modules.contains(module), "{}: does not name {module:?}", job.label);
            *executed.entry(*module).or_default() += instructions;
        }
    }
    for kernel in KERNELS {
        for module in kernel.modules {
            let name = (kernel.name, module.kind);
            let instructions = executed.get(&name).copied().unwrap_or(0);
            assert!(instructions > 0, "no job executes {name:?}: add one to tests/src/jobs");
        }
    }
}

#[test]
fn jobs_have_names_of_their_own() {
    let mut labels = BTreeSet::new();
    for job in JOBS.iter() {
        assert!(labels.insert(&job.label), "two jobs are called {}", job.label);
        assert!(!job.modules.is_empty(), "{}", job.label);
    }
}

#[test]
fn mutants_are_caught_or_explained() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/mutation.md");
    let committed = std::fs::read_to_string(path).unwrap();
    let mutants = mutate::mutants();
    let fates = mutate::catch_all(&mutants, &JOBS, &SWEPT);
    let caught = fates.iter().flatten().count();
    assert!(
        caught * 100 >= mutants.len() * LEAST,
        "only {}: add jobs that reach the survivors",
        mutate::caught(caught, mutants.len())
    );
    let found = mutate::record(&mutants, &fates, &mutate::explanations(&committed));
    assert!(mutate::is_explained(&found), "explain or catch these in tests/mutation.md:\n{found}");
    assert_eq!(found, committed, "run `cargo run --release -p cotangent-tests --bin mutation`");
}

#[test]
fn sound_modules_are_not_caught() {
    let mutants = mutate::mutants();
    for mutant in mutants.iter().step_by(40) {
        assert_eq!(mutate::catch(&mutant.unmutated(), &JOBS, &SWEPT), None, "{mutant:?}");
    }
}

#[test]
fn results_have_the_bits_of_a_gpu() {
    let text = golden::load().unwrap();
    let digests: Vec<u32> = SWEPT.iter().map(|swept| swept.digest).collect();
    let wrong = golden::compare(&JOBS, &digests, &golden::read(&text));
    assert!(wrong.is_empty(), "{} of {} jobs:\n{}", wrong.len(), JOBS.len(), wrong.join("\n"));
}

#[test]
fn digests_that_differ_or_lack_are_named() {
    let jobs = &JOBS[..40];
    let digests: Vec<u32> = (0..40).map(|i| 0x1000_0000 + i).collect();
    let golden = golden::read(&golden::write(jobs, &digests, "a GPU"));
    assert_eq!(golden.len(), jobs.len());
    assert!(golden::compare(jobs, &digests, &golden).is_empty());
    let mut other = digests.clone();
    other[7] ^= 1;
    let wrong = golden::compare(jobs, &other, &golden);
    assert_eq!(wrong, [format!("other bits than a GPU's: {}", jobs[7].label)]);
    let wrong = golden::compare(&jobs[1..], &digests[1..], &golden);
    assert_eq!(wrong, [format!("no such job any more: {}", jobs[0].label)]);
    let fewer = golden::read(&golden::write(&jobs[1..], &digests[1..], "a GPU"));
    assert_eq!(golden::compare(jobs, &digests, &fewer), [format!("no GPU has run: {}", jobs[0].label)]);
}

/// The modules whose bits PTX leaves open, which the corpus's README names with the bound that is tested instead.
#[test]
fn kernels_with_open_bits_are_listed() {
    let readme = include_str!("../ptx_corpus/README.md");
    for kernel in KERNELS {
        let open = kernel.modules.iter().any(|module| {
            let holes = kernel.constants.iter().flat_map(|constant| {
                [String::new(), "_magic".to_owned(), "_shift".to_owned()]
                    .map(|part| format!("__spec_{}{part};", constant.name))
            });
            let ptx = holes.fold(module.ptx.to_owned(), |ptx, hole| ptx.replace(&hole, "1;"));
            let module = Module::parse(&ptx).unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
            !module.approximate(&format!("{}_entry_point", kernel.name)).is_empty()
        });
        let listed = readme.contains(&format!("| `{}` |", kernel.name));
        assert_eq!(open, listed, "tests/ptx_corpus/README.md and {}", kernel.name);
    }
}
