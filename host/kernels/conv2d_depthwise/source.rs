/// Forward or dgrad with one input channel a group.
///
/// # Safety
/// As for [`depthwise`].
#[inline(always)]
pub unsafe fn conv2d_depthwise<E: Num<Acc = f32>>(
    source: *mut E,
    filter: *mut E,
    out: *mut E,
    product: Depthwise,
    taps_h: i32,
    taps_w: i32,
    step_h: i32,
    step_w: i32,
    classes_h: FastDivmod,
    classes_w: FastDivmod,
    sources: i32,
    rows: i32,
) {
    // SAFETY: by this function's contract.
    unsafe {
        depthwise::<E>(
            source, filter, out, product, taps_h, taps_w, step_h, step_w, classes_h, classes_w, sources, rows,
        );
    };
}