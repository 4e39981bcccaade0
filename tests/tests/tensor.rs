//! Tensors: copies, views, memory of others, and every way of misusing them that is not a compile error.
#![allow(clippy::float_cmp, reason = "copies keep every bit")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cotangent::tensor::{DLDataType, DLDevice, DLManagedTensor, DLTensor};
use cotangent::{Device, Error, Stream, Tensor, TensorMut, TensorRef, ops};

/// The CPU, and every GPU that is there.
fn devices() -> Vec<Device> {
    let gpus = (0..).map_while(|ordinal| Device::cuda(ordinal).ok());
    std::iter::once(Device::cpu()).chain(gpus).collect()
}

fn streams() -> Vec<Stream> {
    devices().iter().map(|device| device.stream().expect("a stream")).collect()
}

fn counted(len: usize) -> Vec<f32> {
    (0..len).map(|i| i as f32).collect()
}

#[test]
fn slices_come_back_as_they_were() {
    for stream in streams() {
        let elements = counted(24);
        let mut tensor = Tensor::from_slice(&stream, &elements, &[2, 3, 4]).unwrap();
        assert_eq!(tensor.to_vec(&stream).unwrap(), elements);
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3, 4][..], &[12, 4, 1][..]));
        let reversed: Vec<f32> = elements.iter().rev().copied().collect();
        tensor.copy_from_slice(&stream, &reversed).unwrap();
        assert_eq!(tensor.to_vec(&stream).unwrap(), reversed);
        assert_eq!(Tensor::<f32>::zeros(&stream, &[5]).unwrap().to_vec(&stream).unwrap(), [0.0; 5]);
        let empty = Tensor::<f32>::from_slice(&stream, &[], &[3, 0]).unwrap();
        assert!(empty.is_empty() && empty.to_vec(&stream).unwrap().is_empty());
    }
}

#[test]
fn views_show_the_elements_that_they_name() {
    for stream in streams() {
        let tensor = Tensor::from_slice(&stream, &counted(24), &[2, 3, 4]).unwrap();
        let at = |i: usize, j: usize, k: usize| (i * 12 + j * 4 + k) as f32;
        let narrowed = tensor.narrow(2, 1, 2).unwrap();
        let expected: Vec<f32> =
            (0..2).flat_map(|i| (0..3).flat_map(move |j| (1..3).map(move |k| at(i, j, k)))).collect();
        assert_eq!(narrowed.to_vec(&stream).unwrap(), expected);
        let permuted = tensor.permute(&[2, 0, 1]).unwrap();
        let expected: Vec<f32> =
            (0..4).flat_map(|k| (0..2).flat_map(move |i| (0..3).map(move |j| at(i, j, k)))).collect();
        assert_eq!(permuted.to_vec(&stream).unwrap(), expected);
        assert_eq!(ops::contiguous(&stream, permuted).unwrap().to_vec(&stream).unwrap(), expected);
        let both = permuted.narrow(0, 1, 2).unwrap().narrow(2, 0, 2).unwrap();
        let copied = ops::contiguous(&stream, both).unwrap().to_vec(&stream).unwrap();
        assert_eq!(copied, both.to_vec(&stream).unwrap());
        assert_eq!(tensor.reshape(&[6, 4]).unwrap().to_vec(&stream).unwrap(), counted(24));
        assert_eq!(tensor.view().flatten().unwrap().shape(), [2, 12]);
        assert!(matches!(permuted.reshape(&[24]), Err(Error::View { .. })));
    }
}

#[test]
fn a_view_to_write_writes_there_and_nowhere_else() {
    for stream in streams() {
        let mut tensor = Tensor::from_slice(&stream, &counted(12), &[3, 4]).unwrap();
        tensor.narrow_mut(0, 1, 1).unwrap().copy_from_slice(&stream, &[-1.0; 4]).unwrap();
        let mut expected = counted(12);
        expected[4..8].fill(-1.0);
        assert_eq!(tensor.to_vec(&stream).unwrap(), expected);
        let columns = tensor.narrow_mut(1, 0, 2).unwrap().copy_from_slice(&stream, &[0.0; 6]);
        assert!(matches!(columns, Err(Error::NotContiguous { .. })), "{columns:?}");
    }
}

#[test]
fn host_slices_are_used_in_place() {
    let stream = Device::cpu().stream().unwrap();
    let (x, mut y) = ([-1.0_f32, 2.0, -3.0], [9.0_f32; 3]);
    let (from, to) = (TensorRef::from_slice(&x, &[3]).unwrap(), TensorMut::from_slice(&mut y, &[3]).unwrap());
    ops::relu_into(&stream, from, to).unwrap();
    assert_eq!(y, [0.0, 2.0, 0.0]);
    assert!(matches!(TensorRef::from_slice(&x, &[4]), Err(Error::Length { have: 3, need: 4 })));
}

#[test]
fn impossible_shapes_are_refused() {
    for stream in streams() {
        for shape in [&[usize::MAX][..], &[1 << 40, 1 << 40], &[0, 1 << 40, 1 << 40], &[1; 9]] {
            let made = Tensor::<f32>::zeros(&stream, shape);
            assert!(matches!(made, Err(Error::View { .. })), "{shape:?}: {made:?}");
        }
        let short = Tensor::from_slice(&stream, &counted(5), &[2, 3]);
        assert!(matches!(short, Err(Error::Length { have: 5, need: 6 })));
        // No memory is taken for a length that is a mistake.
        let short = Tensor::from_slice(&stream, &counted(5), &[1 << 50]);
        assert!(matches!(short, Err(Error::Length { have: 5, need: 0x4_0000_0000_0000 })));
        let tensor = Tensor::from_slice(&stream, &counted(6), &[2, 3]).unwrap();
        assert!(matches!(tensor.narrow(1, 2, 2), Err(Error::View { .. })));
        assert!(matches!(tensor.narrow(2, 0, 1), Err(Error::View { .. })));
        assert!(matches!(tensor.narrow(1, usize::MAX, 2), Err(Error::View { .. })));
        for order in [&[0][..], &[0, 0], &[0, 2]] {
            assert!(matches!(tensor.permute(order), Err(Error::View { .. })), "{order:?}");
        }
        assert!(matches!(tensor.reshape(&[4]), Err(Error::View { .. })));
    }
}

#[test]
fn memory_that_overlaps_itself_is_not_written() {
    let device = Device::cpu();
    let mut memory = [0.0_f32; 8];
    // SAFETY: the memory holds what the layouts reach, and is not used otherwise meanwhile.
    let made = |shape: &[usize], strides: &[usize], memory: &mut [f32; 8]| unsafe {
        TensorMut::from_raw(&device, memory.as_mut_ptr(), shape, strides).map(drop)
    };
    assert!(made(&[2, 4], &[4, 1], &mut memory).is_ok());
    for strides in [[0, 1], [3, 1], [1, 1]] {
        assert!(matches!(made(&[2, 4], &strides, &mut memory), Err(Error::View { .. })), "{strides:?}");
    }
}

#[test]
fn things_of_two_devices_are_kept_apart() {
    let all = streams();
    for (i, one) in all.iter().enumerate() {
        let tensor = Tensor::from_slice(one, &counted(4), &[4]).unwrap();
        for (j, other) in all.iter().enumerate().filter(|(j, _)| *j != i) {
            let read = tensor.to_vec(other);
            assert!(matches!(read, Err(Error::OtherDevice { .. })), "{i} {j}: {read:?}");
            let run = ops::relu(other, &tensor);
            assert!(matches!(run, Err(Error::OtherDevice { .. })), "{i} {j}: {run:?}");
        }
    }
    // A slice is the CPU's.
    for stream in &all[1..] {
        let host = counted(4);
        let run = ops::relu(stream, TensorRef::from_slice(&host, &[4]).unwrap());
        assert!(matches!(run, Err(Error::OtherDevice { .. })), "{run:?}");
    }
}

#[test]
fn tensors_cross_threads_and_streams_in_order() {
    for device in devices() {
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let n = 1 << 18;
        let mut tensor = Tensor::from_slice(&first, &vec![-1.0_f32; n], &[n]).unwrap();
        for round in 0..20 {
            // Written on one stream, read on the other, by another thread, with nobody waiting in between.
            let source = Tensor::from_slice(&first, &vec![round as f32; n], &[n]).unwrap();
            ops::relu_into(&first, &source, &mut tensor).unwrap();
            drop(source);
            let second = &second;
            tensor = std::thread::scope(|scope| {
                let reader = scope.spawn(move || {
                    let copy = ops::relu(second, &tensor).unwrap();
                    assert!(copy.to_vec(second).unwrap().iter().all(|&x| x == round as f32), "{round}");
                    tensor
                });
                reader.join().unwrap()
            });
        }
        drop((first, second));
        let third = device.stream().unwrap();
        // Used after the streams that wrote it are gone, and dropped by a thread that never saw a device.
        assert_eq!(tensor.to_vec(&third).unwrap()[n - 1], 19.0);
        std::thread::spawn(move || drop(tensor)).join().unwrap();
    }
}

/// A foreign tensor on the host, whose deleter counts.
struct Foreign {
    memory: Vec<f32>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    released: Arc<AtomicUsize>,
}

unsafe extern "C" fn release(managed: *mut DLManagedTensor) {
    // SAFETY: `foreign` made both boxes.
    let foreign = unsafe { Box::from_raw(Box::from_raw(managed).manager_ctx.cast::<Foreign>()) };
    foreign.released.fetch_add(1, Ordering::SeqCst);
}

fn foreign(shape: &[i64], strides: &[i64], released: &Arc<AtomicUsize>) -> *mut DLManagedTensor {
    let mut foreign = Box::new(Foreign {
        memory: counted(32),
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        released: Arc::clone(released),
    });
    let dl_tensor = DLTensor {
        data: foreign.memory.as_mut_ptr().cast::<c_void>(),
        device: DLDevice { device_type: 1, device_id: 0 },
        ndim: shape.len() as i32,
        dtype: DLDataType { code: 2, bits: 32, lanes: 1 },
        shape: foreign.shape.as_mut_ptr(),
        strides: if strides.is_empty() { std::ptr::null_mut() } else { foreign.strides.as_mut_ptr() },
        byte_offset: 8,
    };
    let manager_ctx = Box::into_raw(foreign).cast();
    Box::into_raw(Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(release) }))
}

#[test]
fn dlpack_takes_foreign_memory_and_gives_it_back_once() {
    let stream = Device::cpu().stream().unwrap();
    let released = Arc::new(AtomicUsize::new(0));
    for (strides, expected) in
        [(&[][..], [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), (&[1, 2][..], [2.0, 4.0, 6.0, 3.0, 5.0, 7.0])]
    {
        released.store(0, Ordering::SeqCst);
        // SAFETY: the structure is live, and its memory was written before.
        let tensor =
            unsafe { Tensor::<f32>::from_dlpack(foreign(&[2, 3], strides, &released), &stream).unwrap() };
        assert_eq!(tensor.to_vec(&stream).unwrap(), expected);
        let sum = ops::contiguous(&stream, &tensor).unwrap();
        assert_eq!(sum.to_vec(&stream).unwrap(), expected);
        assert_eq!(released.load(Ordering::SeqCst), 0);
        drop(tensor);
        assert_eq!(released.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn dlpack_refuses_what_it_cannot_use_and_leaves_it_to_the_caller() {
    let stream = Device::cpu().stream().unwrap();
    let released = Arc::new(AtomicUsize::new(0));
    let refused = |change: fn(&mut DLTensor), name: &str| {
        let managed = foreign(&[2, 3], &[3, 1], &released);
        // SAFETY: the structure is live; the change keeps it so.
        unsafe {
            change(&mut (*managed).dl_tensor);
            let made = Tensor::<f32>::from_dlpack(managed, &stream);
            assert!(made.is_err(), "{name}: {made:?}");
            assert_eq!(released.swap(0, Ordering::SeqCst), 0, "{name}");
            release(managed);
        }
        released.store(0, Ordering::SeqCst);
    };
    refused(|tensor| tensor.dtype.bits = 64, "another type");
    refused(|tensor| tensor.dtype.lanes = 4, "vectors");
    refused(|tensor| tensor.device.device_type = 2, "another device");
    refused(|tensor| tensor.ndim = 99, "too many dimensions");
    refused(|tensor| tensor.byte_offset = 2, "misaligned");
    refused(|tensor| tensor.byte_offset = u64::MAX - 3, "an offset beyond the last address");
    refused(
        |tensor| (tensor.data, tensor.byte_offset) = (std::ptr::null_mut(), 0),
        "no data, where there are elements",
    );
    refused(|tensor| tensor.shape = std::ptr::null_mut(), "no shape");
    // SAFETY: the structure has two strides and extents.
    refused(|tensor| unsafe { *tensor.strides = -1 }, "a negative stride");
    // SAFETY: as above.
    refused(|tensor| unsafe { *tensor.shape = i64::MAX }, "a huge extent");
    // SAFETY: null is refused before it is looked at.
    assert!(unsafe { Tensor::<f32>::from_dlpack(std::ptr::null_mut(), &stream) }.is_err());
}

#[test]
fn dlpack_round_trip_keeps_the_memory() {
    for stream in streams() {
        let tensor = Tensor::from_slice(&stream, &counted(6), &[2, 3]).unwrap();
        let managed = tensor.into_dlpack(&stream).unwrap();
        // SAFETY: the structure was just made.
        let (data, ndim) = unsafe { ((*managed).dl_tensor.data, (*managed).dl_tensor.ndim) };
        assert_eq!(ndim, 2);
        // SAFETY: as above; the consumer is this test.
        let back = unsafe { Tensor::<f32>::from_dlpack(managed, &stream).unwrap() };
        assert_eq!(back.to_vec(&stream).unwrap(), counted(6));
        let again = back.into_dlpack(&stream).unwrap();
        // SAFETY: as above.
        unsafe {
            assert_eq!((*again).dl_tensor.data, data);
            ((*again).deleter.expect("ours has one"))(again);
        }
    }
}

#[test]
fn arrays_come_back_as_they_were() {
    for stream in streams() {
        let array = ndarray::Array2::from_shape_fn((3, 4), |(i, j)| (i * 10 + j) as f32);
        let tensor = Tensor::from_array(&stream, &array).unwrap();
        assert_eq!(tensor.to_array(&stream).unwrap(), array.clone().into_dyn());
        let turned = Tensor::from_array(&stream, &array.t()).unwrap();
        assert_eq!(turned.to_array(&stream).unwrap(), array.t().to_owned().into_dyn());
        assert!(TensorRef::from_array(&array.t()).unwrap().is_none());
    }
}
