/// wgrad for few input channels on tensor cores.
///
/// # Safety
/// As for [`gradient`].
#[inline(always)]
pub unsafe fn conv2d_few_dw_mma<E: Factor>(dy: *mut E, x: *mut E, partial: *mut f32, product: FewProduct) {
    // SAFETY: by this function's contract.
    unsafe { gradient::<E, false>(dy, x, partial, &product) };
}