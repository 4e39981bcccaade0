/// Passes the gradient on where `y`, or the forward's `x`, is above zero or NaN; elsewhere it is zero.
///
/// # Safety
/// `dy` and `y` are valid for reads and `dx` for reads and writes of `b · n` elements; `dx` overlaps neither.
#[inline(always)]
pub unsafe fn relu_backward<E: Float>(
    dy: *mut E,
    y: *mut E,
    dx: *mut E,
    b: i32,
    n: i32,
    accumulate: u32,
    block_size: i32,
) {
    let total = b as u64 * n as u64;
    let gradient = |_, dy: E, y: E| if y.widen() <= E::Acc::ZERO { E::narrow(E::Acc::ZERO) } else { dy };
    // SAFETY: by this function's contract.
    unsafe {
        if accumulate == 0 {
            zip(dy, y, dx, total, block_size, gradient);
        } else {
            for_each_index(total, block_size, |i| {
                let i = i as usize;
                put(dx.add(i), gradient(0, *dy.add(i), *y.add(i)).widen(), accumulate);
            });
        }
    }
}