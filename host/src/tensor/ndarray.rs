//! Arrays of the crate `ndarray`.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use super::{Tensor, TensorRef};
use crate::device::Stream;
use crate::element::Element;
use crate::error::Result;

impl<D: Element> Tensor<D> {
    /// A tensor with a copy of an array's elements.
    ///
    /// # Errors
    /// As [`Tensor::from_slice`].
    pub fn from_array<S: Data<Elem = D>, N: Dimension>(
        stream: &Stream,
        array: &ArrayBase<S, N>,
    ) -> Result<Self> {
        if let Some(elements) = array.as_slice() {
            return Self::from_slice(stream, elements, array.shape());
        }
        let elements: Vec<D> = array.iter().copied().collect();
        Self::from_slice(stream, &elements, array.shape())
    }

    /// An array with a copy of the elements, behind the stream's work, which is waited for.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    pub fn to_array(&self, stream: &Stream) -> Result<ArrayD<D>> {
        self.view().to_array(stream)
    }
}

impl<'a, D: Element> TensorRef<'a, D> {
    /// An array in standard layout as a tensor of the CPU, without a copy; none for another layout.
    ///
    /// # Errors
    /// As [`TensorRef::from_slice`].
    pub fn from_array<S: Data<Elem = D>, N: Dimension>(array: &'a ArrayBase<S, N>) -> Result<Option<Self>> {
        array.as_slice().map(|elements| Self::from_slice(elements, array.shape())).transpose()
    }

    /// An array with a copy of the elements, behind the stream's work, which is waited for.
    ///
    /// # Errors
    /// As [`TensorRef::to_vec`].
    pub fn to_array(&self, stream: &Stream) -> Result<ArrayD<D>> {
        let elements = self.to_vec(stream)?;
        let array = ArrayD::from_shape_vec(IxDyn(self.shape()), elements);
        Ok(array.expect("a tensor has as many elements as its shape says"))
    }
}
