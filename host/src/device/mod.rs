//! Where kernels run: a GPU, or the CPU through the references.
#![allow(
    clippy::needless_pass_by_value,
    reason = "a launch takes its arguments as one tuple, as a call is written"
)]

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod stream;
mod tune;

use std::fmt;
use std::marker::PhantomData;
#[cfg(feature = "cuda")]
use std::sync::Arc;

#[cfg(feature = "cuda")]
use crate::autotune::Tuned;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::{Kernel, LaunchOptions};
use crate::launch::{Launch, MAX_BUFFERS, Touched};

pub use stream::{Mark, Stream};
pub(crate) use stream::{Phase, Queue, Step};

/// A place that kernels run in. Handles are cheap to clone, and any thread may use or drop one.
#[derive(Clone)]
pub struct Device {
    pub(crate) place: Place,
    /// What launches through this handle look up.
    #[cfg(feature = "cuda")]
    tuned: Option<Arc<Tuned>>,
}

#[derive(Clone)]
pub(crate) enum Place {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(cuda::Gpu),
}

impl Device {
    fn at(place: Place) -> Self {
        Self {
            place,
            #[cfg(feature = "cuda")]
            tuned: None,
        }
    }

    /// The CPU: kernels run as their references, over rayon's threads.
    pub fn cpu() -> Self {
        Self::at(Place::Cpu)
    }

    /// The GPU of this number, from zero, as the driver counts them.
    ///
    /// # Errors
    /// No driver, no such GPU, or one below the lowest architecture served (`sm_70`); without the feature
    /// `cuda`, always.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        #[cfg(feature = "cuda")]
        return Ok(Self::at(Place::Cuda(cuda::Gpu::open(ordinal)?)));
        #[cfg(not(feature = "cuda"))]
        Err(Error::Device(format!("GPU {ordinal} was asked for, but this build is without the feature cuda")))
    }

    /// The first GPU if there is one that can be used, else the CPU; the log says why.
    pub fn auto() -> Self {
        Self::cuda(0).unwrap_or_else(|error| {
            log::info!("running on the CPU: {error}");
            Self::cpu()
        })
    }

    /// What `auto`, `cpu`, `cuda` or `cuda:N` names.
    ///
    /// # Errors
    /// Another name, or a GPU that cannot be used.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::auto()),
            "cpu" => Ok(Self::cpu()),
            "cuda" => Self::cuda(0),
            _ => match name.strip_prefix("cuda:").map(str::parse) {
                Some(Ok(ordinal)) => Self::cuda(ordinal),
                _ => Err(Error::Device(format!(
                    "no device is called {name:?}; the names are auto, cpu, cuda and cuda:N"
                ))),
            },
        }
    }

    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        !matches!(self.place, Place::Cpu)
    }

    /// A buffer of zeros.
    ///
    /// # Errors
    /// Out of memory.
    pub fn zeros<D: Element>(&self, len: usize) -> Result<Buffer<D>> {
        let memory = match &self.place {
            Place::Cpu => Memory::Cpu(cpu::Memory::zeros(len.saturating_mul(size_of::<D>()))?),
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => Memory::Cuda(gpu.zeros(len.saturating_mul(size_of::<D>()))?),
        };
        Ok(Buffer { memory, len, element: PhantomData })
    }

    /// A buffer with a copy of these elements.
    ///
    /// # Errors
    /// Out of memory.
    pub fn upload<D: Element>(&self, elements: &[D]) -> Result<Buffer<D>> {
        let mut buffer = self.zeros(elements.len())?;
        buffer.write(elements)?;
        Ok(buffer)
    }

    /// A stream: work on one stream runs in order, work on two may overlap. On the CPU, work is done when the call
    /// returns.
    ///
    /// # Errors
    /// Whatever the driver answers.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// Launches a kernel. On a GPU the call returns before the kernel ends; [`Buffer::to_vec`] and
    /// [`synchronize`](Device::synchronize) wait for it.
    ///
    /// # Errors
    /// Whatever [`Kernel::prepare`] finds, a buffer of this library's that is too short, and the driver's
    /// answer. After any of these nothing was launched.
    ///
    /// # Safety
    /// Every pointer is valid on this device for the elements that the kernel's docs name, until the kernel
    /// has ended, and nothing else writes to them meanwhile.
    pub unsafe fn launch<K: Kernel>(
        &self,
        kernel: &K,
        args: K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<()> {
        match &self.place {
            Place::Cpu => {
                let launch = kernel.prepare(&args, options)?;
                let mut known = [None; MAX_BUFFERS];
                for (known, touched) in known.iter_mut().zip(launch.touched()) {
                    *known = cpu::bytes_from(touched.address);
                }
                reject_short(&launch, &known)?;
                if let Some(stream) = options.stream {
                    self.expect(stream)?;
                }
                // SAFETY: by this function's contract.
                unsafe { kernel.run_on_cpu(&args, options) }
            }
            // SAFETY: by this function's contract.
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => unsafe {
                self.queue_of(options)?;
                gpu.launch_kernel(kernel, &args, &self.resolve(kernel, &args, options))
            },
        }
    }

    /// Loads what this launch would run, so that the launch itself finds it ready: on a GPU, the module is
    /// specialised, compiled by the driver and kept. Nothing is launched, and no buffer is touched.
    ///
    /// # Errors
    /// Whatever [`Kernel::prepare`] finds, and the driver's answer.
    pub fn load<K: Kernel>(&self, kernel: &K, args: K::Args<'_>, options: &LaunchOptions<'_>) -> Result<()> {
        match &self.place {
            Place::Cpu => kernel.prepare(&args, options).map(drop),
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => gpu.load(kernel, &args, &self.resolve(kernel, &args, options)),
        }
    }

    /// Launches a kernel from PTX of the caller's own, such as the builder makes from
    /// [`Kernel::source`]. The module must export the kernel's entry point and have no hole left.
    ///
    /// # Errors
    /// As [`launch`](Device::launch), and a module that is malformed or half-specialised; on the CPU, always.
    ///
    /// # Safety
    /// As [`launch`](Device::launch), and the module's entry point keeps the kernel's contract.
    pub unsafe fn launch_ptx<K: Kernel>(
        &self,
        kernel: &K,
        ptx: &str,
        args: K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<()> {
        let launch = kernel.prepare(&args, options)?;
        crate::specialise::check_complete(launch.kernel, ptx)?;
        match &self.place {
            Place::Cpu => Err(Error::Device(format!("{}: the CPU cannot run PTX", kernel.name()))),
            // SAFETY: by this function's contract.
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => unsafe { gpu.launch_ptx(&launch, ptx, self.queue_of(options)?) },
        }
    }

    /// The driver's stream that a launch asks for, if it asks for one.
    #[cfg(feature = "cuda")]
    fn queue_of<'a>(&self, options: &LaunchOptions<'a>) -> Result<Option<&'a crate::driver::Stream>> {
        let Some(stream) = options.stream else { return Ok(None) };
        self.expect(stream)?;
        Ok(stream.cuda())
    }

    /// Fails for a stream of another device.
    fn expect(&self, stream: &Stream) -> Result<()> {
        if stream.device() == self {
            return Ok(());
        }
        let (has, needs) = (stream.device().to_string(), self.to_string());
        Err(Error::OtherDevice { what: "the stream", has, needs })
    }

    /// Waits until everything that was launched here has ended.
    ///
    /// # Errors
    /// What the driver says of the work, such as an illegal address.
    pub fn synchronize(&self) -> Result<()> {
        match &self.place {
            Place::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => gpu.synchronize(),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Cpu => f.write_str("cpu"),
            #[cfg(feature = "cuda")]
            Place::Cuda(gpu) => write!(f, "cuda:{} ({})", gpu.ordinal(), gpu.name()),
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Place::Cpu, Place::Cpu) => true,
            #[cfg(feature = "cuda")]
            (Place::Cuda(one), Place::Cuda(other)) => one.ordinal() == other.ordinal(),
            #[cfg(feature = "cuda")]
            _ => false,
        }
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Elements in a device's memory; freed when dropped, on any thread.
pub struct Buffer<D> {
    memory: Memory,
    len: usize,
    element: PhantomData<D>,
}

enum Memory {
    Cpu(cpu::Memory),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Memory),
}

impl<D: Element> Buffer<D> {
    /// The address of the first element, on the device.
    pub fn as_ptr(&self) -> *mut D {
        match &self.memory {
            Memory::Cpu(memory) => memory.address() as *mut D,
            #[cfg(feature = "cuda")]
            Memory::Cuda(memory) => memory.address() as *mut D,
        }
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Replaces all elements, after what was launched before has ended.
    ///
    /// # Errors
    /// Another number of elements, and whatever the driver answers.
    pub fn write(&mut self, elements: &[D]) -> Result<()> {
        if elements.len() != self.len {
            let (have, want) = (elements.len(), self.len);
            return Err(Error::Device(format!("{have} elements were given for a buffer of {want}")));
        }
        // SAFETY: any element's bytes are plain initialised bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) };
        match &mut self.memory {
            Memory::Cpu(memory) => {
                memory.write(bytes);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Memory::Cuda(memory) => memory.write(bytes),
        }
    }

    /// A copy of the elements, after what was launched before has ended.
    ///
    /// # Errors
    /// Whatever the driver answers, that of an earlier launch included.
    pub fn to_vec(&self) -> Result<Vec<D>> {
        let mut elements = vec![D::default(); self.len];
        // SAFETY: every bit pattern is a value of an element type.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast::<u8>(), size_of_val(&*elements))
        };
        match &self.memory {
            Memory::Cpu(memory) => memory.read(bytes),
            #[cfg(feature = "cuda")]
            Memory::Cuda(memory) => memory.read(bytes)?,
        }
        Ok(elements)
    }
}

impl<D> fmt::Debug for Buffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Fails if a buffer that this library allocated ends before the kernel is done with it. `known` has the
/// bytes to each buffer's end; of other pointers the length is not known.
fn reject_short(launch: &Launch, known: &[Option<u64>; MAX_BUFFERS]) -> Result<()> {
    launch.touched().iter().zip(known).try_for_each(
        |(&Touched { name, bytes: need, .. }, &known)| match known {
            Some(have) if have < need => Err(Error::Short { kernel: launch.kernel.name, name, have, need }),
            _ => Ok(()),
        },
    )
}
