//! The operations: one module each, forward and backward together.
//!
//! The functions here are checked: they take tensors, and no call of theirs reaches a device with a wrong shape, device
//! or address. There is no automatic differentiation: a backward is a call like any other. Each function comes in two
//! forms: one that makes its output, and `_into`, which writes to a tensor that is there, allocates nothing, and so can
//! be recorded ([`Stream::capture`](crate::Stream::capture)). Gradients overwrite or accumulate, as [`Beta`] says.
//!
//! An operation's module has the kernel structs with their docs and checks; its `reference` has the formula
//! in literal loops, which is both the yardstick for device code and the path of users without a GPU.

pub mod bias_add;
pub mod cast;
pub mod channel_cat;
pub mod constant_pad1d;
pub mod conv2d;
pub mod flatten;
pub mod relu;
pub mod sgd_step;
pub mod softmax_cross_entropy;
pub mod upsample_nearest2d;

mod memory;
mod run;
mod tune;

pub use bias_add::checked::{bias_add, bias_add_backward, bias_add_backward_into, bias_add_into, sum_into};
pub use cast::checked::{cast, cast_into};
pub use channel_cat::checked::{
    channel_cat, channel_cat_backward, channel_cat_backward_into, channel_cat_into,
};
pub use constant_pad1d::checked::{
    constant_pad1d, constant_pad1d_backward, constant_pad1d_backward_into, constant_pad1d_into,
};
pub use conv2d::checked::{
    Conv2d, conv2d, conv2d_backward, conv2d_backward_into, conv2d_backward_tune, conv2d_backward_workspace,
    conv2d_into, conv2d_tune, conv2d_workspace,
};
pub use flatten::checked::{
    contiguous, contiguous_into, flatten, flatten_backward, flatten_backward_into, flatten_into,
};
pub use relu::checked::{relu, relu_backward, relu_backward_into, relu_into};
pub use run::{Beta, Workspace};
pub use sgd_step::checked::sgd_step;
pub use softmax_cross_entropy::checked::{
    softmax_cross_entropy, softmax_cross_entropy_backward, softmax_cross_entropy_backward_into,
    softmax_cross_entropy_into,
};
pub use upsample_nearest2d::checked::{
    upsample_nearest2d, upsample_nearest2d_backward, upsample_nearest2d_backward_into,
    upsample_nearest2d_into,
};

/// What verification knows of each operation.
#[cfg(feature = "verify")]
pub(crate) const SUBJECTS: &[&[crate::verify::subject::Subject]] = &[
    flatten::SUBJECTS,
    channel_cat::SUBJECTS,
    constant_pad1d::SUBJECTS,
    conv2d::SUBJECTS,
    upsample_nearest2d::SUBJECTS,
];
