//! What is checked: cases, worked literals, and pairs of a kernel and its adjoint.

use std::fmt;

/// How many blocks a case launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grid {
    /// The kernel's own number.
    #[default]
    Own,
    /// One block, which then does everything.
    One,
    /// Twice the kernel's own number, half of which find nothing to do.
    Twice,
}

/// What a case's inputs hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// Any bits where bits are copied; numbers between −1 and 1 where they are summed.
    #[default]
    Plain,
    /// Sums: numbers around the smallest that is not denormal. Copies: as [`Plain`](Data::Plain).
    Tiny,
    /// Copies: zeros, denormals, infinities and NaNs with payloads. Sums: some zeros of either sign, a few
    /// infinities and NaNs, and numbers between −1 and 1.
    Special,
    /// Sums: a few infinities and NaNs in the first input alone. Copies: as [`Special`](Data::Special).
    Overflow,
}

/// One launch, but for the element type and the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its constants, in its order.
    pub constants: Vec<i32>,
    /// Its arguments from the first extent on, without a pad's value.
    pub extents: Vec<i32>,
    /// The number of rows, for channel cat.
    pub rows: Option<i64>,
    /// Whether to add to the outputs.
    pub accumulate: bool,
    /// The number of blocks.
    pub grid: Grid,
    /// For each buffer, how many elements its base is off an aligned address; zero for those not named.
    pub offsets: Vec<usize>,
    /// What the inputs hold.
    pub data: Data,
}

impl Case {
    /// A plain case: overwrite, the kernel's own grid, aligned bases.
    pub fn new(kernel: &'static str, constants: &[i32], extents: &[i32]) -> Self {
        Self {
            kernel,
            constants: constants.to_vec(),
            extents: extents.to_vec(),
            rows: None,
            accumulate: false,
            grid: Grid::Own,
            offsets: Vec::new(),
            data: Data::Plain,
        }
    }

    /// Sets the number of rows.
    #[must_use]
    pub fn rows(mut self, rows: i64) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Adds to the outputs.
    #[must_use]
    pub fn accumulate(mut self, accumulate: bool) -> Self {
        self.accumulate = accumulate;
        self
    }

    /// Sets the number of blocks.
    #[must_use]
    pub fn grid(mut self, grid: Grid) -> Self {
        self.grid = grid;
        self
    }

    /// Moves the buffers' bases by this many elements.
    #[must_use]
    pub fn offsets(mut self, offsets: &[usize]) -> Self {
        self.offsets = offsets.to_vec();
        self
    }

    /// Sets what the inputs hold.
    #[must_use]
    pub fn data(mut self, data: Data) -> Self {
        self.data = data;
        self
    }

    /// Varies grid, bases and data from one case to the next, so that each meets each within a few shapes.
    /// The numbers of choices have no common factor.
    pub(crate) fn varied(self, number: usize) -> Self {
        const OFFSETS: [&[usize]; 5] = [&[], &[1], &[0, 1, 1, 1, 1], &[1, 1, 1, 1, 1], &[3, 2, 1, 1, 2]];
        const DATA: [Data; 7] = {
            use Data::{Plain, Special, Tiny};
            [Plain, Special, Plain, Tiny, Plain, Plain, Plain]
        };
        const GRIDS: [Grid; 4] = [Grid::Own, Grid::Twice, Grid::One, Grid::Own];
        self.offsets(OFFSETS[number % OFFSETS.len()])
            .data(DATA[number % DATA.len()])
            .grid(GRIDS[number % GRIDS.len()])
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, constants, extents, rows, accumulate, grid, offsets, data } = self;
        write!(f, "{kernel} with constants {constants:?} and extents {extents:?}")?;
        if let Some(rows) = rows {
            write!(f, ", {rows} rows")?;
        }
        if *accumulate {
            f.write_str(", accumulated")?;
        }
        match grid {
            Grid::Own => {}
            Grid::One => f.write_str(", one block")?,
            Grid::Twice => f.write_str(", twice the blocks")?,
        }
        if !offsets.is_empty() {
            write!(f, ", bases off by {offsets:?} elements")?;
        }
        match data {
            Data::Plain => Ok(()),
            Data::Tiny => f.write_str(", tiny numbers"),
            Data::Special => f.write_str(", special numbers"),
            Data::Overflow => f.write_str(", infinities in the first input"),
        }
    }
}

/// A case small enough to work by hand, with its answer.
#[derive(Clone, Debug)]
pub struct Literal {
    /// The launch.
    pub case: Case,
    /// What each buffer holds before, by name; an output that is not named holds nothing.
    pub before: Vec<(&'static str, Vec<f64>)>,
    /// What each output holds after, by name; NaN where it is left alone.
    pub after: Vec<(&'static str, Vec<f64>)>,
}

impl Literal {
    /// A literal with nothing in its buffers yet.
    pub fn new(case: Case) -> Self {
        Self { case, before: Vec::new(), after: Vec::new() }
    }

    /// Says what a buffer holds before.
    #[must_use]
    pub fn given(mut self, buffer: &'static str, values: &[f64]) -> Self {
        self.before.push((buffer, values.to_vec()));
        self
    }

    /// Says what an output holds after; NaN where it is left alone.
    #[must_use]
    pub fn gives(mut self, buffer: &'static str, values: &[f64]) -> Self {
        self.after.push((buffer, values.to_vec()));
        self
    }
}

/// One check of a kernel; each applies to every element type.
#[derive(Clone, Debug)]
pub enum Check {
    /// The result against the wide reference, what is written and what is left alone, and a second run.
    Reference(Case),
    /// A worked literal.
    Literal(Literal),
    /// ⟨A x, y⟩ = ⟨x, Aᵀ y⟩ for a backward kernel's case and its forward.
    Adjoint(Case),
}

impl Check {
    /// The launch that is checked.
    pub fn case(&self) -> &Case {
        match self {
            Self::Reference(case) | Self::Adjoint(case) => case,
            Self::Literal(literal) => &literal.case,
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference(case) => write!(f, "{case}, against the reference"),
            Self::Literal(literal) => write!(f, "{}, against the literal", literal.case),
            Self::Adjoint(case) => write!(f, "{case}, against its forward"),
        }
    }
}
