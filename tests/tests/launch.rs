//! Launches as data: their geometry, their parameters, and modules of a caller's own.

use std::num::NonZeroU32;

use cotangent::kernels::Param;
use cotangent::launch::{Geometry, Launch};
use cotangent::verify::{Call, Case, Check, checks, kernel, kernels};
use cotangent::{ChannelCatForward, DType, Device, FlattenForward, Kernel, LaunchOptions};
use cotangent_tests::ptx::Module;
use cotangent_tests::suite::{nowhere, refused};
use proptest::prelude::*;

const LARGEST_GRID: u64 = (1 << 31) - 1;

proptest! {
    #[test]
    fn geometry_covers_the_tiles(tiles in any::<u64>(), area in any::<u64>()) {
        let Geometry { grid_x, block_x, shared_bytes } = Geometry::tiles(tiles, area);
        prop_assert_eq!(u64::from(grid_x), tiles.clamp(1, LARGEST_GRID));
        prop_assert!(block_x % 32 == 0 && (32..=256).contains(&block_x));
        // A thread an element, as far as the block's threads go.
        prop_assert_eq!(u64::from(block_x) >= area, area <= 256);
        prop_assert_eq!(shared_bytes, 0);
    }
}

#[test]
fn geometry_at_its_edges() {
    for (tiles, area, grid_x, block_x) in [
        (0, 0, 1, 32),
        (1, 1, 1, 32),
        (5, 32, 5, 32),
        (5, 33, 5, 64),
        (5, 255, 5, 256),
        (5, 257, 5, 256),
        (LARGEST_GRID, 64, LARGEST_GRID as u32, 64),
        (LARGEST_GRID + 1, 64, LARGEST_GRID as u32, 64),
    ] {
        assert_eq!(Geometry::tiles(tiles, area), Geometry { grid_x, block_x, shared_bytes: 0 });
    }
}

#[test]
fn geometry_fits_a_grid_whatever_the_shape() {
    // 2³¹ − 1 rows of as many elements, in blocks of one: far more blocks than a grid has.
    let largest = i32::MAX;
    let kernel = FlattenForward::<u8>::new(1, 1);
    // Either matrix takes nearly 2⁶² bytes.
    let args = (std::ptr::without_provenance_mut(256), nowhere(1 << 18), largest, largest, largest, 1);
    let launch = kernel.prepare(&args, &LaunchOptions::new()).unwrap();
    assert_eq!(launch.work(), u64::from(largest as u32).pow(2));
    assert!(u64::from(launch.geometry().grid_x) <= LARGEST_GRID);
    let kernel = ChannelCatForward::<u8>::new(1);
    let rows = LaunchOptions::new().rows(1 << 40);
    let launch = kernel.prepare(&(nowhere(1), nowhere(1 << 10), 7, 7, 0), &rows).unwrap();
    assert_eq!(launch.work(), 7 << 40);
    assert!(u64::from(launch.geometry().grid_x) <= LARGEST_GRID);
}

#[test]
fn a_grid_of_the_callers_own_is_used() {
    let kernel = FlattenForward::<f32>::new(1, 64);
    let args = (nowhere(1), nowhere(2), 10, 100, 100, 1);
    let own = kernel.prepare(&args, &LaunchOptions::new()).unwrap().geometry();
    let grid = NonZeroU32::new(3).unwrap();
    let given = kernel.prepare(&args, &LaunchOptions::new().grid(grid)).unwrap().geometry();
    assert_eq!(given, Geometry { grid_x: 3, ..own });
}

/// A case's launch, with the addresses and the value that it was given.
fn planned(case: &Case, dtype: DType) -> (Launch, Vec<u64>, Vec<u8>) {
    let kernel = kernel(case.kernel, dtype, &case.constants).unwrap();
    let mut options = LaunchOptions::new().accumulate(case.accumulate);
    options.rows = case.rows;
    let addresses: Vec<u64> = (1..=kernel.pointers() as u64).map(|i| i << 44 | i << 8).collect();
    let scalar: Vec<u8> = (1..=kernel.scalar_bytes() as u8).collect();
    let call = Call { kernel: &*kernel, extents: &case.extents, scalar: &scalar, options };
    (call.prepare(&addresses).unwrap(), addresses, scalar)
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let size = bytes.len() / N;
    std::array::from_fn(|i| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(&bytes[i * size..][..size]);
        u64::from_le_bytes(word)
    })
}

/// The bytes that a parameter of this type takes.
fn size_of_type(ty: &str, dtype: DType) -> usize {
    match ty {
        "E" => dtype.size(),
        "i32" | "u32" | "f32" => 4,
        "i64" | "u64" | "f64" => 8,
        "FastDivmod" => 12,
        "FastDivmod64" => 24,
        _ if ty.starts_with("*mut ") => 8,
        _ => panic!("a parameter of type {ty}, whose layout this test does not know"),
    }
}

/// Divides as device code does, and compares with real division.
fn divides(name: &str, [divisor, magic, shift]: [u64; 3], bits: u32) {
    assert!(divisor > 0, "{name} divides by zero");
    let largest = u64::MAX >> (64 - bits + 1);
    let edges = [0, 1, divisor - 1, divisor, divisor + 1, 7 * divisor, largest - 1, largest, largest / 3];
    for n in edges.into_iter().filter(|&n| n <= largest) {
        let high = (u128::from(2 * n) * u128::from(magic)) >> bits;
        assert_eq!(high as u64 >> shift, n / divisor, "{name}: {n} / {divisor}");
    }
}

#[test]
fn params_are_the_arguments_and_then_the_hidden_words() {
    for name in kernels() {
        for check in checks(name).unwrap() {
            let Check::Reference(case) = check else { continue };
            for dtype in [DType::U8, DType::F16, DType::F32, DType::F64] {
                let (launch, addresses, scalar) = planned(&case, dtype);
                let info = launch.kernel();
                let params: Vec<_> = launch.params().iter().collect();
                assert_eq!(params.len(), info.args.len() + info.hidden.len(), "{case}");
                let (mut addresses, mut extents) = (addresses.iter(), case.extents.iter());
                for (&Param { name, ty }, bytes) in info.args.iter().chain(info.hidden).zip(params) {
                    let bytes = &bytes[..size_of_type(ty, dtype)];
                    match (name, ty) {
                        (_, _) if ty.starts_with("*mut ") => {
                            assert_eq!(bytes, addresses.next().unwrap().to_le_bytes(), "{case}: {name}");
                        }
                        (_, "E") => assert_eq!(bytes, scalar, "{case}: {name}"),
                        ("rows", _) => assert_eq!(bytes, case.rows.unwrap().to_le_bytes(), "{case}"),
                        ("accumulate", _) => {
                            assert_eq!(bytes, u32::from(case.accumulate).to_le_bytes(), "{case}");
                        }
                        (_, "FastDivmod") => divides(name, words(bytes), 32),
                        (_, "FastDivmod64") => divides(name, words(bytes), 64),
                        (_, "i32") if info.args.iter().any(|arg| arg.name == name) => {
                            assert_eq!(bytes, extents.next().unwrap().to_le_bytes(), "{case}: {name}");
                        }
                        _ => {}
                    }
                }
                assert!(
                    addresses.next().is_none() && extents.next().is_none(),
                    "{case}: an argument is missing"
                );
            }
        }
    }
}

#[test]
fn params_are_packed_as_the_ptx_declares_them() {
    for name in kernels() {
        let case = checks(name).unwrap()[0].case().clone();
        for dtype in DType::ALL {
            let (launch, ..) = planned(&case, dtype);
            let module = Module::parse(&launch.specialised_ptx().unwrap()).unwrap();
            let declared = &module.entry(&launch.entry_point_name()).expect("the entry is there").params;
            let params: Vec<_> = launch.params().iter().collect();
            assert_eq!(declared.len(), params.len(), "{name} {dtype}");
            let packed = launch.params().packed();
            for (declared, bytes) in declared.iter().zip(params) {
                let place = declared.offset..declared.offset + declared.size;
                assert_eq!(packed[place], bytes[..declared.size], "{name} {dtype}: {}", declared.name);
            }
            let last = declared.last().unwrap();
            assert_eq!(packed.len(), last.offset + last.size, "{name} {dtype}");
        }
    }
}

/// Launches a flatten from this text on the CPU, which gets as far as the check of the text.
fn launch_text(ptx: &str) -> cotangent::Result<()> {
    let kernel = FlattenForward::<f32>::new(1, 64);
    // SAFETY: nothing is launched: the text is refused, or else the device.
    unsafe {
        Device::cpu().launch_ptx(&kernel, ptx, (nowhere(1), nowhere(2), 2, 3, 3, 1), &LaunchOptions::new())
    }
}

#[test]
fn modules_of_a_callers_own_are_checked() {
    let kernel = FlattenForward::<f32>::new(1, 64);
    let launch = kernel.prepare(&(nowhere(1), nowhere(2), 2, 3, 3, 1), &LaunchOptions::new()).unwrap();
    let whole = launch.specialised_ptx().unwrap();
    refused(launch_text(&whole), &["flatten_forward", "the CPU cannot run PTX"]);
    // As it ships, with its holes; then with one hole left.
    refused(launch_text(launch.module().ptx), &["flatten_forward", "still has the hole __spec_block_"]);
    let half = whole.replacen(", 64;", ", __spec_block_n;", 1);
    assert_ne!(half, whole);
    refused(launch_text(&half), &["flatten_forward", "still has the hole __spec_block_n"]);
    refused(launch_text("not PTX at all"), &["flatten_forward", "has no .version line"]);
    let headless = whole.replace(".target", "// .target");
    refused(launch_text(&headless), &["flatten_forward", "has no .target line"]);
    let other = whole.replace("flatten_forward_entry_point", "flatten_forward_entry_point_2");
    refused(launch_text(&other), &["exports no entry point flatten_forward_entry_point"]);
}

#[test]
fn devices_that_are_not_there_are_refused() {
    refused(Device::named("gpu"), &["\"gpu\"", "auto, cpu, cuda and cuda:N"]);
    refused(Device::named("cuda:"), &["\"cuda:\""]);
    refused(Device::named("cuda:-1"), &["\"cuda:-1\""]);
    Device::named("cpu").unwrap();
    Device::named("auto").unwrap();
    assert!(Device::cuda(9999).is_err());
}
