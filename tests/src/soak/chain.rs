//! Checked operations on tensors, one behind the other and on two streams in turn: the library orders them.
//!
//! Everything is a small integer, so that every sum is exact, and rounded once at most: a device has the bits of the CPU
//! path.

use cotangent::ops::{self, Beta, Conv2d, Workspace};
use cotangent::verify::{Failure, SplitMix64};
use cotangent::{DType, Device, Error, Float, Num, Stream, Tensor};
use half::{bf16, f16};

/// A chain's shapes.
#[derive(Clone, Copy, Debug)]
struct Shapes {
    dtype: DType,
    b: usize,
    c_in: usize,
    c_out: usize,
    taps: usize,
    conv: Conv2d,
    h: usize,
    w: usize,
    scale: [usize; 2],
    pads: [i32; 2],
    workspace: bool,
}

fn shapes(random: &mut SplitMix64) -> Shapes {
    let mut between = |least: usize, most: usize| least + random.below((most - least + 1) as u64) as usize;
    let (taps, groups) = ([1, 3][between(0, 1)], between(1, 2));
    // Few combinations of constants: the library keeps a kernel for each.
    let conv = Conv2d::new().stride([between(1, 2); 2]).pad([between(0, taps / 2); 2]).groups(groups);
    Shapes {
        dtype: [DType::F16, DType::Bf16, DType::F32, DType::F64][between(0, 3)],
        b: between(1, 3),
        c_in: groups * between(1, 20),
        c_out: groups * between(1, 20),
        taps,
        conv,
        h: between(taps, 20),
        w: between(taps, 24),
        scale: [between(1, 2), between(1, 2)],
        pads: [between(0, 2) as i32, between(0, 2) as i32 - 1],
        workspace: between(0, 1) == 1,
    }
}

/// Runs the chain of this seed on streams of the device, with the two in either order, and on the CPU, and compares the
/// bits. Says what it was, and its element type.
pub(super) fn run(seed: u64, streams: [&Stream; 2]) -> (String, DType, Result<(), Failure>) {
    let random = &mut SplitMix64::new(seed);
    let shapes = shapes(random);
    let seed = random.next_u64();
    let result = match shapes.dtype {
        DType::F16 => compared::<f16>(&shapes, seed, streams),
        DType::Bf16 => compared::<bf16>(&shapes, seed, streams),
        DType::F64 => compared::<f64>(&shapes, seed, streams),
        _ => compared::<f32>(&shapes, seed, streams),
    };
    (format!("operations one behind the other: {shapes:?}"), shapes.dtype, result)
}

fn compared<D: Float>(shapes: &Shapes, seed: u64, streams: [&Stream; 2]) -> Result<(), Failure> {
    let cpu = Device::cpu().stream()?;
    let expected = chain::<D>(shapes, seed, [&cpu, &cpu])?;
    for (order, streams) in [streams, [streams[1], streams[0]]].into_iter().enumerate() {
        let got = chain::<D>(shapes, seed, streams)?;
        for ((name, got), (_, expected)) in got.iter().zip(&expected) {
            if let Some(i) = (0..expected.len()).find(|&i| got.get(i) != Some(&expected[i])) {
                let (got, expected) = (got.get(i), expected[i]);
                let what = format!(
                    "{name}: element {i} is {got:?}, not {expected}, in order {order} of the streams"
                );
                return Err(Failure::Executor(what.into()));
            }
        }
    }
    Ok(())
}

type Results = Vec<(&'static str, Vec<f64>)>;

fn chain<D: Float>(shapes: &Shapes, seed: u64, [one, two]: [&Stream; 2]) -> Result<Results, Error> {
    let Shapes { b, c_in, c_out, taps, ref conv, h, w, scale, pads, workspace, .. } = *shapes;
    let random = &mut SplitMix64::new(seed);
    let x = integers::<D>(one, random, &[b, c_in, h, w])?;
    let filter = integers::<D>(two, random, &[c_out, c_in / conv.groups, taps, taps])?;
    let bias = integers::<D>(two, random, &[c_out])?;
    let skip = integers::<D>(one, random, &[b, 3, 5])?;

    let convolved = ops::conv2d(two, conv, &x, &filter)?;
    let shifted = ops::bias_add(one, &convolved, &bias)?;
    let above = ops::relu(two, &shifted)?;
    let enlarged = ops::upsample_nearest2d(one, &above, scale)?;
    let padded = ops::constant_pad1d(two, &enlarged, pads, D::from_f64(-3.0))?;
    let flat = ops::flatten(one, &padded)?;
    let skipped = ops::flatten(two, &skip)?;
    let joined = ops::channel_cat(two, &[flat.view(), skipped.view()])?;
    let single = ops::cast::<D, f32>(one, &joined)?;

    let dy = integers::<D>(two, random, joined.shape())?;
    let parts = ops::channel_cat_backward(one, &dy, &[flat.shape()[1], skipped.shape()[1]])?;
    let d_padded = ops::flatten_backward(two, &parts[0], padded.shape())?;
    let d_enlarged = ops::constant_pad1d_backward(one, &d_padded, pads)?;
    let d_above = ops::upsample_nearest2d_backward(two, &d_enlarged, scale)?;
    let d_shifted = ops::relu_backward(one, &d_above, &above)?;
    let d_bias = ops::bias_add_backward(two, &d_shifted)?;
    let (mut dx, mut dw) = ops::conv2d_backward(one, conv, &d_shifted, &x, &filter)?;
    let bytes = if workspace {
        ops::conv2d_backward_workspace::<D>(two.device(), conv, x.shape(), filter.shape(), [true, true])?
    } else {
        0
    };
    // The same once more, on top of it.
    let into = (Some(dx.view_mut()), Some(dw.view_mut()));
    let mut memory = Workspace::new(two, bytes)?;
    let beta = Beta::Accumulate;
    ops::conv2d_backward_into(two, conv, &d_shifted, &x, &filter, into.0, into.1, beta, &mut memory)?;

    let mut weights = integers::<D::Master>(one, random, filter.shape())?;
    let mut velocity = integers::<D::Master>(two, random, filter.shape())?;
    let numbers = [0.5, 1.0, 0.0, 1.0].map(<D::Master as Num>::from_f64);
    let numbers = Tensor::from_slice(one, &numbers, &[4])?;
    ops::sgd_step(two, &mut weights, &mut velocity, &dw, None, &numbers)?;

    Ok(vec![
        ("the joined result", values(&joined, one)?),
        ("the result as f32", values(&single, two)?),
        ("d skip", values(&parts[1], one)?),
        ("d bias", values(&d_bias, one)?),
        ("dx", values(&dx, two)?),
        ("dw", values(&dw, one)?),
        ("the weights", values(&weights, two)?),
        ("the velocity", values(&velocity, one)?),
    ])
}

/// From −2 to 2.
fn integers<D: Num>(stream: &Stream, random: &mut SplitMix64, shape: &[usize]) -> Result<Tensor<D>, Error> {
    let len = shape.iter().product();
    let elements: Vec<D> = (0..len).map(|_| D::from_f64(random.below(5) as f64 - 2.0)).collect();
    Tensor::from_slice(stream, &elements, shape)
}

fn values<D: Num>(tensor: &Tensor<D>, stream: &Stream) -> Result<Vec<f64>, Error> {
    Ok(tensor.to_vec(stream)?.into_iter().map(Num::to_f64).collect())
}
