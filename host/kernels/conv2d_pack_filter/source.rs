/// Packs a filter for [`taps`].
///
/// # Safety
/// `filter` is valid for reads of the whole filter, `packed` for writes of `packing.len` elements; they do not
/// overlap.
#[inline(always)]
pub unsafe fn conv2d_pack_filter<E: Num<Acc = f32>>(
    filter: *mut E,
    packed: *mut f32,
    packing: Packing,
    block: i32,
) {
    for_each_index(u64::from(packing.len), block, |index| {
        let (rest, row) = packing.padded_rows.divmod(index as u32);
        let (rest, channel) = packing.padded_channels.divmod(rest);
        let (group, tap) = packing.taps.divmod(rest);
        let offset = i64::from(group) * packing.filter_group
            + i64::from(row) * i64::from(packing.filter_row)
            + i64::from(channel) * i64::from(packing.filter_channel)
            + i64::from(tap);
        let take = (row < packing.rows) & (channel < packing.channels);
        // SAFETY: the element lies in the filter; `index < len`, and no other thread has this index.
        unsafe {
            let value = load_or_zero(take, filter.wrapping_offset(offset as isize));
            *packed.add(index as usize) = value;
        }
    });
}