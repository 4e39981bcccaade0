//! The syntax tree: what the parser hands to the decoder.

use super::ty::Ty;

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Any space, chosen by the address.
    Generic,
    /// Device memory.
    Global,
    /// A block's shared memory.
    Shared,
    /// A thread's own memory.
    Local,
    /// Read-only module variables.
    Const,
    /// Kernel parameters.
    Param,
}

impl Space {
    /// The space that a suffix names.
    pub(crate) fn from_suffix(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "global" => Self::Global,
            "shared" | "shared::cta" => Self::Shared,
            "local" => Self::Local,
            "const" => Self::Const,
            "param" | "param::entry" | "param::func" => Self::Param,
            _ => return None,
        })
    }
}

/// A variable declaration in any space but registers.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) space: Space,
    pub(crate) ty: Ty,
    pub(crate) bytes: usize,
    pub(crate) align: usize,
    /// `.extern` with no size: as large as the launch says.
    pub(crate) dynamic: bool,
    /// Whether `.ptr` says that a parameter is an address.
    pub(crate) pointer: bool,
    /// Initial bytes of a `.global` or `.const` variable, zero-padded.
    pub(crate) initial: Option<Vec<u8>>,
}

/// Registers declared by one `.reg`: one name, or `count` names with a common prefix.
#[derive(Clone, Debug)]
pub(crate) struct RegDecl {
    pub(crate) prefix: String,
    pub(crate) count: Option<u64>,
    pub(crate) ty: Ty,
    pub(crate) line: u32,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    /// A register, variable, label or special register.
    Name(String),
    /// A name plus a constant.
    Offset(String, i64),
    /// An integer literal, with its sign.
    Int(i128),
    /// The bits of a single.
    Single(u32),
    /// The bits of a double.
    Double(u64),
    /// `!p`.
    Not(String),
    /// `[base + offset]`.
    Address(Option<String>, i64),
    /// `{a, b}`.
    Vector(Vec<Operand>),
    /// `(a, b)` of a call.
    List(Vec<Operand>),
    /// `d|p`.
    Pair(String, String),
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) line: u32,
    /// The guard predicate's name and whether it is negated.
    pub(crate) guard: Option<(String, bool)>,
    pub(crate) opcode: String,
    pub(crate) operands: Vec<Operand>,
}

/// One statement of a function's body.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Label(String, u32),
    Reg(RegDecl),
    Variable(Variable),
    /// `name: .branchtargets a, b;`
    Targets(String, Vec<String>),
    Inst(Inst),
    Open,
    Close,
}

/// An entry or a function.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) entry: bool,
    pub(crate) returns: Vec<Variable>,
    pub(crate) params: Vec<Variable>,
    pub(crate) body: Vec<Statement>,
    /// `.reqntid` or `.maxntid`, where given: (x, y, z, exact).
    pub(crate) threads: Option<([u32; 3], bool)>,
    pub(crate) line: u32,
}

/// A parsed module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    pub(crate) version: (u64, u64),
    pub(crate) target: String,
    pub(crate) variables: Vec<Variable>,
    pub(crate) functions: Vec<Function>,
}
