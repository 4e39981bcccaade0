//! What is measured: one kernel, one shape, one element type.

use std::fmt;

use cotangent::DType;
use serde::Serialize;

use crate::pattern::Pattern;

/// Which of an operation's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Forward.
    Fwd,
    /// Backward; of a convolution, both gradients.
    Bwd,
    /// A convolution's gradient with respect to its input.
    BwdDx,
    /// A convolution's gradient with respect to its filter.
    BwdDw,
}

impl Direction {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fwd => "fwd",
            Self::Bwd => "bwd",
            Self::BwdDx => "bwd_dx",
            Self::BwdDw => "bwd_dw",
        }
    }
}

/// The arithmetic that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Math {
    /// As the element type says.
    Ieee,
    /// f32 with operands rounded to TF32.
    Tf32,
}

impl Math {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ieee => "ieee",
            Self::Tf32 => "tf32",
        }
    }
}

/// What limits a case, and with that what is expected of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Memory-bound, every row on a 16-byte boundary.
    Aligned,
    /// A transposition, every row on a 16-byte boundary.
    Transposed,
    /// Memory-bound, with odd extents, offsets or bases.
    Odd,
    /// A transposition with odd extents and bases.
    OddTransposed,
    /// Rows of a few elements, as channels-last tensors have them.
    ShortRows,
    /// A few kilobytes: the launch itself takes most of the time.
    Latency,
    /// Limited by arithmetic.
    Compute,
}

impl Kind {
    fn least_percent(self) -> Option<f64> {
        match self {
            Self::Aligned => Some(95.0),
            Self::Transposed => Some(88.0),
            Self::Odd => Some(85.0),
            Self::OddTransposed => Some(75.0),
            Self::ShortRows => Some(80.0),
            Self::Latency | Self::Compute => None,
        }
    }
}

/// How large cases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Size {
    /// A few elements: for tests.
    Tiny,
    /// What a CPU does in milliseconds.
    Small,
    /// As listed.
    Full,
}

impl Size {
    /// An extent that is limited to `small` elements, or to 11.
    pub fn limit(self, extent: i32, small: i32) -> i32 {
        match self {
            Self::Tiny => extent.min(11),
            Self::Small => extent.min(small),
            Self::Full => extent,
        }
    }
}

/// A buffer of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// How many elements.
    pub elements: u64,
    /// Whether the kernel writes it.
    pub output: bool,
}

impl Buffer {
    /// A buffer that the kernel reads.
    pub fn input(elements: u64) -> Self {
        Self { elements, output: false }
    }

    /// A buffer that the kernel writes.
    pub fn output(elements: u64) -> Self {
        Self { elements, output: true }
    }
}

/// What the formula says of one element of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// It is left alone.
    Untouched,
    /// The bits of an input's element.
    Copy {
        /// The input, counted among all buffers.
        buffer: usize,
        /// Its element.
        index: u64,
    },
    /// The pad's value.
    Fill,
    /// A sum.
    Sum {
        /// Its value.
        exact: f64,
        /// The sum of the terms' magnitudes.
        magnitude: f64,
        /// How many terms there are.
        terms: u64,
    },
}

/// A sum in the making.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    exact: f64,
    magnitude: f64,
    terms: u64,
}

impl Sum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        self.exact += term;
        self.magnitude += term.abs();
        self.terms += 1;
    }

    /// The sum.
    pub fn finish(self) -> Expected {
        Expected::Sum { exact: self.exact, magnitude: self.magnitude, terms: self.terms }
    }
}

/// One shape of one operation: its arguments, its costs, and its formula element by element.
///
/// The formula is written out once more here, apart from device code and CPU references, so that what a bench
/// times is verified by something independent of both.
pub trait Problem: Send + Sync {
    /// The operation's stem.
    fn op(&self) -> &'static str;

    /// The shape, without commas.
    fn shape(&self) -> String;

    /// The kernel's name.
    fn kernel(&self, direction: Direction) -> &'static str;

    /// The kernel's constants, with the recommended block.
    fn constants(&self, direction: Direction, dtype: DType) -> Vec<i32>;

    /// The extents and strides among the kernel's arguments.
    fn extents(&self, direction: Direction) -> Vec<i32>;

    /// The number of rows that a channel cat is launched with.
    fn rows(&self) -> Option<i64> {
        None
    }

    /// Whether the kernel takes a pad's value.
    fn has_value(&self, _: Direction) -> bool {
        false
    }

    /// The buffers, in the kernel's order.
    fn buffers(&self, direction: Direction) -> Vec<Buffer>;

    /// The bytes that must move, for elements of `size` bytes and buffers that start `base` bytes behind a
    /// boundary.
    fn bytes(&self, direction: Direction, size: u64, base: u64) -> u64;

    /// The operations that must be done, where they may be what limits.
    fn operations(&self, _: Direction) -> Option<u64> {
        None
    }

    /// What element `index` of buffer `output` must hold.
    fn expect(&self, direction: Direction, output: usize, index: u64, inputs: &Pattern) -> Expected;

    /// How many terms an element of buffer `output` sums.
    fn terms(&self, _: Direction, _: usize) -> u64 {
        1
    }

    /// Elements of a row of buffer `output`: mistakes are likeliest where rows begin.
    fn row(&self, direction: Direction, output: usize) -> u64;

    /// The shape as peers read it.
    fn peer(&self) -> serde_json::Value;
}

/// One kernel, one shape, one element type.
pub struct Case {
    /// The shape.
    pub problem: Box<dyn Problem>,
    /// The kernel.
    pub direction: Direction,
    /// The element type.
    pub dtype: DType,
    /// The arithmetic.
    pub math: Math,
    /// How many elements every buffer's base is off a boundary.
    pub offset: usize,
    /// What limits it.
    pub kind: Kind,
    /// Whether a quick run has it.
    pub quick: bool,
}

impl Case {
    /// The shape, with what is particular about the bases.
    pub fn shape(&self) -> String {
        let shape = self.problem.shape();
        match self.offset {
            0 => shape,
            offset => format!("{shape} base+{offset}"),
        }
    }

    /// The bytes that must move.
    pub fn bytes(&self) -> u64 {
        let size = self.dtype.size() as u64;
        self.problem.bytes(self.direction, size, self.offset as u64 * size)
    }

    /// The operations that must be done.
    pub fn operations(&self) -> Option<u64> {
        self.problem.operations(self.direction)
    }

    /// The least percentage of a copy's speed that is expected. Bytes that are transposed one by one have none.
    pub fn least_percent(&self) -> Option<f64> {
        let transposed = matches!(self.kind, Kind::Transposed | Kind::OddTransposed);
        if transposed && self.dtype.size() == 1 { None } else { self.kind.least_percent() }
    }

    /// The element type, with the arithmetic where it is not the type's own.
    pub fn precision(&self) -> &'static str {
        match self.math {
            Math::Ieee => self.dtype.name(),
            Math::Tf32 => "f32 tf32",
        }
    }

    /// Whether the arithmetic is worth a word: copies have none.
    pub fn math(&self) -> Option<Math> {
        self.operations().map(|_| self.math)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, direction) = (self.problem.op(), self.direction.name());
        write!(f, "{op} {direction} {} [{}]", self.precision(), self.shape())
    }
}

/// Cases in the making.
pub struct Table {
    size: Size,
    cases: Vec<Case>,
}

impl Table {
    /// No cases yet, of shapes this large.
    pub fn new(size: Size) -> Self {
        Self { size, cases: Vec::new() }
    }

    /// How large shapes are.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Adds a shape for each direction and element type.
    pub fn add<P: Problem + Clone + 'static>(
        &mut self,
        kind: Kind,
        directions: &[Direction],
        dtypes: &[DType],
        problem: &P,
    ) -> &mut Self {
        self.add_at(kind, directions, dtypes, 0, problem)
    }

    /// As [`add`](Table::add), with bases `offset` elements off a boundary.
    pub fn add_at<P: Problem + Clone + 'static>(
        &mut self,
        kind: Kind,
        directions: &[Direction],
        dtypes: &[DType],
        offset: usize,
        problem: &P,
    ) -> &mut Self {
        for &direction in directions {
            for &dtype in dtypes {
                self.cases.push(Case {
                    problem: Box::new(problem.clone()),
                    direction,
                    dtype,
                    math: Math::Ieee,
                    offset,
                    kind,
                    quick: false,
                });
            }
        }
        self
    }

    /// Adds a convolution of f32 with operands rounded to TF32.
    pub fn add_tf32<P: Problem + Clone + 'static>(
        &mut self,
        directions: &[Direction],
        problem: &P,
    ) -> &mut Self {
        let first = self.cases.len();
        self.add(Kind::Compute, directions, &[DType::F32], problem);
        self.cases[first..].iter_mut().for_each(|case| case.math = Math::Tf32);
        self
    }

    /// Puts all cases so far into quick runs.
    pub fn quick(&mut self) -> &mut Self {
        self.cases.iter_mut().for_each(|case| case.quick = true);
        self
    }

    /// The cases.
    pub fn finish(self) -> Vec<Case> {
        self.cases
    }
}
