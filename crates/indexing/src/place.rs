//! Where chunks stand in a text.

/// A place in a text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// Code points before it.
    pub(crate) chars: usize,
    /// Line ends before it.
    pub(crate) lines: usize,
}

/// Tells the lines of places in a text, asked for in its order: O(text) for all of them together.
pub(crate) struct LineCounter<'t> {
    text: &'t str,
    counted_to: usize,
    line: usize,
}

impl<'t> LineCounter<'t> {
    /// Begins at the start of a text, in line 1.
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, counted_to: 0, line: 1 }
    }

    /// The line of a byte of the text, from 1. A place before one that was asked for counts as that one.
    pub(crate) fn line_of(&mut self, byte: usize) -> usize {
        if let Some(between) = self.text.get(self.counted_to..byte) {
            self.line += line_ends(between);
            self.counted_to = byte;
        }
        self.line
    }
}

/// Lines that a text is on, at least one: a line end is on the line that it ends.
pub(crate) fn lines_spanned(text: &str) -> usize {
    1 + line_ends(text.strip_suffix('\n').unwrap_or(text))
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_forwards() {
        let mut lines = LineCounter::new("a\nb\nc");
        assert_eq!([0, 2, 4, 3, 9].map(|byte| lines.line_of(byte)), [1, 2, 3, 3, 3]);
    }

    #[test]
    fn a_line_end_is_on_the_line_that_it_ends() {
        assert_eq!(["", "a", "a\n", "a\nb", "\n\n"].map(lines_spanned), [1, 1, 1, 2, 2]);
    }
}
