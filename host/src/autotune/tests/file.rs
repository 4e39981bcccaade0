//! The file: what is written is read again, whatever else is in it.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use super::super::file::sealed;
use super::*;

/// The file of some answers, for as many images.
fn written(path: &Path, answers: &[(i32, Algorithm)]) -> Vec<u8> {
    let autotune = Autotune::open(path);
    for &(b, algorithm) in answers {
        assert_eq!(tune(&autotune, b, prefer(algorithm)).expect("an answer"), algorithm);
    }
    fs::read(path).expect("the file that was written")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn answers_are_read_as_they_were_written() {
    let folder = folder();
    let path = folder.path().join("answers");
    let answers =
        [(2, Algorithm::Portable), (3, Algorithm::Large), (4, Algorithm::Patches), (5, Algorithm::Auto)];
    let text = String::from_utf8(written(&path, &answers)).expect("text");
    let autotune = Autotune::open(&path);
    assert_eq!(autotune.len(), answers.len());
    for (b, algorithm) in answers {
        assert_eq!(answer(&autotune, b), algorithm);
    }
    // A person can tell what it says.
    let line = text.lines().find(|line| line.contains("algorithm=patches")).expect("its line");
    for part in [
        "device=NVIDIA H200\t",
        "capability=9.0\t",
        "multiprocessors=132\t",
        "driver=13.0\t",
        "kernel=conv2d_forward\telement=f32\tmath=ieee\tconstants=3,3,1,1,1,1,1,128\t",
        "extents=4,32,32,14,14,14,14\talignment=16,16,16\tworkspace=enough\t",
    ] {
        assert!(line.contains(part), "{line}");
    }
    // Known answers add no lines.
    assert_eq!(written(&path, &answers), text.as_bytes());
    // A name with a line's end in it stays in its line.
    let odd = GpuModel { name: "two\nlines\tand a tab".to_owned(), ..h200() };
    let sample = |algorithm, _: &[_], _| Ok(prefer(Algorithm::Tiled)(algorithm));
    let options = LaunchOptions::new();
    autotune.tune_with(&odd, &forward(), &images(4), &options, take, sample).expect("an answer");
    let again = Autotune::open(&path);
    assert_eq!(again.answer(&odd, &forward(), &images(4), &options).expect("a call"), Algorithm::Tiled);
    assert_eq!(again.len(), answers.len() + 1);
}

#[test]
fn cut_anywhere_a_file_has_its_whole_lines_and_takes_more() {
    let folder = folder();
    let path = folder.path().join("answers");
    let whole = written(&path, &[(2, Algorithm::Portable), (3, Algorithm::Patches)]);
    let first = whole[1..].iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    let second = whole.len() - 1;
    for cut in 0..=whole.len() {
        let autotune = Autotune::from_bytes(&whole[..cut]);
        assert_eq!(autotune.len(), usize::from(cut >= first) + usize::from(cut >= second), "{cut}");
    }
    // A piece of a line does not spoil the next.
    fs::write(&path, &whole[..second - 5]).expect("write");
    written(&path, &[(3, Algorithm::Patches), (4, Algorithm::Tiled)]);
    let autotune = Autotune::open(&path);
    let answers = [2, 3, 4].map(|b| answer(&autotune, b));
    assert_eq!(answers, [Algorithm::Portable, Algorithm::Patches, Algorithm::Tiled]);
}

#[test]
fn damaged_lines_are_ignored() {
    let folder = folder();
    let whole = written(&folder.path().join("answers"), &[(3, Algorithm::Patches)]);
    for at in 1..whole.len() - 1 {
        for flip in [1, 0x20, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            assert!(Autotune::from_bytes(&damaged).is_empty(), "byte {at} ^ {flip}");
        }
    }
    for junk in
        [&b"\0\xff\xfe\n"[..], b"\r\n\r\n", b"sum=\n\tsum=\n\talgorithm=\tsum=\n", &vec![b'x'; 100_000]]
    {
        let autotune = Autotune::from_bytes(&[junk, b"\n", &whole, junk].concat());
        assert_eq!((autotune.len(), answer(&autotune, 3)), (1, Algorithm::Patches));
    }
}

#[test]
fn answers_of_others_and_for_what_does_not_fit_are_not_used() {
    let folder = folder();
    let path = folder.path().join("answers");
    let line = String::from_utf8(written(&path, &[(3, Algorithm::Patches)])).expect("text");
    let (body, _) = line.trim().rsplit_once("\tsum=").expect("a sum");
    let forged = |from: &str, to: &str| {
        assert!(body.contains(from), "{body}");
        sealed(&body.replace(from, to))
    };
    let version = format!("crate={}", env!("CARGO_PKG_VERSION"));
    // Sums are right in all of these.
    for (from, to) in [
        ("autotune 1\t", "autotune 2\t"),
        (version.as_str(), "crate=999.0.0"),
        ("driver=13.0", "driver=12.9"),
        ("H200", "H100"),
        ("algorithm=patches", "algorithm=magic"),
        ("algorithm=patches", "algorithm=pointwise"),
        ("algorithm=patches", "algorithm=depthwise"),
        ("algorithm=patches", "algorithm=few"),
    ] {
        let autotune = Autotune::from_bytes(forged(from, to).as_bytes());
        assert_eq!(answer(&autotune, 3), Algorithm::Auto, "{to}");
        // What was measured anew takes its place.
        assert_eq!(tune(&autotune, 3, prefer(Algorithm::Tiled)).expect("an answer"), Algorithm::Tiled);
        assert_eq!(answer(&autotune, 3), Algorithm::Tiled, "{to}");
    }
    // Of two lines for a problem, the later counts.
    let two = [forged("", ""), forged("algorithm=patches", "algorithm=tiled")].join("\n");
    assert_eq!(answer(&Autotune::from_bytes(two.as_bytes()), 3), Algorithm::Tiled);
}

#[test]
fn what_is_no_file_of_answers_is_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("something");
    let picture: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
    let log = b"Dear diary,\n".to_vec();
    for bytes in [picture, log] {
        fs::write(&path, &bytes).expect("write");
        assert_eq!(written(&path, &[(3, Algorithm::Patches)]), bytes);
    }
    // Larger than is read, though it begins with an answer, and reported with holes so that it takes no room.
    fs::remove_file(&path).expect("remove");
    written(&path, &[(3, Algorithm::Patches)]);
    let huge = (16 << 20) + 1;
    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(huge)).expect("a large file");
    let autotune = Autotune::open(&path);
    assert!(autotune.is_empty());
    tune(&autotune, 4, prefer(Algorithm::Patches)).expect("an answer");
    assert_eq!(answer(&autotune, 4), Algorithm::Patches, "kept in memory");
    assert_eq!(fs::metadata(&path).expect("the file").len(), huge);
    // Places that nothing can be written to.
    for path in [folder.path(), &folder.path().join("nowhere/answers"), Path::new(""), Path::new("/dev/zero")]
    {
        let autotune = Autotune::open(path);
        tune(&autotune, 4, prefer(Algorithm::Patches)).expect("an answer");
        assert_eq!(answer(&autotune, 4), Algorithm::Patches);
    }
    // An empty file is a new one.
    let empty = folder.path().join("empty");
    fs::write(&empty, " \n").expect("write");
    written(&empty, &[(3, Algorithm::Patches)]);
    assert_eq!(Autotune::open(&empty).len(), 1);
}

/// Adds answers for `count` numbers of images from `first` to a file.
fn add(path: &Path, first: i32, count: i32) {
    let autotune = Autotune::open(path);
    for b in first..first + count {
        let fastest = [Algorithm::Portable, Algorithm::Patches][b as usize % 2];
        assert_eq!(tune(&autotune, b, prefer(fastest)).expect("an answer"), fastest);
    }
}

fn expect_all(path: &Path, count: i32) {
    let autotune = Autotune::open(path);
    assert_eq!(autotune.len(), count as usize);
    for b in 1..=count {
        let fastest = [Algorithm::Portable, Algorithm::Patches][b as usize % 2];
        assert_eq!(answer(&autotune, b), fastest);
    }
    // Nothing is torn.
    let text = fs::read_to_string(path).expect("text");
    assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), count as usize);
}

#[test]
fn threads_do_not_lose_each_others_answers() {
    let folder = folder();
    let path = folder.path().join("answers");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let path = &path;
            scope.spawn(move || add(path, 1 + 20 * thread, 20));
        }
    });
    expect_all(&path, 160);
    // By one handle, too.
    let path = folder.path().join("shared");
    let shared = Autotune::open(&path);
    std::thread::scope(|scope| {
        for b in 1..=8 {
            let shared = shared.clone();
            let fastest = [Algorithm::Portable, Algorithm::Patches][b as usize % 2];
            scope.spawn(move || tune(&shared, b, prefer(fastest)).expect("an answer"));
        }
    });
    assert_eq!(shared.len(), 8);
    expect_all(&path, 8);
}

#[test]
fn processes_do_not_lose_each_others_answers() {
    const NAME: &str = "autotune::tests::file::processes_do_not_lose_each_others_answers";
    const FILE: &str = "COTANGENT_TEST_AUTOTUNE_FILE";
    const FIRST: &str = "COTANGENT_TEST_AUTOTUNE_FIRST";
    if let (Some(path), Ok(first)) = (env::var_os(FILE), env::var(FIRST)) {
        add(Path::new(&path), first.parse().expect("a number"), 30);
        return;
    }
    let folder = folder();
    let path = folder.path().join("answers");
    let program = env::current_exe().expect("the test's own path");
    let start = |process: i32| {
        let mut command = Command::new(&program);
        command.args(["--exact", NAME]).env(FILE, &path).env(FIRST, (1 + 30 * process).to_string());
        command.spawn().expect("run the test again")
    };
    let children: Vec<_> = (0..4).map(start).collect();
    for mut child in children {
        assert!(child.wait().expect("its end").success());
    }
    expect_all(&path, 120);
}
