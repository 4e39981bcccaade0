//! The bodies as ordinary Rust, one thread playing the grid, against literal loops.

use cotangent_device::divmod::{FastDivmod, FastDivmod64};
use cotangent_device::prelude::*;

/// Elements that all differ, from a counter.
trait Sample: Num + PartialEq + std::fmt::Debug {
    fn sample(i: usize) -> Self;
}

macro_rules! sample {
    ($($ty:ty),*) => { $( impl Sample for $ty { fn sample(i: usize) -> $ty { (i * 37 + 11) as $ty } } )* };
}

sample!(u8, u16, u32, u64);

/// A buffer whose first element lies `skew` elements behind a 16-byte boundary, between two guards.
struct Placed<E> {
    memory: Vec<u128>,
    start: usize,
    len: usize,
    guard: E,
}

impl<E: Sample> Placed<E> {
    fn new(len: usize, skew: usize, fill: impl Fn(usize) -> E) -> Self {
        let guard = E::sample(90);
        let start = 16 + skew;
        let elements = start + len + 16;
        let mut placed =
            Self { memory: vec![0; (elements * size_of::<E>()).div_ceil(16)], start, len, guard };
        for i in 0..elements {
            let inside = (start..start + len).contains(&i);
            placed.all()[i] = if inside { fill(i - start) } else { guard };
        }
        placed
    }

    fn all(&mut self) -> &mut [E] {
        let elements = self.memory.len() * 16 / size_of::<E>();
        // SAFETY: the memory is aligned for every element, and every bit pattern is one.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), elements) }
    }

    fn pointer(&mut self) -> *mut E {
        let start = self.start;
        self.all()[start..].as_mut_ptr()
    }

    /// The elements, after a look at the guards.
    fn elements(&mut self) -> Vec<E> {
        let (start, end, guard) = (self.start, self.start + self.len, self.guard);
        let all = self.all();
        assert!(all[..start].iter().all(|e| *e == guard), "written before the buffer");
        assert!(all[end..end + 16].iter().all(|e| *e == guard), "written behind the buffer");
        all[start..end].to_vec()
    }
}

const WIDTHS: [usize; 9] = [1, 2, 3, 7, 15, 16, 33, 64, 130];
const SKEWS: [(usize, usize); 4] = [(0, 0), (1, 0), (0, 1), (3, 5)];

/// Pieces that a row of so many elements is scattered in, wherever it lies: vectors, or elements.
fn pieces_of<E>(width: usize, by_element: bool) -> u64 {
    if by_element { width as u64 } else { (width * size_of::<E>()).div_ceil(16) as u64 + 1 }
}

fn cat<E: Sample>() {
    for chunk in WIDTHS {
        for (before, after) in [(0, 0), (1, 0), (0, 3), (5, 16), (16, 16)] {
            for (rows, (skew_x, skew_y)) in [(1, SKEWS[3]), (3, SKEWS[0]), (4, SKEWS[1]), (5, SKEWS[2])] {
                let total = before + chunk + after;
                let mut x = Placed::<E>::new(rows * chunk, skew_x, E::sample);
                let mut y = Placed::<E>::new(rows * total, skew_y, |_| E::sample(7));
                let divide = FastDivmod64::new(chunk as u64);
                // By vectors, and by elements.
                let pieces = FastDivmod64::new(pieces_of::<E>(chunk, rows % 2 == 0));
                let (c, t, o) = (chunk as i32, total as i32, before as i32);
                // SAFETY: the buffers have the extents that the kernel's contract names.
                unsafe {
                    channel_cat_forward(x.pointer(), y.pointer(), c, t, o, rows as i64, divide, pieces, 100);
                }
                let (flat, joined) = (x.elements(), y.elements());
                for (i, value) in joined.iter().enumerate() {
                    let (r, column) = (i / total, i % total);
                    let inside = (before..before + chunk).contains(&column);
                    let expected = if inside { flat[r * chunk + column - before] } else { E::sample(7) };
                    assert_eq!(*value, expected, "{chunk} in {total} at {before}, row {r}, column {column}");
                }
                let mut dx = Placed::<E>::new(rows * chunk, skew_x, |_| E::sample(3));
                // SAFETY: as above.
                unsafe {
                    channel_cat_backward(y.pointer(), dx.pointer(), c, t, o, rows as i64, divide, 0, 64);
                }
                assert_eq!(dx.elements(), flat);
            }
        }
    }
}

fn pad<E: Sample>() {
    for l in WIDTHS {
        for (left, right) in [(0, 0), (1, 0), (3, 3), (-1, 2), (2, -1), (40, 40), (-2, -3)] {
            for (skew_x, skew_y) in SKEWS {
                let ol = l as i64 + left + right;
                if ol < 0 {
                    continue;
                }
                let (rows, ol) = (6, ol as usize);
                let mut x = Placed::<E>::new(rows * l, skew_x, E::sample);
                let mut y = Placed::<E>::new(rows * ol, skew_y, |_| E::sample(3));
                let value = E::sample(5);
                let (b, c, li, oli, lefti, righti) = (2, 3, l as i32, ol as i32, left as i32, right as i32);
                let row = FastDivmod64::new(ol as u64);
                // SAFETY: the buffers have the extents that the kernel's contract names.
                unsafe {
                    let (x, y) = (x.pointer(), y.pointer());
                    constant_pad1d_forward(x, y, b, c, li, oli, value, row, lefti, righti, 48);
                }
                let (flat, padded) = (x.elements(), y.elements());
                for r in 0..rows {
                    for o in 0..ol {
                        let i = o as i64 - left;
                        let inside = (0..l as i64).contains(&i);
                        let expected = if inside { flat[r * l + i as usize] } else { value };
                        assert_eq!(padded[r * ol + o], expected, "{left} + {l} + {right}, row {r}, {o}");
                    }
                }
                let mut dx = Placed::<E>::new(rows * l, skew_x, |_| E::sample(3));
                let row = FastDivmod64::new(l as u64);
                // SAFETY: as above.
                unsafe {
                    let (dy, dx) = (y.pointer(), dx.pointer());
                    constant_pad1d_backward(dy, dx, b, c, li, oli, row, 0, lefti, righti, 48);
                }
                for (i, value) in dx.elements().into_iter().enumerate() {
                    let o = (i % l) as i64 + left;
                    let inside = (0..ol as i64).contains(&o);
                    let expected = if inside { padded[i / l * ol + o as usize] } else { E::narrow(E::ZERO) };
                    assert_eq!(value, expected, "{left} + {l} + {right}, backward {i}");
                }
            }
        }
    }
}

/// Aligned vectors that a row can touch, when rows follow each other from `skew` elements behind a boundary.
fn vectors_per_row<E>(width: usize, skew: usize) -> u64 {
    let bytes = width * size_of::<E>();
    let aligned = (skew * size_of::<E>()).is_multiple_of(16) && bytes.is_multiple_of(16);
    (if aligned { bytes / 16 } else { bytes.div_ceil(16) + 1 }) as u64
}

fn upsample<E: Sample>() {
    for w in [1, 2, 3, 7, 16, 33, 70] {
        for (sh, sw) in [(1, 1), (2, 2), (1, 3), (3, 1), (2, 4), (1, 5), (4, 7)] {
            for (skew_x, skew_y) in SKEWS {
                let (planes, h) = (2, 3);
                let (oh, ow) = (h * sh, w * sw);
                let mut x = Placed::<E>::new(planes * h * w, skew_x, E::sample);
                let mut y = Placed::<E>::new(planes * oh * ow, skew_y, |_| E::sample(3));
                let extents = [1, planes, h, w, oh, ow].map(|extent| extent as i32);
                let [b, c, hi, wi, ohi, owi] = extents;
                let (row, tall) = (FastDivmod64::new(ow as u64), FastDivmod64::new(sh as u64));
                let vectors = FastDivmod64::new(vectors_per_row::<E>(ow, skew_y));
                let (scale_h, scale_w) = (sh as i32, FastDivmod::new(sw as u32));
                // SAFETY: the buffers have the extents that the kernel's contract names.
                unsafe {
                    let (x, y) = (x.pointer(), y.pointer());
                    upsample_nearest2d_forward(
                        x, y, b, c, hi, wi, ohi, owi, row, vectors, tall, scale_h, scale_w, 64,
                    );
                }
                let (small, large) = (x.elements(), y.elements());
                for (i, value) in large.iter().enumerate() {
                    let (p, line, column) = (i / (oh * ow), i / ow % oh, i % ow);
                    let expected = small[(p * h + line / sh) * w + column / sw];
                    assert_eq!(*value, expected, "{w} × {sw}, row {line}, column {column}");
                }
                let mut dy = Placed::<E>::new(planes * oh * ow, skew_y, E::sample);
                let mut dx = Placed::<E>::new(planes * h * w, skew_x, |_| E::sample(3));
                let row = FastDivmod64::new(w as u64);
                // SAFETY: as above.
                unsafe {
                    let (dy, dx) = (dy.pointer(), dx.pointer());
                    let (sh, sw) = (sh as i32, sw as i32);
                    upsample_nearest2d_backward(dy, dx, b, c, hi, wi, ohi, owi, row, 0, sh, sw, 64);
                }
                let large = dy.elements();
                for (i, value) in dx.elements().into_iter().enumerate() {
                    let (r, iw) = (i / w, i % w);
                    let mut sum = E::ZERO;
                    for a in 0..sh {
                        for b in 0..sw {
                            sum = E::add(sum, large[(r * sh + a) * ow + iw * sw + b].widen());
                        }
                    }
                    assert_eq!(value, E::narrow(sum), "{w} × {sw}, row {r}, column {iw}");
                }
            }
        }
    }
}

fn flatten<E: Sample>() {
    let aligned = 16 / size_of::<E>();
    for (b, n) in [(1_usize, 1_usize), (3, 5), (17, 8), (16, 16), (64, 32), (33, 40)] {
        // Rows with and without gaps, columns, and neither; (way, stride of b, stride of n).
        let column = b.next_multiple_of(aligned);
        let mut ways = vec![(0, 1, b), (0, 2, 2 * b + 1), (4, n, 1), (1, n + 3, 1)];
        if n % aligned == 0 && aligned <= 8 {
            ways.push((2, 1, column));
        }
        for (way, stride_b, stride_n) in ways {
            for (skew_x, skew_y) in SKEWS {
                let (skew_x, skew_y) = if way == 2 { (0, 0) } else { (skew_x, skew_y) };
                let span = (b - 1) * stride_b + (n - 1) * stride_n + 1;
                let mut x = Placed::<E>::new(span, skew_x, E::sample);
                let mut y = Placed::<E>::new(b * n, skew_y, |_| E::sample(3));
                let (block_b, block_n) = (24, 40);
                let tiles_n = n.div_ceil(block_n);
                let tiles = (b.div_ceil(block_b) * tiles_n) as i64;
                let tiles_n = FastDivmod64::new(tiles_n as u64);
                let row = FastDivmod64::new(n as u64);
                let pieces = FastDivmod64::new(pieces_of::<E>(n, skew_x == 0));
                let (bi, ni, sb, sn) = (b as i32, n as i32, stride_b as i32, stride_n as i32);
                let block_n = FastDivmod::new(block_n as u32);
                // SAFETY: the buffers have the extents that the kernel's contract names.
                unsafe {
                    let (x, y) = (x.pointer(), y.pointer());
                    flatten_forward(x, y, bi, ni, sb, sn, way, tiles, tiles_n, row, block_b as i32, block_n);
                }
                let (strided, flat) = (x.elements(), y.elements());
                for (i, value) in flat.iter().enumerate() {
                    let expected = strided[i / n * stride_b + i % n * stride_n];
                    assert_eq!(*value, expected, "way {way}, {b} × {n}, strides {stride_b}, {stride_n}: {i}");
                }
                let mut dx = Placed::<E>::new(span, skew_x, |_| E::sample(3));
                // SAFETY: as above.
                unsafe {
                    let (dy, dx) = (y.pointer(), dx.pointer());
                    let block_b = block_b as i32;
                    flatten_backward(
                        dy, dx, bi, ni, sb, sn, way, tiles, tiles_n, row, pieces, 0, block_b, block_n,
                    );
                }
                let mut expected = vec![E::sample(3); span];
                for (i, value) in flat.iter().enumerate() {
                    expected[i / n * stride_b + i % n * stride_n] = *value;
                }
                assert_eq!(dx.elements(), expected, "way {way}, {b} × {n}, strides {stride_b}, {stride_n}");
            }
        }
    }
}

macro_rules! for_each_width {
    ($($name:ident: $check:ident;)*) => { $(
        #[test]
        fn $name() {
            $check::<u8>();
            $check::<u16>();
            $check::<u32>();
            $check::<u64>();
        }
    )* };
}

for_each_width! {
    channel_cat_matches_literal_loops: cat;
    constant_pad1d_matches_literal_loops: pad;
    upsample_nearest2d_matches_literal_loops: upsample;
    flatten_matches_literal_loops: flatten;
}
