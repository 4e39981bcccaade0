//! A warp's registers: one row of 32 lanes a register, with a bit a lane that says whether it is defined.
//!
//! Values are zero-extended to 64 bits. A lane that is not fully defined may still hold some defined
//! bytes (a wide load over bytes of which some were written): those are kept in `partial`, so that copying,
//! splitting and packing lose nothing.

use super::error::{Fault, Kind, Outcome};

/// Lanes in a warp.
pub(crate) const LANES: usize = 32;

/// One register's value in every lane.
pub(crate) type Row = [u64; LANES];

/// A data register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot(pub(crate) u32);

/// A predicate register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PredSlot(pub(crate) u32);

/// A predicate operand, possibly negated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pred {
    pub(crate) slot: PredSlot,
    pub(crate) negated: bool,
}

/// The lanes of a mask, in order.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}

/// The registers of one warp.
#[derive(Debug)]
pub(crate) struct Regs {
    pub(crate) rows: Vec<Row>,
    pub(crate) defined: Vec<u32>,
    partial: Vec<[u8; LANES]>,
    pub(crate) preds: Vec<u32>,
    pub(crate) preds_defined: Vec<u32>,
}

impl Regs {
    pub(crate) fn new(rows: usize, preds: usize) -> Self {
        Self {
            rows: vec![[0; LANES]; rows],
            defined: vec![0; rows],
            partial: vec![[0; LANES]; rows],
            preds: vec![0; preds],
            preds_defined: vec![0; preds],
        }
    }

    /// Makes every register undefined.
    pub(crate) fn forget(&mut self) {
        self.defined.fill(0);
        self.partial.fill([0; LANES]);
        self.preds_defined.fill(0);
    }

    /// Gives a register one value in every lane.
    pub(crate) fn broadcast(&mut self, slot: Slot, value: u64) {
        self.rows[slot.0 as usize] = [value; LANES];
        self.defined[slot.0 as usize] = u32::MAX;
    }

    #[inline]
    pub(crate) fn row(&self, slot: Slot) -> &Row {
        &self.rows[slot.0 as usize]
    }

    /// Fails if an operand is undefined in a lane of `mask`.
    #[inline]
    pub(crate) fn need(&self, mask: u32, slot: Slot) -> Outcome {
        let missing = mask & !self.defined[slot.0 as usize];
        if missing == 0 { Ok(()) } else { Err(undefined(missing, slot)) }
    }

    /// Writes defined values in the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn write(&mut self, mask: u32, slot: Slot, value: impl Fn(usize) -> u64) {
        let row = &mut self.rows[slot.0 as usize];
        if mask == u32::MAX {
            for (lane, out) in row.iter_mut().enumerate() {
                *out = value(lane);
            }
        } else {
            for lane in lanes(mask) {
                row[lane] = value(lane);
            }
        }
        self.defined[slot.0 as usize] |= mask;
    }

    /// Which bytes of a lane's 64-bit value are defined, a bit a byte.
    #[inline]
    pub(crate) fn bytes_defined(&self, slot: Slot, lane: usize) -> u8 {
        let slot = slot.0 as usize;
        if self.defined[slot] >> lane & 1 == 1 { 0xff } else { self.partial[slot][lane] }
    }

    /// Writes one lane of which only `bytes` are defined.
    #[inline]
    pub(crate) fn write_partly(&mut self, slot: Slot, lane: usize, value: u64, bytes: u8) {
        let slot = slot.0 as usize;
        self.rows[slot][lane] = value;
        if bytes == 0xff {
            self.defined[slot] |= 1 << lane;
        } else {
            self.defined[slot] &= !(1 << lane);
            self.partial[slot][lane] = bytes;
        }
    }

    /// Copies a register with its undefined bytes.
    pub(crate) fn copy(&mut self, mask: u32, to: Slot, from: Slot) {
        let source = self.rows[from.0 as usize];
        if mask & !self.defined[from.0 as usize] == 0 {
            self.write(mask, to, |lane| source[lane]);
        } else {
            for lane in lanes(mask) {
                let bytes = self.bytes_defined(from, lane);
                self.write_partly(to, lane, source[lane], bytes);
            }
        }
    }

    /// A predicate's lanes, or a fault where one of `mask` is undefined.
    #[inline]
    pub(crate) fn pred(&self, mask: u32, pred: Pred) -> Result<u32, Box<Fault>> {
        let slot = pred.slot.0 as usize;
        let missing = mask & !self.preds_defined[slot];
        if missing != 0 {
            let what = format!("reads the undefined predicate <p{slot}>");
            return Err(Fault::new(Kind::Undefined, missing.trailing_zeros(), what));
        }
        Ok(if pred.negated { !self.preds[slot] } else { self.preds[slot] })
    }

    /// Sets a predicate in the lanes of `mask`.
    #[inline]
    pub(crate) fn set_pred(&mut self, mask: u32, slot: PredSlot, value: u32) {
        let slot = slot.0 as usize;
        self.preds[slot] = self.preds[slot] & !mask | value & mask;
        self.preds_defined[slot] |= mask;
    }
}

/// The fault of reading a register that holds nothing. The name is filled in where the code is known.
pub(crate) fn undefined(missing: u32, slot: Slot) -> Box<Fault> {
    let what = format!("uses the undefined register <r{}>", slot.0);
    Fault::new(Kind::Undefined, missing.trailing_zeros(), what)
}

/// A value of a lane as an arithmetic type.
pub(crate) trait Lane: Copy + 'static {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! integer_lanes {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl Lane for $unsigned {
            #[inline(always)]
            fn of(bits: u64) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self as u64
            }
        }
        impl Lane for $signed {
            #[inline(always)]
            fn of(bits: u64) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )*};
}

integer_lanes! { u8, i8; u16, i16; u32, i32; u64, i64; }

impl Lane for f32 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits() as u64
    }
}

impl Lane for f64 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
}
