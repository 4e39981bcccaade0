//! Each rule for PTX: text that breaks it is refused, and its good twin passes.

use crate::common::{BODY, kernel, kernel_with, ptx_file, ptx_text};
use cotangent_builder::ptx::check::{self, CheckError};
use cotangent_builder::ptx::{self, ParseError};
use cotangent_builder::source::{Exception, Kernel};

fn verdict(kernel: &Kernel, body: &str) -> Result<(), CheckError> {
    let file = ptx_file(body);
    check::entry(&file, &file.entries[0], kernel, "b32")
}

fn with(line: &str) -> String {
    format!("{line}\n{BODY}")
}

#[test]
fn the_good_entry_passes() {
    assert_eq!(verdict(&kernel(), BODY), Ok(()));
    assert_eq!(check::no_panic(&ptx_text(BODY)), Ok(()));
}

#[test]
fn a_panic_is_refused_even_in_a_comment() {
    let bad = with("\t// core::panicking::panic_fmt");
    assert!(
        matches!(check::no_panic(&ptx_text(&bad)), Err(CheckError::Panic(line)) if line.contains("panic_fmt"))
    );
}

#[test]
fn an_unresolved_extern_and_a_left_function_are_refused() {
    let bad = format!("{}.extern .func (.param .b32 f) memcmp\n(\n)\n;\n", ptx_text(BODY));
    assert!(matches!(ptx::parse(&bad), Err(ParseError::Extern { text, .. }) if text.contains("memcmp")));
    let bad = format!("{}.func helper()\n{{\n\tret;\n}}\n", ptx_text(BODY));
    assert!(matches!(ptx::parse(&bad), Err(ParseError::Function { .. })));
    assert!(ptx::parse(&ptx_text(BODY)).is_ok());
}

#[test]
fn left_over_text_is_refused() {
    for bad in [".section .debug_info\n", "garbage\n", ".extern .shared .align 16 .b8 tile[]"] {
        let text = format!("{}{bad}", ptx_text(BODY));
        assert!(matches!(ptx::parse(&text), Err(ParseError::LeftOver { .. })), "{bad}");
    }
    let good = format!("{}.extern .shared .align 16 .b8 tile[];\n", ptx_text(BODY));
    assert_eq!(ptx::parse(&good).unwrap().variables[0].name, "tile");
}

#[test]
fn a_header_without_64_bit_addresses_is_refused() {
    let text = ptx_text(BODY);
    let bad = text.replace(".address_size 64", ".address_size 32");
    assert_eq!(ptx::parse(&bad), Err(ParseError::AddressSize("32".into())));
    let bad = text.replace(".address_size 64", "");
    assert_eq!(ptx::parse(&bad), Err(ParseError::NoHeader(".address_size")));
    let bad = text.replace(".version 7.0", "");
    assert_eq!(ptx::parse(&bad), Err(ParseError::NoHeader(".version")));
}

#[test]
fn an_entry_without_an_end_is_refused() {
    let text = ptx_text(BODY);
    let bad = text.trim_end().strip_suffix('}').unwrap();
    assert_eq!(ptx::parse(bad), Err(ParseError::Unclosed("shift_entry_point__b32".into())));
}

#[test]
fn a_call_is_refused() {
    for bad in ["\tcall.uni (retval0), memcpy, (param0);", "\t@%p1 call helper;", "\t{ call.uni f, (a); }"] {
        assert!(matches!(verdict(&kernel(), &with(bad)), Err(CheckError::Call { .. })), "{bad}");
    }
    assert_eq!(verdict(&kernel(), &with("\tmov.b32 %r3, %r1;")), Ok(()));
}

#[test]
fn a_path_without_return_is_refused() {
    for bad in ["\ttrap;", "\texit;", "$L__BB0_1:\n\tbra.uni \t$L__BB0_1;"] {
        assert!(matches!(verdict(&kernel(), &with(bad)), Err(CheckError::NoReturn { .. })), "{bad}");
    }
    assert_eq!(verdict(&kernel(), &with("$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;")), Ok(()));
}

/// The line is refused, and passes once the block allows the exception, and that one alone.
fn needs(line: &str, exception: Exception) {
    let found = verdict(&kernel(), &with(line));
    assert!(
        matches!(&found, Err(CheckError::NotAllowed { exception: e, .. }) if *e == exception),
        "{line}: {found:?}"
    );
    for other in Exception::ALL {
        let found = verdict(&kernel_with(&format!("allow({})", other.word())), &with(line));
        assert_eq!(found.is_ok(), other == exception, "{line} with allow({}): {found:?}", other.word());
    }
}

#[test]
fn local_memory_needs_an_exception() {
    needs("\t.local .align 8 .b8 \t__local_depot0[16];", Exception::Local);
    needs("\tld.local.b32 \t%r3, [%rd1];", Exception::Local);
    needs("\tcvta.local.u64 \t%rd1, %rd2;", Exception::Local);
    assert_eq!(verdict(&kernel(), &with("\tld.global.b32 \t%r3, [%rd1];")), Ok(()));
}

#[test]
fn integer_division_needs_an_exception() {
    needs("\tdiv.u32 \t%r3, %r1, %r2;", Exception::Division);
    needs("\trem.s64 \t%rd3, %rd1, %rd2;", Exception::Division);
    for good in ["\tdiv.rn.f32 \t%r3, %r1, %r2;", "\tmul.hi.u32 \t%r3, %r1, %r2;"] {
        assert_eq!(verdict(&kernel(), &with(good)), Ok(()), "{good}");
    }
}

#[test]
fn float_atomics_need_an_exception() {
    needs("\tatom.global.add.f32 \t%r3, [%rd1], %r2;", Exception::FloatAtomics);
    needs("\tred.global.add.noftz.bf16x2 \t[%rd1], %r2;", Exception::FloatAtomics);
    for good in ["\tatom.global.add.u32 \t%r3, [%rd1], %r2;", "\tred.global.add.u64 \t[%rd1], %rd2;"] {
        assert_eq!(verdict(&kernel(), &with(good)), Ok(()), "{good}");
    }
}

#[test]
fn a_table_in_memory_needs_an_exception_where_it_is_used() {
    let verdict = |body: &str, kernel: &Kernel| {
        let text = format!("{}.global .align 4 .b8 anon_1[8] = {{1, 0, 0, 0}};\n", ptx_text(body));
        let file = ptx::parse(&text).unwrap();
        check::entry(&file, &file.entries[0], kernel, "b32")
    };
    let using = with("\tmov.b64 \t%rd1, anon_1;");
    assert!(matches!(
        verdict(&using, &kernel()),
        Err(CheckError::NotAllowed { exception: Exception::Global, .. })
    ));
    assert_eq!(verdict(&using, &kernel_with("allow(global)")), Ok(()));
    assert_eq!(verdict(BODY, &kernel()), Ok(()), "the table belongs to another entry");
}

#[test]
fn barriers_are_counted() {
    let bar = "\tbar.sync \t0;";
    let aligned = "\tbarrier.cta.sync.aligned.all \t0;";
    let count = |found, declared| {
        Err(CheckError::Barriers { entry: "shift_entry_point__b32".into(), found, declared })
    };
    assert_eq!(verdict(&kernel(), &with(bar)), count(1, 0));
    assert_eq!(verdict(&kernel_with("barriers(1)"), BODY), count(0, 1));
    let two = with(&format!("{bar}\n{aligned}"));
    assert_eq!(verdict(&kernel_with("barriers(1)"), &two), count(2, 1));
    assert_eq!(verdict(&kernel_with("barriers(2)"), &two), Ok(()));
    assert_eq!(verdict(&kernel(), &with("\tbar.warp.sync \t-1;")), Ok(()), "no barrier of the block");
}

#[test]
fn holes_belong_to_declared_constants() {
    let unknown = |line: &str| match verdict(&kernel(), &with(line)) {
        Err(CheckError::UnknownHole { token, .. }) => token,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(unknown("\tmov.b32 %r3, __spec_other;"), "__spec_other");
    // A name that a declared one starts with, or that starts with a declared one, is another name.
    assert_eq!(unknown("\tmov.b32 %r3, __spec_blo;"), "__spec_blo");
    assert_eq!(unknown("\tmov.b32 %r3, __spec_block_ow;"), "__spec_block_ow");
    assert_eq!(unknown("\tmov.b32 %r3, __spec_block_magic;"), "__spec_block_magic");
    assert_eq!(unknown("\tmov.b32 %r3, x__spec_block;"), "x__spec_block");
    for good in ["__spec_g", "__spec_g_magic", "__spec_g_shift", "__spec_pad", "__spec_block"] {
        assert_eq!(verdict(&kernel(), &with(&format!("\tmov.b32 %r3, {good};"))), Ok(()), "{good}");
    }
}

#[test]
fn holes_stand_in_their_instruction_alone() {
    for bad in [
        "\tadd.s32 %r3, %r1, __spec_block;",
        "\tmov.u32 %r3, __spec_block;",
        "\t@%p1 mov.b32 %r3, __spec_block;",
        "\tmov.b32 %rd3, __spec_block;",
        "\tmov.b32 %r3, __spec_block+1;",
        "\tmov.b32 %r3, __spec_block; mov.b32 %r4, %r3;",
        "__spec_block:",
    ] {
        let found = verdict(&kernel(), &with(bad));
        assert!(matches!(found, Err(CheckError::MisplacedHole { .. })), "{bad}: {found:?}");
    }
}

#[test]
fn every_constant_has_a_hole_or_is_unused_on_purpose() {
    let missing = |body: &str| match verdict(&kernel(), body) {
        Err(CheckError::MissingHole { constant, .. }) => constant,
        other => panic!("{body}: {other:?}"),
    };
    assert_eq!(missing("\tmov.b32 %r2, __spec_g;\n\tret;"), "block");
    assert_eq!(missing("\tmov.b32 %r2, __spec_block;\n\tret;"), "g");
}

#[test]
fn parameters_are_those_of_the_block() {
    let verdict = |from: &str, to: &str| {
        let text = ptx_text(BODY);
        let changed = text.replace(from, to);
        assert_ne!(text, changed);
        let file = ptx::parse(&changed).unwrap();
        check::entry(&file, &file.entries[0], &kernel(), "b32")
    };
    let at = |found: Result<(), CheckError>| match found {
        Err(CheckError::Parameter { index, .. }) => index,
        other => panic!("{other:?}"),
    };
    assert_eq!(at(verdict(".param .u32 ", ".param .u64 ")), 1, "a width");
    assert_eq!(at(verdict("[24]", "[12]")), 3, "a struct's size");
    assert_eq!(at(verdict(".u64 .ptr .align 1 ", ".u64 ")), 0, "no pointer");
    assert_eq!(
        at(verdict(",\n\t.param .align 8 .b8 shift_entry_point__b32_param_3[24]", "")),
        3,
        "one too few"
    );
    assert_eq!(at(verdict("[24]", "[24],\n\t.param .u32 shift_entry_point__b32_param_4")), 4, "one too many");
    assert_eq!(verdict(".ptr .align 1", ".ptr .align 4"), Ok(()), "an alignment that the type implies");
}

#[test]
fn entries_are_those_of_the_kernels() {
    let file = ptx_file(BODY);
    let name = "shift_entry_point__b32".to_owned();
    let verdict = |names: &[String], version, target| check::inventory(&file, names, version, target);
    let one = [name.clone()];
    assert_eq!(verdict(&one, "7.0", "sm_70"), Ok(()));
    assert_eq!(verdict(&[], "7.0", "sm_70"), Err(CheckError::UnknownEntry(name.clone())));
    let both = [name, "shift_entry_point__b64".to_owned()];
    assert_eq!(verdict(&both, "7.0", "sm_70"), Err(CheckError::MissingEntry(both[1].clone())));
    assert!(matches!(verdict(&one, "7.1", "sm_70"), Err(CheckError::Target { .. })));
    assert!(matches!(verdict(&one, "7.0", "sm_80"), Err(CheckError::Target { .. })));
}
