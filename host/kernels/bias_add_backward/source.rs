/// Sums the gradient over each channel.
///
/// # Safety
/// `dy` is valid for reads of `b · c · h · w` elements, `dbias` for reads and writes of `c`; they do not overlap.
/// `plane` divides by `h · w`. The launch gave shared memory for a sum of each thread.
#[inline(always)]
pub unsafe fn bias_add_backward<E: Num>(
    dy: *mut E,
    dbias: *mut E,
    b: i32,
    c: i32,
    h: i32,
    w: i32,
    plane: FastDivmod64,
    accumulate: u32,
    block_size: i32,
) {
    /// Elements that a thread loads under one condition. Those of two such batches are in flight together.
    const BATCH: u64 = 4;
    // The launch has as many threads a block as this says.
    let _ = block_size;
    let image = h as u64 * w as u64;
    let items = b as u64 * image;
    let step = u64::from(block_dim_x());
    let mut channel = u64::from(block_idx_x());
    while channel < c as u64 {
        let mut sum = E::ZERO;
        let mut first = u64::from(thread_idx_x());
        while first < items {
            let load = |u: u64| {
                let item = first + u * step;
                let (batch, place) = plane.divmod(item);
                let from = dy.wrapping_add(((batch * c as u64 + channel) * image + place) as usize);
                // SAFETY: the element lies inside dy.
                unsafe { load_if(item < items, from, E::narrow(E::ZERO)) }
            };
            let four = |u: u64| [load(u), load(u + 1), load(u + 2), load(u + 3)];
            let near = four(0);
            let more = first + BATCH * step < items;
            let far = if more { four(BATCH) } else { [E::narrow(E::ZERO); BATCH as usize] };
            let sum_of = |loaded: [E; BATCH as usize]| {
                let low = E::add(loaded[0].widen(), loaded[1].widen());
                let high = E::add(loaded[2].widen(), loaded[3].widen());
                E::add(low, high)
            };
            sum = E::add(sum, sum_of(near));
            if more {
                sum = E::add(sum, sum_of(far));
            }
            first += 2 * BATCH * step;
        }
        // SAFETY: by this function's contract; the loop over channels runs alike in all threads.
        let sum = unsafe { across_block(sum, E::add) };
        if thread_idx_x() == 0 {
            // SAFETY: the channel is below `c`, and this block's.
            unsafe { put(dbias.add(channel as usize), sum, accumulate) };
        }
        channel += u64::from(grid_dim_x());
    }
}