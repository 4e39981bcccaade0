//! What is fuzzed: functions of bytes that panic where a property fails.
//!
//! `tests/tests/fuzz.rs` replays the committed corpus and feeds random bytes, for longer on demand; `fuzz/` feeds bytes
//! that libFuzzer chooses by the code that they reach.

mod autotune;
mod dlpack;
mod draws;
mod ptx;
mod shapes;
mod specialise;
mod tensors;

pub use ptx::launch_all;

/// Something that holds for all bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Panics where it does not hold.
    pub check: fn(&[u8]),
}

/// Everything that is fuzzed.
pub const TARGETS: [Target; 6] = [
    Target { name: "autotune", check: autotune::check },
    Target { name: "dlpack", check: dlpack::check },
    Target { name: "ptx", check: ptx::check },
    Target { name: "shapes", check: shapes::check },
    Target { name: "specialise", check: specialise::check },
    Target { name: "tensors", check: tensors::check },
];

/// Checks these bytes.
///
/// # Panics
/// If the property fails, and for a name that is no target's.
pub fn check(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("the name of a target");
    (target.check)(data);
}
