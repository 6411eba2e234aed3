//! Places in a JSON text, found without a tree: the text is known to be JSON, so that strings and brackets say everything.

use std::ops::Range;

/// Where the entries of lists and maps begin, by how deep they are: those of the outermost first, `levels` of them. An entry of a
/// map begins with its name. O(n), without recursion.
pub(super) fn entries_by_depth(json: &str, levels: usize) -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new(); levels];
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0_usize, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(json, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if matches!(byte, b'[' | b'{' | b',') {
            let begins = skip_space(json, at);
            let is_entry = !matches!(bytes.get(begins), None | Some(b']' | b'}'));
            if is_entry && let Some(places) = depth.checked_sub(1).and_then(|level| places.get_mut(level)) {
                places.push(begins);
            }
        }
    }
    places
}

/// Where the value of a JSON pointer begins; none when there is none. O(n · length of the pointer) at most.
pub(super) fn at_pointer(json: &str, pointer: &str) -> Option<usize> {
    let mut place = skip_space(json, 0);
    for token in pointer.split('/').skip(1) {
        let mut entries = Entries::of(json, place)?;
        place = loop {
            let entry = entries.next(json)?;
            if entry.token == token {
                break entry.value.start;
            }
        };
    }
    Some(place)
}

/// The bytes of the value that begins at a place.
pub(super) fn value(json: &str, start: usize) -> Option<Range<usize>> {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match bytes.get(at) {
            Some(b'"') => at = string_end(json, at),
            Some(b'[' | b'{') => (at, depth) = (at + 1, depth + 1),
            Some(b']' | b'}') => (at, depth) = (at + 1, depth.checked_sub(1)?),
            Some(_) if depth > 0 => {
                at += 1;
                continue;
            }
            // A number or a name ends with what cannot be of it.
            Some(_) => {
                let rest = bytes.get(at..)?;
                let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n');
                at += rest.iter().position(ends).unwrap_or(rest.len());
            }
            None => return None,
        }
        if depth == 0 {
            return Some(start..at);
        }
    }
}

/// An entry of a list or map.
pub(super) struct Entry {
    /// Its number or name, as JSON pointers have it.
    pub(super) token: String,
    pub(super) value: Range<usize>,
}

/// Walks through the entries of a list or map; all of them together take as long as reading it once.
pub(super) struct Entries {
    at: usize,
    is_map: bool,
    number: usize,
}

impl Entries {
    /// Those of the value that begins at a place; none when it is no list or map.
    pub(super) fn of(json: &str, start: usize) -> Option<Self> {
        let is_map = match json.as_bytes().get(start)? {
            b'{' => true,
            b'[' => false,
            _ => return None,
        };
        Some(Self { at: start + 1, is_map, number: 0 })
    }

    pub(super) fn next(&mut self, json: &str) -> Option<Entry> {
        let bytes = json.as_bytes();
        let mut at = skip_space(json, self.at);
        if bytes.get(at) == Some(&b',') {
            at = skip_space(json, at + 1);
        }
        if matches!(bytes.get(at)?, b']' | b'}') {
            return None;
        }
        let token = if self.is_map {
            let name = json.get(at..string_end(json, at))?;
            at = skip_space(json, at + name.len());
            // Past the colon.
            at = skip_space(json, at + 1);
            let name: String = serde_json::from_str(name).ok()?;
            pointer_token(&name)
        } else {
            self.number.to_string()
        };
        let value = value(json, at)?;
        self.at = value.end;
        self.number += 1;
        Some(Entry { token, value })
    }
}

fn skip_space(json: &str, at: usize) -> usize {
    let rest = json.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// A name as JSON pointers have it.
pub(crate) fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Past the closing quote of the string that begins at a place.
pub(crate) fn string_end(json: &str, start: usize) -> usize {
    let bytes = json.as_bytes();
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\\[\\]{},:\"\\\\/~a ü]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[\\[{\"\\\\/~aü]{0,3}", inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    /// Every pointer into a value, with what it points to.
    fn pointers(value: &Value, prefix: &str, found: &mut Vec<(String, Value)>) {
        found.push((prefix.to_owned(), value.clone()));
        match value {
            Value::Array(items) => {
                for (number, item) in items.iter().enumerate() {
                    pointers(item, &format!("{prefix}/{number}"), found);
                }
            }
            Value::Object(entries) => {
                for (name, item) in entries {
                    let token = name.replace('~', "~0").replace('/', "~1");
                    pointers(item, &format!("{prefix}/{token}"), found);
                }
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn pointers_find_what_serde_json_finds(json in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) }.unwrap();
            let mut all = Vec::new();
            pointers(&json, "", &mut all);
            for (pointer, expected) in all {
                let place = at_pointer(&text, &pointer).unwrap();
                let range = value(&text, place).unwrap();
                prop_assert_eq!(serde_json::from_str::<Value>(&text[range]).unwrap(), expected);
            }
        }

        #[test]
        fn entries_of_the_first_level_are_those_of_the_value(json in any_json()) {
            let text = serde_json::to_string_pretty(&json).unwrap();
            let count = match &json {
                Value::Array(items) => items.len(),
                Value::Object(entries) => entries.len(),
                _ => 0,
            };
            prop_assert_eq!(entries_by_depth(&text, 3)[0].len(), count);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}", start in 0..50_usize) {
            entries_by_depth(&text, 2);
            value(&text, start);
            at_pointer(&text, "/a/0");
        }
    }
}
