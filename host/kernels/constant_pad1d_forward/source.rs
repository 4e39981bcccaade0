/// Copies the rows of `input` between the pads and writes `value` into the pads.
///
/// # Safety
/// `input` is valid for reads of `b · c · l` elements, `output` for writes of `b · c · ol`; they do not
/// overlap, and `ol = l + pad_left + pad_right`. `row` divides by `ol`.
#[inline(always)]
pub unsafe fn constant_pad1d_forward<E: Num>(
    input: *mut E,
    output: *mut E,
    b: i32,
    c: i32,
    l: i32,
    ol: i32,
    value: E,
    row: FastDivmod64,
    pad_left: i32,
    pad_right: i32,
    block_ol: i32,
) {
    // The right pad is what is left of `ol`; it is a constant of the kernel all the same.
    let _ = pad_right;
    let planes = b as u64 * c as u64;
    let source = Rows {
        from: input,
        pitch: l as u64,
        shift: pad_left,
        valid: l as u32,
        len: planes * l as u64,
        fill: value,
    };
    // SAFETY: by this function's contract.
    unsafe { gather_rows(source, output, planes * ol as u64, row, 0, block_ol) };
}