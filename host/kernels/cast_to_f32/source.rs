/// Converts to f32.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · n` elements; they do not overlap.
#[inline(always)]
pub unsafe fn cast_to_f32<E: Float>(x: *mut E, y: *mut f32, b: i32, n: i32, block_size: i32) {
    // SAFETY: by this function's contract.
    unsafe { cast_each(x, y, b as u64 * n as u64, block_size, |x| x.widen().to_f32()) };
}