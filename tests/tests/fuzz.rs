//! The fuzz targets on stable Rust: the committed corpus, and random bytes for as long as is asked.
//!
//! `COTANGENT_FUZZ_SECONDS=600 cargo test --release --test fuzz` runs each target that long. Bytes that fail are
//! written to `target/fuzz/`; the test then names the file, which belongs into the corpus with the fix.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use cotangent::verify::SplitMix64;
use cotangent_tests::fuzz::{TARGETS, Target};

/// Random inputs of each target where no time is asked for.
const INPUTS: u64 = 300;

/// Bytes of an input at most.
const LONGEST: u64 = 300;

fn corpus(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target.name)
}

#[test]
fn the_corpus_holds() {
    for target in &TARGETS {
        let files = fs::read_dir(corpus(target)).unwrap_or_else(|error| panic!("{}: {error}", target.name));
        let paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert!(paths.len() >= 10, "{} has {} inputs", target.name, paths.len());
        for path in paths {
            let data = fs::read(&path).unwrap();
            assert!(catch_unwind(|| (target.check)(&data)).is_ok(), "{} fails", path.display());
        }
    }
}

/// The same bytes for the same number, each time.
fn input(target: &Target, number: u64) -> Vec<u8> {
    let mut random = SplitMix64::from_text(&format!("{} {number}", target.name));
    let len = random.below(LONGEST);
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn fuzz(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seconds =
        env::var("COTANGENT_FUZZ_SECONDS").map(|seconds| seconds.parse().expect("a number of seconds"));
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut number = 0;
    while end.as_ref().map_or(number < INPUTS, |&end| Instant::now() < end) {
        let data = input(target, number);
        if catch_unwind(|| (target.check)(&data)).is_err() {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../fuzz");
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join(format!("{name}-{number}"));
            fs::write(&path, data).unwrap();
            panic!("the input {number} fails; its bytes are in {}", path.display());
        }
        number += 1;
    }
    println!("{name}: {number} inputs");
}

#[test]
fn autotune_holds_for_random_bytes() {
    fuzz("autotune");
}

#[test]
fn dlpack_holds_for_random_bytes() {
    fuzz("dlpack");
}

#[test]
fn ptx_holds_for_random_bytes() {
    fuzz("ptx");
}

#[test]
fn shapes_hold_for_random_bytes() {
    fuzz("shapes");
}

#[test]
fn specialise_holds_for_random_bytes() {
    fuzz("specialise");
}

#[test]
fn tensors_hold_for_random_bytes() {
    fuzz("tensors");
}
