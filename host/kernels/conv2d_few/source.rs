/// dgrad for few channels.
///
/// # Safety
/// As for [`few_channels`].
#[inline(always)]
pub unsafe fn conv2d_few<E: Num<Acc = f32>>(
    dy: *mut E,
    filter: *mut E,
    dx: *mut E,
    product: FewChannels,
    taps_h: i32,
    taps_w: i32,
    stride_h: i32,
    stride_w: i32,
    kh: i32,
    kw: i32,
    channels: i32,
) {
    // SAFETY: by this function's contract.
    unsafe {
        few_channels::<E>(dy, filter, dx, product, taps_h, taps_w, stride_h, stride_w, kh, kw, channels);
    };
}