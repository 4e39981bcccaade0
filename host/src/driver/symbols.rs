//! The driver functions that cust links to, defined here so that nothing needs libcuda at link or load time.
//!
//! Each is a trampoline: one jump through its slot of a table. A slot starts at a stub that asks
//! [`super::lazy`] for the real function, stores it in the slot and goes on there with every argument
//! register as the caller left it, so a function may be called at any time, from any thread, before
//! `cuInit` too. From then on a call costs one indirect jump.
//!
//! The symbols are hidden: another shared library of the process that calls the driver binds to
//! `libcuda.so.1`, not to them. They are weak, so that a second crate (or a second version of this one) may
//! define them as well; each definition jumps through a table of its own.

use std::arch::global_asm;
use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Release;

use super::lazy;

unsafe extern "C" {
    /// The trampoline, not the driver's own function.
    fn cuInit(flags: u32) -> u32;
}

/// Makes linkers take the trampolines from this crate's archive whenever the crate is linked at all: cust's
/// archive, which needs them, comes later on the command line.
#[used]
static ANCHOR: unsafe extern "C" fn(u32) -> u32 = cuInit;

/// Finds the function of the slot, for this and all later calls.
///
/// `first` is the table's first slot; slots are laid out in the order of [`NAMES`].
extern "C" fn resolve(slot: *const AtomicPtr<c_void>, first: *const AtomicPtr<c_void>) -> *const c_void {
    let index = (slot.addr() - first.addr()) / size_of::<AtomicPtr<c_void>>();
    let target = lazy::function(NAMES[index]);
    // SAFETY: `slot` is one of the table's slots: aligned, writable for the whole run, and written only here.
    // The assembly reads it with a single aligned load.
    unsafe { (*slot).store(target.cast_mut(), Release) };
    target
}

/// Defines the trampoline `name`, its stub and its slot.
#[cfg(target_arch = "x86_64")]
macro_rules! trampoline {
    () => {
        r#"
        .macro cotangent_trampoline name
        .pushsection .text.cotangent_driver,"ax",@progbits
        .weak \name
        .hidden \name
        .type \name,@function
        .p2align 4
        \name:
        jmp qword ptr [rip + .Lcotangent_slot_\name]
        .Lcotangent_stub_\name:
        lea r11, [rip + .Lcotangent_slot_\name]
        jmp .Lcotangent_resolve
        .size \name, . - \name
        .popsection
        .pushsection .data.cotangent_driver,"aw",@progbits
        .Lcotangent_slot_\name: .quad .Lcotangent_stub_\name
        .popsection
        .endm
        "#
    };
}

/// Defines the trampoline `name`, its stub and its slot. The load acquires, so that a core that sees the
/// function's address also sees what the thread that opened the library has written.
#[cfg(target_arch = "aarch64")]
macro_rules! trampoline {
    () => {
        r#"
        .macro cotangent_trampoline name
        .pushsection .text.cotangent_driver,"ax",@progbits
        .weak \name
        .hidden \name
        .type \name,@function
        .p2align 4
        \name:
        adrp x16, .Lcotangent_slot_\name
        add x16, x16, :lo12:.Lcotangent_slot_\name
        ldar x17, [x16]
        br x17
        .Lcotangent_stub_\name:
        adrp x16, .Lcotangent_slot_\name
        add x16, x16, :lo12:.Lcotangent_slot_\name
        b .Lcotangent_resolve
        .size \name, . - \name
        .popsection
        .pushsection .data.cotangent_driver,"aw",@progbits
        .Lcotangent_slot_\name: .quad .Lcotangent_stub_\name
        .popsection
        .endm
        "#
    };
}

/// Calls [`resolve`] with the slot that a stub left in r11, keeping the registers that may hold arguments
/// (rax counts the vector registers of a variadic call; r10 is the static chain).
#[cfg(target_arch = "x86_64")]
macro_rules! resolver {
    () => {
        r#"
        .pushsection .data.cotangent_driver,"aw",@progbits
        .p2align 3
        .Lcotangent_slots:
        .popsection

        .pushsection .text.cotangent_driver,"ax",@progbits
        .type .Lcotangent_resolve,@function
        .p2align 4
        .Lcotangent_resolve:
        .cfi_startproc
        push rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov rbp, rsp
        .cfi_def_cfa_register rbp
        sub rsp, 192
        movups [rsp], xmm0
        movups [rsp + 16], xmm1
        movups [rsp + 32], xmm2
        movups [rsp + 48], xmm3
        movups [rsp + 64], xmm4
        movups [rsp + 80], xmm5
        movups [rsp + 96], xmm6
        movups [rsp + 112], xmm7
        mov [rsp + 128], rdi
        mov [rsp + 136], rsi
        mov [rsp + 144], rdx
        mov [rsp + 152], rcx
        mov [rsp + 160], r8
        mov [rsp + 168], r9
        mov [rsp + 176], rax
        mov [rsp + 184], r10
        mov rdi, r11
        lea rsi, [rip + .Lcotangent_slots]
        call {resolve}
        mov r11, rax
        movups xmm0, [rsp]
        movups xmm1, [rsp + 16]
        movups xmm2, [rsp + 32]
        movups xmm3, [rsp + 48]
        movups xmm4, [rsp + 64]
        movups xmm5, [rsp + 80]
        movups xmm6, [rsp + 96]
        movups xmm7, [rsp + 112]
        mov rdi, [rsp + 128]
        mov rsi, [rsp + 136]
        mov rdx, [rsp + 144]
        mov rcx, [rsp + 152]
        mov r8, [rsp + 160]
        mov r9, [rsp + 168]
        mov rax, [rsp + 176]
        mov r10, [rsp + 184]
        leave
        .cfi_def_cfa rsp, 8
        jmp r11
        .cfi_endproc
        .size .Lcotangent_resolve, . - .Lcotangent_resolve
        .popsection
        "#
    };
}

/// Calls [`resolve`] with the slot that a stub left in x16, keeping the registers that may hold arguments
/// (x8 is the address of an indirect result).
#[cfg(target_arch = "aarch64")]
macro_rules! resolver {
    () => {
        r#"
        .pushsection .data.cotangent_driver,"aw",@progbits
        .p2align 3
        .Lcotangent_slots:
        .popsection

        .pushsection .text.cotangent_driver,"ax",@progbits
        .type .Lcotangent_resolve,@function
        .p2align 4
        .Lcotangent_resolve:
        .cfi_startproc
        stp x29, x30, [sp, #-224]!
        .cfi_def_cfa_offset 224
        .cfi_offset x29, -224
        .cfi_offset x30, -216
        mov x29, sp
        stp x0, x1, [sp, #16]
        stp x2, x3, [sp, #32]
        stp x4, x5, [sp, #48]
        stp x6, x7, [sp, #64]
        str x8, [sp, #80]
        stp q0, q1, [sp, #96]
        stp q2, q3, [sp, #128]
        stp q4, q5, [sp, #160]
        stp q6, q7, [sp, #192]
        mov x0, x16
        adrp x1, .Lcotangent_slots
        add x1, x1, :lo12:.Lcotangent_slots
        bl {resolve}
        mov x16, x0
        ldp x0, x1, [sp, #16]
        ldp x2, x3, [sp, #32]
        ldp x4, x5, [sp, #48]
        ldp x6, x7, [sp, #64]
        ldr x8, [sp, #80]
        ldp q0, q1, [sp, #96]
        ldp q2, q3, [sp, #128]
        ldp q4, q5, [sp, #160]
        ldp q6, q7, [sp, #192]
        ldp x29, x30, [sp], #224
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        br x16
        .cfi_endproc
        .size .Lcotangent_resolve, . - .Lcotangent_resolve
        .popsection
        "#
    };
}

macro_rules! symbols {
    ($($name:literal)*) => {
        /// The functions, in the order of their slots.
        const NAMES: &[&CStr] = &[$(
            match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without a NUL inside"),
            },
        )*];

        global_asm!(
            resolver!(),
            trampoline!(),
            $(concat!("cotangent_trampoline ", $name),)*
            ".purgem cotangent_trampoline",
            resolve = sym resolve,
        );
    };
}

// Every function that cust 0.3 calls, and `cuGetErrorName`.
symbols! {
    "cuArray3DCreate_v2"
    "cuArray3DGetDescriptor_v2"
    "cuArrayDestroy"
    "cuCtxCreate_v2"
    "cuCtxDestroy_v2"
    "cuCtxGetApiVersion"
    "cuCtxGetCacheConfig"
    "cuCtxGetCurrent"
    "cuCtxGetDevice"
    "cuCtxGetFlags"
    "cuCtxGetLimit"
    "cuCtxGetSharedMemConfig"
    "cuCtxGetStreamPriorityRange"
    "cuCtxPopCurrent_v2"
    "cuCtxPushCurrent_v2"
    "cuCtxSetCacheConfig"
    "cuCtxSetCurrent"
    "cuCtxSetLimit"
    "cuCtxSetSharedMemConfig"
    "cuCtxSynchronize"
    "cuDestroyExternalMemory"
    "cuDeviceGet"
    "cuDeviceGetAttribute"
    "cuDeviceGetCount"
    "cuDeviceGetName"
    "cuDevicePrimaryCtxRelease_v2"
    "cuDevicePrimaryCtxReset_v2"
    "cuDevicePrimaryCtxRetain"
    "cuDevicePrimaryCtxSetFlags_v2"
    "cuDeviceTotalMem_v2"
    "cuDriverGetVersion"
    "cuEventCreate"
    "cuEventDestroy_v2"
    "cuEventElapsedTime"
    "cuEventQuery"
    "cuEventRecord"
    "cuEventSynchronize"
    "cuExternalMemoryGetMappedBuffer"
    "cuFuncGetAttribute"
    "cuFuncSetCacheConfig"
    "cuFuncSetSharedMemConfig"
    "cuGetErrorName"
    "cuGetErrorString"
    "cuGraphAddKernelNode"
    "cuGraphCreate"
    "cuGraphDebugDotPrint"
    "cuGraphDestroy"
    "cuGraphGetEdges"
    "cuGraphGetNodes"
    "cuGraphKernelNodeGetParams"
    "cuGraphNodeGetType"
    "cuImportExternalMemory"
    "cuInit"
    "cuLaunchHostFunc"
    "cuLaunchKernel"
    "cuLinkAddData_v2"
    "cuLinkComplete"
    "cuLinkCreate_v2"
    "cuLinkDestroy"
    "cuMemAdvise"
    "cuMemAllocAsync"
    "cuMemAllocHost_v2"
    "cuMemAllocManaged"
    "cuMemAlloc_v2"
    "cuMemFreeAsync"
    "cuMemFreeHost"
    "cuMemFree_v2"
    "cuMemGetInfo_v2"
    "cuMemPrefetchAsync"
    "cuMemcpy2D_v2"
    "cuMemcpyAtoH_v2"
    "cuMemcpyDtoDAsync_v2"
    "cuMemcpyDtoD_v2"
    "cuMemcpyDtoHAsync_v2"
    "cuMemcpyDtoH_v2"
    "cuMemcpyHtoA_v2"
    "cuMemcpyHtoDAsync_v2"
    "cuMemcpyHtoD_v2"
    "cuMemsetD16Async"
    "cuMemsetD16_v2"
    "cuMemsetD32Async"
    "cuMemsetD32_v2"
    "cuMemsetD8Async"
    "cuMemsetD8_v2"
    "cuModuleGetFunction"
    "cuModuleGetGlobal_v2"
    "cuModuleLoad"
    "cuModuleLoadData"
    "cuModuleLoadDataEx"
    "cuModuleUnload"
    "cuOccupancyAvailableDynamicSMemPerBlock"
    "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    "cuOccupancyMaxPotentialBlockSize"
    "cuStreamCreateWithPriority"
    "cuStreamDestroy_v2"
    "cuStreamGetFlags"
    "cuStreamGetPriority"
    "cuStreamSynchronize"
    "cuStreamWaitEvent"
    "cuSurfObjectCreate"
    "cuSurfObjectDestroy"
    "cuSurfObjectGetResourceDesc"
    "cuTexObjectCreate"
    "cuTexObjectDestroy"
    "cuTexObjectGetResourceDesc"
    "cuTexObjectGetResourceViewDesc"
}
