//! Constants end up in their holes and nowhere else; text that is no complete module is refused before a launch.

use cotangent::kernels::KERNELS;
use cotangent::verify;
use cotangent::{DType, Device, Error, LaunchOptions, ReluForward};

use super::draws::Draws;
use super::ptx;

pub(super) fn check(data: &[u8]) {
    let mut draws = Draws::new(data);
    if draws.once_in(2) { complete(&ptx::text(draws.rest())) } else { shipped(&mut draws) }
}

/// A module that ships, with any constants.
fn shipped(draws: &mut Draws<'_>) {
    let name = draws.of(&verify::kernels());
    let dtype = draws.of(&DType::ALL);
    let info = KERNELS.iter().find(|kernel| kernel.name == name).expect("verification's kernels ship");
    let constants: Vec<i32> = info
        .constants
        .iter()
        .map(|_| if draws.once_in(2) { draws.hostile() as i32 } else { draws.between(1, 300) })
        .collect();
    let Ok(kernel) = verify::kernel(name, dtype, &constants) else { return };
    let filled = kernel.specialised_ptx().unwrap_or_else(|error| panic!("{name} {constants:?}: {error}"));
    let module = info.module(dtype.kind(info.family)).expect("it was just filled");
    assert_eq!(filled, plainly(module.ptx, name, &constants), "{name} {constants:?} {dtype}");
}

/// Filled by replacing text, the longest names first.
fn plainly(ptx: &str, name: &str, constants: &[i32]) -> String {
    let info = KERNELS.iter().find(|kernel| kernel.name == name).expect("a kernel");
    let mut holes = Vec::new();
    for (constant, &value) in info.constants.iter().zip(constants) {
        holes.push((format!("__spec_{};", constant.name), i64::from(value)));
        if constant.divisor {
            let divisor = u64::from(value.unsigned_abs());
            let shift = (0..32).find(|&shift| 1 << shift >= divisor).unwrap_or(32);
            let magic = (1_u64 << (31 + shift)).div_ceil(divisor);
            holes.push((format!("__spec_{}_magic;", constant.name), magic as i64));
            holes.push((format!("__spec_{}_shift;", constant.name), shift));
        }
    }
    holes.iter().fold(ptx.to_owned(), |text, (hole, value)| text.replace(hole, &format!("{value};")))
}

/// Text as a module of the caller's own.
fn complete(text: &str) {
    let kernel = ReluForward::<f32>::new(128);
    let args = (std::ptr::null_mut(), std::ptr::null_mut(), 1, 0);
    // SAFETY: nothing is to be computed, and the CPU runs no PTX.
    let answer = unsafe { Device::cpu().launch_ptx(&kernel, text, args, &LaunchOptions::new()) };
    let whole = [".version", ".target", ".address_size", ".entry", "relu_forward_entry_point"];
    match answer {
        Err(Error::Module { kernel: "relu_forward", .. }) => {}
        Err(Error::Device(_)) => {
            assert!(!text.contains("__spec_"), "a hole is left: {text}");
            assert!(whole.iter().all(|word| text.contains(word)), "no module: {text}");
        }
        other => panic!("{other:?}"),
    }
}
