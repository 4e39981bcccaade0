/// Packs a filter and brings up to two images to the blocked format: `blocked[group][plane][n][pixel][channel of the
/// plane]` is `image[n][group][channel][pixel]`, or zero behind a group's last channel.
///
/// # Safety
/// What has parts is valid for reads as `preparation` describes it, images on a boundary of their `wide` elements; where
/// it goes for writes of all its rows, on a 16-byte boundary. What is written overlaps nothing.
#[inline(always)]
pub unsafe fn conv2d_prepare<E: Factor>(
    filter: *mut E,
    packed: *mut E,
    image: *mut E,
    blocked: *mut E,
    other: *mut E,
    other_blocked: *mut E,
    preparation: Preparation,
    block: i32,
) {
    for_each_index(u64::from(preparation.end), block, |index| {
        let part = index as u32;
        // SAFETY: by this function's contract; each index is another part.
        unsafe {
            if part < preparation.first {
                pack(filter, packed, &preparation.packing, part);
            } else if part < preparation.second {
                block_channels(image, blocked, &preparation.image, part - preparation.first);
            } else {
                block_channels(other, other_blocked, &preparation.other, part - preparation.second);
            }
        }
    });
}