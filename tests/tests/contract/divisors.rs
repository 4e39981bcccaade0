//! The magic numbers that launches carry, against real division.

use cotangent::launch::Launch;
use cotangent::{BiasAddForward, ConstantPad1dForward, Conv2dForward, Kernel, LaunchOptions};
use proptest::prelude::*;

use crate::catalogue::launches;

/// What the device computes: `mulhi(2n, magic) >> shift`, in words of 32 or 64 bits.
fn quotient(n: u64, [_, magic, shift]: [u64; 3], bits: u32) -> u64 {
    ((u128::from(n) * 2 * u128::from(magic)) >> bits >> shift) as u64
}

/// A divisor among a launch's hidden words: its name, its three words and their bits.
fn divisors(launch: &Launch) -> Vec<(&'static str, [u64; 3], u32)> {
    let hidden = launch.kernel().hidden.iter().zip(launch.params().iter().skip(launch.kernel().args.len()));
    let words = |bytes: &[u8], size: usize| -> [u64; 3] {
        std::array::from_fn(|i| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(&bytes[i * size..(i + 1) * size]);
            u64::from_le_bytes(word)
        })
    };
    hidden
        .filter_map(|(param, bytes)| match param.ty {
            "FastDivmod" => Some((param.name, words(bytes, 4), 32)),
            "FastDivmod64" => Some((param.name, words(bytes, 8), 64)),
            _ => None,
        })
        .collect()
}

/// The edges of each quotient's range, and some numbers between.
fn check(name: &str, words: [u64; 3], bits: u32, some: &[u64]) {
    let divisor = words[0];
    let limit = 1_u64 << (bits - 1);
    assert!(divisor > 0 && divisor < limit && words[2] < u64::from(bits), "{name}: {words:?}");
    let top = limit - 1;
    let edges =
        [0, 1, divisor - 1, divisor, top / divisor * divisor, (top / divisor * divisor).max(1) - 1, top];
    for n in edges.into_iter().chain(some.iter().map(|n| n % limit)) {
        assert_eq!(quotient(n, words, bits), n / divisor, "{name}: {n} / {divisor} by {words:?}");
    }
}

#[test]
fn every_launchs_divisors_divide() {
    let mut seen = 0;
    for (_, _, launch) in launches() {
        for (name, words, bits) in divisors(&launch) {
            check(name, words, bits, &[12_345_678_901_234_567, 1 << 40, 3 << 20]);
            seen += 1;
        }
    }
    assert!(seen > 1000, "only {seen} divisors were seen");
}

fn nowhere<D>(i: u64) -> *mut D {
    (i << 60) as *mut D
}

proptest! {
    /// 64-bit divisors up to the largest extent.
    #[test]
    fn extents_divide(
        ol in 1_i32..=i32::MAX, pad_left in 0_i32..1 << 29, some in prop::array::uniform8(any::<u64>()),
    ) {
        let pad_left = pad_left.min(ol);
        let kernel = ConstantPad1dForward::<u8>::new(pad_left, 0, 128);
        let args = (nowhere(1), nowhere(2), 1, 1, ol - pad_left, ol, 0);
        let launch = kernel.prepare(&args, &LaunchOptions::new()).expect("a launch");
        let found = divisors(&launch);
        prop_assert!(found.iter().any(|(_, words, _)| words[0] == ol as u64), "{found:?} lacks {ol}");
        for (name, words, bits) in found {
            check(name, words, bits, &some);
        }
    }

    /// 64-bit divisors up to 2⁶².
    #[test]
    fn products_of_extents_divide(
        h in 1_i32..=i32::MAX, w in 1_i32..=i32::MAX, some in prop::array::uniform8(any::<u64>()),
    ) {
        let kernel = BiasAddForward::<u8>::new(16);
        let args = (nowhere(4), nowhere(1), nowhere(8), 1, 1, h, w);
        let found = divisors(&kernel.prepare(&args, &LaunchOptions::new()).expect("a launch"));
        let whole = h as u64 * w as u64;
        prop_assert!(found.iter().any(|(_, words, _)| words[0] == whole), "{found:?} lacks {whole}");
        for (name, words, bits) in found {
            check(name, words, bits, &some);
        }
    }

    /// 32-bit divisors.
    #[test]
    fn channels_divide(
        c_out in 1_i32..1 << 28, g in 1_i32..5, some in prop::array::uniform8(any::<u64>()),
    ) {
        let kernel = Conv2dForward::<u8>::new(1, 1, 1, 1, 0, 0, g, 128);
        let args = (nowhere(1), nowhere(2), nowhere(3), 1, g, c_out * g, 1, 1, 1, 1);
        let launch = kernel.prepare(&args, &LaunchOptions::new()).expect("a launch");
        let found = divisors(&launch);
        prop_assert!(found.iter().any(|(_, words, bits)| (words[0], *bits) == (c_out as u64, 32)), "{found:?}");
        for (name, words, bits) in found {
            check(name, words, bits, &some);
        }
    }
}
