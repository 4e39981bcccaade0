//! `host/kernels/manifest.json`: what the generated modules were made from, and how.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::source::{self, SourceError};

/// The manifest's name in the folder of generated kernels.
pub const FILE: &str = "manifest.json";

/// Everything that the generated folder depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Says that the file is generated, and by what.
    pub generated_by: String,
    /// [`sources_hash`] of the device crate.
    pub sources_sha256: String,
    /// Compiler and LLVM versions.
    pub compiler: String,
    /// Architectures and their flags.
    pub targets: Vec<TargetRecord>,
    /// The kernels, sorted by name.
    pub kernels: Vec<KernelRecord>,
}

/// One architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// The virtual architecture.
    pub arch: String,
    /// The PTX ISA version.
    pub ptx: String,
    /// The compiler's flags.
    pub flags: Vec<String>,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRecord {
    /// The kernel's name, which is its folder's too.
    pub name: String,
    /// The device source it comes from.
    pub file: String,
    /// `copy`, `arithmetic` or `float`.
    pub family: String,
    /// The architecture of its modules.
    pub target: String,
    /// The entry point's symbol in every module.
    pub entry: String,
    /// Barrier instructions in every module.
    pub barriers: usize,
    /// The constants with the values that fill their holes in the resource table.
    pub canonical: Vec<Canonical>,
    /// The modules in the family's order of kinds.
    pub modules: Vec<ModuleRecord>,
}

/// A constant's canonical value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canonical {
    /// The constant.
    pub constant: String,
    /// True where its magic number and shift are holes too.
    pub divisor: bool,
    /// Its value in the resource table.
    pub value: u32,
}

/// One module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// The element kind.
    pub kind: String,
    /// SHA-256 of the module's text.
    pub sha256: String,
    /// The entry point's parameters as the module declares them.
    pub params: Vec<String>,
    /// The hole tokens that appear, sorted.
    pub holes: Vec<String>,
}

/// Why a manifest could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file is not there.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is no manifest.
    #[error("{path} is no manifest: {error}")]
    Parse {
        /// The file.
        path: String,
        /// What the parser said.
        error: serde_json::Error,
    },
}

impl Manifest {
    /// Reads the manifest of a folder of generated kernels.
    ///
    /// # Errors
    /// The file is missing or malformed.
    pub fn read(kernels_dir: &Path) -> Result<Self, ManifestError> {
        let file = kernels_dir.join(FILE);
        let path = file.display().to_string();
        match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| ManifestError::Parse { path, error }),
            Err(error) => Err(ManifestError::Read { path, error }),
        }
    }

    /// The file's text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a manifest holds strings and numbers alone");
        text.push('\n');
        text
    }
}

/// SHA-256 of a text, in hexadecimal.
#[must_use]
pub fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// SHA-256 over the device crate: for `Cargo.toml` and then each source file in the order of
/// [`source::source_files`], its path, a zero byte, its length in bytes as a little-endian `u64`, its bytes.
///
/// # Errors
/// A file that cannot be read.
pub fn sources_hash(device_dir: &Path) -> Result<String, SourceError> {
    let mut hash = Sha256::new();
    let files = source::source_files(device_dir)?;
    for file in std::iter::once("Cargo.toml".to_owned()).chain(files) {
        let path = device_dir.join(&file);
        let bytes = fs::read(&path).map_err(|error| SourceError::Read { path, error })?;
        hash.update(&file);
        hash.update([0]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    Ok(hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn hash(files: &[(&str, &str)]) -> String {
        sources_hash(device(files).path()).unwrap()
    }

    #[test]
    fn sources_hash_is_the_documented_formula() {
        let bytes =
            b"Cargo.toml\0\x01\0\0\0\0\0\0\0xsrc/a.rs\0\x02\0\0\0\0\0\0\0yzsrc/b/c.rs\0\0\0\0\0\0\0\0\0";
        let expected = hex(&Sha256::digest(bytes));
        assert_eq!(hash(&[("src/b/c.rs", ""), ("src/a.rs", "yz"), ("Cargo.toml", "x")]), expected);
    }

    #[test]
    fn sources_hash_sees_every_change_and_nothing_else() {
        let base = hash(&[("Cargo.toml", "x"), ("src/a.rs", "y")]);
        assert_ne!(base, hash(&[("Cargo.toml", "x"), ("src/a.rs", "z")]), "contents");
        assert_ne!(base, hash(&[("Cargo.toml", "z"), ("src/a.rs", "y")]), "the crate's manifest");
        assert_ne!(base, hash(&[("Cargo.toml", "x"), ("src/b.rs", "y")]), "a name");
        assert_ne!(base, hash(&[("Cargo.toml", "x"), ("src/a.rs", "y"), ("src/b.rs", "")]), "an empty file");
        assert_eq!(
            base,
            hash(&[("Cargo.toml", "x"), ("src/a.rs", "y"), ("src/notes.txt", "n")]),
            "no source"
        );
    }

    #[test]
    fn sources_hash_needs_the_crate_to_be_there() {
        assert!(sources_hash(Path::new("/nowhere")).is_err());
    }
}
