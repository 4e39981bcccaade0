//! Decoded code: what the decoder makes and the machine runs.

use std::sync::atomic::AtomicBool;

use super::error::{Fault, Outcome};
use super::global::Who;
use super::local::Local;
use super::memory::Memory;
use super::race::{Clock, How};
use super::regs::{Pred, Regs, Slot};
use super::shared::{Place, Shared};

/// What one instruction can see while it executes: its warp, its block and the launch.
pub(crate) struct Ctx<'a> {
    pub(crate) regs: &'a mut Regs,
    pub(crate) local: &'a mut Local,
    pub(crate) shared: &'a mut Shared,
    pub(crate) copies: &'a mut super::copies::Copies,
    pub(crate) clock: &'a Clock,
    pub(crate) memory: &'a Memory,
    pub(crate) params: &'a Image,
    pub(crate) consts: &'a Image,
    /// The block, counted from one.
    pub(crate) block: u64,
    /// The number in its block of the warp's first thread.
    pub(crate) first_thread: u32,
    /// Lanes that have not exited.
    pub(crate) live: u32,
    pub(crate) line: u32,
}

impl<'a> Ctx<'a> {
    /// This warp, as memory needs to know it.
    pub(crate) fn who(&self, how: How) -> Who<'a> {
        Who { block: self.block, first_thread: self.first_thread, clock: self.clock, how }
    }
}

/// An instruction's effect on the lanes of a mask.
pub(crate) type Exec = Box<dyn Fn(&mut Ctx<'_>, u32) -> Outcome + Send + Sync>;

/// The lanes that a warp operation needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Members {
    /// Those that a register names.
    Named(Slot),
    /// All 32, none of them exited.
    Full,
}

/// A barrier instruction.
#[derive(Debug)]
pub(crate) struct Barrier {
    pub(crate) id: Slot,
    /// How many threads take part; all that have not exited where it is not given.
    pub(crate) count: Option<Slot>,
    /// Whether all lanes of a warp must come together.
    pub(crate) aligned: bool,
    /// Whether the warp goes on at once.
    pub(crate) arrive: bool,
    /// `bar.red`: the predicate counted, and what becomes of it.
    pub(crate) reduce: Option<Reduce>,
}

/// The reduction of a `bar.red`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduce {
    pub(crate) source: Pred,
    pub(crate) into: Reduced,
}

/// Where a `bar.red` puts its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reduced {
    /// How many threads hold true.
    Count(Slot),
    /// Whether all do.
    All(super::regs::PredSlot),
    /// Whether any does.
    Any(super::regs::PredSlot),
}

/// Bytes moved between two places of thread-local memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) bytes: usize,
}

/// A call of a known function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: usize,
    pub(crate) arguments: Vec<Transfer>,
    pub(crate) results: Vec<Transfer>,
}

/// One decoded instruction.
pub(crate) enum Step {
    Exec(Exec),
    /// A warp operation: it waits until all its members are here.
    Sync(Members, Exec),
    /// `bar.warp.sync`: it waits, and orders memory between its members.
    WarpBarrier(Members),
    Barrier(Barrier),
    Branch(u32),
    /// A jump that the layout put in; it counts as no instruction.
    Goto(u32),
    Indexed(Slot, Vec<u32>),
    Call(Call),
    Return(usize),
    Exit,
    Trap,
}

/// An instruction with its guard and its place in the text.
pub(crate) struct Op {
    pub(crate) step: Step,
    pub(crate) guard: Option<Pred>,
    pub(crate) line: u32,
    /// Whether any thread executed it yet, in any launch.
    pub(crate) reached: AtomicBool,
}

impl Op {
    pub(crate) fn new(step: Step, guard: Option<Pred>, line: u32) -> Self {
        Self { step, guard, line, reached: AtomicBool::new(false) }
    }
}

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    LaneId,
    WarpId,
    WarpCount,
    /// Lanes with a lower number.
    MaskLt,
    MaskLe,
    MaskGt,
    MaskGe,
    MaskEq,
    DynamicShared,
}

/// A constant's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Bits(u64),
    /// The address of a `.global` variable.
    Variable(String),
    /// The address of the launch's dynamic shared memory.
    DynamicShared,
}

/// Read-only bytes in a space of their own: parameters, or constant variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) places: Vec<Place>,
    pub(crate) data: Vec<u8>,
}

impl Image {
    /// Whether an access lies in one variable.
    pub(crate) fn holds(&self, address: u64, width: usize) -> bool {
        self.places
            .iter()
            .any(|p| address >= p.start && address.saturating_add(width as u64) <= p.start + p.bytes)
    }
}

/// The code of one entry, with the functions that it calls.
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    /// The first instruction of each function; the entry is the first.
    pub(crate) starts: Vec<u32>,
    /// Register names, by slot.
    pub(crate) names: Vec<String>,
    pub(crate) pred_names: Vec<String>,
    pub(crate) constants: Vec<(Slot, Constant)>,
    pub(crate) specials: Vec<(Slot, Special)>,
    pub(crate) shared: Vec<Place>,
    /// The name of the shared variable that takes the launch's dynamic bytes, if there is one.
    pub(crate) dynamic_shared: Option<String>,
    pub(crate) local: Vec<Place>,
    pub(crate) consts: Image,
    /// The narrowest access to shared and to device memory, as powers of two.
    pub(crate) shared_shift: u32,
    pub(crate) global_shift: u32,
    /// Instructions whose result bits PTX leaves open.
    pub(crate) approximate: Vec<(u32, String)>,
}

impl Code {
    /// Puts register names in the place of slots in a fault's text.
    pub(crate) fn name_registers(&self, fault: &mut Fault) {
        for (mark, names) in [('r', &self.names), ('p', &self.pred_names)] {
            let open = format!("<{mark}");
            let Some(start) = fault.what.find(&open) else { continue };
            let Some(len) = fault.what[start..].find('>') else { continue };
            let slot = fault.what[start + 2..start + len].parse::<usize>();
            if let Some(name) = slot.ok().and_then(|slot| names.get(slot)) {
                fault.what.replace_range(start..=start + len, &format!("`{name}`"));
            }
        }
    }
}
