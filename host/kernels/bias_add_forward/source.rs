/// Adds the channel's bias to each element.
///
/// # Safety
/// `x` is valid for reads and `y` for writes of `b · c · h · w` elements, `bias` for reads of `c`; `y` overlaps
/// neither. `plane` divides by `h · w`, `channels` by `c`.
#[inline(always)]
pub unsafe fn bias_add_forward<E: Num>(
    x: *mut E,
    bias: *mut E,
    y: *mut E,
    b: i32,
    c: i32,
    h: i32,
    w: i32,
    plane: FastDivmod64,
    channels: FastDivmod64,
    block_size: i32,
) {
    let total = (b as u64 * c as u64) * (h as u64 * w as u64);
    let shifted = |index: u64, x: E, _| {
        // A batch of vectors may look past the end; its index still names a channel.
        let (_, channel) = channels.divmod(plane.div(index));
        // SAFETY: the channel is below `c`.
        let bias = unsafe { *bias.add(channel as usize) };
        E::narrow(E::add(x.widen(), bias.widen()))
    };
    // SAFETY: by this function's contract.
    unsafe { zip(x, x, y, total, block_size, shifted) };
}