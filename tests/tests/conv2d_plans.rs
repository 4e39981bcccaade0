//! Which kernels compute a convolution: by its shape, or by choice.

use cotangent::launch::{Launch, Target};
use cotangent::{
    Algorithm, Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward, Kernel, LaunchOptions,
    MathMode, Num, Workspace,
};
use cotangent_tests::suite::{nowhere, refused};

const H200: Target = Target { capability: (9, 0), multiprocessors: 132 };
const V100: Target = Target { capability: (7, 0), multiprocessors: 80 };

/// `[b, c_in, c_out, h, w]`, and a square filter's extent, stride, pad and groups.
#[derive(Clone, Copy)]
struct Shape([i32; 5], [i32; 4]);

const TINY: Shape = Shape([64, 48, 32, 8, 8], [3, 2, 1, 1]);
const LARGE: Shape = Shape([16, 64, 64, 56, 56], [3, 1, 1, 1]);
const STRIDED: Shape = Shape([32, 128, 256, 56, 56], [3, 2, 1, 1]);
const THREE: Shape = Shape([32, 128, 64, 56, 56], [3, 3, 1, 1]);
const DEPTHWISE: Shape = Shape([32, 128, 128, 56, 56], [3, 1, 1, 128]);
const STEM: Shape = Shape([32, 3, 64, 224, 224], [7, 2, 3, 1]);
const GROUPED: Shape = Shape([32, 128, 128, 28, 28], [3, 1, 1, 32]);

/// The plans of forward, dgrad, wgrad and both gradients, with all the workspace that they ask for.
fn plans<D: Num>(
    shape: Shape,
    options: LaunchOptions<'_>,
    target: Target,
) -> [cotangent::Result<Vec<Launch>>; 4] {
    let Shape([b, c_in, c_out, h, w], [k, stride, pad, g]) = shape;
    let [oh, ow] = [h, w].map(|extent| (extent + 2 * pad - k) / stride + 1);
    let (p, q, r, s, t) = (nowhere(1), nowhere(2), nowhere(3), nowhere(4), nowhere(5));
    macro_rules! plan {
        ($kernel:ident, $($pointer:ident),+) => {{
            let kernel = $kernel::<D>::recommended(k, k, stride, stride, pad, pad, g);
            let args = ($($pointer,)+ b, c_in, c_out, h, w, oh, ow);
            kernel.workspace_bytes(&args, &options, &target).and_then(|bytes| {
                let workspace = Workspace { address: 1 << 50, bytes };
                kernel.plan(&args, &options.workspace(workspace), &target)
            })
        }};
    }
    [
        plan!(Conv2dForward, p, q, r),
        plan!(Conv2dBackwardDx, p, q, r),
        plan!(Conv2dBackwardDw, p, q, r),
        plan!(Conv2dBackward, p, q, r, s, t),
    ]
}

fn names<D: Num>(shape: Shape, options: LaunchOptions<'_>, target: Target) -> [Vec<&'static str>; 4] {
    plans::<D>(shape, options, target)
        .map(|plan| plan.expect("a good shape").iter().map(|launch| launch.kernel().name).collect())
}

fn auto<D: Num>(shape: Shape, target: Target) -> [Vec<&'static str>; 4] {
    names::<D>(shape, LaunchOptions::new(), target)
}

#[test]
fn small_problems_take_one_launch() {
    for target in [H200, V100] {
        assert_eq!(auto::<f32>(TINY, target), [["conv2d_small"]; 4]);
        assert_eq!(auto::<f64>(TINY, target), [["conv2d_small"]; 4]);
        assert_eq!(auto::<half::bf16>(TINY, target), [["conv2d_small"]; 4]);
        assert_eq!(auto::<i32>(TINY, target)[3], ["conv2d_backward"]);
    }
}

#[test]
fn large_problems_run_on_what_suits_them() {
    let [forward, dx, dw, both] = auto::<half::f16>(LARGE, H200);
    let prepare = "conv2d_prepare";
    assert_eq!(forward, [prepare, "conv2d_blocked_64x128"]);
    assert_eq!(dx, forward);
    let sums = ["conv2d_blocked_dw_64x128", "conv2d_dw_reduce"];
    assert_eq!(dw, [&[prepare], &sums[..]].concat());
    // One launch prepares what both gradients read.
    assert_eq!(both, [&dx[..], &sums].concat());
    assert_eq!(auto::<f32>(LARGE, H200)[0], [prepare, "conv2d_blocked_split_64x128"]);
    let tf32 = LaunchOptions::new().math(MathMode::Tf32);
    assert_eq!(names::<f32>(LARGE, tf32, H200)[0], forward);
    // What an image in the blocked format would take is bounded: beyond, forward and dgrad have patches, and wgrad has
    // parts of the batch.
    let [forward, _, dw, _] = names::<f32>(STRIDED, tf32, H200);
    assert_eq!(forward, [prepare, "conv2d_patch"]);
    let part = [prepare, "conv2d_blocked_dw_128x128"];
    assert_eq!(dw, [&part[..], &part, &["conv2d_dw_reduce"]].concat());
    let huge = Shape([8, 64, 64, 256, 256], [3, 1, 1, 1]);
    let [forward, dx, dw, _] = auto::<half::f16>(huge, H200);
    assert_eq!(forward, [prepare, "conv2d_patch"]);
    assert_eq!(dx, forward);
    assert_eq!(dw, ["conv2d_patch_dw", "conv2d_dw_reduce"]);
    // 1x1 filters.
    let pointwise = Shape([32, 64, 256, 56, 56], [1, 1, 0, 1]);
    let [forward, dx, dw, both] = auto::<half::bf16>(pointwise, H200);
    assert_eq!(forward, [prepare, "conv2d_pointwise_128"]);
    assert_eq!(dx, [prepare, "conv2d_pointwise_64"]);
    assert_eq!(dw, ["conv2d_pointwise_dw_128x64", "conv2d_dw_reduce"]);
    assert_eq!(both, [dx, dw].concat());
    assert_eq!(auto::<f32>(pointwise, H200)[0], [prepare, "conv2d_patch_split"]);
    // Without tensor cores that serve.
    assert_eq!(auto::<f32>(LARGE, V100)[2], ["conv2d_dw_runs_64", "conv2d_dw_reduce"]);
    assert_eq!(auto::<f64>(LARGE, H200), [["conv2d_small"]; 4]);
    assert_eq!(auto::<u8>(LARGE, H200)[1], ["conv2d_backward_dx"]);
    // Sums of so few terms that the portable kernel is over sooner.
    let [forward, _, _, both] = auto::<f32>(Shape([1, 2, 4, 8, 8], [3, 1, 1, 1]), H200);
    assert_eq!((forward, both), (vec!["conv2d_forward"], vec!["conv2d_small"]));
    // Up to four classes of dgrad share a launch.
    assert_eq!(auto::<f32>(STRIDED, H200)[1], [prepare, "conv2d_blocked_split_128x64"]);
    let nine = [prepare, "conv2d_patch_split", "conv2d_patch_split", "conv2d_patch_split"];
    assert_eq!(auto::<f32>(THREE, H200)[1], nine);
    assert_eq!(auto::<f32>(DEPTHWISE, H200)[0], ["conv2d_depthwise"]);
    assert_eq!(auto::<f32>(DEPTHWISE, H200)[1], ["conv2d_depthwise"]);
    assert_eq!(auto::<f32>(DEPTHWISE, H200)[2], ["conv2d_depthwise_dw", "conv2d_dw_reduce"]);
    assert_eq!(auto::<f32>(STEM, H200)[1], ["conv2d_few_split"]);
    assert_eq!(auto::<f32>(STEM, H200)[2], ["conv2d_few_dw_split", "conv2d_dw_reduce"]);
    assert_eq!(auto::<half::bf16>(STEM, H200)[1], ["conv2d_few_mma"]);
    assert_eq!(names::<f32>(STEM, tf32, H200)[1], ["conv2d_few_mma"]);
    assert_eq!(auto::<f32>(STEM, V100)[1], ["conv2d_few"]);
    assert_eq!(auto::<f32>(STEM, V100)[2], ["conv2d_few_dw", "conv2d_dw_reduce"]);
    // Four rows of a fragment's sixteen: enough for one product, not for three.
    let shallow = Shape([32, 4, 64, 56, 56], [3, 1, 1, 1]);
    assert_eq!(auto::<f32>(shallow, H200)[1], ["conv2d_few"]);
    assert_eq!(names::<f32>(shallow, tf32, H200)[1], ["conv2d_few_mma"]);
    assert_eq!(auto::<f32>(GROUPED, H200)[0], ["conv2d_few"]);
    assert_eq!(auto::<f32>(GROUPED, H200)[1], ["conv2d_few"]);
    assert_eq!(auto::<f32>(GROUPED, H200)[2], ["conv2d_depthwise_dw", "conv2d_dw_reduce"]);
}

#[test]
fn the_choice_can_be_forced() {
    let forced = |algorithm| LaunchOptions::new().algorithm(algorithm);
    let portable = names::<f32>(TINY, forced(Algorithm::Portable), H200);
    assert_eq!(
        portable,
        [["conv2d_forward"], ["conv2d_backward_dx"], ["conv2d_backward_dw"], ["conv2d_backward"]]
    );
    let large = names::<f32>(TINY, forced(Algorithm::Large), H200);
    assert!(large.iter().all(|names| !names.contains(&"conv2d_small")), "{large:?}");
    assert_eq!(names::<f32>(TINY, forced(Algorithm::Small), H200), [["conv2d_small"]; 4]);
    assert_eq!(names::<u8>(TINY, forced(Algorithm::Large), H200)[0], ["conv2d_forward"]);
}

#[test]
fn a_choice_that_does_not_fit_is_refused() {
    let small = LaunchOptions::new().algorithm(Algorithm::Small);
    let kernels = ["conv2d_forward", "conv2d_backward_dx", "conv2d_backward_dw", "conv2d_backward"];
    for (plan, kernel) in plans::<f32>(LARGE, small, H200).into_iter().zip(kernels) {
        refused(plan, &[kernel, "algorithm", "2^25 products"]);
    }
    for plan in plans::<i16>(TINY, small, H200) {
        refused(plan, &["algorithm", "floats"]);
    }
}

#[test]
fn families_are_forced_by_name() {
    let forced = |algorithm| LaunchOptions::new().algorithm(algorithm);
    let prepare = "conv2d_prepare";
    // The second choices of a shape whose first is the blocked format.
    let patches = names::<half::f16>(LARGE, forced(Algorithm::Patches), H200);
    let sums = ["conv2d_patch_dw", "conv2d_dw_reduce"];
    assert_eq!(patches[..2], [[prepare, "conv2d_patch"]; 2]);
    assert_eq!(patches[2], sums);
    assert_eq!(patches[3], [&patches[1][..], &sums].concat());
    let tiled = names::<f32>(LARGE, forced(Algorithm::Tiled), H200);
    let sums = ["conv2d_dw_runs_64", "conv2d_dw_reduce"];
    assert_eq!(tiled[..2], [["conv2d_pack_filter", "conv2d_taps_64"]; 2]);
    assert_eq!(tiled[2], sums);
    assert_eq!(tiled[3], [&tiled[1][..], &sums].concat());
    // A first choice is what Large takes, to the bit.
    for (shape, family) in [
        (LARGE, Algorithm::Blocked),
        (DEPTHWISE, Algorithm::Depthwise),
        (Shape([32, 64, 256, 56, 56], [1, 1, 0, 1]), Algorithm::Pointwise),
    ] {
        let large = plans::<half::bf16>(shape, forced(Algorithm::Large), H200);
        for (one, other) in large.into_iter().zip(plans::<half::bf16>(shape, forced(family), H200)) {
            let [one, other] = [one, other].map(|plan| plan.expect("a good shape"));
            assert_eq!(one.len(), other.len());
            for (one, other) in one.iter().zip(&other) {
                assert_eq!(one.to_string(), other.to_string());
                assert_eq!((one.constants(), one.touched()), (other.constants(), other.touched()));
                assert_eq!(one.params().packed(), other.params().packed());
            }
        }
    }
    // Problems of any size.
    assert_eq!(
        names::<f32>(TINY, forced(Algorithm::Tiled), V100)[0],
        ["conv2d_pack_filter", "conv2d_taps_64"]
    );
    // Pairs of channels serve wgrad for any number of them, and nothing else.
    let [forward, dx, dw, both] = plans::<f32>(TINY, forced(Algorithm::Depthwise), H200);
    assert_eq!(dw.expect("pairs of channels")[0].kernel().name, "conv2d_depthwise_dw");
    for plan in [forward, dx, both] {
        refused(plan, &["algorithm", "Depthwise", "one input channel"]);
    }
}

#[test]
fn a_family_that_does_not_fit_is_refused() {
    for (family, shape, part) in [
        (Algorithm::Few, LARGE, "at most 15 channels"),
        (Algorithm::Pointwise, LARGE, "1 × 1 filters"),
        (Algorithm::Blocked, STEM, "at least 16 channels"),
        (Algorithm::Patches, DEPTHWISE, "at least 16 channels"),
        (Algorithm::Tiled, DEPTHWISE, "at least 16 channels"),
    ] {
        let options = LaunchOptions::new().algorithm(family);
        let [_, dx, _, both] = plans::<half::f16>(shape, options, H200);
        for plan in [dx, both] {
            refused(plan, &["conv2d_backward", "algorithm", &format!("{family:?}"), part]);
        }
    }
    for family in Algorithm::ALL.into_iter().skip(4) {
        let options = LaunchOptions::new().algorithm(family);
        for plan in plans::<i32>(LARGE, options, H200).into_iter().chain(plans::<f64>(LARGE, options, H200)) {
            refused(plan, &["algorithm", &format!("{family:?}")]);
        }
        // A grid is one for the portable kernel.
        let grid = options.grid(std::num::NonZeroU32::MIN);
        for plan in plans::<f32>(LARGE, grid, H200) {
            refused(plan, &["algorithm", &format!("{family:?}"), "the kernel's own grid"]);
        }
    }
    // Without tensor cores.
    for family in [Algorithm::Blocked, Algorithm::Patches, Algorithm::Pointwise] {
        for plan in plans::<half::f16>(LARGE, LaunchOptions::new().algorithm(family), V100) {
            refused(plan, &["algorithm", "tensor cores"]);
        }
    }
    // Off a boundary, and without the workspace.
    let kernel = Conv2dForward::<half::f16>::recommended(1, 1, 1, 1, 0, 0, 1);
    let args = |offset| {
        let x = nowhere::<half::f16>(1).wrapping_add(offset);
        (x, nowhere(2), nowhere(3), 32, 64, 64, 8, 8, 8, 8)
    };
    let options = LaunchOptions::new().algorithm(Algorithm::Pointwise);
    let workspace = |bytes| options.workspace(Workspace { address: 1 << 50, bytes });
    let bytes = kernel.workspace_bytes(&args(0), &options, &H200).expect("a good shape");
    kernel.plan(&args(0), &workspace(bytes), &H200).expect("it fits");
    refused(kernel.plan(&args(1), &workspace(bytes), &H200), &["algorithm", "16-byte boundaries"]);
    refused(kernel.plan(&args(0), &workspace(bytes - 1), &H200), &["algorithm", "its workspace"]);
    refused(kernel.plan(&args(0), &options, &H200), &["algorithm", "its workspace"]);
}

#[test]
fn a_plan_says_what_it_is() {
    let [forward, ..] = plans::<f32>(TINY, LaunchOptions::new(), H200);
    let text = forward.expect("a good shape")[0].to_string();
    assert!(text.starts_with("conv2d_small f32: ") && text.contains(" × 256 threads, 9216 bytes"), "{text}");
}
