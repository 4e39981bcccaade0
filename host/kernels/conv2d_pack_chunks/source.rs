/// Packs a filter for [`product`].
///
/// # Safety
/// `filter` is valid for reads of the whole filter, `packed` for writes of `packing.len` elements; they do not
/// overlap.
#[inline(always)]
pub unsafe fn conv2d_pack_chunks<E: Num<Acc = f32>>(
    filter: *mut E,
    packed: *mut E,
    packing: ChunkPacking,
    block: i32,
) {
    let chunk_channels = CHUNK / size_of::<E>() as u32;
    for_each_index(u64::from(packing.len), block, |index| {
        let (rest, inside) = (index as u32 / chunk_channels, index as u32 % chunk_channels);
        let (rest, row) = packing.padded_rows.divmod(rest);
        let (rest, tap) = packing.taps.divmod(rest);
        let (group, chunk) = packing.chunks.divmod(rest);
        let channel = chunk * chunk_channels + inside;
        let offset = i64::from(group) * packing.filter_group
            + i64::from(row) * i64::from(packing.filter_row)
            + i64::from(channel) * i64::from(packing.filter_channel)
            + i64::from(tap);
        let take = (row < packing.rows) & (channel < packing.channels);
        // SAFETY: the element lies in the filter; `index < len`, and no other thread has this index.
        unsafe {
            let value = load_if(take, filter.wrapping_offset(offset as isize), E::narrow(0.0));
            // To nearest, ties away from zero, in integers: the conversion instruction needs sm_80.
            let bits = value.widen().to_bits();
            let finite = bits & 0x7f80_0000 != 0x7f80_0000;
            let number = if packing.round != 0 && finite { (bits + 0x1000) & !0x1fff } else { plain(bits) };
            *packed.add(index as usize) =
                if size_of::<E>() == 4 { E::narrow(f32::from_bits(number)) } else { value };
        }
    });
}