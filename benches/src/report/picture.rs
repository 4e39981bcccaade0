//! The picture: memory-bound cases against the copy, and convolutions against the roofline.

use plotters::prelude::*;
use plotters::style::register_font;

use super::{Report, Row};
use crate::error::{Error, Result};

const SIZE: (u32, u32) = (1200, 560);

/// Cases that move no more than this are left out.
const SMALL_BYTES: u64 = 64 << 10;

/// A colour an operation or element type, told apart by people who do not see all colours.
/// Source: M. Okabe and K. Ito, "Color universal design", 2008.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];

const PEER: RGBColor = RGBColor(150, 150, 150);

/// Takes the error by value, as `map_err` hands it on.
#[allow(clippy::needless_pass_by_value)]
fn drawing<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> Error {
    Error::Picture(error.to_string())
}

/// The picture as SVG.
pub(super) fn svg(report: &Report<'_>) -> Result<String> {
    let mut text = String::new();
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| Error::Picture("the font does not load".to_owned()))?;
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(drawing)?;
        let (left, right) = root.split_horizontally(SIZE.0 / 2);
        let rows = report.rows();
        // Problems of a few kilobytes are near neither limit.
        let large = rows.iter().filter(|row| row.case.bytes() > SMALL_BYTES);
        let (computing, moving): (Vec<_>, Vec<_>) = large.partition(|row| row.tflops.is_some());
        bandwidth(&left, report, &moving)?;
        roofline(&right, report, &computing)?;
        root.present().map_err(drawing)?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// A label without digits that say nothing.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn plain(value: &f64) -> String {
    value.to_string()
}

/// A series.
type Points = Vec<(f64, f64)>;

/// A range of a logarithmic axis around some values.
fn around(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().min_by(f64::total_cmp).unwrap_or(1.0);
    let most = values.max_by(f64::total_cmp).unwrap_or(1.0);
    (least / 1.5, most * 1.5)
}

/// Gigabytes a second over bytes moved, with the copy as the limit.
fn bandwidth(area: &Area<'_>, report: &Report<'_>, rows: &[&Row<'_>]) -> Result<()> {
    let copy = report.ceiling.copy_gbps();
    let megabytes = |row: &Row<'_>| row.case.bytes() as f64 / 1e6;
    let x = around(rows.iter().map(|row| megabytes(row)));
    let fastest = rows.iter().map(|row| row.gbps).fold(copy, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}: moving bytes", report.gpu), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((x.0..x.1).log_scale(), 0.0..fastest * 1.12)
        .map_err(drawing)?;
    let axes = &mut chart.configure_mesh();
    axes.x_desc("megabytes read and written").y_desc("GB/s").max_light_lines(0);
    axes.x_label_formatter(&plain).y_label_formatter(&plain).draw().map_err(drawing)?;
    let limit = [(x.0, copy), (x.1, copy)];
    chart
        .draw_series(LineSeries::new(limit, BLACK.stroke_width(2)))
        .map_err(drawing)?
        .label(format!("copy, {copy:.0} GB/s"))
        .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], BLACK.stroke_width(2)));
    let peers: Points = rows
        .iter()
        .filter_map(|row| row.peer.filter(|(name, _)| *name == "torch").map(|(_, us)| (row, us)))
        .map(|(row, us)| (megabytes(row), crate::ceiling::gbps(row.case.bytes(), us)))
        .collect();
    if !peers.is_empty() {
        points(&mut chart, "PyTorch", PEER, peers, false)?;
    }
    for ((op, _), colour) in crate::ops::ALL.iter().filter(|(op, _)| *op != "conv2d").zip(COLOURS) {
        let of_op = rows.iter().filter(|row| row.case.problem.op() == *op);
        let ours: Points = of_op.map(|row| (megabytes(row), row.gbps)).collect();
        if !ours.is_empty() {
            points(&mut chart, op, colour, ours, true)?;
        }
    }
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

/// Tera-operations a second over operations a byte, with the copy and the matrix products as the limits.
fn roofline(area: &Area<'_>, report: &Report<'_>, rows: &[&Row<'_>]) -> Result<()> {
    let copy = report.ceiling.copy_gbps();
    let intensity = |row: &Row<'_>| {
        row.case.operations().map_or(0.0, |operations| operations as f64 / row.case.bytes() as f64)
    };
    let rates = report.peers.rates.iter().filter_map(|rate| Some((rate.rate.as_str(), rate.tflops?)));
    let x = around(rows.iter().map(|row| intensity(row)).chain([1.0, 1000.0]));
    let speeds = rows.iter().filter_map(|row| row.tflops).chain(rates.clone().map(|(_, tflops)| tflops));
    let y = around(speeds.clone().chain([0.1]));
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}: convolutions", report.gpu), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((x.0..x.1).log_scale(), (y.0..y.1).log_scale())
        .map_err(drawing)?;
    let axes = &mut chart.configure_mesh();
    axes.x_desc("operations a byte").y_desc("TFLOP/s").max_light_lines(0);
    axes.x_label_formatter(&plain).y_label_formatter(&plain).draw().map_err(drawing)?;
    let top = rates.clone().map(|(_, tflops)| tflops).fold(f64::NAN, f64::max);
    // The slope of the copy, from the left edge or the bottom to the highest roof or the top.
    let at = |y: f64| y * 1e3 / copy;
    let (start, end) = (x.0.max(at(y.0)), x.1.min(at(if top.is_nan() { y.1 } else { top })));
    if start < end {
        let slope = [start, end].map(|x| (x, x * copy / 1e3));
        chart
            .draw_series(LineSeries::new(slope, BLACK.stroke_width(2)))
            .map_err(drawing)?
            .label(format!("copy, {copy:.0} GB/s"))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], BLACK.stroke_width(2)));
    }
    for (number, (name, tflops)) in rates.enumerate() {
        let shade = BLACK.mix(0.75 - 0.15 * number.min(4) as f64).stroke_width(2);
        let roof = [(at(tflops).clamp(x.0, x.1), tflops), (x.1, tflops)];
        chart
            .draw_series(LineSeries::new(roof, shade))
            .map_err(drawing)?
            .label(format!("{name}, {tflops:.0} TFLOP/s"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], shade));
    }
    let peers: Points = rows
        .iter()
        .filter_map(|row| row.peer.filter(|(name, _)| *name == "torch").map(|(_, us)| (row, us)))
        .filter_map(|(row, us)| Some((intensity(row), crate::ceiling::tflops(row.case.operations()?, us))))
        .collect();
    if !peers.is_empty() {
        points(&mut chart, "PyTorch (cuDNN)", PEER, peers, false)?;
    }
    let mut precisions: Vec<_> = rows.iter().map(|row| row.case.precision()).collect();
    precisions.sort_unstable();
    precisions.dedup();
    for (precision, colour) in precisions.into_iter().zip(COLOURS) {
        let of_type = rows.iter().filter(|row| row.case.precision() == precision);
        let ours = of_type.filter_map(|row| Some((intensity(row), row.tflops?))).collect();
        points(&mut chart, precision, colour, ours, true)?;
    }
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

type Chart<'a, X, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>;

/// A series of points; `filled` ones are ours.
fn points<X, Y>(
    chart: &mut Chart<'_, X, Y>,
    name: &str,
    colour: RGBColor,
    points: Points,
    filled: bool,
) -> Result<()>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let style = if filled { colour.mix(0.8).filled() } else { colour.stroke_width(1) };
    chart
        .draw_series(points.into_iter().map(|point| Circle::new(point, 3, style)))
        .map_err(drawing)?
        .label(name)
        .legend(move |(x, y)| Circle::new((x + 7, y), 4, style));
    Ok(())
}

fn legend<X, Y>(chart: &mut Chart<'_, X, Y>, position: SeriesLabelPosition) -> Result<()>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let labels = &mut chart.configure_series_labels();
    let labels = labels.position(position).background_style(WHITE.mix(0.85)).border_style(PEER);
    labels.label_font(("sans-serif", 12)).draw().map_err(drawing)
}
