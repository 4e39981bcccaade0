//! The least that a device's memory must move.

/// Bytes of a sector: what device memory reads or writes at once.
const SECTOR: u64 = 32;

/// Bytes of the sectors that `rows` windows of `width` bytes touch, each once. A window starts every `pitch`
/// bytes, the first at `base`; a pitch is at least the width.
pub fn windows(base: u64, rows: u64, width: u64, pitch: u64) -> u64 {
    if rows == 0 || width == 0 {
        return 0;
    }
    if width == pitch {
        return rows * width;
    }
    // Sectors of row `r` that the row before has not touched.
    let new = |r: u64| {
        let first = (base + r * pitch) / SECTOR;
        let last = (base + r * pitch + width - 1) / SECTOR;
        let seen = if r == 0 { first } else { (base + (r - 1) * pitch + width - 1) / SECTOR + 1 };
        last + 1 - first.max(seen).min(last + 1)
    };
    // Rows lie alike on sectors after 32 of them at most, so their counts repeat.
    let period = SECTOR;
    if rows <= 2 * period {
        return SECTOR * (0..rows).map(new).sum::<u64>();
    }
    let head: u64 = (0..period).map(new).sum();
    let steady: u64 = (period..2 * period).map(new).sum();
    let (whole, rest) = ((rows - period) / period, (rows - period) % period);
    let tail: u64 = (period..period + rest).map(new).sum();
    SECTOR * (head + whole * steady + tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn windows_equals_a_count() {
        for (base, width, pitch) in [
            (0, 12, 24),
            (4, 12, 24),
            (3, 3, 6),
            (0, 128, 256),
            (2, 7, 60),
            (8, 520, 1040),
            (0, 33, 34),
            (1, 1, 97),
        ] {
            for rows in [1, 2, 31, 64, 65, 66, 100, 257] {
                let touched: HashSet<u64> = (0..rows)
                    .flat_map(|r| (0..width).map(move |byte| (base + r * pitch + byte) / SECTOR))
                    .collect();
                let expected = SECTOR * touched.len() as u64;
                assert_eq!(windows(base, rows, width, pitch), expected, "{base} {rows} {width} {pitch}");
            }
        }
    }

    #[test]
    fn windows_of_a_whole_matrix_are_its_bytes() {
        assert_eq!(windows(0, 7, 12, 12), 84);
        assert_eq!(windows(0, 0, 12, 24), 0);
        assert_eq!(windows(0, 5, 0, 24), 0);
    }

    #[test]
    fn windows_of_half_a_short_row_touch_everything() {
        // Rows of 3 f32 out of 6: no sector is spared.
        assert_eq!(windows(0, 1 << 20, 12, 24), (1 << 20) * 24);
    }
}
