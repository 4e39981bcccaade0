//! What a convolution's launch checks, and its hidden words.

use super::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward};
use crate::element::Num;
use crate::error::Result;
use crate::kernel::{Kernel, LaunchOptions};
use crate::launch::{Divisor, Divisor64};
use crate::plan::Plan;

/// A convolution's constants and extents.
pub(super) struct Problem {
    pub(super) kernel: [i32; 2],
    pub(super) stride: [i32; 2],
    pub(super) pad: [i32; 2],
    pub(super) g: i32,
    pub(super) b: i32,
    pub(super) c_in: i32,
    pub(super) c_out: i32,
    pub(super) image: [i32; 2],
    pub(super) output: [i32; 2],
}

/// Elements of each tensor.
pub(super) struct Volumes {
    pub(super) x: i64,
    pub(super) w: i64,
    pub(super) y: i64,
}

macro_rules! problem {
    ($kernel:ident, $b:ident, $c_in:ident, $c_out:ident, $h:ident, $wd:ident, $oh:ident, $ow:ident) => {
        Problem {
            kernel: [$kernel.kh, $kernel.kw],
            stride: [$kernel.stride_h, $kernel.stride_w],
            pad: [$kernel.pad_h, $kernel.pad_w],
            g: $kernel.g,
            b: $b,
            c_in: $c_in,
            c_out: $c_out,
            image: [$h, $wd],
            output: [$oh, $ow],
        }
    };
}

pub(super) use problem;

impl Problem {
    /// Elements of each tensor of a problem that passed its checks.
    pub(super) fn volumes(&self) -> Volumes {
        let [b, c_in, c_out] = [self.b, self.c_in, self.c_out].map(i64::from);
        let plane = |extents: [i32; 2]| i64::from(extents[0]) * i64::from(extents[1]);
        Volumes {
            x: b * c_in * plane(self.image),
            w: c_out * i64::from(self.c_in_per_group()) * plane(self.kernel),
            y: b * c_out * plane(self.output),
        }
    }

    pub(super) fn c_in_per_group(&self) -> i32 {
        self.c_in / self.g
    }

    pub(super) fn c_out_per_group(&self) -> i32 {
        self.c_out / self.g
    }

    fn check(&self, plan: &Plan) -> Result<Volumes> {
        let [h, wd] = self.image;
        let [oh, ow] = self.output;
        plan.not_negative(&[
            ("b", self.b),
            ("c_in", self.c_in),
            ("c_out", self.c_out),
            ("h", h),
            ("wd", wd),
            ("oh", oh),
            ("ow", ow),
        ])?;
        let g = self.g;
        plan.check(self.c_in % g == 0, "c_in", self.c_in, "must be a multiple of g =", g)?;
        plan.check(self.c_out % g == 0, "c_out", self.c_out, "must be a multiple of g =", g)?;
        self.check_axis(plan, 0, ["h + 2·pad_h", "kh", "oh"], "must be (h + 2·pad_h − kh)/stride_h + 1 =")?;
        self.check_axis(plan, 1, ["wd + 2·pad_w", "kw", "ow"], "must be (wd + 2·pad_w − kw)/stride_w + 1 =")?;
        let [kh, kw] = self.kernel.map(i64::from);
        let largest = i64::from(i32::MAX);
        plan.check(kh * kw <= largest, "kh · kw", kh * kw, "must be at most", largest)?;
        let [b, c_in, c_out, h, wd, oh, ow] = [self.b, self.c_in, self.c_out, h, wd, oh, ow].map(i64::from);
        Ok(Volumes {
            x: plan.volume("x", &[b, c_in, h, wd])?,
            w: plan.volume("w", &[c_out, i64::from(self.c_in_per_group()), kh, kw])?,
            y: plan.volume("y", &[b, c_out, oh, ow])?,
        })
    }

    /// One axis: the filter fits the padded image, and the output's extent follows.
    fn check_axis(
        &self,
        plan: &Plan,
        axis: usize,
        [padded_name, kernel_name, output_name]: [&'static str; 3],
        rule: &'static str,
    ) -> Result<()> {
        let padded = i64::from(self.image[axis]) + 2 * i64::from(self.pad[axis]);
        let largest = i64::from(i32::MAX);
        plan.check(padded <= largest, padded_name, padded, "must be at most", largest)?;
        let kernel = i64::from(self.kernel[axis]);
        plan.check(kernel <= padded, kernel_name, kernel, "must be at most the padded image's", padded)?;
        let expected = (padded - kernel) / i64::from(self.stride[axis]) + 1;
        plan.equal(output_name, self.output[axis], rule, expected)
    }

    /// What dgrad divides by to find an element of dx.
    fn hide_input_axes(&self, plan: &mut Plan) {
        plan.hidden(&Divisor64(i64::from(self.image[1])));
        plan.hidden(&Divisor64(i64::from(self.image[0])));
        plan.hidden(&Divisor64(i64::from(self.c_in)));
    }

    /// Taps of a filter.
    pub(super) fn taps(&self) -> i64 {
        i64::from(self.kernel[0]) * i64::from(self.kernel[1])
    }
}

pub(super) fn forward<D: Num>(
    kernel: &Conv2dForward<D>,
    args: &<Conv2dForward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (x, w, y, b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let volumes = problem.check(plan)?;
    plan.reject_rows(options)?;
    plan.reject_accumulate(options)?;
    plan.reads("x", x, volumes.x)?;
    plan.reads("w", w, volumes.w)?;
    plan.writes("y", y, volumes.y, options)?;
    plan.hidden(&Divisor64(i64::from(ow)));
    plan.hidden(&Divisor64(i64::from(oh)));
    plan.hidden(&Divisor64(i64::from(c_out)));
    plan.hidden(&Divisor(problem.c_out_per_group()));
    plan.sweeps(volumes.y, i64::from(kernel.block_ow));
    Ok(())
}

pub(super) fn backward<D: Num>(
    kernel: &Conv2dBackward<D>,
    args: &<Conv2dBackward<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, x, w, dx, dw, b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let volumes = problem.check(plan)?;
    plan.reject_rows(options)?;
    plan.reads("dy", dy, volumes.y)?;
    plan.reads("x", x, volumes.x)?;
    plan.reads("w", w, volumes.w)?;
    plan.writes("dx", dx, volumes.x, options)?;
    plan.writes("dw", dw, volumes.w, options)?;
    problem.hide_input_axes(plan);
    plan.hidden(&Divisor64(i64::from(problem.c_in_per_group())));
    plan.hidden(&Divisor(problem.c_out_per_group()));
    plan.hidden(&Divisor64(problem.taps()));
    plan.hidden_accumulate(options);
    // One sweep covers both results, so their sum must be countable too.
    let total = volumes.x.checked_add(volumes.w).unwrap_or(i64::MAX);
    plan.check(total < i64::MAX, "dx and dw", total, "must together have fewer elements than", i64::MAX)?;
    plan.sweeps(total, i64::from(kernel.block_ow));
    Ok(())
}

pub(super) fn backward_dx<D: Num>(
    kernel: &Conv2dBackwardDx<D>,
    args: &<Conv2dBackwardDx<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, w, dx, b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let volumes = problem.check(plan)?;
    plan.reject_rows(options)?;
    plan.reads("dy", dy, volumes.y)?;
    plan.reads("w", w, volumes.w)?;
    plan.writes("dx", dx, volumes.x, options)?;
    problem.hide_input_axes(plan);
    plan.hidden(&Divisor64(i64::from(problem.c_in_per_group())));
    plan.hidden_accumulate(options);
    plan.sweeps(volumes.x, i64::from(kernel.block_ow));
    Ok(())
}

pub(super) fn backward_dw<D: Num>(
    kernel: &Conv2dBackwardDw<D>,
    args: &<Conv2dBackwardDw<D> as Kernel>::Args<'_>,
    options: &LaunchOptions<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let (dy, x, dw, b, c_in, c_out, h, wd, oh, ow) = *args;
    let problem = problem!(kernel, b, c_in, c_out, h, wd, oh, ow);
    let volumes = problem.check(plan)?;
    plan.reject_rows(options)?;
    plan.reads("dy", dy, volumes.y)?;
    plan.reads("x", x, volumes.x)?;
    plan.writes("dw", dw, volumes.w, options)?;
    plan.hidden(&Divisor64(i64::from(problem.c_in_per_group())));
    plan.hidden(&Divisor(problem.c_out_per_group()));
    plan.hidden(&Divisor64(problem.taps()));
    plan.hidden_accumulate(options);
    plan.sweeps(volumes.w, i64::from(kernel.block_ow));
    Ok(())
}
