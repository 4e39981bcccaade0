//! Which launches serve a convolution on a target: the tiled kernels where they suit the problem, else the
//! portable one.

use super::plan::{Problem, problem};
use super::tiled;
use super::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward};
use crate::element::Num;
use crate::kernel::{Kernel, LaunchOptions};
use crate::launch::{Launch, Target, Touched};

/// The workspace's address, if the caller gave enough of it.
fn workspace(options: &LaunchOptions<'_>, bytes: u64) -> Option<u64> {
    options.workspace.filter(|workspace| workspace.bytes >= bytes).map(|workspace| workspace.address)
}

/// The buffers of these names, as the portable launch touches them.
fn touched<const N: usize>(portable: &Launch, names: [&str; N]) -> [Touched; N] {
    names.map(|name| portable.touched().iter().copied().find(|t| t.name == name).unwrap_or(Touched::NONE))
}

fn wgrad_bytes<D: Num>(problem: &Problem, target: &Target) -> u64 {
    let volumes = problem.volumes();
    tiled::weight_gradient_workspace(problem, D::DTYPE, &volumes, target).unwrap_or(0)
}

fn wgrad<D: Num>(
    problem: &Problem,
    options: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let volumes = problem.volumes();
    let bytes = tiled::weight_gradient_workspace(problem, D::DTYPE, &volumes, target)?;
    let workspace = workspace(options, bytes)?;
    let touched = touched(portable, ["dy", "x", "dw"]);
    let pointers = touched.map(|t| t.address);
    let accumulate = options.accumulate;
    tiled::weight_gradient(problem, D::DTYPE, &volumes, pointers, touched, workspace, accumulate, target)
}

fn dgrad<D: Num>(
    problem: &Problem,
    options: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let touched = touched(portable, ["dy", "w", "dx"]);
    let pointers = touched.map(|t| t.address);
    tiled::input_gradient(problem, D::DTYPE, pointers, &touched, options.accumulate, target)
}

pub(super) fn forward_workspace<D: Num>(
    _: &Conv2dForward<D>,
    _: &<Conv2dForward<D> as Kernel>::Args<'_>,
    _: &Target,
) -> u64 {
    0
}

pub(super) fn forward<D: Num>(
    kernel: &Conv2dForward<D>,
    args: &<Conv2dForward<D> as Kernel>::Args<'_>,
    _: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let touched = touched(portable, ["x", "w", "y"]);
    tiled::forward(&problem, D::DTYPE, touched.map(|t| t.address), &touched, target)
}

pub(super) fn backward_workspace<D: Num>(
    kernel: &Conv2dBackward<D>,
    args: &<Conv2dBackward<D> as Kernel>::Args<'_>,
    target: &Target,
) -> u64 {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    wgrad_bytes::<D>(&problem!(kernel, b, c_in, c_out, h, wd, oh, ow), target)
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
    let left = dgrad::<D>(&problem, options, target, portable);
    let right = wgrad::<D>(&problem, options, target, portable);
    if left.is_none() && right.is_none() {
        return None;
    }
    let [kh, kw, sh, sw] = [kernel.kh, kernel.kw, kernel.stride_h, kernel.stride_w];
    let [ph, pw, g, block] = [kernel.pad_h, kernel.pad_w, kernel.g, kernel.block_ow];
    let mut launches = match left {
        Some(launches) => launches,
        None => {
            let alone = Conv2dBackwardDx::<D>::try_new(kh, kw, sh, sw, ph, pw, g, block).ok()?;
            vec![alone.prepare(&(dy, w, dx, b, c_in, c_out, h, wd, oh, ow), options).ok()?]
        }
    };
    match right {
        Some(more) => launches.extend(more),
        None => {
            let alone = Conv2dBackwardDw::<D>::try_new(kh, kw, sh, sw, ph, pw, g, block).ok()?;
            launches.push(alone.prepare(&(dy, x, dw, b, c_in, c_out, h, wd, oh, ow), options).ok()?);
        }
    }
    Some(launches)
}

pub(super) fn backward_dx_workspace<D: Num>(
    _: &Conv2dBackwardDx<D>,
    _: &<Conv2dBackwardDx<D> as Kernel>::Args<'_>,
    _: &Target,
) -> u64 {
    0
}

pub(super) fn backward_dx<D: Num>(
    kernel: &Conv2dBackwardDx<D>,
    args: &<Conv2dBackwardDx<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    dgrad::<D>(&problem!(kernel, b, c_in, c_out, h, wd, oh, ow), options, target, portable)
}

pub(super) fn backward_dw_workspace<D: Num>(
    kernel: &Conv2dBackwardDw<D>,
    args: &<Conv2dBackwardDw<D> as Kernel>::Args<'_>,
    target: &Target,
) -> u64 {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    wgrad_bytes::<D>(&problem!(kernel, b, c_in, c_out, h, wd, oh, ow), target)
}

pub(super) fn backward_dw<D: Num>(
    kernel: &Conv2dBackwardDw<D>,
    args: &<Conv2dBackwardDw<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    target: &Target,
    portable: &Launch,
) -> Option<Vec<Launch>> {
    let (.., b, c_in, c_out, h, wd, oh, ow) = *args;
    wgrad::<D>(&problem!(kernel, b, c_in, c_out, h, wd, oh, ow), options, target, portable)
}
