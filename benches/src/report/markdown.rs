//! The record for readers.

use std::fmt::Write;

use super::{Report, Row, number};
use crate::case::Case;

/// The whole text.
pub(super) fn text(report: &Report<'_>) -> String {
    let mut text = String::new();
    write(&mut text, report).expect("writing to a String");
    text
}

fn write(text: &mut String, report: &Report<'_>) -> std::fmt::Result {
    let Report { gpu, driver, date, ceiling, .. } = report;
    writeln!(text, "# {gpu}, {date}\n")?;
    writeln!(text, "{driver}; cotangent {}.", env!("CARGO_PKG_VERSION"))?;
    if !report.peers.versions.is_empty() {
        writeln!(text, "Peers: {}.", report.peers.versions.join("; "))?;
    }
    writeln!(text, "\n| measured in the same run | |\n|---|---|")?;
    let gib = ceiling.copy_bytes as f64 / 2.0 / f64::from(1 << 30);
    writeln!(
        text,
        "| device-to-device copy of {gib} GiB, read and written | {:.0} GB/s |",
        ceiling.copy_gbps()
    )?;
    writeln!(text, "| the same by a contiguous flatten | {:.0} GB/s |", ceiling.flatten_gbps())?;
    if let Some(us) = ceiling.empty_us {
        writeln!(text, "| from one empty kernel to the next | {us:.2} µs |")?;
    }
    for rate in &report.peers.rates {
        if let Some(gbps) = rate.gbps {
            writeln!(text, "| {} | {gbps:.0} GB/s |", rate.rate)?;
        }
        if let Some(tflops) = rate.tflops {
            writeln!(text, "| {} | {tflops:.1} TFLOP/s |", rate.rate)?;
        }
    }
    if !report.costs.is_empty() {
        writeln!(text, "\n| cost on the host | µs | bound |\n|---|---|---|")?;
        for cost in &report.costs {
            let bound = cost.bound_us.map_or_else(String::new, |bound| format!("{bound}"));
            writeln!(text, "| {} | {} | {bound} |", cost.what, number(cost.us))?;
        }
    }
    writeln!(text, "\n![Speed against the device's limits]({date}.svg)\n")?;
    writeln!(text, "A ratio is the peer's time over ours: above 1, ours is faster.")?;
    let rows = report.rows();
    for (op, _) in crate::ops::ALL {
        let rows: Vec<_> = rows.iter().filter(|row| row.case.problem.op() == op).collect();
        if !rows.is_empty() {
            write_op(text, op, &rows)?;
        }
    }
    write_list(text, "Below what is expected", &report.misses())?;
    let failed = report.peers.times.values().flatten().filter_map(|time| {
        let case: &Case = report.measured.get(time.id)?.case;
        Some(format!("{case}: {}: {}", time.peer, time.error.as_deref()?))
    });
    let mut failed: Vec<_> = failed.collect();
    failed.sort();
    write_list(text, "Peers that did not do a case", &failed)?;
    write_list(text, "Remarks", &report.peers.remarks)
}

fn write_list(text: &mut String, title: &str, lines: &[String]) -> std::fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n## {title}\n")?;
    lines.iter().try_for_each(|line| writeln!(text, "- {}", line.replace('\n', " ")))
}

/// One operation's table: a line a case, the peers side by side.
fn write_op(text: &mut String, op: &str, rows: &[&Row<'_>]) -> std::fmt::Result {
    let mut peers: Vec<&str> = rows.iter().filter_map(|row| row.peer.map(|(peer, _)| peer)).collect();
    peers.sort_unstable_by_key(|peer| (*peer != "torch", *peer));
    peers.dedup();
    let computes = rows.iter().any(|row| row.tflops.is_some());
    writeln!(text, "\n## {op}\n")?;
    write!(
        text,
        "| direction | shape | dtype | µs | GB/s | % of copy |{}",
        if computes { " TFLOP/s |" } else { "" }
    )?;
    peers.iter().try_for_each(|peer| write!(text, " {peer} µs | ratio |"))?;
    writeln!(text, "\n|{}", "---|".repeat(6 + usize::from(computes) + 2 * peers.len()))?;
    let mut rest = rows;
    while let Some((first, _)) = rest.split_first() {
        let same = rest.iter().take_while(|row| std::ptr::eq(row.case, first.case)).count();
        let (rows, after) = rest.split_at(same);
        rest = after;
        let case = first.case;
        let (direction, shape) = (case.direction.name(), case.shape());
        let (us, speed, percent) = (number(first.us), first.gbps, first.pct_copy);
        write!(text, "| {direction} | {shape} | {} | {us} | {speed:.0} | {percent:.1} |", case.precision())?;
        if computes {
            write!(text, " {} |", first.tflops.map(number).unwrap_or_default())?;
        }
        for peer in &peers {
            let of_peer = rows
                .iter()
                .find_map(|row| Some((row.peer.filter(|(name, _)| name == peer)?.1, row.ratio()?)));
            match of_peer {
                Some((us, ratio)) => write!(text, " {} | {ratio:.2} |", number(us))?,
                None => write!(text, " | |")?,
            }
        }
        writeln!(text)?;
    }
    Ok(())
}
