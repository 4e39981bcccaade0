/// Replaces what is below zero by zero; NaN stays.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn relu_forward<E: Float>(x: *mut E, y: *mut E, b: i32, n: i32, block_size: i32) {
    let rectify = |_, x: E, _| {
        let value = x.widen();
        E::narrow(if value <= E::Acc::ZERO { E::Acc::ZERO } else { value })
    };
    // SAFETY: by this function's contract.
    unsafe { zip(x, x, y, b as u64 * n as u64, block_size, rectify) };
}