//! Rejects PTX that the compiler was not meant to write: each rule is a trap that was met once.

use super::{Entry, PtxFile, identifiers, instructions, label_of};
use crate::holes;
use crate::source::{Constant, Exception, Kernel, Param};

/// Why an entry's PTX was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// A panic is reachable.
    #[error("a panic is reachable: `{0}` (run-time division, slice indexing, assert!, unwrap?)")]
    Panic(String),
    /// A code path that LLVM took for impossible, or an endless loop: what is left of a panic.
    #[error("`{entry}`: a path that never returns is left: `{text}`")]
    NoReturn {
        /// The entry.
        entry: String,
        /// The line.
        text: String,
    },
    /// A call.
    #[error("`{entry}`: a call is left: `{text}`")]
    Call {
        /// The entry.
        entry: String,
        /// The line.
        text: String,
    },
    /// Something that an `entry!` block must allow by name.
    #[error("`{entry}`: {what}: `{text}` (`allow({})` in entry! lets it pass)", exception.word())]
    NotAllowed {
        /// The entry.
        entry: String,
        /// What it is.
        what: &'static str,
        /// The line or declaration.
        text: String,
        /// The exception that would allow it.
        exception: Exception,
    },
    /// The optimiser duplicated or removed a barrier.
    #[error("`{entry}`: {found} barrier instructions, and entry! says barriers({declared})")]
    Barriers {
        /// The entry.
        entry: String,
        /// Barriers in the PTX.
        found: usize,
        /// Barriers declared.
        declared: usize,
    },
    /// A hole's token that no constant declares.
    #[error("`{entry}`: the hole `{token}` belongs to no declared constant")]
    UnknownHole {
        /// The entry.
        entry: String,
        /// The token.
        token: String,
    },
    /// A hole outside the one instruction form that the host fills.
    #[error("`{entry}`: a hole outside `mov.b32 register, hole;`: `{text}`")]
    MisplacedHole {
        /// The entry.
        entry: String,
        /// The line.
        text: String,
    },
    /// A declared constant that the PTX lacks.
    #[error(
        "`{entry}`: the constant `{constant}` has no hole; say `let _ = {constant};` in the body if it is unused on purpose"
    )]
    MissingHole {
        /// The entry.
        entry: String,
        /// The constant.
        constant: String,
    },
    /// The entry's parameters are not those of the block.
    #[error("`{entry}`: parameter {index} is `{found}`, expected `{expected}`")]
    Parameter {
        /// The entry.
        entry: String,
        /// The parameter's place, from 0.
        index: usize,
        /// The declaration, or `nothing`.
        found: String,
        /// The expected declaration, or `nothing`.
        expected: String,
    },
    /// An entry that no kernel asks for.
    #[error("the PTX has an entry that no entry! block asks for: `{0}`")]
    UnknownEntry(String),
    /// An entry that is missing.
    #[error("the PTX lacks the entry `{0}`")]
    MissingEntry(String),
    /// The header disagrees with the target.
    #[error("the PTX is for {found}, not for {expected}")]
    Target {
        /// Version and target in the header.
        found: String,
        /// What the builder asked for.
        expected: String,
    },
}

/// The word `panic` anywhere in the compiler's output, comments and mangled names included.
///
/// # Errors
/// The first line with the word.
pub fn no_panic(text: &str) -> Result<(), CheckError> {
    match text.lines().find(|line| line.contains("panic")) {
        Some(line) => Err(CheckError::Panic(line.trim().to_owned())),
        None => Ok(()),
    }
}

/// What holds for every entry, wherever its source came from: no calls, no dead ends, no memory of its own.
///
/// # Errors
/// The first rule that the entry breaks.
pub fn body(file: &PtxFile, entry: &Entry, allowed: &[Exception]) -> Result<(), CheckError> {
    let name = || entry.name.clone();
    for (i, line) in entry.body.iter().enumerate() {
        let text = || line.trim().to_owned();
        for instruction in instructions(line) {
            let base = instruction.opcode.split('.').next().unwrap_or_default();
            let to_itself = base == "bra"
                && instruction.guard.is_none()
                && i > 0
                && label_of(&entry.body[i - 1]) == Some(instruction.operands);
            if matches!(base, "trap" | "exit" | "brkpt") || to_itself {
                return Err(CheckError::NoReturn { entry: name(), text: text() });
            }
            if base == "call" {
                return Err(CheckError::Call { entry: name(), text: text() });
            }
            if let Some((what, exception)) = needs_exception(instruction.opcode)
                && !allowed.contains(&exception)
            {
                return Err(CheckError::NotAllowed { entry: name(), what, text: text(), exception });
            }
        }
    }
    let used: Vec<&str> = entry.body.iter().flat_map(|line| identifiers(line)).collect();
    let table = file.variables.iter().find(|v| v.space != ".shared" && used.contains(&v.name.as_str()));
    match table {
        Some(table) if !allowed.contains(&Exception::Global) => Err(CheckError::NotAllowed {
            entry: name(),
            what: "a table in memory",
            text: table.text.chars().take(80).collect(),
            exception: Exception::Global,
        }),
        _ => Ok(()),
    }
}

/// The exception that an opcode or directive needs, with a word on what it is.
fn needs_exception(opcode: &str) -> Option<(&'static str, Exception)> {
    let parts: Vec<&str> = opcode.split('.').collect();
    let last = parts.last().copied().unwrap_or_default();
    if parts.contains(&"local") {
        return Some(("local memory", Exception::Local));
    }
    match parts[0] {
        "div" | "rem" if last.starts_with(['u', 's']) => {
            Some(("an integer division, which is slow; use FastDivmod", Exception::Division))
        }
        "atom" | "red" if parts.iter().any(|p| p.starts_with('f') || p.starts_with("bf")) => {
            Some(("a float atomic, whose result depends on order", Exception::FloatAtomics))
        }
        _ => None,
    }
}

/// The number of barrier instructions of an entry.
#[must_use]
pub fn barriers(entry: &Entry) -> usize {
    let all = entry.body.iter().flat_map(|line| instructions(line));
    all.filter(|i| is_barrier(i.opcode)).count()
}

/// Block-wide barriers; `bar.warp.sync` is none.
fn is_barrier(opcode: &str) -> bool {
    let mut parts = opcode.split('.');
    matches!(parts.next(), Some("bar" | "barrier")) && !parts.any(|p| matches!(p, "warp" | "cluster"))
}

/// Holes: each in its instruction, each declared, and each constant there unless the body leaves it unused.
///
/// # Errors
/// The first hole or constant that breaks the rule.
pub fn declared_holes(entry: &Entry, constants: &[Constant]) -> Result<(), CheckError> {
    let name = || entry.name.clone();
    let declared: Vec<(String, &Constant)> = constants
        .iter()
        .flat_map(|c| holes::tokens(&c.name, c.divisor).into_iter().map(move |t| (t, c)))
        .collect();
    let mut seen = Vec::new();
    for line in &entry.body {
        for token in identifiers(line).filter(|t| t.contains(holes::PREFIX)) {
            let mut all = instructions(line);
            let in_place = matches!((all.next(), all.next()), (Some(i), None) if i.guard.is_none()
                && i.opcode == "mov.b32"
                && i.operands.strip_prefix("%r").and_then(|o| o.split_once(", "))
                    .is_some_and(|(n, t)| n.bytes().all(|b| b.is_ascii_digit()) && t == token));
            if !in_place {
                return Err(CheckError::MisplacedHole { entry: name(), text: line.trim().to_owned() });
            }
            match declared.iter().find(|(t, _)| t == token) {
                Some((_, constant)) => seen.push(constant.name.as_str()),
                None => return Err(CheckError::UnknownHole { entry: name(), token: token.to_owned() }),
            }
        }
    }
    match constants.iter().find(|c| !c.unused && !seen.contains(&c.name.as_str())) {
        Some(constant) => Err(CheckError::MissingHole { entry: name(), constant: constant.name.clone() }),
        None => Ok(()),
    }
}

/// The PTX declaration of a parameter's type, as far as the name: `.u32`, `.align 8 .b8 [24]`.
///
/// `None` for a structure of a kernel's own.
#[must_use]
pub fn param_form(param: &Param, kind: &str) -> Option<&'static str> {
    if param.ty.starts_with('*') {
        return Some(".u64 .ptr");
    }
    Some(match param.ty.as_str() {
        "i32" | "u32" => ".u32",
        "i64" | "u64" => ".u64",
        "f32" => ".f32",
        "f64" => ".f64",
        "FastDivmod" => ".align 4 .b8 [12]",
        "FastDivmod64" => ".align 8 .b8 [24]",
        "E" => match kind {
            "b8" | "i8" => ".u8",
            "b16" | "i16" | "f16" | "bf16" => ".u16",
            "b32" | "i32" => ".u32",
            "b64" | "i64" => ".u64",
            "f32" => ".f32",
            "f64" => ".f64",
            _ => return None,
        },
        _ => return None,
    })
}

/// Stands for the form of a structure of a kernel's own, whose size only the compiler knows.
const STRUCTURE: &str = "a structure by value";

/// The parameters of an entry against the block's `args` and `hidden`.
///
/// # Errors
/// The first parameter that differs.
pub fn parameters(entry: &Entry, kernel: &Kernel, kind: &str) -> Result<(), CheckError> {
    let expected: Vec<&Param> = kernel.args.iter().chain(&kernel.hidden).collect();
    for index in 0..expected.len().max(entry.params.len()) {
        let found = entry.params.get(index).map_or("nothing", |p| p.as_str());
        let form = expected.get(index).map(|p| param_form(p, kind).unwrap_or(STRUCTURE));
        let found_form = normal_form(found, &entry.name, index);
        let fits = |form: &str| match found_form.as_deref() {
            Some(found) if form == STRUCTURE => found.starts_with(".align "),
            found => found == Some(form),
        };
        if !form.is_some_and(fits) {
            return Err(CheckError::Parameter {
                entry: entry.name.clone(),
                index,
                found: found.to_owned(),
                expected: form.unwrap_or("nothing").to_owned(),
            });
        }
    }
    Ok(())
}

/// `.param .align 8 .b8 name_param_3[24]` as `.align 8 .b8 [24]`; a pointer's alignment is left off.
fn normal_form(declaration: &str, entry: &str, index: usize) -> Option<String> {
    let form = declaration.strip_prefix(".param ")?;
    let (form, size) = form.split_once(&format!("{entry}_param_{index}"))?;
    let form = if form.contains(".ptr") { ".u64 .ptr" } else { form.trim() };
    Some(if size.is_empty() { form.to_owned() } else { format!("{form} {size}") })
}

/// Every rule for the entry of a kernel.
///
/// # Errors
/// The first rule that the entry breaks.
pub fn entry(file: &PtxFile, entry: &Entry, kernel: &Kernel, kind: &str) -> Result<(), CheckError> {
    body(file, entry, &kernel.allowed)?;
    let found = barriers(entry);
    if found != kernel.barriers {
        return Err(CheckError::Barriers { entry: entry.name.clone(), found, declared: kernel.barriers });
    }
    declared_holes(entry, &kernel.constants)?;
    parameters(entry, kernel, kind)
}

/// The header against the target, and the entries against those that the kernels ask for.
///
/// # Errors
/// A wrong header, an entry too many or too few.
pub fn inventory(file: &PtxFile, expected: &[String], version: &str, target: &str) -> Result<(), CheckError> {
    if file.version != version || file.target != target {
        return Err(CheckError::Target {
            found: format!("{} {}", file.version, file.target),
            expected: format!("{version} {target}"),
        });
    }
    if let Some(extra) = file.entries.iter().find(|e| !expected.contains(&e.name)) {
        return Err(CheckError::UnknownEntry(extra.name.clone()));
    }
    match expected.iter().find(|name| !file.entries.iter().any(|e| e.name == **name)) {
        Some(missing) => Err(CheckError::MissingEntry(missing.clone())),
        None => Ok(()),
    }
}
