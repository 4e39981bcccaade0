/// Forward or dgrad.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_patch<E: Factor>(source: *mut E, packed: *mut E, out: *mut E, described: PatchProduct) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, 4, false>(source, packed, out, &described) };
}