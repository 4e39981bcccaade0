/// Replaces what is below zero by zero; NaN stays.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn relu_forward<E: Float>(x: *mut E, y: *mut E, b: i32, n: i32, block_size: i32) {
    let rectify = |_, x: E, _| if x.widen().is_below_zero() { E::narrow(E::Acc::ZERO) } else { x };
    // SAFETY: by this function's contract.
    unsafe { zip(x, x, y, b as u64 * n as u64, block_size, rectify) };
}