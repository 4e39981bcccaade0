//! Operands: from what an instruction says to slots, with every width checked.

use super::code::Constant;
use super::decode::{Binding, Decoder};
use super::error::PtxError;
use super::regs::{Pred, PredSlot, Slot};
use super::syntax::{Inst, Operand, Space};

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

impl Decoder<'_> {
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
                Some(Binding::Pred(_)) => {
                    Err(self.fail(format!("predicate `{name}` where a value is needed")))
                }
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
                Some(Binding::Pred(_)) => {
                    Err(self.fail(format!("predicate `{name}` where a value is written")))
                }
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
            Some(Binding::Data(..)) => {
                Err(self.fail(format!("register `{name}` where a predicate is needed")))
            }
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
