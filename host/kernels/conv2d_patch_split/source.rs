/// Forward or dgrad with split products.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch_split<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PatchProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 2, true>(source, packed, out, &described) };
}