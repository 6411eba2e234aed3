//! Files that were not used, and why; and the parts of a file that were not.

use std::fmt;

use crate::error::Error;

/// Why a file or folder was not used, or a part of a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum SkipReason {
    /// Its extension is none of ours; only within a folder, since a file that is named is always tried.
    Unsupported,
    /// Its name begins with a dot; only within a folder. A folder counts once, whatever is in it.
    Hidden,
    /// The globs of the walk leave it out; only within a folder. A folder counts once, whatever is in it.
    Excluded,
    /// Its name is not Unicode, so it has no name to be known by.
    NameNotUnicode,
    /// The operating system refused it.
    Unreadable(std::io::Error),
    /// It is a pipe, a device or a socket.
    NotAFile,
    /// A symbolic link that leads back to a folder it is in.
    SymlinkLoop,
    /// A line of an ignore file is no glob; the other lines count.
    InvalidIgnoreFile {
        /// What is wrong with it.
        fault: String,
    },
    /// It was written to while it was read, twice.
    Changed,
    /// It is larger than [`crate::Loader::max_file_bytes`] admits.
    TooLarge {
        /// The most that is admitted, in bytes.
        limit: u64,
    },
    /// The text in it is longer than [`crate::LoadOptions::max_text_bytes`] admits; a format can hold more text than the file has bytes.
    TextTooLarge {
        /// The most that is admitted, in bytes of UTF-8.
        limit: usize,
    },
    /// It holds no text, or whitespace only.
    Empty,
    /// It holds a NUL character or many control characters, which text does not.
    Binary,
    /// It is UTF-8 but for some bytes.
    InvalidUtf8 {
        /// Offset of the first wrong byte in the file.
        at: usize,
    },
    /// It says that it is UTF-16, but a surrogate or a byte lacks its other half.
    InvalidUtf16,
    /// It is not in the encoding that was named for it ([`crate::LoadOptions::charset`]) or that it looks like.
    NotInEncoding {
        /// The name of the encoding, such as `Shift_JIS`.
        encoding: &'static str,
    },
    /// Reading it needs a password.
    PdfEncrypted,
    /// It is no PDF, or one that is damaged beyond use.
    PdfBroken {
        /// What is wrong with it.
        fault: String,
    },
    /// It is a PDF of images, or its fonts do not say which letters they draw.
    PdfWithoutText,
    /// It is a PDF that takes more work than any real one of its size.
    PdfTooComplex,
    /// It is not JSON.
    InvalidJson {
        /// The line of the fault, from 1.
        line: usize,
        /// What is wrong there.
        fault: String,
    },
    /// The mapping names a place at which the JSON has nothing that could be used.
    NothingAt {
        /// The JSON pointer of the mapping.
        pointer: String,
        /// What would be right there.
        wanted: &'static str,
    },
    /// The mapping names a column that the header lacks.
    NoSuchColumn {
        /// Its name.
        column: String,
    },
    /// A row has more fields than the header has columns.
    TooManyFields {
        /// The fields of the row.
        fields: usize,
        /// The columns of the header.
        columns: usize,
    },
    /// A quoted field of a table does not end, so that all that follows would be of it.
    UnclosedQuote {
        /// The line of its first quote, from 1.
        line: usize,
    },
    /// The options for loading are wrong, whatever the file.
    InvalidOptions(Box<Error>),
}

impl SkipReason {
    /// Is it in the nature of folders to hold such things? Then nothing went wrong.
    pub fn is_expected(&self) -> bool {
        matches!(self, Self::Unsupported | Self::Hidden | Self::Excluded)
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => {
                formatter.write_str("its extension is none that is read, name the file to read it as text")
            }
            Self::Hidden => formatter.write_str("hidden"),
            Self::Excluded => formatter.write_str("left out by the globs"),
            Self::NameNotUnicode => formatter.write_str("its name is not valid Unicode, rename it"),
            Self::Unreadable(fault) => write!(formatter, "cannot be read: {fault}"),
            Self::NotAFile => formatter.write_str("not a regular file"),
            Self::SymlinkLoop => formatter.write_str("a symbolic link to a folder it is in"),
            Self::InvalidIgnoreFile { fault } => write!(formatter, "a line of this ignore file is not used: {fault}"),
            Self::Changed => formatter.write_str("it changed while it was read, read it again when it is complete"),
            Self::TooLarge { limit } => {
                write!(formatter, "larger than {limit} bytes, the limit for a file (--max-file-bytes)")
            }
            Self::TextTooLarge { limit } => {
                write!(
                    formatter,
                    "its text is longer than {limit} bytes, the limit for the text of a file: split it into several files"
                )
            }
            Self::Empty => formatter.write_str("empty"),
            Self::Binary => formatter.write_str("binary: it holds control characters that no text has"),
            Self::InvalidUtf8 { at } => write!(formatter, "not valid UTF-8 at byte {at}, convert it to UTF-8"),
            Self::InvalidUtf16 => formatter.write_str("not valid UTF-16, convert it to UTF-8"),
            Self::NotInEncoding { encoding } => {
                write!(
                    formatter,
                    "not valid {encoding}, convert it to UTF-8 or send it with a media type that names its encoding, such as text/plain; charset=iso-8859-1"
                )
            }
            Self::PdfEncrypted => formatter.write_str("an encrypted PDF, save it without a password"),
            Self::PdfBroken { fault } => {
                write!(formatter, "not a PDF that can be read ({fault}), save it anew from a PDF viewer")
            }
            Self::PdfWithoutText => {
                formatter.write_str("a PDF without text, recognise its characters (OCR) and load the result")
            }
            Self::PdfTooComplex => {
                formatter.write_str("a PDF that takes too much work, save it anew from a PDF viewer or split it")
            }
            Self::InvalidJson { line, fault } => {
                write!(formatter, "not valid JSON at line {line} ({fault}), mend it or load it as plain text")
            }
            Self::NothingAt { pointer, wanted } => {
                write!(formatter, "it has no {wanted} at the JSON pointer {pointer:?}, change the mapping")
            }
            Self::NoSuchColumn { column } => write!(formatter, "it has no column {column:?}, change the mapping"),
            Self::TooManyFields { fields, columns } => {
                write!(
                    formatter,
                    "it has {fields} fields where the header has {columns} columns, quote what is one field"
                )
            }
            Self::UnclosedQuote { line } => {
                write!(
                    formatter,
                    "the quote that opens in line {line} is never closed, and nothing after it is read: close it, or double it where it is text"
                )
            }
            Self::InvalidOptions(fault) => write!(formatter, "the options for loading are wrong: {fault}"),
        }
    }
}

/// A file or folder that was not used.
#[derive(Debug)]
pub struct Skipped {
    /// Its name: the path as given, with `/` between its parts.
    pub source: String,
    /// Was it named by the caller, rather than found in a folder?
    pub named: bool,
    /// Why.
    pub reason: SkipReason,
}

impl fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.source, self.reason)
    }
}

/// Which part of a file; all are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A page.
    Page(usize),
    /// A line of a file of JSON lines.
    Line(usize),
    /// A row of a table, the header not counted.
    Row(usize),
    /// An element of a list in JSON.
    Record(usize),
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page(number) => write!(formatter, "page {number}"),
            Self::Line(number) => write!(formatter, "line {number}"),
            Self::Row(number) => write!(formatter, "row {number}"),
            Self::Record(number) => write!(formatter, "record {number}"),
        }
    }
}

/// A part of a file that was not used, while others may be.
#[derive(Debug)]
pub struct FailedPart {
    /// Which.
    pub part: Part,
    /// Why.
    pub reason: SkipReason,
}

impl fmt::Display for FailedPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.part, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_say_what_to_do() {
        for (reason, told) in [
            (SkipReason::TooLarge { limit: 5 }, "larger than 5 bytes, the limit for a file (--max-file-bytes)"),
            (
                SkipReason::TextTooLarge { limit: 5 },
                "its text is longer than 5 bytes, the limit for the text of a file: split it into several files",
            ),
            (
                SkipReason::NotInEncoding { encoding: "Shift_JIS" },
                "not valid Shift_JIS, convert it to UTF-8 or send it with a media type that names its encoding, such as text/plain; charset=iso-8859-1",
            ),
        ] {
            assert_eq!(reason.to_string(), told);
        }
    }
}
