//! What came out: a record, a table, a picture.

mod markdown;
mod picture;
mod table;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::case::{Case, Kind};
use crate::ceiling::{Ceiling, gbps, tflops};
use crate::error::{Result, file};
use crate::loads::Cost;
use crate::measure::Measured;
use crate::peers::Peers;

pub use table::{cases_table, summary};

/// The record's columns.
pub const COLUMNS: &str = "gpu,op,direction,shape,dtype,math,ours_us,gbps,pct_copy,tflops,peer,peer_us,ratio";

/// What may be above an empty kernel's time where the launch itself takes most of it, in microseconds.
pub const LATENCY_SLACK_US: f64 = 1.5;

/// Everything that one run measured.
pub struct Report<'a> {
    /// The device's name.
    pub gpu: String,
    /// What drives it.
    pub driver: String,
    /// The day, as `2026-01-31`.
    pub date: String,
    /// What the device can do at most.
    pub ceiling: Ceiling,
    /// What loading and launching cost the host.
    pub costs: Vec<Cost>,
    /// The cases.
    pub measured: Vec<Measured<'a>>,
    /// Other libraries.
    pub peers: Peers,
}

/// One row of the record: a case, and one peer at most.
pub struct Row<'a> {
    /// The case.
    pub case: &'a Case,
    /// Microseconds of one launch of ours.
    pub us: f64,
    /// Gigabytes a second.
    pub gbps: f64,
    /// Percentage of the copy's speed.
    pub pct_copy: f64,
    /// Tera-operations a second, where operations count.
    pub tflops: Option<f64>,
    /// A peer, with its microseconds.
    pub peer: Option<(&'a str, f64)>,
}

impl Row<'_> {
    /// The peer's time over ours.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.map(|(_, us)| us / self.us)
    }
}

impl Report<'_> {
    /// The rows of the record: a case without a peer has one, else it has one a peer.
    pub fn rows(&self) -> Vec<Row<'_>> {
        self.measured.iter().enumerate().flat_map(|(id, measured)| self.rows_of(id, measured)).collect()
    }

    fn rows_of<'a>(&'a self, id: usize, measured: &'a Measured<'a>) -> Vec<Row<'a>> {
        let (case, Ok(us)) = (measured.case, &measured.us) else { return Vec::new() };
        let gbps = gbps(case.bytes(), *us);
        let row = |peer| Row {
            case,
            us: *us,
            gbps,
            pct_copy: 100.0 * gbps / self.ceiling.copy_gbps(),
            tflops: case.operations().map(|operations| tflops(operations, *us)),
            peer,
        };
        let times = self.peers.times.get(&id).map_or(&[][..], Vec::as_slice);
        let peers: Vec<_> = times.iter().filter_map(|time| Some((time.peer.as_str(), time.us?))).collect();
        if peers.is_empty() {
            vec![row(None)]
        } else {
            peers.into_iter().map(|peer| row(Some(peer))).collect()
        }
    }

    /// The record as comma-separated values. A cell is empty where a column does not apply.
    pub fn csv(&self) -> String {
        let mut text = format!("{COLUMNS}\n");
        for row in self.rows() {
            let Row { case, us, gbps, pct_copy, .. } = row;
            let (peer, peer_us) = row.peer.map_or_else(Default::default, |(peer, us)| (peer, number(us)));
            let cells = [
                self.gpu.clone(),
                case.problem.op().to_owned(),
                case.direction.name().to_owned(),
                case.shape(),
                case.dtype.to_string(),
                case.math().map_or("", |math| math.name()).to_owned(),
                number(us),
                number(gbps),
                format!("{pct_copy:.1}"),
                row.tflops.map(number).unwrap_or_default(),
                peer.to_owned(),
                peer_us,
                row.ratio().map(|ratio| format!("{ratio:.3}")).unwrap_or_default(),
            ];
            writeln!(text, "{}", cells.map(|cell| quoted(&cell)).join(",")).expect("writing to a String");
        }
        text
    }

    /// Cases that miss what is expected of them, in words; failures among them.
    pub fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        for measured in &self.measured {
            let case = measured.case;
            match &measured.us {
                Err(error) => misses.push(format!("{case}: {error}")),
                Ok(us) => misses.extend(self.miss(case, *us)),
            }
        }
        misses
    }

    fn miss(&self, case: &Case, us: f64) -> Option<String> {
        if let Some(least) = case.least_percent() {
            let percent = 100.0 * gbps(case.bytes(), us) / self.ceiling.copy_gbps();
            return (percent < least)
                .then(|| format!("{case}: {percent:.1} % of a copy's speed, not {least:.0} %"));
        }
        let most = self.ceiling.empty_us? + LATENCY_SLACK_US;
        (case.kind == Kind::Latency && us > most).then(|| format!("{case}: {us:.2} µs, not {most:.2} µs"))
    }

    /// Writes record, table and picture to `<folder>/<gpu>/<date>.*`, and returns the paths.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let folder = folder.join(slug(&self.gpu));
        file(&folder, fs::create_dir_all(&folder))?;
        let path = |extension: &str| folder.join(format!("{}.{extension}", self.date));
        let written = [path("csv"), path("md"), path("svg")];
        let [csv, md, svg] = &written;
        file(csv, fs::write(csv, self.csv()))?;
        file(md, fs::write(md, markdown::text(self)))?;
        file(svg, fs::write(svg, picture::svg(self)?))?;
        Ok(written.into())
    }
}

/// A number with four digits that count.
fn number(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}

/// A cell, in quotes where it must be.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// A name as a folder: `NVIDIA H200` is `nvidia-h200`.
fn slug(name: &str) -> String {
    let words: Vec<_> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

/// The geometric mean; none of nothing.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logarithms / values.len() as f64).exp())
}

#[cfg(test)]
mod tests;
