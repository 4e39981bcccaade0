//! README and ARCHITECTURE against what is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::catalogue::SUBJECTS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// `conv2d_backward_dx` as the struct's name, `Conv2dBackwardDx`.
fn struct_name(kernel: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    kernel.split('_').map(capital).collect()
}

/// A table's rows as cells, for rows whose first cell begins with a name in backticks.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| line.starts_with("| `"));
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_readme_lists_every_kernel() {
    let readme = read("README.md");
    let mut listed: Vec<_> = rows(&readme).into_iter().filter(|row| row.len() == 3).collect();
    let mut expected: Vec<_> = SUBJECTS
        .iter()
        .map(|subject| {
            let floats = SUBJECTS.iter().filter(|other| other.info.name == subject.info.name).count() == 4;
            let name = format!("`{}`{}", struct_name(subject.info.name), if floats { " °" } else { "" });
            let constants: Vec<_> = subject.constants.iter().map(|(name, _)| *name).collect();
            let args: Vec<_> = subject.info.args.iter().map(|arg| arg.name).collect();
            vec![name, constants.join(", "), args.join(", ")]
        })
        .collect();
    expected.sort();
    expected.dedup();
    listed.sort();
    assert_eq!(listed, expected);
}

/// Every `fn` behind a `#[test]` in the Rust files below a folder.
fn tests_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            for (_, rest) in
                text.match_indices("#[test]").map(|(at, marker)| text.split_at(at + marker.len()))
            {
                let name = rest.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
                found.extend(name.map(|(name, _)| name.to_owned()));
            }
        }
    }
}

#[test]
fn architecture_names_tests_that_exist() {
    let mut tests = BTreeSet::new();
    for folder in ["builder", "host/src", "host/tests", "tests/src", "tests/tests"] {
        tests_below(&root().join(folder), &mut tests);
    }
    let architecture = read("ARCHITECTURE.md");
    let (_, table) = architecture.split_once("## Invariants").expect("the invariants");
    let (table, _) = table.split_once("\n## ").expect("the next section");
    let guarded: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(guarded.len() > 20, "{guarded:?}");
    for line in guarded {
        let named = line.rsplit_once(" | ").expect("two columns").1;
        let named: Vec<_> = named.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test guards {line:?}");
        for name in named {
            assert!(tests.contains(name), "{name} is no test: {line:?}");
        }
    }
}

#[test]
fn documents_name_files_that_exist() {
    for document in ["README.md", "ARCHITECTURE.md"] {
        let text = read(document);
        let named = text.split('`').skip(1).step_by(2).filter(|code| {
            let path = code.contains('/') && !code.contains([' ', '<', '*', '$', ':', '"']);
            path && !code.starts_with('/') && !code.contains("target/")
        });
        for path in named {
            // ARCHITECTURE names what is inside host/src and builder/src from there.
            let places = ["", "host/src", "builder/src", "host"].map(|folder| root().join(folder).join(path));
            assert!(places.iter().any(|place| place.exists()), "{document} names `{path}`");
        }
    }
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

#[test]
fn security_lists_every_public_unsafe_function() {
    let security = read("SECURITY.md");
    // A public trait's method has no `pub` to find it by.
    let mut found = BTreeSet::from(["run_on_cpu".to_owned()]);
    for path in sources(&root().join("host/src")) {
        let text = fs::read_to_string(&path).expect("a source file");
        let declared = text.lines().filter_map(|line| line.trim().strip_prefix("pub unsafe fn "));
        found.extend(declared.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned));
    }
    assert!(found.contains("launch") && found.contains("from_dlpack"), "{found:?}");
    for name in found {
        assert!(
            security.contains(&format!("::{name}`")),
            "SECURITY.md does not say what callers of {name} must do"
        );
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut links = 0;
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "tests/mutation.md",
        "host/data/README.md",
    ];
    for name in documents {
        let text = read(name);
        for (_, rest) in text.match_indices("](").map(|(at, mark)| text.split_at(at + mark.len())) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            if target.contains("://") || target.is_empty() {
                continue;
            }
            let folder = root().join(name);
            let path = folder.parent().expect("a document is in a folder").join(target);
            assert!(path.exists(), "{name} links to {target}, which is not there");
            links += 1;
        }
    }
    assert!(links > 0, "the documents have links");
}
