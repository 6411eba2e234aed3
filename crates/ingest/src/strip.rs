//! What is taken off the ends of chunks.

use crate::whitespace;

/// What is taken off the ends of a chunk. Chunks of nothing but whitespace are dropped whenever anything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strip {
    /// Nothing.
    Nothing,
    /// Whitespace, as Python's `str.strip` does.
    Whitespace,
    /// Whitespace at the end, and blank lines at the beginning: the first line keeps its indentation, which code needs.
    BlankLines,
}

impl Strip {
    /// All whitespace, or nothing.
    pub(crate) fn whitespace(strip: bool) -> Self {
        if strip { Self::Whitespace } else { Self::Nothing }
    }

    /// Bytes of `part` to take off its beginning and its end; none when it is dropped whole. `after` is the character before it.
    pub(crate) fn ends(self, part: &str, after: Option<char>) -> Option<(usize, usize)> {
        if self == Self::Nothing {
            return Some((0, 0));
        }
        let leading = whitespace::leading(part);
        if leading == part.len() {
            return None;
        }
        let blank = part.get(..leading).unwrap_or_default();
        let from_start = match (self, blank.rfind('\n')) {
            (Self::BlankLines, Some(line_end)) => line_end + 1,
            (Self::BlankLines, None) if after.is_none_or(|character| character == '\n') => 0,
            _ => leading,
        };
        Some((from_start, whitespace::trailing(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_keeps_the_indentation_of_its_first_line() {
        for (part, after, whitespace, blank_lines) in [
            (" \n\n  a b \n", None, Some((5, 2)), Some((3, 2))),
            ("  a", Some('\n'), Some((2, 0)), Some((0, 0))),
            ("  a", Some('x'), Some((2, 0)), Some((2, 0))),
            (" \n ", None, None, None),
        ] {
            assert_eq!(Strip::Whitespace.ends(part, after), whitespace, "{part:?}");
            assert_eq!(Strip::BlankLines.ends(part, after), blank_lines, "{part:?}");
            assert_eq!(Strip::Nothing.ends(part, after), Some((0, 0)));
        }
    }
}
