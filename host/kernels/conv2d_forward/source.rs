/// The convolution of `x` with `w`.
///
/// # Safety
/// `x` is valid for reads of `b·c_in·h·wd` elements, `w` of `c_out·(c_in/g)·kh·kw`, `y` for writes of
/// `b·c_out·oh·ow`; y overlaps neither. The extents agree, `row` divides by `ow`, `plane` by `oh`, `channel`
/// by `c_out` and `group` by `c_out / g`.
#[inline(always)]
pub unsafe fn conv2d_forward<E: Num>(
    x: *mut E,
    w: *mut E,
    y: *mut E,
    b: i32,
    c_in: i32,
    c_out: i32,
    h: i32,
    wd: i32,
    oh: i32,
    ow: i32,
    row: FastDivmod64,
    plane: FastDivmod64,
    channel: FastDivmod64,
    group: FastDivmod,
    kh: i32,
    kw: i32,
    stride_h: i32,
    stride_w: i32,
    pad_h: i32,
    pad_w: i32,
    g: FastDivmod,
    block_ow: i32,
) {
    let cig = g.div(c_in as u32) as i32;
    for_each_index(b as u64 * c_out as u64 * oh as u64 * ow as u64, block_ow, |index| {
        let (r, column) = row.divmod(index);
        let (bc, line) = plane.divmod(r);
        let (batch, co) = channel.divmod(bc);
        let first_ci = i64::from(group.div(co as u32)) * i64::from(cig);
        let top = line as i64 * i64::from(stride_h) - i64::from(pad_h);
        let left = column as i64 * i64::from(stride_w) - i64::from(pad_w);
        let (mut total, mut sum) = (E::ZERO, E::ZERO);
        let mut ci = 0;
        while ci < cig {
            let image = (batch as i64 * i64::from(c_in) + first_ci + i64::from(ci)) * i64::from(h);
            let taps = (co as i64 * i64::from(cig) + i64::from(ci)) * i64::from(kh);
            let mut i = 0;
            while i < kh {
                let ih = top + i64::from(i);
                if ih >= 0 && ih < i64::from(h) {
                    let x_row = (image + ih) * i64::from(wd);
                    let w_row = (taps + i64::from(i)) * i64::from(kw);
                    let mut j = 0;
                    while j < kw {
                        let iw = left + i64::from(j);
                        if iw >= 0 && iw < i64::from(wd) {
                            // SAFETY: ci, ih, iw are inside the image and ci, i, j inside the filter.
                            unsafe {
                                let value = *x.offset((x_row + iw) as isize);
                                let tap = *w.offset((w_row + i64::from(j)) as isize);
                                sum = E::mul_add(value, tap, sum);
                            }
                        }
                        j += 1;
                    }
                }
                i += 1;
            }
            ci += 1;
            if ci % SUMMED == 0 {
                total = E::add(total, sum);
                sum = E::ZERO;
            }
        }
        // SAFETY: `index < b·c_out·oh·ow`, and no other thread has this index.
        unsafe { put(y.add(index as usize), E::add(total, sum), 0) };
    });
}