/// Converts to bfloat16.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn cast_to_bf16<E: Float>(x: *mut E, y: *mut Bf16, b: i32, n: i32, block_size: i32) {
    // SAFETY: by this function's contract.
    unsafe { cast_each(x, y, b as u64 * n as u64, block_size, |x| Bf16::narrow(x.widen().to_odd_f32())) };
}