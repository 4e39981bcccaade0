/// Forward or dgrad in tiles of 64 channels.
///
/// # Safety
/// As for [`gather`].
#[inline(always)]
pub unsafe fn conv2d_gather_64<E: Num<Acc = f32>>(
    source: *mut E,
    filter: *mut E,
    out: *mut E,
    product: Gather,
) {
    // SAFETY: by this function's contract.
    unsafe { gather::<E, 64>(source, filter, out, &product) };
}