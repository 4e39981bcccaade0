//! Channel cat: one input's rows inside the joined tensor's wider rows.

use cotangent::{ChannelCatBackward, ChannelCatForward, DType};
use serde::Serialize;

use super::{COMMON, OTHER, SHORT_ROWS, typed};
use crate::case::{Buffer, Case, Direction, Expected, Kind, Problem, Size, Table};
use crate::pattern::Pattern;
use crate::traffic::windows;

use Direction::{Bwd, Fwd};

/// Rows of `chunk` elements, which start `before` elements into rows that go on for `after` more.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChannelCat {
    rows: i32,
    chunk: i32,
    before: i32,
    after: i32,
}

impl ChannelCat {
    fn total(&self) -> i32 {
        self.before + self.chunk + self.after
    }
}

impl Problem for ChannelCat {
    fn op(&self) -> &'static str {
        "channel_cat"
    }

    fn shape(&self) -> String {
        format!("{} rows {} of {} at {}", self.rows, self.chunk, self.total(), self.before)
    }

    fn kernel(&self, direction: Direction) -> &'static str {
        if direction == Fwd { "channel_cat_forward" } else { "channel_cat_backward" }
    }

    fn constants(&self, direction: Direction, dtype: DType) -> Vec<i32> {
        typed!(dtype, D => vec![if direction == Fwd {
            ChannelCatForward::<D>::recommended().block_size
        } else {
            ChannelCatBackward::<D>::recommended().block_size
        }])
    }

    fn extents(&self, _: Direction) -> Vec<i32> {
        vec![self.chunk, self.total(), self.before]
    }

    fn rows(&self) -> Option<i64> {
        Some(i64::from(self.rows))
    }

    fn buffers(&self, direction: Direction) -> Vec<Buffer> {
        let chunk = self.rows as u64 * self.chunk as u64;
        let joined = self.rows as u64 * self.total() as u64;
        if direction == Fwd {
            vec![Buffer::input(chunk), Buffer::output(joined)]
        } else {
            vec![Buffer::input(joined), Buffer::output(chunk)]
        }
    }

    fn bytes(&self, _: Direction, size: u64, base: u64) -> u64 {
        let [rows, chunk, total] = [self.rows, self.chunk, self.total()].map(|extent| extent as u64);
        rows * chunk * size + windows(base + self.before as u64 * size, rows, chunk * size, total * size)
    }

    fn expect(&self, direction: Direction, _: usize, index: u64, _: &Pattern) -> Expected {
        let [chunk, total, before] = [self.chunk, self.total(), self.before].map(|extent| extent as u64);
        if direction == Bwd {
            return Expected::Copy { buffer: 0, index: index / chunk * total + before + index % chunk };
        }
        match (index % total).checked_sub(before) {
            Some(c) if c < chunk => Expected::Copy { buffer: 0, index: index / total * chunk + c },
            _ => Expected::Untouched,
        }
    }

    fn row(&self, direction: Direction, _: usize) -> u64 {
        if direction == Fwd { self.total() as u64 } else { self.chunk as u64 }
    }

    fn peer(&self) -> serde_json::Value {
        serde_json::json!({
            "rows": self.rows, "chunk": self.chunk, "total": self.total(), "offset": self.before,
        })
    }
}

/// The cases.
pub fn cases(size: Size) -> Vec<Case> {
    let shape = |rows, chunk, before, after| {
        let limit = |extent| size.limit(extent, 512);
        ChannelCat { rows: limit(rows), chunk: limit(chunk), before: limit(before), after: limit(after) }
    };
    let both = [Fwd, Bwd];
    let mut table = Table::new(size);
    table
        .add(Kind::Aligned, &both, &COMMON, &shape(4096, 16_384, 0, 16_384))
        .add(Kind::Odd, &both, &COMMON, &shape(4096, 16_381, 3, 16_384))
        .add(Kind::Latency, &both, &COMMON, &shape(16, 32, 0, 32))
        .quick()
        .add(Kind::Aligned, &both, &OTHER, &shape(4096, 16_384, 0, 16_384))
        .add_at(Kind::Odd, &both, &COMMON, 1, &shape(4095, 16_381, 3, 16_381))
        // 2,149,580,800 elements.
        .add(Kind::Aligned, &both, &COMMON, &shape(65_600, 32_768, 0, 7232));
    for chunk in SHORT_ROWS {
        table.add(Kind::ShortRows, &both, &COMMON, &shape((1 << 26) / chunk, chunk, 0, chunk));
    }
    table.finish()
}
