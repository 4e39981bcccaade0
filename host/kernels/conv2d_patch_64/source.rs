/// Forward or dgrad in tiles of 64 channels.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch_64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PatchProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 64, false>(source, packed, out, &described) };
}