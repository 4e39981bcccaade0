/// Forward or dgrad of 1×1 filters, 64 channels by 128 pixels a block.
///
/// # Safety
/// As for [`pointwise_product`].
#[inline(always)]
pub unsafe fn conv2d_pointwise_64<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PointwiseProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { pointwise_product::<E, 2, 64>(source, packed, out, &described) };
}