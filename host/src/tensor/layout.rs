//! Shapes and strides, and what can be viewed without a copy.

use crate::error::{Error, Result};

/// The most dimensions that a tensor has.
pub const MAX_RANK: usize = 8;

/// An extent and its stride.
type Dim = (usize, usize);

/// A shape with its strides, in elements. Strides are never negative.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
}

impl Layout {
    /// Row-major elements without gaps.
    pub(crate) fn contiguous(shape: &[usize]) -> Result<Self> {
        let mut strides = [0; MAX_RANK];
        if shape.len() > MAX_RANK {
            return Err(problem("shape", shape, &[], format!("{MAX_RANK} dimensions are the limit")));
        }
        let mut step = 1_usize;
        for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
            *stride = step;
            // What an extent of zero leaves of the others is bounded too, so that no product overflows.
            step = step.saturating_mul(extent.max(1));
        }
        Self::new(shape, &strides[..shape.len()])
    }

    /// A shape with strides.
    pub(crate) fn new(shape: &[usize], strides: &[usize]) -> Result<Self> {
        let failed = |what: String| problem("shape", shape, strides, what);
        if shape.len() > MAX_RANK || strides.len() != shape.len() {
            return Err(failed(format!("it takes one stride a dimension, of {MAX_RANK} at most")));
        }
        let mut layout = Self { rank: shape.len(), shape: [1; MAX_RANK], strides: [0; MAX_RANK] };
        layout.shape[..shape.len()].copy_from_slice(shape);
        layout.strides[..shape.len()].copy_from_slice(strides);
        let last = shape.iter().zip(strides).try_fold(0_usize, |last, (&extent, &stride)| {
            last.checked_add(extent.saturating_sub(1).checked_mul(stride)?)
        });
        let elements = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent.max(1)));
        // Addresses and byte counts stay below 2⁶³ for elements of up to 8 bytes.
        let fits = |elements: Option<usize>| elements.is_some_and(|elements| elements < 1 << 59);
        if fits(last) && fits(elements) {
            Ok(layout)
        } else {
            Err(failed("it has more elements than memory".to_owned()))
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[usize] {
        &self.strides[..self.rank]
    }

    /// How many elements.
    pub(crate) fn len(&self) -> usize {
        if self.shape().contains(&0) { 0 } else { self.shape().iter().product() }
    }

    /// Elements of memory from the first to behind the last.
    pub(crate) fn span(&self) -> usize {
        if self.len() == 0 {
            return 0;
        }
        self.dims().map(|(extent, stride)| (extent - 1) * stride).sum::<usize>() + 1
    }

    fn dims(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.shape().iter().copied().zip(self.strides().iter().copied())
    }

    /// Whether the elements are row-major without gaps.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.len() == 0
            || self.dims().rev().all(|(extent, stride)| {
                let fits = extent == 1 || stride == step;
                step *= extent;
                fits
            })
    }

    /// Whether no two indices can be told to lead to one element: each stride steps over all that the smaller ones
    /// reach. Some layouts that do not overlap fail this too.
    pub(crate) fn is_injective(&self) -> bool {
        let mut dims: Vec<_> = self.dims().filter(|&(extent, _)| extent > 1).collect();
        dims.sort_unstable_by_key(|&(_, stride)| stride);
        let mut reach = 0;
        self.len() == 0
            || dims.into_iter().all(|(extent, stride)| {
                let fits = stride > reach;
                reach += (extent - 1) * stride;
                fits
            })
    }

    /// The offset of the element at this place in row-major order.
    pub(crate) fn offset(&self, mut index: usize) -> usize {
        self.dims().rev().fold(0, |offset, (extent, stride)| {
            let at = index % extent;
            index /= extent;
            offset + at * stride
        })
    }

    fn problem(&self, op: &'static str, what: String) -> Error {
        problem(op, self.shape(), self.strides(), what)
    }

    /// The part of a dimension from `start`, and the offset of its first element.
    pub(crate) fn narrow(&self, dim: usize, start: usize, len: usize) -> Result<(Self, usize)> {
        let extent = *self
            .shape()
            .get(dim)
            .ok_or_else(|| self.problem("narrow", format!("there is no dimension {dim}")))?;
        if start.checked_add(len).is_none_or(|end| end > extent) {
            let what =
                format!("{start} to {start} + {len} is not inside the extent {extent} of dimension {dim}");
            return Err(self.problem("narrow", what));
        }
        let mut part = *self;
        part.shape[dim] = len;
        let offset = if part.len() == 0 { 0 } else { start * self.strides[dim] };
        Ok((part, offset))
    }

    /// The dimensions in another order.
    pub(crate) fn permute(&self, order: &[usize]) -> Result<Self> {
        let mut seen = [false; MAX_RANK];
        let once = order.iter().all(|&dim| dim < self.rank && !std::mem::replace(&mut seen[dim], true));
        if order.len() != self.rank || !once {
            let what = format!("{order:?} does not name each of the {} dimensions once", self.rank);
            return Err(self.problem("permute", what));
        }
        let mut permuted = *self;
        for (to, &from) in order.iter().enumerate() {
            (permuted.shape[to], permuted.strides[to]) = (self.shape[from], self.strides[from]);
        }
        Ok(permuted)
    }

    /// The dimensions that matter: those of one element left out, neighbours that step alike joined.
    fn merged(&self) -> Vec<(usize, usize)> {
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(self.rank);
        for (extent, stride) in self.dims().filter(|&(extent, _)| extent != 1) {
            match merged.last_mut() {
                Some((outer, step)) if *step == extent * stride => {
                    *outer *= extent;
                    *step = stride;
                }
                _ => merged.push((extent, stride)),
            }
        }
        merged
    }

    /// The same elements in another shape, if strides can say so.
    pub(crate) fn reshape(&self, shape: &[usize]) -> Result<Self> {
        let target = Self::contiguous(shape)?;
        if target.len() != self.len() {
            let what = format!("{shape:?} has {} elements instead of {}", target.len(), self.len());
            return Err(self.problem("reshape", what));
        }
        if self.is_contiguous() {
            return Ok(target);
        }
        let mut strides = target.strides;
        let mut parts = self.merged().into_iter().rev();
        // What is left of the current dimension of the source, from the right, and its step.
        let (mut left, mut step) = (1, 1);
        for (dim, &extent) in shape.iter().enumerate().rev() {
            if extent == 1 {
                continue;
            }
            if left == 1 {
                (left, step) = parts.next().unwrap_or((1, 1));
            }
            if left % extent != 0 {
                let what = format!("{shape:?} would take a copy (ops::contiguous makes one)");
                return Err(self.problem("reshape", what));
            }
            strides[dim] = step;
            (left, step) = (left / extent, step * extent);
        }
        Self::new(shape, &strides[..shape.len()])
    }

    /// All dimensions but the first as one.
    pub(crate) fn flatten(&self) -> Result<Self> {
        let rows = self.shape().first().copied().unwrap_or(1);
        let columns = self.shape().iter().skip(1).product();
        self.reshape(&[rows, columns])
    }

    /// The elements as a stack of matrices: `[outer dimensions]`, rows and columns with their strides.
    pub(crate) fn matrices(&self) -> (Vec<Dim>, [Dim; 2]) {
        let mut dims = self.merged();
        let columns = dims.pop().unwrap_or((1, 1));
        let rows = dims.pop().unwrap_or((1, columns.0 * columns.1));
        (dims, [rows, columns])
    }
}

fn problem(op: &'static str, shape: &[usize], strides: &[usize], problem: String) -> Error {
    Error::View { op, shape: shape.to_vec(), strides: strides.to_vec(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(layout: &Layout) -> Vec<usize> {
        (0..layout.len()).map(|index| layout.offset(index)).collect()
    }

    #[test]
    fn reshape_keeps_the_order_of_the_elements() {
        let base = Layout::contiguous(&[4, 6, 5]).expect("a shape");
        let narrowed = base.narrow(1, 2, 3).expect("inside").0;
        let permuted = base.permute(&[2, 0, 1]).expect("an order");
        let mut seen = [0, 0];
        for layout in [base, narrowed, permuted] {
            for shape in [
                &[120][..],
                &[4, 30],
                &[60],
                &[4, 15],
                &[2, 2, 3, 5],
                &[4, 3, 5, 1],
                &[5, 24],
                &[5, 2, 12],
                &[10, 12],
            ] {
                match layout.reshape(shape) {
                    Ok(view) => {
                        assert_eq!(places(&view), places(&layout), "{shape:?} of {:?}", layout.shape());
                        seen[0] += 1;
                    }
                    Err(_) => seen[1] += 1,
                }
            }
        }
        assert!(seen[0] >= 10 && seen[1] >= 5, "{seen:?}");
    }

    #[test]
    fn reshape_that_takes_a_copy_is_refused() {
        let columns = Layout::contiguous(&[4, 6]).expect("a shape").permute(&[1, 0]).expect("an order");
        assert!(columns.reshape(&[24]).is_err());
        assert!(columns.reshape(&[6, 2, 2]).is_ok());
    }

    #[test]
    fn layouts_that_overlap_are_found() {
        let layout = |shape: &[usize], strides: &[usize]| Layout::new(shape, strides).expect("a layout");
        assert!(layout(&[3, 4], &[4, 1]).is_injective());
        assert!(layout(&[4, 3], &[1, 4]).is_injective());
        assert!(!layout(&[3, 4], &[3, 1]).is_injective());
        assert!(!layout(&[3, 4], &[0, 1]).is_injective());
        assert!(layout(&[1, 4], &[0, 1]).is_injective());
        assert!(layout(&[0, 4], &[0, 0]).is_injective());
    }
}
