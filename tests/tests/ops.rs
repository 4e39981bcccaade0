//! Checked operations: against formulae written out here, against finite differences, and with every wrong shape.

use cotangent::ops::{self, Beta, Conv2d, Workspace};
use cotangent::{Device, Error, Result, Stream, Tensor, TensorRef};
use half::{bf16, f16};

fn streams() -> Vec<Stream> {
    let gpu = Device::cuda(0).into_iter();
    std::iter::once(Device::cpu()).chain(gpu).map(|device| device.stream().expect("a stream")).collect()
}

/// Numbers between −1 and 1 with no pattern.
fn noise(seed: u64, len: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.f64() * 2.0 - 1.0).collect()
}

fn tensor(stream: &Stream, seed: u64, shape: &[usize]) -> Tensor<f64> {
    Tensor::from_slice(stream, &noise(seed, shape.iter().product()), shape).expect("a tensor")
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Whether `gradient` is that of `⟨f(x), dy⟩`, by central differences along random directions.
fn is_gradient(
    stream: &Stream,
    x: &[f64],
    shape: &[usize],
    gradient: &[f64],
    dy: &[f64],
    f: impl Fn(TensorRef<'_, f64>) -> Result<Tensor<f64>>,
) {
    let value = |x: &[f64]| {
        let x = Tensor::from_slice(stream, x, shape).expect("a tensor");
        dot(&f(x.view()).expect("a result").to_vec(stream).expect("elements"), dy)
    };
    for seed in 0..4 {
        let direction = noise(900 + seed, x.len());
        let step = 1e-6;
        let moved = |by: f64| x.iter().zip(&direction).map(|(x, d)| x + by * d).collect::<Vec<_>>();
        let slope = (value(&moved(step)) - value(&moved(-step))) / (2.0 * step);
        let expected = dot(gradient, &direction);
        let size = gradient.iter().map(|g| g.abs()).sum::<f64>().max(1.0);
        assert!((slope - expected).abs() < 1e-8 * size, "{slope} is not {expected}");
    }
}

#[test]
fn conv2d_backward_is_the_gradient() {
    for stream in streams() {
        for (conv, x, w) in [
            (Conv2d::new().pad([1, 1]), [2, 3, 5, 6], [4, 3, 3, 3]),
            (Conv2d::new().stride([2, 2]).pad([1, 1]), [3, 12, 8, 8], [8, 12, 3, 3]),
            (Conv2d::new(), [2, 9, 4, 7], [10, 9, 1, 4]),
            (Conv2d::new(), [2, 8, 1, 1], [9, 8, 1, 1]),
            (Conv2d::new().stride([2, 1]).pad([0, 2]).groups(2), [2, 16, 7, 5], [18, 8, 2, 3]),
            (Conv2d::new().pad([1, 1]), [2, 2, 4, 40], [3, 2, 3, 3]),
        ] {
            let (x, w) = (tensor(&stream, 1, &x), tensor(&stream, 2, &w));
            let y = ops::conv2d(&stream, &conv, &x, &w).unwrap();
            let dy = tensor(&stream, 3, y.shape());
            let (dx, dw) = ops::conv2d_backward(&stream, &conv, &dy, &x, &w).unwrap();
            let values = |tensor: &Tensor<f64>| tensor.to_vec(&stream).unwrap();
            let (of_x, of_w, of_dy) = (values(&x), values(&w), values(&dy));
            is_gradient(&stream, &of_x, x.shape(), &values(&dx), &of_dy, |x| {
                ops::conv2d(&stream, &conv, x, &w)
            });
            is_gradient(&stream, &of_w, w.shape(), &values(&dw), &of_dy, |w| {
                ops::conv2d(&stream, &conv, &x, w)
            });

            // Each gradient alone, and added to what is there.
            let workspace = &mut Workspace::none();
            let mut sum = tensor(&stream, 4, x.shape());
            let before = values(&sum);
            let to = Some(sum.view_mut());
            ops::conv2d_backward_into(&stream, &conv, &dy, &x, &w, to, None, Beta::Accumulate, workspace)
                .unwrap();
            for ((sum, before), dx) in values(&sum).iter().zip(before).zip(values(&dx)) {
                assert!((sum - before - dx).abs() < 1e-12);
            }
            let mut alone = tensor(&stream, 5, w.shape());
            let to = Some(alone.view_mut());
            ops::conv2d_backward_into(&stream, &conv, &dy, &x, &w, None, to, Beta::Overwrite, workspace)
                .unwrap();
            for (alone, dw) in values(&alone).iter().zip(values(&dw)) {
                assert!((alone - dw).abs() < 1e-11);
            }
        }
    }
}

#[test]
fn linear_operations_have_their_gradients() {
    for stream in streams() {
        let check = |x: &[usize],
                     f: &dyn Fn(TensorRef<'_, f64>) -> Result<Tensor<f64>>,
                     b: &dyn Fn(&Tensor<f64>) -> Result<Tensor<f64>>| {
            let x = tensor(&stream, 6, x);
            let y = f(x.view()).unwrap();
            let dy = tensor(&stream, 7, y.shape());
            let dx = b(&dy).unwrap().to_vec(&stream).unwrap();
            let (of_x, of_dy) = (x.to_vec(&stream).unwrap(), dy.to_vec(&stream).unwrap());
            is_gradient(&stream, &of_x, x.shape(), &dx, &of_dy, f);
        };
        let s = &stream;
        for pads in [[1, 2], [0, 3], [-1, 2], [-2, -1]] {
            check(&[2, 3, 7], &|x| ops::constant_pad1d(s, x, pads, 0.0), &|dy| {
                ops::constant_pad1d_backward(s, dy, pads)
            });
        }
        check(&[2, 3, 4, 5], &|x| ops::upsample_nearest2d(s, x, [2, 3]), &|dy| {
            ops::upsample_nearest2d_backward(s, dy, [2, 3])
        });
        check(&[3, 2, 5], &|x| ops::flatten(s, x), &|dy| ops::flatten_backward(s, dy, &[3, 2, 5]));
        let zeros = Tensor::zeros(s, &[3]).unwrap();
        check(&[2, 3, 4, 5], &|x| ops::bias_add(s, x, &zeros), &|dy| ops::contiguous(s, dy));
        let x = tensor(s, 8, &[2, 3, 4, 5]);
        check(&[3], &|bias| ops::bias_add(s, &x, bias), &|dy| ops::bias_add_backward(s, dy));
    }
}

#[test]
fn relu_passes_what_is_above_zero() {
    for stream in streams() {
        let x = [-2.0_f32, -0.0, 0.0, 3.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-45];
        let tensor = Tensor::from_slice(&stream, &x, &[2, 4]).unwrap();
        let y = ops::relu(&stream, &tensor).unwrap();
        let values = y.to_vec(&stream).unwrap();
        assert!(values[4].is_nan());
        let plain =
            |values: &[f32]| values.iter().map(|v| if v.is_nan() { 7.0 } else { *v }).collect::<Vec<_>>();
        assert_eq!(plain(&values), [0.0, 0.0, 0.0, 3.0, 7.0, f32::INFINITY, 0.0, 1e-45]);
        let dy = Tensor::from_slice(&stream, &[1.0_f32; 8], &[2, 4]).unwrap();
        let dx = ops::relu_backward(&stream, &dy, &y).unwrap();
        assert_eq!(dx.to_vec(&stream).unwrap(), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0]);
        let mut sum = Tensor::from_slice(&stream, &[10.0_f32; 8], &[2, 4]).unwrap();
        ops::relu_backward_into(&stream, &dy, &y, &mut sum, Beta::Accumulate).unwrap();
        assert_eq!(sum.to_vec(&stream).unwrap(), [10.0, 10.0, 10.0, 11.0, 11.0, 11.0, 10.0, 11.0]);
    }
}

#[test]
fn softmax_cross_entropy_backward_is_the_gradient() {
    for stream in streams() {
        for [b, k] in [[1, 1], [5, 10], [3, 300]] {
            let labels: Vec<i32> = (0..b).map(|r| (r * 7 % k) as i32).collect();
            let labels = Tensor::from_slice(&stream, &labels, &[b]).unwrap();
            let x = tensor(&stream, 9, &[b, k]);
            let loss = |x: TensorRef<'_, f64>| ops::softmax_cross_entropy(&stream, x, &labels, 0.5);
            let dx = ops::softmax_cross_entropy_backward(&stream, &x, &labels, 0.5).unwrap();
            let (of_x, dx) = (x.to_vec(&stream).unwrap(), dx.to_vec(&stream).unwrap());
            is_gradient(&stream, &of_x, &[b, k], &dx, &vec![1.0; b], loss);
        }
    }
}

#[test]
fn softmax_cross_entropy_has_no_overflow_and_follows_no_wrong_label() {
    for stream in streams() {
        let logits = [1e30_f32, 0.0, 0.0, -1e30, -1e30, -1e30, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0];
        let logits = Tensor::from_slice(&stream, &logits, &[4, 3]).unwrap();
        let labels = Tensor::from_slice(&stream, &[0, 1, 3, -1], &[4]).unwrap();
        let loss =
            ops::softmax_cross_entropy(&stream, &logits, &labels, 1.0).unwrap().to_vec(&stream).unwrap();
        assert!(loss[0].abs() < 1e-6 && (loss[1] - 3.0_f32.ln()).abs() < 1e-6, "{loss:?}");
        assert!(loss[2].is_nan() && loss[3].is_nan(), "{loss:?}");
        let dx = ops::softmax_cross_entropy_backward(&stream, &logits, &labels, 1.0).unwrap();
        let dx = dx.to_vec(&stream).unwrap();
        assert!(dx[..6].iter().all(|d| d.is_finite()) && dx[6..].iter().all(|d| d.is_nan()), "{dx:?}");
    }
}

#[test]
fn sgd_step_follows_the_formula() {
    fn check<D: cotangent::Float>(stream: &Stream, tolerance: f64) {
        use cotangent::Num;
        let n = 1000;
        let master =
            |seed| noise(seed, n).iter().map(|&x| <D::Master as Num>::from_f64(x)).collect::<Vec<_>>();
        let (weights, speeds) = (master(1), master(2));
        let gradients: Vec<D> = noise(3, n).iter().map(|&x| D::from_f64(x)).collect();
        let [rate, momentum, decay, scale] = [0.1, 0.9, 0.01, 0.25];
        let numbers = [rate, momentum, decay, scale].map(<D::Master as Num>::from_f64);
        let mut w = Tensor::from_slice(stream, &weights, &[10, 100]).unwrap();
        let mut velocity = Tensor::from_slice(stream, &speeds, &[10, 100]).unwrap();
        let dw = Tensor::from_slice(stream, &gradients, &[10, 100]).unwrap();
        let mut copy = Tensor::<D>::zeros(stream, &[10, 100]).unwrap();
        let numbers = Tensor::from_slice(stream, &numbers, &[4]).unwrap();
        ops::sgd_step(stream, &mut w, &mut velocity, &dw, Some(copy.view_mut()), &numbers).unwrap();
        let (w, velocity, copy) =
            (w.to_vec(stream).unwrap(), velocity.to_vec(stream).unwrap(), copy.to_vec(stream).unwrap());
        for i in 0..n {
            let speed =
                momentum * speeds[i].to_f64() + scale * gradients[i].to_f64() + decay * weights[i].to_f64();
            let weight = weights[i].to_f64() - rate * speed;
            assert!((velocity[i].to_f64() - speed).abs() < tolerance, "velocity {i}");
            assert!((w[i].to_f64() - weight).abs() < tolerance, "weight {i}");
            assert_eq!(copy[i], D::from_f64(w[i].to_f64()), "copy {i}");
        }
    }
    for stream in streams() {
        check::<f64>(&stream, 1e-8);
        check::<f32>(&stream, 1e-6);
        check::<f16>(&stream, 1e-6);
        check::<bf16>(&stream, 1e-6);
    }
}

/// Whether no 16-bit float is nearer to `x` than this one, nor as near with an even last bit.
fn is_nearest(x: f64, bits: u16, infinity: u16, limit: f64, value: impl Fn(u16) -> f64) {
    if x.abs() >= limit {
        assert_eq!(bits & 0x7fff, infinity, "{x}");
        return;
    }
    let distance = |bits: u16| (value(bits) - x).abs();
    assert!(distance(bits).is_finite() && (bits & 0x8000 != 0) == x.is_sign_negative(), "{x}");
    for neighbour in [bits.wrapping_sub(1), bits + 1] {
        let away = distance(neighbour);
        let further = distance(bits) < away || distance(bits) == away && bits & 1 == 0;
        assert!(further || away.is_nan(), "{x}: {} is nearer than {}", value(neighbour), value(bits));
    }
}

#[test]
fn cast_rounds_to_nearest_once() {
    for stream in streams() {
        // The middle between two f16, a hair above it (which f32 does not hold), and the edges of the ranges.
        let hair = f64::from(f16::from_f32(1.0)) + 2.0_f64.powi(-11);
        let mut x = vec![
            hair,
            hair + 2.0_f64.powi(-40),
            65519.9,
            65520.0,
            1e300,
            -1e-300,
            0.0,
            2.0_f64.powi(-25) * 1.000_000_01,
        ];
        x.extend(noise(11, 500));
        let tensor = Tensor::from_slice(&stream, &x, &[x.len()]).unwrap();
        let halves = ops::cast::<f64, f16>(&stream, &tensor).unwrap().to_vec(&stream).unwrap();
        let brains = ops::cast::<f64, bf16>(&stream, &tensor).unwrap().to_vec(&stream).unwrap();
        let singles = ops::cast::<f64, f32>(&stream, &tensor).unwrap().to_vec(&stream).unwrap();
        for (i, &x) in x.iter().enumerate() {
            let (half, brain) = (halves[i].to_bits(), brains[i].to_bits());
            is_nearest(x, half, f16::INFINITY.to_bits(), 65520.0, |bits| f16::from_bits(bits).to_f64());
            is_nearest(x, brain, bf16::INFINITY.to_bits(), 3.396e38, |bits| bf16::from_bits(bits).to_f64());
            assert_eq!(singles[i].to_bits(), (x as f32).to_bits(), "{x}");
        }
        let back = ops::cast::<f32, f64>(&stream, &ops::cast::<f64, f32>(&stream, &tensor).unwrap()).unwrap();
        assert!(back.to_vec(&stream).unwrap().iter().zip(&singles).all(|(a, b)| *a == f64::from(*b)));
    }
}

#[test]
fn channel_cat_joins_many_inputs_and_parts_them_again() {
    for stream in streams() {
        let counts: Vec<usize> = (0..200).map(|i| i * 5 % 7).collect();
        let inputs: Vec<_> =
            counts.iter().enumerate().map(|(i, &c)| tensor(&stream, i as u64, &[2, c, 3, 1])).collect();
        let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
        let joined = ops::channel_cat(&stream, &views).unwrap();
        assert_eq!(joined.shape(), [2, counts.iter().sum::<usize>(), 3, 1]);
        let parts = ops::channel_cat_backward(&stream, &joined, &counts).unwrap();
        for (part, input) in parts.iter().zip(&inputs) {
            assert_eq!(part.shape(), input.shape());
            assert_eq!(part.to_vec(&stream).unwrap(), input.to_vec(&stream).unwrap());
        }
        let mut sums: Vec<_> = inputs.iter().map(|input| ops::contiguous(&stream, input).unwrap()).collect();
        let mut outputs: Vec<_> = sums.iter_mut().map(Tensor::view_mut).collect();
        ops::channel_cat_backward_into(&stream, &joined, &mut outputs, Beta::Accumulate).unwrap();
        drop(outputs);
        for (sum, input) in sums.iter().zip(&inputs) {
            let twice: Vec<f64> = input.to_vec(&stream).unwrap().iter().map(|x| x + x).collect();
            assert_eq!(sum.to_vec(&stream).unwrap(), twice);
        }
    }
}

#[test]
fn flatten_takes_strided_views() {
    for stream in streams() {
        let x = tensor(&stream, 12, &[6, 4, 5]);
        let columns = x.permute(&[2, 0, 1]).unwrap();
        let flat = ops::flatten(&stream, columns).unwrap();
        assert_eq!(
            (flat.shape(), flat.to_vec(&stream).unwrap()),
            (&[5, 24][..], columns.to_vec(&stream).unwrap())
        );
        let half = x.narrow(0, 1, 3).unwrap();
        assert_eq!(
            ops::flatten(&stream, half).unwrap().to_vec(&stream).unwrap(),
            half.to_vec(&stream).unwrap()
        );
        let inner = x.narrow(1, 0, 2).unwrap().permute(&[0, 2, 1]).unwrap();
        assert!(matches!(ops::flatten(&stream, inner), Err(Error::NotContiguous { .. })));
        let mut dx = Tensor::<f64>::zeros(&stream, &[6, 4]).unwrap();
        let turned = dx.view_mut().permute(&[1, 0]).unwrap();
        let dy = tensor(&stream, 13, &[4, 6]);
        ops::flatten_backward_into(&stream, &dy, turned, Beta::Overwrite).unwrap();
        let back = dx.permute(&[1, 0]).unwrap().to_vec(&stream).unwrap();
        assert_eq!(back, dy.to_vec(&stream).unwrap());
    }
}

#[test]
fn wrong_shapes_are_refused_with_their_numbers() {
    for stream in streams() {
        let s = &stream;
        let x = tensor(s, 1, &[2, 3, 4, 5]);
        let w = tensor(s, 2, &[6, 3, 3, 3]);
        let mut small = tensor(s, 3, &[2, 3]);
        let labels = Tensor::<i32>::zeros(s, &[2]).unwrap();
        let refused = |name: &str, result: Result<()>| {
            let error = result.expect_err(name);
            let shown =
                matches!(error, Error::Shape { .. } | Error::Constant { .. } | Error::Argument { .. });
            assert!(shown, "{name}: {error}");
        };
        let conv = Conv2d::new();
        let none = &mut Workspace::none();
        refused("a flat image", ops::conv2d(s, &conv, x.reshape(&[6, 20]).unwrap(), &w).map(drop));
        refused("other channels", ops::conv2d(s, &conv, &x, w.reshape(&[9, 2, 3, 3]).unwrap()).map(drop));
        refused("a large filter", ops::conv2d(s, &conv, &x, w.reshape(&[6, 3, 9, 1]).unwrap()).map(drop));
        refused("stride 0", ops::conv2d(s, &conv.stride([0, 1]), &x, &w).map(drop));
        refused("no groups", ops::conv2d(s, &conv.groups(0), &x, &w).map(drop));
        refused("uneven groups", ops::conv2d(s, &conv.groups(2), &x, &w).map(drop));
        refused("another output", ops::conv2d_into(s, &conv, &x, &w, &mut small, none));
        refused("another dy", ops::conv2d_backward(s, &conv, &x, &x, &w).map(drop));
        refused("crop too much", ops::constant_pad1d(s, &x, [-3, -3], 0.0).map(drop));
        refused("another bias", ops::bias_add(s, &x, &labels_as(s, 4)).map(drop));
        refused("no channels", ops::bias_add_backward(s, &labels_as(s, 4)).map(drop));
        refused("relu", ops::relu_into(s, &x, &mut small));
        refused("relu_backward", ops::relu_backward(s, &x, &small).map(drop));
        refused("scale 0", ops::upsample_nearest2d(s, &x, [0, 1]).map(drop));
        refused("no image", ops::upsample_nearest2d(s, &small, [2, 2]).map(drop));
        refused("uneven scale", ops::upsample_nearest2d_backward(s, &x, [3, 1]).map(drop));
        refused("nothing to join", ops::channel_cat::<f64>(s, &[]).map(drop));
        refused("two sizes", ops::channel_cat(s, &[x.view(), w.view()]).map(drop));
        refused("other parts", ops::channel_cat_backward(s, &x, &[1, 1]).map(drop));
        refused("another flat", ops::flatten_into(s, &x, &mut small));
        refused(
            "other labels",
            ops::softmax_cross_entropy(s, x.reshape(&[6, 20]).unwrap(), &labels, 1.0).map(drop),
        );
        refused("two numbers", {
            let (mut w, mut v) = (tensor(s, 1, &[3]), tensor(s, 2, &[3]));
            ops::sgd_step::<f64>(s, &mut w, &mut v, &tensor(s, 3, &[3]), None, &tensor(s, 4, &[2]))
        });
        let gaps = x.narrow(3, 0, 2).unwrap();
        assert!(matches!(ops::relu(s, gaps), Err(Error::NotContiguous { .. })));
        assert!(matches!(
            ops::conv2d(s, &conv, gaps, &w),
            Err(Error::NotContiguous { .. } | Error::Shape { .. })
        ));
    }
}

fn labels_as(stream: &Stream, len: usize) -> Tensor<f64> {
    Tensor::zeros(stream, &[len]).unwrap()
}

#[test]
fn empty_tensors_are_fine() {
    for stream in streams() {
        let (x, w) = (
            Tensor::<f32>::zeros(&stream, &[0, 3, 5, 5]).unwrap(),
            Tensor::zeros(&stream, &[4, 3, 3, 3]).unwrap(),
        );
        let conv = Conv2d::new();
        let y = ops::conv2d(&stream, &conv, &x, &w).unwrap();
        assert_eq!(y.shape(), [0, 4, 3, 3]);
        let (dx, dw) = ops::conv2d_backward(&stream, &conv, &y, &x, &w).unwrap();
        assert!(dx.is_empty() && dw.to_vec(&stream).unwrap().iter().all(|&x| x == 0.0));
        assert!(ops::relu(&stream, &x).unwrap().is_empty());
        assert_eq!(ops::bias_add_backward(&stream, &x).unwrap().to_vec(&stream).unwrap(), [0.0; 3]);
    }
}

#[test]
fn a_checked_operation_costs_the_host_little() {
    let Ok(device) = Device::cuda(0) else {
        println!("no GPU: the host's cost of a launch is not measured");
        return;
    };
    let stream = device.stream().unwrap();
    let (x, w) = (
        Tensor::<f32>::zeros(&stream, &[1, 4, 8, 8]).unwrap(),
        Tensor::<f32>::zeros(&stream, &[4, 4, 3, 3]).unwrap(),
    );
    let (conv, mut y) = (Conv2d::new().pad([1, 1]), Tensor::zeros(&stream, &[1, 4, 8, 8]).unwrap());
    let bytes = ops::conv2d_workspace::<f32>(&device, &conv, x.shape(), w.shape()).unwrap();
    let mut workspace = Workspace::new(&stream, bytes).unwrap();
    let mut run = || ops::conv2d_into(&stream, &conv, &x, &w, &mut y, &mut workspace).unwrap();
    (0..50).for_each(|_| run());
    // As launches follow each other in a program: the device catches up before its queue is full, and is not woken for
    // each. Other tests have the driver's locks meanwhile, so that the least of several medians counts.
    let mut median = || {
        stream.synchronize().unwrap();
        let mut times: Vec<f64> = (0..51)
            .map(|_| {
                let start = std::time::Instant::now();
                run();
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[25]
    };
    let least = (0..100).map(|_| median()).fold(f64::INFINITY, f64::min);
    println!("a checked conv2d costs the host {least:.2} µs (the least of 100 medians of 51)");
    if !cfg!(debug_assertions) {
        assert!(least < 8.0, "{least}");
    }
}
