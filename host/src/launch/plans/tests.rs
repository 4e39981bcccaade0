//! Kept plans against fresh ones.

use half::f16;

use super::*;
use crate::element::Num;
use crate::launch::Access;
use crate::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward};

const TARGETS: [Target; 2] =
    [Target { capability: (9, 0), multiprocessors: 132 }, Target { capability: (7, 5), multiprocessors: 40 }];

/// `[kernel, stride, pad, g]` and `[b, c_in, c_out, image]`, square.
const PROBLEMS: [([i32; 4], [i32; 4]); 8] = [
    ([3, 1, 1, 1], [64, 16, 32, 8]),
    ([3, 2, 1, 1], [512, 16, 32, 8]),
    ([3, 1, 1, 1], [1, 4, 4, 8]),
    ([1, 1, 0, 1], [8, 64, 128, 14]),
    ([5, 1, 2, 1], [4, 3, 32, 28]),
    ([3, 1, 1, 16], [4, 16, 16, 12]),
    ([3, 2, 1, 2], [2, 32, 64, 15]),
    ([3, 1, 1, 1], [0, 16, 32, 8]),
];

/// Where tensors begin and how they lie there, in elements.
const LYINGS: [(u64, [u64; 5]); 6] = [
    (1 << 40, [0, 0, 0, 0, 0]),
    (3 << 40, [0, 0, 0, 0, 0]),
    (5 << 41, [64, 128, 192, 256, 320]),
    (1 << 40, [1, 0, 0, 3, 0]),
    (7 << 40, [4, 4, 1, 4, 4]),
    (9 << 40, [1, 0, 0, 3, 0]),
];

fn extents([_, stride, pad, _]: [i32; 4], kernel: i32, image: i32) -> i32 {
    (image + 2 * pad - kernel) / stride + 1
}

fn same(one: &[Launch], other: &[Launch]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is(other))
}

impl Plans {
    fn len(&self) -> usize {
        self.known.read().expect("no panic").len()
    }

    /// Whether every plan that was seen could be kept.
    fn all_kept(&self) -> bool {
        self.known.read().expect("no panic").values().all(Option::is_some)
    }
}

/// Asks twice for each lying, with the four kernels, and compares with fresh plans.
fn compare<D: Num>(plans: &Plans, problem: ([i32; 4], [i32; 4]), options: &LaunchOptions<'_>) {
    let (constants @ [k, s, p, g], [b, ci, co, side]) = problem;
    let out = extents(constants, k, side);
    let target = *plans.target();
    for (base, lying) in LYINGS {
        let at = |tensor: usize| {
            (base + ((tensor as u64) << 36) + lying[tensor] * size_of::<D>() as u64) as *mut D
        };
        macro_rules! check {
            ($kernel:ident, $options:expr, ($($tensor:expr),+)) => {
                let kernel = $kernel::<D>::new(k, k, s, s, p, p, g, 64);
                let args = ($(at($tensor),)+ b, ci, co, side, side, out, out);
                let mut options = $options;
                for _ in 0..2 {
                    options.workspace = None;
                    let bytes = kernel.workspace_bytes(&args, &options, &target).expect("bytes");
                    assert_eq!(plans.workspace_bytes(&kernel, &args, &options).expect("bytes"), bytes);
                    let mut taken = None;
                    let planned = plans.plan_with(&kernel, &args, &options, |bytes| {
                        Ok(*taken.insert(Workspace { address: base + (10 << 36), bytes }))
                    });
                    assert_eq!(taken.map_or(0, |taken| taken.bytes), bytes);
                    options.workspace = taken;
                    let fresh = kernel.plan(&args, &options, &target).expect("a plan");
                    assert!(same(&planned.expect("a plan"), &fresh), "{} {problem:?}", kernel.id);
                    for workspace in [0, 256, bytes] {
                        let address = base + (9 << 36);
                        options.workspace = (workspace > 0).then_some(Workspace { address, bytes: workspace });
                        let fresh = kernel.plan(&args, &options, &target).expect("a plan");
                        for _ in 0..2 {
                            let kept = plans.plan(&kernel, &args, &options).expect("a plan");
                            assert!(same(&kept, &fresh), "{} {problem:?} {base:x} {lying:?}", kernel.id);
                        }
                    }
                }
            };
        }
        check!(Conv2dForward, LaunchOptions { accumulate: false, ..*options }, (0, 1, 2));
        check!(Conv2dBackwardDx, *options, (2, 1, 3));
        check!(Conv2dBackwardDw, *options, (2, 0, 4));
        check!(Conv2dBackward, *options, (2, 0, 1, 3, 4));
    }
}

#[test]
fn kept_plans_are_fresh_ones_at_any_address() {
    for target in TARGETS {
        let plans = Plans::new(target);
        for problem in PROBLEMS {
            for accumulate in [false, true] {
                let options = LaunchOptions::new().accumulate(accumulate);
                compare::<f32>(&plans, problem, &options);
                compare::<f32>(&plans, problem, &options.math(MathMode::Tf32));
                for algorithm in [Algorithm::Portable, Algorithm::Large] {
                    compare::<f32>(&plans, problem, &options.algorithm(algorithm));
                }
                compare::<f16>(&plans, problem, &options);
                compare::<f16>(&plans, problem, &options.algorithm(Algorithm::Large));
                compare::<f64>(&plans, problem, &options);
            }
        }
        assert!(plans.all_kept());
    }
}

type Forward = Conv2dForward<f32>;

fn forward() -> Forward {
    Forward::new(3, 3, 1, 1, 1, 1, 1, 64)
}

fn call([x, w, y]: [u64; 3], channels: i32) -> <Forward as Kernel>::Args<'static> {
    (x as *mut f32, w as *mut f32, y as *mut f32, 1, channels, 4, 8, 8, 8, 8)
}

#[test]
fn one_plan_serves_addresses_that_lie_alike() {
    let plans = Plans::new(TARGETS[0]);
    let kernel = forward();
    let ask = |addresses| plans.plan(&kernel, &call(addresses, 4), &LaunchOptions::new()).expect("a plan");
    for step in 1..20_u64 {
        ask([step << 20, (step << 21) + (1 << 30), (step << 22) + (1 << 40)]);
    }
    assert_eq!(plans.len(), 1);
    ask([(1 << 20) + 4, 1 << 30, 1 << 40]);
    assert_eq!(plans.len(), 2, "another boundary");
}

#[test]
fn kept_plans_do_not_hide_errors_of_addresses() {
    let plans = Plans::new(TARGETS[0]);
    let kernel = forward();
    let options = LaunchOptions::new();
    let [x, w, y] = [1_u64 << 20, 1 << 30, 1 << 40];
    plans.plan(&kernel, &call([x, w, y], 4), &options).expect("a plan");
    // The last places that there are, every buffer over every other, and what the key tells apart.
    let end = u64::MAX - 255;
    for (addresses, word) in [
        ([end, w, y], "beyond"),
        ([x, end, y], "beyond"),
        ([x, w, end], "beyond"),
        ([y, w, y], "overlap"),
        ([x, y + 256, y], "overlap"),
        ([x, w, x + 512], "overlap"),
        ([0, w, y], "null"),
        ([x, w, 0], "null"),
        ([x + 2, w, y], "aligned"),
    ] {
        let args = call(addresses, 4);
        let fresh = kernel.plan(&args, &options, &TARGETS[0]).map(drop).expect_err(word).to_string();
        for _ in 0..2 {
            let kept = plans.plan(&kernel, &args, &options).map(drop).expect_err(word).to_string();
            assert_eq!(kept, fresh);
            let kept = plans.workspace_bytes(&kernel, &args, &options).expect_err(word).to_string();
            assert_eq!(kept, fresh);
        }
    }
    // Inputs may share memory, now as before.
    let shared = call([x, x, y], 4);
    let kept = plans.plan(&kernel, &shared, &options).expect("a plan");
    assert!(same(&kept, &kernel.plan(&shared, &options, &TARGETS[0]).expect("a plan")));
}

#[test]
fn edits_are_refused_where_a_plan_is_kept() {
    let plans = Plans::new(TARGETS[0]);
    let kernel = forward();
    let args = call([1 << 20, 1 << 30, 1 << 40], 4);
    let refused = |kernel: &Forward, field: &str| {
        let error = plans.plan(kernel, &args, &LaunchOptions::new()).map(drop).expect_err(field);
        assert!(matches!(&error, crate::Error::Edited { field: named, .. } if *named == field), "{error}");
    };
    plans.plan(&kernel, &args, &LaunchOptions::new()).expect("a plan");
    // In place, so that neither address nor length changes.
    let mut edited = kernel.clone();
    edited.kernel_source.make_ascii_uppercase();
    refused(&edited, "kernel_source");
    let mut edited = kernel.clone();
    edited.entry_point_source.make_ascii_uppercase();
    refused(&edited, "source");
    let mut edited = kernel.clone();
    edited.source.make_ascii_uppercase();
    refused(&edited, "source");
    let mut edited = kernel.clone();
    edited.block_ow = 128;
    refused(&edited, "block_ow");
    let mut edited = kernel.clone();
    let mut other = Forward::new(3, 3, 1, 1, 1, 1, 1, 128);
    std::mem::swap(&mut edited.source, &mut other.source);
    refused(&edited, "source");
    plans.plan(&kernel, &args, &LaunchOptions::new()).expect("the kernel itself was not edited");
}

#[test]
fn kept_plans_are_bounded_in_number() {
    let plans = Plans::new(TARGETS[0]);
    let addresses = [1 << 20, 1 << 30, 1 << 40];
    let kernel = forward();
    for channels in 1..=MOST_PLANS as i32 + 3 {
        plans.plan(&kernel, &call(addresses, channels), &LaunchOptions::new()).expect("a plan");
        assert!(plans.len() <= MOST_PLANS);
    }
    assert_eq!(plans.len(), 3, "full once, then begun anew");
}

/// A kernel whose plans know more of an address than the key.
struct Nosy(Forward);

impl Kernel for Nosy {
    type Args<'a> = <Forward as Kernel>::Args<'a>;

    fn id(&self) -> String {
        self.0.id()
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn source(&self) -> &str {
        self.0.source()
    }

    fn kernel_source(&self) -> &str {
        self.0.kernel_source()
    }

    fn entry_point_source(&self) -> &str {
        self.0.entry_point_source()
    }

    fn entry_point_name(&self) -> String {
        self.0.entry_point_name()
    }

    fn dtype(&self) -> DType {
        self.0.dtype()
    }

    fn info(&self) -> &'static KernelInfo {
        self.0.info()
    }

    fn prepare(&self, args: &Self::Args<'_>, options: &LaunchOptions<'_>) -> Result<Launch> {
        let mut launch = self.0.prepare(args, options)?;
        launch.geometry.shared_bytes = (args.0 as u64 / 1024 % 4) as u32;
        Ok(launch)
    }

    fn plan_key(
        &self,
        args: &Self::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<Option<(PlanKey, Addresses)>> {
        self.0.plan_key(args, options)
    }

    fn moved<'a>(&self, args: &Self::Args<'a>, addresses: &Addresses) -> Option<Self::Args<'a>> {
        self.0.moved(args, addresses)
    }

    unsafe fn run_on_cpu(&self, args: &Self::Args<'_>, options: &LaunchOptions<'_>) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.0.run_on_cpu(args, options) }
    }
}

#[test]
fn plans_that_know_too_much_are_not_kept() {
    let plans = Plans::new(TARGETS[0]);
    let kernel = Nosy(forward());
    for step in [1, 2, 3, 1] {
        let args = call([step << 10, 1 << 30, 1 << 40], 4);
        let plan = plans.plan(&kernel, &args, &LaunchOptions::new()).expect("a plan");
        assert_eq!(plan[0].geometry.shared_bytes, step as u32);
    }
    assert!(plans.len() == 1 && !plans.all_kept());
}

#[test]
fn places_are_told_apart() {
    let options = LaunchOptions::new().workspace(Workspace { address: 1 << 30, bytes: 1 << 20 });
    let (mut key, mut addresses) = (
        PlanKey::new(forward().info(), DType::F32, Constants::default(), &options),
        Addresses::new(&options),
    );
    call([256, 0, 516], 4).note(&mut key, &mut addresses);
    let apart = addresses.apart();
    for (sum, base, distance) in [
        (apart.all[0] + 1000, 0, 1000),
        (apart.all[2], 2, 0),
        (apart.all[WORKSPACE] + 7, WORKSPACE, 7),
        (0, NULL, 0),
    ] {
        let place = apart.place(sum).expect("a place");
        assert_eq!((place.base, place.distance), (base, distance));
    }
    // Small numbers, below an address, and by an address that is null.
    for sum in [1, 1 << 40, apart.all[2] - 1, 2 << Addresses::DISTANCE] {
        assert!(apart.place(sum).is_none(), "{sum:x}");
    }
    let touched = |address| Touched { name: "x", address, bytes: 8, access: Access::Write };
    assert!(overlap(&[touched(apart.all[0]), touched(apart.all[2])]).is_none());
}
