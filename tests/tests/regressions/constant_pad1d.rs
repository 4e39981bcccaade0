//! Constant padding in one dimension.

use cotangent::verify::Case;

use crate::common::{equals, numbers};

/// 65,536 rows overflowed the grid's y; here rows go by x, and every row gets its pads and its gradient.
#[test]
fn pytorch_165861_pad_of_65536_rows() {
    let x = numbers(1, 2 << 16, 255);
    let padded: Vec<f64> = x.chunks_exact(2).flat_map(|row| [7.0, row[0], row[1], 7.0]).collect();
    let extents = [1, 1 << 16, 2, 4];
    let case = Case::new("constant_pad1d_forward", &[1, 1, 256], &extents);
    equals(case, &[("input", &x), ("value", &[7.0])], &[("output", &padded)]);
    let case = Case::new("constant_pad1d_backward", &[1, 1, 256], &extents);
    equals(case, &[("dy", &padded)], &[("dx", &x)]);
}
