//! What the commands have in common: problems, tables, and output that may be a closed pipe.

use std::io::{self, Write};

use comfy_table::{Table, presets};
use cotangent::verify::Failure;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// The reader of our output has gone, which is no error of ours.
    #[error("the output was closed")]
    Pipe,
    #[error("the output cannot be written: {0}")]
    Output(io::Error),
    #[error("{path} cannot be written: {error}")]
    File { path: String, error: io::Error },
    #[error("no kernel is called {name:?}; they are {known}")]
    Kernel { name: String, known: String },
    #[error("{kernel} takes {want} constants ({names}), but {have} were given")]
    Constants { kernel: &'static str, want: usize, names: String, have: usize },
    #[error(transparent)]
    Failure(#[from] Failure),
    #[error(transparent)]
    Library(#[from] cotangent::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Pipe } else { Self::Output(error) }
    }
}

/// Prints a text and a line's end.
pub(crate) fn print(text: impl std::fmt::Display) -> Result<(), Problem> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    Ok(stdout.flush()?)
}

/// An empty table with these columns.
pub(crate) fn table<const N: usize>(columns: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(columns);
    table
}
