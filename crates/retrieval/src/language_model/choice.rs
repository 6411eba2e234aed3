//! Answers that choose: yes or no, or some of what was numbered.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Said, find_object};

/// A yes or a no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Yes,
    No,
    /// Neither, or both.
    Unreadable,
}

/// Reads YES, NO or `{"key": true}`. A first word decides; else the one of the two that the text has.
pub(crate) fn verdict(said: &Said, key: &str) -> Verdict {
    if let Some(Value::Bool(is_yes)) = find_object(&said.text).and_then(|mut object| object.remove(key)) {
        return if is_yes { Verdict::Yes } else { Verdict::No };
    }
    let words: Vec<String> = said.text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
    let mut words = words.iter().map(String::as_str).filter(|word| !word.is_empty()).peekable();
    match words.peek() {
        Some(&"yes") => return Verdict::Yes,
        Some(&"no") => return Verdict::No,
        _ => {}
    }
    let found: BTreeSet<&str> = words.filter(|word| matches!(*word, "yes" | "no")).collect();
    match (found.contains("yes"), found.contains("no")) {
        (true, false) => Verdict::Yes,
        (false, true) => Verdict::No,
        _ => Verdict::Unreadable,
    }
}

/// Some of what was numbered from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Positions from 0, in the order of the answer, each once.
    pub(crate) positions: Vec<usize>,
    /// Did the answer name numbers that there are not?
    pub(crate) has_unknown: bool,
}

/// Reads numbers out of `{"key": [2, 1]}`, a list, or a text; NONE is none of them. What was numbered is `count` items. None for an
/// answer without numbers, or one that stopped in the middle.
pub(crate) fn numbers(said: &Said, key: &str, count: usize) -> Option<Choice> {
    if said.is_cut {
        return None;
    }
    let named = match find_object(&said.text) {
        Some(mut object) => in_json(&object.remove(key)?)?,
        None if says_none(&said.text) => Vec::new(),
        None => {
            let named = in_text(&said.text);
            if named.is_empty() {
                return (said.text == "[]").then(|| Choice { positions: Vec::new(), has_unknown: false });
            }
            named
        }
    };
    let mut seen = BTreeSet::new();
    let known = |number: &Option<usize>| number.and_then(|number| number.checked_sub(1)).filter(|at| *at < count);
    let positions: Vec<usize> = named.iter().filter_map(known).filter(|position| seen.insert(*position)).collect();
    let has_unknown = named.iter().any(|number| known(number).is_none());
    // Numbers of something else are no choice.
    (named.is_empty() || !positions.is_empty()).then_some(Choice { positions, has_unknown })
}

/// The numbers of a list; none within for one that is no whole number.
fn in_json(value: &Value) -> Option<Vec<Option<usize>>> {
    let number = |item: &Value| match item {
        Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    Some(value.as_array()?.iter().map(number).collect())
}

/// The runs of digits; none within for one that is too long.
fn in_text(text: &str) -> Vec<Option<usize>> {
    let runs = text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.map(|run| run.parse().ok()).collect()
}

/// NONE, NO_OUTPUT and their like, with words after it or not.
fn says_none(text: &str) -> bool {
    let word: String = text.chars().skip_while(|c| !c.is_alphanumeric()).take_while(|c| is_of_word(*c)).collect();
    matches!(word.to_lowercase().as_str(), "none" | "no_output" | "nothing")
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said { text: text.to_owned(), is_cut: false }
    }

    #[test]
    fn yes_and_no_are_told_apart() {
        for (text, expected) in [
            ("YES", Verdict::Yes),
            ("no.", Verdict::No),
            ("Yes, because there is no better one", Verdict::Yes),
            ("**No**: yes would be wrong", Verdict::No),
            ("The answer is: YES", Verdict::Yes),
            (r#"{"relevant": false}"#, Verdict::No),
            (r#"```json {"relevant": true, "why": "no other"}```"#, Verdict::Yes),
            ("Relevant? yes or no", Verdict::Unreadable),
            ("nothing known yesterday", Verdict::Unreadable),
            ("", Verdict::Unreadable),
            (r#"{"relevant": "maybe"}"#, Verdict::Unreadable),
        ] {
            assert_eq!(verdict(&said(text), "relevant"), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_from_every_form() {
        let read = |text: &str| numbers(&said(text), "ranking", 4).map(|choice| choice.positions);
        for text in [
            r#"{"ranking": [3, 1]}"#,
            r#"{"ranking": ["3", 1, 3]}"#,
            "[3, 1]",
            "3, 1",
            "3\n1",
            "[3] > [1]",
            "Sentences 3 and 1 are relevant.",
            "```json\n{\"ranking\":[3,1]}\n```",
        ] {
            assert_eq!(read(text), Some(vec![2, 0]), "{text}");
        }
        for text in ["NONE", "none of the 4", "NO_OUTPUT.", "no_output", r#"{"ranking": []}"#, "[]"] {
            assert_eq!(read(text), Some(vec![]), "{text}");
        }
        for text in ["", "relevant", r#"{"ranking": 3}"#, r#"{"order": [3]}"#, "9", "99999999999999999999999", "0"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_that_there_are_not_are_left_out_and_told() {
        let choice = numbers(&said(r#"{"ranking": [9, 2, -1, 1.5, null]}"#), "ranking", 4).unwrap();
        assert_eq!(choice, Choice { positions: vec![1], has_unknown: true });
        let cut = Said { text: "1, 1".to_owned(), is_cut: true };
        assert_eq!(numbers(&cut, "ranking", 40), None, "the last one may have been 12");
    }
}
