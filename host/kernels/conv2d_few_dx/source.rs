/// dgrad for few channels.
///
/// # Safety
/// `dy`, `filter` and `dx` are valid for the tensors that `product` describes; dx overlaps neither. The block has the
/// shared memory of the staged channels' planes and weights.
#[inline(always)]
pub unsafe fn conv2d_few_dx<E: Num<Acc = f32>>(
    dy: *mut E,
    filter: *mut E,
    dx: *mut E,
    product: FewChannels,
    taps_h: i32,
    taps_w: i32,
    stride_h: i32,
    stride_w: i32,
    kh: i32,
    kw: i32,
    channels: i32,
) {
    let constants = Constants {
        taps: [taps_h as u32, taps_w as u32],
        stride: [stride_h as u32, stride_w as u32],
        kernel: [kh as u32, kw as u32],
        channels: channels as u32,
    };
    let [taps_h, taps_w] = constants.taps;
    let planes = &product.planes;
    let thread = thread_idx_x();
    let line = planes.pitch.divisor() * 4;
    let weights_at = planes.place(product.staged, 0, 0);
    let dy_plane = i64::from(planes.h) * i64::from(planes.w);
    let mut tile = block_idx_x();
    while tile < product.tiles {
        let (rest, strip) = product.strips.divmod(tile);
        let (rest, column_block) = product.column_blocks.divmod(rest);
        let (rest, class_w) = product.class_blocks_w.divmod(rest);
        let (rest, class_h) = product.class_blocks_h.divmod(rest);
        let (rest, channel) = product.channel_blocks.divmod(rest);
        let (batch, group) = product.groups.divmod(rest);
        let part = Part {
            first_class_h: constants.first_class(0, class_h),
            first_class_w: constants.first_class(1, class_w),
            first_channel: channel * CHANNELS as u32,
            group,
        };
        let first_row = product.first_h + strip * product.row_groups * CELLS as u32;
        let first_reduced = i64::from(batch * product.groups.divisor() + group) * i64::from(product.reduced);
        let from = dy.wrapping_offset((first_reduced * dy_plane) as isize);
        let (row_group, column) = product.columns.divmod(thread);
        let column = column_block * product.columns.divisor() + column;
        let live = (row_group < product.row_groups) & (column < product.all_columns);
        let (row_group, column) = if live { (row_group, column) } else { (0, 0) };
        let mut sums = [[[0.0_f32; CELLS]; CHANNELS]; CHANNELS];
        // Column `q + t + 1 − taps` of dy; the words left of a tile's column 0 are enough for the first.
        let word = (planes.left + 1 + product.first_w + column).wrapping_sub(taps_w);
        let top = planes.place(0, row_group * CELLS as u32, word);
        let mut first = 0;
        while first < product.reduced {
            let left = product.reduced - first;
            let staged = if left < product.staged { left } else { product.staged };
            // SAFETY: the channels lie in dy and in the filter, and have their shared memory; barriers part what is
            // staged from its readers.
            unsafe {
                let from = from.wrapping_offset((i64::from(first) * dy_plane) as isize);
                planes.stage(0, from, staged, first_row as i32 + 1 - taps_h as i32);
                stage_weights(weights_at, filter, &product, constants, part, first, staged);
                sync_threads();
                if live {
                    let mut k = 0;
                    while k < staged {
                        let top = top + planes.place(k, 0, 0);
                        let weights = weights_at + k * product.weights.divisor() * 4;
                        add_channel(&mut sums, top, line, weights, constants, part);
                        k += 1;
                    }
                }
            }
            sync_threads();
            first += staged;
        }
        let cell = Cell {
            live,
            row: first_row + row_group * CELLS as u32,
            column: product.first_w + column,
            first_channel: i64::from(batch * product.groups.divisor() + group) * i64::from(product.channels),
        };
        // SAFETY: the elements lie in dx, and no other thread has them.
        unsafe {
            store(dx, &product, constants, part, cell, 0, &sums[0]);
            store(dx, &product, constants, part, cell, 1, &sums[1]);
            store(dx, &product, constants, part, cell, 2, &sums[2]);
            store(dx, &product, constants, part, cell, 3, &sums[3]);
        }
        tile += grid_dim_x();
    }
}