//! Launch geometry: a pure function of the call, right for any size.

use std::num::NonZeroU32;

use cotangent::launch::{Geometry, Launch};
use cotangent::{ChannelCatForward, Kernel, LaunchOptions};
use cotangent_tests::suite::most_shared;
use proptest::prelude::*;

use crate::catalogue::{Call, SUBJECTS, Subject, TARGETS};

/// The largest grid x of every GPU.
const MAX_GRID: u32 = (1 << 31) - 1;

/// Elements that a block of the portable kernel takes: what the `block_*` constants say, rounded up to vectors;
/// for kernels that give a block to each row, a row.
fn block_elements(subject: &Subject, call: &Call) -> u64 {
    match subject.info.name {
        "bias_add_backward" | "softmax_cross_entropy_forward" => 1,
        "softmax_cross_entropy_backward" => call.extents[1] as u64,
        name => {
            let blocks = subject.constants.iter().filter(|(name, _)| name.starts_with("block"));
            let area: u64 = blocks.map(|&(_, value)| value as u64).product();
            let vectors = area.next_multiple_of(16 / subject.dtype.size() as u64);
            // Each vector of the upsampled tensor is stored to all the rows that repeat it.
            let rows =
                subject.constants.iter().find(|(c, _)| name.ends_with("2d_forward") && *c == "scale_h");
            vectors * rows.map_or(1, |&(_, value)| value as u64)
        }
    }
}

fn check(launch: &Launch, most_shared: u32) {
    let Geometry { grid_x, block_x, shared_bytes } = launch.geometry();
    let place = format!("{} {}: {:?}", launch.kernel().name, launch.module().kind, launch.geometry());
    assert!((1..=MAX_GRID).contains(&grid_x), "{place}");
    assert!((32..=1024).contains(&block_x) && block_x % 32 == 0, "{place}");
    assert!(shared_bytes <= most_shared, "{place}: at most {most_shared}");
}

#[test]
fn geometry_is_within_every_gpus_limits() {
    for subject in SUBJECTS.iter() {
        for call in &subject.calls {
            // What a block may have without opting in.
            check(&subject.portable(call), 48 << 10);
            for target in &TARGETS {
                for launch in subject.planned(call, target) {
                    check(&launch, most_shared(target.capability));
                }
            }
        }
    }
}

#[test]
fn geometry_and_plan_are_pure() {
    for subject in SUBJECTS.iter() {
        for call in &subject.calls {
            let first = subject.portable(call);
            assert_eq!(first.geometry(), subject.portable(call).geometry());
            assert_eq!(first.params().packed(), subject.portable(call).params().packed());
            for target in &TARGETS {
                let plan = || subject.planned(call, target).iter().map(described).collect::<Vec<_>>();
                assert_eq!(plan(), plan(), "{} {call:?}", subject.label());
            }
        }
    }
}

fn described(launch: &Launch) -> (&'static str, &'static str, Vec<i32>, Vec<u8>, Geometry) {
    let (kernel, module) = (launch.kernel().name, launch.module().kind);
    (kernel, module, launch.constants().to_vec(), launch.params().packed().to_vec(), launch.geometry())
}

#[test]
fn portable_grids_cover_the_work() {
    for subject in SUBJECTS.iter() {
        for call in &subject.calls {
            let launch = subject.portable(call);
            let Geometry { grid_x, block_x, .. } = launch.geometry();
            let [grid, threads] = [grid_x, block_x].map(u64::from);
            // Rows of few elements have a thread for each of them, whatever the block.
            let moves = ["flatten", "channel_cat", "constant_pad1d"];
            let has_threads = grid * threads >= launch.work() && launch.work() <= 4096;
            let by_element = has_threads && moves.iter().any(|name| subject.info.name.starts_with(name));
            let a_block = if by_element { threads } else { block_elements(subject, call) };
            let covered = grid * a_block;
            let place = format!("{} {call:?}: {:?}", subject.label(), launch.geometry());
            assert!(covered >= launch.work(), "{place} covers {covered} of {}", launch.work());
            // One block more takes the vector that an unaligned base would add; rows that do not end on a
            // tile's edge leave the rest of it.
            let fit = launch.work().div_ceil(a_block);
            assert!(fit > 10 || grid <= 4 * fit.max(1), "{place}");
        }
    }
}

#[test]
fn nothing_to_do_launches_nothing() {
    let empty = SUBJECTS.iter().flat_map(|subject| {
        subject.calls.iter().filter(|call| call.extents[0] == 0).map(move |call| subject.portable(call))
    });
    let empty: Vec<_> = empty.collect();
    assert!(empty.len() >= 24);
    assert!(empty.iter().all(|launch| launch.work() == 0));
}

#[test]
fn a_callers_grid_is_taken_as_it_is() {
    let kernel = ChannelCatForward::<u8>::new(64);
    let args = ((1_u64 << 40) as *mut u8, (1_u64 << 41) as *mut u8, 100, 200, 3);
    for blocks in [1, 7, 1 << 20, MAX_GRID] {
        let options = LaunchOptions::new().rows(50).grid(NonZeroU32::new(blocks).expect("not zero"));
        let launch = kernel.prepare(&args, &options).expect("a launch");
        assert_eq!(launch.geometry().grid_x, blocks);
    }
}

proptest! {
    /// Any chunk up to 2⁶² elements: the grid covers it, or is the largest there is and blocks take several tiles.
    #[test]
    fn grids_cover_any_size(rows in 1_i64..1 << 31, chunk in 1_i32..=i32::MAX, block in 1_i32..1 << 29) {
        let kernel = ChannelCatForward::<u8>::new(block);
        let args = ((1_u64 << 62) as *mut u8, (1_u64 << 63) as *mut u8, chunk, chunk, 0);
        let launch = kernel.prepare(&args, &LaunchOptions::new().rows(rows)).expect("a launch");
        check(&launch, 48 << 10);
        let grid = launch.geometry().grid_x;
        prop_assert_eq!(launch.work(), rows as u64 * chunk as u64);
        let covered = u128::from(grid) * (block as u128).next_multiple_of(16);
        prop_assert!(grid == MAX_GRID || covered >= u128::from(launch.work()), "{grid} blocks");
    }
}
