/// Forward or dgrad tap by tap in tiles of 64 channels.
///
/// # Safety
/// As for [`taps`].
#[inline(always)]
pub unsafe fn conv2d_taps_64<E: Num<Acc = f32>>(
    source: *mut E,
    packed: *mut f32,
    out: *mut E,
    product: Gather,
    layout: Packed,
) {
    // SAFETY: by this function's contract.
    unsafe { taps::<E, 64>(source, packed, out, &product, &layout) };
}