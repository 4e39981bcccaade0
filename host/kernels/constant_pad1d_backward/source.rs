/// Copies the gradient between the pads; elements that a negative pad cropped get zero.
///
/// # Safety
/// `dy` is valid for reads of `b · c · ol` elements, `dx` for reads and writes of `b · c · l`; they do not
/// overlap, and `ol = l + pad_left + pad_right`. `row` divides by `l`.
#[inline(always)]
pub unsafe fn constant_pad1d_backward<E: Num>(
    dy: *mut E,
    dx: *mut E,
    b: i32,
    c: i32,
    l: i32,
    ol: i32,
    row: FastDivmod64,
    accumulate: u32,
    pad_left: i32,
    pad_right: i32,
    block_ol: i32,
) {
    let _ = pad_right;
    let planes = b as u64 * c as u64;
    let source = Rows {
        from: dy,
        pitch: ol as u64,
        shift: pad_left.wrapping_neg(),
        valid: ol as u32,
        len: planes * ol as u64,
        fill: E::narrow(E::ZERO),
    };
    // SAFETY: by this function's contract.
    unsafe { gather_rows(source, dx, planes * l as u64, row, accumulate, block_ol) };
}