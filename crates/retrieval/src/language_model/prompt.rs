//! Prompts with placeholders in braces, checked when they are declared and filled when they are used.

/// Longest prompt in bytes.
const MAX_PROMPT_BYTES: usize = 32_768;

/// What a retriever's prompt is made of.
pub(crate) struct PromptForm {
    /// The prompt where none is given.
    pub(crate) default: &'static str,
    /// Placeholders that must be in it.
    pub(crate) required: &'static [&'static str],
    /// Placeholders that may be in it.
    pub(crate) optional: &'static [&'static str],
}

/// A prompt in its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prompt(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Placeholder(&'static str),
}

impl Prompt {
    /// Reads `text`: `{name}` is a placeholder, `{{` and `}}` are braces. O(length).
    ///
    /// # Errors
    /// Every fault.
    pub(super) fn parse(form: &PromptForm, text: &str) -> Result<Self, Vec<String>> {
        if text.len() > MAX_PROMPT_BYTES {
            return Err(vec![format!("must be at most {MAX_PROMPT_BYTES} bytes long, got {}", text.len())]);
        }
        let known = || form.required.iter().chain(form.optional);
        let mut faults = Vec::new();
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(position) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(position);
            plain.push_str(before);
            if let Some(after) = brace.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = brace.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else if let Some((name, after)) = brace.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                match known().find(|known| **known == name) {
                    Some(known) => {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                        parts.push(Part::Placeholder(known));
                    }
                    None => faults.push(format!(
                        "has an unknown placeholder {}; it may have {}, and writes braces as {{{{ and }}}}",
                        shown(name),
                        listed(known())
                    )),
                }
                rest = after;
            } else {
                faults.push("has a brace that stands alone; write {{ or }} for a brace".to_owned());
                rest = brace.get(1..).unwrap_or_default();
            }
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));

        let is_missing =
            |name: &&&str| !parts.iter().any(|part| matches!(part, Part::Placeholder(own) if own == *name));
        for name in form.required.iter().filter(is_missing) {
            faults.push(format!("must have the placeholder {{{name}}}"));
        }
        if faults.is_empty() { Ok(Self(parts)) } else { Err(faults) }
    }

    /// The prompt with `values` in its placeholders; one without a value is empty. What is filled in is not read again.
    pub(super) fn filled(&self, values: &[(&str, &str)]) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Placeholder(name) => {
                let value = values.iter().find(|(given, _)| given == name);
                value.map(|(_, value)| (*value).to_owned()).unwrap_or_default()
            }
        };
        self.0.iter().map(text).collect()
    }
}

/// A name that somebody wrote, cut where it is long.
fn shown(name: &str) -> String {
    const MOST_CHARACTERS: usize = 40;

    format!("{:?}", name.chars().take(MOST_CHARACTERS).collect::<String>())
}

fn listed<'a>(names: impl Iterator<Item = &'a &'static str>) -> String {
    names.map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: PromptForm = PromptForm { default: "", required: &["query"], optional: &["history"] };

    #[test]
    fn placeholders_are_filled_once() {
        let prompt = Prompt::parse(&FORM, "{{\"q\": {query}}} {history}{query}").unwrap();
        let filled = prompt.filled(&[("query", "{history}"), ("history", "h ")]);
        assert_eq!(filled, "{\"q\": {history}} h {history}");
        assert_eq!(prompt.filled(&[("query", "x")]), "{\"q\": x} x");
    }

    #[test]
    fn every_fault_is_told() {
        for (text, expected) in [
            ("{query} {topic}", vec!["unknown placeholder \"topic\"; it may have {query}, {history}"]),
            ("nothing", vec!["must have the placeholder {query}"]),
            ("{query} {", vec!["stands alone"]),
            ("} {query}", vec!["stands alone"]),
            ("{ query }", vec!["unknown placeholder \" query \"", "must have"]),
            ("{\"query\": 1}", vec!["unknown placeholder", "must have"]),
        ] {
            let faults = Prompt::parse(&FORM, text).unwrap_err();
            assert_eq!(faults.len(), expected.len(), "{text}: {faults:?}");
            assert!(faults.iter().zip(expected).all(|(fault, expected)| fault.contains(expected)), "{faults:?}");
        }
        assert!(Prompt::parse(&FORM, &"{query}".repeat(5000)).unwrap_err().concat().contains("at most 32768 bytes"));
    }
}
