/// Copies the chunk's columns of `dy` into the rows of `dx`, or adds them when `accumulate` is not zero.
///
/// # Safety
/// `dy` is valid for reads of `rows · c_total` elements, `dx` for reads and writes of `rows · chunk_c`; they
/// do not overlap, and `chunk_offset + chunk_c ≤ c_total`. `chunk` divides by `chunk_c`.
#[inline(always)]
pub unsafe fn channel_cat_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    chunk_c: i32,
    c_total: i32,
    chunk_offset: i32,
    rows: i64,
    chunk: FastDivmod64,
    accumulate: u32,
    block_size: i32,
) {
    let source = Rows {
        from: dy,
        pitch: c_total as u64,
        shift: -chunk_offset,
        valid: c_total as u32,
        len: rows as u64 * c_total as u64,
        fill: E::narrow(E::ZERO),
    };
    // SAFETY: column c of dx is column `chunk_offset + c` of dy, which is inside the row.
    unsafe { gather_rows(source, dx, rows as u64 * chunk_c as u64, chunk, accumulate, block_size) };
}