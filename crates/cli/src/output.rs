//! Standard output: data only, buffered, and an error instead of a panic when the reader has gone.

use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write as _};

use serde::Serialize;

use crate::error::Error;
use crate::terminal::Look;

/// Standard output with the way it looks.
pub(crate) struct Output {
    writer: BufWriter<Stdout>,
    /// Its width and colours.
    pub(crate) look: Look,
}

impl Output {
    /// This process's standard output.
    pub(crate) fn new() -> Self {
        Self { writer: BufWriter::new(io::stdout()), look: Look::of_stdout() }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// [`Error::Output`], here and below.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<(), Error> {
        writeln!(self.writer, "{line}").map_err(Error::Output)
    }

    /// Writes a value as indented JSON. Integers and doubles are written so that reading them gives the same number.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Error> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(|fault| Error::Output(fault.into()))?;
        self.line("")
    }

    /// Hands everything to the reader.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(Error::Output)
    }
}
