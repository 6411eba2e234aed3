//! From texts at places on a page to lines of text.

/// A gap as wide as this part of the font's size is a space; those within words are at most half as wide.
const SPACE: f64 = 0.17;
/// What moves so far off the line, in parts of the font's size, is on another; less is a superscript.
const OTHER_LINE: f64 = 0.5;
/// Lines farther apart than this many times the font's size are of two paragraphs.
const PARAGRAPH: f64 = 1.9;
/// What begins this far before the end of what was written, in parts of the font's size, is a column of its own.
const BACK: f64 = 1.0;

/// A place on a page.
pub(super) type Point = (f64, f64);

/// Writes texts in the order in which a page draws them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    last: Option<Last>,
}

/// Where the last text ended.
#[derive(Debug, Clone, Copy)]
struct Last {
    end: Point,
    /// In which direction it was written, of length 1.
    direction: Point,
    size: f64,
}

impl Lines {
    /// A text from a place to another, in a font of a size.
    pub(super) fn write(&mut self, text: &str, start: Point, end: Point, size: f64) {
        if text.is_empty() || !size.is_finite() || size <= 0.0 {
            return;
        }
        if let Some(last) = self.last {
            self.separate(last, start, size.max(last.size), text);
        }
        for character in text.chars() {
            self.push(character);
        }
        let length = (end.0 - start.0).hypot(end.1 - start.1);
        let direction = match self.last {
            _ if length > 0.0 => ((end.0 - start.0) / length, (end.1 - start.1) / length),
            Some(last) => last.direction,
            None => (1.0, 0.0),
        };
        self.last = Some(Last { end, direction, size });
    }

    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The text, without spaces at the ends of its lines.
    pub(super) fn finish(self) -> String {
        let mut text = String::with_capacity(self.text.len());
        for line in self.text.trim_end().lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.trim_matches(crate::whitespace::is_space).to_owned()
    }

    fn separate(&mut self, last: Last, start: Point, size: f64, text: &str) {
        let moved = (start.0 - last.end.0, start.1 - last.end.1);
        let along = moved.0 * last.direction.0 + moved.1 * last.direction.1;
        let across = (moved.0 * last.direction.1 - moved.1 * last.direction.0).abs();
        // A place that is no number is no place.
        if !(along.is_finite() && across.is_finite()) {
            return;
        }
        if across > PARAGRAPH * size {
            self.text.push_str("\n\n");
        } else if across > OTHER_LINE * size || along < -BACK * size {
            self.text.push('\n');
        } else if along > SPACE * size && !self.text.ends_with([' ', '\n']) && !text.starts_with(' ') {
            self.text.push(' ');
        }
    }

    fn push(&mut self, character: char) {
        match character {
            'ﬀ' => self.text.push_str("ff"),
            'ﬁ' => self.text.push_str("fi"),
            'ﬂ' => self.text.push_str("fl"),
            'ﬃ' => self.text.push_str("ffi"),
            'ﬄ' => self.text.push_str("ffl"),
            'ﬅ' | 'ﬆ' => self.text.push_str("st"),
            '\u{a0}' => self.text.push(' '),
            '\u{ad}' => self.text.push('-'),
            // Places make lines, not characters.
            control if control.is_control() => self.text.push(' '),
            other => self.text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(texts: &[(&str, Point, Point)]) -> String {
        let mut lines = Lines::default();
        for (text, start, end) in texts {
            lines.write(text, *start, *end, 10.0);
        }
        lines.finish()
    }

    #[test]
    fn gaps_are_spaces_and_kerning_is_none() {
        let places = [
            ("To", (0.0, 0.0), (10.0, 0.0)),
            ("ll", (10.5, 0.0), (15.0, 0.0)),
            ("er", (14.0, 0.0), (20.0, 0.0)),
            ("dog", (22.5, 0.0), (40.0, 0.0)),
            (" 2", (43.0, 4.0), (50.0, 4.0)),
        ];
        assert_eq!(joined(&places), "Toller dog 2");
    }

    #[test]
    fn lines_paragraphs_and_columns() {
        let places = [
            ("one", (0.0, 100.0), (20.0, 100.0)),
            ("two ", (0.0, 88.0), (20.0, 88.0)),
            ("three", (0.0, 60.0), (20.0, 60.0)),
            ("right", (300.0, 60.0), (320.0, 60.0)),
            ("back", (0.0, 60.0), (20.0, 60.0)),
        ];
        assert_eq!(joined(&places), "one\ntwo\n\nthree right\nback");
    }

    #[test]
    fn text_may_run_upwards() {
        let places =
            [("up", (0.0, 0.0), (0.0, 10.0)), ("wards", (0.0, 13.0), (0.0, 40.0)), ("next", (12.0, 0.0), (12.0, 20.0))];
        assert_eq!(joined(&places), "up wards\nnext");
    }

    #[test]
    fn ligatures_are_letters_and_controls_are_spaces() {
        assert_eq!(joined(&[("ﬁne\u{a0}eﬃ\0ort", (0.0, 0.0), (1.0, 0.0))]), "fine effi ort");
    }

    #[test]
    fn places_that_are_no_numbers_do_no_harm() {
        assert_eq!(joined(&[("a", (f64::NAN, 0.0), (f64::INFINITY, 0.0)), ("b", (0.0, 0.0), (1.0, 0.0))]), "ab");
    }
}
