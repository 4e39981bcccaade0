//! The decoder: which slot each register, constant and special register has, and where each variable lives.
//!
//! `link` drives it over the functions of an entry; the files of `ops` use it, one instruction family each, by
//! way of `operands`.

use std::collections::HashMap;

use super::code::{Constant, Image, Special};
use super::error::PtxError;
use super::local::FIRST_LOCAL;
use super::regs::{PredSlot, Slot};
use super::shared::{FIRST_SHARED, Place, SHARED_GAP};
use super::syntax::{RegDecl, Space, Unit, Variable};
use super::ty::Ty;

/// What a name of a register is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding {
    Data(Slot, u32),
    Pred(PredSlot),
}

/// Where a variable lives.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    Global(String),
    Shared(u64),
    DynamicShared,
    Local(u64, usize),
    Const(u64),
    Param(u64),
}

/// One `{ … }` of a body.
#[derive(Default)]
struct Scope {
    ranges: Vec<RegDecl>,
    bound: HashMap<String, Binding>,
    variables: HashMap<String, Home>,
}

/// What the decoder knows while it walks one entry.
pub(crate) struct Decoder<'u> {
    pub(crate) unit: &'u Unit,
    scopes: Vec<Scope>,
    pub(crate) names: Vec<String>,
    pub(crate) pred_names: Vec<String>,
    pub(crate) constants: Vec<(Slot, Constant)>,
    pub(crate) specials: Vec<(Slot, Special)>,
    pub(crate) shared: Vec<Place>,
    pub(crate) dynamic: Option<String>,
    pub(crate) local: Vec<Place>,
    pub(crate) consts: Image,
    homes: HashMap<String, Home>,
    /// Where the opcode being decoded stands, and what it is.
    pub(crate) line: u32,
    pub(crate) opcode: String,
    /// The narrowest access yet, in bytes, by space.
    pub(crate) narrowest_shared: usize,
    pub(crate) narrowest_global: usize,
    pub(crate) approximate: Vec<(u32, String)>,
}

/// Layout of the next variable behind those in `places`.
fn place(places: &[Place], first: u64, gap: u64, name: &str, bytes: usize, align: usize) -> Place {
    let free = places.last().map_or(first, |p| p.start + p.bytes + gap);
    Place { name: name.to_owned(), start: free.next_multiple_of(align.max(16) as u64), bytes: bytes as u64 }
}

impl<'u> Decoder<'u> {
    pub(crate) fn new(unit: &'u Unit) -> Self {
        let mut decoder = Self {
            unit,
            scopes: Vec::new(),
            names: Vec::new(),
            pred_names: Vec::new(),
            constants: Vec::new(),
            specials: Vec::new(),
            shared: Vec::new(),
            dynamic: None,
            local: Vec::new(),
            consts: Image::default(),
            homes: HashMap::new(),
            line: 1,
            opcode: String::new(),
            narrowest_shared: 16,
            narrowest_global: 16,
            approximate: Vec::new(),
        };
        for variable in &unit.variables {
            let home = decoder.house(variable);
            decoder.homes.insert(variable.name.clone(), home);
        }
        decoder
    }

    /// An error about the current instruction.
    pub(crate) fn fail(&self, what: impl Into<String>) -> PtxError {
        PtxError::Unsupported { line: self.line, instruction: self.opcode.clone(), what: what.into() }
    }

    /// Gives a variable its place.
    pub(crate) fn house(&mut self, variable: &Variable) -> Home {
        let Variable { name, space, bytes, align, .. } = variable;
        match space {
            Space::Shared if variable.dynamic => {
                // All dynamic variables name the same bytes, as many as the launch asks for.
                self.dynamic.get_or_insert_with(|| name.clone());
                Home::DynamicShared
            }
            Space::Shared => {
                let place = place(&self.shared, FIRST_SHARED, SHARED_GAP, name, *bytes, *align);
                let start = place.start;
                self.shared.push(place);
                Home::Shared(start)
            }
            Space::Const => {
                let place = place(&self.consts.places, FIRST_SHARED, SHARED_GAP, name, *bytes, *align);
                let start = place.start;
                self.consts.data.resize(start as usize, 0);
                self.consts.data.extend(variable.initial.clone().unwrap_or_else(|| vec![0; *bytes]));
                self.consts.places.push(place);
                Home::Const(start)
            }
            Space::Global => Home::Global(name.clone()),
            Space::Local | Space::Param | Space::Generic => {
                let place = place(&self.local, FIRST_LOCAL, 64, name, *bytes, *align);
                let start = place.start;
                self.local.push(place);
                Home::Local(start, *bytes)
            }
        }
    }

    pub(crate) fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    pub(crate) fn close(&mut self) {
        self.scopes.pop();
    }

    pub(crate) fn declare(&mut self, decl: &RegDecl) -> Result<(), PtxError> {
        if matches!(decl.ty, Ty::B(128)) || decl.ty.bits() > 64 {
            return Err(PtxError::syntax(
                decl.line,
                format!("registers of type .{} are not supported", decl.ty),
            ));
        }
        if decl.count.is_none() {
            let binding = self.bind(&decl.prefix, decl.ty);
            if let Some(scope) = self.scopes.last_mut()
                && scope.bound.insert(decl.prefix.clone(), binding).is_some()
            {
                return Err(PtxError::syntax(
                    decl.line,
                    format!("register `{}` is declared twice", decl.prefix),
                ));
            }
        } else if let Some(scope) = self.scopes.last_mut() {
            scope.ranges.push(decl.clone());
        }
        Ok(())
    }

    pub(crate) fn add_variable(&mut self, name: &str, home: Home) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.variables.insert(name.to_owned(), home);
        }
    }

    fn bind(&mut self, name: &str, ty: Ty) -> Binding {
        if ty == Ty::Pred {
            self.pred_names.push(name.to_owned());
            Binding::Pred(PredSlot(self.pred_names.len() as u32 - 1))
        } else {
            Binding::Data(self.fresh(name), ty.bits())
        }
    }

    /// A new data slot.
    pub(crate) fn fresh(&mut self, name: &str) -> Slot {
        self.names.push(name.to_owned());
        Slot(self.names.len() as u32 - 1)
    }

    pub(crate) fn find(&mut self, name: &str) -> Option<Binding> {
        for index in (0..self.scopes.len()).rev() {
            if let Some(binding) = self.scopes[index].bound.get(name) {
                return Some(*binding);
            }
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let number = &name[stem.len()..];
            let plain = number == "0" || !number.starts_with('0');
            if let (true, Ok(number)) = (plain, number.parse::<u64>()) {
                let ranges = &self.scopes[index].ranges;
                let ty = ranges.iter().find(|d| d.prefix == stem && d.count.is_some_and(|n| number < n));
                if let Some(ty) = ty.map(|d| d.ty) {
                    let binding = self.bind(name, ty);
                    self.scopes[index].bound.insert(name.to_owned(), binding);
                    return Some(binding);
                }
            }
        }
        None
    }

    /// A variable's home, the innermost first.
    pub(crate) fn home(&self, name: &str) -> Option<Home> {
        let inner = self.scopes.iter().rev().find_map(|scope| scope.variables.get(name));
        inner.or_else(|| self.homes.get(name)).cloned()
    }

    /// A slot that holds a constant in every lane.
    pub(crate) fn constant(&mut self, value: Constant) -> Slot {
        if let Some((slot, _)) = self.constants.iter().find(|(_, known)| *known == value) {
            return *slot;
        }
        let slot = self.fresh("a constant");
        self.constants.push((slot, value));
        slot
    }

    /// The address of a variable, in its own space.
    pub(crate) fn address_of(&mut self, home: &Home) -> (Slot, Space) {
        let (value, space) = match home {
            Home::Global(name) => (Constant::Variable(name.clone()), Space::Global),
            Home::Shared(start) => (Constant::Bits(*start), Space::Shared),
            Home::DynamicShared => (Constant::DynamicShared, Space::Shared),
            Home::Local(start, _) => (Constant::Bits(*start), Space::Local),
            Home::Const(start) => (Constant::Bits(*start), Space::Const),
            Home::Param(start) => (Constant::Bits(*start), Space::Param),
        };
        (self.constant(value), space)
    }

    pub(crate) fn special(&mut self, name: &str) -> Option<Slot> {
        let axis = |suffix: &str| ["x", "y", "z"].iter().position(|a| *a == suffix);
        let special = match name.split_once('.') {
            Some(("%tid", a)) => Special::Tid(axis(a)?),
            Some(("%ntid", a)) => Special::Ntid(axis(a)?),
            Some(("%ctaid", a)) => Special::Ctaid(axis(a)?),
            Some(("%nctaid", a)) => Special::Nctaid(axis(a)?),
            Some(_) => return None,
            None => match name {
                "%laneid" => Special::LaneId,
                "%warpid" => Special::WarpId,
                "%nwarpid" => Special::WarpCount,
                "%lanemask_lt" => Special::MaskLt,
                "%lanemask_le" => Special::MaskLe,
                "%lanemask_gt" => Special::MaskGt,
                "%lanemask_ge" => Special::MaskGe,
                "%lanemask_eq" => Special::MaskEq,
                "%dynamic_smem_size" => Special::DynamicShared,
                _ => return None,
            },
        };
        if let Some((slot, _)) = self.specials.iter().find(|(_, known)| *known == special) {
            return Some(*slot);
        }
        let slot = self.fresh(name);
        self.specials.push((slot, special));
        Some(slot)
    }
}
