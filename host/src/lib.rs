//! Typed GPU kernels for the forward and backward pass of neural-network operations.
//!
//! Each [`Kernel`] is a struct with its constants as public fields. A [`Device`] launches it: on an NVIDIA
//! GPU from PTX that ships with this crate, or on the CPU through a reference that follows the formula.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod autotune;
mod device;
mod divmod;
#[cfg(feature = "cuda")]
pub mod driver;
mod element;
mod error;
mod graph;
mod kernel;
pub mod kernels;
pub mod launch;
pub mod ops;
mod plan;
mod specialise;
pub mod tensor;
#[cfg(feature = "verify")]
pub mod verify;

pub use autotune::Autotune;
pub use device::{Buffer, Device, Mark, Stream};
pub use element::{DType, Element, Float, Num};
pub use error::{Error, Result};
pub use graph::Graph;
pub use kernel::{Algorithm, Kernel, LaunchOptions, MathMode, Workspace};
pub use ops::bias_add::{BiasAddBackward, BiasAddForward};
pub use ops::cast::{CastToBf16, CastToF16, CastToF32, CastToF64};
pub use ops::channel_cat::{ChannelCatBackward, ChannelCatForward};
pub use ops::constant_pad1d::{ConstantPad1dBackward, ConstantPad1dForward};
pub use ops::conv2d::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward};
pub use ops::flatten::{FlattenBackward, FlattenForward};
pub use ops::relu::{ReluBackward, ReluForward};
pub use ops::sgd_step::SgdStep;
pub use ops::softmax_cross_entropy::{SoftmaxCrossEntropyBackward, SoftmaxCrossEntropyForward};
pub use ops::upsample_nearest2d::{UpsampleNearest2dBackward, UpsampleNearest2dForward};
pub use tensor::{Tensor, TensorMut, TensorRef};
