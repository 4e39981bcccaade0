/// Copies each element of `x` over its `scale_h × scale_w` window of `y`.
///
/// # Safety
/// `x` is valid for reads of `b · c · h · w` elements, `y` for writes of `b · c · oh · ow`; they do not overlap;
/// `oh = h · scale_h`, `ow = w · scale_w`. `row` divides by `ow` and `plane` by `oh`.
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
    plane: FastDivmod64,
    scale_h: FastDivmod,
    scale_w: FastDivmod,
    block_ow: i32,
) {
    let size = size_of::<E>() as u64;
    let lanes = lanes::<E>() as u64;
    let total = b as u64 * c as u64 * oh as u64 * ow as u64;
    let source = Enlarged { x, h: h as u64, w: w as u64, plane, scale_h, scale_w };
    let readable = Readable::new(x, b as u64 * c as u64 * h as u64 * w as u64);
    // Elements by which the first vector starts before the output.
    let skew = (y as u64 & 15) / size;
    let tile = (block_ow as u64).div_ceil(lanes);
    for_each_batch::<2>((total + skew).div_ceil(lanes), tile, |first, step, end| {
        let begin = |u: u64| {
            let index = ((first + u * step) * lanes).wrapping_sub(skew);
            let (r, column) = row.divmod(if index < total { index } else { 0 });
            let (iw, phase) = scale_w.divmod(column as u32);
            let address = source.row(r).wrapping_add(iw as usize) as u64;
            // Bitwise, so that no branch parts the loads.
            let take = (first + u * step < end)
                & (index < total)
                & (index.wrapping_add(lanes) <= total)
                & (column + lanes <= row.divisor())
                & (scale_w.divisor() <= 4)
                & readable.covers(address);
            // SAFETY: a vector's elements start at the first one's source, and the vectors around that lie in x.
            (index, phase as usize, unsafe { Unaligned::load_if(take, address) })
        };
        let finish = |(index, phase, load): (u64, usize, Unaligned)| {
            let words = load.words::<E>();
            let words = match scale_w.divisor() {
                1 => words,
                2 => Enlarged::<E>::expand::<2>(&words, phase),
                3 => Enlarged::<E>::expand::<3>(&words, phase),
                _ => Enlarged::<E>::expand::<4>(&words, phase),
            };
            // SAFETY: a vector inside the output lies on a boundary and belongs to this thread.
            unsafe { store16_if(load.taken(), y.wrapping_add(index as usize).cast(), words) };
        };
        let (near, far) = (begin(0), begin(1));
        finish(near);
        finish(far);
        let mut u = 0;
        while u < 2 {
            let (index, load) = if u == 0 { (near.0, near.2) } else { (far.0, far.2) };
            if first + u * step < end && !load.taken() {
                // SAFETY: the vector is this thread's.
                unsafe { enlarge_piecemeal(&source, y, total, row, index) };
            }
            u += 1;
        }
    });
}