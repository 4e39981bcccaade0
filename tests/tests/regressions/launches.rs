//! Launches: tiles, grids, modules, threads.

use std::thread;

use cotangent::verify::{Call, Check, Executor, Grid, HostBuffer, kernels};
use cotangent::{Conv2dForward, Device, Kernel, LaunchOptions, Tensor, ops};
use cotangent_tests::suite::{nowhere, refused};

use crate::common::{PLACES, holds, matches, streams};
use crate::hazards::sized;

/// The last tile of a row, narrower than the others, wrote on into the next row; here red zones are around every
/// buffer, and rows end within a tile.
#[test]
fn ragged_tile_leaves_the_next_row_alone() {
    for name in kernels() {
        for n in [5, 37, 100] {
            for block in [1, 3, 16, 64] {
                sized(name, n, block).into_iter().for_each(matches);
            }
        }
    }
}

/// A vector store guarded by its first element alone wrote up to three elements past the end; here extents leave 1, 2
/// and 3 elements over, on every base.
#[test]
fn false_divisibility_writes_nothing_past_the_end() {
    for name in kernels() {
        for n in [4 * 9 + 1, 4 * 9 + 2, 4 * 9 + 3] {
            for offset in 1..4 {
                for case in sized(name, n, 256) {
                    matches(case.offsets(&[offset; 5]));
                }
            }
        }
    }
}

/// Blocks beyond the work wrote out of bounds; here they find nothing to do, and one block alone does everything.
#[test]
fn oversized_grid_gives_the_same_result() {
    for name in kernels() {
        for grid in [Grid::Twice, Grid::One] {
            for case in sized(name, 37, 16) {
                holds(&Check::Reference(case.clone().grid(grid)));
            }
        }
    }
}

/// A kernel that was edited under the same name got the old binary; here modules go by their text, and each kernel gives
/// its own result.
#[test]
fn stale_cache_is_no_other_kernels_module() {
    let kernels = [1, 2].map(|kw| {
        let mut kernel = Conv2dForward::<f32>::new(1, kw, 1, 1, 0, 0, 1, 64);
        "the same".clone_into(&mut kernel.id);
        kernel
    });
    assert_eq!(kernels[0].id, kernels[1].id);
    assert_ne!(Kernel::id(&kernels[0]), Kernel::id(&kernels[1]));
    let texts = [(0, 3), (1, 2)].map(|(i, ow)| {
        let args = (nowhere(1), nowhere(2), nowhere(3), 1, 1, 1, 1, 3, 1, ow);
        kernels[i].prepare(&args, &LaunchOptions::new()).unwrap().specialised_ptx().unwrap()
    });
    assert_ne!(texts[0], texts[1]);
    let [x, w] = [vec![1.0_f32, 2.0, 3.0], vec![10.0, 100.0]];
    let gives = [vec![10.0_f32, 20.0, 30.0], vec![210.0, 320.0]];
    let cpu = Device::cpu();
    let executors = PLACES.iter().map(|place| place as &dyn Executor).chain([&cpu as &dyn Executor]);
    for executor in executors {
        // One after the other, and the first again.
        for i in [0, 1, 0] {
            let (kernel, gives) = (&kernels[i], &gives[i]);
            let (x, w) = (floats("x", &x), floats("w", &w[..=i]));
            let mut buffers = [
                x,
                w,
                HostBuffer {
                    access: cotangent::launch::Access::Write,
                    ..floats("y", &vec![9.0; gives.len()])
                },
            ];
            let extents = [1, 1, 1, 1, 3, 1, gives.len() as i32];
            let call = Call { kernel, extents: &extents, scalar: &[], options: LaunchOptions::new() };
            executor
                .run(&call, &mut buffers)
                .unwrap_or_else(|failure| panic!("{}: {failure}", executor.name()));
            assert_eq!(buffers[2].bytes, floats("y", gives).bytes, "{}", executor.name());
        }
    }
}

fn floats(name: &'static str, values: &[f32]) -> HostBuffer {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    HostBuffer { name, element_bytes: 4, offset: 0, access: cotangent::launch::Access::Read, bytes }
}

/// PTX newer than the driver gave an obscure error; here it is refused before the driver sees it, and the error names
/// both versions. (A driver of any version is tested in the driver layer, `ptx_version_error_names_both_versions` and
/// `module_that_does_not_fit_never_reaches_the_driver`.)
#[test]
fn candle_2498_cudarc_434_ptx_newer_than_the_driver() {
    let Ok(device) = Device::cuda(0) else {
        println!("no GPU: its own driver is not tried");
        return;
    };
    let kernel = Conv2dForward::<f32>::new(1, 1, 1, 1, 0, 0, 1, 64);
    let [x, w, y] = [4, 1, 4].map(|len| device.zeros::<f32>(len).unwrap());
    let args = (x.as_ptr(), w.as_ptr(), y.as_ptr(), 1, 1, 1, 2, 2, 2, 2);
    let ptx = kernel.prepare(&args, &LaunchOptions::new()).unwrap().specialised_ptx().unwrap();
    let version = ptx.lines().find(|line| line.starts_with(".version")).unwrap();
    let newer = ptx.replacen(version, ".version 99.0", 1);
    // SAFETY: the buffers have the elements of their extents; the module is refused.
    let launched = unsafe { device.launch_ptx(&kernel, &newer, args, &LaunchOptions::new()) };
    refused(launched, &["PTX 99.0", "the driver is for CUDA"]);
}

/// An object dropped on a thread where no context was bound aborted; here any thread may use and drop what another made.
/// (The driver layer's `context_serves_objects_on_any_thread_and_outlives_the_device` sees the calls themselves.)
#[test]
fn mistral_rs_1428_objects_move_between_threads() {
    for stream in streams() {
        let device = stream.device().clone();
        let (tensor, buffer) = thread::spawn(move || {
            let tensor = Tensor::from_slice(&stream, &[1.0_f32, -2.0, 3.0], &[3]).unwrap();
            (tensor, stream.device().upload(&[1_u8, 2]).unwrap())
            // The stream that made the tensor is dropped here.
        })
        .join()
        .unwrap();
        let relu = thread::spawn(move || {
            let stream = tensor.device().stream().unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1, 2]);
            drop(buffer);
            let relu = ops::relu(&stream, &tensor).unwrap();
            drop(tensor);
            relu
        })
        .join()
        .unwrap();
        thread::spawn(move || {
            let stream = device.stream().unwrap();
            assert_eq!(relu.to_vec(&stream).unwrap(), [1.0, 0.0, 3.0]);
            drop((relu, stream, device));
        })
        .join()
        .unwrap();
    }
}
