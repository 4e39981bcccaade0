//! Turns loop ends round so that ptxas unrolls them once their bound is a number.
//!
//! LLVM ends a counted loop with
//!
//! ```text
//! setp.eq.b32 %p1, %r1, %r2;
//! @%p1 bra EXIT;
//! bra.uni LOOP;
//! ```
//!
//! and ptxas 13 leaves that rolled where `%r2` is a filled hole. With the compare inverted and the branch
//! taken backwards (`setp.ne … @%p1 bra LOOP; bra.uni EXIT;`) it unrolls.
//!
//! The rewrite is made only where it cannot change what the code does: the compare is between integers, its
//! predicate is written by that one instruction and read by that one branch, and nothing jumps between the
//! two branches.

use super::{Instruction, identifiers, instructions, label_of};

/// Rewrites every loop end of a body that has the shape above; returns how many there were.
pub fn rewrite(body: &mut [String]) -> usize {
    let mut count = 0;
    for at in 1..body.len() {
        let Some(change) = loop_end(body, at) else { continue };
        body[change.compare] = change.compare_line;
        body[at - 1] = change.back_line;
        body[at] = change.exit_line;
        count += 1;
    }
    count
}

struct Change {
    compare: usize,
    compare_line: String,
    back_line: String,
    exit_line: String,
}

/// The change for a `bra.uni LOOP` at line `at`, if the lines around it have the shape.
fn loop_end(body: &[String], at: usize) -> Option<Change> {
    let back = single(&body[at])?;
    let exit = single(&body[at - 1])?;
    let predicate = exit.guard.filter(|g| g.starts_with("%p"))?;
    if back.guard.is_some() || back.opcode != "bra.uni" || !exit.opcode.starts_with("bra") {
        return None;
    }
    let is_earlier = |label: &str| body[..at].iter().any(|line| label_of(line) == Some(label));
    if !is_earlier(back.operands) || is_earlier(exit.operands) {
        return None;
    }
    let mut mentions = (0..body.len()).filter(|&i| identifiers(&body[i]).any(|t| t == predicate));
    let (compare, user) = (mentions.next()?, mentions.next()?);
    if mentions.next().is_some() || user != at - 1 {
        return None;
    }
    let line = &body[compare];
    let setp = single(line)?;
    let inverse = inverted(setp.opcode)?;
    let (written, sources) = setp.operands.split_once(',')?;
    if setp.guard.is_some() || written.trim() != predicate || sources.split(',').count() != 2 {
        return None;
    }
    let indent = |i: usize| &body[i][..body[i].len() - body[i].trim_start().len()];
    Some(Change {
        compare,
        compare_line: line.replacen(setp.opcode, &inverse, 1),
        back_line: format!("{}@{predicate} bra \t{};", indent(at - 1), back.operands),
        exit_line: format!("{}bra.uni \t{};", indent(at), exit.operands),
    })
}

fn single(line: &str) -> Option<Instruction<'_>> {
    if line.contains(['{', '}']) {
        return None;
    }
    let mut all = instructions(line);
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// The integer compare that is true exactly where `opcode` is false.
fn inverted(opcode: &str) -> Option<String> {
    let mut parts = opcode.split('.');
    let ("setp", compare, ty, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let integer = ["b16", "b32", "b64", "s16", "s32", "s64", "u16", "u32", "u64"].contains(&ty);
    let inverse = match compare {
        "eq" => "ne",
        "ne" => "eq",
        "lt" => "ge",
        "ge" => "lt",
        "gt" => "le",
        "le" => "gt",
        _ => return None,
    };
    integer.then(|| format!("setp.{inverse}.{ty}"))
}
