//! The decoder's tools: from operands by name to slots, with every width checked.
//!
//! `link` drives it over the functions of an entry; the files of `ops` use it, one instruction family each.

use std::collections::HashMap;

use super::code::{Constant, Image, Special};
use super::error::PtxError;
use super::local::FIRST_LOCAL;
use super::regs::{Pred, PredSlot, Slot};
use super::shared::{FIRST_SHARED, Place, SHARED_GAP};
use super::syntax::{Inst, Operand, RegDecl, Space, Unit, Variable};
use super::ty::Ty;

/// What a name of a register is bound to.
#[derive(Clone, Copy, Debug)]
enum Binding {
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

/// A memory operand.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) base: Slot,
    pub(crate) offset: i64,
    /// Whether the base is a 32-bit register, so that sums wrap at 32 bits.
    pub(crate) narrow: bool,
    /// The space that the base variable lives in, where the base is a variable.
    pub(crate) home: Option<Space>,
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
            return Err(PtxError::syntax(decl.line, format!("registers of type .{} are not supported", decl.ty)));
        }
        if decl.count.is_none() {
            let binding = self.bind(&decl.prefix, decl.ty);
            if let Some(scope) = self.scopes.last_mut()
                && scope.bound.insert(decl.prefix.clone(), binding).is_some()
            {
                return Err(PtxError::syntax(decl.line, format!("register `{}` is declared twice", decl.prefix)));
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

    fn find(&mut self, name: &str) -> Option<Binding> {
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

    /// Checks the number of operands.
    pub(crate) fn count(&self, inst: &Inst, wanted: usize) -> Result<(), PtxError> {
        let found = inst.operands.len();
        if found == wanted {
            return Ok(());
        }
        Err(self.fail(format!("{found} operands where {wanted} are needed")))
    }

    fn unknown(&self, name: &str) -> PtxError {
        PtxError::syntax(self.line, format!("unknown symbol `{name}` in `{}`", self.opcode))
    }

    fn width(&self, name: &str, found: u32, bits: u32, wider: bool) -> Result<(), PtxError> {
        if found == bits || (wider && found > bits) {
            return Ok(());
        }
        Err(self.fail(format!("register `{name}` has {found} bits where {bits} are needed")))
    }

    fn source(&mut self, operand: &Operand, bits: u32, wider: bool) -> Result<Slot, PtxError> {
        match operand {
            Operand::Name(name) => match self.find(name) {
                Some(Binding::Data(slot, found)) => {
                    self.width(name, found, bits, wider)?;
                    Ok(slot)
                }
                Some(Binding::Pred(_)) => Err(self.fail(format!("predicate `{name}` where a value is needed"))),
                None if name == "WARP_SZ" => Ok(self.constant(Constant::Bits(32))),
                None => match self.special(name) {
                    Some(slot) => {
                        self.width(name, 32, bits, wider)?;
                        Ok(slot)
                    }
                    None => Err(self.unknown(name)),
                },
            },
            Operand::Int(value) => {
                let value = self.fits(*value, bits)?;
                Ok(self.constant(Constant::Bits(value)))
            }
            Operand::Single(value) if bits == 32 => Ok(self.constant(Constant::Bits(*value as u64))),
            Operand::Double(value) if bits == 64 => Ok(self.constant(Constant::Bits(*value))),
            Operand::Single(_) | Operand::Double(_) => {
                Err(self.fail(format!("a float literal of another width where {bits} bits are needed")))
            }
            _ => Err(self.fail("an operand of another form where a register or number is needed")),
        }
    }

    /// An integer literal's bits, if it fits.
    pub(crate) fn fits(&self, value: i128, bits: u32) -> Result<u64, PtxError> {
        if value < -(1 << (bits - 1)) || value >= 1 << bits {
            return Err(self.fail(format!("{value} does not fit {bits} bits")));
        }
        Ok((value & ((1 << bits) - 1)) as u64)
    }

    /// A source of exactly `bits` bits: a register, special register or literal.
    pub(crate) fn src(&mut self, operand: &Operand, bits: u32) -> Result<Slot, PtxError> {
        self.source(operand, bits, false)
    }

    /// A source whose register may be wider.
    pub(crate) fn wide_src(&mut self, operand: &Operand, bits: u32) -> Result<Slot, PtxError> {
        self.source(operand, bits, true)
    }

    fn dest(&mut self, operand: &Operand, bits: u32, wider: bool) -> Result<Slot, PtxError> {
        match operand {
            Operand::Name(name) if name == "_" => Ok(self.fresh("_")),
            Operand::Name(name) => match self.find(name) {
                Some(Binding::Data(slot, found)) => {
                    self.width(name, found, bits, wider)?;
                    Ok(slot)
                }
                Some(Binding::Pred(_)) => Err(self.fail(format!("predicate `{name}` where a value is written"))),
                None => Err(self.unknown(name)),
            },
            _ => Err(self.fail("a destination that is no register")),
        }
    }

    /// A destination of exactly `bits` bits.
    pub(crate) fn dst(&mut self, operand: &Operand, bits: u32) -> Result<Slot, PtxError> {
        self.dest(operand, bits, false)
    }

    /// A destination that may be wider.
    pub(crate) fn wide_dst(&mut self, operand: &Operand, bits: u32) -> Result<Slot, PtxError> {
        self.dest(operand, bits, true)
    }

    /// The width of a register operand, if it is one.
    pub(crate) fn width_of(&mut self, operand: &Operand) -> Option<u32> {
        match operand {
            Operand::Name(name) => match self.find(name)? {
                Binding::Data(_, bits) => Some(bits),
                Binding::Pred(_) => None,
            },
            _ => None,
        }
    }

    /// A predicate by name, to write.
    pub(crate) fn pred_dst(&mut self, name: &str) -> Result<PredSlot, PtxError> {
        if name == "_" {
            self.pred_names.push("_".to_owned());
            return Ok(PredSlot(self.pred_names.len() as u32 - 1));
        }
        match self.find(name) {
            Some(Binding::Pred(slot)) => Ok(slot),
            Some(Binding::Data(..)) => Err(self.fail(format!("register `{name}` where a predicate is needed"))),
            None => Err(self.unknown(name)),
        }
    }

    /// A predicate operand, to read.
    pub(crate) fn pred_src(&mut self, operand: &Operand) -> Result<Pred, PtxError> {
        match operand {
            Operand::Name(name) => Ok(Pred { slot: self.pred_dst(name)?, negated: false }),
            Operand::Not(name) => Ok(Pred { slot: self.pred_dst(name)?, negated: true }),
            _ => Err(self.fail("an operand of another form where a predicate is needed")),
        }
    }

    /// A guard.
    pub(crate) fn guard(&mut self, guard: Option<&(String, bool)>) -> Result<Option<Pred>, PtxError> {
        guard.map(|(name, negated)| Ok(Pred { slot: self.pred_dst(name)?, negated: *negated })).transpose()
    }

    /// A memory operand.
    pub(crate) fn address(&mut self, operand: &Operand) -> Result<Address, PtxError> {
        let Operand::Address(base, offset) = operand else {
            return Err(self.fail("an operand that is no address in brackets"));
        };
        let Some(name) = base else {
            let base = self.constant(Constant::Bits(0));
            return Ok(Address { base, offset: *offset, narrow: false, home: None });
        };
        if let Some(binding) = self.find(name) {
            let Binding::Data(base, bits) = binding else {
                return Err(self.fail(format!("predicate `{name}` as an address")));
            };
            if bits < 32 {
                return Err(self.fail(format!("register `{name}` of {bits} bits as an address")));
            }
            return Ok(Address { base, offset: *offset, narrow: bits == 32, home: None });
        }
        let home = self.home(name).ok_or_else(|| self.unknown(name))?;
        let (base, space) = self.address_of(&home);
        Ok(Address { base, offset: *offset, narrow: false, home: Some(space) })
    }

    /// Remembers the width of an access, for the size of a granule.
    pub(crate) fn accesses(&mut self, space: Space, bytes: usize) {
        if matches!(space, Space::Shared | Space::Generic) {
            self.narrowest_shared = self.narrowest_shared.min(bytes);
        }
        if matches!(space, Space::Global | Space::Generic) {
            self.narrowest_global = self.narrowest_global.min(bytes);
        }
    }
}
