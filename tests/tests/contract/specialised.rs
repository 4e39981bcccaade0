//! Shipped modules with their constants written in.

use cotangent::launch::Launch;

use crate::catalogue::launches;

/// What every hole's name starts with.
const PREFIX: &str = "__spec_";

/// The number that belongs into a hole, from the definition: with `l = ⌈log2 d⌉`, a divisor's magic number is
/// ⌈2^(31 + l) / d⌉ and its shift is l.
fn number(launch: &Launch, hole: &str) -> i64 {
    for (constant, &value) in launch.kernel().constants.iter().zip(launch.constants()) {
        let Some(rest) = hole.strip_prefix(constant.name) else { continue };
        let shift = (0..32).find(|&l| (1_i64 << l) >= i64::from(value)).expect("a 32-bit divisor");
        match (rest, constant.divisor) {
            ("", _) => return i64::from(value),
            ("_magic", true) => return ((1 << (31 + shift)) + i64::from(value) - 1) / i64::from(value),
            ("_shift", true) => return shift,
            _ => {}
        }
    }
    panic!("{}: the hole {hole} belongs to no constant", launch.kernel().name);
}

#[test]
fn each_hole_gets_its_number_and_nothing_else_changes() {
    let mut filled = 0;
    for (_, _, launch) in launches() {
        let place = format!("{} {}", launch.kernel().name, launch.module().kind);
        let ptx = launch.specialised_ptx().unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(!ptx.contains(PREFIX), "{place} has a hole left");
        assert_eq!(ptx.lines().count(), launch.module().ptx.lines().count(), "{place}");
        for (shipped, specialised) in launch.module().ptx.lines().zip(ptx.lines()) {
            // The compiler's own instruction for a hole: `mov.b32 %r1, __spec_name;`.
            let Some((before, rest)) = shipped.split_once(PREFIX) else {
                assert_eq!(shipped, specialised, "{place}");
                continue;
            };
            let hole = rest.strip_suffix(';').expect("a hole is an instruction's last operand");
            assert_eq!(specialised, format!("{before}{};", number(&launch, hole)), "{place}");
            filled += 1;
        }
    }
    assert!(filled > 1000, "only {filled} holes were seen");
}
