//! Where the values of a JSON text stand.

use std::ops::Range;

use crate::error::Error;
use crate::json::scan::{pointer_token, string_end};
use crate::title::MAX_TITLE_BYTES;

/// Deepest nesting of arrays and objects.
pub(crate) const MAX_JSON_DEPTH: usize = 128;

/// A value of a JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonValue {
    /// Where it begins as a member of its parent: with its key, where it has one.
    pub(crate) cut: usize,
    /// Byte after its last.
    pub(crate) end: usize,
    /// Arrays and objects around it.
    pub(crate) depth: usize,
    /// What leads to it from its parent; none for the whole.
    step: Option<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    parent: usize,
    name: Name,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// The key's bytes, quotes included.
    Key(Range<usize>),
    Index(usize),
}

/// The values of a JSON text in its order, so that a value comes before those within it.
#[derive(Debug)]
pub(crate) struct JsonOutline<'t> {
    text: &'t str,
    pub(crate) values: Vec<JsonValue>,
}

/// An array or object whose end has not come yet.
struct Open {
    value: usize,
    is_object: bool,
    members: usize,
}

impl<'t> JsonOutline<'t> {
    /// Finds the values. O(text); no recursion.
    ///
    /// # Errors
    /// When the text is not JSON, with line and column, or is nested deeper than [`MAX_JSON_DEPTH`].
    pub(crate) fn new(text: &'t str) -> Result<Self, Error> {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|fault| Error::InvalidJson(fault.to_string()))?;
        // The text is valid: what follows need only tell the tokens apart.
        let mut outline = Self { text, values: Vec::new() };
        let mut open: Vec<Open> = Vec::new();
        let mut key = None;
        let mut at = 0;
        while let Some(byte) = text.as_bytes().get(at) {
            let end = match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => at + 1,
                b'}' | b']' => {
                    let ended = open.pop().and_then(|ended| outline.values.get_mut(ended.value));
                    if let Some(ended) = ended {
                        ended.end = at + 1;
                    }
                    at + 1
                }
                b'"' => {
                    let end = string_end(text, at);
                    if key.is_none() && open.last().is_some_and(|around| around.is_object) {
                        key = Some(at..end);
                    } else {
                        outline.begin(&mut open, key.take(), at..end);
                    }
                    end
                }
                b'{' | b'[' => {
                    let value = outline.begin(&mut open, key.take(), at..at + 1);
                    open.push(Open { value, is_object: *byte == b'{', members: 0 });
                    if open.len() > MAX_JSON_DEPTH {
                        return Err(Error::InvalidJson(format!("nested deeper than {MAX_JSON_DEPTH} at byte {at}")));
                    }
                    at + 1
                }
                _ => {
                    let end = scalar_end(text, at);
                    outline.begin(&mut open, key.take(), at..end);
                    end
                }
            };
            at = end;
        }
        Ok(outline)
    }

    fn begin(&mut self, open: &mut [Open], key: Option<Range<usize>>, bytes: Range<usize>) -> usize {
        let cut = key.as_ref().map_or(bytes.start, |key| key.start);
        let depth = open.len();
        let step = open.last_mut().map(|around| {
            let name = key.map_or(Name::Index(around.members), Name::Key);
            around.members += 1;
            Step { parent: around.value, name }
        });
        self.values.push(JsonValue { cut, end: bytes.end, depth, step });
        self.values.len() - 1
    }

    /// Where members begin, by depth, the outermost first; but the first of each array and object, which stays with its bracket.
    pub(crate) fn joints(&self) -> Vec<Vec<usize>> {
        let mut levels: Vec<Vec<usize>> = Vec::new();
        let mut previous_depth = 0;
        for value in self.values.iter().filter(|value| value.depth > 0) {
            let is_first = value.depth > previous_depth;
            previous_depth = value.depth;
            if levels.len() < value.depth {
                levels.resize(value.depth, Vec::new());
            }
            if let Some(level) = levels.get_mut(value.depth - 1)
                && !is_first
            {
                level.push(value.cut);
            }
        }
        levels
    }

    /// The pointer (RFC 6901) of the first value that lies wholly within these bytes, else of the first that begins there.
    pub(crate) fn pointer_within(&self, bytes: &Range<usize>) -> Option<String> {
        let first = self.values.partition_point(|value| value.cut < bytes.start);
        let begun = || self.values.iter().enumerate().skip(first).take_while(|(_, value)| value.cut < bytes.end);
        let (index, _) = begun().find(|(_, value)| value.end <= bytes.end).or_else(|| begun().next())?;
        Some(self.pointer(index))
    }

    fn pointer(&self, index: usize) -> String {
        let mut names = Vec::new();
        let mut value = self.values.get(index);
        while let Some(step) = value.and_then(|value| value.step.as_ref()) {
            names.push(&step.name);
            value = self.values.get(step.parent);
        }
        let mut pointer = String::new();
        for name in names.into_iter().rev() {
            // What is cut off anyway is not made, since it would be made for every chunk.
            if pointer.len() > MAX_TITLE_BYTES {
                break;
            }
            pointer.push('/');
            match name {
                Name::Index(index) => pointer.push_str(&index.to_string()),
                Name::Key(bytes) => {
                    let written = self.text.get(bytes.start + 1..bytes.end - 1).unwrap_or_default();
                    let written = written.get(..beginning(written)).unwrap_or_default();
                    // Half of a surrogate pair is no text: such a key is named as it is written.
                    let key = serde_json::from_str(&format!("\"{written}\"")).unwrap_or_else(|_| written.to_owned());
                    pointer.push_str(&pointer_token(&key));
                }
            }
        }
        pointer
    }
}

/// How much of a key, as it is written, says more than [`MAX_TITLE_BYTES`] bytes; all of it where it is shorter. Escapes stay whole, though
/// not always both of a pair.
fn beginning(written: &str) -> usize {
    let mut characters = written.char_indices();
    while let Some((at, character)) = characters.next() {
        // What takes the most to write takes six bytes for one.
        if at > 6 * MAX_TITLE_BYTES {
            return at;
        }
        if character == '\\'
            && let Some((_, 'u')) = characters.next()
        {
            characters.by_ref().take(4).for_each(drop);
        }
    }
    written.len()
}

/// The byte after the number or word that begins at `start`.
fn scalar_end(text: &str, start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let length = rest.find([' ', '\t', '\r', '\n', ',', ']', '}']).unwrap_or(rest.len());
    start + length.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_with_their_pointers() {
        let text = r#" {"a": [1, "x,]\"", {"b/~": null}], "é": {}, "c":-1.5e3 }"#;
        let outline = JsonOutline::new(text).unwrap();
        let seen: Vec<(String, &str)> = outline
            .values
            .iter()
            .enumerate()
            .skip(1)
            .map(|(index, value)| (outline.pointer(index), &text[value.cut..value.end]))
            .collect();
        let expected = [
            ("/a", r#""a": [1, "x,]\"", {"b/~": null}]"#),
            ("/a/0", "1"),
            ("/a/1", r#""x,]\"""#),
            ("/a/2", r#"{"b/~": null}"#),
            ("/a/2/b~1~0", r#""b/~": null"#),
            ("/é", r#""é": {}"#),
            ("/c", r#""c":-1.5e3"#),
        ]
        .map(|(pointer, value)| (pointer.to_owned(), value));
        assert_eq!(seen, expected);
        assert_eq!(outline.values[0].end, text.len());
    }

    #[test]
    fn first_members_stay_with_their_brackets() {
        let outline = JsonOutline::new("[1,[2,3],[4],{},5]").unwrap();
        assert_eq!(outline.joints(), [vec![3, 9, 13, 16], vec![6]]);
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        let fault = JsonOutline::new("[1,").unwrap_err().to_string();
        assert_eq!(fault, "not valid JSON: EOF while parsing a value at line 1 column 3");
        assert!(JsonOutline::new("[1] 2").is_err() && JsonOutline::new("").is_err());
        let deep = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(JsonOutline::new(&deep(MAX_JSON_DEPTH)).is_ok());
        let fault = JsonOutline::new(&deep(100_000)).unwrap_err().to_string();
        assert_eq!(fault, "not valid JSON: nested deeper than 128 at byte 128");
    }
}
