//! Deterministic data, and elements as bytes, bits and `f64` values.

use super::case::Data;
use crate::element::{DType, Element, Num};

/// The `SplitMix64` generator: the whole of the randomness in this module.
///
/// Source: G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator whose numbers follow from the seed alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator whose seed follows from a text.
    pub fn from_text(text: &str) -> Self {
        text.bytes()
            .fold(Self::new(0), |mut generator, byte| Self::new(generator.next_u64() ^ u64::from(byte)))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; the bias is below `bound / 2⁶⁴`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number between −1 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * f64::EPSILON - 1.0
    }
}

/// Runs the body with `$element` as the Rust type of an element type.
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr) => {
        $crate::verify::data::with_element!(@arms $dtype, $element => $body;
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64,
            F16 half::f16, Bf16 half::bf16, F32 f32, F64 f64)
    };
    (@arms $dtype:expr, $element:ident => $body:expr; $($name:ident $ty:ty),+) => {
        match $dtype {
            $($crate::element::DType::$name => {
                type $element = $ty;
                $body
            })+
        }
    };
}

pub(crate) use with_element;

/// Elements' values as they lie in memory.
fn bytes_of<D: Element>(elements: &[D]) -> Vec<u8> {
    // SAFETY: any element's bytes are plain initialised bytes.
    let bytes = unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) };
    bytes.to_vec()
}

/// The elements that lie in these bytes.
pub(crate) fn elements_of<D: Element>(bytes: &[u8]) -> Vec<D> {
    let mut elements = vec![D::default(); bytes.len() / size_of::<D>()];
    let len = size_of_val(&*elements);
    // SAFETY: the elements have room for `len` bytes, and every bit pattern is a value.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), elements.as_mut_ptr().cast(), len) };
    elements
}

/// The nearest elements to these values, as bytes. (`half` has functions of its own called `from_f64`, which drop low
/// bits, so the trait is named.)
pub fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    with_element!(dtype, D => bytes_of(&values.iter().map(|&value| <D as Num>::from_f64(value)).collect::<Vec<_>>()))
}

/// The values of the elements in these bytes.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    with_element!(dtype, D => elements_of::<D>(bytes).into_iter().map(Num::to_f64).collect())
}

/// Each element's bits, zero-extended.
pub(super) fn bits(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    let widen = |element: &[u8]| {
        let mut word = [0; 8];
        word[..element.len()].copy_from_slice(element);
        u64::from_le_bytes(word)
    };
    bytes.chunks_exact(dtype.size()).map(widen).collect()
}

/// Elements from the low bits of words.
pub(super) fn from_bits(dtype: DType, words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(dtype.size())).collect()
}

/// How a value prints: floats as numbers, and everything as its bits.
pub(super) fn show(dtype: DType, element: &[u8]) -> String {
    let bits = bits(dtype, element).first().copied().unwrap_or(0);
    format!("{:?} ({bits:#x})", decode(dtype, element).first().copied().unwrap_or(0.0))
}

/// Random elements. Where bits are only copied, any pattern will do; sums get numbers between −1 and 1, so
/// that bounds mean something.
pub(super) fn generate(
    dtype: DType,
    elements: usize,
    data: Data,
    sums: bool,
    random: &mut SplitMix64,
) -> Vec<u8> {
    let any_bits = !sums || !dtype.is_float();
    let values = |mut value: Box<dyn FnMut() -> f64 + '_>| {
        encode(dtype, &(0..elements).map(|_| value()).collect::<Vec<_>>())
    };
    match data {
        Data::Special | Data::Overflow if any_bits => {
            let special = special_bits(dtype);
            let words: Vec<_> =
                (0..elements).map(|_| special[random.below(special.len() as u64) as usize]).collect();
            from_bits(dtype, &words)
        }
        _ if any_bits => from_bits(dtype, &(0..elements).map(|_| random.next_u64()).collect::<Vec<_>>()),
        Data::Plain => values(Box::new(|| random.unit())),
        Data::Tiny => values(Box::new(|| 4.0 * smallest_normal(dtype) * random.unit())),
        Data::Special | Data::Overflow => values(Box::new(|| match random.below(256) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => f64::NAN,
            3..32 => 0.0,
            32..64 => -0.0,
            _ => random.unit(),
        })),
    }
}

fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::MIN_POSITIVE.to_f64(),
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// The bit patterns at a type's edges: zeros, denormals, infinities, quiet and signalling NaNs with payloads.
fn special_bits(dtype: DType) -> Vec<u64> {
    let width = 8 * dtype.size() as u32;
    let sign = 1_u64 << (width - 1);
    let fraction_bits = match dtype {
        DType::F16 => 10,
        DType::Bf16 => 7,
        DType::F32 => 23,
        DType::F64 => 52,
        _ => return vec![0, 1, sign, sign - 1, sign | (sign - 1)],
    };
    let fraction = (1_u64 << fraction_bits) - 1;
    let infinity = (sign - 1) & !fraction;
    let quiet = infinity | 1 << (fraction_bits - 1);
    let magnitudes = [0, 1, fraction, fraction + 1, infinity - 1, infinity, infinity | 1, quiet, quiet | 5];
    magnitudes.into_iter().flat_map(|magnitude| [magnitude, sign | magnitude]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_numbers() {
        let mut random = SplitMix64::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.next_u64()), expected);
    }

    #[test]
    fn special_values_are_what_they_are_called() {
        let values = decode(DType::F32, &from_bits(DType::F32, &special_bits(DType::F32)));
        assert_eq!(values[..2].iter().map(|value| value.to_bits()).collect::<Vec<_>>(), [0, 1 << 63]);
        let bits = |i: usize| (values[i] as f32).to_bits();
        assert_eq!([bits(2), bits(8), bits(10)], [1, f32::MAX.to_bits(), f32::INFINITY.to_bits()]);
        assert!(values[12..].iter().all(|value| value.is_nan()));
    }

    #[test]
    fn values_are_rounded_to_nearest() {
        // The middle between two numbers and a hair above it, which is in the bits that f32 or half would drop.
        for (dtype, fraction_bits) in [(DType::F16, 10), (DType::Bf16, 7)] {
            let (one, step) = (1.0, 2.0_f64.powi(-fraction_bits));
            for hair in [2.0_f64.powi(-22), 2.0_f64.powi(-40)] {
                let values = [one + step / 2.0, one + step / 2.0 + hair];
                assert_eq!(decode(dtype, &encode(dtype, &values)), [one, one + step], "{dtype}, {hair}");
            }
        }
    }

    #[test]
    fn bits_and_bytes_are_inverses() {
        for dtype in DType::ALL {
            let bytes = generate(dtype, 33, Data::Plain, false, &mut SplitMix64::new(7));
            assert_eq!(bytes.len(), 33 * dtype.size());
            assert_eq!(from_bits(dtype, &bits(dtype, &bytes)), bytes);
        }
    }
}
