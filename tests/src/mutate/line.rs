//! One instruction of a PTX text, as a line that can be taken apart and put together.

/// A line that is one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// `%p1`, or `!%p1` where it is negated.
    pub(super) guard: Option<String>,
    pub(super) opcode: String,
    pub(super) operands: Vec<String>,
}

impl Line {
    /// The instruction of a line; nothing for labels, directives and lines of several statements.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().strip_suffix(';')?;
        if text.starts_with(['.', '/', '{']) || text.contains([';', ':']) {
            return None;
        }
        let (guard, text) = match text.strip_prefix('@') {
            Some(rest) => {
                let (guard, rest) = rest.split_once(char::is_whitespace)?;
                (Some(guard.to_owned()), rest.trim_start())
            }
            None => (None, text),
        };
        let (opcode, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        Some(Self { guard, opcode: opcode.to_owned(), operands: split(operands) })
    }

    pub(super) fn text(&self) -> String {
        let guard = self.guard.as_ref().map_or_else(String::new, |guard| format!("@{guard} "));
        format!("{guard}{} {};", self.opcode, self.operands.join(", ")).replace(" ;", ";")
    }

    /// The opcode's parts between its dots.
    pub(super) fn parts(&self) -> Vec<&str> {
        self.opcode.split('.').collect()
    }
}

/// Splits at commas outside brackets and braces.
fn split(operands: &str) -> Vec<String> {
    let mut depth = 0;
    let pieces = operands.split(|c: char| {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    pieces.map(|piece| piece.trim().to_owned()).filter(|piece| !piece.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_taken_apart_and_put_together() {
        for text in [
            "@!%p1 bra $L__BB0_3;",
            "ld.global.v2.b32 {%r1, %r2}, [%rd1+16];",
            "add.s64 %rd1, %rd2, -1;",
            "ret;",
            "bar.sync 0;",
        ] {
            assert_eq!(Line::parse(&format!("\t{text}")).expect("an instruction").text(), text);
        }
        let line = Line::parse("@take st.global.v2.b32 [%rd1], {%r1, %r2};").expect("an instruction");
        assert_eq!(line.operands, ["[%rd1]", "{%r1, %r2}"]);
        assert_eq!(line.guard.as_deref(), Some("take"));
        for none in ["$L__BB0_3:", "\t.reg .b32 %r<4>;", "{", "add.s32 %r1, %r2, 1; ret;", "// add;"] {
            assert_eq!(Line::parse(none), None, "{none}");
        }
    }
}
