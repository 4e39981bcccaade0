/// Adds the runs' partial sums of dw in their order, and stores or adds the total.
///
/// # Safety
/// `partial` is valid for reads of `runs · len` elements, `dw` for reads and writes of `len`; they do not
/// overlap.
#[inline(always)]
pub unsafe fn conv2d_dw_reduce<E: Num<Acc = f32>>(
    partial: *mut f32,
    dw: *mut E,
    len: u64,
    runs: u32,
    accumulate: u32,
    block: i32,
) {
    for_each_index(len, block, |index| {
        let mut sum = 0.0;
        let mut run = 0;
        while run < runs {
            // SAFETY: `index < len` and `run < runs`.
            sum += unsafe { *partial.add((u64::from(run) * len + index) as usize) };
            run += 1;
        }
        // SAFETY: `index < len`, and no other thread has this index.
        unsafe { put(dw.add(index as usize), sum, accumulate) };
    });
}