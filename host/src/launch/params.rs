//! The parameters of a launch, packed as an entry point lays them out.

use crate::divmod::{fast_divmod, fast_divmod64};

/// Room for the parameters of any kernel: the largest has 28, in 288 bytes.
const PARAM_BYTES: usize = 640;
const PARAM_COUNT: usize = 40;

/// The parameters of a launch, packed as the entry point lays them out.
#[derive(Clone)]
pub struct Params {
    bytes: [u8; PARAM_BYTES],
    starts: [u16; PARAM_COUNT],
    len: u16,
    count: u16,
}

impl Params {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; PARAM_BYTES], starts: [0; PARAM_COUNT], len: 0, count: 0 }
    }

    fn push(&mut self, align: usize, value: &[u8]) {
        let start = usize::from(self.len).next_multiple_of(align);
        self.bytes[start..start + value.len()].copy_from_slice(value);
        self.starts[usize::from(self.count)] = start as u16;
        self.count += 1;
        self.len = (start + value.len()) as u16;
    }

    /// Appends pointers.
    pub(crate) fn pointers(&mut self, addresses: &[u64]) {
        for address in addresses {
            self.push(8, &address.to_ne_bytes());
        }
    }

    /// Appends a 32-bit word.
    pub(crate) fn word(&mut self, word: u32) {
        self.push(4, &word.to_ne_bytes());
    }

    /// Appends a 64-bit word.
    pub(crate) fn long(&mut self, word: u64) {
        self.push(8, &word.to_ne_bytes());
    }

    /// Appends a structure.
    pub(crate) fn structure(&mut self, structure: &Structure) {
        self.push(structure.align, &structure.bytes);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them, each aligned to its own size.
    pub fn packed(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The bytes of each parameter, in order; padding up to the next may follow a parameter's own bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| {
            let start = usize::from(self.starts[i]);
            let end =
                if i + 1 < self.len() { usize::from(self.starts[i + 1]) } else { usize::from(self.len) };
            &self.bytes[start..end]
        })
    }
}

/// A value that can be a parameter.
pub trait IntoParam {
    /// Appends the value.
    fn push_to(&self, params: &mut Params);
}

macro_rules! scalar_param {
    ($($ty:ty),*) => { $(
        impl IntoParam for $ty {
            fn push_to(&self, params: &mut Params) {
                params.push(size_of::<$ty>(), &self.to_ne_bytes());
            }
        }
    )* };
}

scalar_param!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, half::f16, half::bf16);

impl<D> IntoParam for *mut D {
    fn push_to(&self, params: &mut Params) {
        params.push(8, &(*self as u64).to_ne_bytes());
    }
}

/// A divisor below 2³¹ with its magic number, as `FastDivmod` lays it out.
pub(crate) struct Divisor(pub(crate) i32);

impl IntoParam for Divisor {
    fn push_to(&self, params: &mut Params) {
        let words = fast_divmod(self.0 as u32).map(u32::to_ne_bytes);
        params.push(4, words.as_flattened());
    }
}

/// A divisor below 2⁶³ with its magic number, as `FastDivmod64` lays it out.
pub(crate) struct Divisor64(pub(crate) i64);

impl IntoParam for Divisor64 {
    fn push_to(&self, params: &mut Params) {
        let words = fast_divmod64(self.0 as u64).map(u64::to_ne_bytes);
        params.push(8, words.as_flattened());
    }
}

/// A structure of 32- and 64-bit words, laid out as `repr(C)` does.
pub(crate) struct Structure {
    bytes: Vec<u8>,
    /// That of its widest word: the device compiler places a structure by it.
    align: usize,
}

impl Structure {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::with_capacity(256), align: 4 }
    }

    /// Pads to a multiple of the widest word, as a structure ends.
    pub(crate) fn finish(&mut self) -> &mut Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.align), 0);
        self
    }

    /// A word that the caller's checks keep inside 32 bits, signed or not.
    pub(crate) fn word(&mut self, word: i64) -> &mut Self {
        debug_assert!(i32::try_from(word).is_ok() || u32::try_from(word).is_ok(), "{word} has 32 bits");
        self.bytes.extend((word as u32).to_ne_bytes());
        self
    }

    /// A 64-bit word, on its boundary.
    pub(crate) fn long(&mut self, word: i64) -> &mut Self {
        self.align = 8;
        self.finish().bytes.extend(word.to_ne_bytes());
        self
    }

    /// A `FastDivmod`.
    pub(crate) fn divisor(&mut self, divisor: i64) -> &mut Self {
        self.bytes.extend(fast_divmod(divisor as u32).map(u32::to_ne_bytes).as_flattened());
        self
    }
}
