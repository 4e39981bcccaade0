//! From the syntax tree of an entry, and of the functions it calls, to one piece of code.

use std::collections::HashMap;

use super::code::{Code, Op, Step};
use super::decode::{Decoder, Home};
use super::error::PtxError;
use super::mods::Mods;
use super::ops;
use super::order::order;
use super::syntax::{Function, Inst, Operand, Statement, Unit, Variable};

/// A function that the entry reaches, with the places of its parameters and results.
pub(crate) struct Callee<'u> {
    pub(crate) function: &'u Function,
    pub(crate) params: Vec<(u64, usize)>,
    pub(crate) returns: Vec<(u64, usize)>,
}

/// What decoding one instruction can see and add to.
pub(crate) struct Linker<'u> {
    pub(crate) decoder: Decoder<'u>,
    pub(crate) callees: Vec<Callee<'u>>,
    /// The function being decoded.
    pub(crate) current: usize,
    /// Label numbers of the function being decoded.
    labels: HashMap<String, u32>,
    /// The position of each label, where it was seen.
    positions: Vec<Option<usize>>,
    targets: HashMap<String, Vec<String>>,
    calls: Vec<(usize, usize)>,
}

/// Parameter places of an entry: (offset, bytes) in order.
pub(crate) fn param_offsets(params: &[Variable]) -> Vec<u64> {
    let mut offset = 0_u64;
    let mut offsets = Vec::with_capacity(params.len());
    for param in params {
        offset = offset.next_multiple_of(param.align.max(1) as u64);
        offsets.push(offset);
        offset += param.bytes as u64;
    }
    offsets
}

/// Decodes and links one entry.
pub(crate) fn link(unit: &Unit, entry: &Function) -> Result<Code, PtxError> {
    let mut linker = Linker {
        decoder: Decoder::new(unit),
        callees: vec![],
        current: 0,
        labels: HashMap::new(),
        positions: Vec::new(),
        targets: HashMap::new(),
        calls: Vec::new(),
    };
    // The unit outlives the linker, so the entry can be looked up there by name again.
    let entry = unit.functions.iter().find(|f| f.name == entry.name && f.entry);
    let entry = entry.ok_or_else(|| PtxError::syntax(1, "the entry is not in its module"))?;
    linker.callees.push(Callee { function: entry, params: Vec::new(), returns: Vec::new() });
    let mut ops = Vec::new();
    let mut starts = Vec::new();
    while linker.current < linker.callees.len() {
        starts.push(ops.len() as u32);
        let body = linker.function()?;
        let base = ops.len() as u32;
        ops.extend(body.into_iter().map(|mut op| {
            match &mut op.step {
                Step::Branch(target) | Step::Goto(target) => *target += base,
                Step::Indexed(_, targets) => targets.iter_mut().for_each(|target| *target += base),
                _ => {}
            }
            op
        }));
        linker.current += 1;
    }
    linker.reject_recursion()?;
    let decoder = linker.decoder;
    Ok(Code {
        ops,
        starts,
        names: decoder.names,
        pred_names: decoder.pred_names,
        constants: decoder.constants,
        specials: decoder.specials,
        shared: decoder.shared,
        dynamic_shared: decoder.dynamic,
        local: decoder.local,
        consts: decoder.consts,
        shared_shift: decoder.narrowest_shared.trailing_zeros(),
        global_shift: decoder.narrowest_global.trailing_zeros(),
        approximate: decoder.approximate,
    })
}

impl<'u> Linker<'u> {
    /// The number of a function by name; it is linked in on its first use.
    pub(crate) fn callee(&mut self, name: &str) -> Result<usize, PtxError> {
        if let Some(index) = self.callees.iter().position(|c| c.function.name == name) {
            return Ok(index);
        }
        let unit = self.decoder.unit;
        let function = unit.functions.iter().find(|f| f.name == name && !f.entry);
        let function = function
            .filter(|f| !f.body.is_empty())
            .ok_or_else(|| self.decoder.fail(format!("no function `{name}` with a body")))?;
        let mut house = |variables: &[Variable]| -> Vec<(u64, usize)> {
            let homes = variables.iter().map(|v| self.decoder.house(v));
            homes.map(|home| if let Home::Local(at, bytes) = home { (at, bytes) } else { (0, 0) }).collect()
        };
        let params = house(&function.params);
        let returns = house(&function.returns);
        self.callees.push(Callee { function, params, returns });
        Ok(self.callees.len() - 1)
    }

    pub(crate) fn note_call(&mut self, callee: usize) {
        self.calls.push((self.current, callee));
    }

    fn reject_recursion(&self) -> Result<(), PtxError> {
        // Of n functions, n rounds take away all that call no other or are called by none, until only cycles
        // and what lies between two of them is left.
        let mut alive = vec![true; self.callees.len()];
        for _ in 0..self.callees.len() {
            for function in 0..alive.len() {
                let calls = self.calls.iter().any(|&(from, to)| from == function && alive[to]);
                let called = self.calls.iter().any(|&(from, to)| to == function && alive[from]);
                alive[function] &= calls && called;
            }
        }
        match alive.iter().position(|&a| a) {
            None => Ok(()),
            Some(function) => {
                let function = self.callees[function].function;
                Err(PtxError::syntax(function.line, format!("`{}` is part of a recursion", function.name)))
            }
        }
    }

    /// The number of a label, seen or yet to come.
    pub(crate) fn label(&mut self, name: &str) -> u32 {
        let next = self.labels.len() as u32;
        let number = *self.labels.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.positions.push(None);
        }
        number
    }

    /// The labels of a `.branchtargets` list.
    pub(crate) fn branch_targets(&mut self, operand: &Operand) -> Result<Vec<u32>, PtxError> {
        let Operand::Name(name) = operand else {
            return Err(self.decoder.fail("the name of a list of targets is needed"));
        };
        let names = self.targets.get(name).cloned();
        let names = names.ok_or_else(|| self.decoder.fail(format!("no list of targets `{name}`")))?;
        Ok(names.iter().map(|name| self.label(name)).collect())
    }

    fn function(&mut self) -> Result<Vec<Op>, PtxError> {
        let function = self.callees[self.current].function;
        self.labels.clear();
        self.positions.clear();
        self.targets.clear();
        self.decoder.open();
        if function.entry {
            for (param, offset) in function.params.iter().zip(param_offsets(&function.params)) {
                self.decoder.add_variable(&param.name, Home::Param(offset));
            }
        } else {
            let callee = &self.callees[self.current];
            let places = callee.params.iter().chain(&callee.returns).copied();
            let names = function.params.iter().chain(&function.returns);
            for (variable, (at, bytes)) in names.zip(places) {
                self.decoder.add_variable(&variable.name, Home::Local(at, bytes));
            }
        }
        for statement in &function.body {
            if let Statement::Targets(name, targets) = statement {
                self.targets.insert(name.clone(), targets.clone());
            }
        }
        let mut ops = Vec::new();
        for statement in &function.body {
            self.statement(statement, &mut ops)?;
        }
        self.decoder.close();
        let end = if function.entry { Step::Exit } else { Step::Return(self.current) };
        ops.push(Op::new(end, None, ops.last().map_or(function.line, |op: &Op| op.line)));
        if let Some(missing) = self.positions.iter().position(Option::is_none) {
            let name = self.labels.iter().find(|&(_, &number)| number as usize == missing);
            let name = name.map_or("", |(name, _)| name.as_str());
            return Err(PtxError::syntax(
                function.line,
                format!("label `{name}` of `{}` is missing", function.name),
            ));
        }
        let positions: Vec<usize> = self.positions.iter().map(|p| p.unwrap_or(0)).collect();
        Ok(lay_out(ops, &positions))
    }

    fn statement(&mut self, statement: &'u Statement, ops: &mut Vec<Op>) -> Result<(), PtxError> {
        match statement {
            Statement::Open => self.decoder.open(),
            Statement::Close => self.decoder.close(),
            Statement::Reg(decl) => self.decoder.declare(decl)?,
            Statement::Variable(variable) => {
                let home = self.decoder.house(variable);
                self.decoder.add_variable(&variable.name, home);
            }
            Statement::Targets(..) => {}
            Statement::Label(name, line) => {
                let number = self.label(name) as usize;
                if self.positions[number].replace(ops.len()).is_some() {
                    return Err(PtxError::syntax(*line, format!("label `{name}` is defined twice")));
                }
            }
            Statement::Inst(inst) => ops.push(self.inst(inst)?),
        }
        Ok(())
    }

    fn inst(&mut self, inst: &Inst) -> Result<Op, PtxError> {
        self.decoder.line = inst.line;
        self.decoder.opcode.clone_from(&inst.opcode);
        let guard = self.decoder.guard(inst.guard.as_ref())?;
        let (name, mut mods) = Mods::split(&inst.opcode);
        let decode = ops::find(name).ok_or_else(|| self.decoder.fail("the machine does not know it"))?;
        let step = decode(self, inst, &mut mods)?;
        match mods.left() {
            None => Ok(Op::new(step, guard, inst.line)),
            Some(left) => Err(self.decoder.fail(format!("unknown modifier `.{left}`"))),
        }
    }
}

/// Orders the basic blocks and turns label numbers into positions.
fn lay_out(ops: Vec<Op>, positions: &[usize]) -> Vec<Op> {
    let mut leads = vec![false; ops.len()];
    leads[0] = true;
    for &position in positions {
        leads[position] = true;
    }
    for (index, op) in ops.iter().enumerate() {
        let ends = matches!(
            op.step,
            Step::Branch(_) | Step::Indexed(..) | Step::Exit | Step::Return(_) | Step::Trap | Step::Goto(_)
        );
        if ends && index + 1 < ops.len() {
            leads[index + 1] = true;
        }
    }
    let first: Vec<usize> = (0..ops.len()).filter(|&index| leads[index]).collect();
    let block_at = |index: usize| first.partition_point(|&start| start <= index) - 1;
    let end_of = |block: usize| first.get(block + 1).copied().unwrap_or(ops.len());
    let mut successors = Vec::with_capacity(first.len());
    let mut falls = Vec::with_capacity(first.len());
    for block in 0..first.len() {
        let last = &ops[end_of(block) - 1];
        let mut next: Vec<usize> = match &last.step {
            Step::Branch(label) => vec![block_at(positions[*label as usize])],
            Step::Indexed(_, labels) => labels.iter().map(|&l| block_at(positions[l as usize])).collect(),
            _ => Vec::new(),
        };
        let stops = matches!(
            last.step,
            Step::Branch(_) | Step::Indexed(..) | Step::Exit | Step::Return(_) | Step::Trap | Step::Goto(_)
        );
        let through = (!stops || last.guard.is_some()) && block + 1 < first.len();
        if through {
            next.push(block + 1);
        }
        successors.push(next);
        falls.push(through);
    }
    let sequence = order(&successors);
    let mut rank = vec![0; first.len()];
    let mut size = 0;
    for (place, &block) in sequence.iter().enumerate() {
        rank[block] = size;
        let adjacent = sequence.get(place + 1) == Some(&(block + 1));
        size += end_of(block) - first[block] + usize::from(falls[block] && !adjacent);
    }
    let ends: Vec<usize> = (0..first.len()).map(end_of).collect();
    let target = |label: u32| rank[block_at(positions[label as usize])] as u32;
    let mut old: Vec<Option<Op>> = ops.into_iter().map(Some).collect();
    let mut out = Vec::with_capacity(size);
    for (place, &block) in sequence.iter().enumerate() {
        for slot in &mut old[first[block]..ends[block]] {
            let Some(mut op) = slot.take() else { continue };
            match &mut op.step {
                Step::Branch(label) => *label = target(*label),
                Step::Indexed(_, labels) => labels.iter_mut().for_each(|label| *label = target(*label)),
                _ => {}
            }
            out.push(op);
        }
        if falls[block] && sequence.get(place + 1) != Some(&(block + 1)) {
            let line = out.last().map_or(1, |op: &Op| op.line);
            out.push(Op::new(Step::Goto(rank[block + 1] as u32), None, line));
        }
    }
    out
}
