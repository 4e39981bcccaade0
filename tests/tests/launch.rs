//! The geometry of launches as a pure function, and the names of devices.

use cotangent::launch::Geometry;
use cotangent::{ChannelCatForward, Device, FlattenForward, Kernel, LaunchOptions, ReluForward};
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
fn buffers_beyond_the_last_address_are_refused() {
    let kernel = ReluForward::<f32>::new(128);
    let last: *mut f32 = std::ptr::without_provenance_mut(usize::MAX - 15);
    for (input, output, name) in [(last, nowhere(1), "x"), (nowhere(1), last, "y")] {
        let prepared = kernel.prepare(&(input, output, 1, 5), &LaunchOptions::new());
        refused(prepared, &["relu_forward", name, "0xfffffffffffffff0", "20 bytes"]);
    }
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
