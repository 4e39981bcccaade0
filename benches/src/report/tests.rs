//! Reports from made-up times.

use super::*;
use crate::case::Size;
use crate::error::Error;
use crate::ops;
use crate::peers::{PeerTime, Rate};

/// A report on a device whose copy moves 4000 GB/s: every case takes as long as its bytes at that speed.
fn report(cases: &[Case]) -> Report<'_> {
    let ceiling =
        Ceiling { copy_bytes: 4_000_000_000, copy_us: 1000.0, flatten_us: 1010.0, empty_us: Some(2.0) };
    let measured = cases.iter().map(|case| Measured { case, us: Ok(case.bytes() as f64 / 4e6) }).collect();
    Report {
        gpu: "NVIDIA H200".to_owned(),
        driver: "driver for CUDA 13.0".to_owned(),
        date: "2026-01-31".to_owned(),
        ceiling,
        costs: vec![Cost { what: "launch", us: 3.25, bound_us: Some(5.0) }],
        measured,
        peers: Peers::default(),
    }
}

fn flatten() -> Vec<Case> {
    ops::flatten::cases(Size::Full)
}

fn peer(id: usize, peer: &str, us: f64) -> PeerTime {
    PeerTime { id, peer: peer.to_owned(), us: Some(us), error: None }
}

#[test]
fn csv_has_the_columns_and_a_row_a_peer() {
    let cases = flatten();
    let mut report = report(&cases);
    let us = *report.measured[0].us.as_ref().expect("a time");
    report.peers.times.insert(0, vec![peer(0, "torch", 2.0 * us), peer(0, "seed", us)]);
    let csv = report.csv();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines[0], COLUMNS);
    assert_eq!(lines.len(), 1 + cases.len() + 1);
    assert!(lines.iter().all(|line| line.split(',').count() == 13), "{csv}");
    // 2 · 8192 · 16384 · 4 bytes at 4000 GB/s.
    let first = "NVIDIA H200,flatten,fwd,8192x16384 contiguous,f32,,268.4,4000,100.0,,torch,536.9,2.000";
    assert_eq!(lines[1], first);
    assert!(lines[2].ends_with(",seed,268.4,1.000"), "{}", lines[2]);
    assert!(lines[3].ends_with(",,,"), "{}", lines[3]);
}

#[test]
fn convolutions_have_operations_and_arithmetic() {
    let cases = ops::conv2d::cases(Size::Full);
    let report = report(&cases);
    let csv = report.csv();
    let cells: Vec<_> = csv.lines().nth(1).expect("a row").split(',').collect();
    assert_eq!(cells[5], "ieee");
    // 2 · 16 · 64 · 56² · 64 · 9 operations in (2 · 16 · 64 · 56² + 64 · 64 · 9) · 4 bytes / 4000 GB/s.
    let us = (2.0 * 16.0 * 64.0 * 3136.0 + 64.0 * 64.0 * 9.0) * 4.0 / 4e6;
    let tflops = 2.0 * 16.0 * 64.0 * 3136.0 * 576.0 / us / 1e6;
    assert_eq!(cells[9], number(tflops));
}

#[test]
fn misses_are_slow_cases_and_failures() {
    let cases = flatten();
    let mut report = report(&cases);
    // Few-kilobyte cases may take 3.5 µs, and take almost nothing here.
    assert_eq!(report.misses(), Vec::<String>::new());
    let slow = |report: &mut Report<'_>, number: usize, factor: f64| {
        let us = *report.measured[number].us.as_ref().expect("a time");
        report.measured[number].us = Ok(us * factor);
    };
    slow(&mut report, 0, 1.04);
    assert!(report.misses().is_empty(), "96 % of 95 % is enough");
    slow(&mut report, 0, 1.04);
    let latency = cases.iter().position(|case| case.kind == Kind::Latency).expect("one of a few kilobytes");
    report.measured[latency].us = Ok(3.6);
    report.measured[2].us = Err(Error::Wrong("element 7 is 1.0, not 2.0".to_owned()));
    let misses = report.misses();
    assert_eq!(misses.len(), 3, "{misses:?}");
    assert!(misses[0].contains("92.5 % of a copy's speed, not 95 %"), "{misses:?}");
    assert!(misses[1].contains("element 7"), "{misses:?}");
    assert!(misses[2].contains("3.60 µs, not 3.50 µs"), "{misses:?}");
}

#[test]
fn files_are_written_under_the_devices_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases: Vec<_> = ops::ALL.iter().flat_map(|(_, cases)| cases(Size::Full)).collect();
    let mut report = report(&cases);
    report.peers.times.insert(1, vec![peer(1, "torch", 500.0)]);
    report.peers.rates.push(Rate { rate: "matmul f32".to_owned(), gbps: None, tflops: Some(51.0) });
    report.peers.remarks.push("a remark".to_owned());
    let written = report.write(folder.path()).expect("written");
    let names: Vec<_> = written
        .iter()
        .map(|path| path.strip_prefix(folder.path()).expect("inside").display().to_string())
        .collect();
    assert_eq!(
        names,
        ["nvidia-h200/2026-01-31.csv", "nvidia-h200/2026-01-31.md", "nvidia-h200/2026-01-31.svg"]
    );
    let markdown = fs::read_to_string(&written[1]).expect("a table");
    for part in ["## flatten", "## conv2d", "4000 GB/s", "2.00 µs", "51.0 TFLOP/s", "a remark", "torch µs"]
    {
        assert!(markdown.contains(part), "{part} is not in {markdown}");
    }
    let picture = fs::read_to_string(&written[2]).expect("a picture");
    assert!(picture.contains("copy, 4000 GB/s") && picture.contains("PyTorch"), "labels");
    let large = cases.iter().filter(|case| case.bytes() > 64 << 10).count();
    assert!(picture.matches("<circle").count() > large, "a point a case, and the peers");
    let summary = summary(&report);
    assert!(summary.contains("upsample_nearest2d"), "{summary}");
}

#[test]
fn a_report_without_cases_is_drawn_too() {
    let report = report(&[]);
    assert!(picture::svg(&report).expect("a picture").contains("</svg>"));
    assert_eq!(report.csv(), format!("{COLUMNS}\n"));
}

#[test]
fn numbers_keep_four_digits() {
    assert_eq!(
        [0.0, 2.345_67, 45.678_9, 1234.56, 12_345.6].map(number).join(" "),
        "0.000000 2.346 45.68 1235 12346"
    );
    assert_eq!(slug("NVIDIA H100 80GB HBM3"), "nvidia-h100-80gb-hbm3");
    assert_eq!(quoted("a,b"), "\"a,b\"");
}
