//! What the corpus's programs are fed with: edge values, and a fixed pseudo-random sequence.

/// What the input words hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// 64-bit integers at the edges of every width.
    Integers,
    /// A single in each half: zeros, subnormals, extremes, infinities, NaNs with payloads.
    Singles,
    /// A double.
    Doubles,
    /// An f16 in each quarter.
    Halves,
    /// A bf16 in each quarter.
    Brains,
    /// A single between −1 and 1 in each half.
    Units,
}

const INTEGERS: [u64; 26] = [
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff_8001,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0001,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

const SINGLES: [u32; 26] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fff_ffff,
    0x7fc1_2345,
    0xffc0_0001,
    0x7f81_2345,
    0x3f00_0000,
    0x3fc0_0000,
    0xc020_0000,
    0x3f80_0001,
    0x477f_efff,
    0x477f_f000,
    0x4f00_0000,
    0x3380_0000,
    0xdf00_0000,
    0x3f80_8000,
];

const DOUBLES: [u64; 26] = [
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x0000_0000_0000_0001,
    0x8000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x7ff8_1234_5678_9abc,
    0xfff8_0000_0000_0001,
    0x7ff0_1234_5678_9abc,
    0x3fe0_0000_0000_0000,
    0x4004_0000_0000_0000,
    0xc00c_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0x3ff0_0000_1000_0000,
    0x41df_ffff_ffc0_0000,
    0xc3e0_0000_0000_0000,
    0x43ef_ffff_ffff_ffff,
    0x36a0_0000_0000_0000,
    0x47ef_ffff_f000_0000,
];

const HALVES: [u16; 26] = [
    0, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7fff,
    0x7e01, 0xfe00, 0x7c01, 0x3800, 0x3e00, 0xc100, 0x3c01, 0x5640, 0x6800, 0x6801, 0x1400, 0xf800, 0x3555,
];

const BRAINS: [u16; 26] = [
    0, 0x8000, 0x3f80, 0xbf80, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fff,
    0x7fc1, 0xffc0, 0x7f81, 0x3f00, 0x3fc0, 0xc020, 0x3f81, 0x42c8, 0x4380, 0x3b80, 0x3c00, 0xcf00, 0x3eab,
];

/// A fixed pseudo-random sequence (xorshift).
pub(super) struct Sequence(pub(super) u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

impl Inputs {
    /// A word made of the edge value `index`, its higher parts of the ones after it.
    pub(super) fn edge(self, index: usize) -> u64 {
        let part = |step: usize| (index + 7 * step) % 26;
        match self {
            Self::Integers => INTEGERS[part(0)],
            Self::Singles => SINGLES[part(0)] as u64 | (SINGLES[part(1)] as u64) << 32,
            Self::Doubles => DOUBLES[part(0)],
            Self::Halves => (0..4).fold(0, |word, n| word | (HALVES[part(n)] as u64) << (16 * n)),
            Self::Brains => (0..4).fold(0, |word, n| word | (BRAINS[part(n)] as u64) << (16 * n)),
            Self::Units => {
                let unit = |index: usize| ((index as f32 - 13.0) / 13.0).to_bits() as u64;
                unit(part(0)) | unit(part(1)) << 32
            }
        }
    }

    /// A word from the sequence: any bits, or a float near one.
    pub(super) fn random(self, sequence: &mut Sequence) -> u64 {
        let bits = sequence.next();
        let near = sequence.next().is_multiple_of(2);
        let unit = |bits: u64| (((bits as u32 >> 8) as f32 / 8_388_608.0) - 1.0).to_bits() as u64;
        match self {
            Self::Units => unit(bits) | unit(bits >> 32) << 32,
            // Exponents close to that of one, so that sums do more than return the larger term.
            Self::Singles if near => bits & 0x83ff_ffff_83ff_ffff | 0x3c00_0000_3c00_0000,
            Self::Doubles if near => bits & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000,
            Self::Halves if near => bits & 0x8fff_8fff_8fff_8fff | 0x3000_3000_3000_3000,
            Self::Brains if near => bits & 0x83ff_83ff_83ff_83ff | 0x3c00_3c00_3c00_3c00,
            Self::Integers if near => bits >> (sequence.next() % 64),
            _ => bits,
        }
    }
}
