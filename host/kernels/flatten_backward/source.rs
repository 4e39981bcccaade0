/// Copies the row-major `dy` into the strided matrix `dx`, or adds it when `accumulate` is not zero.
///
/// # Safety
/// `dy` is valid for reads of `b · n` elements; `dx` for reads and writes at `i·stride_dxb + j·stride_dxn` for
/// all `i < b`, `j < n`, which are all different; they do not overlap. `tiles` and `tiles_n` count tiles as
/// [`for_each_in_tiles`] says; `row` divides by `n`, `pieces` by the
/// number of pieces of a row of dx, as [`scatter_rows`] says; `way` fits the strides, the alignment and
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
    pieces: FastDivmod64,
    accumulate: u32,
    block_b: i32,
    block_n: FastDivmod,
) {
    let block = block_b as u32 * block_n.divisor();
    // SAFETY: by this function's contract; `way` is the same for all threads.
    unsafe {
        // First, and by itself: a small copy waits for every instruction before its load.
        if opaque(way) == RUN {
            copy_run(dy, dx, b as u64 * n as u64, block as i32);
            return;
        }
        match way {
            ROWS => {
                let pitch = stride_dxb as u64;
                scatter_rows(dy, dx, b as u64, row, pitch, pieces, accumulate, block as i32);
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
            _ => for_each_in_tiles(b, n, tiles, tiles_n, row, block_b, block_n, |i, j| {
                let to = i * stride_dxb as u64 + j * stride_dxn as u64;
                copy_or_add(dy.add((i * n as u64 + j) as usize), dx.add(to as usize), accumulate);
            }),
        }
    }
}