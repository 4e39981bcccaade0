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

    /// Memory that is too short for something.
    #[error("{needs} bytes are needed, but there are {room}")]
    Room {
        /// Bytes that are needed.
        needs: u64,
        /// Bytes that there are.
        room: u64,
    },

    /// A result that is not what the formula says: the first element that is wrong, with both values.
    #[error("wrong result: {0}")]
    Wrong(String),

    /// An error of one case.
    #[error("{case}: {error}")]
    Case {
        /// The case.
        case: String,
        /// What is wrong with it.
        error: Box<Error>,
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

impl Error {
    /// Names the case.
    pub(crate) fn of(self, case: &crate::case::Case) -> Self {
        Self::Case { case: case.to_string(), error: Box::new(self) }
    }
}

/// The result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names the path in a file's error.
pub(crate) fn file<T>(path: &std::path::Path, result: std::io::Result<T>) -> Result<T> {
    result.map_err(|error| Error::File { path: path.to_owned(), error })
}
