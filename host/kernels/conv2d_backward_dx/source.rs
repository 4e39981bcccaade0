/// The gradient with respect to x (dgrad), stored or added.
///
/// # Safety
/// `dy` is valid for reads of `b·c_out·oh·ow` elements, `w` of `c_out·(c_in/g)·kh·kw`, `dx` for reads and writes
/// of `b·c_in·h·wd`; dx overlaps neither. The extents agree, `in_row` divides by `wd`, `in_plane` by `h`,
/// `in_channel` by `c_in` and `in_group` by `c_in / g`.
#[inline(always)]
pub unsafe fn conv2d_backward_dx<E: Num>(
    dy: *mut E,
    w: *mut E,
    dx: *mut E,
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
    accumulate: u32,
    kh: i32,
    kw: i32,
    stride_h: FastDivmod,
    stride_w: FastDivmod,
    pad_h: i32,
    pad_w: i32,
    g: FastDivmod,
    block_ow: i32,
) {
    for_each_index(b as u64 * c_in as u64 * h as u64 * wd as u64, block_ow, |index| {
        // SAFETY: `index < b·c_in·h·wd`, and no other thread has this index.
        unsafe {
            let sum = dx_element(
                index, dy, w, c_out, oh, ow, in_row, in_plane, in_channel, in_group, kh, kw, stride_h,
                stride_w, pad_h, pad_w, g,
            );
            put(dx.add(index as usize), sum, accumulate);
        }
    });
}