//! What can go wrong in a bench.

use std::path::PathBuf;

/// Why a bench could not measure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library's answer.
    #[error(transparent)]
    Library(#[from] cotangent::Error),

    /// The answer of a kernel whose type is known at run time alone.
    #[error(transparent)]
    Kernel(#[from] cotangent::verify::Failure),

    /// The driver's answer.
    #[error(transparent)]
    Driver(#[from] cotangent::driver::DriverError),

    /// A name that no device has.
    #[error("no device is called {0:?}; the names are auto, cpu, cuda and cuda:N")]
    Name(String),

    /// A case that does not fit into the device's memory.
    #[error("{case} needs {needs} bytes, but {room} are free")]
    Room {
        /// The case.
        case: String,
        /// Bytes that it needs.
        needs: u64,
        /// Bytes that there are.
        room: u64,
    },

    /// A result that is not what the formula says.
    #[error("{case}: wrong result: {what}")]
    Wrong {
        /// The case.
        case: String,
        /// The first element that is wrong, with both values.
        what: String,
    },

    /// A file or a program that could not be used.
    #[error("{path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's answer.
        error: std::io::Error,
    },

    /// A peer's script that ended badly.
    #[error("{0}")]
    Peer(String),

    /// A picture that could not be drawn.
    #[error("the picture cannot be drawn: {0}")]
    Picture(String),
}

/// The result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names the path in a file's error.
pub(crate) fn file<T>(path: &std::path::Path, result: std::io::Result<T>) -> Result<T> {
    result.map_err(|error| Error::File { path: path.to_owned(), error })
}
