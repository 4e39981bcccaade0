/// Partial sums of wgrad, 64 output channels a warp.
///
/// # Safety
/// As for `gradient`.
#[inline(always)]
pub unsafe fn conv2d_patch_dw<E: Factor>(dy: *mut E, x: *mut E, partial: *mut f32, described: PatchGradient) {
    // SAFETY: by this function's contract.
    unsafe { gradient::<E, 4, false>(dy, x, partial, &described) };
}