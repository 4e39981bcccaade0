//! Which launches serve a convolution on a target: the tiled kernels where they suit the problem, else the
//! portable one.

use super::depthwise;
use super::few;
use super::plan::{Problem, problem};
use super::prepare::Preparation;
use super::small::{self, Part};
use super::tiled::{self, Machine, WeightGradient};
use super::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward};
use crate::element::{DType, Num};
use crate::kernel::{Algorithm, Kernel, LaunchOptions, Workspace};
use crate::launch::{Launch, Target, Touched};

/// A part of the caller's workspace, behind `used` bytes of it, if it has `bytes` more.
fn workspace(options: &LaunchOptions<'_>, used: u64, bytes: u64) -> Option<u64> {
    let enough = |workspace: &Workspace| used.checked_add(bytes).is_some_and(|end| end <= workspace.bytes);
    options.workspace.filter(enough).map(|workspace| workspace.address + used)
}

/// The buffers of these names, as the portable launch touches them.
fn touched<const N: usize>(portable: &Launch, names: [&str; N]) -> [Touched; N] {
    names.map(|name| portable.touched().iter().copied().find(|t| t.name == name).unwrap_or(Touched::NONE))
}

fn machine<'a, D: Num>(options: &LaunchOptions<'_>, target: &'a Target) -> Machine<'a> {
    Machine { dtype: D::DTYPE, target, math: options.math, algorithm: options.algorithm }
}

/// What a convolution runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Small,
    Portable,
    Large,
}

impl Way {
    /// By the options, and by the shape where they leave it open. A choice that does not fit is left to the portable
    /// kernel, and refused by who asked for the plan.
    fn of<D: Num>(problem: &Problem, options: &LaunchOptions<'_>, part: Part) -> Self {
        let fits = small::suits(problem, D::DTYPE);
        match options.algorithm {
            Algorithm::Small if !fits => Self::Portable,
            Algorithm::Auto if fits && part.is_tiny(problem) => Self::Portable,
            Algorithm::Small | Algorithm::Auto if fits => Self::Small,
            family if family.is_family() => Self::Large,
            // In f64 it is what large problems run on, too.
            _ if fits && D::DTYPE == DType::F64 => Self::Small,
            _ => Self::Large,
        }
    }
}

/// The small kernel's launch. `buffers` are those that it takes, by the portable launch's names.
fn small(
    problem: &Problem,
    m: Machine<'_>,
    options: &LaunchOptions<'_>,
    portable: &Launch,
    part: Part,
    buffers: [&str; 5],
) -> Option<Vec<Launch>> {
    let launch = small::launch(problem, m, part, touched(portable, buffers), options.accumulate)?;
    Some(vec![launch])
}

/// The launch of a shape that fills no tile, if it is one and its family may serve.
fn special(
    m: Machine<'_>,
    depthwise: impl FnOnce() -> Option<Launch>,
    few: impl FnOnce() -> Option<Launch>,
) -> Option<Launch> {
    m.family(Algorithm::Depthwise, depthwise).or_else(|| m.family(Algorithm::Few, few))
}

/// dgrad and the bytes of workspace that it has use for, which lie in front of wgrad's.
fn dgrad(
    problem: &Problem,
    m: Machine<'_>,
    options: &LaunchOptions<'_>,
    portable: &Launch,
    preparation: &mut Preparation,
) -> Option<Vec<Launch>> {
    let touched = touched(portable, ["dy", "w", "dx"]);
    let depthwise = || depthwise::input_gradient(problem, m, touched, options.accumulate);
    let few = || few::input_gradient(problem, m, touched, options.accumulate);
    if let Some(launch) = special(m, depthwise, few) {
        return Some(vec![launch]);
    }
    let bytes = tiled::input_gradient_workspace(problem, m);
    let workspace = workspace(options, 0, bytes).filter(|_| bytes > 0);
    tiled::input_gradient(problem, m, touched, options.accumulate, workspace, preparation)
}

/// wgrad, whose workspace lies behind `used` bytes. `shared` says where dgrad left dy in the blocked format.
fn wgrad(
    problem: &Problem,
    m: Machine<'_>,
    options: &LaunchOptions<'_>,
    used: u64,
    shared: Option<u64>,
    portable: &Launch,
    preparation: &mut Preparation,
) -> Option<Vec<Launch>> {
    let touched = touched(portable, ["dy", "x", "dw"]);
    // Its sums need one.
    options.workspace?;
    // With less workspace than there is use for, x is brought to the blocked format in more parts.
    let mut parts = 1;
    let (gradient, workspace) = loop {
        let gradient = WeightGradient::new(problem, m, shared.is_some(), parts)?;
        if let Some(workspace) = workspace(options, used, gradient.bytes()) {
            break (gradient, workspace);
        }
        if parts >= i64::from(problem.b) {
            return None;
        }
        parts *= 2;
    };
    gradient.launches(problem, m, touched, options.accumulate, shared, workspace, preparation)
}

pub(super) fn forward_workspace<D: Num>(
    kernel: &Conv2dForward<D>,
    args: &<Conv2dForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
) -> u64 {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    if Way::of::<D>(&problem, options, Part::Forward) != Way::Large {
        return 0;
    }
    tiled::forward_workspace(&problem, machine::<D>(options, target))
}

pub(super) fn forward<D: Num>(
    kernel: &Conv2dForward<D>,
    args: &<Conv2dForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let m = machine::<D>(options, target);
    let part = Part::Forward;
    match Way::of::<D>(&problem, options, part) {
        Way::Small => return small(&problem, m, options, portable, part, ["x", "w", "y", "", ""]),
        Way::Portable => return None,
        Way::Large => {}
    }
    let touched = touched(portable, ["x", "w", "y"]);
    let (depthwise, few) =
        (|| depthwise::forward(&problem, m, touched), || few::forward(&problem, m, touched));
    if let Some(launch) = special(m, depthwise, few) {
        return Some(vec![launch]);
    }
    let bytes = tiled::forward_workspace(&problem, m);
    let workspace = workspace(options, 0, bytes).filter(|_| bytes > 0);
    let mut preparation = Preparation::new();
    let launches = tiled::forward(&problem, m, touched, workspace, &mut preparation)?;
    Some(preparation.in_front_of(m, launches))
}

/// Both products' bytes; dgrad's are rounded up to keep wgrad's on a boundary.
pub(super) fn backward_workspace<D: Num>(
    kernel: &Conv2dBackward<D>,
    args: &<Conv2dBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
) -> u64 {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    if Way::of::<D>(&problem, options, Part::Gradients { dx: true, dw: true }) != Way::Large {
        return 0;
    }
    let m = machine::<D>(options, target);
    let left = tiled::input_gradient_workspace(&problem, m).next_multiple_of(256);
    let shared = tiled::blocked_dy(&problem, m).is_some();
    left + WeightGradient::new(&problem, m, shared, 1).map_or(0, |gradient| gradient.bytes())
}

/// Both products, tiled or each by its own portable kernel; the combined portable kernel where neither is tiled.
pub(super) fn backward<D: Num>(
    kernel: &Conv2dBackward<D>,
    args: &<Conv2dBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let (dy, x, w, dx, dw, b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let m = machine::<D>(options, target);
    let part = Part::Gradients { dx: true, dw: true };
    match Way::of::<D>(&problem, options, part) {
        Way::Small => return small(&problem, m, options, portable, part, ["dy", "w", "dx", "x", "dw"]),
        Way::Portable => return None,
        Way::Large => {}
    }
    let used = tiled::input_gradient_workspace(&problem, m).next_multiple_of(256);
    let mut preparation = Preparation::new();
    let left = dgrad(&problem, m, options, portable, &mut preparation);
    let shared = tiled::blocked_dy(&problem, m)
        .and_then(|offset| workspace(options, 0, used).map(|workspace| workspace + offset));
    let right = wgrad(&problem, m, options, used, shared, portable, &mut preparation);
    let missing = [left.is_none(), right.is_none()];
    // A family that was asked for is to compute both.
    if missing == [true; 2] || m.algorithm.is_family() && missing != [false; 2] {
        return None;
    }
    let [kh, kw, sh, sw] = [kernel.kh, kernel.kw, kernel.stride_h, kernel.stride_w];
    let [ph, pw, g, block] = [kernel.pad_h, kernel.pad_w, kernel.g, kernel.block_ow];
    let mut launches = if let Some(launches) = left {
        launches
    } else {
        let alone = Conv2dBackwardDx::<D>::try_new(kh, kw, sh, sw, ph, pw, g, block).ok()?;
        vec![alone.prepare(&(dy, w, dx, b, c_in, c_out, h, wd, oh, ow), options).ok()?]
    };
    if let Some(more) = right {
        launches.extend(more);
    } else {
        let alone = Conv2dBackwardDw::<D>::try_new(kh, kw, sh, sw, ph, pw, g, block).ok()?;
        launches.push(alone.prepare(&(dy, x, dw, b, c_in, c_out, h, wd, oh, ow), options).ok()?);
    }
    Some(preparation.in_front_of(m, launches))
}

pub(super) fn backward_dx_workspace<D: Num>(
    kernel: &Conv2dBackwardDx<D>,
    args: &<Conv2dBackwardDx<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
) -> u64 {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    if Way::of::<D>(&problem, options, Part::Gradients { dx: true, dw: false }) != Way::Large {
        return 0;
    }
    tiled::input_gradient_workspace(&problem, machine::<D>(options, target))
}

pub(super) fn backward_dx<D: Num>(
    kernel: &Conv2dBackwardDx<D>,
    args: &<Conv2dBackwardDx<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let m = machine::<D>(options, target);
    let part = Part::Gradients { dx: true, dw: false };
    match Way::of::<D>(&problem, options, part) {
        Way::Small => return small(&problem, m, options, portable, part, ["dy", "w", "dx", "", ""]),
        Way::Portable => return None,
        Way::Large => {}
    }
    let mut preparation = Preparation::new();
    let launches = dgrad(&problem, m, options, portable, &mut preparation)?;
    Some(preparation.in_front_of(m, launches))
}

pub(super) fn backward_dw_workspace<D: Num>(
    kernel: &Conv2dBackwardDw<D>,
    args: &<Conv2dBackwardDw<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
) -> u64 {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    if Way::of::<D>(&problem, options, Part::Gradients { dx: false, dw: true }) != Way::Large {
        return 0;
    }
    WeightGradient::new(&problem, machine::<D>(options, target), false, 1)
        .map_or(0, |gradient| gradient.bytes())
}

pub(super) fn backward_dw<D: Num>(
    kernel: &Conv2dBackwardDw<D>,
    args: &<Conv2dBackwardDw<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let m = machine::<D>(options, target);
    let part = Part::Gradients { dx: false, dw: true };
    match Way::of::<D>(&problem, options, part) {
        Way::Small => return small(&problem, m, options, portable, part, ["dy", "", "", "x", "dw"]),
        Way::Portable => return None,
        Way::Large => {}
    }
    let mut preparation = Preparation::new();
    let launches = wgrad(&problem, m, options, 0, None, portable, &mut preparation)?;
    Some(preparation.in_front_of(m, launches))
}
