//! What a launch's checks accept stays in its buffers and computes its reference; what is sound they accept.

use cotangent::launch::{Access, Launch, Target};
use cotangent::verify::{Call, Case, Check, Executor, Failure, Grid, kernel, kernels, run};
use cotangent::{DType, Device, LaunchOptions, Workspace};

use super::draws::Draws;
use crate::executor::PtxMachine;

const TARGETS: [Target; 3] = [
    Target { capability: (9, 0), multiprocessors: 132 },
    Target { capability: (9, 0), multiprocessors: 1 },
    Target { capability: (7, 0), multiprocessors: 80 },
];

/// Bytes of buffers, products, threads and places of tiles beyond which a launch is planned and not executed.
const ENOUGH: [i128; 4] = [1 << 14, 1 << 15, 1 << 14, 1 << 16];

pub(super) fn check(data: &[u8]) {
    let draws = &mut Draws::new(data);
    let name = draws.of(&kernels());
    let dtype = draws.of(&DType::ALL);
    let mut case = sound(name, draws);
    let mut spoilt = false;
    while draws.once_in(3) {
        spoil(&mut case, draws);
        spoilt = true;
    }
    let refused = |failure: Failure| {
        assert!(matches!(failure, Failure::Launch(_)), "{case}, {dtype}: {failure}");
        assert!(spoilt, "{case}, {dtype} is sound: {failure}");
    };
    let built = match kernel(name, dtype, &case.constants) {
        Ok(built) => built,
        Err(failure) => return refused(failure),
    };
    let mut options = LaunchOptions::new().accumulate(case.accumulate);
    options.rows = case.rows;
    let scalar = vec![0; built.scalar_bytes()];
    let call = Call { kernel: &*built, extents: &case.extents, scalar: &scalar, options };
    let far: Vec<u64> = (1..=built.pointers() as u64).map(|i| i << 48).collect();
    let launch = match call.prepare(&far) {
        Ok(launch) => launch,
        Err(failure) => return refused(failure),
    };
    anywhere(&call, &launch, draws);
    let target = draws.of(&TARGETS);
    planned(call, &launch, &far, &target);
    let bytes = launch.touched().iter().map(|touched| i128::from(touched.bytes)).sum();
    let geometry = launch.geometry();
    let blocks = i128::from(geometry.grid_x);
    let threads = blocks * i128::from(geometry.block_x);
    let places = blocks * tile(&case);
    let costs: [i128; 4] = [bytes, products(&case) * i128::from(launch.work()), threads, places];
    if costs.iter().zip(ENOUGH).all(|(&cost, enough)| cost <= enough) {
        let executors: [&dyn Executor; 3] =
            [&Device::cpu(), &PtxMachine::new(), &PtxMachine::planned(target)];
        let check = Check::Reference(case);
        for executor in executors {
            if let Err(failure) = run(executor, &check, dtype) {
                panic!("{check}, {dtype}, on {}: {failure}", executor.name());
            }
        }
    }
}

/// Products that a result of a convolution sums, at most; for other kernels the elements of a window.
fn products(case: &Case) -> i128 {
    let [.., constants] = [&case.constants];
    let of = |numbers: &[i32]| numbers.iter().map(|&number| i128::from(number).max(1)).product::<i128>();
    match case.kernel {
        name if name.starts_with("conv2d") => {
            of(&constants[..2]) * of(&case.extents[..3]) * of(&case.extents[5..])
        }
        name if name.starts_with("upsample") => of(&constants[..2]),
        _ => 1,
    }
}

/// Places of a tile that a block of flatten visits, most of which may lie beyond the matrix.
fn tile(case: &Case) -> i128 {
    if case.kernel.starts_with("flatten") {
        case.constants.iter().map(|&extent| i128::from(extent)).product()
    } else {
        1
    }
}

/// A case that follows the kernel's rules.
fn sound(kernel: &'static str, draws: &mut Draws<'_>) -> Case {
    let backward = kernel.contains("backward");
    let block = draws.of(&[1, 32, 64, 100, 256, 1024]);
    let case = match kernel {
        "flatten_forward" | "flatten_backward" => {
            let (b, n) = (draws.between(0, 20), draws.between(0, 70));
            let strides = [[n, 1], [1, b], [n + 5, 1], [1, b + 3], [3 * n, 3], [2, 2 * b + 1]];
            let [stride_b, stride_n] = draws.of(&strides).map(|stride| stride.max(1));
            let rows = draws.of(&[1, 3, 32]);
            Case::new(kernel, &[rows, block], &[b, n, stride_b, stride_n])
        }
        "channel_cat_forward" | "channel_cat_backward" => {
            let [before, chunk, after] = [draws.between(0, 17), draws.between(0, 90), draws.between(0, 17)];
            let rows = i64::from(draws.between(0, 9));
            Case::new(kernel, &[block], &[chunk, before + chunk + after, before]).rows(rows)
        }
        "constant_pad1d_forward" | "constant_pad1d_backward" => {
            let [b, c, l] = [draws.between(0, 3), draws.between(0, 4), draws.between(0, 60)];
            let left = draws.between(-l, 18);
            let right = draws.between((-l).max(-l - left), 18);
            Case::new(kernel, &[left, right, block], &[b, c, l, l + left + right])
        }
        "upsample_nearest2d_forward" | "upsample_nearest2d_backward" => {
            let [b, c, h, w] = [0, 0, 0, 0].map(|least| draws.between(least, 6));
            let (scale_h, scale_w) = (draws.between(1, 4), draws.of(&[1, 2, 3, 4, 8, 9]));
            Case::new(kernel, &[scale_h, scale_w, block], &[b, c, h, w, h * scale_h, w * scale_w])
        }
        _ => {
            let g = draws.between(1, 3);
            let [kh, kw, stride_h, stride_w] = [1; 4].map(|least| draws.between(least, 3));
            let (pad_h, pad_w) = (draws.between(0, 2), draws.between(0, 2));
            let [b, c_in, c_out] = [draws.between(0, 2), g * draws.between(1, 3), g * draws.between(1, 3)];
            let h = (kh - 2 * pad_h).max(1) + draws.between(0, 5);
            let w = (kw - 2 * pad_w).max(1) + draws.between(0, 9);
            let oh = (h + 2 * pad_h - kh) / stride_h + 1;
            let ow = (w + 2 * pad_w - kw) / stride_w + 1;
            let constants = [kh, kw, stride_h, stride_w, pad_h, pad_w, g, block];
            Case::new(kernel, &constants, &[b, c_in, c_out, h, w, oh, ow])
        }
    };
    let offsets = [0; 5].map(|_: usize| draws.below(4));
    let grid = draws.of(&[Grid::Own, Grid::One, Grid::Twice]);
    case.grid(grid).offsets(&offsets).accumulate(backward && draws.once_in(3))
}

/// Changes one number to another.
fn spoil(case: &mut Case, draws: &mut Draws<'_>) {
    let hostile = draws.hostile();
    let near = draws.once_in(2);
    let other = |value: i64| if near { value.wrapping_add(hostile % 3) } else { hostile };
    let (constants, extents) = (case.constants.len(), case.extents.len());
    match draws.below(constants + extents + 2) {
        i if i < constants => case.constants[i] = other(i64::from(case.constants[i])) as i32,
        i if i < constants + extents => {
            let extent = &mut case.extents[i - constants];
            *extent = other(i64::from(*extent)) as i32;
        }
        i if i == constants + extents => case.accumulate = !case.accumulate,
        _ => case.rows = draws.once_in(2).then(|| other(case.rows.unwrap_or(0))),
    }
}

/// What a launch with other addresses touches, if it is accepted: aligned, not null, and outputs apart from all else.
fn anywhere(call: &Call<'_>, launch: &Launch, draws: &mut Draws<'_>) {
    let mut addresses: Vec<u64> = launch.touched().iter().map(|touched| touched.address).collect();
    for i in 0..addresses.len() {
        let other = addresses[draws.below(addresses.len())];
        addresses[i] = match draws.below(6) {
            0 => draws.hostile() as u64,
            1 => other,
            2 => other.wrapping_add(draws.any::<u8>().into()),
            3 => other.wrapping_sub(draws.any::<u16>().into()),
            _ => addresses[i],
        };
    }
    let Ok(launch) = call.prepare(&addresses) else { return };
    if launch.work() == 0 {
        return;
    }
    let size = call.kernel.dtype().size() as u64;
    let end = |start: u64, bytes: u64| u128::from(start) + u128::from(bytes);
    for (i, one) in launch.touched().iter().enumerate() {
        assert!(one.address.is_multiple_of(size), "{one:?}");
        assert!(one.bytes == 0 || one.address != 0, "{one:?}");
        assert!(end(one.address, one.bytes) <= 1 << 64, "{one:?}");
        for other in launch.touched().iter().take(i) {
            let both_read = one.access == Access::Read && other.access == Access::Read;
            let (start, stop) = (
                one.address.max(other.address),
                end(one.address, one.bytes).min(end(other.address, other.bytes)),
            );
            assert!(both_read || u128::from(start) >= stop, "{one:?} and {other:?} overlap");
        }
    }
}

/// What is planned for a target touches what the portable launch touches, and its workspace, and nothing else.
fn planned(mut call: Call<'_>, portable: &Launch, addresses: &[u64], target: &Target) {
    let describe = format!("{} {:?} for {target:?}", call.kernel.name(), call.extents);
    let bytes = call.workspace_bytes(addresses, target).unwrap_or_else(|error| panic!("{describe}: {error}"));
    let workspace = 1 << 60;
    if bytes > 0 {
        call.options.workspace = Some(Workspace { address: workspace, bytes });
    }
    let launches = call.plan(addresses, target).unwrap_or_else(|error| panic!("{describe}: {error}"));
    let allowed = portable.touched().iter().map(|touched| (touched.address, touched.bytes));
    let allowed: Vec<_> = allowed.chain([(workspace, bytes)]).collect();
    for launch in &launches {
        let geometry = launch.geometry();
        assert!(
            geometry.grid_x > 0 && geometry.block_x > 0 && geometry.block_x <= 1024,
            "{describe}: {geometry:?}"
        );
        launch.specialised_ptx().unwrap_or_else(|error| panic!("{describe}: {error}"));
        for touched in launch.touched().iter().filter(|touched| touched.bytes > 0) {
            let inside = |&(start, bytes): &(u64, u64)| {
                touched.address >= start && touched.address - start <= bytes && {
                    touched.bytes <= bytes - (touched.address - start)
                }
            };
            assert!(allowed.iter().any(inside), "{describe}: {} touches {touched:?}", launch.kernel().name);
        }
    }
}
