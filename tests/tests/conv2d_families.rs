//! Every family of kernels that a convolution can be made to run on computes it, wherever it fits.

use std::collections::BTreeSet;

use cotangent::launch::Target;
use cotangent::verify::{Case, Check, Choosing, run};
use cotangent::{Algorithm, DType, Device};
use cotangent_tests::executor::PtxMachine;
use cotangent_tests::suite;
use rayon::prelude::*;

const NAMES: [&str; 4] = ["conv2d_forward", "conv2d_backward", "conv2d_backward_dx", "conv2d_backward_dw"];

/// A GPU with tensor cores, large and small, and one without.
const TARGETS: [Target; 3] = [
    Target { capability: (9, 0), multiprocessors: 132 },
    Target { capability: (9, 0), multiprocessors: 2 },
    Target { capability: (7, 0), multiprocessors: 80 },
];

/// `[k, stride, pad, g]` and `[b, c_in, c_out, h, w]`.
const SHAPES: [([i32; 4], [i32; 5]); 7] = [
    ([3, 1, 1, 1], [2, 32, 32, 6, 7]),
    ([3, 2, 1, 1], [2, 32, 48, 7, 6]),
    ([1, 1, 0, 1], [2, 32, 48, 4, 8]),
    ([3, 1, 1, 2], [1, 32, 32, 5, 6]),
    ([3, 1, 1, 6], [2, 6, 12, 7, 9]),
    ([3, 1, 1, 1], [2, 3, 18, 10, 13]),
    ([3, 1, 1, 1], [2, 18, 3, 10, 13]),
];

/// The families, and what the names of their kernels begin with.
const FAMILIES: [(Algorithm, &[&str]); 6] = [
    (Algorithm::Depthwise, &["conv2d_depthwise"]),
    (Algorithm::Few, &["conv2d_few"]),
    (Algorithm::Pointwise, &["conv2d_pointwise"]),
    (Algorithm::Blocked, &["conv2d_blocked"]),
    (Algorithm::Patches, &["conv2d_patch"]),
    (Algorithm::Tiled, &["conv2d_taps", "conv2d_gather", "conv2d_dw_runs"]),
];

/// What stands beside any family's kernels.
const HELPERS: [&str; 3] = ["conv2d_prepare", "conv2d_pack_filter", "conv2d_dw_reduce"];

fn case(name: &'static str, ([k, s, p, g], [b, c_in, c_out, h, w]): ([i32; 4], [i32; 5])) -> Case {
    let [oh, ow] = [h, w].map(|extent| (extent + 2 * p - k) / s + 1);
    Case::new(name, &[k, k, s, s, p, p, g, 64], &[b, c_in, c_out, h, w, oh, ow])
}

/// A case on a family, where that fits.
struct Forced(Case, DType, Target, Algorithm);

fn forced() -> Vec<Forced> {
    let mut all = Vec::new();
    let mut reached = BTreeSet::new();
    for name in NAMES {
        for shape in SHAPES {
            for target in TARGETS {
                for dtype in [DType::F32, DType::Bf16] {
                    for (family, prefixes) in FAMILIES {
                        let case = case(name, shape);
                        let Ok(plan) = suite::planned(&case, dtype, &target, family) else { continue };
                        let mut own = false;
                        for launch in &plan {
                            let kernel = launch.kernel().name;
                            let of_family = prefixes.iter().any(|prefix| kernel.starts_with(prefix));
                            assert!(of_family || HELPERS.contains(&kernel), "{family:?} has {kernel}");
                            own |= of_family;
                        }
                        assert!(own, "{case:?} on {family:?}");
                        reached.insert((name, family.name()));
                        // Gradients also add to what is there.
                        let adds = name != "conv2d_forward" && all.len() % 2 == 1;
                        let case = case.accumulate(adds);
                        all.push(Forced(case, dtype, target, family));
                    }
                }
            }
        }
    }
    for name in NAMES {
        for (family, _) in FAMILIES {
            assert!(reached.contains(&(name, family.name())), "{name} is on {family:?} nowhere");
        }
    }
    all
}

#[test]
fn conv2d_families_match_reference() {
    // A GPU plans for itself, and may refuse what fits another; the machine takes what is planned for any.
    let device = Device::cuda(0);
    forced().par_iter().for_each(|Forced(case, dtype, target, family)| {
        let machine = PtxMachine::planned(*target).algorithm(*family);
        let check = Check::Reference(case.clone());
        if let Err(failure) = run(&machine, &check, *dtype) {
            panic!("{check}, {dtype}, on {family:?} for {target:?}: {failure}");
        }
        let Ok(device) = &device else { return };
        if let Err(failure) = run(&Choosing::new(device, *family), &check, *dtype) {
            let text = failure.to_string();
            assert!(text.contains("algorithm"), "{check}, {dtype}, on {family:?}, {device}: {text}");
        }
    });
}
