/// Copies the rows of `x` into their columns of `y`.
///
/// # Safety
/// `x` is valid for reads of `rows · chunk_c` elements, `y` for writes of `rows · c_total`; they do not
/// overlap, and `chunk_offset + chunk_c ≤ c_total`. `chunk` divides by `chunk_c`, and `pieces` by the number of
/// pieces of a row's window of `y`, as [`scatter_rows`] says.
#[inline(always)]
pub unsafe fn channel_cat_forward<E: Num>(
    x: *mut E,
    y: *mut E,
    chunk_c: i32,
    c_total: i32,
    chunk_offset: i32,
    rows: i64,
    chunk: FastDivmod64,
    pieces: FastDivmod64,
    block_size: i32,
) {
    let _ = chunk_c;
    // SAFETY: row r's window starts at `r · c_total + chunk_offset` and ends inside the row.
    unsafe {
        let window = y.add(chunk_offset as usize);
        scatter_rows(x, window, rows as u64, chunk, c_total as u64, pieces, 0, block_size);
    }
}