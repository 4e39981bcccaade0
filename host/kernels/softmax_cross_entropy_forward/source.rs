/// The loss of each row.
///
/// # Safety
/// `logits` is valid for reads of `b · k` elements, `labels` for reads of `b` and `loss` for writes of `b`; `loss`
/// overlaps neither. The launch gave shared memory for a sum of each thread.
#[inline(always)]
pub unsafe fn softmax_cross_entropy_forward<E: Float>(
    logits: *mut E,
    labels: *mut i32,
    loss: *mut E,
    b: i32,
    k: i32,
    scale: f64,
    block_size: i32,
) {
    // The launch has as many threads a block as this says.
    let _ = block_size;
    // SAFETY: by this function's contract; a label is followed only where it names a column.
    unsafe {
        for_each_row(logits, labels, b, k, |row, r, top, sum, label| {
            if thread_idx_x() == 0 {
                let value = if (label as u32) < k as u32 {
                    (sum.ln() + (top - (*row.add(label as usize)).widen())) * E::Acc::from_f64(scale)
                } else {
                    E::Acc::NAN
                };
                *loss.add(r as usize) = E::narrow(value);
            }
        });
    }
}