/// Copies the strided matrix `input` into the row-major `output`.
///
/// # Safety
/// `input` is valid for reads at `i·stride_ib + j·stride_in` for all `i < b`, `j < n`; `output` for writes of
/// `b · n` elements; they do not overlap. `tiles` and `tiles_n` count tiles as [`for_each_in_tiles`] says; `row`
/// divides by `n`; `way` fits the strides and the alignment.
#[inline(always)]
pub unsafe fn flatten_forward<E: Num>(
    input: *mut E,
    output: *mut E,
    b: i32,
    n: i32,
    stride_ib: i32,
    stride_in: i32,
    way: u32,
    tiles: i64,
    tiles_n: FastDivmod64,
    row: FastDivmod64,
    block_b: i32,
    block_n: FastDivmod,
) {
    let total = b as u64 * n as u64;
    let block = block_b as u32 * block_n.divisor();
    // SAFETY: by this function's contract; `way` is the same for all threads.
    unsafe {
        // First, and by itself: a small copy waits for every instruction before its load.
        if opaque(way) == RUN {
            copy_run(input, output, total, block as i32);
            return;
        }
        match way {
            ROWS => {
                let (pitch, valid) = (stride_ib as u64, n as u32);
                let len = (b as u64 - 1) * pitch + n as u64;
                let source = Rows { from: input, pitch, shift: 0, valid, len, fill: E::narrow(E::ZERO) };
                gather_rows(source, output, total, row, 0, block as i32);
            }
            COLUMNS_ALIGNED | COLUMNS => {
                let (from_pitch, to_pitch) = (stride_in as u64, n as u64);
                let (p, q) = (n as u64, b as u64);
                let matrix = Transpose { from: input, from_pitch, to: output, to_pitch, p, q };
                let (tile_p, tile_q) = (block_n.divisor(), block_b as u32);
                // Tiles are counted along n first, which is down the source here.
                let tiles =
                    Tiles { count: tiles as u64, side_by_side: tiles_n, tile_p, tile_q, p_first: true };
                transpose(matrix, tiles, way);
            }
            _ => for_each_in_tiles(b, n, tiles, tiles_n, row, block_b, block_n, |i, j| {
                let from = i * stride_ib as u64 + j * stride_in as u64;
                *output.add((i * n as u64 + j) as usize) = *input.add(from as usize);
            }),
        }
    }
}