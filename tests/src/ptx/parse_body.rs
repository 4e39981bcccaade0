//! The statements of a function's body.

use super::error::PtxError;
use super::lex::Token;
use super::parse::Parser;
use super::syntax::{Inst, Operand, RegDecl, Space, Statement};
use super::ty::Ty;

impl Parser {
    /// Everything up to the closing brace of the body, whose opening brace is behind us.
    pub(crate) fn body(&mut self) -> Result<Vec<Statement>, PtxError> {
        let mut statements = Vec::new();
        let mut depth = 1;
        loop {
            let line = self.line();
            if self.accept('{') {
                depth += 1;
                statements.push(Statement::Open);
                continue;
            }
            if self.accept('}') {
                depth -= 1;
                if depth == 0 {
                    return Ok(statements);
                }
                statements.push(Statement::Close);
                continue;
            }
            if self.accept(';') {
                continue;
            }
            match self.peek() {
                Some(Token::Word(word)) if word.starts_with('.') => {
                    let word = word.clone();
                    self.next();
                    self.inner_directive(&word, line, &mut statements)?;
                }
                Some(Token::Word(word)) if self.peek_second() == Some(&Token::Mark(':')) => {
                    let name = word.clone();
                    self.next();
                    self.next();
                    if self.accept_word(".branchtargets") {
                        let targets = self.names()?;
                        self.expect(';')?;
                        statements.push(Statement::Targets(name, targets));
                    } else {
                        statements.push(Statement::Label(name, line));
                    }
                }
                Some(Token::Word(_) | Token::Mark('@')) => statements.push(Statement::Inst(self.inst()?)),
                _ => return Err(self.error("a statement or `}`")),
            }
        }
    }

    fn names(&mut self) -> Result<Vec<String>, PtxError> {
        let mut names = vec![self.name()?];
        while self.accept(',') {
            names.push(self.name()?);
        }
        Ok(names)
    }

    fn inner_directive(&mut self, word: &str, line: u32, out: &mut Vec<Statement>) -> Result<(), PtxError> {
        let space = match word {
            ".reg" => {
                let suffix = self.word("a register type")?;
                let ty = suffix.strip_prefix('.').and_then(Ty::from_suffix);
                let ty =
                    ty.ok_or_else(|| PtxError::syntax(line, format!("unknown register type `{suffix}`")))?;
                loop {
                    let prefix = self.name()?;
                    let count = if self.accept('<') {
                        let count = self.int("a register count")?;
                        self.expect('>')?;
                        Some(count)
                    } else {
                        None
                    };
                    out.push(Statement::Reg(RegDecl { prefix, count, ty, line }));
                    if !self.accept(',') {
                        break;
                    }
                }
                return self.expect(';');
            }
            ".loc" => {
                // Debugging positions: numbers and words up to the end of the line.
                while self.line() == line && self.peek().is_some() {
                    self.next();
                }
                return Ok(());
            }
            ".pragma" => {
                if !matches!(self.next(), Some(Token::Text(_))) {
                    return Err(PtxError::syntax(line, "`.pragma` needs a quoted string"));
                }
                return self.expect(';');
            }
            ".local" => Space::Local,
            ".shared" => Space::Shared,
            ".param" => Space::Param,
            ".global" => Space::Global,
            ".const" => Space::Const,
            other => return Err(PtxError::syntax(line, format!("unknown directive `{other}` in a body"))),
        };
        out.push(Statement::Variable(self.variable(space, false)?));
        self.expect(';')
    }

    fn inst(&mut self) -> Result<Inst, PtxError> {
        let line = self.line();
        let guard = if self.accept('@') {
            let negated = self.accept('!');
            Some((self.name()?, negated))
        } else {
            None
        };
        let opcode = match self.peek() {
            Some(Token::Word(word)) if !word.starts_with(['.', '%']) => self.word("an instruction")?,
            _ => return Err(self.error("an instruction")),
        };
        let mut operands = Vec::new();
        if !self.accept(';') {
            loop {
                operands.push(self.operand()?);
                if !self.accept(',') {
                    break;
                }
            }
            self.expect(';')?;
        }
        Ok(Inst { line, guard, opcode, operands })
    }

    fn operand(&mut self) -> Result<Operand, PtxError> {
        match self.peek() {
            Some(Token::Mark('[')) => {
                self.next();
                let address = self.address()?;
                self.expect(']')?;
                Ok(address)
            }
            Some(Token::Mark('{')) => {
                self.next();
                Ok(Operand::Vector(self.items('}')?))
            }
            Some(Token::Mark('(')) => {
                self.next();
                Ok(Operand::List(self.items(')')?))
            }
            _ => self.simple(),
        }
    }

    fn items(&mut self, close: char) -> Result<Vec<Operand>, PtxError> {
        let mut items = Vec::new();
        if self.accept(close) {
            return Ok(items);
        }
        loop {
            items.push(self.simple()?);
            if !self.accept(',') {
                break;
            }
        }
        self.expect(close)?;
        Ok(items)
    }

    /// A name, a number, or a name with what can follow it.
    fn simple(&mut self) -> Result<Operand, PtxError> {
        if self.accept('!') {
            return Ok(Operand::Not(self.name()?));
        }
        match self.peek() {
            Some(Token::Single(bits)) => {
                let bits = *bits;
                self.next();
                Ok(Operand::Single(bits))
            }
            Some(Token::Double(bits)) => {
                let bits = *bits;
                self.next();
                Ok(Operand::Double(bits))
            }
            Some(Token::Int(_) | Token::Mark('-')) => Ok(Operand::Int(self.signed()?)),
            _ => {
                let name = self.name()?;
                if self.accept('|') {
                    return Ok(Operand::Pair(name, self.name()?));
                }
                match self.peek() {
                    Some(Token::Mark('+' | '-')) => Ok(Operand::Offset(name, self.offset()?)),
                    _ => Ok(Operand::Name(name)),
                }
            }
        }
    }

    fn signed(&mut self) -> Result<i128, PtxError> {
        let negative = self.accept('-');
        let value = i128::from(self.int("a number")?);
        Ok(if negative { -value } else { value })
    }

    /// `+ 8`, `- 8` or `+-8`.
    fn offset(&mut self) -> Result<i64, PtxError> {
        let line = self.line();
        self.accept('+');
        let value = self.signed()?;
        i64::try_from(value).map_err(|_| PtxError::syntax(line, format!("offset {value} is out of range")))
    }

    fn address(&mut self) -> Result<Operand, PtxError> {
        if matches!(self.peek(), Some(Token::Int(_) | Token::Mark('-'))) {
            return Ok(Operand::Address(None, self.offset()?));
        }
        let name = self.name()?;
        let offset = match self.peek() {
            Some(Token::Mark('+' | '-')) => self.offset()?,
            _ => 0,
        };
        Ok(Operand::Address(Some(name), offset))
    }
}
