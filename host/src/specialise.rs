//! Writes a kernel's constants into the holes of its PTX.
//!
//! A hole is a whole token that starts with [`PREFIX`]: `__spec_kh` for the constant itself, and
//! `__spec_kh_magic` and `__spec_kh_shift` beside it where the kernel divides by it. ptxas takes bad numbers
//! in silence (2³² is truncated, `012` is octal), so values are 32-bit by type and printed as plain decimals.

use crate::divmod::fast_divmod;
use crate::error::{Error, Result};
use crate::kernels::{KernelInfo, Module};

/// What every hole's name starts with.
pub(crate) const PREFIX: &str = "__spec_";

/// The module's PTX with a number in each hole.
pub(crate) fn specialise(kernel: &KernelInfo, module: &Module, constants: &[i32]) -> Result<String> {
    let error = |problem: String| Error::Module { kernel: kernel.name, problem };
    if constants.len() != kernel.constants.len() {
        return Err(error(format!(
            "takes {} constants, but {} were given",
            kernel.constants.len(),
            constants.len()
        )));
    }
    fill(module.ptx, |hole| {
        kernel.constants.iter().zip(constants).find_map(|(constant, &value)| {
            let rest = hole.strip_prefix(constant.name)?;
            let [_, magic, shift] = fast_divmod(value as u32);
            match rest {
                "" => Some(i64::from(value)),
                "_magic" if constant.divisor => Some(i64::from(magic)),
                "_shift" if constant.divisor => Some(i64::from(shift)),
                _ => None,
            }
        })
    })
    .map_err(|hole| error(format!("has the hole {PREFIX}{hole}, which is no constant of this kernel")))
}

/// The text with `value(name)` in place of each hole, or the name of the first hole that has no value.
pub(crate) fn fill(ptx: &str, value: impl Fn(&str) -> Option<i64>) -> std::result::Result<String, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let mut filled = String::with_capacity(ptx.len());
    let mut rest = ptx;
    while let Some(at) = rest.find(PREFIX) {
        let (before, hole) = rest.split_at(at);
        let end = hole.find(|c| !is_word(c)).unwrap_or(hole.len());
        let name = &hole[PREFIX.len()..end];
        filled.push_str(before);
        // A hole inside a longer word would be another symbol.
        let number = value(name).filter(|_| !before.ends_with(is_word)).ok_or_else(|| name.to_owned())?;
        filled.push_str(&number.to_string());
        rest = &hole[end..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Fails for PTX of a caller's own that cannot be this kernel's module.
pub(crate) fn check_complete(kernel: &KernelInfo, ptx: &str) -> Result<()> {
    let error = |problem: String| Err(Error::Module { kernel: kernel.name, problem });
    for directive in [".version", ".target", ".address_size"] {
        if !ptx.lines().any(|line| line.trim_start().starts_with(directive)) {
            return error(format!("has no {directive} line"));
        }
    }
    if let Err(hole) = fill(ptx, |_| None) {
        return error(format!("still has the hole {PREFIX}{hole}"));
    }
    let entry = format!("{}_entry_point", kernel.name);
    let exported = ptx.lines().filter_map(|line| line.trim_start().split_once(".entry")).any(|(_, rest)| {
        rest.trim_start().strip_prefix(&entry).is_some_and(|after| {
            !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$')
        })
    });
    if exported { Ok(()) } else { error(format!("exports no entry point {entry}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Constant, Family};

    fn value(name: &str) -> Option<i64> {
        match name {
            "sh" => Some(2),
            "sh_magic" => Some(4_294_967_295),
            "pad" => Some(-3),
            _ => None,
        }
    }

    #[test]
    fn fill_replaces_whole_tokens_only() {
        let ptx = "mov.b32 %r1, __spec_sh;\nmov.b32 %r2, __spec_sh_magic;\nmov.b32 %r3, __spec_pad;";
        let filled = fill(ptx, value).expect("every hole has a value");
        assert_eq!(filled, "mov.b32 %r1, 2;\nmov.b32 %r2, 4294967295;\nmov.b32 %r3, -3;");
    }

    const KERNEL: KernelInfo = KernelInfo {
        name: "scaled",
        family: Family::Copy,
        source: "",
        args: &[],
        hidden: &[],
        constants: &[Constant { name: "pad", divisor: false }, Constant { name: "sh", divisor: true }],
        modules: &[],
    };

    fn problem(ptx: &'static str, constants: &[i32]) -> String {
        match specialise(&KERNEL, &Module { kind: "b32", target: "sm_70", ptx }, constants) {
            Err(Error::Module { kernel: "scaled", problem }) => problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn specialise_rejects_a_wrong_number_of_constants() {
        for constants in [&[][..], &[1], &[1, 2, 3]] {
            let problem = problem("mov.b32 %r1, __spec_pad;", constants);
            assert!(problem.contains("takes 2 constants") && problem.contains(&constants.len().to_string()));
        }
    }

    #[test]
    fn specialise_rejects_a_hole_of_no_constant() {
        // A magic number is a divisor's alone, and a longer name is another name.
        for hole in ["__spec_kh", "__spec_pad_magic", "__spec_padded", "__spec_sh_magic2", "__spec_SH"] {
            let ptx = format!("mov.b32 %r1, __spec_pad;\nmov.b32 %r2, {hole};").leak();
            let problem = problem(ptx, &[-3, 2]);
            assert!(problem.contains(hole), "{problem}");
        }
    }

    #[test]
    fn specialise_takes_a_module_that_has_no_use_for_a_constant() {
        let module = Module { kind: "b32", target: "sm_70", ptx: "mov.b32 %r1, __spec_sh_shift;" };
        let filled = specialise(&KERNEL, &module, &[-3, 5]).expect("every hole is a constant's");
        assert_eq!(filled, "mov.b32 %r1, 3;");
    }

    #[test]
    fn fill_rejects_a_hole_without_a_value() {
        assert_eq!(fill("mov.b32 %r1, __spec_shx;", value), Err("shx".to_owned()));
        assert_eq!(fill("mov.b32 %r1, a__spec_sh;", value), Err("sh".to_owned()));
        assert_eq!(fill("mov.b32 %r1, __spec_", value), Err(String::new()));
    }
}
