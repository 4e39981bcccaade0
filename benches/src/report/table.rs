//! Tables for the terminal.

use comfy_table::{Table, presets};

use super::{Report, geometric_mean};
use crate::ceiling::gbps;
use crate::measure::Measured;

fn table<const N: usize>(columns: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(columns);
    table
}

/// A table of cases: operation, shape, element type, time, speed, and percentage of a copy if its speed is known.
pub fn cases_table(measured: &[Measured<'_>], copy_gbps: Option<f64>) -> String {
    let mut table = table(["op", "direction", "shape", "dtype", "µs", "GB/s", "% of copy"]);
    for Measured { case, us } in measured {
        let cells = match us {
            Ok(us) => {
                let speed = gbps(case.bytes(), *us);
                let percent =
                    copy_gbps.map_or_else(String::new, |copy| format!("{:.1}", 100.0 * speed / copy));
                [super::number(*us), format!("{speed:.0}"), percent]
            }
            Err(error) => [error.to_string(), String::new(), String::new()],
        };
        let [us, speed, percent] = cells;
        let (op, direction) = (case.problem.op(), case.direction.name());
        table.add_row([op, direction, &case.shape(), case.precision(), &us, &speed, &percent]);
    }
    table.to_string()
}

/// A short table: each operation, direction and element type with its worst percentage of a copy and its ratios
/// to the peers.
pub fn summary(report: &Report<'_>) -> String {
    let mut table =
        table(["op", "direction", "dtype", "cases", "lowest % of copy", "peer", "mean ratio", "lowest"]);
    let rows = report.rows();
    let mut groups: Vec<(&str, &str, &str, &str)> = Vec::new();
    let key = |row: &super::Row<'_>| {
        let case = row.case;
        (case.problem.op(), case.direction.name(), case.precision())
    };
    for row in &rows {
        let (op, direction, dtype) = key(row);
        let group = (op, direction, dtype, row.peer.map_or("", |(peer, _)| peer));
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for (op, direction, dtype, peer) in groups {
        let of_group = |row: &&super::Row<'_>| {
            key(row) == (op, direction, dtype) && row.peer.map_or("", |(peer, _)| peer) == peer
        };
        let rows: Vec<_> = rows.iter().filter(of_group).collect();
        let bound = rows.iter().filter(|row| row.case.least_percent().is_some());
        let lowest = bound.map(|row| row.pct_copy).min_by(f64::total_cmp);
        let ratios: Vec<_> = rows.iter().filter_map(|row| row.ratio()).collect();
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        table.add_row([
            op,
            direction,
            dtype,
            &rows.len().to_string(),
            &shown(lowest, 1),
            peer,
            &shown(geometric_mean(&ratios), 2),
            &shown(ratios.iter().copied().min_by(f64::total_cmp), 2),
        ]);
    }
    table.to_string()
}
