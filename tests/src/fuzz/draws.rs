//! Decisions from bytes; when they end, the first choice each time.

use arbitrary::{Arbitrary, Unstructured};

pub(super) struct Draws<'a>(Unstructured<'a>);

/// Numbers at which something overflows or changes.
const EDGES: [i64; 16] = [
    0,
    1,
    -1,
    2,
    31,
    255,
    65_535,
    65_537,
    1 << 29,
    (1 << 29) + 1,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 32,
    1 << 59,
    i64::MAX,
    i64::MIN,
];

impl<'a> Draws<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self(Unstructured::new(data))
    }

    /// Any value.
    pub(super) fn any<T: Arbitrary<'a> + Default>(&mut self) -> T {
        T::arbitrary(&mut self.0).unwrap_or_default()
    }

    /// Whether it happens, once in so many times.
    pub(super) fn once_in(&mut self, times: u8) -> bool {
        self.any::<u8>() % times == times - 1
    }

    /// A number from `least` to `most`.
    pub(super) fn between(&mut self, least: i32, most: i32) -> i32 {
        self.0.int_in_range(least..=most).unwrap_or(least)
    }

    /// A number below `end`, which is positive.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.int_in_range(0..=end - 1).unwrap_or(0)
    }

    /// One of these.
    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A number that is likely to be trouble.
    pub(super) fn hostile(&mut self) -> i64 {
        match self.below(3) {
            0 => self.of(&EDGES),
            1 => self.of(&EDGES).wrapping_add(i64::from(self.any::<i8>())),
            _ => self.any(),
        }
    }

    /// What is left.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}
