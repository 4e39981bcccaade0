//! The file of answers: lines that each stand alone.
//!
//! A line is an answer's text, `algorithm=` with its name, and `sum=` with the first 16 digits of the SHA-256 of what is
//! before it, with tabs between. New answers are added at the end, each by one write to a file that is opened for
//! appending. The system puts such writes one behind the other, so that processes and threads need no lock, which one
//! that dies could leave behind, and no copy of the file, in which the last to rename would lose the others' answers.
//! A write that is cut short (a full disk, a kill) leaves a line without its sum, which readers pass over; every write
//! begins with a line feed, so that such a piece does not spoil the line that follows it. Where a text comes twice, the
//! last line counts.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use rustc_hash::FxBuildHasher;

use super::text::MAGIC;
use crate::kernel::{Algorithm, sha256};

/// Bytes of the largest file that is read, and of the longest line.
const MOST_BYTES: u64 = 16 << 20;
const MOST_LINE: usize = 4096;

/// Digits of a sum.
const DIGITS: usize = 16;

type Answers = HashMap<String, Algorithm, FxBuildHasher>;

/// What was found in a file.
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) answers: Answers,
    /// Lines that are damaged, and answers of another version of this crate.
    damaged: usize,
    foreign: usize,
    /// Whether some line begins as ours do.
    ours: bool,
}

/// The answers in a file's bytes.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let version = concat!("crate=", env!("CARGO_PKG_VERSION"), "\t");
    let mut parsed = Parsed::default();
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let magic = line.starts_with(MAGIC.as_bytes());
        parsed.ours |= magic;
        match answer(line).filter(|_| magic) {
            None => parsed.damaged += 1,
            Some((text, algorithm)) => {
                let known = text[MAGIC.len()..].starts_with(version).then_some(algorithm).flatten();
                match known {
                    Some(algorithm) => drop(parsed.answers.insert(text.to_owned(), algorithm)),
                    // A later version may have other algorithms.
                    None => parsed.foreign += 1,
                }
            }
        }
    }
    parsed
}

/// The text and the algorithm of a line whose sum is right; no algorithm for a name that is none's.
fn answer(line: &[u8]) -> Option<(&str, Option<Algorithm>)> {
    let line = std::str::from_utf8(line).ok().filter(|line| line.len() <= MOST_LINE)?;
    let (body, sum) = line.rsplit_once("\tsum=")?;
    if sum != &sha256(body)[..DIGITS] {
        return None;
    }
    let (text, name) = body.rsplit_once("\talgorithm=")?;
    Some((text, Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)))
}

/// A line's body with its sum.
#[doc(hidden)]
pub fn sealed(body: &str) -> String {
    format!("{body}\tsum={}", &sha256(body)[..DIGITS])
}

/// The answers of a file, and whether new ones may be added: to no file that has something else in it.
pub(super) fn read(path: &Path) -> (Answers, bool) {
    let shown = path.display();
    let bytes = match bytes(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (Answers::default(), true),
        Err(error) => {
            log::warn!("autotune: {shown} is not used: {error}");
            return (Answers::default(), false);
        }
    };
    let parsed = parse(&bytes);
    let ours = parsed.ours || bytes.iter().all(u8::is_ascii_whitespace);
    if !ours {
        log::warn!("autotune: {shown} is not used: it is no file of answers");
    } else if parsed.damaged > 0 {
        log::warn!("autotune: {} lines of {shown} are damaged, and ignored", parsed.damaged);
    }
    if parsed.foreign > 0 {
        log::warn!("autotune: {} lines of {shown} are of another version, and ignored", parsed.foreign);
    }
    (parsed.answers, ours)
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::other(format!("it has more than {MOST_BYTES} bytes"));
    let known = fs::metadata(path)?;
    // To open a pipe would wait for who writes to it.
    if !known.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if known.len() > MOST_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES { Err(too_large()) } else { Ok(bytes) }
}

/// Adds an answer to a file; the log warns where that fails.
pub(super) fn append(path: &Path, text: &str, algorithm: Algorithm) {
    let line = format!("\n{}\n", sealed(&format!("{text}\talgorithm={}", algorithm.name())));
    let add = || -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        if file.metadata()?.len() + line.len() as u64 > MOST_BYTES {
            return Err(io::Error::other(format!("it would have more than {MOST_BYTES} bytes")));
        }
        // One write, for two could have another's between them.
        let written = file.write(line.as_bytes())?;
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    };
    if let Err(error) = add() {
        log::warn!("autotune: an answer was not written to {}: {error}", path.display());
    }
}
