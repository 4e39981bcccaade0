//! 2-D convolution and its gradients.

use cotangent::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward, DType};
use serde::Serialize;

use super::{COMMON, typed};
use crate::case::{Buffer, Case, Direction, Expected, Kind, Problem, Size, Sum, Table};
use crate::pattern::Pattern;

use Direction::{Bwd, BwdDw, BwdDx, Fwd};

/// A convolution with a square filter.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Conv2d {
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    w: i32,
    k: i32,
    stride: i32,
    pad: i32,
    g: i32,
}

/// A flat index taken apart, last extent first.
fn split<const N: usize>(mut index: u64, extents: [u64; N]) -> [u64; N] {
    let mut parts = [0; N];
    for (part, extent) in parts.iter_mut().zip(extents).rev() {
        *part = index % extent;
        index /= extent;
    }
    parts
}

impl Conv2d {
    fn out(&self, extent: i32) -> i32 {
        (extent + 2 * self.pad - self.k) / self.stride + 1
    }

    fn c_in_per_group(&self) -> u64 {
        (self.c_in / self.g) as u64
    }

    fn c_out_per_group(&self) -> u64 {
        (self.c_out / self.g) as u64
    }

    /// Extents of x, of the filter and of y.
    fn extents_of(&self) -> [[u64; 4]; 3] {
        let Self { b, c_in, c_out, h, w, k, .. } = *self;
        let per_group = self.c_in / self.g;
        [[b, c_in, h, w], [c_out, per_group, k, k], [b, c_out, self.out(h), self.out(w)]]
            .map(|extents| extents.map(|extent| extent as u64))
    }

    /// Elements of x, of the filter and of y.
    fn volumes(&self) -> [u64; 3] {
        self.extents_of().map(|extents| extents.iter().product())
    }

    /// The row or column of x under a tap, if the image has it.
    fn under(&self, out: u64, tap: u64, extent: u64) -> Option<u64> {
        (out * self.stride as u64 + tap).checked_sub(self.pad as u64).filter(|&at| at < extent)
    }

    /// The row or column of y that a tap carries to this one of x, if there is one.
    fn over(&self, at: u64, tap: u64, out: u64) -> Option<u64> {
        let far = (at + self.pad as u64).checked_sub(tap)?;
        let stride = self.stride as u64;
        (far.is_multiple_of(stride) && far / stride < out).then_some(far / stride)
    }

    fn y(&self, index: u64, x: impl Fn(u64) -> f64, filter: impl Fn(u64) -> f64) -> Expected {
        let [[_, c_in, h, w], [_, cig, k, _], extents] = self.extents_of();
        let [b, co, oh, ow] = split(index, extents);
        let first = co / self.c_out_per_group() * cig;
        let mut sum = Sum::default();
        for c in 0..cig {
            for i in 0..k {
                let Some(ih) = self.under(oh, i, h) else { continue };
                for j in 0..k {
                    let Some(iw) = self.under(ow, j, w) else { continue };
                    let at = ((b * c_in + first + c) * h + ih) * w + iw;
                    sum.add(x(at) * filter(((co * cig + c) * k + i) * k + j));
                }
            }
        }
        sum.finish()
    }

    fn dx(&self, index: u64, dy: impl Fn(u64) -> f64, filter: impl Fn(u64) -> f64) -> Expected {
        let [extents, [_, cig, k, _], [_, c_out, oh, ow]] = self.extents_of();
        let [b, ci, ih, iw] = split(index, extents);
        let (group, c) = (ci / cig, ci % cig);
        let cog = self.c_out_per_group();
        let mut sum = Sum::default();
        for co in group * cog..(group + 1) * cog {
            for i in 0..k {
                let Some(r) = self.over(ih, i, oh) else { continue };
                for j in 0..k {
                    let Some(s) = self.over(iw, j, ow) else { continue };
                    let at = ((b * c_out + co) * oh + r) * ow + s;
                    sum.add(dy(at) * filter(((co * cig + c) * k + i) * k + j));
                }
            }
        }
        sum.finish()
    }

    fn dw(&self, index: u64, dy: impl Fn(u64) -> f64, x: impl Fn(u64) -> f64) -> Expected {
        let [[batch, c_in, h, w], extents, [_, c_out, oh, ow]] = self.extents_of();
        let [co, c, i, j] = split(index, extents);
        let ci = co / self.c_out_per_group() * self.c_in_per_group() + c;
        let mut sum = Sum::default();
        for b in 0..batch {
            for r in 0..oh {
                let Some(ih) = self.under(r, i, h) else { continue };
                for s in 0..ow {
                    let Some(iw) = self.under(s, j, w) else { continue };
                    let at = ((b * c_out + co) * oh + r) * ow + s;
                    sum.add(dy(at) * x(((b * c_in + ci) * h + ih) * w + iw));
                }
            }
        }
        sum.finish()
    }
}

impl Problem for Conv2d {
    fn op(&self) -> &'static str {
        "conv2d"
    }

    fn shape(&self) -> String {
        let Self { b, c_in, c_out, h, w, k, stride, pad, g } = self;
        let groups = if *g == 1 { String::new() } else { format!(" g{g}") };
        format!("B{b} {c_in}->{c_out} {h}x{w} k{k} s{stride} p{pad}{groups}")
    }

    fn kernel(&self, direction: Direction) -> &'static str {
        match direction {
            Fwd => "conv2d_forward",
            Bwd => "conv2d_backward",
            BwdDx => "conv2d_backward_dx",
            BwdDw => "conv2d_backward_dw",
        }
    }

    fn constants(&self, direction: Direction, dtype: DType) -> Vec<i32> {
        let Self { k, stride: s, pad: p, g, .. } = *self;
        let block = typed!(dtype, D => match direction {
            Fwd => Conv2dForward::<D>::recommended(k, k, s, s, p, p, g).block_ow,
            Bwd => Conv2dBackward::<D>::recommended(k, k, s, s, p, p, g).block_ow,
            BwdDx => Conv2dBackwardDx::<D>::recommended(k, k, s, s, p, p, g).block_ow,
            BwdDw => Conv2dBackwardDw::<D>::recommended(k, k, s, s, p, p, g).block_ow,
        });
        vec![k, k, s, s, p, p, g, block]
    }

    fn extents(&self, _: Direction) -> Vec<i32> {
        let Self { b, c_in, c_out, h, w, .. } = *self;
        vec![b, c_in, c_out, h, w, self.out(h), self.out(w)]
    }

    fn buffers(&self, direction: Direction) -> Vec<Buffer> {
        let [x, w, y] = self.volumes();
        match direction {
            Fwd => vec![Buffer::input(x), Buffer::input(w), Buffer::output(y)],
            Bwd => {
                let inputs = [y, x, w].map(Buffer::input);
                inputs.into_iter().chain([x, w].map(Buffer::output)).collect()
            }
            BwdDx => vec![Buffer::input(y), Buffer::input(w), Buffer::output(x)],
            BwdDw => vec![Buffer::input(y), Buffer::input(x), Buffer::output(w)],
        }
    }

    fn bytes(&self, direction: Direction, size: u64, _: u64) -> u64 {
        self.buffers(direction).iter().map(|buffer| buffer.elements * size).sum()
    }

    fn operations(&self, direction: Direction) -> Option<u64> {
        let [_, _, y] = self.volumes();
        let products = y * self.c_in_per_group() * (self.k * self.k) as u64;
        Some(products * if direction == Bwd { 4 } else { 2 })
    }

    fn expect(&self, direction: Direction, output: usize, index: u64, inputs: &Pattern) -> Expected {
        let from = |buffer| move |index| inputs.value(buffer, index);
        match (direction, output) {
            (Fwd, _) => self.y(index, from(0), from(1)),
            (Bwd, 3) => self.dx(index, from(0), from(2)),
            (BwdDx, _) => self.dx(index, from(0), from(1)),
            (Bwd | BwdDw, _) => self.dw(index, from(0), from(1)),
        }
    }

    fn terms(&self, direction: Direction, output: usize) -> u64 {
        let [_, _, [b, _, oh, ow]] = self.extents_of();
        let taps = (self.k * self.k) as u64;
        match (direction, output) {
            (Fwd, _) => self.c_in_per_group() * taps,
            (Bwd, 3) | (BwdDx, _) => self.c_out_per_group() * taps,
            (Bwd | BwdDw, _) => b * oh * ow,
        }
    }

    fn row(&self, direction: Direction, output: usize) -> u64 {
        let [[.., w], [.., k], [.., ow]] = self.extents_of();
        match (direction, output) {
            (Fwd, _) => ow,
            (Bwd, 3) | (BwdDx, _) => w,
            (Bwd | BwdDw, _) => k,
        }
    }

    fn peer(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("numbers under names")
    }
}

/// Batch, channels in and out, height and width, filter, stride, padding, groups: the yardstick's shapes first.
const SHAPES: [[i32; 9]; 15] = [
    [16, 64, 64, 56, 56, 3, 1, 1, 1],
    [32, 128, 128, 28, 28, 3, 1, 1, 1],
    [8, 64, 64, 256, 256, 3, 1, 1, 1],
    [32, 256, 256, 14, 14, 3, 1, 1, 1],
    [32, 64, 256, 56, 56, 1, 1, 0, 1],
    [32, 3, 64, 224, 224, 7, 2, 3, 1],
    [32, 128, 256, 56, 56, 3, 2, 1, 1],
    [32, 128, 128, 56, 56, 3, 1, 1, 128],
    [1, 2, 4, 8, 8, 3, 1, 1, 1],
    [16, 64, 96, 56, 56, 5, 1, 2, 1],
    [16, 48, 48, 60, 60, 7, 1, 3, 1],
    [7, 61, 67, 53, 51, 3, 1, 1, 1],
    [32, 128, 128, 28, 28, 3, 1, 1, 32],
    [32, 128, 256, 28, 28, 3, 1, 1, 2],
    [1, 64, 64, 112, 112, 3, 1, 1, 1],
];

/// How many of them are the yardstick's.
const YARDSTICK: usize = 9;

/// The shape with smaller extents. Groups of a depthwise convolution stay as many as its channels.
fn limited(size: Size, [b, c_in, c_out, h, w, k, stride, pad, g]: [i32; 9]) -> Conv2d {
    // A convolution of a few elements an axis is not small: there are seven axes.
    let [groups, channels, batch, image] = match size {
        Size::Tiny => [3, 3, 2, 9],
        Size::Small => [4, 8, 2, 24],
        Size::Full => [i32::MAX; 4],
    };
    let groups = g.min(groups);
    let [c_in, c_out] = [c_in, c_out].map(|c| groups * (c / g).min(channels));
    Conv2d { b: b.min(batch), c_in, c_out, h: h.min(image), w: w.min(image), k, stride, pad, g: groups }
}

/// The cases.
pub fn cases(size: Size) -> Vec<Case> {
    let all = [Fwd, Bwd, BwdDx, BwdDw];
    let mut table = Table::new(size);
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let problem = limited(size, shape);
        table.add(Kind::Compute, &all, &COMMON, &problem).add_tf32(&all, &problem);
        if number + 1 == YARDSTICK {
            table.quick();
        }
    }
    table.add(Kind::Compute, &all, &[DType::F16, DType::F64], &limited(size, SHAPES[0]));
    table.finish()
}
