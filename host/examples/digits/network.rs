//! The network: its weights, the values of one batch, and one step of training, written out operation by operation.
//!
//! ```text
//! image 1×8×8 ─ conv 3×3 ───────────────┬──────────────── skip ───────────────┐
//!                                       └ conv 3×3, stride 2 (4×4)            │
//!                                         └ pad 1 left, 2 right               │
//!                                           └ conv 1×4 ─ conv 1×1 ─ ×2 (8×8) ─┴ cat ─ conv 3×3, stride 2 (4×4)
//!                                                                                     └ flatten ─ linear ─ 10
//! ```
//!
//! A bias and a rectifier follow each convolution; the linear layer is a 1×1 convolution of a 1×1 image.

use cotangent::ops::{self, Beta, Conv2d, Workspace};
use cotangent::{Float, Num, Result, Stream, Tensor, TensorMut, TensorRef};

use crate::data::{CLASSES, PIXELS, SIDE};
use crate::timing::Timing;

const SKIP: usize = 16;
const DEEP: usize = 32;
const HALF: usize = SIDE / 2;
const FLAT: usize = DEEP * HALF * HALF;
const PADS: [i32; 2] = [1, 2];
const SCALE: [usize; 2] = [2, 2];

/// The layers with weights, in order.
const FIRST: usize = 0;
const DOWN: usize = 1;
const WIDE: usize = 2;
const POINT: usize = 3;
const JOIN: usize = 4;
const LINEAR: usize = 5;

/// A layer's filter `[C_out, C_in, kh, kw]`, and how it moves.
fn filter(layer: usize) -> ([usize; 4], Conv2d) {
    let same = Conv2d::new().pad([1, 1]);
    match layer {
        FIRST => ([SKIP, 1, 3, 3], same),
        DOWN => ([DEEP, SKIP, 3, 3], same.stride([2, 2])),
        WIDE => ([DEEP, DEEP, 1, 4], Conv2d::new()),
        POINT => ([DEEP, DEEP, 1, 1], Conv2d::new()),
        JOIN => ([DEEP, SKIP + DEEP, 3, 3], same.stride([2, 2])),
        _ => ([CLASSES, FLAT, 1, 1], Conv2d::new()),
    }
}

const LAYERS: usize = LINEAR + 1;

/// A weight in training: kept in the master type, used in another.
struct Weight<D: Float> {
    master: Tensor<D::Master>,
    velocity: Tensor<D::Master>,
    used: Tensor<D>,
    gradient: Tensor<D>,
}

impl<D: Float> Weight<D> {
    fn new(stream: &Stream, values: &[f64], shape: &[usize]) -> Result<Self> {
        let master: Vec<D::Master> = values.iter().map(|&value| D::Master::from_f64(value)).collect();
        let used: Vec<D> = master.iter().map(|value| D::from_f64(value.to_f64())).collect();
        Ok(Self {
            master: Tensor::from_slice(stream, &master, shape)?,
            velocity: Tensor::zeros(stream, shape)?,
            used: Tensor::from_slice(stream, &used, shape)?,
            gradient: Tensor::zeros(stream, shape)?,
        })
    }

    fn step(&mut self, stream: &Stream, numbers: TensorRef<'_, D::Master>) -> Result<()> {
        let Self { master, velocity, used, gradient } = self;
        ops::sgd_step(stream, master, velocity, &*gradient, Some(used.view_mut()), numbers)
    }
}

struct Layer<D: Float> {
    conv: Conv2d,
    filter: Weight<D>,
    bias: Weight<D>,
}

/// The network's weights.
pub(crate) struct Network<D: Float> {
    layers: Vec<Layer<D>>,
}

impl<D: Float> Network<D> {
    /// Random weights (He and others, 2015, uniform) that follow from the seed.
    ///
    /// # Errors
    /// Out of memory, and what the driver answers.
    pub(crate) fn new(stream: &Stream, seed: u64) -> Result<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let layers = (0..LAYERS).map(|layer| {
            let (shape, conv) = filter(layer);
            let inputs: usize = shape[1..].iter().product();
            let limit = (6.0 / inputs as f64).sqrt();
            let values: Vec<f64> =
                (0..shape[0] * inputs).map(|_| (random.f64() * 2.0 - 1.0) * limit).collect();
            Ok(Layer {
                conv,
                filter: Weight::new(stream, &values, &shape)?,
                bias: Weight::new(stream, &vec![0.0; shape[0]], &shape[..1])?,
            })
        });
        Ok(Self { layers: layers.collect::<Result<_>>()? })
    }

    /// All weights' values.
    ///
    /// # Errors
    /// What the driver answers.
    pub(crate) fn weights(&self, stream: &Stream) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for layer in &self.layers {
            for weight in [&layer.filter, &layer.bias] {
                all.extend(weight.master.to_vec(stream)?.iter().map(|value| value.to_f64()));
            }
        }
        Ok(all)
    }
}

/// A value of the network with its gradient.
struct Value<D> {
    value: Tensor<D>,
    gradient: Tensor<D>,
}

impl<D: Float> Value<D> {
    fn new(stream: &Stream, shape: &[usize]) -> Result<Self> {
        Ok(Self { value: Tensor::zeros(stream, shape)?, gradient: Tensor::zeros(stream, shape)? })
    }
}

/// What a layer computes: the convolution, with its bias, rectified.
struct Outputs<D> {
    product: Tensor<D>,
    biased: Value<D>,
    rectified: Value<D>,
}

/// The values of one batch.
pub(crate) struct Batch<D: Float> {
    layers: Vec<Outputs<D>>,
    padded: Value<D>,
    enlarged: Value<D>,
    joined: Value<D>,
    flat: Value<D>,
    logits: Value<D::Master>,
    losses: Tensor<D::Master>,
    workspace: Workspace,
}

impl<D: Float> Batch<D> {
    /// Room for a batch of so many images.
    ///
    /// # Errors
    /// Out of memory, and what the driver answers.
    pub(crate) fn new(stream: &Stream, images: usize) -> Result<Self> {
        let sides = [SIDE, HALF, HALF, HALF, HALF, 1];
        let mut workspace = 0;
        let inputs = [
            [1, SIDE, SIDE],
            [SKIP, SIDE, SIDE],
            [DEEP, HALF, HALF + 3],
            [DEEP, HALF, HALF],
            [SKIP + DEEP, SIDE, SIDE],
            [FLAT, 1, 1],
        ];
        let mut layers = Vec::new();
        for layer in 0..LAYERS {
            let (shape, conv) = filter(layer);
            let [c, h, w] = inputs[layer];
            let (input, device) = ([images, c, h, w], stream.device());
            workspace = workspace.max(ops::conv2d_workspace::<D>(device, &conv, &input, &shape)?);
            for gradients in [[true, true], [true, false], [false, true]] {
                let bytes = ops::conv2d_backward_workspace::<D>(device, &conv, &input, &shape, gradients)?;
                workspace = workspace.max(bytes);
            }
            let output = [images, shape[0], sides[layer], sides[layer]];
            layers.push(Outputs {
                product: Tensor::zeros(stream, &output)?,
                biased: Value::new(stream, &output)?,
                rectified: Value::new(stream, &output)?,
            });
        }
        Ok(Self {
            layers,
            padded: Value::new(stream, &[images, DEEP, HALF, HALF + 3])?,
            enlarged: Value::new(stream, &[images, DEEP, SIDE, SIDE])?,
            joined: Value::new(stream, &[images, SKIP + DEEP, SIDE, SIDE])?,
            flat: Value::new(stream, &[images, FLAT])?,
            logits: Value::new(stream, &[images, CLASSES])?,
            losses: Tensor::zeros(stream, &[images])?,
            workspace: Workspace::new(stream, workspace)?,
        })
    }

    /// The logits of the last forward, `[images, CLASSES]`.
    pub(crate) fn logits(&self) -> &Tensor<D::Master> {
        &self.logits.value
    }
}

/// One layer's convolution, bias and rectifier.
fn layer_forward<D: Float>(
    stream: &Stream,
    timing: &Timing,
    layer: &Layer<D>,
    x: TensorRef<'_, D>,
    out: &mut Outputs<D>,
    workspace: &mut Workspace,
) -> Result<()> {
    let Outputs { product, biased, rectified } = out;
    timing.of("conv2d", || {
        ops::conv2d_into(stream, &layer.conv, x, &layer.filter.used, &mut *product, workspace)
    })?;
    timing.of("bias_add", || ops::bias_add_into(stream, &*product, &layer.bias.used, &mut biased.value))?;
    timing.of("relu", || ops::relu_into(stream, &biased.value, &mut rectified.value))
}

/// Which gradient with respect to a layer's input is asked for.
enum Into<'a, D> {
    Nothing,
    Overwrite(TensorMut<'a, D>),
    Accumulate(TensorMut<'a, D>),
}

/// The gradients of one layer from `dy`, that of its biased product.
fn layer_backward<D: Float>(
    stream: &Stream,
    timing: &Timing,
    layer: &mut Layer<D>,
    dy: &Tensor<D>,
    x: TensorRef<'_, D>,
    dx: Into<'_, D>,
    workspace: &mut Workspace,
) -> Result<()> {
    let Layer { conv, filter, bias } = layer;
    timing.of("bias_add_backward", || {
        ops::bias_add_backward_into(stream, dy, &mut bias.gradient, Beta::Overwrite)
    })?;
    let Weight { used: w, gradient: dw, .. } = filter;
    timing.of("conv2d_backward", || {
        let dw = Some(dw.view_mut());
        let mut run =
            |dx, dw, beta| ops::conv2d_backward_into(stream, conv, dy, x, &*w, dx, dw, beta, workspace);
        match dx {
            Into::Nothing => run(None, dw, Beta::Overwrite),
            Into::Overwrite(dx) => run(Some(dx), dw, Beta::Overwrite),
            Into::Accumulate(dx) => {
                run(Some(dx), None, Beta::Accumulate)?;
                run(None, dw, Beta::Overwrite)
            }
        }
    })
}

fn relu_backward<D: Float>(stream: &Stream, timing: &Timing, out: &mut Outputs<D>) -> Result<()> {
    let Outputs { biased, rectified, .. } = out;
    timing.of("relu_backward", || {
        let to = &mut biased.gradient;
        ops::relu_backward_into(stream, &rectified.gradient, &rectified.value, to, Beta::Overwrite)
    })
}

impl<D: Float> Network<D> {
    /// Computes the logits of the images, `[images, 1, 8, 8]`.
    ///
    /// # Errors
    /// What the operations check, and what the driver answers.
    pub(crate) fn forward(
        &self,
        stream: &Stream,
        timing: &Timing,
        images: TensorRef<'_, D>,
        batch: &mut Batch<D>,
    ) -> Result<()> {
        let Batch { layers: out, padded, enlarged, joined, flat, logits, workspace, .. } = batch;
        let [first, down, wide, point, join, linear] = &mut out[..] else { return Ok(()) };
        let layers = &self.layers;
        layer_forward(stream, timing, &layers[FIRST], images, first, workspace)?;
        let skip = first.rectified.value.view();
        layer_forward(stream, timing, &layers[DOWN], skip, down, workspace)?;
        timing.of("constant_pad1d", || {
            ops::constant_pad1d_into(stream, &down.rectified.value, PADS, D::from_f64(0.0), &mut padded.value)
        })?;
        layer_forward(stream, timing, &layers[WIDE], padded.value.view(), wide, workspace)?;
        layer_forward(stream, timing, &layers[POINT], wide.rectified.value.view(), point, workspace)?;
        timing.of("upsample_nearest2d", || {
            ops::upsample_nearest2d_into(stream, &point.rectified.value, SCALE, &mut enlarged.value)
        })?;
        timing.of("channel_cat", || {
            ops::channel_cat_into(stream, &[skip, enlarged.value.view()], &mut joined.value)
        })?;
        layer_forward(stream, timing, &layers[JOIN], joined.value.view(), join, workspace)?;
        timing.of("flatten", || ops::flatten_into(stream, &join.rectified.value, &mut flat.value))?;
        // The linear layer: a 1×1 convolution of a 1×1 image, with a bias and without a rectifier.
        let Layer { conv, filter, bias } = &layers[LINEAR];
        let count = flat.value.shape()[0];
        let column = flat.value.reshape(&[count, FLAT, 1, 1])?;
        timing.of("conv2d", || {
            ops::conv2d_into(stream, conv, column, &filter.used, &mut linear.product, workspace)
        })?;
        timing.of("bias_add", || {
            ops::bias_add_into(stream, &linear.product, &bias.used, &mut linear.biased.value)
        })?;
        timing.of("cast", || {
            let raw = linear.biased.value.reshape(&[count, CLASSES])?;
            ops::cast_into(stream, raw, &mut logits.value)
        })
    }

    /// One step of training: forward, the batch's mean loss to `loss`, backward, and a step of each weight.
    ///
    /// `numbers` is `[rate, momentum, weight decay, 1 / loss_scale]`. Gradients are `loss_scale` times too large on
    /// their way through the network, so that those of 16-bit floats do not vanish.
    ///
    /// # Errors
    /// What the operations check, and what the driver answers.
    pub(crate) fn step(
        &mut self,
        stream: &Stream,
        timing: &Timing,
        images: TensorRef<'_, D>,
        labels: TensorRef<'_, i32>,
        numbers: TensorRef<'_, D::Master>,
        loss_scale: f64,
        loss: TensorMut<'_, D::Master>,
        batch: &mut Batch<D>,
    ) -> Result<()> {
        self.forward(stream, timing, images, batch)?;
        let count = images.shape()[0];
        let mean = 1.0 / count as f64;
        let Batch { layers: out, padded, enlarged, joined, flat, logits, losses, workspace } = batch;
        let [first, down, wide, point, join, linear] = &mut out[..] else { return Ok(()) };
        let layers = &mut self.layers;

        timing.of("softmax_cross_entropy", || {
            ops::softmax_cross_entropy_into(stream, &logits.value, labels, mean, &mut *losses)?;
            ops::sum_into(stream, &*losses, loss, Beta::Overwrite)
        })?;
        timing.of("softmax_cross_entropy_backward", || {
            let (x, to, scale) = (&logits.value, &mut logits.gradient, mean * loss_scale);
            ops::softmax_cross_entropy_backward_into(stream, x, labels, scale, to, Beta::Overwrite)
        })?;
        timing.of("cast", || {
            let to = linear.biased.gradient.reshape_mut(&[count, CLASSES])?;
            ops::cast_into(stream, &logits.gradient, to)
        })?;
        let column = flat.value.reshape(&[count, FLAT, 1, 1])?;
        let to = Into::Overwrite(flat.gradient.reshape_mut(&[count, FLAT, 1, 1])?);
        let dy = &linear.biased.gradient;
        layer_backward(stream, timing, &mut layers[LINEAR], dy, column, to, workspace)?;
        timing.of("flatten_backward", || {
            let to = &mut join.rectified.gradient;
            ops::flatten_backward_into(stream, &flat.gradient, to, Beta::Overwrite)
        })?;

        relu_backward(stream, timing, join)?;
        let to = Into::Overwrite(joined.gradient.view_mut());
        let (dy, x) = (&join.biased.gradient, joined.value.view());
        layer_backward(stream, timing, &mut layers[JOIN], dy, x, to, workspace)?;
        timing.of("channel_cat_backward", || {
            let mut parts = [first.rectified.gradient.view_mut(), enlarged.gradient.view_mut()];
            ops::channel_cat_backward_into(stream, &joined.gradient, &mut parts, Beta::Overwrite)
        })?;
        timing.of("upsample_nearest2d_backward", || {
            let to = &mut point.rectified.gradient;
            ops::upsample_nearest2d_backward_into(stream, &enlarged.gradient, SCALE, to, Beta::Overwrite)
        })?;

        relu_backward(stream, timing, point)?;
        let to = Into::Overwrite(wide.rectified.gradient.view_mut());
        let (dy, x) = (&point.biased.gradient, wide.rectified.value.view());
        layer_backward(stream, timing, &mut layers[POINT], dy, x, to, workspace)?;
        relu_backward(stream, timing, wide)?;
        let to = Into::Overwrite(padded.gradient.view_mut());
        let (dy, x) = (&wide.biased.gradient, padded.value.view());
        layer_backward(stream, timing, &mut layers[WIDE], dy, x, to, workspace)?;
        timing.of("constant_pad1d_backward", || {
            let to = &mut down.rectified.gradient;
            ops::constant_pad1d_backward_into(stream, &padded.gradient, PADS, to, Beta::Overwrite)
        })?;

        relu_backward(stream, timing, down)?;
        // The skip connection's part is there already, so this one is added to it.
        let (skip, skip_gradient) = (&first.rectified.value, &mut first.rectified.gradient);
        let to = Into::Accumulate(skip_gradient.view_mut());
        layer_backward(stream, timing, &mut layers[DOWN], &down.biased.gradient, skip.view(), to, workspace)?;
        relu_backward(stream, timing, first)?;
        let dy = &first.biased.gradient;
        layer_backward(stream, timing, &mut layers[FIRST], dy, images, Into::Nothing, workspace)?;

        for layer in layers {
            timing.of("sgd_step", || {
                layer.filter.step(stream, numbers)?;
                layer.bias.step(stream, numbers)
            })?;
        }
        Ok(())
    }
}

/// Images as the network takes them.
///
/// # Errors
/// Out of memory, and what the driver answers.
pub(crate) fn images<D: Float>(stream: &Stream, pixels: &[f32]) -> Result<Tensor<D>> {
    let elements: Vec<D> = pixels.iter().map(|&pixel| D::from_f64(pixel.into())).collect();
    Tensor::from_slice(stream, &elements, &[pixels.len() / PIXELS, 1, SIDE, SIDE])
}
