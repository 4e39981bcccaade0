/// Forward or dgrad of 1×1 filters, 128 channels by 128 pixels a block.
///
/// # Safety
/// As for [`pointwise_product`].
#[inline(always)]
pub unsafe fn conv2d_pointwise_128<E: Factor>(
    source: *mut E,
    packed: *mut E,
    out: *mut E,
    described: PointwiseProduct,
) {
    // SAFETY: by this function's contract.
    unsafe { pointwise_product::<E, 4, 128>(source, packed, out, &described) };
}