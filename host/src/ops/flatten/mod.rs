//! Flatten: a strided matrix copied into row-major order, and the gradient's way back.

pub(super) mod checked;
mod reference;
#[cfg(feature = "verify")]
mod verify;

#[cfg(feature = "verify")]
pub(crate) use verify::SUBJECTS;

use crate::element::{Element, Num};
use crate::error::{Error, Result};
use crate::kernel::{Kernel, LaunchOptions, kernel};
use crate::launch::Divisor64;
use crate::plan::Plan;

kernel! {
    /// Copies a strided B × N matrix into row-major order.
    ///
    /// **Formula.** `y[b·N + n] = x[b·stride_ib + n·stride_in]`.
    ///
    /// **Shapes**, in elements: `input` reaches `(B − 1)·stride_ib + (N − 1)·stride_in`; `output` is `[B, N]`,
    /// contiguous. Strides are not negative; column-major (`stride_ib = 1`, `stride_in = B`) and broadcasting
    /// (zero) are fine.
    ///
    /// **Written**: all of `output`.
    ///
    /// **Determinism**: a copy, bit for bit, NaN payloads included.
    ///
    /// **Errors**: negative extents or strides; a tile of 2³¹ elements or more; what every launch checks
    /// (null, misaligned, short or overlapping buffers).
    ///
    /// **PyTorch**: `x.flatten(1)` of a tensor with these strides. **Bytes moved**: `2 · B · N · size`.
    FlattenForward("flatten_forward", Element) {
        /// Rows of the tile that a block covers.
        block_b: Positive,
        /// Columns of the tile that a block covers.
        block_n: Positive,
    }
    recommended(; recommended_side::<D>(), recommended_side::<D>())
    args(input: *mut D, output: *mut D, b: i32, n: i32, stride_ib: i32, stride_in: i32)
    plan(plan_forward)
    reference(reference::forward)
}

kernel! {
    /// The gradient of [`FlattenForward`] with respect to its input.
    ///
    /// **Formula.** `dx[b·stride_dxb + n·stride_dxn] = dy[b·N + n]`.
    ///
    /// **Shapes**, in elements: `dy` is `[B, N]`, contiguous; `dx` reaches
    /// `(B − 1)·stride_dxb + (N − 1)·stride_dxn`.
    ///
    /// **Written**: the elements of `dx` that some (b, n) reaches; the others are left alone. With
    /// [`accumulate`](LaunchOptions::accumulate), `dx += …`, rounded once.
    ///
    /// **Determinism**: a copy, bit for bit, or one addition an element.
    ///
    /// **Errors**: as for [`FlattenForward`], and strides that send two (b, n) to one element: with
    /// d = gcd(stride_dxb, stride_dxn), when `stride_dxn / d < B` and `stride_dxb / d < N`.
    ///
    /// **PyTorch**: the gradient of `x.flatten(1)`. **Bytes moved**: `2 · B · N · size`.
    FlattenBackward("flatten_backward", Num) {
        /// Rows of the tile that a block covers.
        block_b: Positive,
        /// Columns of the tile that a block covers.
        block_n: Positive,
    }
    recommended(; recommended_side::<D>(), recommended_side::<D>())
    args(dy: *mut D, dx: *mut D, b: i32, n: i32, stride_dxb: i32, stride_dxn: i32)
    plan(plan_backward)
    reference(reference::backward)
}

/// Rows and columns of the fastest tile: 16 to 32 KiB, so that a block of 256 threads has four vectors a thread,
/// and a transposed tile has whole sectors on both sides.
const fn recommended_side<D>() -> i32 {
    if size_of::<D>() >= 4 { 64 } else { 128 }
}

/// Elements that a strided matrix spans, gaps included.
fn span(b: i32, n: i32, stride_b: i32, stride_n: i32) -> i64 {
    let [b, n, stride_b, stride_n] = [b, n, stride_b, stride_n].map(i64::from);
    // At most 2·(2³¹)² by the types: below 2⁶³.
    if b == 0 || n == 0 { 0 } else { (b - 1) * stride_b + (n - 1) * stride_n + 1 }
}

/// Whether two (b, n) share an element.
fn aliases(b: i32, n: i32, stride_b: i32, stride_n: i32) -> bool {
    let [b, n, stride_b, stride_n] = [b, n, stride_b, stride_n].map(i64::from);
    let (mut d, mut rest) = (stride_b, stride_n);
    while rest != 0 {
        (d, rest) = (rest, d % rest);
    }
    if d == 0 { b * n > 1 } else { stride_n / d < b && stride_b / d < n && b * n > 0 }
}

/// Checks extents, strides and tile; returns the elements of the strided and of the row-major matrix.
fn check(plan: &Plan, tile: [i32; 2], extents: [(&'static str, i32); 4]) -> Result<(i64, i64)> {
    plan.not_negative(&extents)?;
    let area = i64::from(tile[0]) * i64::from(tile[1]);
    let largest = i64::from(i32::MAX);
    plan.check(area <= largest, "block_b · block_n", area, "must be at most", largest)?;
    let [b, n, stride_b, stride_n] = extents.map(|(_, value)| value);
    let strided = plan.volume("the strided matrix", &[span(b, n, stride_b, stride_n)])?;
    Ok((strided, plan.volume("the row-major matrix", &[i64::from(b), i64::from(n)])?))
}

/// Tiles that cover an extent.
fn tiles_of(extent: i32, block: i32) -> i64 {
    (i64::from(extent) + i64::from(block) - 1) / i64::from(block)
}

/// How the device moves a strided matrix; the numbers are the device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Element by element.
    General = 0,
    /// The elements of a row follow each other on the strided side.
    Rows = 1,
    /// The elements of a column follow each other, and all rows of both sides lie on 16-byte boundaries.
    ColumnsAligned = 2,
    /// The elements of a column follow each other.
    Columns = 3,
    /// The elements of a row follow each other on the strided side, and the rows lie end to end.
    Run = 4,
}

/// Rows and columns of the tile that passes through shared memory.
const SHARED_SIDE: u32 = 64;

/// Threads of a block that passes such tiles.
const SHARED_THREADS: u32 = 256;

/// A strided matrix on its way.
struct Matrix {
    b: i32,
    n: i32,
    stride_b: i32,
    stride_n: i32,
    /// The addresses of the strided and of the row-major side.
    sides: [u64; 2],
    accumulate: bool,
}

impl Matrix {
    /// Whether the rows lie end to end.
    fn is_one_row(&self) -> bool {
        self.stride_b == self.n || self.b == 1
    }

    fn way(&self, size: u64) -> Way {
        // A single row or column has a stride that is never taken.
        let (unit_n, unit_b) = (self.stride_n == 1 || self.n == 1, self.stride_b == 1 || self.b == 1);
        let aligned = |address: u64, pitch: i32| (address | (pitch as u64 * size)).is_multiple_of(16);
        if unit_n && self.is_one_row() && !self.accumulate {
            Way::Run
        } else if unit_n && (self.stride_b >= self.n || self.b == 1) {
            Way::Rows
        } else if unit_b && !self.accumulate && self.b.min(self.n) >= SHARED_SIDE as i32 / 8 {
            let whole = size > 1 && aligned(self.sides[0], self.stride_n) && aligned(self.sides[1], self.n);
            if whole { Way::ColumnsAligned } else { Way::Columns }
        } else {
            Way::General
        }
    }

    /// The hidden words up to the row's divisor, and the sweep.
    fn hide(&self, plan: &mut Plan, block_b: i32, block_n: i32, options: &LaunchOptions<'_>) {
        let tiles_n = tiles_of(self.n, block_n);
        let tiles = tiles_of(self.b, block_b) * tiles_n;
        let area = i64::from(block_b) * i64::from(block_n);
        let total = i64::from(self.b) * i64::from(self.n);
        let way = self.way(16 / plan.lanes() as u64);
        plan.hidden(&(way as u32));
        plan.hidden(&tiles);
        plan.hidden(&Divisor64(tiles_n));
        plan.hidden(&Divisor64(i64::from(self.n)));
        match way {
            Way::Run | Way::Rows => plan.sweeps_rows(total, area, 2, options),
            Way::General => plan.tiles(total, tiles, area.min(total)),
            Way::ColumnsAligned => {
                let squares = (area as u64).div_ceil((plan.lanes() * plan.lanes()) as u64);
                plan.tiles(total, tiles, squares as i64);
            }
            Way::Columns => {
                plan.tiles(total, tiles, area);
                plan.threads(SHARED_THREADS);
                plan.shared_bytes(SHARED_SIDE, |size| SHARED_SIDE * size + size.max(4));
            }
        }
    }
}

fn plan_forward<D: Element>(
    kernel: &FlattenForward<D>,
    args: &<FlattenForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (input, output, b, n, stride_ib, stride_in) = *args;
    let extents = [("b", b), ("n", n), ("stride_ib", stride_ib), ("stride_in", stride_in)];
    let (strided, flat) = check(plan, [kernel.block_b, kernel.block_n], extents)?;
    plan.reject_rows(options)?;
    plan.reject_accumulate(options)?;
    plan.reads("input", input, strided)?;
    plan.writes("output", output, flat, options)?;
    let sides = [input as u64, output as u64];
    let matrix = Matrix { b, n, stride_b: stride_ib, stride_n: stride_in, sides, accumulate: false };
    matrix.hide(plan, kernel.block_b, kernel.block_n, options);
    Ok(())
}

fn plan_backward<D: Num>(
    kernel: &FlattenBackward<D>,
    args: &<FlattenBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, dx, b, n, stride_dxb, stride_dxn) = *args;
    let extents = [("b", b), ("n", n), ("stride_dxb", stride_dxb), ("stride_dxn", stride_dxn)];
    let (strided, flat) = check(plan, [kernel.block_b, kernel.block_n], extents)?;
    plan.reject_rows(options)?;
    if aliases(b, n, stride_dxb, stride_dxn) {
        let kernel = kernel.name;
        return Err(Error::AliasingStrides { kernel, b, n, stride_b: stride_dxb, stride_n: stride_dxn });
    }
    plan.reads("dy", dy, flat)?;
    plan.writes("dx", dx, strided, options)?;
    let (sides, accumulate) = ([dx as u64, dy as u64], options.accumulate);
    let matrix = Matrix { b, n, stride_b: stride_dxb, stride_n: stride_dxn, sides, accumulate };
    matrix.hide(plan, kernel.block_b, kernel.block_n, options);
    let pieces = plan.pieces_per_row(dx, [i64::from(b), i64::from(n)], i64::from(stride_dxb), options);
    plan.hidden(&Divisor64(pieces));
    plan.hidden_accumulate(options);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::aliases;

    #[test]
    fn aliases_equals_a_search() {
        for b in 0..5 {
            for n in 0..5 {
                for stride_b in 0..9 {
                    for stride_n in 0..9 {
                        let mut seen = std::collections::HashSet::new();
                        let pairs = (0..b).flat_map(|i| (0..n).map(move |j| i * stride_b + j * stride_n));
                        let found = pairs.into_iter().any(|offset| !seen.insert(offset));
                        let said = aliases(b, n, stride_b, stride_n);
                        assert_eq!(said, found, "{b} × {n}, strides {stride_b} and {stride_n}");
                    }
                }
            }
        }
    }
}
