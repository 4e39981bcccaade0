//! What is done to an instruction.

use super::line::Line;

/// A kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// A guarded instruction happens always.
    DropPredicate,
    /// A guarded instruction happens when it should not.
    NegatePredicate,
    /// A barrier is gone.
    RemoveBarrier,
    /// An access is one element further on.
    ShiftAddress,
    /// A store writes as much again.
    WidenAccess,
    /// An access moves half.
    NarrowAccess,
    /// A comparison is the next one to it: `<` becomes `≤`, `=` becomes `≠`.
    FlipComparison,
    /// An integer written in the text is one more.
    OffByOne,
    /// Operands of what does not commute are swapped.
    SwapOperands,
    /// Another operation on the same operands.
    OtherOperation,
    /// A store is gone.
    RemoveStore,
}

impl Operator {
    /// Every operator.
    pub const ALL: [Self; 11] = [
        Self::DropPredicate,
        Self::NegatePredicate,
        Self::RemoveBarrier,
        Self::ShiftAddress,
        Self::WidenAccess,
        Self::NarrowAccess,
        Self::FlipComparison,
        Self::OffByOne,
        Self::SwapOperands,
        Self::OtherOperation,
        Self::RemoveStore,
    ];

    /// Its name in the record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DropPredicate => "drop predicate",
            Self::NegatePredicate => "negate predicate",
            Self::RemoveBarrier => "remove barrier",
            Self::ShiftAddress => "shift address",
            Self::WidenAccess => "widen access",
            Self::NarrowAccess => "narrow access",
            Self::FlipComparison => "flip comparison",
            Self::OffByOne => "off by one",
            Self::SwapOperands => "swap operands",
            Self::OtherOperation => "other operation",
            Self::RemoveStore => "remove store",
        }
    }

    /// The line with the mistake in it, or nothing where it cannot be made. Elements have `element` bytes.
    #[must_use]
    pub fn apply(self, text: &str, element: usize) -> Option<String> {
        let mut line = Line::parse(text)?;
        match self {
            Self::DropPredicate => {
                line.guard.take()?;
            }
            Self::NegatePredicate => {
                let guard = line.guard.take()?;
                line.guard = Some(match guard.strip_prefix('!') {
                    Some(plain) => plain.to_owned(),
                    None => format!("!{guard}"),
                });
            }
            Self::RemoveBarrier => {
                let barrier =
                    ["bar.sync", "barrier.sync", "bar.warp.sync", "cp.async.wait", "membar", "fence"];
                return barrier.iter().any(|name| line.opcode.starts_with(name)).then(String::new);
            }
            Self::RemoveStore => return is_access(&line, "st").then(String::new),
            Self::ShiftAddress => shift(&mut line, element)?,
            Self::WidenAccess => widen(&mut line)?,
            Self::NarrowAccess => narrow(&mut line)?,
            Self::FlipComparison => flip(&mut line)?,
            Self::OffByOne => off_by_one(&mut line)?,
            Self::SwapOperands => swap(&mut line)?,
            Self::OtherOperation => other(&mut line)?,
        }
        Some(line.text())
    }
}

/// Whether it is a load or store (`ld` or `st`) of memory that threads share.
fn is_access(line: &Line, name: &str) -> bool {
    let parts = line.parts();
    parts[0] == name && (parts.contains(&"global") || parts.contains(&"shared"))
}

fn is_any_access(line: &Line) -> bool {
    is_access(line, "ld") || is_access(line, "st")
}

/// Replaces one part of the opcode by another.
fn replace(line: &mut Line, from: &str, to: &str) {
    let parts: Vec<_> = line.parts().into_iter().map(|part| if part == from { to } else { part }).collect();
    line.opcode = parts.join(".");
}

fn shift(line: &mut Line, element: usize) -> Option<()> {
    if !is_any_access(line) && !line.opcode.starts_with("cp.async.c") {
        return None;
    }
    let address = line.operands.iter_mut().find(|operand| operand.starts_with('['))?;
    let inside = address.trim_matches(['[', ']']);
    let (base, offset) = match inside.rfind(['+', '-']) {
        Some(at) => (&inside[..at], inside[at..].trim_start_matches('+').parse::<i64>().ok()?),
        None => (inside, 0),
    };
    *address = format!("[{base}+{}]", offset + element as i64);
    Some(())
}

/// A scalar store becomes a pair, and a pair four.
fn widen(line: &mut Line) -> Option<()> {
    if !is_access(line, "st") {
        return None;
    }
    let value = line.operands.last_mut()?;
    match value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inside) if line.opcode.contains(".v2.") => {
            *value = format!("{{{inside}, {inside}}}");
            replace(line, "v2", "v4");
        }
        Some(_) => return None,
        None => {
            *value = format!("{{{value}, {value}}}");
            let at = line.opcode.rfind('.')?;
            line.opcode.insert_str(at, ".v2");
        }
    }
    Some(())
}

/// Four become a pair, a pair one, and a scalar half its bytes.
fn narrow(line: &mut Line) -> Option<()> {
    if !is_any_access(line) {
        return None;
    }
    let at = line.operands.iter().position(|operand| operand.starts_with('{'));
    if let Some(at) = at {
        let inside = line.operands[at].trim_matches(['{', '}']).to_owned();
        let items: Vec<_> = inside.split(',').map(str::trim).collect();
        if items.len() == 4 {
            line.operands[at] = format!("{{{}, {}}}", items[0], items[1]);
            replace(line, "v4", "v2");
        } else {
            items[0].clone_into(&mut line.operands[at]);
            line.opcode = line.opcode.replace(".v2", "");
        }
        return Some(());
    }
    for (wide, half) in [("64", "32"), ("32", "16"), ("16", "8")] {
        for class in ["b", "u", "s", "f"] {
            let wide = format!("{class}{wide}");
            if line.parts().contains(&&*wide) {
                replace(line, &wide, &format!("b{half}"));
                return Some(());
            }
        }
    }
    None
}

fn flip(line: &mut Line) -> Option<()> {
    const NEXT: [(&str, &str); 10] = [
        ("lt", "le"),
        ("le", "lt"),
        ("gt", "ge"),
        ("ge", "gt"),
        ("eq", "ne"),
        ("ne", "eq"),
        ("ltu", "leu"),
        ("leu", "ltu"),
        ("gtu", "geu"),
        ("geu", "gtu"),
    ];
    let compare = *line.parts().get(1)?;
    let &(from, to) = NEXT.iter().find(|(from, _)| *from == compare)?;
    (line.parts()[0] == "setp").then(|| replace(line, from, to))
}

/// The last operand that is a number, or a hole, is one more. Masks are no counts.
fn off_by_one(line: &mut Line) -> Option<()> {
    let parts = line.parts();
    let float = parts.iter().skip(1).any(|part| part.starts_with('f') || part.starts_with("bf"));
    if float || ["bra", "bar", "ret", "ld", "st", "shfl", "prmt", "lop3", "and"].contains(&parts[0]) {
        return None;
    }
    let operand = line
        .operands
        .iter_mut()
        .skip(1)
        .rev()
        .find(|operand| operand.starts_with("__spec_") || operand.parse::<i64>().is_ok())?;
    *operand = match operand.parse::<i64>() {
        Ok(value) => (value + 1).to_string(),
        Err(_) => format!("{operand} + 1"),
    };
    Some(())
}

fn swap(line: &mut Line) -> Option<()> {
    let ordered = match line.parts()[0] {
        "sub" | "selp" | "div" | "rem" => true,
        "setp" => !["eq", "ne", "nan", "num", "equ", "neu"].contains(line.parts().get(1)?),
        _ => false,
    };
    if !ordered || line.operands.len() < 3 || line.operands[1] == line.operands[2] {
        return None;
    }
    line.operands.swap(1, 2);
    Some(())
}

fn other(line: &mut Line) -> Option<()> {
    let opcode = line.opcode.clone();
    match opcode.split('.').next()? {
        // What is added is forgotten.
        name @ ("fma" | "mad") if line.operands.len() == 4 => {
            line.operands.pop();
            replace(line, name, "mul");
        }
        "mul" if opcode.contains(".hi.") => replace(line, "hi", "lo"),
        "add" => replace(line, "add", "sub"),
        "sub" => replace(line, "sub", "add"),
        "and" => replace(line, "and", "or"),
        "or" => replace(line, "or", "and"),
        "min" => replace(line, "min", "max"),
        "max" => replace(line, "max", "min"),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::Operator::*;

    #[test]
    fn operators_make_the_mistake_that_they_say() {
        let is = |operator: super::Operator, from: &str, to: &str| {
            assert_eq!(operator.apply(from, 2).as_deref(), Some(to), "{from}");
        };
        is(DropPredicate, "\t@%p1 bra \t$L__BB0_2;", "bra $L__BB0_2;");
        is(NegatePredicate, "@%p1 bra $L;", "@!%p1 bra $L;");
        is(RemoveBarrier, "\tbar.sync \t0;", "");
        is(ShiftAddress, "ld.global.b16 %rs1, [%rd1];", "ld.global.b16 %rs1, [%rd1+2];");
        is(ShiftAddress, "st.shared.b16 [%r1+-8], %rs1;", "st.shared.b16 [%r1++-6], %rs1;");
        is(WidenAccess, "st.global.b16 [%rd1], %rs1;", "st.global.v2.b16 [%rd1], {%rs1, %rs1};");
        is(NarrowAccess, "ld.global.v2.b32 {%r1, %r2}, [%rd1];", "ld.global.b32 %r1, [%rd1];");
        is(NarrowAccess, "st.global.b32 [%rd1], %r1;", "st.global.b16 [%rd1], %r1;");
        is(FlipComparison, "setp.lt.u64 %p1, %rd1, %rd2;", "setp.le.u64 %p1, %rd1, %rd2;");
        is(OffByOne, "shl.b64 %rd1, %rd2, 4;", "shl.b64 %rd1, %rd2, 5;");
        is(SwapOperands, "selp.b32 %r1, 1, 0, %p1;", "selp.b32 %r1, 0, 1, %p1;");
        is(OtherOperation, "mad.lo.s32 %r1, %r2, %r3, %r4;", "mul.lo.s32 %r1, %r2, %r3;");
        is(RemoveStore, "@take st.global.b32 [%rd1], %r1;", "");
    }

    #[test]
    fn operators_leave_other_lines_alone() {
        for operator in super::Operator::ALL {
            for line in ["$L__BB0_1:", "\t.reg .b32 %r<9>;", "{", "ret;", "ld.param.b64 %rd1, [f_param_0];"] {
                assert_eq!(operator.apply(line, 4), None, "{line}");
            }
        }
        assert_eq!(SwapOperands.apply("setp.eq.b32 %p1, %r1, %r2;", 4), None);
        assert_eq!(OffByOne.apply("add.rn.f32 %f1, %f2, 0f00000000;", 4), None);
    }
}
