//! Extents around the edges of warps, vectors and tiles.

use cotangent::verify::SplitMix64;

/// One, and around a warp, a vector of each width and a tile.
const EDGES: [i32; 23] =
    [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257];

/// Numbers for shapes: a generator whose draws follow from a name.
pub(super) struct Around(SplitMix64);

impl Around {
    pub(super) fn new(name: &str) -> Self {
        Self(SplitMix64::from_text(name))
    }

    /// An extent at an edge, of at most `most`.
    pub(super) fn extent(&mut self, most: i32) -> i32 {
        let count = EDGES.iter().filter(|&&edge| edge <= most).count();
        EDGES[self.0.below(count as u64) as usize]
    }

    /// A number between two, both included.
    pub(super) fn between(&mut self, least: i32, most: i32) -> i32 {
        least + self.0.below((most - least + 1) as u64) as i32
    }

    /// One of these.
    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }

    /// Elements by which each of five bases is off an aligned address.
    pub(super) fn offsets(&mut self) -> [usize; 5] {
        std::array::from_fn(|_| self.0.below(4) as usize)
    }
}
