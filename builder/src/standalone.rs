//! Compiles a kernel's `source()` text by itself: the kernel function and one entry point whose constants are
//! literals. The result must compute what the specialised module computes; tests compare the two.

use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use crate::compile::{self, Libraries, TARGETS, Target};
use crate::generate;
use crate::holes;
use crate::pipeline::BuildError;
use crate::ptx::check::{self, CheckError};
use crate::ptx::{self, split};
use crate::toolchain::{self, Toolchain};
use crate::workspace::Workspace;

/// What is put in front of a kernel's source; one line, so that the compiler's messages count lines from two. The
/// shared array's declaration is the device crate's, which stays behind in its library.
const PREAMBLE: &str = "#![no_std] #![feature(abi_ptx, asm_experimental_arch)] use cotangent_device::prelude::*; \
     core::arch::global_asm!(\".extern .shared .align 128 .b8 cotangent_shared[];\");\n";

/// A compiler for kernels' sources, with the device crate built as the library that they use.
pub struct SourceCompiler {
    toolchain: Toolchain,
    target: &'static Target,
    libraries: Libraries,
}

impl SourceCompiler {
    /// Finds a compiler and builds the device crate for this target.
    ///
    /// # Errors
    /// No compiler is found, or the device crate does not compile.
    pub fn new(workspace: &Workspace, target: &'static Target) -> Result<Self, BuildError> {
        let toolchain = toolchain::find(workspace, None)?.toolchain;
        let libraries = compile::libraries(workspace, &toolchain, target)?;
        Ok(Self { toolchain, target, libraries })
    }

    /// Compiles one source to a PTX module with one entry point, under the rules for shipped modules.
    ///
    /// # Errors
    /// The source does not compile, has not exactly one entry point, or its PTX breaks a rule.
    pub fn compile(&self, source: &str) -> Result<String, BuildError> {
        let text = format!("{PREAMBLE}{source}");
        let ptx = compile::source(&self.toolchain, self.target, &self.libraries, &text)?;
        module(&ptx, self.target)
    }

    /// Compiles many sources in parallel; the results are in the sources' order.
    pub fn compile_all(&self, sources: &[&str]) -> Vec<Result<String, BuildError>> {
        sources.par_iter().map(|source| self.compile(source)).collect()
    }
}

/// The compiler's output as one module, once it passes the checks.
fn module(text: &str, target: &Target) -> Result<String, BuildError> {
    check::no_panic(text)?;
    let file = ptx::parse(text)?;
    let [entry] = file.entries.as_slice() else {
        return Err(BuildError::EntryPoints(file.entries.len()));
    };
    check::inventory(&file, std::slice::from_ref(&entry.name), &target.version(), target.arch)?;
    check::body(&file, entry, &[])?;
    let hole = entry.body.iter().flat_map(|l| ptx::identifiers(l)).find(|t| t.contains(holes::PREFIX));
    if let Some(token) = hole {
        return Err(CheckError::UnknownHole { entry: entry.name.clone(), token: token.to_owned() }.into());
    }
    Ok(split::module(&file, entry, &entry.name, generate::NOTE_SOURCE, None)?)
}

/// Compiles one kernel's source for the floor target, in the repository around the current folder. The first
/// call of a process finds the compiler and builds the device crate; later calls reuse both.
///
/// # Errors
/// As for [`SourceCompiler::new`] and [`SourceCompiler::compile`].
pub fn compile_source(source: &str) -> Result<String, BuildError> {
    shared()?.compile(source)
}

/// As [`compile_source`], for many sources in parallel.
///
/// # Errors
/// As for [`SourceCompiler::new`]; the result of each source is in its place.
pub fn compile_sources(sources: &[&str]) -> Result<Vec<Result<String, BuildError>>, BuildError> {
    Ok(shared()?.compile_all(sources))
}

/// The process's compiler; a failure is not kept, so that a later call may find what was missing.
fn shared() -> Result<Arc<SourceCompiler>, BuildError> {
    static COMPILER: Mutex<Option<Arc<SourceCompiler>>> = Mutex::new(None);
    let mut slot = COMPILER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(compiler) = &*slot {
        return Ok(Arc::clone(compiler));
    }
    let workspace = Workspace::find()?;
    let compiler = Arc::new(SourceCompiler::new(&workspace, &TARGETS[0])?);
    *slot = Some(Arc::clone(&compiler));
    Ok(compiler)
}
