/// wgrad for few input channels with split products.
///
/// # Safety
/// As for [`gradient`].
#[inline(always)]
pub unsafe fn conv2d_few_dw_split<E: Factor>(dy: *mut E, x: *mut E, partial: *mut f32, product: FewProduct) {
    // SAFETY: by this function's contract.
    unsafe { gradient::<E, true>(dy, x, partial, &product) };
}