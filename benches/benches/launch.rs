//! What loading a kernel and launching it cost the host.

use std::process::ExitCode;

use cotangent::{ChannelCatForward, Conv2dBackward, Kernel, LaunchOptions};
use cotangent_benches::{harness, loads};
use criterion::Criterion;

fn main() -> ExitCode {
    if loads::is_child() {
        return ExitCode::SUCCESS;
    }
    harness::run(|criterion, place| {
        host(criterion);
        harness::on_gpu(place, "launch", |gpu| {
            // Timed as a whole: the first load of a process happens once.
            if harness::is_test() {
                return Ok(());
            }
            for cost in loads::measure(gpu)? {
                let bound = cost.bound_us.map_or_else(String::new, |bound| {
                    format!(" ({} {bound} µs)", if cost.holds() { "below" } else { "NOT below" })
                });
                println!("{}: {:.2} µs{bound}", cost.what, cost.us);
            }
            Ok(())
        })
    })
}

/// The parts that need no device.
fn host(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("host");
    group.bench_function("build a kernel's struct", |bencher| {
        bencher.iter(|| Conv2dBackward::<f32>::new(3, 3, 1, 1, 1, 1, 1, 128));
    });
    let kernel = Conv2dBackward::<f32>::new(3, 3, 1, 1, 1, 1, 1, 128);
    let [dy, x, w, dx, dw] = [1_u64, 2, 3, 4, 5].map(|number| (number << 40) as *mut f32);
    let args = (dy, x, w, dx, dw, 16, 64, 64, 56, 56, 56, 56);
    let options = LaunchOptions::new();
    group.bench_function("check a launch", |bencher| {
        bencher.iter(|| kernel.prepare(&args, &options).expect("a launch"));
    });
    let cat = ChannelCatForward::<f32>::recommended();
    let launch = cat.prepare(&(x, dx, 64, 128, 0), &options.rows(64)).expect("a launch");
    group.bench_function("specialise a module", |bencher| {
        bencher.iter(|| launch.specialised_ptx().expect("a module"));
    });
    group.finish();
}
