//! Nearest-neighbour upsampling by whole factors.

use cotangent::{DType, UpsampleNearest2dBackward, UpsampleNearest2dForward};
use serde::Serialize;

use super::{COMMON, OTHER, SHORT_ROWS, typed};
use crate::case::{Buffer, Case, Direction, Expected, Kind, Problem, Size, Sum, Table};
use crate::pattern::Pattern;

use Direction::{Bwd, Fwd};

/// `[B, C, H, W]`, each element repeated over a window of `scale_h` × `scale_w`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UpsampleNearest2d {
    b: i32,
    c: i32,
    h: i32,
    w: i32,
    scale_h: i32,
    scale_w: i32,
}

impl UpsampleNearest2d {
    fn small(&self) -> u64 {
        [self.b, self.c, self.h, self.w].map(|extent| extent as u64).iter().product()
    }

    fn window(&self) -> u64 {
        self.scale_h as u64 * self.scale_w as u64
    }
}

impl Problem for UpsampleNearest2d {
    fn op(&self) -> &'static str {
        "upsample_nearest2d"
    }

    fn shape(&self) -> String {
        let Self { b, c, h, w, scale_h, scale_w } = self;
        format!("{b}x{c}x{h}x{w} by {scale_h}x{scale_w}")
    }

    fn kernel(&self, direction: Direction) -> &'static str {
        if direction == Fwd { "upsample_nearest2d_forward" } else { "upsample_nearest2d_backward" }
    }

    fn constants(&self, direction: Direction, dtype: DType) -> Vec<i32> {
        let (scale_h, scale_w) = (self.scale_h, self.scale_w);
        let block = typed!(dtype, D => if direction == Fwd {
            UpsampleNearest2dForward::<D>::recommended(scale_h, scale_w).block_ow
        } else {
            UpsampleNearest2dBackward::<D>::recommended(scale_h, scale_w).block_iw
        });
        vec![scale_h, scale_w, block]
    }

    fn extents(&self, _: Direction) -> Vec<i32> {
        let Self { b, c, h, w, scale_h, scale_w } = *self;
        vec![b, c, h, w, h * scale_h, w * scale_w]
    }

    fn buffers(&self, direction: Direction) -> Vec<Buffer> {
        let (small, large) = (self.small(), self.small() * self.window());
        if direction == Fwd {
            vec![Buffer::input(small), Buffer::output(large)]
        } else {
            vec![Buffer::input(large), Buffer::output(small)]
        }
    }

    fn bytes(&self, _: Direction, size: u64, _: u64) -> u64 {
        self.small() * (1 + self.window()) * size
    }

    fn expect(&self, direction: Direction, _: usize, index: u64, inputs: &Pattern) -> Expected {
        let [w, scale_h, scale_w] = [self.w, self.scale_h, self.scale_w].map(|extent| extent as u64);
        let wide = w * scale_w;
        // Rows of all planes lie end to end on both sides, `scale_h` large ones a small one.
        if direction == Fwd {
            let (row, column) = (index / wide, index % wide);
            return Expected::Copy { buffer: 0, index: row / scale_h * w + column / scale_w };
        }
        let (row, column) = (index / w, index % w);
        let mut sum = Sum::default();
        for i in 0..scale_h {
            for j in 0..scale_w {
                sum.add(inputs.value(0, (row * scale_h + i) * wide + column * scale_w + j));
            }
        }
        sum.finish()
    }

    fn terms(&self, direction: Direction, _: usize) -> u64 {
        if direction == Fwd { 1 } else { self.window() }
    }

    fn row(&self, direction: Direction, _: usize) -> u64 {
        if direction == Fwd { self.w as u64 * self.scale_w as u64 } else { self.w as u64 }
    }

    fn peer(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("numbers under names")
    }
}

/// The cases.
pub fn cases(size: Size) -> Vec<Case> {
    let shape = |b, c, h, w, scale| {
        let limit = |extent| size.limit(extent, 24);
        UpsampleNearest2d {
            b: limit(b),
            c: limit(c),
            h: limit(h),
            w: limit(w),
            scale_h: scale,
            scale_w: scale,
        }
    };
    let both = [Fwd, Bwd];
    let mut table = Table::new(size);
    table
        .add(Kind::Aligned, &both, &COMMON, &shape(8, 64, 256, 256, 2))
        .add(Kind::Latency, &both, &COMMON, &shape(1, 4, 8, 8, 2))
        .quick()
        .add(Kind::Aligned, &both, &OTHER, &shape(8, 64, 256, 256, 2))
        .add(Kind::Aligned, &both, &COMMON, &shape(8, 64, 192, 192, 3))
        .add(Kind::Aligned, &both, &COMMON, &shape(8, 64, 128, 128, 4))
        .add(Kind::Aligned, &both, &COMMON, &shape(8, 64, 96, 96, 5))
        .add_at(Kind::Odd, &both, &COMMON, 1, &shape(7, 61, 253, 251, 2))
        // 2,181,169,152 elements on the large side.
        .add(Kind::Aligned, &both, &COMMON, &shape(8, 64, 1032, 1032, 2));
    for w in SHORT_ROWS {
        table.add(Kind::ShortRows, &both, &COMMON, &shape(8, 64, (1 << 15) / w, w, 2));
    }
    table.finish()
}
