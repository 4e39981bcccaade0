/// Forward or dgrad of a convolution with one input channel a group.
///
/// # Safety
/// `source`, `filter` and `out` are valid for the tensors that `product` describes; out overlaps neither. The block has
/// the shared memory of a tile and of its filters behind that.
#[inline(always)]
pub unsafe fn conv2d_depthwise<E: Num<Acc = f32>>(
    source: *mut E,
    filter: *mut E,
    out: *mut E,
    product: Depthwise,
    taps_h: i32,
    taps_w: i32,
    step_h: i32,
    step_w: i32,
    classes_h: FastDivmod,
    classes_w: FastDivmod,
    sources: i32,
    rows: i32,
) {
    let planes = &product.planes;
    let (step_h, step_w, sources, rows) = (step_h as u32, step_w as u32, sources as u32, rows as u32);
    let lines = product.turns * rows;
    let taps = Taps { h: taps_h as u32, w: taps_w as u32, step: step_h, pitch: planes.pitch.divisor() * 4 };
    let (thread, threads) = (thread_idx_x(), block_dim_x());
    let filters = planes.place(product.tile_units * sources, 0, 0);
    let plane = i64::from(planes.h) * i64::from(planes.w);
    let outs = product.outs.divisor();
    let mut tile = block_idx_x();
    while tile < product.tiles {
        let (unit_tile, strip) = product.strips.divmod(tile);
        let first_unit = unit_tile * product.tile_units;
        let left = product.units - first_unit;
        let units = if left < product.tile_units { left } else { product.tile_units };
        let first_row = product.first_h + strip * product.groups.divisor() * lines;
        let from = source.wrapping_offset((i64::from(first_unit) * i64::from(sources) * plane) as isize);
        let first_source = first_row as i32 * step_h as i32 + product.start_h;
        // SAFETY: the units' planes lie in the source; the tile has its shared memory, behind a barrier.
        unsafe {
            planes.stage(0, from, units * sources, first_source);
            stage_filters(filters, filter, &product, first_unit, units, classes_h, classes_w);
        }
        sync_threads();
        let items = units * outs * classes_h.divisor() * product.groups.divisor() * product.out_w.divisor();
        let mut item = thread;
        while item < items {
            let (rest, column) = product.out_w.divmod(item);
            let (rest, group) = product.groups.divmod(rest);
            let (plane_of_tile, class_h) = classes_h.divmod(rest);
            let unit = product.outs.div(plane_of_tile);
            let (q, class_w) = classes_w.divmod(column + product.shift_w);
            let class = class_h * classes_w.divisor() + class_w;
            // With taps in reverse, the first may lie behind the filter's end.
            let whole_h = (classes_h.divisor() == 1)
                | (class_h + classes_h.divisor() * (taps.h - 1) < product.filter_h);
            let whole_w = (classes_w.divisor() == 1)
                | (class_w + classes_w.divisor() * (taps.w - 1) < product.filter_w);
            let word = ((planes.left as i32 + product.start_w) as u32).wrapping_add(q * step_w);
            // One source's window serves the next row; several sources take turns.
            let top = |of_unit: u32| planes.place(unit * sources + of_unit, group * lines * step_h, word);
            let first_weight =
                filters + (plane_of_tile * sources * product.classes.divisor() + class) * taps.h * taps.w * 4;
            let between = product.classes.divisor() * taps.h * taps.w * 4;
            // SAFETY: the tile and the filters were staged before the barrier.
            let (mut window, mut weights) =
                unsafe { (Window::above(top(0), taps, whole_w), load_filter(first_weight, taps)) };
            let number = i64::from(first_unit) * i64::from(outs) + i64::from(plane_of_tile);
            let row =
                ((first_row + group * lines) * classes_h.divisor() + class_h).wrapping_sub(product.shift_h);
            let out_w = product.out_w.divisor();
            let size = i64::from(product.out_h) * i64::from(out_w);
            let offset = number * size + i64::from(row as i32) * i64::from(out_w) + i64::from(column);
            let mut to = out.wrapping_offset(offset as isize);
            let mut row = row;
            let mut down = 0;
            let mut turn = 0;
            while turn < product.turns {
                // ptxas unrolls this, and the window's rows change their registers instead of moving.
                let mut r = 0;
                while r < rows {
                    let mut sum = 0.0;
                    let mut of_unit = 0;
                    while of_unit < sources {
                        // SAFETY: as above.
                        unsafe {
                            let at = top(of_unit) + down;
                            if sources > 1 {
                                window = Window::above(at, taps, whole_w);
                                weights = load_filter(first_weight + of_unit * between, taps);
                            }
                            window.advance(at, taps, whole_w);
                        }
                        sum = add_taps(sum, &window, &weights, taps, whole_h);
                        of_unit += 1;
                    }
                    // Without branches, so that rows overlap.
                    let inside = row < product.out_h;
                    // SAFETY: the element lies in the result, and no other thread has it.
                    unsafe {
                        let before = load_if(inside & (product.accumulate != 0), to, E::narrow(0.0));
                        store_if(inside, to, E::narrow(before.widen() + sum));
                    }
                    row = row.wrapping_add(classes_h.divisor());
                    to = to.wrapping_offset(classes_h.divisor() as isize * out_w as isize);
                    down += step_h * taps.pitch;
                    r += 1;
                }
                turn += 1;
            }
            item += threads;
        }
        // The next tile must not overtake a reader of this one.
        sync_threads();
        tile += grid_dim_x();
    }
}