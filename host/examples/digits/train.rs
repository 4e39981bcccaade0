//! Training and testing.

use std::time::{Duration, Instant};

use cotangent::{Device, Float, Num, Result, Stream, Tensor};
use indicatif::ProgressBar;

use crate::data::{CLASSES, Digits, PIXELS};
use crate::network::{Batch, Network, images};
use crate::timing::{Row, Timing};

/// Images of a batch.
pub(crate) const BATCH: usize = 64;

const MOMENTUM: f64 = 0.9;
const WEIGHT_DECAY: f64 = 5e-4;
const PEAK_RATE: f64 = 0.05;
const WARM_UP: f64 = 0.1;

/// What a training is told.
pub(crate) struct Plan {
    /// Passes over the training set.
    pub(crate) epochs: usize,
    /// What all randomness follows from.
    pub(crate) seed: u64,
    /// Whether an epoch's steps are recorded once and replayed.
    pub(crate) graph: bool,
    /// By how much gradients are enlarged on their way.
    pub(crate) loss_scale: f64,
}

/// What a training gives.
pub(crate) struct Outcome {
    /// The mean loss of each step.
    pub(crate) losses: Vec<f64>,
    /// The share of test digits told rightly after each epoch.
    pub(crate) accuracies: Vec<f64>,
    /// The digit told for each test image.
    pub(crate) told: Vec<usize>,
    /// A number that all weights' bits go into.
    pub(crate) fingerprint: u64,
    /// Weights.
    pub(crate) weights: usize,
    /// Time of the steps alone.
    pub(crate) stepping: Duration,
    /// Time of each operation in one more epoch.
    pub(crate) rows: Vec<Row>,
}

/// The learning rate: up in a line, then down along a cosine.
fn rate(step: usize, steps: usize) -> f64 {
    let done = step as f64 / steps as f64;
    if done < WARM_UP {
        return PEAK_RATE * (done + 1.0 / steps as f64) / WARM_UP;
    }
    let rest = (done - WARM_UP) / (1.0 - WARM_UP);
    PEAK_RATE * 0.5 * (1.0 + (rest * std::f64::consts::PI).cos())
}

/// An epoch's images, labels, learning rates and losses on the device, at places that stay.
struct Epoch<D: Float> {
    pixels: Tensor<D>,
    labels: Tensor<i32>,
    numbers: Tensor<D::Master>,
    losses: Tensor<D::Master>,
}

impl<D: Float> Epoch<D> {
    fn new(stream: &Stream, steps: usize) -> Result<Self> {
        let none = vec![0.0; steps * BATCH * PIXELS];
        Ok(Self {
            pixels: images(stream, &none)?,
            labels: Tensor::zeros(stream, &[steps * BATCH])?,
            numbers: Tensor::zeros(stream, &[steps * 4])?,
            losses: Tensor::zeros(stream, &[steps])?,
        })
    }

    fn fill(&mut self, stream: &Stream, digits: &Digits, numbers: &[f64]) -> Result<()> {
        let pixels: Vec<D> = digits.pixels.iter().map(|&pixel| D::from_f64(pixel.into())).collect();
        let numbers: Vec<D::Master> = numbers.iter().map(|&number| D::Master::from_f64(number)).collect();
        self.pixels.copy_from_slice(stream, &pixels)?;
        self.labels.copy_from_slice(stream, &digits.labels)?;
        self.numbers.copy_from_slice(stream, &numbers)
    }

    /// All steps of the epoch.
    fn run(
        &mut self,
        stream: &Stream,
        timing: &Timing,
        network: &mut Network<D>,
        batch: &mut Batch<D>,
        loss_scale: f64,
    ) -> Result<()> {
        for step in 0..self.losses.len() {
            let images = self.pixels.narrow(0, step * BATCH, BATCH)?;
            let labels = self.labels.narrow(0, step * BATCH, BATCH)?;
            let numbers = self.numbers.narrow(0, step * 4, 4)?;
            let loss = self.losses.narrow_mut(0, step, 1)?;
            network.step(stream, timing, images, labels, numbers, loss_scale, loss, batch)?;
        }
        Ok(())
    }
}

/// Trains a network on the device, and tests it after each epoch.
///
/// # Errors
/// What the operations check, and what the driver answers.
pub(crate) fn train<D: Float>(
    device: &Device,
    plan: &Plan,
    training: &Digits,
    test: &Digits,
    bar: &ProgressBar,
) -> Result<Outcome> {
    let stream = device.stream()?;
    let steps = training.len() / BATCH;
    let mut network = Network::<D>::new(&stream, plan.seed)?;
    let mut batch = Batch::new(&stream, BATCH)?;
    let mut epoch = Epoch::new(&stream, steps)?;
    let test_images = images::<D>(&stream, &test.pixels)?;
    let mut test_batch = Batch::new(&stream, test.len())?;
    let off = Timing::off();

    let mut graph = None;
    if plan.graph {
        stream.prepare(|stream| epoch.run(stream, &off, &mut network, &mut batch, plan.loss_scale))?;
        graph = Some(
            stream.capture(|stream| epoch.run(stream, &off, &mut network, &mut batch, plan.loss_scale))?,
        );
    }

    let (mut losses, mut accuracies, mut told) = (Vec::new(), Vec::new(), Vec::new());
    let mut stepping = Duration::ZERO;
    for number in 0..plan.epochs {
        let numbers: Vec<f64> = (number * steps..(number + 1) * steps)
            .flat_map(|step| [rate(step, plan.epochs * steps), MOMENTUM, WEIGHT_DECAY, 1.0 / plan.loss_scale])
            .collect();
        epoch.fill(&stream, &training.epoch(plan.seed, number, BATCH), &numbers)?;
        let start = Instant::now();
        match &mut graph {
            Some(graph) => graph.launch(&stream)?,
            None => epoch.run(&stream, &off, &mut network, &mut batch, plan.loss_scale)?,
        }
        stream.synchronize()?;
        stepping += start.elapsed();
        losses.extend(epoch.losses.to_vec(&stream)?.iter().map(|loss| loss.to_f64()));

        network.forward(&stream, &off, test_images.view(), &mut test_batch)?;
        told = largest(&test_batch.logits().to_vec(&stream)?);
        let right = told.iter().zip(&test.labels).filter(|&(&told, &label)| told == label as usize).count();
        accuracies.push(right as f64 / test.len() as f64);
        let mean = losses[number * steps..].iter().sum::<f64>() / steps as f64;
        bar.set_message(format!("loss {mean:.4}  test accuracy {:.2} %", 100.0 * accuracies[number]));
        bar.inc(1);
    }

    let weights = network.weights(&stream)?;
    // The one epoch more comes last: it changes the weights.
    let timing = Timing::on(&stream);
    epoch.run(&stream, &timing, &mut network, &mut batch, plan.loss_scale)?;
    let (fingerprint, rows) = (fingerprint(&weights), timing.rows()?);
    Ok(Outcome { losses, accuracies, told, fingerprint, weights: weights.len(), stepping, rows })
}

/// The digit with the largest logit, for each image.
fn largest<M: Num>(logits: &[M]) -> Vec<usize> {
    let digit = |row: &[M]| {
        (0..CLASSES).fold(0, |best, k| if row[k].to_f64() > row[best].to_f64() { k } else { best })
    };
    logits.chunks_exact(CLASSES).map(digit).collect()
}

/// FNV-1a over the weights' bits.
fn fingerprint(weights: &[f64]) -> u64 {
    let bytes = weights.iter().flat_map(|weight| weight.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
