/// Copies the row-major `dy` into the strided matrix `dx`, or adds it when `accumulate` is not zero.
///
/// # Safety
/// `dy` is valid for reads of `b · n` elements; `dx` for reads and writes at `i·stride_dxb + j·stride_dxn` for
/// all `i < b`, `j < n`, which are all different; they do not overlap. `tiles` and `tiles_n` count tiles as
/// [`for_each_in_tiles`] says; `row` divides by `n`, or by `b · n` when the rows lie end to end; `vectors` by the
/// number of aligned vectors that a row of dx can touch; `way` fits the strides, the alignment and
/// `accumulate`.
#[inline(always)]
pub unsafe fn flatten_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    b: i32,
    n: i32,
    stride_dxb: i32,
    stride_dxn: i32,
    way: u32,
    tiles: i64,
    tiles_n: FastDivmod64,
    row: FastDivmod64,
    vectors: FastDivmod64,
    accumulate: u32,
    block_b: i32,
    block_n: FastDivmod,
) {
    let block = block_b as u32 * block_n.divisor();
    // SAFETY: by this function's contract; `way` is the same for all threads.
    unsafe {
        match way {
            ROWS => {
                let rows = if row.divisor() == n as u64 { b as u64 } else { 1 };
                scatter_rows(dy, dx, rows, row, stride_dxb as u64, vectors, accumulate, block as i32);
            }
            COLUMNS_ALIGNED | COLUMNS => {
                let (from_pitch, to_pitch) = (n as u64, stride_dxn as u64);
                let (p, q) = (b as u64, n as u64);
                let matrix = Transpose { from: dy, from_pitch, to: dx, to_pitch, p, q };
                let (tile_p, tile_q) = (block_b as u32, block_n.divisor());
                let tiles =
                    Tiles { count: tiles as u64, side_by_side: tiles_n, tile_p, tile_q, p_first: false };
                transpose(matrix, tiles, way);
            }
            _ => for_each_in_tiles(b, n, tiles, tiles_n, block_b, block_n, |i, j| {
                let to = i * stride_dxb as u64 + j * stride_dxn as u64;
                copy_or_add(dy.add((i * n as u64 + j) as usize), dx.add(to as usize), accumulate);
            }),
        }
    }
}