//! Flatten.

use cotangent::verify::Case;
use cotangent::{Tensor, ops};

use crate::common::{matches, streams};

/// Flattening an extent of zero computed 0 % 0; here nothing is launched, and nothing is wrong.
#[test]
fn pytorch_pr_96493_flatten_of_an_empty_extent() {
    for [b, n] in [[1, 0], [0, 5], [0, 0]] {
        for name in ["flatten_forward", "flatten_backward"] {
            for strides in [[n, 1], [1, b], [0, 0]] {
                matches(Case::new(name, &[1, 64], &[b, n, strides[0], strides[1]]));
            }
        }
        for stream in streams() {
            let shape = [b as usize, n as usize, 1];
            let x = Tensor::<f32>::zeros(&stream, &shape).unwrap();
            let y = ops::flatten(&stream, &x).unwrap();
            assert_eq!(y.shape(), [b as usize, n as usize]);
            assert_eq!(ops::flatten_backward(&stream, &y, &shape).unwrap().shape(), shape);
        }
    }
}
