//! From tokens to the syntax tree: the directives of a module. Bodies are in `parse_body`.

use super::error::PtxError;
use super::lex::{Located, Token, lex};
use super::syntax::{Function, Space, Unit, Variable};
use super::ty::Ty;

/// The largest variable or parameter that the parser takes, in bytes.
const MAX_VARIABLE: u64 = 1 << 26;

/// A cursor over the tokens.
pub(crate) struct Parser {
    tokens: Vec<Located>,
    at: usize,
}

/// Parses a module's text.
pub(crate) fn parse(text: &str) -> Result<Unit, PtxError> {
    let mut parser = Parser { tokens: lex(text)?, at: 0 };
    let mut unit = Unit::default();
    while parser.peek().is_some() {
        parser.directive(&mut unit)?;
    }
    if unit.target.is_empty() {
        return Err(PtxError::syntax(1, "no `.target` directive"));
    }
    Ok(unit)
}

impl Parser {
    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    pub(crate) fn peek_second(&self) -> Option<&Token> {
        self.tokens.get(self.at + 1).map(|t| &t.token)
    }

    /// The line of the next token, or of the last one at the end.
    pub(crate) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    pub(crate) fn error(&self, wanted: &str) -> PtxError {
        let found = self.peek().map_or_else(|| "the end of the text".to_owned(), Token::shown);
        PtxError::syntax(self.line(), format!("expected {wanted}, found {found}"))
    }

    pub(crate) fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += usize::from(token.is_some());
        token
    }

    pub(crate) fn accept(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, mark: char) -> Result<(), PtxError> {
        if self.accept(mark) { Ok(()) } else { Err(self.error(&format!("`{mark}`"))) }
    }

    pub(crate) fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(w)) if w == word);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn word(&mut self, wanted: &str) -> Result<String, PtxError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.error(wanted)),
        }
    }

    /// A name: a word that is no directive.
    pub(crate) fn name(&mut self) -> Result<String, PtxError> {
        match self.peek() {
            Some(Token::Word(word)) if !word.starts_with('.') => self.word("a name"),
            _ => Err(self.error("a name")),
        }
    }

    pub(crate) fn int(&mut self, wanted: &str) -> Result<u64, PtxError> {
        match self.peek() {
            Some(Token::Int(value)) => {
                let value = *value;
                self.at += 1;
                Ok(value)
            }
            _ => Err(self.error(wanted)),
        }
    }

    fn small(&mut self, wanted: &str) -> Result<u32, PtxError> {
        let line = self.line();
        let value = self.int(wanted)?;
        u32::try_from(value).map_err(|_| PtxError::syntax(line, format!("{value} is too large for {wanted}")))
    }

    fn directive(&mut self, unit: &mut Unit) -> Result<(), PtxError> {
        let line = self.line();
        let word = self.word("a directive")?;
        match word.as_str() {
            ".version" => unit.version = self.version()?,
            ".target" => {
                unit.target = self.name()?;
                while self.accept(',') {
                    self.name()?;
                }
            }
            ".address_size" => {
                let size = self.int("an address size")?;
                if size != 64 {
                    return Err(PtxError::syntax(line, format!("address size {size}; only 64 is supported")));
                }
            }
            ".file" => {
                self.int("a file number")?;
                if !matches!(self.next(), Some(Token::Text(_))) {
                    return Err(PtxError::syntax(line, "`.file` needs a quoted name"));
                }
                while self.accept(',') {
                    self.int("a number")?;
                }
            }
            ".section" => self.section()?,
            ".visible" | ".weak" | ".extern" => {
                let external = word == ".extern";
                let next = self.word("`.entry`, `.func` or a state space")?;
                self.linkable(unit, &next, external, line)?;
            }
            other => self.linkable(unit, other, false, line)?,
        }
        Ok(())
    }

    fn linkable(&mut self, unit: &mut Unit, word: &str, external: bool, line: u32) -> Result<(), PtxError> {
        match word {
            ".entry" | ".func" => {
                let function = self.function(word == ".entry", external, line)?;
                if let Some(old) = unit.functions.iter_mut().find(|f| f.name == function.name) {
                    if !old.body.is_empty() && !function.body.is_empty() {
                        let what = format!("`{}` is defined twice, first on line {}", old.name, old.line);
                        return Err(PtxError::syntax(line, what));
                    }
                    if old.body.is_empty() {
                        *old = function;
                    }
                } else {
                    unit.functions.push(function);
                }
            }
            ".global" | ".const" | ".shared" => {
                let space = match word {
                    ".global" => Space::Global,
                    ".const" => Space::Const,
                    _ => Space::Shared,
                };
                let variable = self.variable(space, external)?;
                if unit.variables.iter().any(|v| v.name == variable.name) {
                    let what = format!("variable `{}` is declared twice", variable.name);
                    return Err(PtxError::syntax(line, what));
                }
                self.expect(';')?;
                unit.variables.push(variable);
            }
            other => return Err(PtxError::syntax(line, format!("unknown directive `{other}`"))),
        }
        Ok(())
    }

    /// `7.0`, which the lexer sees as a number, since a word cannot start with a digit.
    fn version(&mut self) -> Result<(u64, u64), PtxError> {
        let major = self.int("a version such as 7.0")?;
        match self.next() {
            Some(Token::Word(minor)) if minor.starts_with('.') => {
                let minor = minor[1..].parse().map_err(|_| self.error("a version such as 7.0"))?;
                Ok((major, minor))
            }
            _ => Err(self.error("a version such as 7.0")),
        }
    }

    /// Debugging sections are skipped to their closing brace.
    fn section(&mut self) -> Result<(), PtxError> {
        self.word("a section's name")?;
        self.expect('{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Some(Token::Mark('{')) => depth += 1,
                Some(Token::Mark('}')) => depth -= 1,
                Some(_) => {}
                None => return Err(self.error("`}`")),
            }
        }
        Ok(())
    }

    fn function(&mut self, entry: bool, external: bool, line: u32) -> Result<Function, PtxError> {
        let returns = if self.peek() == Some(&Token::Mark('(')) { self.params()? } else { Vec::new() };
        let name = self.name()?;
        let params = if self.peek() == Some(&Token::Mark('(')) { self.params()? } else { Vec::new() };
        let mut threads = None;
        let body = loop {
            if self.accept(';') {
                break Vec::new();
            }
            if self.accept('{') {
                if external {
                    return Err(PtxError::syntax(line, format!("`.extern` function `{name}` has a body")));
                }
                break self.body()?;
            }
            let attribute = self.word("`{`")?;
            match attribute.as_str() {
                ".maxntid" | ".reqntid" => {
                    let mut extent = [1; 3];
                    extent[0] = self.small("a thread count")?;
                    for slot in &mut extent[1..] {
                        if self.accept(',') {
                            *slot = self.small("a thread count")?;
                        }
                    }
                    threads = Some((extent, attribute == ".reqntid"));
                }
                ".minnctapersm" | ".maxnreg" => {
                    self.int("a number")?;
                }
                ".noreturn" => {}
                other => {
                    return Err(PtxError::syntax(self.line(), format!("unknown attribute `{other}`")));
                }
            }
        };
        if entry && !returns.is_empty() {
            return Err(PtxError::syntax(line, format!("entry `{name}` returns a value")));
        }
        Ok(Function { name, entry, returns, params, body, threads, line })
    }

    fn params(&mut self) -> Result<Vec<Variable>, PtxError> {
        self.expect('(')?;
        let mut params: Vec<Variable> = Vec::new();
        if self.accept(')') {
            return Ok(params);
        }
        loop {
            let line = self.line();
            if !self.accept_word(".param") {
                return Err(self.error("`.param`"));
            }
            let param = self.variable(Space::Param, false)?;
            if params.iter().any(|p| p.name == param.name) {
                return Err(PtxError::syntax(line, format!("parameter `{}` is declared twice", param.name)));
            }
            params.push(param);
            if !self.accept(',') {
                break;
            }
        }
        self.expect(')')?;
        Ok(params)
    }

    /// `[.align n] .type [.ptr [.space] .align n] name[count] [= {…}]`, after the state space.
    pub(crate) fn variable(&mut self, space: Space, external: bool) -> Result<Variable, PtxError> {
        let line = self.line();
        let mut align = None;
        let mut ty = None;
        let mut pointer = false;
        while let Some(Token::Word(word)) = self.peek() {
            let Some(suffix) = word.strip_prefix('.') else { break };
            let suffix = suffix.to_owned();
            self.at += 1;
            match suffix.as_str() {
                "align" => {
                    let value = self.int("an alignment")?;
                    if !value.is_power_of_two() || value > 1 << 16 {
                        let what = format!("alignment {value} is not a power of two up to 65536");
                        return Err(PtxError::syntax(line, what));
                    }
                    // Behind `.ptr`, it speaks of what the parameter points to.
                    if !pointer {
                        align = Some(value as usize);
                    }
                }
                "ptr" => pointer = true,
                "global" | "shared" | "const" | "local" if pointer => {}
                other => {
                    let parsed = Ty::from_suffix(other).filter(|t| *t != Ty::Pred);
                    let parsed = parsed.ok_or_else(|| {
                        PtxError::syntax(line, format!("unknown type or attribute `.{other}`"))
                    })?;
                    if ty.replace(parsed).is_some() {
                        return Err(PtxError::syntax(line, "two types in one declaration"));
                    }
                }
            }
        }
        let ty = ty.ok_or_else(|| self.error("a type"))?;
        let name = self.name()?;
        let mut count = 1_u64;
        let mut dynamic = false;
        while self.accept('[') {
            if self.accept(']') {
                dynamic = true;
                continue;
            }
            let extent = self.int("an array extent")?;
            count = count.saturating_mul(extent);
            self.expect(']')?;
        }
        if dynamic && !(external && space == Space::Shared) {
            return Err(PtxError::syntax(line, format!("`{name}` has no size and is not `.extern .shared`")));
        }
        let bytes = count.saturating_mul(ty.bytes() as u64);
        if bytes > MAX_VARIABLE {
            return Err(PtxError::syntax(
                line,
                format!("`{name}` has {bytes} bytes, the limit is {MAX_VARIABLE}"),
            ));
        }
        let initial = if self.accept('=') { Some(self.initial(ty, bytes as usize)?) } else { None };
        if initial.is_some() && !matches!(space, Space::Global | Space::Const) {
            return Err(PtxError::syntax(line, format!("`{name}` cannot have initial values in its space")));
        }
        let bytes = if dynamic { 0 } else { bytes as usize };
        let align = align.unwrap_or(ty.bytes());
        Ok(Variable { name, space, ty, bytes, align, dynamic, pointer, initial })
    }

    /// A scalar, or a braced list of scalars.
    fn initial(&mut self, ty: Ty, bytes: usize) -> Result<Vec<u8>, PtxError> {
        let mut image = Vec::new();
        let braced = self.accept('{');
        loop {
            let line = self.line();
            let negative = self.accept('-');
            let bits = match self.next() {
                Some(Token::Int(value)) => value,
                Some(Token::Single(bits)) => u64::from(bits),
                Some(Token::Double(bits)) => bits,
                _ => return Err(PtxError::syntax(line, "initial values must be plain numbers")),
            };
            let bits = if negative { bits.wrapping_neg() } else { bits };
            image.extend_from_slice(&bits.to_le_bytes()[..ty.bytes().min(8)]);
            if !(braced && self.accept(',')) {
                break;
            }
        }
        if braced {
            self.expect('}')?;
        }
        if image.len() > bytes {
            let what = format!("{} bytes of initial values for {bytes} bytes", image.len());
            return Err(PtxError::syntax(self.line(), what));
        }
        image.resize(bytes, 0);
        Ok(image)
    }
}
