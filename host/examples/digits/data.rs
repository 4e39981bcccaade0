//! The digits: reading, splitting, and random shifts and rotations of the training images.

use std::io::Read;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

/// Pixels along a side.
pub(crate) const SIDE: usize = 8;
/// Pixels of an image.
pub(crate) const PIXELS: usize = SIDE * SIDE;
/// Kinds of digits.
pub(crate) const CLASSES: usize = 10;
/// The last lines of the file, which are never trained on.
pub(crate) const TEST: usize = 360;

const BRIGHTEST: f32 = 16.0;

/// What a data file can have wrong.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub(crate) enum DataError {
    #[error("cannot read {path}: {error}; without --data, the digits inside the program are used")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{name} does not unpack: {error}; is the file whole?")]
    Unpack { name: String, error: std::io::Error },
    #[error(
        "line {line} of {name} has {have} numbers instead of 65 (64 pixels and the label); is the file whole?"
    )]
    Fields { name: String, line: usize, have: usize },
    #[error("line {line} of {name}: {text:?} is no {what}")]
    Number { name: String, line: usize, text: String, what: &'static str },
    #[error("{name} has {have} lines, but the test set alone has {TEST} and a batch {batch}")]
    Few { name: String, have: usize, batch: usize },
}

/// Images with their labels; pixels lie between 0 and 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digits {
    /// [`PIXELS`] numbers an image.
    pub(crate) pixels: Vec<f32>,
    /// 0 to 9.
    pub(crate) labels: Vec<i32>,
}

impl Digits {
    /// How many images.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The digits of a file, as CSV or gzip-compressed CSV; without one, those inside the program.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self, DataError> {
        let Some(path) = path else {
            return Self::parse("the embedded data", include_bytes!("../../data/digits.csv.gz"));
        };
        let read = |error| DataError::Read { path: path.to_owned(), error };
        Self::parse(&path.display().to_string(), &std::fs::read(path).map_err(read)?)
    }

    fn parse(name: &str, bytes: &[u8]) -> Result<Self, DataError> {
        let unpack = |error| DataError::Unpack { name: name.to_owned(), error };
        let mut text = String::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).map_err(unpack)?;
        } else {
            (&mut &*bytes).read_to_string(&mut text).map_err(unpack)?;
        }
        let mut digits = Self::default();
        for (line, numbers) in text.lines().enumerate() {
            digits.push(name, line + 1, numbers)?;
        }
        Ok(digits)
    }

    fn push(&mut self, name: &str, line: usize, numbers: &str) -> Result<(), DataError> {
        let have = numbers.split(',').count();
        if have != PIXELS + 1 {
            return Err(DataError::Fields { name: name.to_owned(), line, have });
        }
        for (at, text) in numbers.split(',').map(str::trim).enumerate() {
            let (largest, what) =
                if at < PIXELS { (16, "pixel from 0 to 16") } else { (9, "label from 0 to 9") };
            let number = text.parse::<u8>().ok().filter(|&number| number <= largest);
            let wrong = || DataError::Number { name: name.to_owned(), line, text: text.to_owned(), what };
            let number = number.ok_or_else(wrong)?;
            if at < PIXELS {
                self.pixels.push(f32::from(number) / BRIGHTEST);
            } else {
                self.labels.push(number.into());
            }
        }
        Ok(())
    }

    /// The training and the test set.
    ///
    /// # Errors
    /// Too few lines for the test set and one batch.
    pub(crate) fn split(mut self, name: Option<&Path>, batch: usize) -> Result<(Self, Self), DataError> {
        let have = self.len();
        if have < TEST + batch {
            let name = name.map_or("the embedded data".to_owned(), |path| path.display().to_string());
            return Err(DataError::Few { name, have, batch });
        }
        let test = Self {
            pixels: self.pixels.split_off((have - TEST) * PIXELS),
            labels: self.labels.split_off(have - TEST),
        };
        Ok((self, test))
    }

    /// An epoch's images in random order, each shifted, turned and stretched a little; as many as fill batches.
    pub(crate) fn epoch(&self, seed: u64, epoch: usize, batch: usize) -> Self {
        let stream = seed.wrapping_mul(0x9e37_79b9).wrapping_add(epoch as u64) << 24;
        let mut order: Vec<usize> = (0..self.len()).collect();
        fastrand::Rng::with_seed(stream).shuffle(&mut order);
        order.truncate(self.len() / batch * batch);
        let labels = order.iter().map(|&image| self.labels[image]).collect();
        let mut pixels = vec![0.0; order.len() * PIXELS];
        pixels.par_chunks_exact_mut(PIXELS).zip(&order).enumerate().for_each(|(number, (to, &image))| {
            let mut random = fastrand::Rng::with_seed(stream + 1 + number as u64);
            moved(&self.pixels[image * PIXELS..][..PIXELS], to, &mut random);
        });
        Self { pixels, labels }
    }
}

/// An image turned by up to 12 degrees, stretched by up to 10 percent and shifted by up to 0.9 pixels.
fn moved(from: &[f32], to: &mut [f32], random: &mut fastrand::Rng) {
    let mut between = |limit: f32| (random.f32() * 2.0 - 1.0) * limit;
    let (sin, cos) = between(12.0_f32.to_radians()).sin_cos();
    let (stretch_x, stretch_y) = (1.0 + between(0.1), 1.0 + between(0.1));
    let (shift_x, shift_y) = (between(0.9), between(0.9));
    let middle = (SIDE as f32 - 1.0) / 2.0;
    for y in 0..SIDE {
        for x in 0..SIDE {
            let (dx, dy) = (x as f32 - middle, y as f32 - middle);
            let source_x = (cos * dx + sin * dy) * stretch_x + middle + shift_x;
            let source_y = (cos * dy - sin * dx) * stretch_y + middle + shift_y;
            to[y * SIDE + x] = between_pixels(from, source_x, source_y);
        }
    }
}

/// The image at a point between its pixels; outside it is dark.
fn between_pixels(image: &[f32], x: f32, y: f32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let pixel = |x: f32, y: f32| {
        let inside = (0.0..SIDE as f32).contains(&x) && (0.0..SIDE as f32).contains(&y);
        if inside { image[y as usize * SIDE + x as usize] } else { 0.0 }
    };
    let (right_part, low_part) = (x - left, y - top);
    let upper = pixel(left, top) * (1.0 - right_part) + pixel(left + 1.0, top) * right_part;
    let lower = pixel(left, top + 1.0) * (1.0 - right_part) + pixel(left + 1.0, top + 1.0) * right_part;
    upper * (1.0 - low_part) + lower * low_part
}
