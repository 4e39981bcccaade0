//! What inputs hold: a block of random elements, repeated, so that any element of gigabytes is known on the host.

use cotangent::DType;
use cotangent::verify::{SplitMix64, decode, encode};

/// Bytes of the block: 8 times a prime, so that no power of two and no row length is a multiple of it.
const PERIOD_BYTES: usize = 8 * 131_071;

/// How far each buffer's block is rotated against the one before, in elements.
const SHIFT: usize = 7919;

/// The block for one element type.
pub struct Pattern {
    dtype: DType,
    bytes: Vec<u8>,
    values: Vec<f64>,
}

impl Pattern {
    /// Floats are uniform between −1 and 1; integers have any bits.
    pub fn new(dtype: DType) -> Self {
        let mut random = SplitMix64::from_text(dtype.name());
        let elements = PERIOD_BYTES / dtype.size();
        let bytes = if dtype.is_float() {
            encode(dtype, &(0..elements).map(|_| random.unit()).collect::<Vec<_>>())
        } else {
            (0..PERIOD_BYTES / 8).flat_map(|_| random.next_u64().to_ne_bytes()).collect()
        };
        let values = decode(dtype, &bytes);
        Self { dtype, bytes, values }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Elements after which a buffer repeats itself.
    pub fn period(&self) -> usize {
        self.values.len()
    }

    fn at(&self, buffer: usize, index: u64) -> usize {
        ((index + (buffer * SHIFT) as u64) % self.period() as u64) as usize
    }

    /// The value of an element of a buffer.
    pub fn value(&self, buffer: usize, index: u64) -> f64 {
        self.values[self.at(buffer, index)]
    }

    /// The bytes of an element of a buffer.
    pub fn element(&self, buffer: usize, index: u64) -> &[u8] {
        let size = self.dtype.size();
        &self.bytes[self.at(buffer, index) * size..][..size]
    }

    /// The first bytes of a buffer, one period at most.
    pub fn block(&self, buffer: usize, bytes: u64) -> Vec<u8> {
        let (late, early) = self.bytes.split_at(self.at(buffer, 0) * self.dtype.size());
        let bytes = bytes.min(PERIOD_BYTES as u64) as usize;
        let first = bytes.min(early.len());
        [&early[..first], &late[..bytes - first]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_holds_the_elements_in_order() {
        for dtype in [DType::U8, DType::Bf16, DType::F32, DType::F64] {
            let pattern = Pattern::new(dtype);
            let size = dtype.size();
            for buffer in 0..3 {
                let block = pattern.block(buffer, u64::MAX);
                assert_eq!(pattern.block(buffer, 64), block[..64]);
                for index in [0, 1, pattern.period() as u64 - 1] {
                    assert_eq!(&block[index as usize * size..][..size], pattern.element(buffer, index));
                    let after = pattern.element(buffer, index + pattern.period() as u64);
                    assert_eq!(pattern.element(buffer, index), after);
                }
            }
            assert_ne!(pattern.block(0, 64), pattern.block(1, 64));
        }
    }

    #[test]
    fn values_fill_their_range() {
        let pattern = Pattern::new(DType::F32);
        let values = || (0..pattern.period() as u64).map(|index| pattern.value(0, index));
        assert!(values().all(|value| value.abs() <= 1.0));
        let mean = values().sum::<f64>() / pattern.period() as f64;
        let square = values().map(|value| value * value).sum::<f64>() / pattern.period() as f64;
        assert!(mean.abs() < 0.01 && (square - 1.0 / 3.0).abs() < 0.01, "{mean} {square}");
    }
}
