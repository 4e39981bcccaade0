//! What a device can do at most, measured in the same process: a copy, and a kernel that does nothing.

use cotangent::driver::{Arguments, Shape, launch};
use cotangent::{FlattenForward, LaunchOptions};

use crate::error::Result;
use crate::measure::{Protocol, time_us};
use crate::place::{Gpu, Place};

/// Bytes that the copy reads on a GPU, and as many that it writes.
const GPU_BYTES: u64 = 2 << 30;

/// The same on the CPU.
const CPU_BYTES: u64 = 32 << 20;

/// A kernel without parameters that ends at once.
const EMPTY: &str = "\
.version 6.0
.target sm_70
.address_size 64

.visible .entry empty()
{
	ret;
}
";

/// What a device can do at most.
#[derive(Clone, Copy, Debug)]
pub struct Ceiling {
    /// Bytes read and written by the copies.
    pub copy_bytes: u64,
    /// Microseconds of the driver's copy.
    pub copy_us: f64,
    /// Microseconds of the same by a contiguous flatten of this library.
    pub flatten_us: f64,
    /// Microseconds from one empty kernel to the next; none on the CPU.
    pub empty_us: Option<f64>,
}

impl Ceiling {
    /// Measures it; the place's block becomes long enough for both sides of the copy.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn measure(place: &mut dyn Place, protocol: &Protocol) -> Result<Self> {
        let bytes = if place.gpu().is_some() { GPU_BYTES } else { CPU_BYTES };
        if place.reserved() < 2 * bytes {
            place.reserve(2 * bytes)?;
        }
        let place = &*place;
        place.fill(0, 2 * bytes, 0)?;
        // Clocks rise with the first work, so the copies are timed twice, and the first time is thrown away.
        let copy = || place.copy(bytes, 0, bytes);
        time_us(place, protocol, copy)?;
        Ok(Self {
            copy_bytes: 2 * bytes,
            copy_us: time_us(place, protocol, copy)?,
            flatten_us: flatten_us(place, protocol, bytes)?,
            empty_us: place.gpu().map(|gpu| empty_us(gpu, protocol)).transpose()?,
        })
    }

    /// Gigabytes a second of a copy, read and written together: the faster of the driver's and our own, since on
    /// some GPUs the driver's does not reach what a kernel does.
    pub fn copy_gbps(&self) -> f64 {
        gbps(self.copy_bytes, self.copy_us.min(self.flatten_us))
    }

    /// Gigabytes a second of the flatten.
    pub fn flatten_gbps(&self) -> f64 {
        gbps(self.copy_bytes, self.flatten_us)
    }
}

/// Gigabytes a second.
pub fn gbps(bytes: u64, us: f64) -> f64 {
    bytes as f64 / us / 1e3
}

/// Tera-operations a second.
pub fn tflops(operations: u64, us: f64) -> f64 {
    operations as f64 / us / 1e6
}

fn flatten_us(place: &dyn Place, protocol: &Protocol, bytes: u64) -> Result<f64> {
    let kernel = FlattenForward::<f32>::recommended();
    let (b, n) = (1 << 11, (bytes >> 13) as i32);
    let (from, to) = (place.base() as *mut f32, (place.base() + bytes) as *mut f32);
    let options: LaunchOptions<'_> = place.options();
    let device = place.device();
    // Loaded before the launches are recorded.
    device.load(&kernel, (from, to, b, n, n, 1), &options)?;
    let work = || {
        // SAFETY: both halves of the block have `b · n` elements, and the work on them is in one order.
        unsafe { device.launch(&kernel, (from, to, b, n, n, 1), &options) }?;
        Ok(())
    };
    time_us(place, protocol, work)
}

/// Microseconds from one empty kernel to the next in a burst.
///
/// # Errors
/// What the driver answers.
pub fn empty_us(gpu: &Gpu, protocol: &Protocol) -> Result<f64> {
    let function = gpu.driver_device().function(EMPTY, "empty")?;
    let shape = Shape { grid_x: 1, block_x: 32, shared_bytes: 0 };
    let work = || {
        // SAFETY: the kernel has no parameters and touches nothing.
        unsafe { launch(&function, shape, Arguments::Each(&[]), gpu.queue()) }?;
        Ok(())
    };
    time_us(gpu, protocol, work)
}
