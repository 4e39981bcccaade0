//! Where things are in the repository.

use std::env;
use std::path::{Path, PathBuf};

/// The repository's folders that the builder reads and writes.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
}

/// No repository was found.
#[derive(Debug, thiserror::Error)]
#[error("{} and the folders above it hold no device/src/lib.rs and host/Cargo.toml; give --root", .0.display())]
pub struct NoWorkspace(PathBuf);

impl Workspace {
    /// The repository with this root.
    ///
    /// # Errors
    /// A folder without the device and host crates.
    pub fn at(root: &Path) -> Result<Self, NoWorkspace> {
        let complete = root.join("device/src/lib.rs").is_file() && root.join("host/Cargo.toml").is_file();
        if complete { Ok(Self { root: root.to_owned() }) } else { Err(NoWorkspace(root.to_owned())) }
    }

    /// The repository around the current folder.
    ///
    /// # Errors
    /// No folder from here upwards has the device and host crates.
    pub fn find() -> Result<Self, NoWorkspace> {
        let here = env::current_dir().unwrap_or_default();
        here.ancestors().find_map(|root| Self::at(root).ok()).ok_or(NoWorkspace(here))
    }

    /// The device crate.
    #[must_use]
    pub fn device(&self) -> PathBuf {
        self.root.join("device")
    }

    /// The folder of generated kernels.
    #[must_use]
    pub fn kernels(&self) -> PathBuf {
        self.root.join("host/kernels")
    }

    /// The builder's own target folder: `ptx` in the workspace's (or `CARGO_TARGET_DIR`).
    #[must_use]
    pub fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| self.root.join("target"), |dir| self.root.join(dir))
            .join("ptx")
    }
}
