//! What is read from a module's text, and what is refused.

use super::super::error::DriverError;
use super::super::ptx::{ComputeCapability, CudaVersion, Header, Parameters, PtxVersion, check_version};
use super::PTX;

fn cuda(major: u32, minor: u32) -> CudaVersion {
    CudaVersion { major, minor }
}

fn ptx(major: u32, minor: u32) -> PtxVersion {
    PtxVersion { major, minor }
}

fn capability(major: u32, minor: u32) -> ComputeCapability {
    ComputeCapability { major, minor }
}

#[test]
fn ptx_version_is_held_against_the_driver() {
    // From the release history of the PTX ISA manual: the newest PTX that a driver reads.
    for (driver, newest) in [
        (cuda(11, 0), ptx(7, 0)),
        (cuda(11, 8), ptx(7, 8)),
        (cuda(12, 0), ptx(8, 0)),
        (cuda(12, 5), ptx(8, 5)),
        (cuda(12, 6), ptx(8, 5)),
        (cuda(12, 7), ptx(8, 6)),
        (cuda(12, 9), ptx(8, 8)),
        (cuda(13, 0), ptx(9, 0)),
        (cuda(13, 2), ptx(9, 2)),
    ] {
        assert_eq!(check_version(newest, driver), Ok(()), "PTX {newest}, CUDA {driver}");
        assert_eq!(check_version(ptx(6, 0), driver), Ok(()), "old PTX, CUDA {driver}");
        let next = PtxVersion { major: newest.major, minor: newest.minor + 1 };
        assert!(check_version(next, driver).is_err(), "PTX {next}, CUDA {driver}");
    }
    // A driver beyond the table: it alone knows.
    assert_eq!(check_version(ptx(9, 7), cuda(13, 9)), Ok(()));
}

#[test]
fn ptx_version_error_names_both_versions() {
    let error = check_version(ptx(8, 0), cuda(11, 4)).expect_err("too new");
    assert_eq!(
        error.to_string(),
        "the module is PTX 8.0, but the driver is for CUDA 11.4, which reads up to PTX 7.4; PTX 8.0 needs a driver \
         for CUDA 12.0"
    );
    let error = check_version(ptx(99, 0), cuda(13, 0)).expect_err("too new").to_string();
    assert!(error.ends_with("PTX 99.0 needs a newer one"), "{error}");
}

#[test]
fn ptx_target_is_held_against_the_device() {
    let takes = |target: &str, has| {
        let text = PTX.replace("sm_80", target);
        Header::parse(&text).expect("a header").target.check("GPU", has)
    };
    for (target, has, fits) in [
        ("sm_70", capability(7, 0), true),
        ("sm_70", capability(12, 0), true),
        ("sm_80", capability(7, 5), false),
        ("sm_80, texmode_independent", capability(8, 6), true),
        ("sm_90a", capability(9, 0), true),
        ("sm_90a", capability(10, 0), false),
        ("sm_90a", capability(8, 9), false),
        ("sm_100f", capability(10, 3), true),
        ("sm_100f", capability(12, 0), false),
        ("sm_103f", capability(10, 0), false),
        ("sm_120", capability(10, 0), false),
    ] {
        assert_eq!(takes(target, has).is_ok(), fits, "{target} on {has}");
    }
    let error = takes("sm_90a", capability(10, 0)).expect_err("another architecture").to_string();
    assert_eq!(
        error,
        "the module is for sm_90a, which needs compute capability exactly 9.0, but GPU has 10.0"
    );
    let error = takes("sm_80", capability(7, 5)).expect_err("too old").to_string();
    assert_eq!(
        error,
        "the module is for sm_80, which needs compute capability 8.0 or higher, but GPU has 7.5"
    );
}

#[test]
fn ptx_header_is_read_or_refused() {
    let header = Header::parse(PTX).expect("a header");
    assert_eq!(header.version, ptx(7, 1));
    for (broken, names) in [
        (PTX.replace(".version", ".versoin"), "it has no .version"),
        (PTX.replace("7.1", "seven"), "its .version is \"seven\""),
        (PTX.replace(".target sm_80", ""), "it has no .target"),
        (PTX.replace("sm_80", "compute_80"), "its .target is \"compute_80\""),
        (String::new(), "it has no .version"),
    ] {
        let error = Header::parse(&broken).expect_err("a broken header").to_string();
        assert_eq!(error, format!("not a PTX module: {names}"));
    }
}

#[test]
fn ptx_parameters_are_counted_and_packed() {
    let parse = |text: &str, entry| Parameters::parse(text, entry).map(|p| (p.count, p.bytes));
    assert_eq!(parse(PTX, "scale"), Ok((3, 32)));
    let two = ".visible .entry a()\n{}\n.visible .entry ab(.param .u8 x, .param .f64 y,\n .param .u16 z)\n{}";
    assert_eq!(parse(two, "a"), Ok((0, 0)));
    assert_eq!(parse(two, "ab"), Ok((3, 18)));
    let aligned =
        ".entry k(.param .u32 a, .param .align 16 .b8 b[32], .param .u64 .ptr .global .align 4 c) {}";
    assert_eq!(parse(aligned, "k"), Ok((3, 56)));
    assert_eq!(
        parse(two, "b"),
        Err(DriverError::NoEntry { entry: "b".to_owned(), available: vec!["a".to_owned(), "ab".to_owned()] })
    );
    assert!(parse(".entry k(.param .u32 a[x]) {}", "k").is_err());
    assert!(parse(".entry k(.reg .u32 a) {}", "k").is_err());
}
