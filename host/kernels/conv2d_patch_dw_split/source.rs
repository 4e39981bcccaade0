/// Partial sums of wgrad with split products, 32 output channels a warp.
///
/// # Safety
/// As for `gradient`.
#[inline(always)]
pub unsafe fn conv2d_patch_dw_split<E: Factor>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    described: PatchGradient,
) {
    // SAFETY: by this function's contract.
    unsafe { gradient::<E, 2, true>(dy, x, partial, &described) };
}