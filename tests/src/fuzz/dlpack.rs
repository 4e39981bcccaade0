//! A foreign tensor is taken over exactly if it can be, read and written where it says, and given back once.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cotangent::ops::{self, Beta};
use cotangent::tensor::{DLDataType, DLDevice, DLManagedTensor, DLTensor, MAX_RANK};
use cotangent::{Device, Stream, Tensor};

use super::draws::Draws;

/// Elements of the foreign memory.
const LEN: usize = 96;

struct Foreign {
    memory: Vec<f32>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    released: Arc<AtomicUsize>,
}

unsafe extern "C" fn release(managed: *mut DLManagedTensor) {
    // SAFETY: `foreign` made both boxes, and a deleter runs once.
    let foreign = unsafe { Box::from_raw(Box::from_raw(managed).manager_ctx.cast::<Foreign>()) };
    foreign.released.fetch_add(1, Ordering::SeqCst);
}

fn number(draws: &mut Draws<'_>, most: i32) -> i64 {
    if draws.once_in(12) { draws.hostile() } else { i64::from(draws.between(0, most)) }
}

/// A foreign tensor, most often a sound one.
fn foreign(draws: &mut Draws<'_>, released: &Arc<AtomicUsize>) -> *mut DLManagedTensor {
    let ndim = if draws.once_in(16) { draws.hostile() as i32 } else { draws.between(0, 5) };
    // A live structure has as many numbers as it says; more than this are refused unread.
    let count = usize::try_from(ndim).unwrap_or(0).min(16);
    let shape: Vec<_> = (0..count).map(|_| number(draws, 5)).collect();
    let strides: Vec<_> = (0..count).map(|_| number(draws, 24)).collect();
    let has_strides = draws.once_in(2);
    let dtype = if draws.once_in(16) {
        DLDataType { code: draws.any(), bits: draws.any(), lanes: draws.any() }
    } else {
        DLDataType { code: 2, bits: 32, lanes: 1 }
    };
    let device = if draws.once_in(16) {
        DLDevice { device_type: draws.hostile() as i32, device_id: draws.any::<u8>().into() }
    } else {
        DLDevice { device_type: 1, device_id: 0 }
    };
    let byte_offset = if draws.once_in(12) { draws.hostile() as u64 } else { 4 * draws.below(8) as u64 };
    let memory = (0..LEN).map(|i| i as f32).collect();
    let mut foreign = Box::new(Foreign { memory, shape, strides, released: Arc::clone(released) });
    let dl_tensor = DLTensor {
        data: foreign.memory.as_mut_ptr().cast::<c_void>(),
        device,
        ndim,
        dtype,
        shape: foreign.shape.as_mut_ptr(),
        strides: if has_strides { foreign.strides.as_mut_ptr() } else { ptr::null_mut() },
        byte_offset,
    };
    let manager_ctx = Box::into_raw(foreign).cast();
    Box::into_raw(Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(release) }))
}

/// The offset of each element in row-major order, of a tensor that is small; none for one that no memory holds.
enum Reach {
    Nothing,
    TooFar,
    Elements(Vec<usize>),
}

fn reach(shape: &[i64], strides: Option<&[i64]>) -> Option<Reach> {
    let mut steps = vec![1_i128; shape.len()];
    match strides {
        Some(strides) => steps.iter_mut().zip(strides).for_each(|(step, &stride)| *step = stride.into()),
        None => {
            for dim in (1..shape.len()).rev() {
                steps[dim - 1] = steps[dim].saturating_mul(i128::from(shape[dim]).max(1));
            }
        }
    }
    if shape.iter().any(|&extent| extent < 0) || steps.iter().any(|&step| step < 0) {
        return None;
    }
    let spans =
        shape.iter().zip(&steps).map(|(&extent, &step)| (i128::from(extent) - 1).max(0).saturating_mul(step));
    let last = spans.fold(0_i128, i128::saturating_add);
    let count =
        shape.iter().fold(1_i128, |product, &extent| product.saturating_mul(i128::from(extent).max(1)));
    if last >= 1 << 59 || count >= 1 << 59 {
        return None;
    }
    if shape.contains(&0) {
        return Some(Reach::Nothing);
    }
    if last >= LEN as i128 || count > 4096 {
        return Some(Reach::TooFar);
    }
    let mut offsets = vec![0_usize];
    for (&extent, &step) in shape.iter().zip(&steps) {
        let along = |&from: &usize| (0..extent as usize).map(move |at| from + at * step as usize);
        offsets = offsets.iter().flat_map(along).collect();
    }
    Some(Reach::Elements(offsets))
}

pub(super) fn check(data: &[u8]) {
    let draws = &mut Draws::new(data);
    let stream = Device::cpu().stream().expect("the CPU has streams");
    let released = Arc::new(AtomicUsize::new(0));
    let managed = foreign(draws, &released);
    // SAFETY: the structure was just made.
    let tensor = unsafe { &(*managed).dl_tensor };
    let rank = usize::try_from(tensor.ndim).unwrap_or(usize::MAX);
    let numbers = |from: *const i64| {
        // SAFETY: there are as many numbers as dimensions, up to the limit.
        unsafe { std::slice::from_raw_parts(from, if rank <= MAX_RANK { rank } else { 0 }) }
    };
    let strides = (!tensor.strides.is_null()).then(|| numbers(tensor.strides));
    let reach = reach(numbers(tensor.shape), strides);
    let address = (tensor.data as u64).checked_add(tensor.byte_offset);
    let fits = rank <= MAX_RANK
        && tensor.dtype == DLDataType { code: 2, bits: 32, lanes: 1 }
        && tensor.device == DLDevice { device_type: 1, device_id: 0 }
        && address.is_some_and(|address| address.is_multiple_of(4));
    let first = usize::try_from(tensor.byte_offset / 4).unwrap_or(usize::MAX);
    let described = format!("{tensor:?} {:?} {strides:?}", numbers(tensor.shape));
    let extents: Vec<usize> = numbers(tensor.shape).iter().map(|&extent| extent as usize).collect();
    // SAFETY: the structure is live; where it reaches beyond its memory, nothing is read or written through it.
    let made = unsafe { Tensor::<f32>::from_dlpack(managed, &stream) };
    let wraps = |bytes: u64| address.is_none_or(|address| address.checked_add(bytes).is_none());
    match (made, fits.then_some(reach).flatten()) {
        (Ok(tensor), Some(reach)) => {
            assert_eq!(tensor.shape(), extents, "{described}");
            let tensor = match reach {
                Reach::Elements(offsets)
                    if offsets.iter().all(|&offset| offset.saturating_add(first) < LEN) =>
                {
                    used(tensor, &extents, &offsets, first, &stream)
                }
                Reach::Nothing => used(tensor, &extents, &[], 0, &stream),
                Reach::Elements(_) | Reach::TooFar => tensor,
            };
            assert_eq!(released.load(Ordering::SeqCst), 0, "{described}");
            drop(tensor);
            assert_eq!(released.load(Ordering::SeqCst), 1, "{described}");
        }
        (Err(error), expected) => {
            // Memory that would go on behind the last address is refused too.
            assert!(expected.is_none() || wraps(1 << 61), "{described}: {error}");
            assert_eq!(released.load(Ordering::SeqCst), 0, "{described}");
            // SAFETY: after an error the tensor is still this function's.
            unsafe { release(managed) };
        }
        (Ok(_), None) => panic!("{described} was taken over"),
    }
}

/// Reads and writes every element, and goes once to another library and back.
fn used(
    mut tensor: Tensor<f32>,
    shape: &[usize],
    offsets: &[usize],
    first: usize,
    stream: &Stream,
) -> Tensor<f32> {
    let read = |tensor: &Tensor<f32>| tensor.to_vec(stream).expect("nobody else uses it");
    let wanted: Vec<f32> = offsets.iter().map(|&offset| (first + offset) as f32).collect();
    assert_eq!(read(&tensor), wanted);
    assert_eq!(read(&ops::contiguous(stream, &tensor).expect("small strides")), wanted);

    let managed = tensor.into_dlpack(stream).expect("nobody else uses it");
    // SAFETY: it is live, and this is its one consumer.
    tensor = unsafe { Tensor::from_dlpack(managed, stream) }.expect("it was one before");
    assert_eq!(read(&tensor), wanted);

    let apart = offsets.iter().collect::<BTreeSet<_>>().len() == offsets.len();
    let rows = shape.first().copied().unwrap_or(1);
    let columns = shape.iter().skip(1).product();
    let numbers: Vec<f32> = (0..offsets.len()).map(|i| -1.0 - i as f32).collect();
    let dy = Tensor::from_slice(stream, &numbers, &[rows, columns]).expect("as many elements");
    // Some views are no matrix, and take a copy.
    if ops::flatten_backward_into(stream, &dy, &mut tensor, Beta::Overwrite).is_ok() {
        assert!(apart, "elements at {offsets:?} were written twice");
        assert_eq!(read(&tensor), numbers);
    }
    tensor
}
