/// dgrad for few channels on tensor cores.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
pub unsafe fn conv2d_few_mma<E: Factor>(
    dy: *mut E,
    filter: *mut E,
    dx: *mut E,
    described: FewMatrix,
    taps: i32,
    tap_groups: i32,
) {
    // SAFETY: by this function's contract.
    unsafe { product::<E, LINES, false>(dy, filter, dx, &described, [taps as u32, tap_groups as u32]) };
}