//! The operations: one module each, forward and backward together.
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

/// What verification knows of each operation.
#[cfg(feature = "verify")]
pub(crate) const SUBJECTS: &[&[crate::verify::subject::Subject]] = &[
    flatten::SUBJECTS,
    channel_cat::SUBJECTS,
    constant_pad1d::SUBJECTS,
    conv2d::SUBJECTS,
    upsample_nearest2d::SUBJECTS,
];
