//! Which routes a language model names.

use serde_json::Value;

use crate::language_model::{Said, find_object};

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Places of the routes, in the order of the answer, each once; none when the answer says that none fits.
    pub(super) positions: Vec<usize>,
    /// How many names the answer has that no route has.
    pub(super) unknown: usize,
}

/// Reads `{"routes": ["a", "b"]}`, or names alone: one a line, or with commas between them. NONE is none.
///
/// # Errors
/// Says what is wrong; continues "the answer …".
pub(super) fn read(said: &Said, names: &[&str]) -> Result<Chosen, String> {
    if said.is_cut {
        return Err("was cut".to_owned());
    }
    let (named, is_json) = match find_object(&said.text) {
        Some(mut object) => match object.remove("routes") {
            Some(Value::String(name)) => (vec![name], true),
            Some(Value::Array(items)) => (items.into_iter().map(shown).collect(), true),
            _ => return Err("has no list of routes".to_owned()),
        },
        None => (in_text(&said.text), false),
    };
    let mut positions: Vec<usize> = Vec::new();
    let mut unknown = 0;
    for name in &named {
        match position(name, names) {
            Some(position) if positions.contains(&position) => {}
            Some(position) => positions.push(position),
            None => unknown += 1,
        }
    }
    let says_none = match (is_json, named.as_slice()) {
        (true, []) => true,
        (_, [only]) => only.eq_ignore_ascii_case("none"),
        _ => false,
    };
    if positions.is_empty() && !says_none {
        return Err("names no route".to_owned());
    }
    Ok(Chosen { unknown: if says_none { 0 } else { unknown }, positions })
}

fn shown(item: Value) -> String {
    match item {
        Value::String(name) => name,
        other => other.to_string(),
    }
}

/// The pieces between line ends and commas, without bullets and quotation marks.
fn in_text(text: &str) -> Vec<String> {
    let pieces = text.split(['\n', ',']).map(|piece| {
        piece.trim().trim_start_matches(['-', '*', '•', '[']).trim_matches(['"', '\'', '`', '*', '.', ']', ' '])
    });
    pieces.filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

/// The route of that name; where no name is the same to the letter, the first one in another case.
fn position(name: &str, names: &[&str]) -> Option<usize> {
    let name = name.trim();
    let same = names.iter().position(|known| *known == name);
    same.or_else(|| names.iter().position(|known| known.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["docs", "news", "Docs", "v1.2"];

    fn answer(text: &str) -> Result<Chosen, String> {
        read(&Said { text: text.to_owned(), is_cut: false }, &NAMES)
    }

    #[test]
    fn names_are_read_from_every_form() {
        for text in [
            r#"{"routes": ["news", "docs"]}"#,
            r#"Sure: ```json {"routes": ["news", "docs", "news"]}```"#,
            "news, docs",
            "- news\n- docs\n",
            "**news**\n`docs`",
            r#"["news", "docs"]"#,
            "NEWS\ndocs.",
        ] {
            assert_eq!(answer(text), Ok(Chosen { positions: vec![1, 0], unknown: 0 }), "{text}");
        }
        assert_eq!(answer(r#"{"routes": "v1.2"}"#).unwrap().positions, [3]);
        assert_eq!(answer("Docs").unwrap().positions, [2], "to the letter before any case");
        for text in [r#"{"routes": []}"#, r#"{"routes": ["none"]}"#, "NONE", "none."] {
            assert_eq!(answer(text), Ok(Chosen { positions: vec![], unknown: 0 }), "{text}");
        }
    }

    #[test]
    fn what_is_no_choice_is_told() {
        let chosen = answer(r#"{"routes": ["web", "news", 7]}"#).unwrap();
        assert_eq!(chosen, Chosen { positions: vec![1], unknown: 2 });
        for (text, expected) in [
            ("", "names no route"),
            ("I would search the news.", "names no route"),
            (r#"{"routes": ["web"]}"#, "names no route"),
            (r#"{"routes": 1}"#, "has no list of routes"),
            (r#"{"places": ["news"]}"#, "has no list of routes"),
            (r#"{"routes": ["news""#, "names no route"),
        ] {
            assert_eq!(answer(text), Err(expected.to_owned()), "{text}");
        }
        let cut = Said { text: "news".to_owned(), is_cut: true };
        assert_eq!(read(&cut, &NAMES), Err("was cut".to_owned()), "it may have been newspapers");
    }
}
