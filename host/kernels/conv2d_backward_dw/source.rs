/// The gradient with respect to w (wgrad), stored or added; all zeros for an empty batch.
///
/// # Safety
/// `dy` is valid for reads of `b·c_out·oh·ow` elements, `x` of `b·c_in·h·wd`, `dw` for reads and writes of
/// `c_out·(c_in/g)·kh·kw`; dw overlaps neither. The extents agree, `in_group` divides by `c_in / g`,
/// `out_group` by `c_out / g` and `taps` by `kh · kw`.
#[inline(always)]
pub unsafe fn conv2d_backward_dw<E: Num>(
    dy: *mut E,
    x: *mut E,
    dw: *mut E,
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    wd: i32,
    oh: i32,
    ow: i32,
    in_group: FastDivmod64,
    out_group: FastDivmod,
    taps: FastDivmod64,
    accumulate: u32,
    kh: i32,
    kw: FastDivmod,
    stride_h: i32,
    stride_w: i32,
    pad_h: i32,
    pad_w: i32,
    g: i32,
    block_ow: i32,
) {
    // The taps' and groups' divisors carry these two; they are constants of the kernel all the same.
    let _ = (kh, g);
    let dw_len = c_out as u64 * in_group.divisor() * taps.divisor();
    for_each_index(dw_len, block_ow, |index| {
        // SAFETY: `index < c_out·(c_in/g)·kh·kw`, and no other thread has this index.
        unsafe {
            let sum = dw_element(
                index, dy, x, b, c_in, c_out, h, wd, oh, ow, in_group, out_group, taps, kw, stride_h,
                stride_w, pad_h, pad_w,
            );
            put(dw.add(index as usize), sum, accumulate);
        }
    });
}