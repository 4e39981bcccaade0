//! The driver's result codes, with their names and what they mean.
//!
//! The driver's own texts need the driver; these do not. cust's error type and its bindings know fewer codes
//! than drivers answer with, so this layer keeps codes as plain numbers.

use std::ffi::CStr;

pub(super) const SUCCESS: u32 = 0;
pub(super) const INVALID_VALUE: u32 = 1;
pub(super) const OUT_OF_MEMORY: u32 = 2;
pub(super) const DEINITIALIZED: u32 = 4;
pub(super) const NO_DEVICE: u32 = 100;
pub(super) const NOT_FOUND: u32 = 500;
pub(super) const NOT_READY: u32 = 600;
pub(super) const STREAM_CAPTURE_IMPLICIT: u32 = 906;

/// A result code that CUDA documents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    code: u32,
    pub(super) name: &'static CStr,
    pub(super) text: &'static CStr,
}

/// What is known of a code.
pub(super) fn find(code: u32) -> Option<&'static Known> {
    KNOWN.binary_search_by_key(&code, |known| known.code).ok().map(|index| &KNOWN[index])
}

/// Whether the error stays: CUDA answers every later call on the context with it.
pub(super) fn is_sticky(code: u32) -> bool {
    matches!(code, 214 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 810)
}

const fn known(code: u32, name: &'static CStr, text: &'static CStr) -> Known {
    Known { code, name, text }
}

/// In rising order of codes.
pub(super) const KNOWN: &[Known] = &[
    known(0, c"CUDA_SUCCESS", c"no error"),
    known(1, c"CUDA_ERROR_INVALID_VALUE", c"an argument has a value that the call does not take"),
    known(2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    known(3, c"CUDA_ERROR_NOT_INITIALIZED", c"the driver is not initialised"),
    known(4, c"CUDA_ERROR_DEINITIALIZED", c"the driver is shutting down"),
    known(5, c"CUDA_ERROR_PROFILER_DISABLED", c"the profiler is disabled for this run"),
    known(6, c"CUDA_ERROR_PROFILER_NOT_INITIALIZED", c"the profiler is not initialised"),
    known(7, c"CUDA_ERROR_PROFILER_ALREADY_STARTED", c"the profiler is already started"),
    known(8, c"CUDA_ERROR_PROFILER_ALREADY_STOPPED", c"the profiler is already stopped"),
    known(34, c"CUDA_ERROR_STUB_LIBRARY", c"the library found is a stub for linking, not a driver"),
    known(100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA device was found"),
    known(101, c"CUDA_ERROR_INVALID_DEVICE", c"no such device"),
    known(102, c"CUDA_ERROR_DEVICE_NOT_LICENSED", c"the device is not licensed"),
    known(200, c"CUDA_ERROR_INVALID_IMAGE", c"the kernel image is invalid"),
    known(201, c"CUDA_ERROR_INVALID_CONTEXT", c"the device context is invalid or not bound to this thread"),
    known(202, c"CUDA_ERROR_CONTEXT_ALREADY_CURRENT", c"the context is already current"),
    known(205, c"CUDA_ERROR_MAP_FAILED", c"mapping failed"),
    known(206, c"CUDA_ERROR_UNMAP_FAILED", c"unmapping failed"),
    known(207, c"CUDA_ERROR_ARRAY_IS_MAPPED", c"the array is mapped"),
    known(208, c"CUDA_ERROR_ALREADY_MAPPED", c"the resource is already mapped"),
    known(209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"the module has no code for this device"),
    known(210, c"CUDA_ERROR_ALREADY_ACQUIRED", c"the resource is already acquired"),
    known(211, c"CUDA_ERROR_NOT_MAPPED", c"the resource is not mapped"),
    known(212, c"CUDA_ERROR_NOT_MAPPED_AS_ARRAY", c"the resource is not mapped as an array"),
    known(213, c"CUDA_ERROR_NOT_MAPPED_AS_POINTER", c"the resource is not mapped as a pointer"),
    known(214, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable memory (ECC) error"),
    known(215, c"CUDA_ERROR_UNSUPPORTED_LIMIT", c"the device does not have this limit"),
    known(216, c"CUDA_ERROR_CONTEXT_ALREADY_IN_USE", c"the context is in use by another thread"),
    known(217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"no peer access between the devices"),
    known(218, c"CUDA_ERROR_INVALID_PTX", c"the PTX does not compile"),
    known(219, c"CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", c"the graphics context is invalid"),
    known(220, c"CUDA_ERROR_NVLINK_UNCORRECTABLE", c"uncorrectable NVLink error"),
    known(221, c"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", c"the PTX compiler library of the driver was not found"),
    known(222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", c"the PTX version is newer than the driver"),
    known(223, c"CUDA_ERROR_JIT_COMPILATION_DISABLED", c"PTX compilation is disabled"),
    known(
        224,
        c"CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY",
        c"the device does not support this execution affinity",
    ),
    known(
        225,
        c"CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC",
        c"the PTX uses an unsupported device-side synchronisation",
    ),
    known(226, c"CUDA_ERROR_CONTAINED", c"the device contained an error; the context is lost"),
    known(300, c"CUDA_ERROR_INVALID_SOURCE", c"the kernel source is invalid"),
    known(301, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found"),
    known(302, c"CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", c"a symbol of a shared object was not found"),
    known(303, c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", c"a shared object did not initialise"),
    known(304, c"CUDA_ERROR_OPERATING_SYSTEM", c"the operating system refused a call"),
    known(400, c"CUDA_ERROR_INVALID_HANDLE", c"the handle is invalid"),
    known(401, c"CUDA_ERROR_ILLEGAL_STATE", c"the object is not in a state for this call"),
    known(402, c"CUDA_ERROR_LOSSY_QUERY", c"the query would lose information"),
    known(500, c"CUDA_ERROR_NOT_FOUND", c"the name was not found"),
    known(600, c"CUDA_ERROR_NOT_READY", c"the work is not done yet"),
    known(700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"a kernel used an illegal address"),
    known(
        701,
        c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        c"the launch needs more registers, threads or shared memory than the device has",
    ),
    known(702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"a kernel ran into the time limit"),
    known(703, c"CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", c"the launch has incompatible texturing"),
    known(704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled"),
    known(705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", c"peer access is not enabled"),
    known(708, c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", c"the primary context is already active"),
    known(709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"the context was destroyed"),
    known(710, c"CUDA_ERROR_ASSERT", c"a device assertion failed"),
    known(711, c"CUDA_ERROR_TOO_MANY_PEERS", c"too many peers"),
    known(712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"the host memory is already registered"),
    known(713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"the host memory is not registered"),
    known(714, c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hardware stack error"),
    known(715, c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"illegal instruction"),
    known(716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"a kernel used a misaligned address"),
    known(717, c"CUDA_ERROR_INVALID_ADDRESS_SPACE", c"an address is in the wrong address space"),
    known(718, c"CUDA_ERROR_INVALID_PC", c"invalid program counter"),
    known(719, c"CUDA_ERROR_LAUNCH_FAILED", c"a kernel failed"),
    known(720, c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", c"the cooperative launch is too large"),
    known(721, c"CUDA_ERROR_TENSOR_MEMORY_LEAK", c"a kernel left tensor memory allocated"),
    known(800, c"CUDA_ERROR_NOT_PERMITTED", c"not permitted"),
    known(801, c"CUDA_ERROR_NOT_SUPPORTED", c"not supported"),
    known(802, c"CUDA_ERROR_SYSTEM_NOT_READY", c"the system is not ready"),
    known(
        803,
        c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        c"the driver and the library of the driver have different versions",
    ),
    known(
        804,
        c"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        c"the compatibility driver does not support this device",
    ),
    known(805, c"CUDA_ERROR_MPS_CONNECTION_FAILED", c"no connection to the MPS server"),
    known(806, c"CUDA_ERROR_MPS_RPC_FAILURE", c"the MPS server did not answer"),
    known(807, c"CUDA_ERROR_MPS_SERVER_NOT_READY", c"the MPS server is not ready"),
    known(808, c"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", c"too many MPS clients"),
    known(809, c"CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", c"too many MPS connections"),
    known(810, c"CUDA_ERROR_MPS_CLIENT_TERMINATED", c"the MPS server ended this client"),
    known(811, c"CUDA_ERROR_CDP_NOT_SUPPORTED", c"no launch from device code here"),
    known(812, c"CUDA_ERROR_CDP_VERSION_MISMATCH", c"a launch from device code of another version"),
    known(900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"not permitted while the stream is captured"),
    known(901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"an earlier error invalidated the capture"),
    known(902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"the call would merge two captures"),
    known(903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"the capture was not begun on this stream"),
    known(904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", c"a captured stream was not joined to the first one"),
    known(905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"the call would cross the border of a capture"),
    known(906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", c"the call would synchronise with a captured stream"),
    known(907, c"CUDA_ERROR_CAPTURED_EVENT", c"the event was recorded in a capture"),
    known(908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"a capture must end on the thread that began it"),
    known(909, c"CUDA_ERROR_TIMEOUT", c"a wait ran into its time limit"),
    known(910, c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", c"the graph update was refused"),
    known(911, c"CUDA_ERROR_EXTERNAL_DEVICE", c"an external device failed"),
    known(912, c"CUDA_ERROR_INVALID_CLUSTER_SIZE", c"the cluster size is invalid"),
    known(913, c"CUDA_ERROR_FUNCTION_NOT_LOADED", c"the function is not loaded"),
    known(914, c"CUDA_ERROR_INVALID_RESOURCE_TYPE", c"the resource type is invalid"),
    known(915, c"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", c"the resources are not configured for this"),
    known(916, c"CUDA_ERROR_KEY_ROTATION", c"a key rotation failed"),
    known(999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];
