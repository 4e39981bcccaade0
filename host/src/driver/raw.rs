//! The driver functions that this layer calls, typed as CUDA documents them.
//!
//! Each finds itself in the driver's library on its first call and keeps the address. They answer with the
//! plain result code: drivers answer with codes that cust's bindings do not list, and those bindings return an
//! enum, for which an unlisted value is undefined behaviour. Handles have the types of cust's bindings.

#![allow(non_snake_case, reason = "the names are the driver's")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use cust::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUmemoryPool,
    CUmodule, CUstream, CUuuid,
};

use super::codes;
use super::error::DriverError;
use super::lazy;

/// What a driver function answered.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct Answer {
    pub(super) call: &'static str,
    pub(super) code: u32,
}

impl Answer {
    /// The error, if it is one.
    pub(super) fn ok(self) -> Result<(), DriverError> {
        if self.code == codes::SUCCESS { Ok(()) } else { Err(DriverError::call(self.call, self.code)) }
    }
}

/// The address of a driver function, null until the first call.
struct Slot(AtomicPtr<c_void>);

impl Slot {
    fn get(&self, name: &CStr) -> *const c_void {
        let known = self.0.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let found = lazy::function(name);
        self.0.store(found.cast_mut(), Ordering::Release);
        found
    }
}

macro_rules! driver_functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => { $(
        /// The driver's function of this name.
        ///
        /// # Safety
        /// CUDA's documentation of the function.
        pub(super) unsafe fn $name($($arg: $ty),*) -> Answer {
            static SLOT: Slot = Slot(AtomicPtr::new(ptr::null_mut()));
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without a NUL inside"),
            };
            type Function = unsafe extern "C" fn($($ty),*) -> u32;
            let address = SLOT.get(NAME);
            // SAFETY: the address is the driver's function of that name, which has this signature, or a
            // function that ignores its arguments and returns a code.
            let function = unsafe { std::mem::transmute::<*const c_void, Function>(address) };
            // SAFETY: passed on to the caller.
            Answer { call: stringify!($name), code: unsafe { function($($arg),*) } }
        }
    )* };
}

driver_functions! {
    fn cuInit(flags: c_uint);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice);
    fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice);

    fn cuCtxGetCurrent(context: *mut CUcontext);
    fn cuCtxPushCurrent_v2(context: CUcontext);
    fn cuCtxPopCurrent_v2(context: *mut CUcontext);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuCtxSynchronize();

    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        options: c_uint,
        names: *mut c_uint,
        values: *mut *mut c_void,
    );
    fn cuModuleUnload(module: CUmodule);
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
    fn cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int);
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );

    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamQuery(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventQuery(event: CUevent);
    fn cuEventSynchronize(event: CUevent);
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);

    fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint);
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    fn cuStreamIsCapturing(stream: CUstream, status: *mut c_uint);
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
    fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: u64);
    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    fn cuGraphDestroy(graph: CUgraph);
    fn cuGraphExecDestroy(exec: CUgraphExec);

    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    fn cuMemFree_v2(address: CUdeviceptr);
    fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemGetAddressRange_v2(base: *mut CUdeviceptr, bytes: *mut usize, address: CUdeviceptr);
    fn cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: CUdeviceptr);
    fn cuMemPoolTrimTo(pool: CUmemoryPool, bytes_to_keep: usize);
    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemsetD8Async(to: CUdeviceptr, value: u8, count: usize, stream: CUstream);
}
