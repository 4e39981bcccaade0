//! From text to tokens, each with the line it stands on.

use super::error::PtxError;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name, register, directive (with its dot) or opcode (with its suffixes): `ld.global.v4.b32`.
    Word(String),
    /// An integer literal.
    Int(u64),
    /// A float literal written as the bits of a single: `0f3F800000`.
    Single(u32),
    /// A float literal written as the bits of a double: `0d3FF0000000000000`.
    Double(u64),
    /// A quoted string (debugging directives only).
    Text(String),
    /// One of `{ } ( ) [ ] < > , ; : + - @ ! | =`.
    Mark(char),
}

impl Token {
    /// The token as an error message shows it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("`{word}`"),
            Self::Int(value) => format!("`{value}`"),
            Self::Single(bits) => format!("`0f{bits:08X}`"),
            Self::Double(bits) => format!("`0d{bits:016X}`"),
            Self::Text(text) => format!("\"{text}\""),
            Self::Mark(mark) => format!("`{mark}`"),
        }
    }
}

/// A token and its line, counted from one.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) token: Token,
    pub(crate) line: u32,
}

fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// Splits a module's text into tokens.
pub(crate) fn lex(text: &str) -> Result<Vec<Located>, PtxError> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut line = 1_u32;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let rest = &bytes[at..];
        if byte == b'\n' {
            line += 1;
            at += 1;
        } else if byte.is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with(b"//") {
            at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        } else if rest.starts_with(b"/*") {
            let end = rest
                .windows(2)
                .skip(2)
                .position(|pair| pair == b"*/")
                .ok_or_else(|| PtxError::syntax(line, "a comment that is never closed"))?;
            line += text[at..at + end + 2].matches('\n').count() as u32;
            at += end + 4;
        } else if byte == b'"' {
            let end = rest[1..]
                .iter()
                .position(|&b| b == b'"' || b == b'\n')
                .filter(|&end| rest[1 + end] == b'"')
                .ok_or_else(|| PtxError::syntax(line, "a string that is never closed"))?;
            let inner = String::from_utf8_lossy(&rest[1..=end]).into_owned();
            tokens.push(Located { token: Token::Text(inner), line });
            at += end + 2;
        } else if byte.is_ascii_digit() {
            let end = rest.iter().position(|&b| !b.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let literal = String::from_utf8_lossy(&rest[..end]);
            tokens.push(Located { token: number(&literal, line)?, line });
            at += end;
        } else if starts_word(byte) {
            let mut end = 0;
            while end < rest.len() {
                if continues_word(rest[end]) {
                    end += 1;
                } else if rest[end..].starts_with(b"::") {
                    end += 2;
                } else {
                    break;
                }
            }
            let word = String::from_utf8_lossy(&rest[..end]).into_owned();
            tokens.push(Located { token: Token::Word(word), line });
            at += end;
        } else if b"{}()[]<>,;:+-@!|=".contains(&byte) {
            tokens.push(Located { token: Token::Mark(byte as char), line });
            at += 1;
        } else {
            let shown = text[at..].chars().next().unwrap_or('?');
            return Err(PtxError::syntax(line, format!("unexpected character {shown:?}")));
        }
    }
    Ok(tokens)
}

fn number(literal: &str, line: u32) -> Result<Token, PtxError> {
    let bad = || PtxError::syntax(line, format!("`{literal}` is not a number of PTX"));
    let digits = |text: &str, radix| u64::from_str_radix(text, radix).map_err(|_| bad());
    if let Some(bits) = literal.strip_prefix("0f").or_else(|| literal.strip_prefix("0F")) {
        if bits.len() != 8 {
            return Err(bad());
        }
        return Ok(Token::Single(digits(bits, 16)? as u32));
    }
    if let Some(bits) = literal.strip_prefix("0d").or_else(|| literal.strip_prefix("0D")) {
        if bits.len() != 16 {
            return Err(bad());
        }
        return Ok(Token::Double(digits(bits, 16)?));
    }
    let plain = literal.strip_suffix('U').unwrap_or(literal);
    let value = if let Some(hex) = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        digits(hex, 16)?
    } else if let Some(binary) = plain.strip_prefix("0b").or_else(|| plain.strip_prefix("0B")) {
        digits(binary, 2)?
    } else if plain.len() > 1 && plain.starts_with('0') {
        digits(plain, 8)?
    } else {
        digits(plain, 10)?
    };
    Ok(Token::Int(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Token> {
        lex(text).expect("lexes").into_iter().map(|t| t.token).collect()
    }

    #[test]
    fn lex_reads_every_kind_of_literal() {
        assert_eq!(
            words("0x1F 017 0b101 42U 0f3F800000 0d3FF0000000000000"),
            [
                Token::Int(31),
                Token::Int(15),
                Token::Int(5),
                Token::Int(42),
                Token::Single(0x3f80_0000),
                Token::Double(0x3ff0_0000_0000_0000)
            ]
        );
    }

    #[test]
    fn lex_keeps_suffixes_with_the_opcode_and_labels_apart() {
        assert_eq!(
            words("$L__BB0_2: ld.global.L1::no_allocate.v2.b32 %r1"),
            [
                Token::Word("$L__BB0_2".into()),
                Token::Mark(':'),
                Token::Word("ld.global.L1::no_allocate.v2.b32".into()),
                Token::Word("%r1".into())
            ]
        );
    }

    #[test]
    fn lex_counts_lines_through_comments() {
        let tokens = lex("// a\n/* b\nc */ x\n\"s\" y").expect("lexes");
        assert_eq!(tokens.iter().map(|t| t.line).collect::<Vec<_>>(), [3, 4, 4]);
    }

    #[test]
    fn lex_rejects_what_is_not_ptx() {
        for (text, line) in [("\n#", 2), ("09", 1), ("0fZ", 1), ("\n\n/* x", 3), ("\"x\n\"", 1), ("é", 1)] {
            assert_eq!(lex(text).expect_err(text).line(), line, "{text:?}");
        }
    }
}
