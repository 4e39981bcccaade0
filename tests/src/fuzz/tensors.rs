//! Views show the elements that they name, and no safe call panics, whatever the shapes.

use cotangent::ops::{self, Conv2d};
use cotangent::{Device, Error, Result, Stream, Tensor, TensorRef};

use super::draws::Draws;

/// Elements beyond which nothing is allocated.
const ENOUGH: u128 = 1 << 12;

pub(super) fn check(data: &[u8]) {
    let draws = &mut Draws::new(data);
    let stream = Device::cpu().stream().expect("the CPU has streams");
    let shape: Vec<usize> = (0..draws.below(6)).map(|_| extent(draws)).collect();
    let Some(tensor) = made(&stream, &shape) else { return };
    let mut view = tensor.view();
    let mut model = Model { shape, elements: (0..tensor.len()).collect() };
    while draws.once_in(2) {
        let Some((next, wanted)) = step(view, &model, draws) else { continue };
        (view, model) = (next, wanted);
        assert_eq!(view.shape(), model.shape);
        let wanted: Vec<_> = model.elements.iter().map(|&element| element as u16).collect();
        assert_eq!(view.to_vec(&stream).expect("it is on the stream's device"), wanted, "{:?}", view.shape());
    }
    operation(&stream, view, draws);
}

fn extent(draws: &mut Draws<'_>) -> usize {
    if draws.once_in(16) { draws.hostile() as usize } else { draws.below(6) }
}

fn volume(shape: &[usize]) -> u128 {
    shape.iter().fold(1, |product: u128, &extent| product.saturating_mul(extent as u128))
}

/// A tensor of the numbers from zero, if it is small.
fn made(stream: &Stream, shape: &[usize]) -> Option<Tensor<u16>> {
    let count = volume(shape);
    if count > ENOUGH {
        let error = Tensor::<u16>::from_slice(stream, &[], shape).expect_err("it has elements");
        assert!(matches!(error, Error::View { .. } | Error::Length { .. }), "{error}");
        return None;
    }
    let numbers: Vec<_> = (0..count as u16).collect();
    match Tensor::from_slice(stream, &numbers, shape) {
        Ok(tensor) => Some(tensor),
        Err(error) => {
            let large = shape.iter().any(|&extent| extent > 1 << 20) || shape.len() > 8;
            assert!(large && matches!(error, Error::View { .. }), "{shape:?}: {error}");
            None
        }
    }
}

/// A view by the numbers of its elements in row-major order.
#[derive(Clone)]
struct Model {
    shape: Vec<usize>,
    elements: Vec<usize>,
}

impl Model {
    /// The same elements by a function from new places to old ones.
    fn gathered(&self, shape: Vec<usize>, place: impl Fn(Vec<usize>) -> Vec<usize>) -> Self {
        let elements = (0..volume(&shape) as usize).map(|mut index| {
            let mut at = vec![0; shape.len()];
            for (at, &extent) in at.iter_mut().zip(&shape).rev() {
                *at = index % extent;
                index /= extent;
            }
            let old = place(at);
            let flat = old.iter().zip(&self.shape).fold(0, |flat, (&at, &extent)| flat * extent + at);
            self.elements[flat]
        });
        Self { elements: elements.collect(), shape }
    }
}

/// One view of a view, and what it must show; nothing for one that was refused rightly.
fn step<'a>(
    view: TensorRef<'a, u16>,
    model: &Model,
    draws: &mut Draws<'_>,
) -> Option<(TensorRef<'a, u16>, Model)> {
    let rank = model.shape.len();
    match draws.below(4) {
        0 => {
            let (dim, start, len) = (draws.below(rank + 1), extent(draws), extent(draws));
            let inside = dim < rank && start.checked_add(len).is_some_and(|end| end <= model.shape[dim]);
            let narrowed = accepted(view.narrow(dim, start, len), inside)?;
            let mut shape = model.shape.clone();
            shape[dim] = len;
            Some((
                narrowed,
                model.gathered(shape, |mut at| {
                    at[dim] += start;
                    at
                }),
            ))
        }
        1 => {
            let mut order: Vec<usize> = (0..rank).collect();
            for i in 1..rank {
                order.swap(i, draws.below(i + 1));
            }
            let spoilt = draws.once_in(8);
            if spoilt {
                order.push(draws.below(rank + 1));
            }
            let permuted = accepted(view.permute(&order), !spoilt)?;
            let shape = order.iter().map(|&dim| model.shape[dim]).collect();
            Some((
                permuted,
                model.gathered(shape, |at| {
                    let mut old = vec![0; rank];
                    order.iter().zip(at).for_each(|(&dim, at)| old[dim] = at);
                    old
                }),
            ))
        }
        2 => {
            let shape: Vec<usize> = (0..draws.below(5)).map(|_| extent(draws)).collect();
            let reshaped = view.reshape(&shape);
            if volume(&shape) != model.elements.len() as u128 {
                return accepted(reshaped, false).map(|view| (view, model.clone()));
            }
            // Strides may not be able to say it.
            Some((reshaped.ok()?, Model { shape, elements: model.elements.clone() }))
        }
        _ => {
            let columns = volume(model.shape.get(1..).unwrap_or(&[]));
            let shape = vec![model.shape.first().copied().unwrap_or(1), columns.try_into().unwrap_or(0)];
            Some((view.flatten().ok()?, Model { shape, elements: model.elements.clone() }))
        }
    }
}

fn accepted<T>(made: Result<T>, right: bool) -> Option<T> {
    match made {
        Ok(made) => {
            assert!(right, "an impossible view");
            Some(made)
        }
        Err(error) => {
            assert!(!right && matches!(error, Error::View { .. }), "{error}");
            None
        }
    }
}

/// Any operation: a result or an error, where the result is small.
fn operation(stream: &Stream, x: TensorRef<'_, u16>, draws: &mut Draws<'_>) {
    let small = |factors: &[usize]| volume(x.shape()).max(1).saturating_mul(volume(factors)) <= ENOUGH;
    match draws.below(5) {
        0 => {
            if let Ok(y) = ops::flatten(stream, x) {
                assert_eq!(y.len(), x.len());
            }
        }
        1 => {
            let pads = [draws.between(-9, 9), if draws.once_in(8) { draws.hostile() as i32 } else { 1 }];
            // Pads give elements to an empty tensor too.
            let sum = i64::from(pads[0]) + i64::from(pads[1]);
            let (rows, l) = x.shape().split_at(x.shape().len().saturating_sub(1));
            let padded = l.first().map_or(0, |&l| (l as i128 + i128::from(sum)).max(0) as u128);
            if volume(rows).saturating_mul(padded) <= ENOUGH
                && let Ok(y) = ops::constant_pad1d(stream, x, pads, 7)
            {
                assert_eq!(y.shape().last().map(|&ol| ol as i64), x.shape().last().map(|&l| l as i64 + sum));
            }
        }
        2 => {
            let scale = [extent(draws), extent(draws)];
            if small(&scale) || scale.iter().any(|&scale| scale > 1 << 40) {
                let _ = ops::upsample_nearest2d(stream, x, scale);
            }
        }
        3 => {
            let inputs = vec![x; draws.below(4)];
            if small(&[inputs.len()]) {
                let _ = ops::channel_cat(stream, &inputs);
            }
        }
        _ => {
            let mut conv = Conv2d::new().stride([extent(draws), extent(draws)]).groups(extent(draws));
            conv.pad = [draws.below(3), draws.below(3)];
            if draws.once_in(8) {
                conv.pad[0] = draws.hostile() as usize;
            }
            let filter: Vec<usize> = (0..4).map(|_| extent(draws)).collect();
            let Some(w) = made(stream, &filter) else { return };
            let shape = conv.output_shape(x.shape(), &filter);
            if shape.is_ok_and(|shape| volume(&shape).max(1).saturating_mul(volume(&filter).max(1)) > ENOUGH)
            {
                return;
            }
            if let Ok(y) = ops::conv2d(stream, &conv, x, &w) {
                let _ = ops::conv2d_backward(stream, &conv, &y, x, &w).expect("the forward's shapes");
            }
        }
    }
}
