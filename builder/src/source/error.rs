//! Why a device source was refused.

use std::path::PathBuf;

/// Why a device source was refused.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file is not Rust, or an `entry!` block has another shape.
    #[error("{file}:{line}:{column}: {message}")]
    Syntax {
        /// The file, relative to the device crate.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser said.
        message: String,
    },
    /// An `entry!` block names a function that its file does not have.
    #[error("{file}: entry! names `{kernel}`, but the file has no public function of that name")]
    NoFunction {
        /// The file.
        file: String,
        /// The name in the block.
        kernel: String,
    },
    /// Two blocks name the same kernel.
    #[error("{file}: a second entry! block for `{kernel}`")]
    Twice {
        /// The file with the second block.
        file: String,
        /// The kernel.
        kernel: String,
    },
    /// The block and the function disagree on a parameter.
    #[error("{file}: `{kernel}`: parameter {index} is `{function}` in the function and `{block}` in entry!")]
    Parameter {
        /// The file.
        file: String,
        /// The kernel.
        kernel: String,
        /// The parameter's place, from 0.
        index: usize,
        /// `name: type` in the function, or `nothing`.
        function: String,
        /// `name: type` in the block, or `nothing`.
        block: String,
    },
    /// The function is not generic over exactly one element type.
    #[error("{file}: `{kernel}` must have exactly one type parameter, named E; it has `{found}`")]
    Generics {
        /// The file.
        file: String,
        /// The kernel.
        kernel: String,
        /// The generics as written.
        found: String,
    },
    /// Two constants ask for the same hole.
    #[error("{file}: `{kernel}`: constants `{first}` and `{second}` share the hole `{token}`")]
    HoleTwice {
        /// The file.
        file: String,
        /// The kernel.
        kernel: String,
        /// The first constant.
        first: String,
        /// The second constant.
        second: String,
        /// The hole's token.
        token: String,
    },
    /// The block's target word names no target of the builder.
    #[error("{file}: `{kernel}`: no target `{word}`; the builder has {known}")]
    UnknownTarget {
        /// The file.
        file: String,
        /// The kernel.
        kernel: String,
        /// The word in the block.
        word: String,
        /// The targets there are.
        known: String,
    },
}
