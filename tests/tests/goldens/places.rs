//! Where a case runs.

use std::sync::LazyLock;

use cotangent::verify::{Call, Case, Executor, HostBuffer, kernel};
use cotangent::{Algorithm, DType, Device, LaunchOptions};
use cotangent_tests::executor::{Place, places};

static PLACES: LazyLock<Vec<Place>> = LazyLock::new(places);

/// What computed a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Path {
    /// The CPU references.
    Cpu,
    /// A GPU, or the portable kernels on the machine.
    Device,
    /// The kernels for large problems on the machine.
    Tuned,
    /// Those for small ones.
    Small,
}

/// Whether device code runs on a GPU.
pub(crate) fn on_gpu() -> bool {
    PLACES.iter().any(|place| matches!(place, Place::Gpu(_)))
}

/// Carries a call out on the CPU and as device code, and shows each time what its buffers then hold. A planned place
/// takes part if `adds` says so.
pub(crate) fn everywhere(
    what: &str,
    call: &Call<'_>,
    buffers: &[HostBuffer],
    adds: impl Fn(&Place) -> bool,
    mut see: impl FnMut(Path, &str, &[HostBuffer]),
) {
    let mut run = |path, executor: &dyn Executor| {
        let mut after = buffers.to_vec();
        executor
            .run(call, &mut after)
            .unwrap_or_else(|failure| panic!("{what}, on {}: {failure}", executor.name()));
        see(path, &executor.name(), &after);
    };
    run(Path::Cpu, &Device::cpu());
    for place in PLACES.iter() {
        match place {
            Place::Planned { .. } if !adds(place) => {}
            Place::Planned { planned: (_, Algorithm::Large), .. } => run(Path::Tuned, place),
            Place::Planned { .. } => run(Path::Small, place),
            _ => run(Path::Device, place),
        }
    }
}

/// Carries a verification's case out, with these buffers.
pub(crate) fn case_everywhere(
    what: &str,
    case: &Case,
    dtype: DType,
    scalar: &[u8],
    buffers: &[HostBuffer],
    see: impl FnMut(Path, &str, &[HostBuffer]),
) {
    let kernel = kernel(case.kernel, dtype, &case.constants).expect("a good case");
    let mut options = LaunchOptions::new();
    options.rows = case.rows;
    let call = Call { kernel: &*kernel, extents: &case.extents, scalar, options };
    everywhere(what, &call, buffers, |place| place.adds(case, dtype), see);
}
