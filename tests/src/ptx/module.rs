//! A module: its entries, decoded and ready to run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use super::code::{Code, Step};
use super::error::PtxError;
use super::link::{link, param_offsets};
use super::parse::parse;
use super::syntax::{Function, Space, Unit};
use super::ty::Ty;

/// What a kernel parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A device address.
    Pointer,
    /// A scalar.
    Scalar(Ty),
    /// A structure passed by value.
    Bytes,
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the text.
    pub name: String,
    /// Its offset in the parameter block, in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// What it is.
    pub kind: ParamKind,
}

/// An entry: a kernel that can be launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// The line of its declaration.
    pub line: u32,
    /// The block extents that the text asks for, and whether they must be met exactly.
    pub threads: Option<([u32; 3], bool)>,
    /// Bytes of static shared memory, without the machine's red zones.
    pub shared_bytes: usize,
}

/// A `.global` variable of the module.
#[derive(Clone, Debug)]
pub(crate) struct GlobalVariable {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) initial: Vec<u8>,
}

/// A parsed and decoded module.
pub struct Module {
    pub(crate) label: String,
    lines: Vec<String>,
    entries: Vec<Entry>,
    codes: Vec<Code>,
    pub(crate) globals: Vec<GlobalVariable>,
    version: (u64, u64),
    target: String,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module")
            .field("label", &self.label)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Module {
    /// Parses and decodes a module, every entry of it.
    ///
    /// # Errors
    /// Names the line of what is not PTX, or of the first instruction that the machine does not know.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        let unit = parse(text)?;
        let mut entries = Vec::new();
        let mut codes = Vec::new();
        for function in unit.functions.iter().filter(|f| f.entry) {
            let code = link(&unit, function)?;
            entries.push(entry(function, &code));
            codes.push(code);
        }
        Ok(Self {
            label: "module".to_owned(),
            lines: text.lines().map(str::to_owned).collect(),
            entries,
            codes,
            globals: globals(&unit),
            version: unit.version,
            target: unit.target,
        })
    }

    /// Gives the module a name for reports.
    #[must_use]
    pub fn with_label(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    /// The entries, in the order of the text.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// An entry by name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The PTX version.
    #[must_use]
    pub fn version(&self) -> (u64, u64) {
        self.version
    }

    /// The target, such as `sm_70`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Instructions of an entry whose result bits PTX leaves open, with their lines. What they give on a GPU may
    /// differ from what the machine gives.
    #[must_use]
    pub fn approximate(&self, entry: &str) -> &[(u32, String)] {
        let index = self.entries.iter().position(|e| e.name == entry);
        index.map_or(&[], |index| &self.codes[index].approximate)
    }

    /// The lines of an entry's instructions that no thread has executed in any launch so far.
    #[must_use]
    pub fn unreached(&self, entry: &str) -> BTreeSet<u32> {
        let Some((_, code)) = self.code(entry) else { return BTreeSet::new() };
        let ops = code.ops.iter().filter(|op| !matches!(op.step, Step::Goto(_)));
        let mut lines: BTreeMap<u32, bool> = BTreeMap::new();
        for op in ops {
            *lines.entry(op.line).or_default() |= op.reached.load(Ordering::Relaxed);
        }
        lines.into_iter().filter(|&(_, reached)| !reached).map(|(line, _)| line).collect()
    }

    pub(crate) fn code(&self, name: &str) -> Option<(&Entry, &Code)> {
        let index = self.entries.iter().position(|entry| entry.name == name)?;
        Some((&self.entries[index], &self.codes[index]))
    }

    /// A line of the text, trimmed.
    pub(crate) fn text(&self, line: u32) -> String {
        let index = (line as usize).saturating_sub(1);
        self.lines.get(index).map_or_else(String::new, |line| line.trim().to_owned())
    }
}

fn entry(function: &Function, code: &Code) -> Entry {
    let offsets = param_offsets(&function.params);
    let params = function.params.iter().zip(offsets).map(|(param, offset)| Param {
        name: param.name.clone(),
        offset: offset as usize,
        size: param.bytes,
        align: param.align,
        kind: match (param.pointer, param.bytes == param.ty.bytes()) {
            (true, _) => ParamKind::Pointer,
            (false, true) => ParamKind::Scalar(param.ty),
            (false, false) => ParamKind::Bytes,
        },
    });
    Entry {
        name: function.name.clone(),
        params: params.collect(),
        line: function.line,
        threads: function.threads,
        shared_bytes: code.shared.iter().map(|place| place.bytes as usize).sum(),
    }
}

fn globals(unit: &Unit) -> Vec<GlobalVariable> {
    let variables = unit.variables.iter().filter(|v| v.space == Space::Global);
    variables
        .map(|v| GlobalVariable {
            name: v.name.clone(),
            bytes: v.bytes,
            // Variables without an initial value are zero.
            initial: v.initial.clone().unwrap_or_else(|| vec![0; v.bytes]),
        })
        .collect()
}
