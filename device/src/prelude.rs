//! What a kernel body may use; `source()` of a kernel compiles against this module.

pub use crate::channel_cat::{channel_cat_backward, channel_cat_forward};
pub use crate::constant_pad1d::{constant_pad1d_backward, constant_pad1d_forward};
pub use crate::conv2d::{
    conv2d_backward, conv2d_backward_dw, conv2d_backward_dx, conv2d_forward, dw_element, dx_element,
};
pub use crate::divmod::{FastDivmod, FastDivmod64};
pub use crate::flatten::{flatten_backward, flatten_forward, for_each_in_tiles};
pub use crate::num::{Bf16, F16, Num, copy_or_add, put};
pub use crate::sweep::for_each_index;
pub use crate::upsample_nearest2d::{upsample_nearest2d_backward, upsample_nearest2d_forward};
pub use crate::gpu::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
