//! JSON in an answer: alone, in a fence of Markdown, or with prose around it.

use serde_json::{Deserializer, Map, Value};

/// How many opening braces are tried: prose has few.
const MOST_TRIES: usize = 64;

/// The first JSON object in `text` that is whole. O(length · tries).
pub(crate) fn find_object(text: &str) -> Option<Map<String, Value>> {
    let starts = text.match_indices('{').take(MOST_TRIES);
    starts.filter_map(|(start, _)| text.get(start..)).find_map(|rest| {
        match Deserializer::from_str(rest).into_iter::<Value>().next() {
            Some(Ok(Value::Object(object))) => Some(object),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_wherever_it_is() {
        for text in [
            r#"{"a": {"b": 1}}"#,
            "```json\n{\"a\": {\"b\": 1}}\n```",
            r#"Sure! Here {is} it: {"a": {"b": 1}} Anything else?"#,
        ] {
            let object = find_object(text).unwrap();
            assert_eq!(object["a"]["b"], 1, "{text}");
        }
        for text in ["", "no JSON", "[1, 2]", r#"{"a": {"b""#, "{}{", &"{".repeat(100_000)] {
            assert!(find_object(text).is_none_or(|object| object.is_empty()), "{text:.20}");
        }
    }
}
