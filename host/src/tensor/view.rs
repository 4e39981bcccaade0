//! Borrowed tensors: what operations take.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Layout, Storage, Tensor, bytes_of, bytes_of_mut, expect_device};
use crate::device::{Device, Stream};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::ops;

/// Whose memory a view looks at.
#[derive(Clone, Copy)]
enum Home<'a> {
    /// A tensor's.
    Owned(&'a Arc<Storage>),
    /// A borrowed host slice's.
    Slice,
    /// Memory that the caller vouches for.
    Raw(&'a Device),
}

impl Home<'_> {
    fn device(&self) -> Device {
        match self {
            Self::Owned(storage) => storage.device().clone(),
            Self::Slice => Device::cpu(),
            Self::Raw(device) => (*device).clone(),
        }
    }
}

/// How an operation uses a view's memory.
pub(crate) struct Use<'a> {
    pub(crate) name: &'static str,
    pub(crate) storage: Option<&'a Arc<Storage>>,
    /// The device of memory that no storage stands for.
    pub(crate) device: Option<&'a Device>,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
}

/// A tensor to read, borrowed.
pub struct TensorRef<'a, D> {
    home: Home<'a>,
    address: u64,
    layout: Layout,
    element: PhantomData<&'a D>,
}

impl<D> Clone for TensorRef<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for TensorRef<'_, D> {}

/// A tensor to write, borrowed.
pub struct TensorMut<'a, D> {
    view: TensorRef<'a, D>,
    unique: PhantomData<&'a mut D>,
}

impl<'a, D: Element> TensorRef<'a, D> {
    pub(super) fn of(tensor: &'a Tensor<D>) -> Self {
        let home = Home::Owned(tensor.storage());
        Self { home, address: tensor.address(), layout: *tensor.layout(), element: PhantomData }
    }

    /// A host slice as a tensor of the CPU, without a copy.
    ///
    /// # Errors
    /// [`Error::Length`] for another number of elements.
    pub fn from_slice(elements: &'a [D], shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(shape)?;
        if layout.len() != elements.len() {
            return Err(Error::Length { have: elements.len(), need: layout.len() });
        }
        let address = elements.as_ptr().expose_provenance() as u64;
        Ok(Self { home: Home::Slice, address, layout, element: PhantomData })
    }

    /// Memory that somebody else owns, for as long as the device is borrowed. Strides count elements.
    ///
    /// # Errors
    /// [`Error::View`] for a layout that memory cannot hold; [`Error::Misaligned`].
    ///
    /// # Safety
    /// The elements that the layout reaches from `pointer` are readable on the device for `'a` and until the work of
    /// the streams that use the view is done; nothing writes to them meanwhile, and what wrote to them before is done
    /// or ordered before those streams.
    pub unsafe fn from_raw(
        device: &'a Device,
        pointer: *const D,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Self> {
        let layout = Layout::new(shape, strides)?;
        let address = pointer.expose_provenance() as u64;
        if !address.is_multiple_of(size_of::<D>() as u64) {
            return Err(Error::Misaligned {
                kernel: "from_raw",
                name: "pointer",
                address,
                size: size_of::<D>(),
            });
        }
        Ok(Self { home: Home::Raw(device), address, layout, element: PhantomData })
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

    /// Whether the elements are row-major without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// The device that it lies on.
    pub fn device(&self) -> Device {
        self.home.device()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn pointer(&self) -> *mut D {
        self.address as *mut D
    }

    /// Part of a dimension: `len` from `start`.
    ///
    /// # Errors
    /// [`Error::View`] for a part that is not there.
    pub fn narrow(mut self, dim: usize, start: usize, len: usize) -> Result<Self> {
        let (layout, offset) = self.layout.narrow(dim, start, len)?;
        self.address += (offset * size_of::<D>()) as u64;
        Ok(Self { layout, ..self })
    }

    /// The dimensions in another order.
    ///
    /// # Errors
    /// [`Error::View`] for what is no order of the dimensions.
    pub fn permute(self, order: &[usize]) -> Result<Self> {
        Ok(Self { layout: self.layout.permute(order)?, ..self })
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// [`Error::View`] for another number of elements, or where it would take a copy.
    pub fn reshape(self, shape: &[usize]) -> Result<Self> {
        Ok(Self { layout: self.layout.reshape(shape)?, ..self })
    }

    /// All dimensions but the first as one.
    ///
    /// # Errors
    /// [`Error::View`] where it would take a copy; `ops::flatten` makes one.
    pub fn flatten(self) -> Result<Self> {
        Ok(Self { layout: self.layout.flatten()?, ..self })
    }

    /// A copy of the elements in row-major order, behind the stream's work, which is waited for.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::OtherDevice`], and what the driver answers, that of earlier work included.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<D>> {
        stream.expect_run("to_vec")?;
        expect_device("the tensor", &self.device(), stream)?;
        let span = self.layout.span();
        let mut memory = vec![D::default(); span];
        match self.home {
            _ if span == 0 => return Ok(memory),
            Home::Owned(storage) if storage.is_ours() => {
                storage.read(
                    (self.address - storage.address()) as usize,
                    bytes_of_mut(&mut memory),
                    stream,
                )?;
            }
            Home::Owned(_) | Home::Raw(_) if self.device().is_gpu() => {
                // The driver's copies know our own memory alone, so a kernel brings it there.
                return ops::contiguous(stream, *self)?.to_vec(stream);
            }
            _ => {
                let from = self.address as *const D;
                // SAFETY: the layout lies inside the borrowed memory, which is the host's and nobody writes to.
                unsafe { std::ptr::copy_nonoverlapping(from, memory.as_mut_ptr(), span) };
            }
        }
        if self.layout.is_contiguous() {
            return Ok(memory);
        }
        Ok((0..self.len()).map(|index| memory[self.layout.offset(index)]).collect())
    }

    /// What an operation may touch through this view.
    pub(crate) fn reads(&self, name: &'static str) -> Use<'a> {
        let (storage, device) = match self.home {
            Home::Owned(storage) => (Some(storage), None),
            Home::Slice => (None, None),
            Home::Raw(device) => (None, Some(device)),
        };
        let bytes = (self.layout.span() * size_of::<D>()) as u64;
        Use { name, storage, device, start: self.address, bytes, writes: false }
    }
}

impl<'a, D: Element> TensorMut<'a, D> {
    pub(super) fn of(tensor: &'a mut Tensor<D>) -> Self {
        Self { view: TensorRef::of(tensor), unique: PhantomData }
    }

    /// A host slice as a tensor of the CPU, without a copy.
    ///
    /// # Errors
    /// [`Error::Length`] for another number of elements.
    pub fn from_slice(elements: &'a mut [D], shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(shape)?;
        if layout.len() != elements.len() {
            return Err(Error::Length { have: elements.len(), need: layout.len() });
        }
        let address = elements.as_mut_ptr().expose_provenance() as u64;
        let view = TensorRef { home: Home::Slice, address, layout, element: PhantomData };
        Ok(Self { view, unique: PhantomData })
    }

    /// Memory that somebody else owns, for as long as the device is borrowed. Strides count elements.
    ///
    /// # Errors
    /// As [`TensorRef::from_raw`]; [`Error::View`] for strides that send two indices to one element.
    ///
    /// # Safety
    /// As [`TensorRef::from_raw`], with nothing else reading the elements either.
    pub unsafe fn from_raw(
        device: &'a Device,
        pointer: *mut D,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Self> {
        // SAFETY: by this function's contract.
        let view = unsafe { TensorRef::from_raw(device, pointer, shape, strides)? };
        if !view.layout.is_injective() {
            let problem = "two indices lead to one element, so it cannot be written".to_owned();
            return Err(Error::View {
                op: "from_raw",
                shape: shape.to_vec(),
                strides: strides.to_vec(),
                problem,
            });
        }
        Ok(Self { view, unique: PhantomData })
    }

    /// The same view, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> TensorMut<'_, D> {
        TensorMut { view: self.view, unique: PhantomData }
    }

    /// The same view, to read.
    pub fn as_ref(&self) -> TensorRef<'_, D> {
        self.view
    }

    /// The extents.
    pub fn shape(&self) -> &[usize] {
        self.view.shape()
    }

    /// Elements between neighbours in each dimension.
    pub fn strides(&self) -> &[usize] {
        self.view.strides()
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// The device that it lies on.
    pub fn device(&self) -> Device {
        self.view.device()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.view.layout
    }

    pub(crate) fn pointer(&self) -> *mut D {
        self.view.pointer()
    }

    /// Part of a dimension: `len` from `start`.
    ///
    /// # Errors
    /// [`Error::View`] for a part that is not there.
    pub fn narrow(self, dim: usize, start: usize, len: usize) -> Result<Self> {
        Ok(Self { view: self.view.narrow(dim, start, len)?, unique: PhantomData })
    }

    /// The dimensions in another order.
    ///
    /// # Errors
    /// [`Error::View`] for what is no order of the dimensions.
    pub fn permute(self, order: &[usize]) -> Result<Self> {
        Ok(Self { view: self.view.permute(order)?, unique: PhantomData })
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// [`Error::View`] for another number of elements, or where it would take a copy.
    pub fn reshape(self, shape: &[usize]) -> Result<Self> {
        Ok(Self { view: self.view.reshape(shape)?, unique: PhantomData })
    }

    /// Replaces all elements, behind the stream's work, and waits for that.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Capturing`], [`Error::OtherDevice`], and what the driver answers;
    /// [`Error::NotContiguous`] for a view with gaps.
    pub fn copy_from_slice(&mut self, stream: &Stream, elements: &[D]) -> Result<()> {
        stream.expect_run("copy_from_slice")?;
        expect_device("the tensor", &self.device(), stream)?;
        if elements.len() != self.len() {
            return Err(Error::Length { have: elements.len(), need: self.len() });
        }
        if !self.view.is_contiguous() {
            return Err(not_contiguous("copy_from_slice", "the tensor", &self.view.layout));
        }
        match self.view.home {
            _ if elements.is_empty() => Ok(()),
            Home::Owned(storage) if storage.is_ours() => {
                storage.write((self.view.address - storage.address()) as usize, bytes_of(elements), stream)
            }
            Home::Owned(_) | Home::Raw(_) if self.device().is_gpu() => {
                let own = Tensor::from_slice(stream, elements, self.shape())?;
                ops::contiguous_into(stream, &own, self.reborrow())
            }
            _ => {
                let to = self.view.pointer();
                // SAFETY: the layout lies inside the borrowed memory, which is the host's and ours alone.
                unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), to, elements.len()) };
                Ok(())
            }
        }
    }

    /// What an operation may touch through this view.
    pub(crate) fn writes(&self, name: &'static str) -> Use<'a> {
        Use { writes: true, ..self.view.reads(name) }
    }
}

pub(crate) fn not_contiguous(op: &'static str, name: &'static str, layout: &Layout) -> Error {
    Error::NotContiguous { op, name, shape: layout.shape().to_vec(), strides: layout.strides().to_vec() }
}

impl<'a, D: Element> From<&'a Tensor<D>> for TensorRef<'a, D> {
    fn from(tensor: &'a Tensor<D>) -> Self {
        tensor.view()
    }
}

impl<'a, D: Element> From<&'a mut Tensor<D>> for TensorMut<'a, D> {
    fn from(tensor: &'a mut Tensor<D>) -> Self {
        tensor.view_mut()
    }
}

impl<D: Element> fmt::Debug for TensorRef<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorRef")
            .field("dtype", &D::DTYPE)
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("device", &self.device())
            .finish()
    }
}

impl<D: Element> fmt::Debug for TensorMut<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.view, f)
    }
}
