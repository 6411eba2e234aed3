//! Queries in an answer: one a line, or JSON, and whatever models put around them.
//!
//! LangChain takes each line that is not empty for a query, numbers, bullets and "Here are three versions:" included.

use serde_json::Value;

use super::{Said, find_object};

/// Longest query in bytes that is taken for one: what is longer is an essay.
const MAX_QUERY_BYTES: usize = 2048;

/// The form that is asked for: `{"queries": ["…"]}`.
pub(crate) const QUERIES_SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["queries"],
    "properties":{"queries":{"type":"array","items":{"type":"string"}}}}"#;

/// Words that begin what comes before a list.
const PREAMBLES: [&str; 8] = ["here are", "here is", "here's", "sure", "certainly", "of course", "okay", "below are"];

/// Words that a number may follow in the mark of an item: `Query 2:`.
const LABELS: [&str; 10] = [
    "query",
    "question",
    "standalone question",
    "version",
    "variant",
    "alternative",
    "sub-question",
    "subquestion",
    "sub-query",
    "subquery",
];

/// At most `most` different queries, in their order, none the same as one of `taken`.
pub(crate) fn queries(said: &Said, most: usize, taken: &[&str]) -> Vec<String> {
    let candidates = match find_object(&said.text).and_then(|mut object| object.remove("queries")) {
        Some(Value::Array(items)) => items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => serde_json::from_str(&said.text).unwrap_or_else(|_| in_lines(said)),
    };
    let mut found: Vec<String> = Vec::new();
    for candidate in candidates {
        let query = unquoted(candidate.trim());
        let is_new = !taken.iter().copied().chain(found.iter().map(String::as_str)).any(|own| same_query(own, query));
        if is_new && query.len() <= MAX_QUERY_BYTES && query.chars().any(char::is_alphanumeric) {
            found.push(query.to_owned());
        }
        if found.len() >= most {
            break;
        }
    }
    found
}

/// Are two queries the same but for letter case and white space?
pub(crate) fn same_query(left: &str, right: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>();
    plain(left) == plain(right)
}

fn in_lines(said: &Said) -> Vec<String> {
    if is_broken_json(&said.text) {
        return Vec::new();
    }
    let lines = said.text.lines().map(str::trim).filter(|line| !is_ornament(line));
    let mut lines: Vec<(bool, &str)> = lines.map(unmarked).filter(|(_, line)| !line.is_empty()).collect();
    if said.is_cut {
        // Its end is missing.
        lines.pop();
    }
    // Where items have marks, what has none is talk around them.
    let is_list = lines.iter().any(|(is_marked, _)| *is_marked);
    let is_item = |(is_marked, line): &(bool, &str)| if is_list { *is_marked } else { !is_preamble(line) };
    lines.into_iter().filter(is_item).map(|(_, line)| line.to_owned()).collect()
}

/// JSON that stopped in the middle, or that was no answer.
fn is_broken_json(text: &str) -> bool {
    let text = text.trim_start_matches("```json").trim_start_matches("```").trim_start();
    text.starts_with('{') || text.starts_with("[\"")
}

/// A fence of Markdown, a heading, or a rule.
fn is_ornament(line: &str) -> bool {
    let is_heading = line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
    is_heading || line.starts_with("```") || !line.chars().any(char::is_alphanumeric)
}

fn is_preamble(line: &str) -> bool {
    let lower = line.to_lowercase();
    line.ends_with([':', '：']) || PREAMBLES.iter().any(|begin| starts_with_word(&lower, begin) && !line.ends_with('?'))
}

fn starts_with_word(text: &str, word: &str) -> bool {
    let ends = |rest: &str| rest.chars().next().is_none_or(|next| next.is_whitespace() || ",.!:;".contains(next));
    text.strip_prefix(word).is_some_and(ends)
}

/// The line without the marks of a list, and whether it had any.
fn unmarked(line: &str) -> (bool, &str) {
    let mut rest = line;
    let mut is_marked = false;
    loop {
        if let Some(after) = without_mark(rest).or_else(|| without_emphasised_mark(rest)) {
            is_marked = true;
            rest = after.trim();
        } else if let Some(inner) = without_emphasis(rest) {
            rest = inner.trim();
        } else {
            break;
        }
    }
    (is_marked, rest)
}

/// `text` of `**1.** text`.
fn without_emphasised_mark(line: &str) -> Option<&str> {
    let (mark, after) = line.strip_prefix("**")?.split_once("**")?;
    let is_mark = without_mark(&format!("{mark} x")) == Some("x");
    (is_mark && !after.is_empty()).then_some(after)
}

/// `text` of `**text**`.
fn without_emphasis(line: &str) -> Option<&str> {
    line.strip_prefix("**")?.strip_suffix("**").filter(|inner| !inner.contains("**"))
}

/// Without one mark: a bullet, `1.`, `1)`, `(1)`, `a)`, `Q1:`, `Query 1:`.
fn without_mark(line: &str) -> Option<&str> {
    let bullet = line.strip_prefix(['-', '*', '•', '–', '—', '+', '·', '‣', '▪', '◦']);
    if let Some(after) = bullet.filter(|after| after.starts_with(char::is_whitespace)) {
        return Some(after.trim_start());
    }
    if let Some((inner, after)) = line.strip_prefix(['(', '[']).and_then(|rest| rest.split_once([')', ']'])) {
        return is_number(inner).then(|| after.trim_start());
    }
    let (label, after) = line.split_once(['.', ')', ':'])?;
    // `3.5 million` is no third item.
    if after.starts_with(|c: char| c.is_alphanumeric()) {
        return None;
    }
    let closes = line.get(label.len()..)?.chars().next()?;
    let label = label.to_lowercase();
    let is_letter = || closes == ')' && label.len() == 1 && label.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_named = || {
        let number = label.trim_start_matches(|c: char| !c.is_ascii_digit());
        let name = label.get(..label.len() - number.len()).unwrap_or_default().trim_end_matches([' ', '#']);
        // `Query: …` has no number.
        let is_numbered = is_number(number) || (number.is_empty() && closes == ':');
        is_numbered && (LABELS.contains(&name) || (name == "q" && !number.is_empty()))
    };
    (is_number(&label) || is_letter() || is_named()).then(|| after.trim_start())
}

/// One or two digits: more are a year.
fn is_number(text: &str) -> bool {
    (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Without the quotation marks around the whole text.
fn unquoted(text: &str) -> &str {
    const PAIRS: [(char, char); 7] =
        [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('‘', '’'), ('«', '»'), ('「', '」')];

    let trimmed = text.trim_end_matches([',', ';']);
    for (open, close) in PAIRS {
        if let Some(inner) = trimmed.strip_prefix(open).and_then(|rest| rest.strip_suffix(close))
            && !inner.contains([open, close])
        {
            return inner.trim();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said { text: text.to_owned(), is_cut: false }
    }

    #[test]
    fn lists_of_every_kind_are_the_same_queries() {
        for text in [
            "what is a toller?\nwhere do tollers live?",
            "1. what is a toller?\n2. where do tollers live?",
            "[\"what is a toller?\", \"where do tollers live?\"]",
            "## Queries\n- what is a toller?\n- where do tollers live?",
            "1) what is a toller?\r\n\r\n2) where do tollers live?",
            "(1) what is a toller?\n  \n(2) where do tollers live?",
            "[1] what is a toller?\n[2] where do tollers live?",
            "1: what is a toller?\n2: where do tollers live?",
            "a) what is a toller?\nb) where do tollers live?",
            "- what is a toller?\n- where do tollers live?",
            "* \"what is a toller?\"\n* \"where do tollers live?\"",
            "• “what is a toller?”\n• “where do tollers live?”",
            "- 1. what is a toller?\n- 2. where do tollers live?",
            "**1.** what is a toller?\n**2.** where do tollers live?",
            "1. **what is a toller?**\n2. **where do tollers live?**",
            "Query 1: what is a toller?\nQuery 2: where do tollers live?",
            "Q1: what is a toller?\nQ2. where do tollers live?",
            "**Sub-question 1:** what is a toller?\n**Sub-question 2:** where do tollers live?",
            "Here are 2 versions:\n\n1. what is a toller?\n2. where do tollers live?\n\nLet me know if you need more!",
            "Sure!\nwhat is a toller?\nwhere do tollers live?",
            "```\nwhat is a toller?\nwhere do tollers live?\n```",
            "1. what is a toller?\n2. What is  a Toller?\n3. where do tollers live?",
            r#"{"queries": ["what is a toller?", "", 7, "where do tollers live?"]}"#,
            "Here you go: ```json\n{\"queries\": [\"what is a toller?\", \"where do tollers live?\"]}\n```",
        ] {
            assert_eq!(queries(&said(text), 5, &[]), ["what is a toller?", "where do tollers live?"], "{text}");
        }
    }

    #[test]
    fn what_looks_like_a_mark_and_is_none_stays() {
        for text in [
            "3.5 million users in 2024",
            "2024. a year in review",
            "-5 degrees in Halifax",
            "C. elegans genome",
            "std::vec::Vec",
            "sure-footed dogs",
            "Rust: what is it?",
            "it's \"quoted\" and \"again\"",
            "\"a\" and \"b\"",
            "这是什么？",
        ] {
            assert_eq!(queries(&said(text), 5, &[]), [text], "{text}");
        }
    }

    #[test]
    fn nothing_usable_is_nothing() {
        for text in [
            "",
            "\n \n",
            "Here are the queries:",
            "```\n```",
            "---",
            "{\"queries\": [\"cut in the mi",
            "{\"queries\": 5}",
        ] {
            assert!(queries(&said(text), 5, &[]).is_empty(), "{text}");
        }
        let essay = "word ".repeat(1000);
        assert!(queries(&said(&essay), 5, &[]).is_empty());
    }

    #[test]
    fn they_are_bounded_and_none_is_taken() {
        let text = "1. a\n2. b\n3. c\n4. d";
        assert_eq!(queries(&said(text), 2, &["A"]), ["b", "c"]);
        let cut = Said { text: "1. a\n2. b\n3. how do to".to_owned(), is_cut: true };
        assert_eq!(queries(&cut, 5, &[]), ["a", "b"]);
    }
}
