/// A run's partial sums of dw for few input channels, to `partial[run][group][row][channel, tap]`.
///
/// # Safety
/// `dy` and `x` are valid for the tensors that `product` describes, `partial` for all runs' sums; it overlaps neither.
/// The block has a warp for each 32 of its columns, and the shared memory of a tile of x and one of dy.
#[inline(always)]
pub unsafe fn conv2d_few_dw_mma<E: Factor>(dy: *mut E, x: *mut E, partial: *mut f32, product: FewProduct) {
    let element = size_of::<E>() as u32;
    // Pixels of a step.
    let depth = 32 / element;
    let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
    let (g, t) = (lane / 4, lane % 4);
    let x_plane = i64::from(product.h) * i64::from(product.w);
    let dy_plane = i64::from(product.out_h.divisor()) * i64::from(product.out_w);
    let x_lines = product.channels * product.kh.divisor();
    let dy_tile = (x_lines * product.x_pitch.divisor() * element).next_multiple_of(128);
    let dy_pitch = product.dy_pitch.divisor() * element;
    let a_lane = dy_tile + lane % 16 * dy_pitch + lane / 16 * 16;
    let block_columns = block_dim_x() / 32 * WARP_COLUMNS;
    let mut block = block_idx_x();
    while block < product.blocks {
        let (rest, column_block) = product.column_blocks.divmod(block);
        let (rest, row_block) = product.row_blocks.divmod(rest);
        let (run, group) = product.groups.divmod(rest);
        let first_row = row_block * BLOCK_ROWS;
        let left = product.rows - first_row;
        let rows = if left < BLOCK_ROWS { left } else { BLOCK_ROWS };
        let first_column = column_block * block_columns + warp * WARP_COLUMNS;
        // Where this lane's column of a fragment meets pixel 0.
        let met = |n: u32| {
            let column = first_column + n * 8 + g;
            let (line, j) = product.kw.divmod(if column < product.columns { column } else { 0 });
            (line * product.x_pitch.divisor() + product.start + j) * element
        };
        let met = [met(0), met(1), met(2), met(3)];
        let mut sums = [[[0.0_f32; 4]; 4]; 4];
        let start = run * product.run;
        let left = product.tiles - start;
        let end = start + if left < product.run { left } else { product.run };
        let mut tile = start;
        while tile < end {
            let (batch, row) = product.out_h.divmod(tile);
            let of_batch = i64::from(batch * product.groups.divisor() + group);
            let x_from = x.wrapping_offset((of_batch * i64::from(product.channels) * x_plane) as isize);
            let dy_from = (of_batch * i64::from(product.rows) + i64::from(first_row)) * dy_plane
                + i64::from(row) * i64::from(product.out_w);
            let dy_from = dy.wrapping_offset(dy_from as isize);
            let x_row = row as i32 * product.step_h + product.start_h;
            let x_tile = Tile {
                at: 0,
                lines: x_lines,
                left: product.left,
                w: product.w as u32,
                pitch: product.x_pitch,
                vectors: product.x_vectors,
            };
            let dy_tile = Tile {
                at: dy_tile,
                lines: BLOCK_ROWS,
                left: 0,
                w: product.out_w,
                pitch: product.dy_pitch,
                vectors: product.dy_vectors,
            };
            // SAFETY: the rows lie in their tensors where they count; the tiles have their shared memory, and barriers
            // part their stores from their readers. All lanes multiply together.
            unsafe {
                stage(x_tile, x, |line| {
                    let (channel, i) = product.kh.divmod(line);
                    let row = x_row + i as i32;
                    let offset = i64::from(channel) * x_plane + i64::from(row) * i64::from(product.w);
                    // A negative row is a huge unsigned one.
                    (x_from.wrapping_offset(offset as isize), (row as u32) < product.h as u32)
                });
                stage(dy_tile, dy, |line| {
                    let offset = i64::from(line) * dy_plane;
                    (dy_from.wrapping_offset(offset as isize), line < rows)
                });
                sync_threads();
                let mut first = 0;
                while first < product.out_w {
                    multiply::<E>(&mut sums, a_lane + first * element, dy_pitch, met, first, t, &product);
                    first += depth;
                }
            }
            // The next tile must not overtake a reader of this one.
            sync_threads();
            tile += 1;
        }
        let number = i64::from(run * product.groups.divisor() + group) * i64::from(product.rows);
        let mut m = 0;
        while m < 4 {
            let mut n = 0;
            while n < 4 {
                let mut part = 0;
                while part < 4 {
                    let row = first_row + m * 16 + part / 2 * 8 + g;
                    let column = first_column + n * 8 + 2 * t + part % 2;
                    if (row < product.rows) & (column < product.columns) {
                        let offset =
                            (number + i64::from(row)) * i64::from(product.columns) + i64::from(column);
                        // SAFETY: the element lies in the run's sums, and no other thread has it.
                        unsafe {
                            *partial.wrapping_offset(offset as isize) =
                                sums[m as usize][n as usize][part as usize];
                        }
                    }
                    part += 1;
                }
                n += 1;
            }
            m += 1;
        }
        block += grid_dim_x();
    }
}