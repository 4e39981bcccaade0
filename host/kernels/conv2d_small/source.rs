/// Forward, dgrad, wgrad, or dgrad and wgrad: the blocks of `product`, then those of `gradient`, which has dy in
/// `source`.
///
/// # Safety
/// As for [`small_product`], and behind its blocks for [`small_gradient`].
#[inline(always)]
pub unsafe fn conv2d_small<E: Num<Acc: Num<Acc = E::Acc>>>(
    source: *mut E,
    filter: *mut E,
    out: *mut E,
    x: *mut E,
    dw: *mut E,
    product: SmallProduct,
    gradient: SmallGradient,
) {
    let mut block = block_idx_x();
    while block < product.blocks + gradient.blocks {
        // SAFETY: by this function's contract.
        unsafe {
            if block < product.blocks {
                small_product(source, filter, out, &product, block);
            } else {
                small_gradient(source, x, dw, &gradient, block - product.blocks);
            }
        }
        // The next sums must not overtake a reader of these.
        sync_threads();
        block += grid_dim_x();
    }
}