//! Tensors: memory with a shape, on a device.
//!
//! [`Tensor`] owns its memory. [`TensorRef`] and [`TensorMut`] borrow a tensor, or memory of somebody else, and are
//! what operations take: the borrow checker keeps an operation's output apart from its inputs. Views (narrow,
//! permute, reshape) copy nothing.
//!
//! All work on a tensor is given to a [`Stream`], and streams are ordered by what they touch: a stream that reads a
//! tensor waits, on the device, for the stream that wrote it. Nobody has to synchronise by hand.

mod dlpack;
mod layout;
#[cfg(feature = "ndarray")]
mod ndarray;
mod storage;
mod view;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub use dlpack::{DLDataType, DLDevice, DLManagedTensor, DLTensor};
pub(crate) use layout::Layout;
pub use layout::MAX_RANK;
pub use storage::Storage;
pub(crate) use storage::{Entered, Foreign};
pub use view::{TensorMut, TensorRef};
pub(crate) use view::{Use, not_contiguous};

use crate::device::{Device, Stream};
use crate::element::Element;
use crate::error::{Error, Result};

/// A tensor that owns its memory. Any thread may use or drop it.
pub struct Tensor<D> {
    storage: Arc<Storage>,
    /// Elements from the memory's start to the first element.
    offset: usize,
    layout: Layout,
    element: PhantomData<D>,
}

impl<D: Element> Tensor<D> {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`Error::View`] for a shape that memory cannot hold, and out of memory.
    pub fn zeros(stream: &Stream, shape: &[usize]) -> Result<Self> {
        let tensor = Self::uninitialised(stream, shape)?;
        tensor.storage.zero(stream)?;
        Ok(tensor)
    }

    /// A tensor that an operation is about to write all of.
    pub(crate) fn uninitialised(stream: &Stream, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(shape)?;
        let storage = Storage::alloc(stream, layout.len() * size_of::<D>())?;
        Ok(Self { storage, offset: 0, layout, element: PhantomData })
    }

    /// A tensor with a copy of these elements, in row-major order.
    ///
    /// # Errors
    /// [`Error::Length`] for another number of elements; as [`zeros`](Tensor::zeros).
    pub fn from_slice(stream: &Stream, elements: &[D], shape: &[usize]) -> Result<Self> {
        // Before memory is taken for a shape that is a mistake.
        let need = Layout::contiguous(shape)?.len();
        if elements.len() != need {
            return Err(Error::Length { have: elements.len(), need });
        }
        let mut tensor = Self::uninitialised(stream, shape)?;
        tensor.view_mut().copy_from_slice(stream, elements)?;
        Ok(tensor)
    }

    pub(crate) fn from_storage(storage: Arc<Storage>, offset: usize, layout: Layout) -> Self {
        Self { storage, offset, layout, element: PhantomData }
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The address of the first element.
    pub(crate) fn address(&self) -> u64 {
        self.storage.address() + (self.offset * size_of::<D>()) as u64
    }

    /// The device that it lies on.
    pub fn device(&self) -> &Device {
        self.storage.device()
    }

    /// The extents.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Elements between neighbours in each dimension.
    pub fn strides(&self) -> &[usize] {
        self.layout.strides()
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it, to read.
    pub fn view(&self) -> TensorRef<'_, D> {
        TensorRef::of(self)
    }

    /// All of it, to write.
    pub fn view_mut(&mut self) -> TensorMut<'_, D> {
        TensorMut::of(self)
    }

    /// Part of a dimension, to read: `len` from `start`.
    ///
    /// # Errors
    /// [`Error::View`] for a part that is not there.
    pub fn narrow(&self, dim: usize, start: usize, len: usize) -> Result<TensorRef<'_, D>> {
        self.view().narrow(dim, start, len)
    }

    /// Part of a dimension, to write.
    ///
    /// # Errors
    /// [`Error::View`] for a part that is not there.
    pub fn narrow_mut(&mut self, dim: usize, start: usize, len: usize) -> Result<TensorMut<'_, D>> {
        self.view_mut().narrow(dim, start, len)
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// [`Error::View`] for another number of elements, or where it would take a copy.
    pub fn reshape(&self, shape: &[usize]) -> Result<TensorRef<'_, D>> {
        self.view().reshape(shape)
    }

    /// The same elements in another shape, to write.
    ///
    /// # Errors
    /// [`Error::View`] for another number of elements, or where it would take a copy.
    pub fn reshape_mut(&mut self, shape: &[usize]) -> Result<TensorMut<'_, D>> {
        self.view_mut().reshape(shape)
    }

    /// The dimensions in another order, to read.
    ///
    /// # Errors
    /// [`Error::View`] for what is no order of the dimensions.
    pub fn permute(&self, order: &[usize]) -> Result<TensorRef<'_, D>> {
        self.view().permute(order)
    }

    /// The tensor in another shape.
    ///
    /// # Errors
    /// [`Error::View`] for another number of elements, or where it would take a copy.
    pub fn into_shape(mut self, shape: &[usize]) -> Result<Self> {
        self.layout = self.layout.reshape(shape)?;
        Ok(self)
    }

    /// Replaces all elements, behind the stream's work, and waits for that.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Capturing`], [`Error::OtherDevice`], and what the driver answers.
    pub fn copy_from_slice(&mut self, stream: &Stream, elements: &[D]) -> Result<()> {
        self.view_mut().copy_from_slice(stream, elements)
    }

    /// A copy of the elements in row-major order, behind the stream's work, which is waited for.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::OtherDevice`], and what the driver answers, that of earlier work included.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<D>> {
        self.view().to_vec(stream)
    }
}

impl<D: Element> fmt::Debug for Tensor<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("dtype", &D::DTYPE)
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("device", self.device())
            .finish()
    }
}

/// The bytes of elements.
pub(crate) fn bytes_of<D: Element>(elements: &[D]) -> &[u8] {
    // SAFETY: any element's bytes are plain initialised bytes.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The bytes of elements, to write.
pub(crate) fn bytes_of_mut<D: Element>(elements: &mut [D]) -> &mut [u8] {
    // SAFETY: every bit pattern is a value of an element type.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

/// Fails for a thing of another device than the stream's.
pub(crate) fn expect_device(what: &'static str, device: &Device, stream: &Stream) -> Result<()> {
    if device == stream.device() {
        return Ok(());
    }
    Err(Error::OtherDevice { what, has: device.to_string(), needs: stream.device().to_string() })
}
