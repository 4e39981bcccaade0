//! Constant padding of the last dimension.

use cotangent::{ConstantPad1dBackward, ConstantPad1dForward, DType};
use serde::Serialize;

use super::{COMMON, OTHER, SHORT_ROWS, typed};
use crate::case::{Buffer, Case, Direction, Expected, Kind, Problem, Size, Table};
use crate::pattern::Pattern;
use crate::traffic::windows;

use Direction::{Bwd, Fwd};

/// `[B, C, L]`, padded by `left` and `right` elements, none of them negative.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ConstantPad1d {
    b: i32,
    c: i32,
    l: i32,
    left: i32,
    right: i32,
}

impl ConstantPad1d {
    fn padded(&self) -> i32 {
        self.left + self.l + self.right
    }

    fn rows(&self) -> u64 {
        self.b as u64 * self.c as u64
    }
}

impl Problem for ConstantPad1d {
    fn op(&self) -> &'static str {
        "constant_pad1d"
    }

    fn shape(&self) -> String {
        let Self { b, c, l, left, right } = self;
        format!("{b}x{c}x{l} pad {left}+{right}")
    }

    fn kernel(&self, direction: Direction) -> &'static str {
        if direction == Fwd { "constant_pad1d_forward" } else { "constant_pad1d_backward" }
    }

    fn constants(&self, direction: Direction, dtype: DType) -> Vec<i32> {
        let block = typed!(dtype, D => if direction == Fwd {
            ConstantPad1dForward::<D>::recommended(self.left, self.right).block_ol
        } else {
            ConstantPad1dBackward::<D>::recommended(self.left, self.right).block_ol
        });
        vec![self.left, self.right, block]
    }

    fn extents(&self, _: Direction) -> Vec<i32> {
        vec![self.b, self.c, self.l, self.padded()]
    }

    fn has_value(&self, direction: Direction) -> bool {
        direction == Fwd
    }

    fn buffers(&self, direction: Direction) -> Vec<Buffer> {
        let (bare, padded) = (self.rows() * self.l as u64, self.rows() * self.padded() as u64);
        if direction == Fwd {
            vec![Buffer::input(bare), Buffer::output(padded)]
        } else {
            vec![Buffer::input(padded), Buffer::output(bare)]
        }
    }

    fn bytes(&self, direction: Direction, size: u64, base: u64) -> u64 {
        let [l, padded] = [self.l, self.padded()].map(|extent| extent as u64 * size);
        let bare = self.rows() * l;
        if direction == Fwd {
            return bare + self.rows() * padded;
        }
        bare + windows(base + self.left as u64 * size, self.rows(), l, padded)
    }

    fn expect(&self, direction: Direction, _: usize, index: u64, _: &Pattern) -> Expected {
        let [l, padded, left] = [self.l, self.padded(), self.left].map(|extent| extent as u64);
        if direction == Bwd {
            return Expected::Copy { buffer: 0, index: index / l * padded + left + index % l };
        }
        match (index % padded).checked_sub(left) {
            Some(i) if i < l => Expected::Copy { buffer: 0, index: index / padded * l + i },
            _ => Expected::Fill,
        }
    }

    fn row(&self, direction: Direction, _: usize) -> u64 {
        if direction == Fwd { self.padded() as u64 } else { self.l as u64 }
    }

    fn peer(&self) -> serde_json::Value {
        serde_json::json!({ "b": self.b, "c": self.c, "l": self.l, "left": self.left, "right": self.right })
    }
}

/// The cases.
pub fn cases(size: Size) -> Vec<Case> {
    let shape = |b, c, l, left, right| {
        let limit = |extent| size.limit(extent, 64);
        ConstantPad1d { b: limit(b), c: limit(c), l: limit(l), left, right }
    };
    let both = [Fwd, Bwd];
    let mut table = Table::new(size);
    table
        .add(Kind::Odd, &both, &COMMON, &shape(64, 512, 8192, 3, 3))
        .add(Kind::Latency, &both, &COMMON, &shape(2, 4, 64, 1, 1))
        .quick()
        .add(Kind::Aligned, &both, &COMMON, &shape(64, 512, 8192, 16, 16))
        .add(Kind::Aligned, &both, &OTHER, &shape(64, 512, 8192, 16, 16))
        .add_at(Kind::Odd, &both, &COMMON, 1, &shape(63, 509, 8189, 3, 2))
        // 2,149,580,800 elements.
        .add(Kind::Aligned, &both, &COMMON, &shape(8, 8192, 32_800, 16, 16));
    for l in SHORT_ROWS {
        table.add(Kind::ShortRows, &both, &COMMON, &shape(64, (1 << 20) / l, l, 1, 1));
    }
    table.finish()
}
