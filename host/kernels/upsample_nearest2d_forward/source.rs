/// Copies each element of `x` over its `scale_h × scale_w` window of `y`.
///
/// Where the output's rows lie on 16-byte boundaries, a thread makes a vector once and stores it to the
/// `scale_h` rows that repeat it. Elsewhere the output is one row of vectors.
///
/// # Safety
/// `x` is valid for reads of `b · c · h · w` elements, `y` for writes of `b · c · oh · ow`; they do not overlap;
/// `oh = h · scale_h`, `ow = w · scale_w`. `row` divides by `ow`, `vectors` by the number of aligned vectors that an
/// output row can touch, `tall` by `scale_h`.
#[inline(always)]
pub unsafe fn upsample_nearest2d_forward<E: Num>(
    x: *mut E,
    y: *mut E,
    b: i32,
    c: i32,
    h: i32,
    w: i32,
    oh: i32,
    ow: i32,
    row: FastDivmod64,
    vectors: FastDivmod64,
    tall: FastDivmod64,
    scale_h: i32,
    scale_w: FastDivmod,
    block_ow: i32,
) {
    let (lanes, size) = (lanes::<E>() as u64, size_of::<E>() as u64);
    let (w, width) = (w as u64, ow as u64);
    let rows = b as u64 * c as u64 * h as u64;
    let source = Enlarged { x, w, scale_w, readable: Readable::new(x, rows * w) };
    let tile = (block_ow as u32).div_ceil(lanes as u32);
    // SAFETY: by this function's contract.
    unsafe {
        if (y as u64 | (width * size)) & 15 == 0 {
            for_each_batch::<2>(rows * vectors.divisor(), tile, |items| {
                enlarge_aligned(source, y, vectors, scale_h, width, items);
            });
        } else {
            let total = b as u64 * c as u64 * oh as u64 * width;
            // Elements by which the first vector starts before the output.
            let skew = (y as u64 & 15) / size;
            for_each_batch::<BATCH>((total + skew).div_ceil(lanes), tile, |items| {
                enlarge_flat(source, y, row, tall, total, skew, items);
            });
        }
    }
}