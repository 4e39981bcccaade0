//! The example's network: the same bits twice, the same curve on CPU and GPU, and clear errors for bad data.

#![allow(dead_code, reason = "the example uses more of its files than this test")]

#[path = "../../host/examples/digits/data.rs"]
mod data;
#[path = "../../host/examples/digits/network.rs"]
mod network;
#[path = "../../host/examples/digits/timing.rs"]
mod timing;
#[path = "../../host/examples/digits/train.rs"]
mod train;

use std::io::Write;

use cotangent::{Device, Float};
use data::{DataError, Digits};
use half::{bf16, f16};
use indicatif::ProgressBar;
use train::{BATCH, Outcome, Plan, train as run};

fn trained<D: Float>(device: &Device, epochs: usize, images: usize, graph: bool) -> Outcome {
    let (mut training, mut test) = Digits::load(None).unwrap().split(None, BATCH).unwrap();
    for (digits, len) in [(&mut training, images), (&mut test, 40)] {
        digits.labels.truncate(len);
        digits.pixels.truncate(len * data::PIXELS);
    }
    let plan = Plan { epochs, seed: 3, graph, loss_scale: 16.0 };
    run::<D>(device, &plan, &training, &test, &ProgressBar::hidden()).unwrap()
}

#[test]
fn digits_two_runs_give_the_same_bits() {
    for device in std::iter::once(Device::cpu()).chain(Device::cuda(0)) {
        let one = trained::<f32>(&device, 2, 2 * BATCH, false);
        let two = trained::<f32>(&device, 2, 2 * BATCH, false);
        assert_eq!(one.losses, two.losses, "{device}");
        assert_eq!(one.fingerprint, two.fingerprint, "{device}");
        let replayed = trained::<f32>(&device, 2, 2 * BATCH, true);
        assert_eq!(one.fingerprint, replayed.fingerprint, "{device}, replayed");
    }
}

#[test]
fn digits_loss_falls_in_every_type() {
    fn falls<D: Float>(device: &Device) {
        let outcome = trained::<D>(device, 6, 2 * BATCH, device.is_gpu());
        let (first, last) = (outcome.losses[0], outcome.losses[outcome.losses.len() - 1]);
        assert!(first > 2.0 && last < first - 0.2, "{} on {device}: {:?}", D::DTYPE, outcome.losses);
    }
    for device in std::iter::once(Device::cpu()).chain(Device::cuda(0)) {
        falls::<f32>(&device);
        falls::<f16>(&device);
        falls::<bf16>(&device);
    }
}

#[test]
fn digits_curves_of_cpu_and_gpu_agree() {
    let Ok(gpu) = Device::cuda(0) else {
        println!("no GPU: the two curves are not compared");
        return;
    };
    let steps = 50;
    let (cpu, gpu) =
        (trained::<f32>(&Device::cpu(), 3, 18 * BATCH, false), trained::<f32>(&gpu, 3, 18 * BATCH, true));
    for (step, (cpu, gpu)) in cpu.losses.iter().zip(&gpu.losses).take(steps).enumerate() {
        assert!((cpu - gpu).abs() < 1e-3, "step {step}: {cpu} and {gpu}");
    }
}

#[test]
fn digits_data_is_what_its_source_says() {
    let digits = Digits::load(None).unwrap();
    assert_eq!(digits.len(), 1797);
    assert!((0..10).all(|digit| digits.labels.iter().filter(|&&label| label == digit).count() > 170));
    assert!(digits.pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
    assert_eq!(digits.pixels[2..5], [5.0 / 16.0, 13.0 / 16.0, 9.0 / 16.0]);
}

#[test]
fn digits_epochs_follow_from_the_seed_alone() {
    let digits = Digits::load(None).unwrap();
    let (one, same, other) = (digits.epoch(1, 2, 64), digits.epoch(1, 2, 64), digits.epoch(1, 3, 64));
    assert!(one.pixels == same.pixels && one.labels == same.labels && one.pixels != other.pixels);
    assert_eq!(one.len(), 1797 / 64 * 64);
}

#[test]
fn digits_bad_data_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
        path
    };
    let missing = Digits::load(Some(&folder.path().join("none"))).unwrap_err();
    assert!(matches!(missing, DataError::Read { .. }) && missing.to_string().contains("--data"), "{missing}");
    let whole = include_bytes!("../../host/data/digits.csv.gz");
    let cut = Digits::load(Some(&file("cut.gz", &whole[..20_000]))).unwrap_err();
    assert!(matches!(cut, DataError::Unpack { .. }), "{cut}");
    let line = |label: &str| ["1,"; 64].concat() + label + "\n";
    let good = line("3");
    let error = |name: &str, text: String| Digits::load(Some(&file(name, text.as_bytes()))).unwrap_err();
    let label = error("label", good.clone() + &line("10"));
    assert!(label.to_string().contains("line 2") && label.to_string().contains("\"10\""), "{label}");
    let pixel = error("pixel", line("3").replacen('1', "17", 1));
    assert!(pixel.to_string().contains("pixel from 0 to 16"), "{pixel}");
    let short = error("short", good.clone() + "1,2,3\n");
    assert!(matches!(short, DataError::Fields { line: 2, have: 3, .. }), "{short}");
    let path = file("few", good.repeat(100).as_bytes());
    let few = Digits::load(Some(&path)).unwrap().split(Some(&path), BATCH).unwrap_err();
    assert!(matches!(few, DataError::Few { have: 100, .. }), "{few}");
}
