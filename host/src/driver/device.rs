//! The CUDA devices of the machine.

use std::collections::HashMap;
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use cust::CudaApiVersion;
use cust::device::{Device, DeviceAttribute};
use cust::sys::{CUmemoryPool, CUuuid};

use super::codes;
use super::context::PrimaryContext;
use super::error::DriverError;
use super::lazy;
use super::memory;
use super::module::{Function, Modules};
use super::ptx::{ComputeCapability, CudaVersion};
use super::raw;

// Attributes newer than cust's list.
const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: u32 = 97;
const MEMORY_POOLS_SUPPORTED: u32 = 115;

const POOL_RELEASE_THRESHOLD: u32 = 4;

/// What the driver says of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device's number, from 0.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Its compute capability.
    pub compute_capability: ComputeCapability,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
    /// Its L2 cache, in bytes.
    pub l2_bytes: u64,
    /// The most shared memory that a block can have, in bytes.
    pub max_shared_bytes: u32,
    /// The CUDA version of the driver.
    pub driver: CudaVersion,
    /// The number that tells this device from all others.
    pub uuid: [u8; 16],
}

impl DeviceInfo {
    fn read(device: Device, ordinal: u32) -> Result<Self, DriverError> {
        let attribute = |attribute: DeviceAttribute| {
            device
                .get_attribute(attribute)
                .map(|value| value as u32)
                .map_err(|error| DriverError::cust("cuDeviceGetAttribute", error))
        };
        Ok(Self {
            ordinal,
            name: device.name().map_err(|error| DriverError::cust("cuDeviceGetName", error))?,
            compute_capability: ComputeCapability {
                major: attribute(DeviceAttribute::ComputeCapabilityMajor)?,
                minor: attribute(DeviceAttribute::ComputeCapabilityMinor)?,
            },
            multiprocessors: attribute(DeviceAttribute::MultiprocessorCount)?,
            memory_bytes: device
                .total_memory()
                .map_err(|error| DriverError::cust("cuDeviceTotalMem", error))?
                as u64,
            l2_bytes: attribute(DeviceAttribute::L2CacheSize)?.into(),
            max_shared_bytes: newer_attribute(device, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            driver: driver_version()?,
            uuid: uuid(device)?,
        })
    }
}

fn newer_attribute(device: Device, attribute: u32) -> Result<u32, DriverError> {
    let mut value = 0;
    // SAFETY: `value` is valid for a write; a driver that does not know the attribute answers with an error.
    unsafe { raw::cuDeviceGetAttribute(&raw mut value, attribute, device.as_raw()) }.ok()?;
    Ok(value as u32)
}

fn uuid(device: Device) -> Result<[u8; 16], DriverError> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: `uuid` is valid for a write. The second form tells the parts of a divided GPU apart.
    let newer = unsafe { raw::cuDeviceGetUuid_v2(&raw mut uuid, device.as_raw()) };
    if newer.code == codes::NOT_FOUND {
        // SAFETY: as above.
        unsafe { raw::cuDeviceGetUuid(&raw mut uuid, device.as_raw()) }.ok()?;
    } else {
        newer.ok()?;
    }
    Ok(uuid.bytes.map(|byte| byte as u8))
}

fn driver_version() -> Result<CudaVersion, DriverError> {
    let version = CudaApiVersion::get().map_err(|error| DriverError::cust("cuDriverGetVersion", error))?;
    Ok(CudaVersion { major: version.major() as u32, minor: version.minor() as u32 })
}

/// Initialises the driver and counts its devices.
fn count() -> Result<u32, DriverError> {
    if let Err(reason) = lazy::library() {
        return Err(DriverError::NoDriver { reason: reason.to_owned() });
    }
    // SAFETY: the driver takes this call at any time, and again.
    let answer = unsafe { raw::cuInit(0) };
    if answer.code == codes::NO_DEVICE {
        return Ok(0);
    }
    answer.ok()?;
    Device::num_devices().map_err(|error| DriverError::cust("cuDeviceGetCount", error))
}

fn get(ordinal: u32) -> Result<Device, DriverError> {
    Device::get_device(ordinal).map_err(|error| DriverError::cust("cuDeviceGet", error))
}

/// A CUDA device, with its context and the modules loaded on it.
///
/// Streams, events, buffers and functions made from it keep the context alive, and so does nothing else of the
/// process: when all of them are gone, the context is released.
pub struct CudaDevice {
    info: DeviceInfo,
    pools: bool,
    modules: Modules,
    context: Arc<PrimaryContext>,
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDevice").field("info", &self.info).finish_non_exhaustive()
    }
}

impl CudaDevice {
    /// What the driver says of each device; none is a machine with a driver and no device.
    ///
    /// # Errors
    /// [`DriverError::NoDriver`] without a driver, and what the driver answers.
    pub fn list() -> Result<Vec<DeviceInfo>, DriverError> {
        (0..count()?).map(|ordinal| DeviceInfo::read(get(ordinal)?, ordinal)).collect()
    }

    /// Opens a device. While it is open, opening it again gives the same one.
    ///
    /// # Errors
    /// [`DriverError::NoDriver`], [`DriverError::NoDevice`], [`DriverError::BelowFloor`], and what the driver
    /// answers.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, DriverError> {
        static OPEN: OnceLock<Mutex<HashMap<u32, Weak<CudaDevice>>>> = OnceLock::new();
        let count = count()?;
        if ordinal >= count {
            return Err(DriverError::NoDevice { ordinal, count });
        }
        let mut open = OPEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&ordinal).and_then(Weak::upgrade) {
            return Ok(device);
        }
        let device = Arc::new(Self::create(ordinal)?);
        open.insert(ordinal, Arc::downgrade(&device));
        Ok(device)
    }

    fn create(ordinal: u32) -> Result<Self, DriverError> {
        let device = get(ordinal)?;
        let info = DeviceInfo::read(device, ordinal)?;
        if info.compute_capability < ComputeCapability::FLOOR {
            return Err(DriverError::BelowFloor {
                ordinal,
                device: info.name,
                has: info.compute_capability,
                needs: ComputeCapability::FLOOR,
            });
        }
        // A driver that does not know the attribute has no pools.
        let pools = newer_attribute(device, MEMORY_POOLS_SUPPORTED).is_ok_and(|supported| supported != 0);
        let context = Arc::new(PrimaryContext::retain(device, ordinal)?);
        log::debug!(
            "opened CUDA device {ordinal}: {}, compute capability {}, driver for CUDA {}",
            info.name,
            info.compute_capability,
            info.driver
        );
        Ok(Self { info, pools, modules: Modules::default(), context })
    }

    /// What the driver says of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The entry point `entry` of a PTX module, loaded on this device. Loading happens once for each text; any
    /// number of threads may ask at once.
    ///
    /// # Errors
    /// [`DriverError::NotPtx`], [`DriverError::DriverTooOld`], [`DriverError::WrongTarget`],
    /// [`DriverError::NoEntry`], [`DriverError::Jit`], and what the driver answers.
    pub fn function(&self, ptx: &str, entry: &str) -> Result<Arc<Function>, DriverError> {
        self.modules.function(&self.context, &self.info, ptx, entry)
    }

    /// Makes the device's context current on this thread for good, as `cudaSetDevice` does. Calls on this
    /// device are then a little cheaper: without it, each binds the context and puts the former one back.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn make_current(&self) -> Result<(), DriverError> {
        self.context.make_current()
    }

    /// Waits until all work on the device is done, that of other libraries included.
    ///
    /// # Errors
    /// What the driver answers: errors of kernels that ran earlier come out here.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        memory::free_parked();
        // SAFETY: the context is bound.
        self.context.call(|| unsafe { raw::cuCtxSynchronize() })
    }

    /// Free and total device memory, in bytes.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn memory(&self) -> Result<(u64, u64), DriverError> {
        memory::free_and_total(&self.context)
    }

    /// How many freed bytes the device's default memory pool keeps when work is waited for, instead of giving
    /// them back to the system; 0 unless set. The pool is shared with other libraries of the process.
    ///
    /// # Errors
    /// What the driver answers: `CUDA_ERROR_NOT_SUPPORTED` on a device without pools.
    pub fn keep_freed(&self, bytes: u64) -> Result<(), DriverError> {
        let pool = self.default_pool()?;
        let mut bytes = bytes;
        let value = (&raw mut bytes).cast();
        // SAFETY: the pool is the device's, and the attribute is 64 bits wide.
        self.context.call(|| unsafe { raw::cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, value) })
    }

    /// Gives the pool's free memory back to the system, but for `keep_bytes`.
    ///
    /// # Errors
    /// What the driver answers: `CUDA_ERROR_NOT_SUPPORTED` on a device without pools.
    pub fn trim(&self, keep_bytes: usize) -> Result<(), DriverError> {
        let pool = self.default_pool()?;
        // SAFETY: the pool is the device's.
        self.context.call(|| unsafe { raw::cuMemPoolTrimTo(pool, keep_bytes) })
    }

    fn default_pool(&self) -> Result<CUmemoryPool, DriverError> {
        let device = get(self.info.ordinal)?;
        let mut pool = ptr::null_mut();
        // SAFETY: `pool` is valid for a write.
        self.context.call(|| unsafe { raw::cuDeviceGetDefaultMemPool(&raw mut pool, device.as_raw()) })?;
        Ok(pool)
    }

    pub(super) fn context(&self) -> &Arc<PrimaryContext> {
        &self.context
    }

    /// Whether the device has memory pools, which allocate in stream order.
    pub(super) fn has_pools(&self) -> bool {
        self.pools
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        memory::free_parked();
    }
}
