//! Division by a number that the host knows before the launch: a multiply and a shift.
//!
//! For a divisor `d` with `l = ⌈log2 d⌉` and `magic = ⌈2^(N−1+l) / d⌉` (which fits `N` bits), every
//! `n < 2^(N−1)` has `n / d = mulhi(2n, magic) >> l`. Source: T. Granlund and P. Montgomery, "Division by
//! Invariant Integers using Multiplication", PLDI 1994, theorem 4.2.

macro_rules! fast_divmod {
    ($(#[$doc:meta])* $name:ident, $word:ty, $wide:ty, $bits:literal) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            divisor: $word,
            magic: $word,
            shift: $word,
        }

        impl $name {
            /// A divisor known at compile time. It must be positive and below 2^(N−1); zero counts as one.
            #[must_use]
            pub const fn new(divisor: $word) -> Self {
                let divisor = if divisor == 0 { 1 } else { divisor };
                let shift = $bits - (divisor - 1).leading_zeros();
                let magic = ((1 as $wide) << ($bits - 1 + shift)).div_ceil(divisor as $wide);
                Self { divisor, magic: magic as $word, shift: shift as $word }
            }

            /// A divisor whose magic number and shift were computed elsewhere, by the formula above.
            #[inline(always)]
            #[must_use]
            pub const fn from_parts(divisor: $word, magic: $word, shift: $word) -> Self {
                Self { divisor, magic, shift }
            }

            /// What [`from_parts`](Self::from_parts) takes: the divisor, its magic number and its shift.
            #[inline(always)]
            #[must_use]
            pub const fn parts(&self) -> [$word; 3] {
                [self.divisor, self.magic, self.shift]
            }

            /// The divisor itself.
            #[inline(always)]
            #[must_use]
            pub const fn divisor(&self) -> $word {
                self.divisor
            }

            /// `n / d`, for `n < 2^(N−1)`.
            #[inline(always)]
            #[must_use]
            pub const fn div(&self, n: $word) -> $word {
                let high = (((n << 1) as $wide * self.magic as $wide) >> $bits) as $word;
                high >> (self.shift & ($bits - 1))
            }

            /// `(n / d, n % d)`, for `n < 2^(N−1)`.
            #[inline(always)]
            #[must_use]
            pub const fn divmod(&self, n: $word) -> ($word, $word) {
                let quotient = self.div(n);
                (quotient, n.wrapping_sub(quotient.wrapping_mul(self.divisor)))
            }
        }
    };
}

fast_divmod! {
    /// Divides `u32` values below 2³¹.
    FastDivmod, u32, u64, 32
}

fast_divmod! {
    /// Divides `u64` values below 2⁶³.
    FastDivmod64, u64, u128, 64
}

impl FastDivmod64 {
    /// The same divisor for 32-bit numbers, where it is below 2³¹.
    #[inline(always)]
    #[must_use]
    pub const fn narrow(&self) -> FastDivmod {
        // ⌈2^(31+l) / d⌉ is ⌈⌈2^(63+l) / d⌉ / 2³²⌉.
        let magic = (self.magic.wrapping_add(0xffff_ffff) >> 32) as u32;
        FastDivmod { divisor: self.divisor as u32, magic, shift: self.shift as u32 }
    }

    /// Quotient and remainder of `n + by` from those of `n`, for divisors below 2³¹ and `by` below 2³⁰: cheaper than
    /// dividing again. A remainder of a negative `n` may have wrapped, with the quotient 0, where `n + by` is not
    /// negative.
    #[inline(always)]
    #[must_use]
    pub const fn advance(&self, (quotient, remainder): (u64, u64), by: u32) -> (u64, u64) {
        let near = self.narrow();
        let ahead = (remainder as u32).wrapping_add(by);
        // One divisor less where that is not negative: what is left is then below 2³¹ for every divisor.
        let without = ahead.wrapping_sub(near.divisor);
        let left = if without < ahead { without } else { ahead };
        let (more, rest) = near.divmod(left);
        (quotient + (more + (left != ahead) as u32) as u64, rest as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divmod_equals_division_at_the_edges() {
        let divisors = [1, 2, 3, 5, 7, 10, 63, 64, 65, 641, 65_535, 65_537, (1 << 30) + 1, (1 << 31) - 1];
        for d in divisors {
            let fast = FastDivmod::new(d);
            let wide = FastDivmod64::new(u64::from(d));
            for n in [0, 1, d - 1, d, d.saturating_add(1), 2 * (d / 2), (1 << 31) - 1, (1 << 31) - d] {
                let n = n & 0x7fff_ffff;
                assert_eq!(fast.divmod(n), (n / d, n % d), "{n} / {d}");
                let big = (u64::from(n) << 32) + u64::from(d) - 1;
                assert_eq!(wide.divmod(big), (big / u64::from(d), big % u64::from(d)), "{big} / {d}");
            }
        }
        for d in divisors {
            let wide = FastDivmod64::new(u64::from(d));
            assert_eq!(wide.narrow(), FastDivmod::new(d), "{d}");
            for n in [0, 1, u64::from(d) - 1, u64::from(d), (1 << 40) + 12_345] {
                for by in [0, 1, 2, 63, 1024, 16_384, (1 << 30) - 1] {
                    let (there, d) = (n + u64::from(by), u64::from(d));
                    assert_eq!(wide.advance((n / d, n % d), by), (there / d, there % d), "{n} + {by} by {d}");
                }
            }
            let before = u64::MAX - 2;
            assert_eq!(
                wide.advance((0, before), 64),
                (61 / u64::from(d), 61 % u64::from(d)),
                "-3 + 64 by {d}"
            );
        }
        let huge = FastDivmod64::new((1 << 62) + 3);
        assert_eq!(huge.divmod((1 << 63) - 1), (1, (1 << 62) - 4));
    }
}
