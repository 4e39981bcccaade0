//! The picture: loss and accuracy, who was taken for whom, and some digits.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::register_font;

use crate::data::{CLASSES, Digits, PIXELS, SIDE};
use crate::train::Outcome;

const FONT: &str = "sans-serif";
const SHOWN: usize = 40;

type Area<'a> = DrawingArea<BitMapBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// Draws the picture to a PNG file.
///
/// # Errors
/// A folder or file that cannot be written.
pub(crate) fn draw(path: &Path, outcome: &Outcome, test: &Digits) -> Drawn {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "the font does not load")?;
    let root = BitMapBackend::new(path, (1280, 900)).into_drawing_area();
    root.fill(&WHITE)?;
    let (upper, lower) = root.split_vertically(440);
    let (left, right) = upper.split_horizontally(640);
    curve(&left, "training loss", &smoothed(&outcome.losses), "step", BLUE)?;
    let percent: Vec<f64> = outcome.accuracies.iter().map(|share| 100.0 * share).collect();
    curve(&right, "test accuracy, %", &percent, "epoch", RED)?;
    let (left, right) = lower.split_horizontally(460);
    confusion(&left, outcome, test)?;
    digits(&right, outcome, test)?;
    root.present()?;
    Ok(())
}

/// Each value as the mean of itself and a few before it.
fn smoothed(values: &[f64]) -> Vec<f64> {
    let window = (values.len() / 100).max(1);
    (0..values.len())
        .map(|at| {
            let part = &values[at.saturating_sub(window - 1)..=at];
            part.iter().sum::<f64>() / part.len() as f64
        })
        .collect()
}

fn curve(area: &Area<'_>, title: &str, values: &[f64], unit: &str, color: RGBColor) -> Drawn {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    let (low, high) =
        finite.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let room = ((high - low) * 0.05).max(1e-3);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(54)
        .build_cartesian_2d(0.0..values.len().max(1) as f64, low - room..high + room)?;
    chart.configure_mesh().x_desc(unit).label_style((FONT, 14)).light_line_style(WHITE).draw()?;
    let points = values.iter().enumerate().map(|(at, &value)| (at as f64 + 1.0, value));
    chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
    Ok(())
}

/// Rows are digits, columns what they were taken for.
fn confusion(area: &Area<'_>, outcome: &Outcome, test: &Digits) -> Drawn {
    let mut counts = [[0_usize; CLASSES]; CLASSES];
    for (&told, &label) in outcome.told.iter().zip(&test.labels) {
        counts[label as usize][told] += 1;
    }
    let most = counts.iter().flatten().max().copied().unwrap_or(1).max(1) as f64;
    let (cell, left, top) = (38, 40, 62);
    let style = (FONT, 15).into_font().color(&BLACK);
    area.draw(&Text::new("digit (row) told as (column)", (left, 12), (FONT, 20).into_font()))?;
    for (row, counts) in counts.iter().enumerate() {
        let y = top + cell * row as i32;
        area.draw(&Text::new(row.to_string(), (left - 20, y + 11), style.clone()))?;
        area.draw(&Text::new(row.to_string(), (left + cell * row as i32 + 14, top - 20), style.clone()))?;
        for (column, &count) in counts.iter().enumerate() {
            let x = left + cell * column as i32;
            let shade = 255 - (200.0 * (count as f64 / most).sqrt()) as u8;
            let fill = if row == column { RGBColor(shade, shade, 255) } else { RGBColor(255, shade, shade) };
            area.draw(&Rectangle::new([(x, y), (x + cell - 2, y + cell - 2)], fill.filled()))?;
            if count > 0 {
                area.draw(&Text::new(count.to_string(), (x + 8, y + 11), style.clone()))?;
            }
        }
    }
    Ok(())
}

/// Those told wrongly first.
fn digits(area: &Area<'_>, outcome: &Outcome, test: &Digits) -> Drawn {
    let wrong = |&image: &usize| outcome.told[image] != test.labels[image] as usize;
    let (wrong, right): (Vec<_>, Vec<_>) = (0..test.len()).partition(wrong);
    let title = format!("what was told: {} wrong in red", wrong.len());
    area.draw(&Text::new(title, (20, 12), (FONT, 20).into_font()))?;
    let (pixel, across, down) = (7, 80, 98);
    for (place, &image) in wrong.iter().chain(&right).take(SHOWN).enumerate() {
        let (x, y) = (20 + across * (place % 10) as i32, 50 + down * (place / 10) as i32);
        let pixels = &test.pixels[image * PIXELS..][..PIXELS];
        for (at, &brightness) in pixels.iter().enumerate() {
            let (px, py) = (x + pixel * (at % SIDE) as i32, y + pixel * (at / SIDE) as i32);
            let shade = 255 - (255.0 * brightness) as u8;
            let fill = RGBColor(shade, shade, shade).filled();
            area.draw(&Rectangle::new([(px, py), (px + pixel - 1, py + pixel - 1)], fill))?;
        }
        let color = if place < wrong.len() { &RED } else { &BLACK };
        let style = (FONT, 17).into_font().color(color);
        area.draw(&Text::new(outcome.told[image].to_string(), (x + 22, y + 62), style))?;
    }
    Ok(())
}
