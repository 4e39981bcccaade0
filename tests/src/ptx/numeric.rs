//! Exact rounding between float formats, and the NaN rules of the GPU.

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// To nearest, ties to even.
    Nearest,
    /// To nearest, ties away from zero.
    NearestAway,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
}

impl Round {
    /// The mode that a suffix names: `.rn` and the like.
    pub(crate) fn from_suffix(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "rn" => Self::Nearest,
            "rna" => Self::NearestAway,
            "rz" => Self::Zero,
            "rm" => Self::Down,
            "rp" => Self::Up,
            _ => return None,
        })
    }

    /// The mode that a suffix of a rounding to an integral value names: `.rni` and the like.
    pub(crate) fn from_integral_suffix(suffix: &str) -> Option<Self> {
        suffix.strip_suffix('i').and_then(Self::from_suffix).filter(|mode| *mode != Self::NearestAway)
    }

    /// Whether a magnitude cut to an integer must grow by one, from what was cut off.
    fn grows(self, odd: bool, negative: bool, above_half: bool, half: bool, sticky: bool) -> bool {
        let inexact = above_half || half || sticky;
        match self {
            Self::Nearest => above_half || (half && odd),
            Self::NearestAway => above_half || half,
            Self::Zero => false,
            Self::Down => inexact && negative,
            Self::Up => inexact && !negative,
        }
    }
}

/// A binary float format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Bits of the exponent.
    pub(crate) exponent: u32,
    /// Stored bits of the mantissa.
    pub(crate) mantissa: u32,
}

pub(crate) const F16: Format = Format { exponent: 5, mantissa: 10 };
pub(crate) const BF16: Format = Format { exponent: 8, mantissa: 7 };
pub(crate) const TF32: Format = Format { exponent: 8, mantissa: 10 };
pub(crate) const F32: Format = Format { exponent: 8, mantissa: 23 };

/// The NaN that arithmetic on singles gives.
pub(crate) const NAN_F32: u32 = 0x7fff_ffff;
/// The NaN that arithmetic on halves and on `bf16` gives.
pub(crate) const NAN_16: u16 = 0x7fff;
/// The NaN that arithmetic on doubles makes where no operand is one.
pub(crate) const NAN_F64: u64 = 0xfff8_0000_0000_0000;

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The value of a bit pattern of this format, which is no NaN, as a double; always exact.
    pub(crate) fn value(self, bits: u32) -> f64 {
        let exponent = (bits >> self.mantissa) & ((1 << self.exponent) - 1);
        let mantissa = bits & ((1 << self.mantissa) - 1);
        let negative = bits >> (self.mantissa + self.exponent) & 1 == 1;
        let magnitude = if exponent == (1 << self.exponent) - 1 {
            if mantissa == 0 { f64::INFINITY } else { f64::NAN }
        } else if exponent == 0 {
            mantissa as f64 * power_of_two(1 - self.bias() - self.mantissa as i32)
        } else {
            let whole = mantissa | 1 << self.mantissa;
            whole as f64 * power_of_two(exponent as i32 - self.bias() - self.mantissa as i32)
        };
        if negative { -magnitude } else { magnitude }
    }

    /// Whether a bit pattern is a NaN.
    pub(crate) fn is_nan(self, bits: u32) -> bool {
        let magnitude = bits & ((1 << (self.exponent + self.mantissa)) - 1);
        magnitude > ((1 << self.exponent) - 1) << self.mantissa
    }

    /// Rounds a value, which is no NaN, to this format.
    pub(crate) fn round(self, value: f64, mode: Round) -> u32 {
        let sign = u32::from(value.is_sign_negative()) << (self.exponent + self.mantissa);
        let infinity = ((1 << self.exponent) - 1) << self.mantissa;
        if value == 0.0 {
            return sign;
        }
        if value.is_infinite() {
            return sign | infinity;
        }
        let (whole, exponent) = split(value);
        // The value is `whole · 2^exponent`; keep so many bits that the last one weighs 2^unit.
        let top = 63 - whole.leading_zeros() as i32 + exponent;
        let unit = (top - self.mantissa as i32).max(1 - self.bias() - self.mantissa as i32);
        let cut = unit - exponent;
        let mut kept = if cut <= 0 { whole << -cut } else { shift_right(whole, cut as u32) };
        if cut > 0 {
            let cut = cut as u32;
            let rest = if cut >= 64 { whole } else { whole & ((1 << cut) - 1) };
            let half_unit = if cut > 64 { None } else { Some(1_u64 << (cut - 1)) };
            let (above, half) = match half_unit {
                Some(half) => (rest > half, rest == half),
                None => (false, false),
            };
            if mode.grows(kept & 1 == 1, value < 0.0, above, half, rest != 0 && !above && !half) {
                kept += 1;
            }
        }
        // Stored exponent zero and one have the same unit, so adding handles subnormals and carries alike.
        let base = (unit + self.mantissa as i32 + self.bias() - 1) as u64;
        let magnitude = (base << self.mantissa) + kept;
        if magnitude < infinity as u64 {
            return sign | magnitude as u32;
        }
        let to_infinity = match mode {
            Round::Nearest | Round::NearestAway => true,
            Round::Zero => false,
            Round::Down => value < 0.0,
            Round::Up => value > 0.0,
        };
        sign | if to_infinity { infinity } else { infinity - 1 }
    }
}

/// 2ⁿ for n from −1074 up to 1023.
#[inline(always)]
pub(crate) fn power_of_two(n: i32) -> f64 {
    if n >= -1022 { f64::from_bits(((n + 1023) as u64) << 52) } else { f64::from_bits(1 << (n + 1074)) }
}

fn shift_right(value: u64, by: u32) -> u64 {
    if by >= 64 { 0 } else { value >> by }
}

/// A finite value other than zero as `whole · 2^exponent`, without its sign.
fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let mantissa = bits & ((1 << 52) - 1);
    if exponent == 0 { (mantissa, -1074) } else { (mantissa | 1 << 52, exponent - 1075) }
}

/// Rounds to an integral value.
pub(crate) fn integral(value: f64, mode: Round) -> f64 {
    match mode {
        Round::Nearest => value.round_ties_even(),
        Round::NearestAway => value.round(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

/// The double nearest to `rounded + rest` whose last bit is odd, unless `rest` is zero. Rounding that again
/// to a format of at most 51 bits gives what rounding the exact value would.
fn to_odd(rounded: f64, rest: f64) -> f64 {
    if rest == 0.0 || !rounded.is_finite() || rounded.to_bits() & 1 == 1 {
        return rounded;
    }
    if rest > 0.0 { rounded.next_up() } else { rounded.next_down() }
}

/// `a + b`, rounded to odd.
pub(crate) fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let back = sum - a;
    let rest = (a - (sum - back)) + (b - back);
    to_odd(sum, rest)
}

/// `a / b` of singles or narrower, rounded to odd.
pub(crate) fn odd_quotient(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if !quotient.is_finite() || b.is_infinite() {
        return quotient;
    }
    let rest = (-quotient).mul_add(b, a);
    to_odd(quotient, if b < 0.0 { -rest } else { rest })
}

/// The square root of a single or narrower, rounded to odd.
pub(crate) fn odd_root(a: f64) -> f64 {
    let root = a.sqrt();
    if root.is_finite() { to_odd(root, (-root).mul_add(root, a)) } else { root }
}

/// A single's result with the NaN of the GPU.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> f32 {
    if value.is_nan() { f32::from_bits(NAN_F32) } else { value }
}

/// A double's result with the NaN of the GPU: the first NaN among the operands, made quiet. They are given in
/// the order in which the instruction looks at them.
#[inline(always)]
pub(crate) fn canonical64<const N: usize>(value: f64, operands: [f64; N]) -> f64 {
    if !value.is_nan() {
        return value;
    }
    let nan = operands.into_iter().find(|x| x.is_nan());
    f64::from_bits(nan.map_or(NAN_F64, |x| x.to_bits() | 1 << 51))
}

/// A subnormal single becomes a zero of its sign.
#[inline(always)]
pub(crate) fn flush(value: f32) -> f32 {
    if value.is_subnormal() { f32::from_bits(value.to_bits() & 0x8000_0000) } else { value }
}

/// Clamps to [0, 1]; a NaN and −0 become +0.
#[inline(always)]
pub(crate) fn saturate(value: f64) -> f64 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

/// A single rounded from an exact value, with NaN made canonical.
pub(crate) fn single(value: f64, mode: Round) -> f32 {
    if value.is_nan() { f32::from_bits(NAN_F32) } else { f32::from_bits(F32.round(value, mode)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around every interesting place of the narrow formats.
    fn samples() -> Vec<f64> {
        let mut out =
            vec![0.0, -0.0, f64::INFINITY, f64::MIN_POSITIVE, f64::from_bits(1), 65504.0, 65519.9, 65520.0];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let single = f32::from_bits(state as u32);
            if !single.is_nan() {
                out.push(single as f64);
            }
            let half = half::f16::from_bits((state >> 32) as u16);
            if !half.is_nan() {
                // Exactly between two halves, and a little to each side.
                let next = half::f16::from_bits(half.to_bits().wrapping_add(1));
                let middle = f64::midpoint(half.to_f64(), next.to_f64());
                if middle.is_finite() {
                    out.extend([middle, middle.next_up(), middle.next_down(), -middle]);
                }
            }
        }
        out
    }

    #[test]
    fn round_to_single_equals_the_hardware_cast() {
        for value in samples() {
            assert_eq!(F32.round(value, Round::Nearest), (value as f32).to_bits(), "{value:e}");
        }
    }

    #[test]
    fn round_to_half_and_bf16_equals_the_half_crate() {
        for value in samples() {
            let single = value as f32;
            let expected = half::f16::from_f32(single).to_bits() as u32;
            assert_eq!(F16.round(single as f64, Round::Nearest), expected, "{single:e}");
            let expected = half::bf16::from_f32(single).to_bits() as u32;
            assert_eq!(BF16.round(single as f64, Round::Nearest), expected, "{single:e}");
        }
    }

    #[test]
    fn round_directed_modes_bracket_the_value() {
        for value in samples().into_iter().filter(|v| v.is_finite()) {
            let [down, up, zero] =
                [Round::Down, Round::Up, Round::Zero].map(|mode| F16.value(F16.round(value, mode)));
            assert!(down <= value && value <= up, "{value:e}: {down:e} {up:e}");
            assert!(zero.abs() <= value.abs() && (zero == down || zero == up), "{value:e}");
        }
    }

    #[test]
    fn value_undoes_round() {
        for bits in 0..=u16::MAX {
            for format in [F16, BF16] {
                if !format.is_nan(bits as u32) {
                    let value = format.value(bits as u32);
                    assert_eq!(format.round(value, Round::Nearest), bits as u32);
                    assert_eq!(format.round(value, Round::Up), bits as u32);
                }
            }
        }
        assert!(F16.is_nan(0x7c01) && !F16.is_nan(0x7c00) && BF16.is_nan(0xff81));
    }

    #[test]
    fn round_odd_forms_agree_with_fused_hardware() {
        let values: Vec<f32> = samples().iter().map(|v| *v as f32).filter(|v| v.is_finite()).collect();
        for window in values.windows(3).step_by(3) {
            let [a, b, c] = [window[0], window[1], window[2]];
            let exact = odd_sum(a as f64 * b as f64, c as f64);
            let fused = a.mul_add(b, c);
            assert_eq!(F32.round(exact, Round::Nearest), fused.to_bits(), "{a:e} {b:e} {c:e}");
            if b != 0.0 {
                let quotient = odd_quotient(a as f64, b as f64);
                assert_eq!(F32.round(quotient, Round::Nearest), (a / b).to_bits(), "{a:e} / {b:e}");
            }
            let root = odd_root(a.abs() as f64);
            assert_eq!(F32.round(root, Round::Nearest), a.abs().sqrt().to_bits(), "{a:e}");
        }
    }

    #[test]
    fn round_ties_and_overflow_by_mode() {
        let tie = 1.0 + 2_f64.powi(-11);
        assert_eq!(F16.round(tie, Round::Nearest), 0x3c00);
        assert_eq!(F16.round(tie, Round::NearestAway), 0x3c01);
        assert_eq!(F16.round(-tie, Round::Down), 0xbc01);
        assert_eq!(F16.round(-tie, Round::Up), 0xbc00);
        assert_eq!(F16.round(1e6, Round::Zero), 0x7bff);
        assert_eq!(F16.round(1e6, Round::Up), 0x7c00);
        assert_eq!(F16.round(-1e6, Round::Up), 0xfbff);
        assert_eq!(F16.round(1e-30, Round::Up), 1);
        assert_eq!(F16.round(1e-300, Round::Nearest), 0);
        // Just above the middle of two halves: a first rounding to single would lose the difference.
        assert_eq!(F16.round(31464_f64.next_up(), Round::Nearest), 0x77af);
        assert_eq!(F16.round(31464.0, Round::Nearest), 0x77ae);
    }
}
