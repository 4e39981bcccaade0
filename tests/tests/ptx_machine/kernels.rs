//! Real kernels, as the compiler wrote them, on the machine against literal loops.

use cotangent_tests::ptx::{Launch, Machine, Memory, Module, Options};

/// Replaces the holes `__spec_<name>` by numbers.
fn specialise(text: &str, holes: &[(&str, u32)]) -> String {
    let mut text = text.to_owned();
    for (name, value) in holes {
        text = text.replace(&format!("__spec_{name};"), &format!("{value};"));
    }
    text
}

/// `divisor, magic, shift` of a 64-bit division, as the device crate's formula says.
fn fast_divmod64(divisor: u64) -> Vec<u8> {
    let shift = 64 - (divisor - 1).leading_zeros() as u64;
    let magic = (1_u128 << (63 + shift)).div_ceil(divisor as u128) as u64;
    [divisor, magic, shift].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn fast_divmod32(divisor: u32) -> [u32; 3] {
    let shift = 32 - (divisor - 1).leading_zeros();
    let magic = (1_u64 << (31 + shift)).div_ceil(divisor as u64) as u32;
    [divisor, magic, shift]
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Small numbers with a few bits, so that order matters little, in a fixed sequence.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 24) as i32 - 128) as f32 / 16.0
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn conv2d_forward_matches_reference() {
    let [b, c_in, c_out, h, w, kh, kw] = [2, 3, 4, 7, 9, 3, 3];
    let [stride_h, stride_w, pad_h, pad_w] = [2, 1, 1, 1];
    let oh = (h + 2 * pad_h - kh) / stride_h + 1;
    let ow = (w + 2 * pad_w - kw) / stride_w + 1;
    let g = fast_divmod32(1);
    let text = specialise(
        include_str!("data/conv2d_forward_f32.ptx"),
        &[
            ("kh", kh as u32),
            ("kw", kw as u32),
            ("stride_h", stride_h as u32),
            ("stride_w", stride_w as u32),
            ("pad_h", pad_h as u32),
            ("pad_w", pad_w as u32),
            ("g_magic", g[1]),
            ("g_shift", g[2]),
            ("block_ow", 64),
        ],
    );
    let module = Module::parse(&text).expect("parses").with_label("conv2d_forward f32");
    let x = numbers((b * c_in * h * w) as usize, 1);
    let taps = numbers((c_out * c_in * kh * kw) as usize, 2);
    let elements = (b * c_out * oh * ow) as usize;
    let mut memory = Memory::new();
    let x_buffer = memory.alloc_read_only("x", &bytes_of(&x), 4);
    let w_buffer = memory.alloc_read_only("w", &bytes_of(&taps), 12);
    let y_buffer = memory.alloc("y", elements * 4, 4);
    let mut params: Vec<Vec<u8>> = [x_buffer, w_buffer, y_buffer]
        .iter()
        .map(|&buffer| memory.address(buffer).to_le_bytes().to_vec())
        .collect();
    params.extend([b, c_in, c_out, h, w, oh, ow].iter().map(|&extent: &i32| extent.to_le_bytes().to_vec()));
    params.extend([ow, oh, c_out].iter().map(|&d| fast_divmod64(d as u64)));
    params.push(fast_divmod32(c_out as u32).iter().flat_map(|word| word.to_le_bytes()).collect());
    let launch = Launch { grid: [3, 1, 1], block: [48, 1, 1], shared_bytes: 0, params: &params };
    let stats = Machine::new(&module)
        .launch("conv2d_forward_entry_point__f32", launch, &mut memory, &Options::default())
        .unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(stats.blocks, 3);
    memory.check_written(y_buffer, 0..elements * 4).expect("y is written in full");
    let y = memory.read_all(y_buffer).expect("initialised");
    for index in 0..elements as i32 {
        let (column, line) = (index % ow, index / ow % oh);
        let (co, batch) = (index / ow / oh % c_out, index / ow / oh / c_out);
        let mut sum = 0.0_f32;
        for ci in 0..c_in {
            for i in 0..kh {
                for j in 0..kw {
                    let (ih, iw) = (line * stride_h + i - pad_h, column * stride_w + j - pad_w);
                    if (0..h).contains(&ih) && (0..w).contains(&iw) {
                        let value = x[(((batch * c_in + ci) * h + ih) * w + iw) as usize];
                        sum = value.mul_add(taps[(((co * c_in + ci) * kh + i) * kw + j) as usize], sum);
                    }
                }
            }
        }
        let at = index as usize * 4;
        assert_eq!(&y[at..at + 4], &sum.to_le_bytes(), "element {index}");
    }
}

#[test]
fn channel_cat_backward_matches_reference_and_rounds_sums() {
    let [rows, chunk, total, offset] = [5_i32, 37, 50, 11];
    let text = specialise(include_str!("data/channel_cat_backward_bf16.ptx"), &[("block_size", 64)]);
    let module = Module::parse(&text).expect("parses");
    let dy: Vec<half::bf16> =
        numbers((rows * total) as usize, 3).into_iter().map(half::bf16::from_f32).collect();
    let old: Vec<half::bf16> =
        numbers((rows * chunk) as usize, 4).into_iter().map(half::bf16::from_f32).collect();
    let pack =
        |values: &[half::bf16]| values.iter().flat_map(|v| v.to_bits().to_le_bytes()).collect::<Vec<u8>>();
    for accumulate in [0_u32, 1] {
        let mut memory = Memory::new();
        let source = memory.alloc_read_only("dy", &pack(&dy), 2);
        let target = memory.alloc("dx", old.len() * 2, 6);
        if accumulate == 1 {
            memory.write(target, &pack(&old));
        }
        let params = [
            memory.address(source).to_le_bytes().to_vec(),
            memory.address(target).to_le_bytes().to_vec(),
            chunk.to_le_bytes().to_vec(),
            total.to_le_bytes().to_vec(),
            offset.to_le_bytes().to_vec(),
            (rows as u64).to_le_bytes().to_vec(),
            fast_divmod64(chunk as u64),
            accumulate.to_le_bytes().to_vec(),
        ];
        let launch = Launch { grid: [2, 1, 1], block: [64, 1, 1], shared_bytes: 0, params: &params };
        Machine::new(&module)
            .launch("channel_cat_backward_entry_point__bf16", launch, &mut memory, &Options::default())
            .unwrap_or_else(|report| panic!("{report}"));
        memory.check_written(target, 0..old.len() * 2).expect("dx is written in full");
        let dx = memory.read_all(target).expect("initialised");
        for (index, &start) in old.iter().enumerate() {
            let (row, column) = (index as i32 / chunk, index as i32 % chunk);
            let gradient = dy[(row * total + offset + column) as usize];
            let sum = if accumulate == 1 {
                half::bf16::from_f32(start.to_f32() + gradient.to_f32())
            } else {
                gradient
            };
            assert_eq!(dx[2 * index..2 * index + 2], sum.to_bits().to_le_bytes(), "{accumulate}: {index}");
        }
    }
}
