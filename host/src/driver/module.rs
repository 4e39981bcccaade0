//! PTX modules on a device, and the functions in them.

use std::ffi::{CString, c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use cust::sys::{CUfunction, CUmodule};
use sha2::{Digest, Sha256};

use super::context::PrimaryContext;
use super::device::DeviceInfo;
use super::error::{DriverError, code_name};
use super::once_map::OnceMap;
use super::ptx::{Header, Parameters, check_version};
use super::raw;

const JIT_INFO_LOG_BUFFER: u32 = 3;
const JIT_INFO_LOG_BUFFER_SIZE_BYTES: u32 = 4;
const JIT_ERROR_LOG_BUFFER: u32 = 5;
const JIT_ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;
const LOG_BYTES: usize = 16 << 10;

const MAX_THREADS_PER_BLOCK: u32 = 0;
const SHARED_SIZE_BYTES: u32 = 1;
const LOCAL_SIZE_BYTES: u32 = 3;
const NUM_REGS: u32 = 4;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;

/// Static and dynamic shared memory together that every function may have without asking.
const SHARED_BYTES_UNASKED: u32 = 48 << 10;

/// The modules of a device, by the SHA-256 of their text.
#[derive(Default)]
pub(super) struct Modules(OnceMap<[u8; 32], Arc<Loaded>>);

/// A module with those of its functions that were asked for.
struct Loaded {
    module: Arc<Module>,
    functions: RwLock<Vec<Arc<Function>>>,
}

impl Loaded {
    fn find(&self, entry: &str) -> Option<Arc<Function>> {
        let functions = self.functions.read().unwrap_or_else(PoisonError::into_inner);
        functions.iter().find(|function| function.entry == entry).cloned()
    }
}

impl Modules {
    /// [`super::CudaDevice::function`].
    pub(super) fn function(
        &self,
        context: &Arc<PrimaryContext>,
        device: &DeviceInfo,
        ptx: &str,
        entry: &str,
    ) -> Result<Arc<Function>, DriverError> {
        let key: [u8; 32] = Sha256::digest(ptx.as_bytes()).into();
        let loaded = self.0.get_or_make(&key, || {
            let module = Arc::new(Module::load(context, device, ptx, entry)?);
            Ok::<_, DriverError>(Arc::new(Loaded { module, functions: RwLock::default() }))
        })?;
        if let Some(function) = loaded.find(entry) {
            return Ok(function);
        }
        let function = Arc::new(Function::get(&loaded.module, device, ptx, entry)?);
        let mut functions = loaded.functions.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster; all get the same one.
        if let Some(first) = functions.iter().find(|function| function.entry == entry) {
            return Ok(Arc::clone(first));
        }
        functions.push(Arc::clone(&function));
        Ok(function)
    }
}

/// A loaded module.
pub(super) struct Module {
    raw: CUmodule,
    context: Arc<PrimaryContext>,
}

// SAFETY: modules may be used from any thread that binds their context, and each call here does.
unsafe impl Send for Module {}
// SAFETY: as above; the driver orders concurrent calls.
unsafe impl Sync for Module {}

impl Module {
    /// Checks the module against the driver and the device, then lets the driver compile it.
    fn load(
        context: &Arc<PrimaryContext>,
        device: &DeviceInfo,
        ptx: &str,
        entry: &str,
    ) -> Result<Self, DriverError> {
        let header = Header::parse(ptx)?;
        check_version(header.version, device.driver)?;
        header.target.check(&device.name, device.compute_capability)?;
        Parameters::parse(ptx, entry)?;
        let image = CString::new(ptx).map_err(|error| DriverError::NotPtx {
            problem: format!("byte {} is zero", error.nul_position()),
        })?;

        let mut info = vec![0_u8; LOG_BYTES];
        let mut errors = vec![0_u8; LOG_BYTES];
        let mut names = [
            JIT_INFO_LOG_BUFFER,
            JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            JIT_ERROR_LOG_BUFFER,
            JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // Sizes are passed in the place of the pointer, and come back there as the bytes written.
        let size = ptr::without_provenance_mut::<c_void>(LOG_BYTES);
        let mut values = [info.as_mut_ptr().cast(), size, errors.as_mut_ptr().cast(), size];
        let mut raw = ptr::null_mut();
        let bound = context.bind()?;
        // SAFETY: `image` ends in a zero; the four options have the types that the driver wants, and the buffers
        // are as long as said.
        let answer = unsafe {
            raw::cuModuleLoadDataEx(
                &raw mut raw,
                image.as_ptr().cast(),
                names.len() as u32,
                names.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        drop(bound);
        let (info, errors) = (log_text(&info), log_text(&errors));
        if !info.is_empty() {
            log::debug!("the driver's compiler on {entry}: {info}");
        }
        // These are the compiler's answers about the module; others are not.
        if matches!(answer.code, 200 | 209 | 218 | 222 | 225 | 300) || answer.code != 0 && !errors.is_empty()
        {
            return Err(DriverError::Jit {
                entry: entry.to_owned(),
                code: answer.code,
                name: code_name(answer.code),
                log: if errors.is_empty() { "(the driver gave no log)".to_owned() } else { errors },
            });
        }
        context.check(answer)?;
        Ok(Self { raw, context: Arc::clone(context) })
    }

    pub(super) fn context(&self) -> &Arc<PrimaryContext> {
        &self.context
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.context.finish_work();
        // SAFETY: the last use of the module, and work of this crate's streams that runs its code is done.
        self.context.call_in_drop(|| unsafe { raw::cuModuleUnload(self.raw) });
    }
}

/// The text in a log buffer.
fn log_text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).trim().to_owned()
}

/// A kernel on a device, ready to launch.
pub struct Function {
    raw: CUfunction,
    entry: String,
    parameters: Parameters,
    max_threads: u32,
    static_shared_bytes: u32,
    max_dynamic_shared_bytes: u32,
    local_bytes: u32,
    registers: u32,
    /// The answer to asking for dynamic shared memory beyond what needs no asking.
    raised: OnceLock<Result<(), DriverError>>,
    module: Arc<Module>,
}

// SAFETY: functions may be used from any thread that binds their context, and each call here does.
unsafe impl Send for Function {}
// SAFETY: as above; the driver orders concurrent calls.
unsafe impl Sync for Function {}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl Function {
    fn get(module: &Arc<Module>, device: &DeviceInfo, ptx: &str, entry: &str) -> Result<Self, DriverError> {
        let context = &module.context;
        let parameters = Parameters::parse(ptx, entry)?;
        let name = CString::new(entry)
            .map_err(|_| DriverError::NoEntry { entry: entry.to_owned(), available: Vec::new() })?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is valid for a write, `name` ends in a zero, and the module is live.
        context.call(|| unsafe { raw::cuModuleGetFunction(&raw mut raw, module.raw, name.as_ptr()) })?;
        let attribute = |attribute| {
            let mut value: c_int = 0;
            // SAFETY: `value` is valid for a write, and the function is live.
            context.call(|| unsafe { raw::cuFuncGetAttribute(&raw mut value, attribute, raw) })?;
            Ok::<_, DriverError>(value as u32)
        };
        let static_shared_bytes = attribute(SHARED_SIZE_BYTES)?;
        Ok(Self {
            raw,
            entry: entry.to_owned(),
            parameters,
            max_threads: attribute(MAX_THREADS_PER_BLOCK)?,
            static_shared_bytes,
            max_dynamic_shared_bytes: device.max_shared_bytes.saturating_sub(static_shared_bytes),
            local_bytes: attribute(LOCAL_SIZE_BYTES)?,
            registers: attribute(NUM_REGS)?,
            raised: OnceLock::new(),
            module: Arc::clone(module),
        })
    }

    /// The entry point's name.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// How many parameters it takes.
    pub fn parameter_count(&self) -> usize {
        self.parameters.count
    }

    /// Bytes of its parameters, packed in order with each aligned.
    pub fn parameter_bytes(&self) -> usize {
        self.parameters.bytes
    }

    /// The most threads a block that its registers allow.
    pub fn max_threads(&self) -> u32 {
        self.max_threads
    }

    /// Shared memory that it declares, in bytes a block.
    pub fn static_shared_bytes(&self) -> u32 {
        self.static_shared_bytes
    }

    /// The most dynamic shared memory that a launch can give it on this device, in bytes a block.
    pub fn max_dynamic_shared_bytes(&self) -> u32 {
        self.max_dynamic_shared_bytes
    }

    /// Local memory, where registers spill, in bytes a thread.
    pub fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    /// Registers a thread.
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// Asks, once, for the dynamic shared memory that a launch wants. It asks for all that the device has: the
    /// limit holds for the function on all threads, and a lower one set later would fail a launch on another.
    pub(super) fn allow_shared(&self, bytes: u32) -> Result<(), DriverError> {
        if self.static_shared_bytes.saturating_add(bytes) <= SHARED_BYTES_UNASKED {
            return Ok(());
        }
        let raise = || {
            let most = self.max_dynamic_shared_bytes as c_int;
            // SAFETY: the function is live.
            self.context()
                .call(|| unsafe { raw::cuFuncSetAttribute(self.raw, MAX_DYNAMIC_SHARED_SIZE_BYTES, most) })
        };
        self.raised.get_or_init(raise).clone()
    }

    pub(super) fn raw(&self) -> CUfunction {
        self.raw
    }

    pub(super) fn context(&self) -> &Arc<PrimaryContext> {
        self.module.context()
    }

    pub(super) fn module(&self) -> &Arc<Module> {
        &self.module
    }
}
