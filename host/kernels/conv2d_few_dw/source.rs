/// Partial sums of wgrad for few input channels.
///
/// # Safety
/// As for [`few_gradient`].
#[inline(always)]
pub unsafe fn conv2d_few_dw<E: Num<Acc = f32>>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    product: FewGradient,
    taps_w: i32,
    step_w: i32,
) {
    // SAFETY: by this function's contract.
    unsafe { few_gradient::<E>(dy, x, partial, product, taps_w, step_w) };
}