/// dx and dw together: the elements of dx, then those of dw, in one sweep.
///
/// # Safety
/// As for [`conv2d_backward_dx`] and [`conv2d_backward_dw`] together.
#[inline(always)]
pub unsafe fn conv2d_backward<E: Num>(
    dy: *mut E,
    x: *mut E,
    w: *mut E,
    dx: *mut E,
    dw: *mut E,
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    wd: i32,
    oh: i32,
    ow: i32,
    in_row: FastDivmod64,
    in_plane: FastDivmod64,
    in_channel: FastDivmod64,
    in_group: FastDivmod64,
    out_group: FastDivmod,
    taps: FastDivmod64,
    accumulate: u32,
    kh: i32,
    kw: FastDivmod,
    stride_h: FastDivmod,
    stride_w: FastDivmod,
    pad_h: i32,
    pad_w: i32,
    g: FastDivmod,
    block_ow: i32,
) {
    let dx_len = b as u64 * c_in as u64 * h as u64 * wd as u64;
    let dw_len = c_out as u64 * in_group.divisor() * taps.divisor();
    let (sh, sw) = (stride_h.divisor() as i32, stride_w.divisor() as i32);
    for_each_index(dx_len + dw_len, block_ow, |index| {
        // SAFETY: the index is inside dx, or inside dw after it, and no other thread has it.
        unsafe {
            if index < dx_len {
                let sum = dx_element(
                    index,
                    dy,
                    w,
                    c_out,
                    oh,
                    ow,
                    in_row,
                    in_plane,
                    in_channel,
                    in_group,
                    kh,
                    kw.divisor() as i32,
                    stride_h,
                    stride_w,
                    pad_h,
                    pad_w,
                    g,
                );
                put(dx.add(index as usize), sum, accumulate);
            } else {
                let index = index - dx_len;
                let sum = dw_element(
                    index, dy, x, b, c_in, c_out, h, wd, oh, ow, in_group, out_group, taps, kw, sh, sw,
                    pad_h, pad_w,
                );
                put(dw.add(index as usize), sum, accumulate);
            }
        }
    });
}