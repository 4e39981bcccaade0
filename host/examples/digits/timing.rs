//! Where the time goes, operation by operation.

use std::cell::RefCell;

use cotangent::{Mark, Result, Stream};

/// Time of each operation, in the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Timing {
    stream: Option<Stream>,
    marks: RefCell<Vec<(&'static str, Mark, Mark)>>,
}

/// One operation's calls and microseconds.
pub(crate) struct Row {
    /// The operation.
    pub(crate) name: &'static str,
    /// How often it was called.
    pub(crate) calls: usize,
    /// Time in all.
    pub(crate) us: f64,
}

impl Timing {
    /// Takes no time.
    pub(crate) fn off() -> Self {
        Self::default()
    }

    /// Takes the time of what runs on this stream.
    pub(crate) fn on(stream: &Stream) -> Self {
        Self { stream: Some(stream.clone()), marks: RefCell::default() }
    }

    /// Runs an operation, and takes its time.
    ///
    /// # Errors
    /// The operation's.
    pub(crate) fn of<T>(&self, name: &'static str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(stream) = &self.stream else { return run() };
        let start = stream.mark()?;
        let result = run()?;
        self.marks.borrow_mut().push((name, start, stream.mark()?));
        Ok(result)
    }

    /// What was measured.
    ///
    /// # Errors
    /// What the driver answers.
    pub(crate) fn rows(&self) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        for (name, start, end) in self.marks.borrow().iter() {
            let us = end.elapsed_us(start)?;
            match rows.iter_mut().find(|row| row.name == *name) {
                Some(row) => (row.calls, row.us) = (row.calls + 1, row.us + us),
                None => rows.push(Row { name, calls: 1, us }),
            }
        }
        Ok(rows)
    }
}
