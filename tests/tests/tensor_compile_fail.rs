//! Misuse that does not compile: outputs that alias inputs, views that outlive their memory, wrong element types.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
