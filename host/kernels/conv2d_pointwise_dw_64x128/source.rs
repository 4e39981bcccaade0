/// A run's partial sums for 1×1 filters, 64 output channels by 128 input channels a block.
///
/// # Safety
/// As for [`pointwise_gradient`].
#[inline(always)]
pub unsafe fn conv2d_pointwise_dw_64x128<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: PointwiseGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { pointwise_gradient::<E, 64, 128>(dy, x, partial, &described) };
}