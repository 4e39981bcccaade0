//! What the builder does with a real compiler, on code of every kind that must be refused.

use std::path::Path;
use std::process::Command;

use cotangent_builder::compile::{self, CompileError, TARGETS};
use cotangent_builder::ptx::check::{self, CheckError};
use cotangent_builder::ptx::{self, ParseError, loops, split};
use cotangent_builder::source::{Exception, Family, Kernel, read_kernels};
use cotangent_builder::{BuildError, Workspace, compile_source, compile_sources, toolchain};

/// A source with one entry point around these statements.
fn entry(body: &str) -> String {
    format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"ptx-kernel\" fn probe_entry_point(x: *mut u32, n: u32) {{\n\
         let t = thread_idx_x();\nunsafe {{\n{body}\n}}\n}}\n"
    )
}

fn refused(source: &str) -> BuildError {
    match compile_source(source) {
        Err(error) => error,
        Ok(ptx) => panic!("{source}\nwas compiled to\n{ptx}"),
    }
}

fn accepted(body: &str) {
    let ptx = compile_source(&entry(body)).unwrap_or_else(|error| panic!("{body}: {error}"));
    assert!(ptx.contains(".visible .entry probe_entry_point("), "{ptx}");
}

#[test]
#[ignore = "needs the device compiler: cargo ptx-setup"]
fn panics_are_refused() {
    for body in [
        "*x = n / *x;",
        "let s = core::slice::from_raw_parts(x, n as usize); *x = s[t as usize];",
        "assert!(t < n); *x = t;",
        "*x = n.checked_add(t).unwrap();",
    ] {
        let error = refused(&entry(body));
        // Some of core's panic functions have no `panic` in their names; those are left unresolved.
        let found = matches!(
            error,
            BuildError::Check(CheckError::Panic(_)) | BuildError::Parse(ParseError::Extern { .. })
        );
        assert!(found, "{body}: {error}");
    }
    accepted("*x = n.checked_add(t).unwrap_or(0);");
    accepted("if t < n { *x.add(t as usize) = t }");
}

#[test]
#[ignore = "needs the device compiler: cargo ptx-setup"]
fn what_a_block_must_allow_is_refused() {
    let needs = |body: &str, exception: Exception| {
        let error = refused(&entry(body));
        let found = matches!(&error, BuildError::Check(CheckError::NotAllowed { exception: e, .. }) if *e == exception);
        assert!(found, "{body}: {error}");
    };
    needs("*x = n.checked_div(*x).unwrap_or(0);", Exception::Division);
    needs("let mut a = [t; 64]; a[(n & 63) as usize] = 1; *x = a[(*x & 63) as usize];", Exception::Local);
    needs(
        "const TABLE: [u32; 16] = [7, 1, 9, 4, 3, 8, 2, 6, 5, 0, 11, 15, 13, 12, 10, 14]; *x = TABLE[(n & 15) as usize];",
        Exception::Global,
    );
    accepted("*x = n / 7;");
    accepted("let mut a = [t; 64]; a[3] = 1; *x = a[3];");
    accepted("*x = FastDivmod::new(9).div(n);");
}

#[test]
#[ignore = "needs the device compiler: cargo ptx-setup"]
fn functions_that_stay_out_of_line_are_refused() {
    let helper = |attribute: &str| {
        format!(
            "#[inline({attribute})]\nfn helper(n: u32) -> u32 {{ n.rotate_left(3) ^ 5 }}\n{}",
            entry("*x = helper(n);")
        )
    };
    let error = refused(&helper("never"));
    assert!(matches!(error, BuildError::Parse(ParseError::Function { .. })), "{error}");
    assert!(compile_source(&helper("always")).is_ok());
}

#[test]
#[ignore = "needs the device compiler: cargo ptx-setup"]
fn a_source_has_one_entry_point() {
    assert!(matches!(refused("pub fn nothing() {}"), BuildError::EntryPoints(0)));
    let two = entry("*x = n;") + &entry("*x = t;").replace("probe_entry", "other_entry");
    assert!(matches!(refused(&two), BuildError::EntryPoints(2)));
}

#[test]
#[ignore = "needs the device compiler: cargo ptx-setup"]
fn a_compile_error_is_shown_as_the_compiler_gave_it() {
    let error = refused(&entry("*x = missing;"));
    let BuildError::Compile(CompileError::Failed { output, .. }) = &error else { panic!("{error}") };
    assert!(output.contains("error[E0425]") && output.contains("missing"), "{output}");
}

#[test]
#[ignore = "needs the device compiler: cargo ptx-setup"]
fn a_hole_in_a_source_is_refused() {
    let error = refused(&entry("*x = cotangent_device::hole!(\"__spec_k\");"));
    assert!(matches!(error, BuildError::Check(CheckError::UnknownHole { .. })), "{error}");
}

/// An entry point's source for a kernel with the canonical constants, as the host writes it.
fn with_entry_point(kernel: &Kernel, element: &str) -> String {
    let params: Vec<_> = kernel.args.iter().chain(&kernel.hidden).collect();
    let typed = |ty: &str| match ty {
        "E" => element.to_owned(),
        "*mut E" => format!("*mut {element}"),
        other => other.replace("<E as", &format!("<{element} as")),
    };
    let declared: Vec<String> = params.iter().map(|p| format!("{}: {}", p.name, typed(&p.ty))).collect();
    let values = kernel.constants.iter().map(|c| {
        if c.divisor {
            format!("const {{ FastDivmod::new({}) }}", c.canonical)
        } else {
            c.canonical.to_string()
        }
    });
    let passed: Vec<String> = params.iter().map(|p| p.name.clone()).chain(values).collect();
    let name = &kernel.name;
    format!(
        "{}\n\n#[unsafe(no_mangle)]\npub unsafe extern \"ptx-kernel\" fn {name}_entry_point({}) {{\n    \
         unsafe {{ {name}::<{element}>({}) }}\n}}\n",
        kernel.source,
        declared.join(", "),
        passed.join(", ")
    )
}

#[test]
#[ignore = "needs the device compiler: cargo ptx-setup"]
fn every_kernel_compiles_from_its_source_alone() {
    let workspace = Workspace::find().unwrap();
    let kernels = read_kernels(&workspace.device()).unwrap();
    let floor: Vec<_> = kernels.iter().filter(|k| k.target == &TARGETS[0] && k.allowed.is_empty()).collect();
    assert!(floor.len() >= 12, "{}", floor.len());
    let element = |k: &Kernel| if k.family == Family::Copy { "u16" } else { "Bf16" };
    let sources: Vec<String> = floor.iter().map(|k| with_entry_point(k, element(k))).collect();
    let texts: Vec<&str> = sources.iter().map(String::as_str).collect();
    let mut failures = Vec::new();
    for (kernel, result) in floor.iter().zip(compile_sources(&texts).unwrap()) {
        let module = match result {
            Ok(module) => module,
            Err(error) => {
                failures.push(format!("{}: {error}", kernel.name));
                continue;
            }
        };
        let file = ptx::parse(&module).unwrap();
        assert_eq!(file.entries[0].name, format!("{}_entry_point", kernel.name));
        assert_eq!(check::barriers(&file.entries[0]), kernel.barriers, "{}", kernel.name);
        assert_eq!(file.entries[0].params.len(), kernel.args.len() + kernel.hidden.len(), "{}", kernel.name);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The size of what ptxas makes of a module.
fn assembled_bytes(ptxas: &Path, module: &str) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("a.ptx"), dir.path().join("a.cubin"));
    std::fs::write(&input, module).unwrap();
    let status =
        Command::new(ptxas).args(["-arch", "sm_90", "-o"]).arg(&output).arg(&input).status().unwrap();
    assert!(status.success(), "{module}");
    output.metadata().unwrap().len()
}

#[test]
#[ignore = "needs the device compiler (cargo ptx-setup) and COTANGENT_PTXAS naming a ptxas"]
fn a_loop_over_a_hole_is_unrolled_once_its_end_is_turned_round() {
    let ptxas = std::env::var_os("COTANGENT_PTXAS").expect("COTANGENT_PTXAS names a ptxas");
    let workspace = Workspace::find().unwrap();
    let toolchain = toolchain::find(&workspace, None).unwrap().toolchain;
    let target = &TARGETS[0];
    let libraries = compile::libraries(&workspace, &toolchain, target).unwrap();
    let source = "#![no_std] #![feature(abi_ptx, asm_experimental_arch)] use cotangent_device::prelude::*;\n"
        .to_owned()
        + &entry(
            "let k = cotangent_device::hole!(\"__spec_k\");\nlet (mut i, mut sum) = (0, 0_u32);\n\
             while i < k { sum = sum.rotate_left(5) ^ *x.add((t * k + i) as usize); i += 1; }\n*x = sum;",
        );
    let raw = compile::source(&toolchain, target, &libraries, &source).unwrap();
    let file = ptx::parse(&raw).unwrap();
    let mut body = file.entries[0].body.clone();
    assert_eq!(loops::rewrite(&mut body), 1, "the compiler still ends loops in the known shape:\n{raw}");
    let turned = split::module(&file, &file.entries[0], "probe", "Test.", None).unwrap();
    let growth = |module: &str| {
        let bytes = |k: &str| assembled_bytes(ptxas.as_ref(), &module.replace("__spec_k", k));
        bytes("24") as i64 - bytes("4") as i64
    };
    // Twenty more rounds are at least twenty more instructions of 16 bytes each, if they are written out.
    assert!(growth(&turned) >= 20 * 16, "{}", growth(&turned));
}
