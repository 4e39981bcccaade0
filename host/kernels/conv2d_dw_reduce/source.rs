/// Adds the runs' partial sums of dw in their order, and stores or adds the total.
///
/// # Safety
/// `partial` is valid for reads of `runs · len` elements, `dw` for reads and writes of `len`; they do not
/// overlap.
#[inline(always)]
pub unsafe fn conv2d_dw_reduce<E: Num<Acc = f32>>(
    partial: *mut f32,
    dw: *mut E,
    len: u64,
    order: SumOrder,
    runs: u32,
    accumulate: u32,
    block: i32,
) {
    for_each_index(len, block, |index| {
        let (rest, place) = order.plane.divmod(index as u32);
        let (group, tap) = order.taps.divmod(rest);
        let to = (group * order.plane.divisor() + place) * order.taps.divisor() + tap;
        let mut sum = 0.0;
        let mut first = 0;
        while first < runs {
            // Sixteen loads in flight, added in the runs' order.
            let load = |u: u32| {
                let run = first + u;
                // SAFETY: `index < len`, and `run < runs` where it is taken.
                unsafe {
                    load_if(run < runs, partial.wrapping_add((u64::from(run) * len + index) as usize), 0.0)
                }
            };
            let mut u = 0;
            let parts: [f32; 16] = [
                load(0),
                load(1),
                load(2),
                load(3),
                load(4),
                load(5),
                load(6),
                load(7),
                load(8),
                load(9),
                load(10),
                load(11),
                load(12),
                load(13),
                load(14),
                load(15),
            ];
            while u < 16 {
                sum += parts[u];
                u += 1;
            }
            first += 16;
        }
        // SAFETY: `index < len`, and no other thread has this index.
        unsafe { put(dw.add(to as usize), sum, accumulate) };
    });
}