//! Files that were not used, and why.

use std::fmt;

/// Why a file or folder was not used.
#[derive(Debug)]
#[non_exhaustive]
pub enum SkipReason {
    /// Its extension is none of ours; only within a folder, since a file that is named is always tried.
    Unsupported,
    /// Its name begins with a dot; only within a folder. A folder counts once, whatever is in it.
    Hidden,
    /// Its name is not Unicode, so it has no name to be known by.
    NameNotUnicode,
    /// The operating system refused it.
    Unreadable(std::io::Error),
    /// It is a pipe, a device or a socket.
    NotAFile,
    /// A symbolic link that leads back to a folder it is in.
    SymlinkLoop,
    /// It is larger than admitted.
    TooLarge {
        /// The most that is admitted, in bytes.
        limit: u64,
    },
    /// It holds no text, or whitespace only.
    Empty,
    /// It holds a NUL character, which text does not.
    Binary,
    /// It is not UTF-8 and has no byte order mark that says UTF-16.
    InvalidUtf8 {
        /// Offset of the first wrong byte in the file.
        at: usize,
    },
    /// Its byte order mark says UTF-16, but a surrogate or a byte lacks its other half.
    InvalidUtf16,
}

impl SkipReason {
    /// Is it in the nature of folders to hold such things? Then nothing went wrong.
    pub fn is_expected(&self) -> bool {
        matches!(self, Self::Unsupported | Self::Hidden)
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => formatter.write_str("not a .md, .markdown, .txt, .text or .rst file"),
            Self::Hidden => formatter.write_str("hidden"),
            Self::NameNotUnicode => formatter.write_str("its name is not valid Unicode, rename it"),
            Self::Unreadable(fault) => write!(formatter, "cannot be read: {fault}"),
            Self::NotAFile => formatter.write_str("not a regular file"),
            Self::SymlinkLoop => formatter.write_str("a symbolic link to a folder it is in"),
            Self::TooLarge { limit } => write!(formatter, "larger than {limit} bytes"),
            Self::Empty => formatter.write_str("empty"),
            Self::Binary => formatter.write_str("binary: it holds a NUL character"),
            Self::InvalidUtf8 { at } => {
                write!(
                    formatter,
                    "not valid UTF-8 at byte {at}, convert it to UTF-8 (or UTF-16 with a byte order mark)"
                )
            }
            Self::InvalidUtf16 => formatter.write_str("not valid UTF-16, convert it to UTF-8"),
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
