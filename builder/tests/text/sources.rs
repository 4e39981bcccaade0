//! Kernels read from device sources.

use crate::common::{SOURCE, kernel, kernel_with};
use cotangent_builder::source::{Exception, Family, Kernel, SourceError, parse_file};

fn refused(from: &str, to: &str) -> SourceError {
    let text = SOURCE.replace(from, to);
    assert_ne!(text, SOURCE, "{from}");
    parse_file("src/shift.rs", &text).unwrap_err()
}

fn pairs(params: &[cotangent_builder::source::Param]) -> Vec<(&str, &str)> {
    params.iter().map(|p| (p.name.as_str(), p.ty.as_str())).collect()
}

#[test]
fn a_kernel_is_read_with_its_groups() {
    let Kernel { name, family, target, args, hidden, constants, barriers, allowed, file, .. } = kernel();
    assert_eq!((name.as_str(), family, target.arch), ("shift", Family::Copy, "sm_70"));
    assert_eq!(pairs(&args), [("x", "*mut E"), ("n", "i32")]);
    assert_eq!(pairs(&hidden), [("rows", "i64"), ("chunk", "FastDivmod64")]);
    let constants: Vec<_> =
        constants.iter().map(|c| (c.name.as_str(), c.divisor, c.canonical, c.unused)).collect();
    assert_eq!(constants, [("block", false, 128, false), ("g", true, 7, false), ("pad", false, 1, true)]);
    assert_eq!((barriers, allowed.len(), file.as_str()), (0, 0, "src/shift.rs"));
}

#[test]
fn the_source_is_verbatim_from_doc_comment_to_brace() {
    let source = kernel().source;
    let start = SOURCE.find("/// Copies `x`.").unwrap();
    let end = SOURCE.find("\n\nfn helper").unwrap();
    assert_eq!(source, &SOURCE[start..end]);
}

#[test]
fn the_source_is_verbatim_after_text_of_several_bytes_a_character() {
    let text = SOURCE.replace("//! A file.", "//! ∑ ∂ 2³¹ — «é».").replace("Copies `x`", "Copies ⌈x⌉");
    let kernel = parse_file("src/shift.rs", &text).unwrap().remove(0);
    assert!(
        kernel.source.starts_with("/// Copies ⌈x⌉.\n///\n/// # Safety") && kernel.source.ends_with("g)\n}")
    );
    assert_eq!(pairs(&kernel.args)[0], ("x", "*mut E"));
}

#[test]
fn groups_after_the_constants_are_read() {
    let kernel = kernel_with("barriers(3) allow(local, float_atomics)");
    assert_eq!(kernel.barriers, 3);
    assert_eq!(kernel.allowed, [Exception::Local, Exception::FloatAtomics]);
}

#[test]
fn a_block_may_name_its_target() {
    let text = SOURCE.replace("entry! { copy", "entry! { sm_70 arithmetic");
    let kernel = parse_file("src/shift.rs", &text).unwrap().remove(0);
    assert_eq!((kernel.family, kernel.target.arch), (Family::Arithmetic, "sm_70"));
    let error = refused("entry! { copy", "entry! { sm_1 copy");
    assert!(matches!(&error, SourceError::UnknownTarget { word, .. } if word == "sm_1"), "{error}");
}

#[test]
fn the_block_agrees_with_the_function() {
    let parameter = |from: &str, to: &str| match refused(from, to) {
        SourceError::Parameter { index, function, block, .. } => (index, function, block),
        other => panic!("{other}"),
    };
    let text = |i: usize, f: &str, b: &str| (i, f.to_owned(), b.to_owned());
    assert_eq!(parameter("args(x: *mut E, n: i32)", "args(x: *mut E, m: i32)"), text(1, "n: i32", "m: i32"));
    assert_eq!(
        parameter("args(x: *mut E, n: i32)", "args(n: i32, x: *mut E)"),
        text(0, "x: *mut E", "n: i32")
    );
    assert_eq!(parameter("hidden(rows: i64,", "hidden(rows: u64,"), text(2, "rows: i64", "rows: u64"));
    assert_eq!(parameter("constants(block: i32", "constants(block: FastDivmod").0, 4);
    assert_eq!(parameter(", pad: i32)\n}", ")\n}"), text(6, "pad: i32", "nothing"));
    assert_eq!(parameter(", pad: i32) {", ") {"), text(6, "nothing", "pad: i32"));
}

#[test]
fn the_function_is_public_and_generic_over_e() {
    assert!(matches!(refused("pub unsafe fn", "unsafe fn"), SourceError::NoFunction { .. }));
    assert!(
        matches!(refused("copy shift", "copy shaft"), SourceError::NoFunction { kernel, .. } if kernel == "shaft")
    );
    for (from, to) in [
        ("<E: Num>", ""),
        ("<E: Num>", "<E: Num, F>"),
        ("<E: Num>", "<T: Num>"),
        ("<E: Num>", "<const E: u32>"),
    ] {
        assert!(matches!(refused(from, to), SourceError::Generics { .. }), "{to}");
    }
}

#[test]
fn constants_do_not_share_holes() {
    let both = SOURCE.replace("pad", "g_magic");
    let error = parse_file("src/shift.rs", &both).unwrap_err();
    assert!(matches!(&error, SourceError::HoleTwice { token, .. } if token == "__spec_g_magic"), "{error}");
}

#[test]
fn a_malformed_block_is_refused_with_its_place() {
    let place = |from: &str, to: &str| match refused(from, to) {
        SourceError::Syntax { line, column, message, .. } => (line, column, message),
        other => panic!("{other}"),
    };
    let (line, column, message) = place("entry! { copy shift", "entry! { coppy shift");
    assert_eq!((line, column), (18, 16), "{message}");
    assert!(place("args(", "arks(").2.contains("args"));
    assert!(place("block: i32, g", "block: i64, g").2.contains("FastDivmod"));
    assert!(place("pad: i32)\n}", "pad: i32) allow(panic)\n}").2.contains("`float_atomics`"));
    assert!(place("pad: i32)\n}", "pad: i32) more()\n}").2.contains("barriers"));
    assert_eq!(place("let _ = pad;", "let = pad;").0, 12, "a file that is not Rust");
}

#[test]
fn every_element_kind_is_listed_once() {
    for family in [Family::Copy, Family::Arithmetic, Family::Float] {
        let mut kinds = family.kinds().to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), family.kinds().len());
    }
}
