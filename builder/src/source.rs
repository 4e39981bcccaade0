//! Reads the device crate's sources: each `entry!` block with its kernel function, verbatim.
//!
//! An `entry!` block is data for the compiler and for the builder both (`device/src/entry.rs`). Here it is
//! parsed, and checked against the function that it names: same parameters, same order, same types.

mod block;
mod error;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use syn::spanned::Spanned;

use crate::compile::{self, Target};
use block::EntryBlock;
pub use error::SourceError;

/// Which set of element kinds a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Moves bits: one module per element width.
    Copy,
    /// Computes: one module per integer width and float type.
    Arithmetic,
    /// Computes what integers have not: one module per float type.
    Float,
    /// Computes with sums in f32: one module per float type up to f32.
    Single,
    /// Computes what f32 alone needs: one module.
    F32,
}

impl Family {
    /// The element kinds, in the order in which modules are listed.
    #[must_use]
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Copy => &["b8", "b16", "b32", "b64"],
            Self::Arithmetic => &["i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"],
            Self::Float => &["f16", "bf16", "f32", "f64"],
            Self::Single => &["f16", "bf16", "f32"],
            Self::F32 => &["f32"],
        }
    }

    /// The word that stands for the family in an `entry!` block.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Arithmetic => "arithmetic",
            Self::Float => "float",
            Self::Single => "single",
            Self::F32 => "f32",
        }
    }
}

/// A kernel parameter: its name and its type as the source writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The parameter's name.
    pub name: String,
    /// The type's text with single spaces, such as `*mut E`.
    pub ty: String,
}

/// A specialization constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The constant's name; its hole is `__spec_<name>`.
    pub name: String,
    /// True for a `FastDivmod`, whose magic number and shift are holes too.
    pub divisor: bool,
    /// The value that the resource table is made with.
    pub canonical: u32,
    /// True where the body says `let _ = <name>;`, so that the PTX may lack its hole.
    pub unused: bool,
}

/// What PTX is rejected for unless its `entry!` block says `allow(word)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// `local`: arrays and spills in `.local` memory.
    Local,
    /// `global`: tables in `.global` or `.const` memory.
    Global,
    /// `division`: integer division and remainder instructions.
    Division,
    /// `float_atomics`: sums whose order, and so whose last bits, differ from run to run.
    FloatAtomics,
}

impl Exception {
    /// Every exception there is.
    pub const ALL: [Self; 4] = [Self::Local, Self::Global, Self::Division, Self::FloatAtomics];

    /// The word inside `allow(…)`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Global => "global",
            Self::Division => "division",
            Self::FloatAtomics => "float_atomics",
        }
    }
}

/// One kernel: its function and its `entry!` block.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The function's name.
    pub name: String,
    /// Its set of element kinds.
    pub family: Family,
    /// The architecture that its modules are compiled for.
    pub target: &'static Target,
    /// The caller's arguments.
    pub args: Vec<Param>,
    /// The words that the launch fills.
    pub hidden: Vec<Param>,
    /// The specialization constants.
    pub constants: Vec<Constant>,
    /// How many barrier instructions each of its PTX entries has.
    pub barriers: usize,
    /// Threads of a block, and blocks that a multiprocessor should hold at once.
    pub threads: Option<[u32; 2]>,
    /// Exceptions from the PTX rules.
    pub allowed: Vec<Exception>,
    /// The function's text, doc comments and attributes included.
    pub source: String,
    /// The file it comes from, relative to the device crate.
    pub file: String,
}

/// Every `.rs` file of the crate in a fixed order: paths with `/`, sorted by bytes, relative to `device_dir`.
///
/// # Errors
/// A folder that cannot be read.
pub fn source_files(device_dir: &Path) -> Result<Vec<String>, SourceError> {
    fn walk(device_dir: &Path, folder: &str, files: &mut Vec<String>) -> Result<(), SourceError> {
        let path = device_dir.join(folder);
        let read = |error| SourceError::Read { path: path.clone(), error };
        for item in fs::read_dir(&path).map_err(read)? {
            let item = item.map_err(read)?;
            let name = format!("{folder}/{}", item.file_name().to_string_lossy());
            if item.file_type().map_err(read)?.is_dir() {
                walk(device_dir, &name, files)?;
            } else if Path::new(&name).extension().is_some_and(|e| e == "rs") {
                files.push(name);
            }
        }
        Ok(())
    }
    let mut files = Vec::new();
    walk(device_dir, "src", &mut files)?;
    files.sort();
    Ok(files)
}

/// Reads every kernel of the device crate, sorted by name.
///
/// # Errors
/// What [`parse_file`] refuses, and a file that cannot be read.
pub fn read_kernels(device_dir: &Path) -> Result<Vec<Kernel>, SourceError> {
    let mut kernels: Vec<Kernel> = Vec::new();
    for file in source_files(device_dir)? {
        let path = device_dir.join(&file);
        let text = fs::read_to_string(&path).map_err(|error| SourceError::Read { path, error })?;
        for kernel in parse_file(&file, &text)? {
            if kernels.iter().any(|k| k.name == kernel.name) {
                return Err(SourceError::Twice { file, kernel: kernel.name });
            }
            kernels.push(kernel);
        }
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(kernels)
}

/// Reads the kernels of one source file, whose name is used in messages alone.
///
/// # Errors
/// A file that is not Rust, and an `entry!` block that is malformed or disagrees with its function.
pub fn parse_file(file: &str, text: &str) -> Result<Vec<Kernel>, SourceError> {
    let syntax = |error: &syn::Error| {
        let start = error.span().start();
        SourceError::Syntax {
            file: file.to_owned(),
            line: start.line,
            column: start.column + 1,
            message: error.to_string(),
        }
    };
    let parsed = syn::parse_file(text).map_err(|e| syntax(&e))?;
    let mut kernels: Vec<Kernel> = Vec::new();
    for item in &parsed.items {
        let syn::Item::Macro(item) = item else { continue };
        if !item.mac.path.is_ident("entry") {
            continue;
        }
        let block: EntryBlock = syn::parse2(item.mac.tokens.clone()).map_err(|e| syntax(&e))?;
        let function = parsed.items.iter().find_map(|item| match item {
            syn::Item::Fn(f) if f.sig.ident == block.name && matches!(f.vis, syn::Visibility::Public(_)) => {
                Some(f)
            }
            _ => None,
        });
        let Some(function) = function else {
            return Err(SourceError::NoFunction { file: file.to_owned(), kernel: block.name });
        };
        kernels.push(join(file, text, block, function)?);
    }
    Ok(kernels)
}

/// The block and its function as one kernel, once they agree.
fn join(file: &str, text: &str, block: EntryBlock, function: &syn::ItemFn) -> Result<Kernel, SourceError> {
    let (file, kernel) = (file.to_owned(), block.name.clone());
    check_generics(&file, &kernel, text, function)?;
    let declared: Vec<Param> = block
        .args
        .iter()
        .chain(&block.hidden)
        .cloned()
        .chain(block.constants.iter().map(|c| Param {
            name: c.name.clone(),
            ty: if c.divisor { "FastDivmod" } else { "i32" }.to_owned(),
        }))
        .collect();
    let actual: Vec<Param> = function.sig.inputs.iter().map(|input| param_of(text, input)).collect();
    let show = |p: Option<&Param>| p.map_or("nothing".to_owned(), |p| format!("{}: {}", p.name, p.ty));
    for index in 0..declared.len().max(actual.len()) {
        let (of_block, of_function) = (declared.get(index), actual.get(index));
        if of_block != of_function {
            let (function, block) = (show(of_function), show(of_block));
            return Err(SourceError::Parameter { file, kernel, index, function, block });
        }
    }
    let mut taken: Vec<(String, &str)> = Vec::new();
    for constant in &block.constants {
        for token in crate::holes::tokens(&constant.name, constant.divisor) {
            if let Some((_, first)) = taken.iter().find(|(t, _)| *t == token) {
                let (first, second) = ((*first).to_owned(), constant.name.clone());
                return Err(SourceError::HoleTwice { file, kernel, first, second, token });
            }
            taken.push((token, &constant.name));
        }
    }
    let word = block.target.as_deref().unwrap_or(compile::TARGETS[0].arch);
    let Some(target) = compile::target(word) else {
        let known = compile::TARGETS.iter().map(|t| t.arch).collect::<Vec<_>>().join(", ");
        return Err(SourceError::UnknownTarget { file, kernel, word: word.to_owned(), known });
    };
    let unused = unused_names(function);
    let constants = block
        .constants
        .into_iter()
        .map(|constant| Constant { unused: unused.contains(&constant.name), ..constant })
        .collect();
    Ok(Kernel {
        name: block.name,
        family: block.family,
        target,
        args: block.args,
        hidden: block.hidden,
        constants,
        barriers: block.barriers,
        threads: block.threads,
        allowed: block.allowed,
        source: text[function.span().byte_range()].to_owned(),
        file,
    })
}

fn check_generics(file: &str, kernel: &str, text: &str, function: &syn::ItemFn) -> Result<(), SourceError> {
    let params = &function.sig.generics.params;
    let one_type =
        params.len() == 1 && params.iter().all(|p| matches!(p, syn::GenericParam::Type(t) if t.ident == "E"));
    if one_type {
        return Ok(());
    }
    let found = text[params.span().byte_range()].to_owned();
    Err(SourceError::Generics { file: file.to_owned(), kernel: kernel.to_owned(), found })
}

fn param_of(text: &str, input: &syn::FnArg) -> Param {
    match input {
        syn::FnArg::Typed(typed) => {
            let name = match &*typed.pat {
                syn::Pat::Ident(p) => p.ident.to_string(),
                other => text[other.span().byte_range()].to_owned(),
            };
            Param { name, ty: single_spaced(&text[typed.ty.span().byte_range()]) }
        }
        syn::FnArg::Receiver(_) => Param { name: "self".to_owned(), ty: "Self".to_owned() },
    }
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The names in the body's statements `let _ = a;` and `let _ = (a, b);`: parameters left unused on purpose.
fn unused_names(function: &syn::ItemFn) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for statement in &function.block.stmts {
        let syn::Stmt::Local(syn::Local { pat: syn::Pat::Wild(_), init: Some(init), .. }) = statement else {
            continue;
        };
        let parts: Vec<&syn::Expr> = match &*init.expr {
            syn::Expr::Tuple(tuple) => tuple.elems.iter().collect(),
            single => vec![single],
        };
        for part in parts {
            if let syn::Expr::Path(path) = part
                && let Some(ident) = path.path.get_ident()
            {
                names.insert(ident.to_string());
            }
        }
    }
    names
}
