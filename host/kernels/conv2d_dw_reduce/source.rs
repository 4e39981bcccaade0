/// Adds the runs' partial sums of dw, and stores or adds the total. A block has `2^log_elements` elements; the threads that
/// share one, eight for example, add every eighth run in its order, and then those eight.
///
/// # Safety
/// `partial` is valid for reads of `runs · len` elements, `dw` for reads and writes of `len`; they do not
/// overlap. A block has 256 threads and shared memory for an f32 of each.
#[inline(always)]
pub unsafe fn conv2d_dw_reduce<E: Num<Acc = f32>>(
    partial: *mut f32,
    dw: *mut E,
    len: u64,
    order: SumOrder,
    runs: u32,
    log_elements: u32,
    accumulate: u32,
) {
    let elements = 1 << (log_elements % 32);
    let slices = block_dim_x() >> (log_elements % 32);
    let (slice, lane) = (thread_idx_x() >> (log_elements % 32), thread_idx_x() & (elements - 1));
    let mut first = u64::from(block_idx_x()) * u64::from(elements);
    while first < len {
        let index = first + u64::from(lane);
        let mut sum = 0.0;
        let mut run = slice;
        while run < runs {
            let load = |u: u32| {
                let run = run + u * slices;
                let at = partial.wrapping_add((u64::from(run) * len + index) as usize);
                // SAFETY: `index < len`, and `run < runs` where it is taken.
                unsafe { load_if((run < runs) & (index < len), at, 0.0) }
            };
            // Eight loads in flight.
            let parts = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
            let mut u = 0;
            while u < 8 {
                sum += parts[u];
                u += 1;
            }
            run += 8 * slices;
        }
        // SAFETY: each thread has its own place; barriers part writers and readers.
        unsafe { shared_store(thread_idx_x() * 4, sum) };
        sync_threads();
        if slice == 0 && index < len {
            let mut total: f32 = 0.0;
            let mut slice = 0;
            while slice < slices {
                // SAFETY: stored before the barrier.
                total += unsafe { shared_load::<f32>((slice * elements + lane) * 4) };
                slice += 1;
            }
            let (rest, place) = order.plane.divmod(index as u32);
            let (group, tap) = order.taps.divmod(rest);
            let to = (group * order.plane.divisor() + place) * order.taps.divisor() + tap;
            // SAFETY: `index < len`, and no other thread has this index.
            unsafe { put(dw.add(to as usize), total, accumulate) };
        }
        sync_threads();
        first += u64::from(grid_dim_x()) * u64::from(elements);
    }
}