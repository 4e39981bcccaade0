//! Magic numbers for division by multiply and shift, as the device's `FastDivmod` types use them.
//!
//! For a divisor `d` with `l = ⌈log2 d⌉`, `magic = ⌈2^(N−1+l) / d⌉` and the shift is `l`. A test compares
//! every launch's numbers with real division.

/// The words of a `FastDivmod`: divisor, magic, shift. Zero counts as one.
pub(crate) fn fast_divmod(divisor: u32) -> [u32; 3] {
    let divisor = divisor.max(1);
    let shift = 32 - (divisor - 1).leading_zeros();
    let magic = (1_u64 << (31 + shift)).div_ceil(u64::from(divisor));
    [divisor, magic as u32, shift]
}

/// The words of a `FastDivmod64`: divisor, magic, shift. Zero counts as one.
pub(crate) fn fast_divmod64(divisor: u64) -> [u64; 3] {
    let divisor = divisor.max(1);
    let shift = 64 - (divisor - 1).leading_zeros();
    let magic = (1_u128 << (63 + shift)).div_ceil(u128::from(divisor));
    [divisor, magic as u64, u64::from(shift)]
}
