//! What the streams of this process are: a terminal or a pipe, how wide, with or without colours; and talk on stderr.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write as _};

/// Columns where standard output is no terminal.
const DEFAULT_WIDTH: u16 = 100;

/// How to lay out text for standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Columns.
    pub(crate) width: u16,
    /// May escape sequences be used?
    pub(crate) colours: bool,
}

impl Look {
    /// For this process's standard output.
    pub(crate) fn of_stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR");
        let term = std::env::var_os("TERM");
        Self {
            width: comfy_table::Table::new().width().unwrap_or(DEFAULT_WIDTH),
            colours: is_terminal && allows_colours(no_color.as_deref(), term.as_deref()),
        }
    }

    /// For a file or pipe of [`DEFAULT_WIDTH`] columns.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { width: DEFAULT_WIDTH, colours: false }
    }

    /// `text` in `style`, where colours are allowed.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Faint => "2",
            Style::Fault => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Names and headers.
    Bold,
    /// What may be overlooked.
    Faint,
    /// What went wrong.
    Fault,
}

/// no-color.org: NO_COLOR forbids colours when it is set and not empty.
fn allows_colours(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

/// Writes a line to stderr; a closed stderr is nobody's loss (`eprintln!` would panic).
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// `text` on one line and safe to print: runs of white space become one space, control characters (which could steer the
/// terminal) are dropped, and what is longer than `max_chars` ends in an ellipsis. O(max_chars) for long texts.
pub(crate) fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let printable = word.chars().filter(|character| !is_steering(*character));
        let mut is_first = true;
        for character in printable {
            let needs_space = is_first && length > 0;
            if length + 1 + usize::from(needs_space) > max_chars {
                // Room for the ellipsis.
                line.pop();
                line.truncate(line.trim_end().len());
                line.push('…');
                return line;
            }
            if needs_space {
                line.push(' ');
                length += 1;
            }
            line.push(character);
            length += 1;
            is_first = false;
        }
    }
    line
}

/// The last `max_chars` characters, after an ellipsis where something was cut: of a path, the end says most.
pub(crate) fn tail(text: &str, max_chars: usize) -> String {
    let length = text.chars().count();
    if length <= max_chars {
        return text.to_owned();
    }
    let kept = text.chars().skip(length - max_chars.saturating_sub(1));
    std::iter::once('…').chain(kept).take(max_chars).collect()
}

/// Control characters, and the invisible ones that reorder what follows them (Unicode Standard Annex 9).
fn is_steering(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_color_counts_when_it_is_not_empty() {
        assert!(allows_colours(None, None));
        assert!(allows_colours(Some(OsStr::new("")), Some(OsStr::new("xterm"))));
        assert!(!allows_colours(Some(OsStr::new("1")), None));
        assert!(!allows_colours(None, Some(OsStr::new("dumb"))));
    }

    #[test]
    fn lines_are_joined_cut_and_harmless() {
        assert_eq!(one_line("a\n\n b\tc ", 20), "a b c");
        assert_eq!(one_line("\u{1b}[31mred\u{202e}", 20), "[31mred");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("abcd efgh", 6), "abcd…");
        assert_eq!(one_line("", 6), "");
    }

    #[test]
    fn the_tail_of_a_path_is_kept() {
        assert_eq!(tail("docs/a.md", 9), "docs/a.md");
        assert_eq!(tail("docs/a.md", 5), "…a.md");
        assert_eq!(tail("日本語", 2), "…語");
        assert_eq!((tail("ab", 1).as_str(), tail("ab", 0).as_str()), ("…", ""));
    }

    #[test]
    fn paint_is_plain_without_colours() {
        assert_eq!(Look::plain().paint(Style::Bold, "x"), "x");
        assert_eq!(Look { colours: true, ..Look::plain() }.paint(Style::Bold, "x"), "\x1b[1mx\x1b[0m");
    }

    proptest! {
        #[test]
        fn one_line_never_exceeds_its_length(text in any::<String>(), max_chars in 1_usize..30) {
            let line = one_line(&text, max_chars);
            prop_assert!(line.chars().count() <= max_chars, "{:?}", line);
            prop_assert!(!line.chars().any(is_steering));
        }
    }
}
