//! The parameters of a launch, packed as an entry point lays them out.

use crate::divmod::{fast_divmod, fast_divmod64};

/// How many parameters a kernel may have: the most is 28.
const PARAM_COUNT: usize = 32;

/// Bytes that are set aside at once: enough for any kernel, so that appending does not move what is there.
const PARAM_BYTES: usize = 512;

/// The parameters of a launch, packed as the entry point lays them out.
#[derive(Clone)]
pub struct Params {
    bytes: Vec<u8>,
    starts: [u16; PARAM_COUNT],
    count: u16,
    /// A bit for each parameter that is an address.
    addresses: u32,
}

impl Params {
    pub(crate) fn new() -> Self {
        let bytes = Vec::with_capacity(PARAM_BYTES);
        Self { bytes, starts: [0; PARAM_COUNT], count: 0, addresses: 0 }
    }

    /// Appends a value whose length the compiler knows.
    fn push<const N: usize>(&mut self, align: usize, value: [u8; N]) {
        self.align(align);
        self.bytes.extend(value);
    }

    /// Begins a parameter on a boundary.
    fn align(&mut self, align: usize) {
        let start = self.bytes.len().next_multiple_of(align);
        while self.bytes.len() < start {
            self.bytes.push(0);
        }
        self.starts[usize::from(self.count)] = start as u16;
        self.count += 1;
    }

    fn push_address(&mut self, address: u64) {
        self.addresses |= 1 << self.count;
        self.push(8, address.to_ne_bytes());
    }

    /// The addresses, and where their bytes start.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (usize, u64)> {
        (0..self.len()).filter(|i| self.addresses >> i & 1 == 1).map(|i| {
            let start = usize::from(self.starts[i]);
            let bytes = self.bytes[start..].first_chunk().expect("an address has eight bytes");
            (start, u64::from_ne_bytes(*bytes))
        })
    }

    /// Replaces the address whose bytes start here.
    pub(crate) fn set_address(&mut self, start: usize, address: u64) {
        self.bytes[start..start + 8].copy_from_slice(&address.to_ne_bytes());
    }

    /// Appends pointers.
    pub(crate) fn pointers(&mut self, addresses: &[u64]) {
        for &address in addresses {
            self.push_address(address);
        }
    }

    /// Appends a 32-bit word.
    pub(crate) fn word(&mut self, word: u32) {
        self.push(4, word.to_ne_bytes());
    }

    /// Appends a 64-bit word.
    pub(crate) fn long(&mut self, word: u64) {
        self.push(8, word.to_ne_bytes());
    }

    /// Appends a structure.
    pub(crate) fn structure(&mut self, structure: &Structure) {
        self.align(structure.align);
        self.bytes.extend_from_slice(&structure.bytes);
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
        &self.bytes
    }

    /// The bytes of each parameter, in order; padding up to the next may follow a parameter's own bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| {
            let start = usize::from(self.starts[i]);
            let end = if i + 1 < self.len() { usize::from(self.starts[i + 1]) } else { self.bytes.len() };
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
                params.push(size_of::<$ty>(), self.to_ne_bytes());
            }
        }
    )* };
}

scalar_param!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, half::f16, half::bf16);

impl<D> IntoParam for *mut D {
    fn push_to(&self, params: &mut Params) {
        params.push_address(*self as u64);
    }
}

/// A divisor below 2³¹ with its magic number, as `FastDivmod` lays it out.
pub(crate) struct Divisor(pub(crate) i32);

impl IntoParam for Divisor {
    fn push_to(&self, params: &mut Params) {
        params.align(4);
        params.bytes.extend(fast_divmod(self.0 as u32).map(u32::to_ne_bytes).as_flattened());
    }
}

/// A divisor below 2⁶³ with its magic number, as `FastDivmod64` lays it out.
pub(crate) struct Divisor64(pub(crate) i64);

impl IntoParam for Divisor64 {
    fn push_to(&self, params: &mut Params) {
        params.align(8);
        params.bytes.extend(fast_divmod64(self.0 as u64).map(u64::to_ne_bytes).as_flattened());
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
