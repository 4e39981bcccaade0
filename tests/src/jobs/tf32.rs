//! Convolutions of f32 with products in TF32, against the reference in f64.

use cotangent::launch::{Access, Target};
use cotangent::verify::{Call, Case, Data, Executor, Failure, HostBuffer, Measured, SplitMix64, kernel};
use cotangent::{Algorithm, DType, Device, LaunchOptions, MathMode};

use super::shapes::{CONVOLUTIONS, FEW_CHANNELS, convolution};
use super::{Job, Work, module, planned_for};
use crate::executor::{Blocks, names, plan};

/// Each convolution with tiles, in each direction; from aligned bases, also for a small GPU, and added to what is there.
pub(super) fn jobs(large: &Target, small: &Target) -> Vec<Job> {
    let mut jobs = Vec::new();
    for kernel in ["conv2d_forward", "conv2d_backward_dx", "conv2d_backward_dw"] {
        let backward = kernel != "conv2d_forward";
        for (number, &(constants, sizes)) in CONVOLUTIONS.iter().chain(&FEW_CHANNELS).enumerate() {
            let case = convolution(kernel, constants, sizes);
            let skewed = case.clone().offsets(&[number % 4, number % 3, number % 2]);
            let mut cases = vec![(large, skewed.accumulate(backward && number % 2 == 1))];
            if number >= CONVOLUTIONS.len() && kernel == "conv2d_backward_dx" {
                cases.push((small, case.clone()));
                if number == CONVOLUTIONS.len() {
                    cases.push((large, case.clone().data(Data::Overflow).accumulate(true)));
                }
            }
            if number < CONVOLUTIONS.len() {
                cases.push((large, case.clone()));
                cases.push((small, case.clone()));
                if backward {
                    cases.push((small, case.accumulate(true)));
                }
            }
            for (target, case) in cases {
                let plan = plan(&case, DType::F32, target, Algorithm::Large, MathMode::Tf32)
                    .expect("a case that can be planned");
                let names = names(&plan);
                let label = format!("{case}, in TF32{}, f32", planned_for(*target));
                if names == [kernel] || jobs.iter().any(|job: &Job| job.label == label) {
                    continue;
                }
                jobs.push(job(&case, Some(*target), &names));
                let several = plan.iter().any(|launch| launch.geometry().grid_x > 1);
                if target == small && several && !case.accumulate {
                    let one = job(&case, Some(*target), &names);
                    // Labels end in an element type.
                    let label = one.label.replace(", f32", ", one block a launch, f32");
                    jobs.push(Job { blocks: Blocks::One, label, ..one });
                }
            }
        }
    }
    jobs
}

/// A convolution in f32, whose products may be in TF32.
pub(super) fn job(case: &Case, target: Option<Target>, names: &[&'static str]) -> Job {
    let planned = target.map_or_else(String::new, planned_for);
    let body = case.clone();
    Job {
        kernel: case.kernel,
        dtype: DType::F32,
        label: format!("{case}, in TF32{planned}, f32"),
        modules: names.iter().map(|name| module(name, DType::F32)).collect(),
        target,
        algorithm: Algorithm::Large,
        blocks: Blocks::Planned,
        work: Work::Body(Box::new(move |executor| products(executor, &body))),
    }
}

/// The elements of x, w and y.
fn volumes(case: &Case) -> [usize; 3] {
    let [kh, kw, .., g, _] = *case.constants else { unreachable!("a convolution has eight constants") };
    let [b, c_in, c_out, h, w, oh, ow] = *case.extents else {
        unreachable!("a convolution has seven extents")
    };
    [b * c_in * h * w, c_out * (c_in / g) * kh * kw, b * c_out * oh * ow].map(|volume| volume as usize)
}

pub(super) fn products(executor: &dyn Executor, case: &Case) -> Result<Measured, Failure> {
    let [x, w, y] = volumes(case);
    let (names, lengths) = match case.kernel {
        "conv2d_forward" => (["x", "w", "y"], [x, w, y]),
        "conv2d_backward_dx" => (["dy", "w", "dx"], [y, w, x]),
        _ => (["dy", "x", "dw"], [y, x, w]),
    };
    let mut random = SplitMix64::from_text(&case.to_string());
    let mut given = lengths.map(|length| (0..length).map(|_| random.unit() as f32).collect::<Vec<_>>());
    if case.data == Data::Overflow {
        given[0].iter_mut().step_by(97).for_each(|value| *value = f32::INFINITY);
    }
    let mut buffers: Vec<_> = (0..3)
        .map(|i| HostBuffer {
            name: names[i],
            element_bytes: 4,
            offset: case.offsets.get(i).copied().unwrap_or(0),
            access: match (i, case.accumulate) {
                (2, true) => Access::Accumulate,
                (2, false) => Access::Write,
                _ => Access::Read,
            },
            bytes: given[i].iter().flat_map(|value| value.to_ne_bytes()).collect(),
        })
        .collect();
    let options = LaunchOptions::new().accumulate(case.accumulate).math(MathMode::Tf32);
    let kernel = kernel(case.kernel, DType::F32, &case.constants)?;
    let call = Call { kernel: &*kernel, extents: &case.extents, scalar: &[], options };
    executor.run(&call, &mut buffers)?;

    let exact = wide(case, &given, f64::from)?;
    let magnitudes = wide(case, &given, |value| f64::from(value).abs())?;
    // As many terms as any sum can have.
    let terms = match case.kernel {
        "conv2d_backward_dw" => y / case.extents[2] as usize,
        "conv2d_forward" => w / case.extents[2] as usize,
        _ => w * case.constants[6] as usize / case.extents[1] as usize,
    };
    // Each factor is rounded to 11 bits, and tensor cores truncate their sums.
    let relative = 2.0 * 2.0_f64.powi(-11) + 2.0_f64.powi(-22) + (terms + 2) as f64 * 2.0_f64.powi(-23);
    let mut measured = Measured::default();
    for (i, (got, (want, magnitude))) in
        buffers[2].bytes.chunks_exact(4).zip(exact.iter().zip(&magnitudes)).enumerate()
    {
        let got = f64::from(f32::from_ne_bytes(got.try_into().expect("four bytes")));
        if !want.is_finite() && (got == *want || got.is_nan() && want.is_nan()) {
            continue;
        }
        let (error, bound) = ((got - want).abs(), relative * magnitude);
        if !want.is_finite() || error.is_nan() || error > bound {
            let what = format!("element {i} is {got}, but must be {want} within {bound:e}");
            return Err(Failure::Executor(what.into()));
        }
        measured = measured.worst(Measured { error, bound });
    }
    Ok(measured)
}

/// The result of the reference for f64.
fn wide(case: &Case, given: &[Vec<f32>; 3], map: fn(f32) -> f64) -> Result<Vec<f64>, Failure> {
    let mut given = given.each_ref().map(|values| values.iter().map(|&value| map(value)).collect::<Vec<_>>());
    let kernel = kernel(case.kernel, DType::F64, &case.constants)?;
    let options = LaunchOptions::new().accumulate(case.accumulate);
    let call = Call { kernel: &*kernel, extents: &case.extents, scalar: &[], options };
    let addresses = given.each_mut().map(|values| values.as_mut_ptr().expose_provenance() as u64);
    // SAFETY: the buffers have the elements of their shapes, and nothing else uses them until the launch has ended.
    unsafe { call.launch(&Device::cpu(), &addresses) }?;
    let [.., result] = given;
    Ok(result)
}
