/// The gradient of the losses' sum.
///
/// # Safety
/// `logits` is valid for reads of `b · k` elements, `labels` for reads of `b` and `dlogits` for reads and writes of
/// `b · k`; `dlogits` overlaps neither. The launch gave shared memory for a sum of each thread.
#[inline(always)]
pub unsafe fn softmax_cross_entropy_backward<E: Float>(
    logits: *mut E,
    labels: *mut i32,
    dlogits: *mut E,
    b: i32,
    k: i32,
    scale: f64,
    accumulate: u32,
    block_size: i32,
) {
    // The launch has as many threads a block as this says.
    let _ = block_size;
    // SAFETY: by this function's contract; each thread has its own columns.
    unsafe {
        for_each_row(logits, labels, b, k, |row, r, top, sum, label| {
            let scale = if (label as u32) < k as u32 { E::Acc::from_f64(scale) } else { E::Acc::NAN };
            let gradient = dlogits.wrapping_add((r * k as u64) as usize);
            let mut column = u64::from(thread_idx_x());
            while column < k as u64 {
                let share = ((*row.add(column as usize)).widen() - top).exp() / sum;
                let expected = if column == label as u64 { E::Acc::ONE } else { E::Acc::ZERO };
                put(gradient.add(column as usize), (share - expected) * scale, accumulate);
                column += u64::from(block_dim_x());
            }
        });
    }
}