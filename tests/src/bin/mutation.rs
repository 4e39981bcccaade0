//! Runs the mutation check and writes `tests/mutation.md`. With the argument `list`, it also says what caught each.

use std::time::Instant;

use cotangent_tests::{jobs, mutate};

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/mutation.md");
    let list = std::env::args().any(|argument| argument == "list");
    let start = Instant::now();
    let jobs = jobs::all();
    let swept = jobs::sweep(&jobs);
    println!("{} jobs in {:.0} s", jobs.len(), start.elapsed().as_secs_f64());
    let mutants = mutate::mutants();
    let fates = mutate::catch_all(&mutants, &jobs, &swept);
    println!("{} mutants in {:.0} s", mutants.len(), start.elapsed().as_secs_f64());
    for (mutant, fate) in mutants.iter().zip(&fates) {
        if let (true, Some(how)) = (list, fate) {
            println!("{mutant:?}\n    {how}");
        }
    }
    let known = mutate::explanations(&std::fs::read_to_string(path).unwrap_or_default());
    let record = mutate::record(&mutants, &fates, &known);
    println!("{}", record.lines().next().unwrap_or_default());
    std::fs::write(path, record)
}
