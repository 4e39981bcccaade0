//! Convolution of tensors.

use std::sync::Arc;

use super::{Conv2dBackward, Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward};
use crate::device::{Device, Place, Stream};
use crate::element::Num;
use crate::error::{Error, Result};
use crate::kernel::{Algorithm, Kernel, LaunchOptions};
use crate::ops::run::{Beta, Call, Workspace, cached, contiguous, dims, extents, same_shape};
use crate::tensor::{Tensor, TensorMut, TensorRef};

const BLOCK: i32 = 256;

/// How a filter moves over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conv2d {
    /// Rows and columns between neighbouring places of the filter.
    pub stride: [usize; 2],
    /// Rows of zeros above and below the image, and columns left and right of it.
    pub pad: [usize; 2],
    /// Groups of channels that do not see each other.
    pub groups: usize,
}

impl Default for Conv2d {
    fn default() -> Self {
        Self { stride: [1, 1], pad: [0, 0], groups: 1 }
    }
}

impl Conv2d {
    /// Stride 1, no pads, one group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the stride.
    #[must_use]
    pub fn stride(self, stride: [usize; 2]) -> Self {
        Self { stride, ..self }
    }

    /// Sets the pads.
    #[must_use]
    pub fn pad(self, pad: [usize; 2]) -> Self {
        Self { pad, ..self }
    }

    /// Sets the groups.
    #[must_use]
    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// The shape of the result of an image and a filter.
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) for tensors that do not have four dimensions, channels that do not fit the groups, or a
    /// filter larger than the padded image; [`Constant`](Error::Constant) for a stride or groups of zero.
    pub fn output_shape(&self, x: &[usize], w: &[usize]) -> Result<[usize; 4]> {
        Ok(self.problem("conv2d", x, w)?.output_shape())
    }

    fn problem(&self, op: &'static str, x: &[usize], w: &[usize]) -> Result<Problem> {
        let [b, c_in, h, wd] = dims(op, "x", x, "[B, C_in, H, W]")?;
        let [c_out, per_group, kh, kw] = dims(op, "w", w, "[C_out, C_in/g, kh, kw]")?;
        let Self { stride, pad, groups } = *self;
        for (name, value) in
            [("stride_h", stride[0]), ("stride_w", stride[1]), ("g", groups), ("kh", kh), ("kw", kw)]
        {
            if value == 0 {
                return Err(Error::Constant { kernel: op, name, value: 0, rule: "must be at least 1" });
            }
        }
        let wrong = |name, have: &[usize], need| Err(Error::Shape { op, name, have: have.to_vec(), need });
        if per_group.checked_mul(groups) != Some(c_in) || !c_out.is_multiple_of(groups) {
            let need =
                format!("x has {c_in} channels, and there are {groups} groups: [C_out, C_in/g, kh, kw]");
            return wrong("w", w, need);
        }
        let axis = |extent: usize, pad: usize, kernel: usize, stride: usize| {
            let padded = pad.checked_mul(2)?.checked_add(extent)?;
            Some(padded.checked_sub(kernel)? / stride + 1)
        };
        let (Some(oh), Some(ow)) = (axis(h, pad[0], kh, stride[0]), axis(wd, pad[1], kw, stride[1])) else {
            let need =
                format!("the image is {h} × {wd} with pads of {pad:?} on either side, and must hold it");
            return wrong("w", w, need);
        };
        let named = [("b", b), ("c_in", c_in), ("c_out", c_out), ("h", h), ("w", wd), ("oh", oh), ("ow", ow)];
        let constants = [
            ("kh", kh),
            ("kw", kw),
            ("stride_h", stride[0]),
            ("stride_w", stride[1]),
            ("pad_h", pad[0]),
            ("pad_w", pad[1]),
            ("g", groups),
            ("block_ow", BLOCK as usize),
        ];
        Ok(Problem { numbers: extents(op, named)?, constants: extents(op, constants)? })
    }
}

/// A convolution's extents, as kernels take them, and its constants.
struct Problem {
    numbers: [i32; 7],
    constants: [i32; 8],
}

impl Problem {
    fn output_shape(&self) -> [usize; 4] {
        let [b, _, c_out, _, _, oh, ow] = self.numbers;
        [b, c_out, oh, ow].map(|extent| extent as usize)
    }
}

/// The kernel for a problem's constants.
macro_rules! kernel {
    ($kernel:ident<$d:ty>, $problem:expr) => {{
        let [kh, kw, stride_h, stride_w, pad_h, pad_w, g, block] = $problem.constants;
        cached(&$problem.constants, || {
            $kernel::<$d>::try_new(kh, kw, stride_h, stride_w, pad_h, pad_w, g, block)
        })?
    }};
}

/// Convolution, as [`Conv2dForward`] says: `x` is `[B, C_in, H, W]`, `w` is `[C_out, C_in/g, kh, kw]`.
///
/// # Errors
/// As [`Conv2d::output_shape`]; [`NotContiguous`](Error::NotContiguous), and what every operation checks.
pub fn conv2d<'a, 'b, D: Num>(
    stream: &Stream,
    conv: &Conv2d,
    x: impl Into<TensorRef<'a, D>>,
    w: impl Into<TensorRef<'b, D>>,
) -> Result<Tensor<D>> {
    let (x, w) = (x.into(), w.into());
    let mut y = Tensor::uninitialised(stream, &conv.output_shape(x.shape(), w.shape())?)?;
    let bytes = conv2d_workspace::<D>(stream.device(), conv, x.shape(), w.shape())?;
    conv2d_into(stream, conv, x, w, &mut y, &mut Workspace::new(stream, bytes)?)?;
    Ok(y)
}

/// [`conv2d`] to a tensor that is there.
///
/// # Errors
/// As [`conv2d`].
pub fn conv2d_into<'a, 'b, 'c, D: Num>(
    stream: &Stream,
    conv: &Conv2d,
    x: impl Into<TensorRef<'a, D>>,
    w: impl Into<TensorRef<'b, D>>,
    y: impl Into<TensorMut<'c, D>>,
    workspace: &mut Workspace,
) -> Result<()> {
    forward(&Call::new(stream).workspace(workspace), conv, [x.into(), w.into()], &y.into()).map(drop)
}

/// Measures which algorithm computes this call of [`conv2d_into`] fastest, as [`Device::tune`] does: `y` holds the result
/// of one of them afterwards, or what it held before. Later operations on streams of the same handle
/// ([`Device::autotune`]) take the answer.
///
/// # Errors
/// As [`conv2d`]; [`Capturing`](Error::Capturing) on a stream that is recorded.
pub fn conv2d_tune<'a, 'b, 'c, D: Num>(
    stream: &Stream,
    conv: &Conv2d,
    x: impl Into<TensorRef<'a, D>>,
    w: impl Into<TensorRef<'b, D>>,
    y: impl Into<TensorMut<'c, D>>,
    workspace: &mut Workspace,
) -> Result<Algorithm> {
    forward(&Call::new(stream).workspace(workspace).tuning(), conv, [x.into(), w.into()], &y.into())
}

fn forward<D: Num>(
    call: &Call<'_>,
    conv: &Conv2d,
    [x, w]: [TensorRef<'_, D>; 2],
    y: &TensorMut<'_, D>,
) -> Result<Algorithm> {
    const OP: &str = "conv2d";
    let problem = conv.problem(OP, x.shape(), w.shape())?;
    same_shape(OP, "y", y.shape(), &problem.output_shape(), "the result")?;
    contiguous(OP, "x", &x)?;
    contiguous(OP, "w", &w)?;
    contiguous(OP, "y", &y.as_ref())?;
    let kernel = kernel!(Conv2dForward<D>, problem);
    let [b, c_in, c_out, h, wd, oh, ow] = problem.numbers;
    let args = (x.pointer(), w.pointer(), y.pointer(), b, c_in, c_out, h, wd, oh, ow);
    let uses = [x.reads("x"), w.reads("w"), y.writes("y")];
    call.run_or_tune(&kernel, args, &uses)
}

/// Bytes of workspace with which [`conv2d_into`] can take any way; on a device with an
/// [`Autotune`](crate::Autotune), with any algorithm.
///
/// # Errors
/// As [`Conv2d::output_shape`].
pub fn conv2d_workspace<D: Num>(device: &Device, conv: &Conv2d, x: &[usize], w: &[usize]) -> Result<usize> {
    let problem = conv.problem("conv2d", x, w)?;
    let kernel = kernel!(Conv2dForward<D>, problem);
    let [b, c_in, c_out, h, wd, oh, ow] = problem.numbers;
    let args = (somewhere(1), somewhere(2), somewhere(3), b, c_in, c_out, h, wd, oh, ow);
    workspace_of(device, &kernel, &args)
}

/// Both gradients of [`conv2d`], as [`Conv2dBackward`] says: `(dx, dw)`.
///
/// # Errors
/// As [`conv2d`].
pub fn conv2d_backward<'a, 'b, 'c, D: Num>(
    stream: &Stream,
    conv: &Conv2d,
    dy: impl Into<TensorRef<'a, D>>,
    x: impl Into<TensorRef<'b, D>>,
    w: impl Into<TensorRef<'c, D>>,
) -> Result<(Tensor<D>, Tensor<D>)> {
    let (x, w) = (x.into(), w.into());
    let mut dx = Tensor::uninitialised(stream, x.shape())?;
    let mut dw = Tensor::uninitialised(stream, w.shape())?;
    let bytes = conv2d_backward_workspace::<D>(stream.device(), conv, x.shape(), w.shape(), [true, true])?;
    let mut workspace = Workspace::new(stream, bytes)?;
    let (to_x, to_w) = (Some(dx.view_mut()), Some(dw.view_mut()));
    conv2d_backward_into(stream, conv, dy, x, w, to_x, to_w, Beta::Overwrite, &mut workspace)?;
    Ok((dx, dw))
}

/// The gradients of [`conv2d`] that have a place to go, to tensors that are there.
///
/// # Errors
/// As [`conv2d`].
pub fn conv2d_backward_into<'a, 'b, 'c, D: Num>(
    stream: &Stream,
    conv: &Conv2d,
    dy: impl Into<TensorRef<'a, D>>,
    x: impl Into<TensorRef<'b, D>>,
    w: impl Into<TensorRef<'c, D>>,
    dx: Option<TensorMut<'_, D>>,
    dw: Option<TensorMut<'_, D>>,
    beta: Beta,
    workspace: &mut Workspace,
) -> Result<()> {
    let call = Call::new(stream).beta(beta).workspace(workspace);
    backward(&call, conv, [dy.into(), x.into(), w.into()], dx, dw).map(drop)
}

/// Measures which algorithm computes this call of [`conv2d_backward_into`] fastest, as [`Device::tune`] does: `dx` and `dw`
/// hold the gradients afterwards, or what they held before. Nothing is added to them, and the answer serves those who
/// accumulate, too.
///
/// # Errors
/// As [`conv2d`]; [`Capturing`](Error::Capturing) on a stream that is recorded.
pub fn conv2d_backward_tune<'a, 'b, 'c, D: Num>(
    stream: &Stream,
    conv: &Conv2d,
    dy: impl Into<TensorRef<'a, D>>,
    x: impl Into<TensorRef<'b, D>>,
    w: impl Into<TensorRef<'c, D>>,
    dx: Option<TensorMut<'_, D>>,
    dw: Option<TensorMut<'_, D>>,
    workspace: &mut Workspace,
) -> Result<Algorithm> {
    let call = Call::new(stream).workspace(workspace).tuning();
    backward(&call, conv, [dy.into(), x.into(), w.into()], dx, dw)
}

fn backward<D: Num>(
    call: &Call<'_>,
    conv: &Conv2d,
    [dy, x, w]: [TensorRef<'_, D>; 3],
    dx: Option<TensorMut<'_, D>>,
    dw: Option<TensorMut<'_, D>>,
) -> Result<Algorithm> {
    const OP: &str = "conv2d_backward";
    let problem = conv.problem(OP, x.shape(), w.shape())?;
    same_shape(OP, "dy", dy.shape(), &problem.output_shape(), "the result's shape")?;
    contiguous(OP, "dy", &dy)?;
    contiguous(OP, "x", &x)?;
    contiguous(OP, "w", &w)?;
    if let Some(dx) = &dx {
        same_shape(OP, "dx", dx.shape(), x.shape(), "x")?;
        contiguous(OP, "dx", &dx.as_ref())?;
    }
    if let Some(dw) = &dw {
        same_shape(OP, "dw", dw.shape(), w.shape(), "w")?;
        contiguous(OP, "dw", &dw.as_ref())?;
    }
    let [b, c_in, c_out, h, wd, oh, ow] = problem.numbers;
    let (of_dy, of_x, of_w) = (dy.pointer(), x.pointer(), w.pointer());
    match (dx, dw) {
        (Some(dx), Some(dw)) => {
            let kernel = kernel!(Conv2dBackward<D>, problem);
            let args = (of_dy, of_x, of_w, dx.pointer(), dw.pointer(), b, c_in, c_out, h, wd, oh, ow);
            let uses = [dy.reads("dy"), x.reads("x"), w.reads("w"), dx.writes("dx"), dw.writes("dw")];
            call.run_or_tune(&kernel, args, &uses)
        }
        (Some(dx), None) => {
            let kernel = kernel!(Conv2dBackwardDx<D>, problem);
            let args = (of_dy, of_w, dx.pointer(), b, c_in, c_out, h, wd, oh, ow);
            call.run_or_tune(&kernel, args, &[dy.reads("dy"), w.reads("w"), dx.writes("dx")])
        }
        (None, Some(dw)) => {
            let kernel = kernel!(Conv2dBackwardDw<D>, problem);
            let args = (of_dy, of_x, dw.pointer(), b, c_in, c_out, h, wd, oh, ow);
            call.run_or_tune(&kernel, args, &[dy.reads("dy"), x.reads("x"), dw.writes("dw")])
        }
        (None, None) => Ok(Algorithm::Auto),
    }
}

/// Bytes of workspace with which [`conv2d_backward_into`] can take any way, for the gradients `[dx, dw]` asked for.
///
/// # Errors
/// As [`Conv2d::output_shape`].
pub fn conv2d_backward_workspace<D: Num>(
    device: &Device,
    conv: &Conv2d,
    x: &[usize],
    w: &[usize],
    gradients: [bool; 2],
) -> Result<usize> {
    let problem = conv.problem("conv2d_backward", x, w)?;
    let [b, c_in, c_out, h, wd, oh, ow] = problem.numbers;
    let place = somewhere;
    match gradients {
        [true, true] => {
            let kernel = kernel!(Conv2dBackward<D>, problem);
            let args = (place(1), place(2), place(3), place(4), place(5), b, c_in, c_out, h, wd, oh, ow);
            workspace_of(device, &kernel, &args)
        }
        [true, false] => {
            let kernel = kernel!(Conv2dBackwardDx<D>, problem);
            workspace_of(device, &kernel, &(place(1), place(2), place(3), b, c_in, c_out, h, wd, oh, ow))
        }
        [false, true] => {
            let kernel = kernel!(Conv2dBackwardDw<D>, problem);
            workspace_of(device, &kernel, &(place(1), place(2), place(3), b, c_in, c_out, h, wd, oh, ow))
        }
        [false, false] => Ok(0),
    }
}

/// An address for a question about shapes: apart from the others, and never followed.
fn somewhere<D>(number: usize) -> *mut D {
    std::ptr::without_provenance_mut(number << 59)
}

fn workspace_of<K: Kernel>(device: &Device, kernel: &Arc<K>, args: &K::Args<'static>) -> Result<usize> {
    let options = LaunchOptions::new();
    match &device.place {
        Place::Cpu => kernel.prepare(args, &options).map(|_| 0),
        #[cfg(feature = "cuda")]
        Place::Cuda(gpu) => {
            let bytes = match device.tuned() {
                Some(tuned) => tuned.most_workspace(&**kernel, args)?,
                None => gpu.plans().workspace_bytes(&**kernel, args, &options)?,
            };
            Ok(bytes as usize)
        }
    }
}
