/// Forward or dgrad, 64 channels by 128 pixels a block.
///
/// # Safety
/// As for [`blocked_product`].
#[inline(always)]
pub unsafe fn conv2d_blocked_64x128<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: BlockedProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_product::<E, 4, 4, 64, 128, false>(source, packed, out, &described) };
}