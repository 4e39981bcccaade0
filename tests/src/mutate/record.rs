//! The record of the mutation check: `tests/mutation.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Mutant;

/// What stands where an explanation is wanted.
const UNEXPLAINED: &str = "**not explained**";

/// The first line: how many mutants are caught.
#[must_use]
pub fn caught(caught: usize, of: usize) -> String {
    format!("caught {caught} of {of} ({:.1} %)", 100.0 * caught as f64 / of as f64)
}

/// How a mutant is named in the record; lines move, so their numbers are not part of it.
fn title(mutant: &Mutant) -> String {
    let Mutant { module: (kernel, kind), operator, before, after, .. } = mutant;
    let after = if after.is_empty() { "nothing" } else { after };
    format!("`{kernel}` {kind}, {}: `{before}` becomes `{after}`", operator.name())
}

/// The explanations in a record, by what they explain.
#[must_use]
pub fn explanations(record: &str) -> BTreeMap<String, String> {
    let mut explanations = BTreeMap::new();
    let mut title = None;
    for line in record.lines() {
        if let Some(name) = line.strip_prefix("- ") {
            title = Some(name.to_owned());
        } else if let (Some(text), Some(title)) = (line.strip_prefix("  "), &title)
            && text != UNEXPLAINED
        {
            explanations.insert(title.clone(), text.to_owned());
        }
    }
    explanations
}

/// The record, with the explanations that are known.
#[must_use]
pub fn record(mutants: &[Mutant], fates: &[Option<String>], known: &BTreeMap<String, String>) -> String {
    let survivors: Vec<_> = mutants.iter().zip(fates).filter(|(_, fate)| fate.is_none()).collect();
    let mut text = caught(mutants.len() - survivors.len(), mutants.len());
    text.push_str(
        "\n\nEach mutant is a module that ships with one mistake in it, drawn with a fixed seed that follows from \
         the module's name.\nIt is caught when a job of `tests/src/jobs` fails on the PTX machine: by a wrong result, by the \
         machine's report, or by\na spent budget. `tests/tests/mutation.rs` fails unless this file is what the check \
         finds.\n\nAfter a change of the modules or of the suite:\n\n    cargo run --release -p cotangent-tests --bin \
         mutation\n\nIt keeps the explanations of the survivors that are still there. Each survivor needs one, or a \
         case that catches it.\n\n## Survivors\n\n",
    );
    for (mutant, _) in survivors {
        let title = title(mutant);
        let explanation = known.get(&title).map_or(UNEXPLAINED, String::as_str);
        writeln!(text, "- {title}\n  {explanation}").expect("writing to a String cannot fail");
    }
    text
}

/// Whether every survivor in a record is explained.
#[must_use]
pub fn is_explained(record: &str) -> bool {
    !record.contains(UNEXPLAINED)
}
