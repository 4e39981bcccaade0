//! Modules made from entries, and the rewrite of loop ends.

use crate::common::{BODY, ptx_file, ptx_text};
use cotangent_builder::ptx::split::{self, SplitError};
use cotangent_builder::ptx::{self, PtxFile, loops, replace_identifiers};

fn module(file: &PtxFile) -> Result<String, SplitError> {
    split::module(file, &file.entries[0], "shift_entry_point", "Made by a test.", None)
}

#[test]
fn a_module_is_the_entry_under_its_public_name() {
    let body = "
	ld.param.b64 \t%rd1, [shift_entry_point__b32_param_3+16];
	// begin inline asm
	mov.b32 %r1, __spec_block; /* a
	comment */ mov.b32 %r2, %r1;
	// end inline asm
$L__BB62_3:                             // in loop
	@%p1 bra \t$L__BB62_3;
	bra.uni \t$L__BB62_12;
$L__BB62_12:
	{ .reg .b32 tmp; mov.b64 {tmp, %r3}, %rd1; }
	.pragma \"nounroll // kept\";
	ret;";
    let expected = "\
// Made by a test.
.version 7.0
.target sm_70
.address_size 64

.visible .entry shift_entry_point(
	.param .u64 .ptr .align 1 shift_entry_point_param_0,
	.param .u32 shift_entry_point_param_1,
	.param .u64 shift_entry_point_param_2,
	.param .align 8 .b8 shift_entry_point_param_3[24]
)
{
	.reg .pred \t%p<2>;
	.reg .b32 \t%r<9>;
	ld.param.b64 \t%rd1, [shift_entry_point_param_3+16];
	mov.b32 %r1, __spec_block;
 mov.b32 %r2, %r1;
$L__BB0_3:
	@%p1 bra \t$L__BB0_3;
	bra.uni \t$L__BB0_12;
$L__BB0_12:
	{ .reg .b32 tmp; mov.b64 {tmp, %r3}, %rd1; }
	.pragma \"nounroll // kept\";
	ret;
}
";
    assert_eq!(module(&ptx_file(body)).unwrap(), expected);
}

#[test]
fn a_module_does_not_depend_on_its_neighbours() {
    let labels = |n: u32| format!("$L__BB{n}_1:\n\t@%p1 bra \t$L__BB{n}_1;\n{BODY}");
    let alone = module(&ptx_file(&labels(0))).unwrap();
    let other = ptx_text(&labels(0)).replace("shift_entry_point", "before_entry_point");
    let neighbour = other.split_once(".address_size 64").unwrap().1;
    let joined = ptx_text(&labels(1)) + neighbour;
    assert_eq!(module(&ptx::parse(&joined).unwrap()).unwrap(), alone);
}

#[test]
fn directives_and_an_empty_parameter_list_are_kept() {
    let text = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry a__b8()\n.maxntid 128, 1, 1\n{\n\tret;\n}\n";
    let file = ptx::parse(text).unwrap();
    let module = split::module(&file, &file.entries[0], "a", "Note.", None).unwrap();
    assert!(module.contains(".entry a(\n)\n.maxntid 128, 1, 1\n{\n\tret;\n}\n"), "{module}");
}

#[test]
fn variables_are_copied_where_they_are_used_alone() {
    let shared = ".extern .shared .align 128 .b8 tile[];";
    let with =
        |body: &str| ptx::parse(&ptx_text(body).replace(".visible", &format!("{shared}\n.visible"))).unwrap();
    let using = module(&with("\tmov.u32 \t%r1, tile;\n\tret;")).unwrap();
    assert!(using.contains(&format!("{shared}\n.visible .entry")), "{using}");
    // A longer name that starts with the variable's is another name.
    let not_using = module(&with("\tmov.u32 \t%r1, tiles;\n\tret;")).unwrap();
    assert!(!not_using.contains("tile["), "{not_using}");
}

#[test]
fn labels_of_unknown_form_or_of_two_functions_are_refused() {
    let refused = |body: &str| module(&ptx_file(body)).unwrap_err();
    assert!(matches!(refused("$L__tmp4:\n\tret;"), SplitError::Label { label, .. } if label == "$L__tmp4"));
    assert!(matches!(refused("\tbra.uni \t$L__BB0_x;"), SplitError::Label { .. }));
    let mixed = "$L__BB0_1:\n\tbra.uni \t$L__BB1_1;\n$L__BB1_1:\n\tret;";
    assert!(matches!(refused(mixed), SplitError::MixedLabels { .. }));
}

#[test]
fn identifiers_are_replaced_whole() {
    let text = "mov.b32 %r1, a; mov.b32 %ra, ab; bra $a; ld [a+4]; a_b a.b;";
    let replaced = replace_identifiers(text, |token| (token == "a").then(|| "XX".to_owned()));
    assert_eq!(replaced, "mov.b32 %r1, XX; mov.b32 %ra, ab; bra $a; ld [XX+4]; a_b XX.b;");
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn rewritten(text: &str) -> (usize, String) {
    let mut body = lines(text);
    let count = loops::rewrite(&mut body);
    (count, body.join("\n"))
}

const LOOP: &str = "\
$L__BB0_2:
	add.s32 \t%r3, %r3, 1;
	setp.eq.b32 \t%p2, %r3, %r4;
	@%p2 bra \t$L__BB0_3;
	bra.uni \t$L__BB0_2;
$L__BB0_3:
	ret;";

#[test]
fn a_loop_end_is_turned_round() {
    let expected = "\
$L__BB0_2:
	add.s32 \t%r3, %r3, 1;
	setp.ne.b32 \t%p2, %r3, %r4;
	@%p2 bra \t$L__BB0_2;
	bra.uni \t$L__BB0_3;
$L__BB0_3:
	ret;";
    assert_eq!(rewritten(LOOP), (1, expected.to_owned()));
    assert_eq!(rewritten(expected), (0, expected.to_owned()), "once is enough");
}

#[test]
fn a_compare_between_other_instructions_counts_too() {
    let text = LOOP.replace("\t@%p2", "\tmov.b32 \t%r9, %r3;\n\t@%p2");
    assert_eq!(rewritten(&text).0, 1);
}

#[test]
fn a_loop_end_of_any_other_shape_is_left_alone() {
    let cases = [
        ("a float compare, which NaN makes false both ways", "setp.eq.b32", "setp.eq.f32"),
        (
            "a compare combined with another predicate",
            "setp.eq.b32 \t%p2, %r3, %r4",
            "setp.eq.and.b32 \t%p2, %r3, %r4, %p1",
        ),
        ("a compare with two results", "%p2, %r3, %r4", "%p2|%p3, %r3, %r4"),
        ("a guarded compare", "\tsetp", "\t@%p1 setp"),
        ("a predicate read elsewhere", "\tret", "\tselp.b32 \t%r5, 1, 0, %p2;\n\tret"),
        ("a predicate written twice", "\tadd", "\tsetp.lt.s32 \t%p2, %r3, 0;\n\tadd"),
        ("a branch on false", "@%p2", "@!%p2"),
        ("a conditional jump back", "\tbra.uni", "\t@%p1 bra.uni"),
        ("a label between the branches", "\tbra.uni", "$L__BB0_7:\n\tbra.uni"),
        ("no jump back", "bra.uni \t$L__BB0_2", "bra.uni \t$L__BB0_3"),
        ("an instruction between the branches", "\tbra.uni", "\tmov.b32 \t%r9, %r3;\n\tbra.uni"),
        ("a compare in braces", "\tsetp.eq.b32 \t%p2, %r3, %r4;", "\t{ setp.eq.b32 \t%p2, %r3, %r4; }"),
        ("a compare after the branches", "\tsetp.eq.b32 \t%p2, %r3, %r4;\n", ""),
    ];
    for (what, from, to) in cases {
        let mut text = LOOP.replace(from, to);
        assert_ne!(text, LOOP, "{what}");
        if what.starts_with("a compare after") {
            text.push_str("\n\tsetp.eq.b32 \t%p2, %r3, %r4;");
        }
        assert_eq!(rewritten(&text), (0, text.clone()), "{what}");
    }
}

/// What an integer compare says, on 32-bit patterns.
fn holds(opcode: &str, a: u32, b: u32) -> bool {
    let parts: Vec<&str> = opcode.split('.').collect();
    let signed = parts[2].starts_with('s');
    let order = if signed { (a as i32).cmp(&(b as i32)) } else { a.cmp(&b) };
    match parts[1] {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        other => panic!("{other}"),
    }
}

#[test]
fn the_turned_compare_is_the_opposite_for_every_operator() {
    let values = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    for compare in ["eq", "ne", "lt", "le", "gt", "ge"] {
        for ty in ["b32", "s32", "u32"] {
            let opcode = format!("setp.{compare}.{ty}");
            let (count, text) = rewritten(&LOOP.replace("setp.eq.b32", &opcode));
            assert_eq!(count, 1, "{opcode}");
            let turned = text.lines().nth(2).unwrap().split_whitespace().next().unwrap();
            for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
                assert_ne!(holds(&opcode, a, b), holds(turned, a, b), "{opcode} {turned} {a} {b}");
            }
        }
    }
}
