//! PTX text as the compiler writes it: taken apart, checked, and put together as one module per entry.

pub mod check;
pub mod loops;
pub mod split;

use std::fmt::Write as _;

/// A PTX file taken apart. Everything but comments is in one of the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxFile {
    /// The ISA version, such as `7.0`.
    pub version: String,
    /// The `.target` line's operand, such as `sm_70`.
    pub target: String,
    /// The entry points, in file order.
    pub entries: Vec<Entry>,
    /// Variables declared outside entries.
    pub variables: Vec<Variable>,
}

/// A variable declared outside entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The state space's directive: `.shared`, `.global`, `.const`.
    pub space: String,
    /// The whole declaration.
    pub text: String,
}

/// One `.visible .entry`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The symbol.
    pub name: String,
    /// The parameters' declarations without their commas.
    pub params: Vec<String>,
    /// Directives between the parameters and the body, such as `.maxntid 128, 1, 1`.
    pub directives: Vec<String>,
    /// The body's lines without comments and blank lines, outer braces left off.
    pub body: Vec<String>,
}

/// Text that the splitter has no place for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A header line is missing.
    #[error("the PTX has no `{0}` line")]
    NoHeader(&'static str),
    /// The file addresses memory with another width.
    #[error("the PTX has address size {0}, not 64")]
    AddressSize(String),
    /// A function that was not inlined into its caller.
    #[error("line {line}: a function of its own is left: `{text}` (is an #[inline(always)] missing?)")]
    Function {
        /// The line, from 1.
        line: usize,
        /// The line's text.
        text: String,
    },
    /// A call or declaration of something outside the file.
    #[error("line {line}: unresolved `{text}`")]
    Extern {
        /// The line, from 1.
        line: usize,
        /// The line's text.
        text: String,
    },
    /// Text outside entries that is no known declaration.
    #[error("line {line}: left over outside entries: `{text}`")]
    LeftOver {
        /// The line, from 1.
        line: usize,
        /// The line's text.
        text: String,
    },
    /// The file ends inside an entry.
    #[error("`{0}` has no end")]
    Unclosed(String),
}

/// Takes a PTX file apart.
///
/// # Errors
/// Any text outside entries that is no header, comment or variable: functions, unresolved externs, debug
/// sections.
pub fn parse(text: &str) -> Result<PtxFile, ParseError> {
    let text = strip_comments(text);
    let mut lines =
        text.lines().enumerate().map(|(i, l)| (i + 1, l.trim_end())).filter(|(_, l)| !l.is_empty());
    let (mut version, mut target, mut size) = (None, None, None);
    let (mut entries, mut variables) = (Vec::new(), Vec::new());
    while let Some((line, text)) = lines.next() {
        let text = text.trim();
        let words: Vec<&str> = text.split_whitespace().collect();
        match *words.as_slice() {
            [".version", v] => version = Some(v.to_owned()),
            [".target", ref rest @ ..] => target = Some(rest.join(" ")),
            [".address_size", n] => size = Some(n.to_owned()),
            _ if words.contains(&".entry") => entries.push(parse_entry(text, &mut lines)?),
            _ if words.contains(&".func") => {
                let text = text.to_owned();
                return Err(if words.contains(&".extern") {
                    ParseError::Extern { line, text }
                } else {
                    ParseError::Function { line, text }
                });
            }
            _ => variables.push(parse_variable(line, text, &words)?),
        }
    }
    match size.as_deref() {
        Some("64") => {}
        Some(other) => return Err(ParseError::AddressSize(other.to_owned())),
        None => return Err(ParseError::NoHeader(".address_size")),
    }
    Ok(PtxFile {
        version: version.ok_or(ParseError::NoHeader(".version"))?,
        target: target.ok_or(ParseError::NoHeader(".target"))?,
        entries,
        variables,
    })
}

fn parse_entry<'a>(
    first: &str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<Entry, ParseError> {
    let after = first.split_once(".entry").map_or("", |(_, after)| after);
    let (name, list) = after.split_once('(').unwrap_or((after, ""));
    let name = name.trim().to_owned();
    let mut head = list.to_owned();
    let mut body = Vec::new();
    let mut depth = 0_i32;
    let mut opened = false;
    for (_, line) in lines {
        if !opened {
            let (before, inside) = match line.split_once('{') {
                Some((before, inside)) => (before, Some(inside)),
                None => (line, None),
            };
            let _ = write!(head, "\n{before}");
            if let Some(inside) = inside {
                opened = true;
                depth = 1;
                if !inside.trim().is_empty() {
                    return Err(ParseError::Unclosed(name));
                }
            }
            continue;
        }
        depth += brace_balance(line);
        if depth == 0 {
            let (params, directives) = parse_head(&head);
            return Ok(Entry { name, params, directives, body });
        }
        body.push(line.to_owned());
    }
    Err(ParseError::Unclosed(name))
}

fn brace_balance(line: &str) -> i32 {
    line.chars().map(|c| i32::from(c == '{') - i32::from(c == '}')).sum()
}

/// Splits `a, b ) .maxntid 128` into the parameters and the directives after them.
fn parse_head(head: &str) -> (Vec<String>, Vec<String>) {
    let (list, after) = head.rsplit_once(')').unwrap_or((head, ""));
    let params = list.split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect();
    let directives = after.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect();
    (params, directives)
}

fn parse_variable(line: usize, text: &str, words: &[&str]) -> Result<Variable, ParseError> {
    let spaces = [".shared", ".global", ".const"];
    let space = words.iter().find(|w| spaces.contains(w));
    // The name is the first identifier that is no directive, size or type: the last word before `[`, `=`
    // or `;`.
    let declared = text.split(['[', '=', ';']).next().unwrap_or_default();
    let name = declared.split_whitespace().last().filter(|w| !w.starts_with('.'));
    match (space, name) {
        (Some(space), Some(name)) if text.ends_with(';') => {
            Ok(Variable { name: name.to_owned(), space: (*space).to_owned(), text: text.to_owned() })
        }
        _ => Err(ParseError::LeftOver { line, text: text.to_owned() }),
    }
}

/// The text without `//` and `/* */` comments; strings are left alone, lines stay where they are.
fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let skip = if from.starts_with("//") {
            from.find('\n').unwrap_or(from.len())
        } else if from.starts_with("/*") {
            let end = from.find("*/").map_or(from.len(), |i| i + 2);
            out.extend(from[..end].chars().filter(|c| *c == '\n'));
            end
        } else {
            let closing = match from.strip_prefix('"') {
                Some(inside) => inside.find('"').map_or(from.len(), |i| i + 2),
                None => 1,
            };
            out.push_str(&from[..closing]);
            closing
        };
        rest = &from[skip..];
    }
    out.push_str(rest);
    out
}

fn is_identifier_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')
}

/// The identifiers of a text, whole: registers, symbols, labels, opcode parts and numbers.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_identifier_char(c)).filter(|t| !t.is_empty())
}

/// Replaces whole identifiers, so that a name which is the start of another is left alone.
pub fn replace_identifiers(text: &str, replace: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_identifier_char) {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let end = from.find(|c| !is_identifier_char(c)).unwrap_or(from.len());
        match replace(&from[..end]) {
            Some(new) => out.push_str(&new),
            None => out.push_str(&from[..end]),
        }
        rest = &from[end..];
    }
    out.push_str(rest);
    out
}

/// One instruction taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// The guard without `@`, such as `%p1` or `!%p1`.
    pub guard: Option<&'a str>,
    /// The opcode with its dots, such as `setp.eq.b32`.
    pub opcode: &'a str,
    /// The operands' text without the semicolon.
    pub operands: &'a str,
}

/// The instructions of a body line. Inline assembly may put several on one, in braces.
pub fn instructions(line: &str) -> impl Iterator<Item = Instruction<'_>> {
    line.split(';').filter_map(|piece| {
        let piece = piece.trim_start_matches(|c: char| c.is_whitespace() || c == '{' || c == '}').trim_end();
        if piece.is_empty() || piece.ends_with(':') {
            return None;
        }
        let (guard, rest) = match piece.strip_prefix('@') {
            Some(after) => {
                let (guard, rest) = after.split_once(char::is_whitespace)?;
                (Some(guard), rest.trim_start())
            }
            None => (None, piece),
        };
        let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        Some(Instruction { guard, opcode, operands: operands.trim() })
    })
}

/// The label that a line declares.
#[must_use]
pub fn label_of(line: &str) -> Option<&str> {
    let label = line.trim().strip_suffix(':')?;
    label.chars().all(is_identifier_char).then_some(label)
}
