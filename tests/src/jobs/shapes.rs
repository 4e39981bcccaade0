//! Shapes drawn around every edge, besides verification's fixed set.

use cotangent::verify::{Case, Data, Grid};

use super::around::Around;

/// Drawn cases of one kernel.
const DRAWS: usize = 12;

/// Elements of a tensor beyond which the machine would take long.
const ENOUGH: i32 = 3000;

/// The cases of a kernel, the same each time.
pub(super) fn drawn(kernel: &'static str) -> Vec<Case> {
    let around = &mut Around::new(kernel);
    let backward = kernel.contains("backward");
    let drawn = (0..DRAWS).map(|i| one(kernel, around).accumulate(backward && i % 3 == 2));
    let mut cases: Vec<_> = drawn.collect();
    // With fewer threads than elements the kernels that move rows take vectors.
    let by_vectors = |case: &&Case| !case.kernel.starts_with("conv2d") && case.grid != Grid::One;
    cases
        .extend(cases.iter().filter(by_vectors).map(|case| case.clone().grid(Grid::One)).collect::<Vec<_>>());
    cases.extend(everywhere(&large(kernel)));
    cases
}

/// Cases of a convolution for tiled kernels alone: the portable ones would take long.
pub(super) fn tiled(kernel: &'static str) -> Vec<Case> {
    // The combined gradient has the kernels of the other two.
    let shapes =
        if kernel.starts_with("conv2d") && kernel != "conv2d_backward" { &CONVOLUTIONS[..] } else { &[] };
    let special = DEPTHWISE.iter().chain(&FEW_CHANNELS).chain(&FEW_OUTPUTS).filter(|_| !shapes.is_empty());
    let cases = shapes.iter().chain(special).map(|&(constants, sizes)| convolution(kernel, constants, sizes));
    let mut cases = everywhere(&cases.collect::<Vec<_>>());
    if kernel == "conv2d_forward" || kernel == "conv2d_backward_dx" {
        // Where a class lacks a tap that another has, what would meet it must not count.
        let special = DEPTHWISE.iter().chain(&FEW_CHANNELS).chain(&FEW_OUTPUTS).chain(&CONVOLUTIONS[..6]);
        let infinite = special.map(|&(constants, sizes)| convolution(kernel, constants, sizes));
        cases.extend(infinite.map(|case| case.data(Data::Overflow)));
    }
    if kernel == "conv2d_backward_dx" {
        let (constants, sizes) = FEW_CHANNELS[0];
        cases.push(convolution(kernel, constants, sizes).data(Data::Overflow).accumulate(true));
    }
    if kernel == "conv2d_backward_dw" {
        // Without zeros around x, which an infinity must not meet.
        cases.push(convolution(kernel, [3, 2, 1, 1, 0, 0, 1, 64], [1, 5, 64, 5, 13]).data(Data::Overflow));
        cases.push(convolution(kernel, [2, 3, 1, 1, 0, 0, 1, 64], [1, 16, 64, 5, 10]).data(Data::Overflow));
    }
    cases
}

/// Cases from aligned bases, from others, and added to the outputs where that can be.
fn everywhere(cases: &[Case]) -> Vec<Case> {
    let skewed = cases.iter().map(|case| case.clone().offsets(&[2, 3, 1, 1, 2]));
    let backward = cases.iter().filter(|case| case.kernel.contains("backward"));
    let accumulated = backward.map(|case| case.clone().accumulate(true));
    skewed.chain(accumulated).chain(cases.iter().cloned()).collect()
}

/// A small case, around the edges of warps, vectors and tiles.
pub(super) fn one(kernel: &'static str, around: &mut Around) -> Case {
    let block = around.of(&[1, 32, 64, 100, 1024]);
    let case = match kernel {
        "flatten_forward" | "flatten_backward" => {
            let b = around.extent(257);
            let n = around.extent(ENOUGH / b);
            let strides = around.of(&[[n, 1], [1, b], [n + 5, 1], [1, b + 3], [3 * n, 3], [2, 2 * b + 1]]);
            let rows = around.of(&[1, 3, 32]);
            Case::new(kernel, &[rows, block], &[b, n, strides[0], strides[1]])
        }
        "channel_cat_forward" | "channel_cat_backward" => {
            let rows = around.extent(129);
            let chunk = around.extent(ENOUGH / rows);
            let (before, after) = (around.between(0, 17), around.between(0, 17));
            let extents = [chunk, before + chunk + after, before];
            Case::new(kernel, &[block], &extents).rows(i64::from(rows))
        }
        "constant_pad1d_forward" | "constant_pad1d_backward" => {
            let (b, c) = (around.between(1, 3), around.between(1, 4));
            let l = around.extent(257);
            let (left, right) = (around.between(-l.min(4), 18), around.between(0, 18));
            Case::new(kernel, &[left, right, block], &[b, c, l, l + left + right])
        }
        "upsample_nearest2d_forward" | "upsample_nearest2d_backward" => {
            let (b, c, h) = (around.between(1, 2), around.between(1, 3), around.between(1, 5));
            let (scale_h, scale_w) = (around.between(1, 4), around.of(&[1, 2, 3, 4, 8, 9]));
            let w = around.extent(129);
            Case::new(kernel, &[scale_h, scale_w, block], &[b, c, h, w, h * scale_h, w * scale_w])
        }
        _ => {
            let g = around.between(1, 3);
            let (kh, kw) = (around.between(1, 4), around.between(1, 4));
            let (sh, sw) = (around.between(1, 3), around.between(1, 3));
            let (ph, pw) = (around.between(0, 2), around.between(0, 2));
            let sizes = [
                around.between(1, 2),
                g * around.between(1, 3),
                g * around.between(1, 3),
                kh + around.between(0, 6),
                kw + around.extent(17),
            ];
            return convolution(kernel, [kh, kw, sh, sw, ph, pw, g, block], sizes)
                .grid(around.of(&[Grid::Own, Grid::One, Grid::Twice]))
                .offsets(&around.offsets());
        }
    };
    case.grid(around.of(&[Grid::Own, Grid::One, Grid::Twice])).offsets(&around.offsets())
}

/// Whole vectors on boundaries and off them, and all that a block has in flight at once.
fn large(kernel: &'static str) -> Vec<Case> {
    let block = 8192;
    match kernel {
        "flatten_forward" | "flatten_backward" => vec![
            Case::new(kernel, &[1, block], &[3, 12_000, 12_000, 1]),
            Case::new(kernel, &[1, block], &[3, 9_001, 9_007, 1]),
            Case::new(kernel, &[1, block], &[3, 12_000, 12_016, 1]),
            // A block takes several tiles of a run.
            Case::new(kernel, &[1, 4096], &[2, 5_000, 5_000, 1]).grid(Grid::One),
            // A tile far larger than the matrix, of which only the matrix is walked.
            Case::new(kernel, &[30_000, 30_000], &[5, 7, 2, 31]),
            // Columns: on boundaries for every element type, for the widest, and for none.
            Case::new(kernel, &[32, 64], &[144, 80, 1, 160]),
            Case::new(kernel, &[32, 64], &[130, 140, 1, 130]),
            Case::new(kernel, &[32, 64], &[129, 143, 1, 131]).grid(Grid::One),
            Case::new(kernel, &[100, 100], &[129, 143, 1, 131]),
        ],
        "channel_cat_forward" | "channel_cat_backward" => vec![
            Case::new(kernel, &[block], &[12_000, 24_000, 8_000]).rows(3),
            Case::new(kernel, &[block], &[9_001, 9_011, 3]).rows(3),
            // The last vector is a thread's second, third or fourth, for each element width, and ends on a boundary
            // where its source does not.
            Case::new(kernel, &[block], &[1_232, 1_232, 0]).rows(1).offsets(&[3, 0]),
            Case::new(kernel, &[block], &[1_232, 1_232, 0]).rows(2).offsets(&[1, 0]),
            Case::new(kernel, &[block], &[1_232, 1_232, 0]).rows(3).offsets(&[3, 0]),
            Case::new(kernel, &[16_384], &[4_912, 4_912, 0]).rows(1).offsets(&[1, 0]),
            Case::new(kernel, &[16_384], &[4_912, 4_921, 9]).rows(2).offsets(&[3, 0]),
            Case::new(kernel, &[16_384], &[4_912, 4_912, 0]).rows(3).offsets(&[1, 0]),
        ],
        "constant_pad1d_forward" | "constant_pad1d_backward" => vec![
            Case::new(kernel, &[16, 16, block], &[1, 3, 9_600, 9_632]),
            Case::new(kernel, &[3, 5, block], &[1, 3, 9_001, 9_009]),
            // Rows that are cropped at both ends, at every place of a vector.
            Case::new(kernel, &[-5, -7, block], &[1, 60, 37, 25]),
            // The last vector is a thread's second, third or fourth, as above.
            Case::new(kernel, &[0, 0, block], &[1, 1, 1_232, 1_232]).offsets(&[3, 0]),
            Case::new(kernel, &[0, 0, block], &[1, 2, 1_232, 1_232]).offsets(&[1, 0]),
            Case::new(kernel, &[0, 0, block], &[1, 3, 1_232, 1_232]).offsets(&[3, 0]),
            Case::new(kernel, &[0, 0, 16_384], &[1, 1, 4_912, 4_912]).offsets(&[1, 0]),
            Case::new(kernel, &[-9, 0, 16_384], &[1, 2, 4_921, 4_912]).offsets(&[3, 0]),
            Case::new(kernel, &[0, 0, 16_384], &[1, 3, 4_912, 4_912]).offsets(&[1, 0]),
        ],
        "upsample_nearest2d_forward" | "upsample_nearest2d_backward" => vec![
            // Each scale that vectors serve, with rows on boundaries and off them.
            Case::new(kernel, &[2, 1, block], &[1, 2, 5, 128, 10, 128]),
            Case::new(kernel, &[2, 2, block], &[1, 3, 32, 96, 64, 192]),
            Case::new(kernel, &[3, 3, 1024], &[1, 2, 3, 96, 9, 288]),
            Case::new(kernel, &[1, 4, 1024], &[1, 2, 3, 64, 3, 256]),
            Case::new(kernel, &[1, 1, 1024], &[1, 2, 7, 77, 7, 77]),
            Case::new(kernel, &[1, 2, 1024], &[1, 2, 7, 77, 7, 154]),
            Case::new(kernel, &[3, 3, block], &[1, 2, 21, 77, 63, 231]),
            Case::new(kernel, &[2, 4, 1024], &[1, 2, 3, 77, 6, 308]),
        ],
        _ => Vec::new(),
    }
}

/// `kh, kw, stride_h, stride_w, pad_h, pad_w, g, block_ow`, then B, `C_in`, `C_out`, H and W: enough channels for
/// tiles, at tiles' edges and off them, with groups, strides, pads and residue classes without a tap.
pub(super) const CONVOLUTIONS: [([i32; 8], [i32; 5]); 31] = [
    // Wide rows, more reads than threads, and a group's last channels at the end of the tensors.
    ([3, 3, 1, 1, 1, 1, 1, 64], [1, 62, 29, 8, 16]),
    ([1, 2, 1, 1, 0, 1, 1, 64], [1, 64, 64, 4, 19]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [1, 64, 64, 8, 16]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [1, 80, 65, 3, 11]),
    ([3, 3, 2, 2, 1, 1, 1, 64], [1, 32, 20, 7, 9]),
    ([3, 3, 1, 1, 1, 1, 2, 64], [2, 32, 36, 6, 5]),
    ([2, 3, 3, 2, 2, 1, 1, 64], [1, 16, 31, 8, 7]),
    ([2, 2, 3, 3, 0, 1, 1, 64], [1, 48, 16, 9, 10]),
    ([1, 1, 2, 2, 0, 0, 3, 64], [3, 60, 51, 5, 5]),
    ([1, 3, 1, 1, 0, 2, 1, 64], [1, 19, 130, 2, 35]),
    // Too few channels in dgrad's reduction for packing the filter.
    ([3, 3, 1, 1, 1, 1, 1, 64], [1, 66, 18, 5, 9]),
    // Rows of whole pairs of columns, in the image and in the result.
    ([3, 3, 2, 2, 1, 1, 1, 64], [2, 32, 64, 14, 16]),
    ([3, 3, 1, 1, 1, 1, 1, 64], [1, 33, 24, 5, 14]),
    ([3, 3, 2, 2, 1, 1, 1, 64], [1, 32, 20, 7, 20]),
    // A tile of many channels and pixels, for a GPU with few multiprocessors.
    ([1, 2, 1, 1, 0, 1, 1, 64], [1, 16, 120, 10, 11]),
    ([1, 2, 1, 1, 0, 1, 1, 64], [1, 120, 16, 10, 11]),
    // Several tiles on every side, several runs of pixels, and more steps than are in flight.
    ([1, 2, 1, 1, 0, 1, 1, 64], [2, 72, 136, 16, 18]),
    ([2, 2, 1, 1, 1, 0, 1, 64], [2, 130, 70, 5, 8]),
    ([1, 2, 1, 1, 0, 1, 1, 64], [1, 24, 35, 4, 9]),
    ([1, 2, 1, 1, 0, 1, 1, 64], [1, 24, 43, 4, 9]),
    // A filter narrower than the stride: classes of dgrad without a tap.
    ([3, 1, 1, 3, 1, 0, 1, 64], [1, 18, 24, 6, 16]),
    // Products of matrices: several tiles on either side, steps that padding fills, and several runs.
    ([1, 1, 1, 1, 0, 0, 2, 64], [2, 124, 266, 8, 40]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [2, 141, 64, 16, 18]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [2, 70, 130, 5, 9]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [1, 70, 72, 8, 9]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [1, 70, 72, 3, 8]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [1, 70, 72, 5, 8]),
    ([1, 1, 1, 1, 0, 0, 1, 64], [2, 70, 72, 8, 13]),
    // What products of matrices do not serve: rows that vectors do not fill, and strides.
    ([1, 1, 1, 1, 0, 0, 1, 64], [1, 35, 66, 6, 14]),
    ([1, 1, 2, 2, 0, 0, 1, 64], [2, 48, 80, 9, 16]),
    // So many runs that several threads add those of an element.
    ([1, 1, 1, 1, 0, 0, 1, 64], [1, 16, 16, 64, 72]),
];

/// One input channel a group: rows on boundaries and off them, several planes of a tile and several tiles of a plane,
/// every kind of step, classes without a tap, and several output channels of an input channel.
pub(super) const DEPTHWISE: [([i32; 8], [i32; 5]); 15] = [
    ([3, 3, 1, 1, 1, 1, 5, 64], [2, 5, 5, 16, 16]),
    ([3, 3, 1, 1, 1, 1, 3, 64], [3, 3, 3, 7, 7]),
    ([3, 3, 2, 2, 1, 1, 4, 64], [2, 4, 4, 8, 24]),
    ([5, 4, 2, 3, 2, 0, 2, 64], [1, 2, 6, 21, 13]),
    ([7, 7, 1, 1, 3, 3, 2, 64], [1, 2, 2, 9, 8]),
    ([6, 7, 3, 2, 2, 4, 1, 64], [2, 1, 2, 13, 16]),
    ([2, 1, 3, 2, 0, 1, 2, 64], [2, 2, 4, 9, 16]),
    ([4, 2, 1, 1, 5, 2, 3, 64], [1, 3, 3, 3, 5]),
    ([3, 2, 1, 1, 1, 1, 1, 64], [1, 1, 1, 3, 1200]),
    ([3, 3, 1, 2, 1, 1, 1, 64], [1, 1, 1, 40, 480]),
    ([3, 3, 1, 1, 1, 1, 1, 64], [1, 1, 1, 12, 1024]),
    ([7, 7, 2, 2, 3, 3, 2, 64], [1, 2, 2, 17, 16]),
    ([7, 6, 1, 3, 2, 3, 2, 64], [1, 2, 4, 12, 11]),
    ([6, 7, 4, 1, 1, 3, 1, 64], [1, 1, 3, 23, 10]),
    ([3, 3, 2, 2, 1, 1, 1, 64], [1, 1, 1, 64, 64]),
];

/// Few input channels: several tiles along the rows and the columns, strides from one class to four parts of them, and
/// more channels than a thread takes.
pub(super) const FEW_CHANNELS: [([i32; 8], [i32; 5]); 15] = [
    ([7, 7, 2, 2, 3, 3, 1, 64], [1, 3, 17, 18, 20]),
    ([3, 3, 1, 1, 1, 1, 1, 64], [2, 3, 16, 16, 9]),
    ([5, 4, 4, 3, 1, 0, 1, 64], [1, 5, 16, 25, 22]),
    ([2, 3, 3, 2, 0, 2, 1, 64], [1, 2, 33, 15, 32]),
    ([4, 2, 1, 2, 2, 1, 2, 64], [2, 8, 24, 10, 8]),
    ([1, 3, 1, 1, 0, 1, 1, 64], [1, 1, 16, 9, 150]),
    ([9, 8, 1, 2, 4, 3, 3, 64], [1, 3, 3, 17, 40]),
    ([5, 6, 2, 1, 2, 3, 1, 64], [1, 6, 70, 9, 11]),
    ([3, 7, 3, 3, 0, 2, 2, 64], [2, 4, 34, 11, 24]),
    ([3, 3, 1, 1, 1, 1, 1, 64], [1, 3, 64, 3, 80]),
    ([3, 5, 1, 1, 1, 2, 1, 64], [1, 2, 24, 8, 16]),
    ([3, 3, 1, 1, 1, 1, 1, 64], [1, 4, 16, 2, 200]),
    // On tensor cores: rows of taps in two turns, groups with two parts of the reduction, and tiles on both sides.
    ([5, 2, 1, 1, 2, 1, 2, 64], [1, 8, 40, 5, 10]),
    ([6, 3, 1, 1, 3, 1, 1, 64], [1, 9, 18, 8, 12]),
    ([2, 3, 2, 2, 1, 0, 1, 64], [1, 3, 17, 40, 101]),
];

/// Few output channels: as many input channels, more and fewer, and more than a thread takes; with a stride, wgrad alone.
const FEW_OUTPUTS: [([i32; 8], [i32; 5]); 4] = [
    ([3, 3, 1, 1, 1, 1, 4, 64], [2, 16, 16, 12, 14]),
    ([3, 5, 1, 1, 2, 1, 1, 64], [1, 16, 3, 20, 18]),
    ([2, 3, 1, 1, 0, 2, 2, 64], [1, 40, 10, 9, 17]),
    ([3, 3, 2, 2, 1, 1, 2, 64], [1, 12, 8, 19, 22]),
];

/// A convolution of these sizes.
pub(super) fn convolution(kernel: &'static str, constants: [i32; 8], sizes: [i32; 5]) -> Case {
    let [kh, kw, stride_h, stride_w, pad_h, pad_w, ..] = constants;
    let [b, c_in, c_out, h, w] = sizes;
    let (oh, ow) = ((h + 2 * pad_h - kh) / stride_h + 1, (w + 2 * pad_w - kw) / stride_w + 1);
    Case::new(kernel, &constants, &[b, c_in, c_out, h, w, oh, ow])
}
