/// Partial sums of wgrad with one input channel a group.
///
/// # Safety
/// As for [`depthwise_gradient`].
#[inline(always)]
pub unsafe fn conv2d_depthwise_dw<E: Num<Acc = f32>>(
    dy: *mut E,
    x: *mut E,
    partial: *mut f32,
    product: DepthwiseGradient,
    taps_h: i32,
    taps_w: i32,
    step_h: i32,
    step_w: i32,
    rows: i32,
) {
    // SAFETY: by this function's contract.
    unsafe { depthwise_gradient::<E>(dy, x, partial, product, taps_h, taps_w, step_h, step_w, rows) };
}