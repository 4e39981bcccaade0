/// Forward or dgrad in tiles of 64 channels, with split products.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch_split_64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PatchProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 64, true>(source, packed, out, &described) };
}