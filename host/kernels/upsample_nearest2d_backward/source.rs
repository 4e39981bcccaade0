/// Sums each `scale_h × scale_w` window of `dy`, row by row, and stores or adds it.
///
/// # Safety
/// `dy` is valid for reads of `b · c · oh · ow` elements, `dx` for reads and writes of `b · c · h · w`; they do
/// not overlap; `oh = h · scale_h`, `ow = w · scale_w`. `row` divides by `w`.
#[inline(always)]
pub unsafe fn upsample_nearest2d_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    b: i32,
    c: i32,
    h: i32,
    w: i32,
    oh: i32,
    ow: i32,
    row: FastDivmod64,
    accumulate: u32,
    scale_h: i32,
    scale_w: i32,
    block_iw: i32,
) {
    let size = size_of::<E>() as u64;
    let lanes = lanes::<E>() as u64;
    let total = b as u64 * c as u64 * h as u64 * w as u64;
    // A row of dx is the sum of `scale_h` rows of dy that follow each other, since oh = h · scale_h.
    let windows = Windows { dy, ow: ow as u64, scale_h, scale_w };
    let element = |index: u64| {
        let (r, iw) = row.divmod(index);
        // SAFETY: `index < total`; the window lies inside dy, and no other thread has this index.
        unsafe { put(dx.add(index as usize), windows.sum(windows.first(r, iw)), accumulate) };
    };
    if accumulate != 0 || scale_w > 4 || row.divisor() * size < SHORT_ROW {
        for_each_index(total, block_iw, element);
        return;
    }
    let readable = Readable::new(dy, b as u64 * c as u64 * oh as u64 * ow as u64);
    let skew = (dx as u64 & 15) / size;
    let tile = (block_iw as u32).div_ceil(lanes as u32);
    // Then every window starts on a boundary.
    let aligned = (dy as u64 | (ow as u64 * size) | dx as u64 | (row.divisor() * size)) & 15 == 0;
    for_each_batch::<1>((total + skew).div_ceil(lanes), tile, |items| {
        let index = (items.item(0) * lanes).wrapping_sub(skew);
        let (r, iw) = row.divmod(if index < total { index } else { 0 });
        let window = windows.first(r, iw);
        let last = windows.first(r, iw + lanes).wrapping_add(((scale_h - 1) as u64 * ow as u64) as usize);
        let whole = index < total
            && index + lanes <= total
            && iw + lanes <= row.divisor()
            && readable.covers(window as u64)
            && readable.covers((last as u64).wrapping_sub(16));
        if whole {
            // SAFETY: the vector lies in one row of dx on a boundary, its windows and the vectors around them in dy.
            unsafe {
                let words = match (scale_w, aligned) {
                    (1, true) => windows.sums::<1, true>(window),
                    (2, true) => windows.sums::<2, true>(window),
                    (3, true) => windows.sums::<3, true>(window),
                    (_, true) => windows.sums::<4, true>(window),
                    (1, false) => windows.sums::<1, false>(window),
                    (2, false) => windows.sums::<2, false>(window),
                    (3, false) => windows.sums::<3, false>(window),
                    (_, false) => windows.sums::<4, false>(window),
                };
                store16_if(true, dx.wrapping_add(index as usize).cast(), words);
            }
        } else {
            // A bound that rustc cannot see keeps this short.
            let (mut j, lanes) = (0, u64::from(opaque(lanes as u32)));
            while j < lanes {
                if index.wrapping_add(j) < total {
                    element(index.wrapping_add(j));
                }
                j += 1;
            }
        }
    });
}