/// Partial sums of wgrad in tiles of 64 channels.
///
/// # Safety
/// As for [`weight_gradient`].
#[inline(always)]
pub unsafe fn conv2d_dw_runs_64<E: Num<Acc = f32>>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    product: WeightGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { weight_gradient::<E, 64, 8>(dy, x, partial, &product) };
}