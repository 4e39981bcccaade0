/// Forward or dgrad with split products, 128 channels by 64 pixels a block.
///
/// # Safety
/// As for [`blocked_product`].
#[inline(always)]
pub unsafe fn conv2d_blocked_split_128x64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: BlockedProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { blocked_product::<E, 4, 4, 128, 64, true>(source, packed, out, &described) };
}