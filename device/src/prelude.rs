//! What a kernel body may use; `source()` of a kernel compiles against this module.

pub use crate::bias_add::{bias_add_backward, bias_add_forward};
pub use crate::cast::{cast_each, cast_to_bf16, cast_to_f16, cast_to_f32, cast_to_f64};
pub use crate::channel_cat::{channel_cat_backward, channel_cat_forward};
pub use crate::constant_pad1d::{constant_pad1d_backward, constant_pad1d_forward};
pub use crate::conv2d::{
    SUMMED, conv2d_backward, conv2d_backward_dw, conv2d_backward_dx, conv2d_forward, dw_element, dx_element,
};
pub use crate::conv2d_blocked::*;
pub use crate::conv2d_blocked_dw::*;
pub use crate::conv2d_depthwise::*;
pub use crate::conv2d_depthwise_dw::*;
pub use crate::conv2d_few::*;
pub use crate::conv2d_few_dw::*;
pub use crate::conv2d_few_dw_mma::*;
pub use crate::conv2d_patch::*;
pub use crate::conv2d_patch_dw::*;
pub use crate::conv2d_pointwise::*;
pub use crate::conv2d_pointwise_dw::*;
pub use crate::conv2d_prepare::*;
pub use crate::conv2d_small::*;
pub use crate::conv2d_small_dw::*;
pub use crate::conv2d_tiled::*;
pub use crate::divmod::{FastDivmod, FastDivmod64};
pub use crate::flatten::{
    COLUMNS, COLUMNS_ALIGNED, ROWS, RUN, flatten_backward, flatten_forward, for_each_in_tiles, transpose,
};
pub use crate::gpu::*;
pub use crate::map::zip;
pub use crate::math::{Float, Real, max};
pub use crate::mma::*;
pub use crate::num::{Bf16, F16, Num, copy_or_add, put};
pub use crate::patch::*;
pub use crate::planes::*;
pub use crate::reduce::across_block;
pub use crate::relu::{relu_backward, relu_forward};
pub use crate::rows::*;
pub use crate::run::copy_run;
pub use crate::sgd_step::sgd_step;
pub use crate::softmax_cross_entropy::{
    for_each_row, softmax_cross_entropy_backward, softmax_cross_entropy_forward,
};
pub use crate::sweep::{Batch, for_each_batch, for_each_index, has_a_thread_each};
pub use crate::tile::*;
pub use crate::transpose::{Tiles, Transpose, transpose_aligned, transpose_shared};
pub use crate::upsample_nearest2d::*;
pub use crate::vector::{Readable, Unaligned, lane, lanes, set_lane};
