//! Flatten: a strided matrix and its row-major form.

use cotangent::{DType, FlattenBackward, FlattenForward};
use serde::Serialize;

use super::{COMMON, OTHER, SHORT_ROWS, typed};
use crate::case::{Buffer, Case, Direction, Expected, Kind, Problem, Size, Table};
use crate::pattern::Pattern;
use crate::traffic::windows;

use Direction::{Bwd, Fwd};

/// How the strided side lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Row by row, without gaps.
    Contiguous,
    /// Column by column, without gaps.
    ColumnMajor,
    /// Row by row, each the first half of a row twice as long.
    HalfRows,
}

/// A B × N matrix.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Flatten {
    b: i32,
    n: i32,
    layout: Layout,
}

impl Flatten {
    /// Elements between rows and between columns of the strided side.
    fn strides(&self) -> [i32; 2] {
        match self.layout {
            Layout::Contiguous => [self.n, 1],
            Layout::ColumnMajor => [1, self.b],
            Layout::HalfRows => [2 * self.n, 1],
        }
    }

    fn area(&self) -> u64 {
        self.b as u64 * self.n as u64
    }

    fn span(&self) -> u64 {
        match self.layout {
            Layout::HalfRows => (2 * (self.b as u64) - 1) * self.n as u64,
            Layout::Contiguous | Layout::ColumnMajor => self.area(),
        }
    }
}

impl Problem for Flatten {
    fn op(&self) -> &'static str {
        "flatten"
    }

    fn shape(&self) -> String {
        let layout = match self.layout {
            Layout::Contiguous => "contiguous",
            Layout::ColumnMajor => "column-major",
            Layout::HalfRows => "half rows",
        };
        format!("{}x{} {layout}", self.b, self.n)
    }

    fn kernel(&self, direction: Direction) -> &'static str {
        if direction == Fwd { "flatten_forward" } else { "flatten_backward" }
    }

    fn constants(&self, direction: Direction, dtype: DType) -> Vec<i32> {
        typed!(dtype, D => if direction == Fwd {
            let kernel = FlattenForward::<D>::recommended();
            vec![kernel.block_b, kernel.block_n]
        } else {
            let kernel = FlattenBackward::<D>::recommended();
            vec![kernel.block_b, kernel.block_n]
        })
    }

    fn extents(&self, _: Direction) -> Vec<i32> {
        let [stride_b, stride_n] = self.strides();
        vec![self.b, self.n, stride_b, stride_n]
    }

    fn buffers(&self, direction: Direction) -> Vec<Buffer> {
        if direction == Fwd {
            vec![Buffer::input(self.span()), Buffer::output(self.area())]
        } else {
            vec![Buffer::input(self.area()), Buffer::output(self.span())]
        }
    }

    fn bytes(&self, _: Direction, size: u64, base: u64) -> u64 {
        let flat = self.area() * size;
        let strided = match self.layout {
            Layout::Contiguous | Layout::ColumnMajor => flat,
            Layout::HalfRows => {
                let width = self.n as u64 * size;
                windows(base, self.b as u64, width, 2 * width)
            }
        };
        flat + strided
    }

    fn expect(&self, direction: Direction, _: usize, index: u64, _: &Pattern) -> Expected {
        let [b, n] = [self.b as u64, self.n as u64];
        let index = match (direction, self.layout) {
            (_, Layout::Contiguous) => index,
            (Fwd, Layout::ColumnMajor) => index / n + index % n * b,
            (_, Layout::ColumnMajor) => index % b * n + index / b,
            (Fwd, Layout::HalfRows) => index / n * 2 * n + index % n,
            (_, Layout::HalfRows) if index % (2 * n) < n => index / (2 * n) * n + index % (2 * n),
            (_, Layout::HalfRows) => return Expected::Untouched,
        };
        Expected::Copy { buffer: 0, index }
    }

    fn row(&self, direction: Direction, _: usize) -> u64 {
        match (direction, self.layout) {
            (Bwd, Layout::ColumnMajor) => self.b as u64,
            (Bwd, Layout::HalfRows) => 2 * self.n as u64,
            _ => self.n as u64,
        }
    }

    fn peer(&self) -> serde_json::Value {
        let [stride_b, stride_n] = self.strides();
        serde_json::json!({ "b": self.b, "n": self.n, "stride_b": stride_b, "stride_n": stride_n })
    }
}

/// The cases.
pub fn cases(size: Size) -> Vec<Case> {
    use Layout::{ColumnMajor, Contiguous, HalfRows};
    let shape = |b, n, layout| Flatten { b: size.limit(b, 512), n: size.limit(n, 512), layout };
    let both = [Fwd, Bwd];
    let mut table = Table::new(size);
    table
        .add(Kind::Aligned, &both, &COMMON, &shape(8192, 16384, Contiguous))
        .add(Kind::Transposed, &both, &COMMON, &shape(8192, 16384, ColumnMajor))
        .add(Kind::Latency, &both, &COMMON, &shape(16, 32, Contiguous))
        .quick()
        .add(Kind::Aligned, &both, &OTHER, &shape(8192, 16384, Contiguous))
        .add(Kind::Transposed, &both, &OTHER, &shape(8192, 16384, ColumnMajor))
        .add(Kind::Latency, &both, &COMMON, &shape(16, 32, ColumnMajor))
        .add_at(Kind::Odd, &both, &COMMON, 1, &shape(8191, 16381, Contiguous))
        .add_at(Kind::Odd, &both, &COMMON, 1, &shape(4095, 16381, HalfRows))
        .add_at(Kind::OddTransposed, &both, &COMMON, 1, &shape(8191, 16381, ColumnMajor))
        // 2,152,955,904 elements.
        .add(Kind::Aligned, &both, &COMMON, &shape(46_336, 46_464, Contiguous))
        .add(Kind::Transposed, &both, &COMMON, &shape(46_336, 46_464, ColumnMajor));
    for n in SHORT_ROWS {
        table.add(Kind::ShortRows, &both, &COMMON, &shape((1 << 26) / n, n, HalfRows));
    }
    table.finish()
}
