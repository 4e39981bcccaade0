//! Tensors of other libraries without a copy, through DLPack's C structure.
//!
//! The structure carries no stream, so both ways take one: import the producer's, whose work wrote the tensor, and
//! export the consumer's, whose work will use it. Source: the DLPack specification, `dlpack.h`, the unversioned
//! `DLManagedTensor`.
#![cfg_attr(
    not(feature = "cuda"),
    allow(
        unused,
        clippy::unnecessary_wraps,
        reason = "streams and foreign memory are of use with GPUs alone"
    )
)]

use std::ffi::c_void;
use std::sync::Arc;

use super::{Entered, Foreign, Layout, MAX_RANK, Storage, Tensor, expect_device};
use crate::device::{Place, Stream};
use crate::element::{DType, Element};
use crate::error::{Error, Result};

/// Where a tensor lies: `device_type` is 1 for the CPU and 2 for CUDA.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// The kind of device.
    pub device_type: i32,
    /// Its number.
    pub device_id: i32,
}

/// An element type: `code` is 0 for signed and 1 for unsigned integers, 2 for floats and 4 for bfloat16.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// The kind of number.
    pub code: u8,
    /// Its bits.
    pub bits: u8,
    /// Elements of a vector; 1 here.
    pub lanes: u16,
}

/// A tensor without an owner.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The memory.
    pub data: *mut c_void,
    /// Where it lies.
    pub device: DLDevice,
    /// Dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DLDataType,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// `ndim` strides in elements; null for row-major elements without gaps.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor with the function that gives it back.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The owner's own.
    pub manager_ctx: *mut c_void,
    /// Gives the tensor back; may be null.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

const CPU: i32 = 1;
const CUDA: i32 = 2;

fn data_type(dtype: DType) -> DLDataType {
    let code = match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::Bf16 => 4,
    };
    DLDataType { code, bits: 8 * dtype.size() as u8, lanes: 1 }
}

/// The device of a stream, as DLPack names it.
fn device_of(stream: &Stream) -> DLDevice {
    match &stream.device().place {
        Place::Cpu => DLDevice { device_type: CPU, device_id: 0 },
        #[cfg(feature = "cuda")]
        Place::Cuda(gpu) => DLDevice { device_type: CUDA, device_id: gpu.ordinal() as i32 },
    }
}

/// A foreign tensor on its way to its deleter.
struct Managed(*mut DLManagedTensor);

// SAFETY: DLPack's deleter may be called from any thread, and the structure belongs to whoever holds it.
unsafe impl Send for Managed {}
// SAFETY: it is only moved.
unsafe impl Sync for Managed {}

impl Managed {
    fn release(self) {
        // SAFETY: the structure is live until its deleter runs, which is once, here.
        unsafe {
            if let Some(deleter) = (*self.0).deleter {
                deleter(self.0);
            }
        }
    }
}

impl<D: Element> Tensor<D> {
    /// Takes over a tensor of another library, without a copy. Its deleter runs when the memory is no longer used;
    /// before, the producer's stream is made to wait for ours. After an error the tensor is still the caller's.
    ///
    /// # Errors
    /// [`Error::DlPack`] for another element type or device than asked for, negative strides, or vectors;
    /// [`Error::Misaligned`]; [`Error::View`] for a shape that memory cannot hold.
    ///
    /// # Safety
    /// `managed` is a live tensor as DLPack describes it, whose memory nobody else writes to while it is used here;
    /// `producer` is the stream whose work wrote it.
    pub unsafe fn from_dlpack(managed: *mut DLManagedTensor, producer: &Stream) -> Result<Self> {
        let failed = |problem: String| Err(Error::DlPack(problem));
        if managed.is_null() {
            return failed("is null".to_owned());
        }
        // SAFETY: the caller gave a live structure.
        let tensor = unsafe { &(*managed).dl_tensor };
        let (have, want) = (tensor.dtype, data_type(D::DTYPE));
        if have != want {
            return failed(format!("has elements of {have:?}, not {want:?} ({})", D::DTYPE));
        }
        let (have, want) = (tensor.device, device_of(producer));
        if have != want {
            return failed(format!("is on {have:?}, but the producer's stream on {want:?}"));
        }
        let rank = usize::try_from(tensor.ndim).unwrap_or(usize::MAX);
        if rank > MAX_RANK {
            return failed(format!("has {} dimensions, not 0 to {MAX_RANK}", tensor.ndim));
        }
        if tensor.shape.is_null() && rank > 0 {
            return failed(format!("has {rank} dimensions, but no shape"));
        }
        let numbers = |from: *const i64| {
            (0..rank)
                // SAFETY: the structure has `ndim` numbers there.
                .map(|dim| unsafe { *from.add(dim) })
                .map(|number| usize::try_from(number).map_err(|_| number))
                .collect::<std::result::Result<Vec<_>, _>>()
        };
        let negative = |number: i64| Error::DlPack(format!("has {number} among its extents and strides"));
        let shape = numbers(tensor.shape).map_err(negative)?;
        let layout = if tensor.strides.is_null() {
            Layout::contiguous(&shape)?
        } else {
            Layout::new(&shape, &numbers(tensor.strides).map_err(negative)?)?
        };
        let (data, offset) = (tensor.data.expose_provenance() as u64, tensor.byte_offset);
        let size = size_of::<D>();
        let bytes = (layout.span() * size) as u64;
        let Some(address) = data.checked_add(offset).filter(|address| address.checked_add(bytes).is_some())
        else {
            return failed(format!("has {bytes} bytes from {data:#x} + {offset}, beyond the last address"));
        };
        if bytes > 0 && address == 0 {
            return failed(format!("has {bytes} bytes, but its data is null"));
        }
        if !address.is_multiple_of(size as u64) {
            return Err(Error::Misaligned { kernel: "from_dlpack", name: "data", address, size });
        }
        let managed = Managed(managed);
        let release: Box<dyn FnOnce() + Send + Sync> = Box::new(move || managed.release());
        let foreign = Foreign { release: Some(release), stream: producer.clone() };
        let storage = Storage::foreign(producer.device(), address, bytes, foreign);
        Ok(Self::from_storage(storage, 0, layout))
    }

    /// Gives the tensor to another library, without a copy. The consumer's stream is made to wait for what was given
    /// to ours; when its deleter runs, the memory is given back behind the work that the consumer's stream has then.
    ///
    /// The consumer must call the deleter, or the memory is never freed.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] for a stream of another device; [`Error::InUse`], [`Error::Capturing`], and what the
    /// driver answers.
    pub fn into_dlpack(self, consumer: &Stream) -> Result<*mut DLManagedTensor> {
        consumer.expect_run("into_dlpack")?;
        expect_device("the tensor", self.device(), consumer)?;
        let numbers = |from: &[usize]| from.iter().map(|&number| number as i64).collect::<Vec<_>>();
        let (shape, strides) = (numbers(self.shape()), numbers(self.strides()));
        let (data, storage) = (self.address(), Arc::clone(self.storage()));
        storage.lend(consumer)?;
        let mut exported = Box::new(Exported { shape, strides, storage });
        let dl_tensor = DLTensor {
            data: data as *mut c_void,
            device: device_of(consumer),
            ndim: exported.shape.len() as i32,
            dtype: data_type(D::DTYPE),
            shape: exported.shape.as_mut_ptr(),
            strides: exported.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let manager_ctx = Box::into_raw(exported).cast();
        Ok(Box::into_raw(Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(give_back) })))
    }
}

/// What an exported tensor points to.
struct Exported {
    shape: Vec<i64>,
    strides: Vec<i64>,
    storage: Arc<Storage>,
}

/// The deleter of exported tensors.
unsafe extern "C" fn give_back(managed: *mut DLManagedTensor) {
    if managed.is_null() {
        return;
    }
    // SAFETY: `into_dlpack` made both boxes, and a deleter runs once.
    let exported = unsafe {
        let managed = Box::from_raw(managed);
        Box::from_raw(managed.manager_ctx.cast::<Exported>())
    };
    exported.storage.take_back();
    drop(exported);
}

impl Storage {
    /// Orders a consumer's stream behind all of ours; host memory is in use from now on.
    fn lend(&self, consumer: &Stream) -> Result<()> {
        match &self.device().place {
            Place::Cpu => {
                let entered: Entered<'_> = self.enter(true, "the tensor")?;
                std::mem::forget(entered);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => {
                let Some(stream) = consumer.cuda() else { return Ok(()) };
                let _order = gpu.order();
                self.order(stream, true)?;
                self.use_on(stream)
            }
        }
    }

    /// Ends what `lend` began.
    fn take_back(&self) {
        if !self.device().is_gpu() {
            self.leave_writer();
        }
    }
}
