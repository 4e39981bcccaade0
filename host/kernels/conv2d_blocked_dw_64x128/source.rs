/// A run's partial sums, 64 output channels by 128 columns a block.
///
/// # Safety
/// As for [`blocked_gradient`].
#[inline(always)]
pub unsafe fn conv2d_blocked_dw_64x128<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: BlockedGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_gradient::<E, 4, 4, 64, 128, false>(dy, x, partial, &described) };
}