//! Bodies of Cotangent's GPU kernels: one file an operation, forward and backward together.
//!
//! A kernel body is a plain generic function. Its parameters come in three groups, in this order: the
//! caller's arguments, the hidden words that the launch fills, and the specialization constants. The
//! [`entry!`] block beside each body names the groups and stamps one entry point per element kind; the
//! builder compiles them to PTX (`ARCHITECTURE.md`, "From Rust to PTX").
//!
//! Built for a host, the crate is a plain library in which one thread plays a whole grid, so that bodies
//! can be tested as ordinary Rust.
#![no_std]
#![allow(
    clippy::needless_bitwise_bool,
    reason = "a lazy operator is a branch, which parts the loads that should be in flight together"
)]
#![allow(clippy::verbose_bit_mask, reason = "an alignment test says its mask")]
#![allow(
    clippy::cast_ptr_alignment,
    reason = "whether an address lies on a boundary is checked where it matters"
)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch, core_intrinsics, stdarch_nvptx))]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

#[macro_use]
mod entry;

pub mod divmod;
pub mod gpu;
pub mod map;
pub mod math;
pub mod mma;
pub mod num;
pub mod patch;
pub mod planes;
pub mod prelude;
pub mod reduce;
pub mod rows;
pub mod run;
pub mod sweep;
pub mod tile;
pub mod transpose;
pub mod vector;

pub mod bias_add;
pub mod cast;
pub mod channel_cat;
pub mod constant_pad1d;
pub mod conv2d;
pub mod conv2d_blocked;
pub mod conv2d_blocked_dw;
pub mod conv2d_depthwise;
pub mod conv2d_depthwise_dw;
pub mod conv2d_few;
pub mod conv2d_few_dw;
pub mod conv2d_few_dw_mma;
pub mod conv2d_few_mma;
pub mod conv2d_patch;
pub mod conv2d_patch_dw;
pub mod conv2d_pointwise;
pub mod conv2d_pointwise_dw;
pub mod conv2d_prepare;
pub mod conv2d_small;
pub mod conv2d_small_dw;
pub mod conv2d_tiled;
pub mod flatten;
pub mod relu;
pub mod sgd_step;
pub mod softmax_cross_entropy;
pub mod upsample_nearest2d;

/// A kernel must not be able to panic: the builder rejects PTX in which this handler is reachable.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
