//! The messages of `POST /v1/embeddings`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// How an answer carries its vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncodingFormat {
    /// Little-endian f32 in base64: a quarter of the bytes, and exact.
    #[default]
    Base64,
    /// JSON numbers, for services that know nothing else.
    Float,
}

#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) input: &'a [String],
    pub(super) encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dimensions: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    data: Vec<Item>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Item {
    index: usize,
    embedding: Values,
}

/// Whichever encoding the service chose: some ignore the one that was asked for.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Values {
    Base64(String),
    Float(Vec<f32>),
}

#[derive(Debug, Deserialize)]
struct Usage {
    prompt_tokens: Option<u32>,
}

/// What an answer says.
#[derive(Debug, PartialEq)]
pub(super) struct Embedded {
    /// In the order of the texts.
    pub(super) vectors: Vec<Vec<f32>>,
    /// Of all texts together, where the service says it.
    pub(super) tokens: Option<u32>,
}

/// Reads the answer for `texts` texts. The order of its items says nothing; their indices do.
///
/// # Errors
/// Says what is wrong; continues "it answered …".
pub(super) fn read(body: &[u8], texts: usize) -> Result<Embedded, String> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|fault| format!("what is no list of embeddings: {fault}"))?;
    if answer.data.len() != texts {
        return Err(format!("{} embeddings for {texts} texts", answer.data.len()));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for Item { index, embedding } in answer.data {
        let Some(slot) = vectors.get_mut(index) else {
            return Err(format!("an embedding with index {index} for {texts} texts"));
        };
        let values = match embedding {
            Values::Float(values) => values,
            Values::Base64(text) => {
                let bytes =
                    STANDARD.decode(text).map_err(|fault| format!("broken base64 at index {index}: {fault}"))?;
                let (numbers, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(format!("{} bytes at index {index}, which are no numbers", bytes.len()));
                }
                numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
            }
        };
        if slot.replace(values).is_some() {
            return Err(format!("two embeddings with index {index}"));
        }
    }
    let tokens = answer.usage.and_then(|usage| usage.prompt_tokens);
    // As many as there are slots, and none twice: all are filled.
    Ok(Embedded { vectors: vectors.into_iter().flatten().collect(), tokens })
}

/// What a body says about an error: `{"error": {"message": …, "code": …}}`, or its beginning where it is something else.
pub(super) fn read_error(body: &[u8]) -> (String, Option<String>) {
    const MOST_CHARACTERS: usize = 300;

    #[derive(Deserialize)]
    struct Body {
        error: Fault,
    }
    #[derive(Deserialize)]
    struct Fault {
        message: String,
        #[serde(default)]
        code: serde_json::Value,
    }
    let (message, code) = match serde_json::from_slice::<Body>(body) {
        Ok(Body { error }) => (error.message, error.code.as_str().map(str::to_owned)),
        Err(_) => (String::from_utf8_lossy(body).trim().to_owned(), None),
    };
    (message.chars().take(MOST_CHARACTERS).collect(), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_are_read_in_any_order() {
        let packed = STANDARD.encode([1.5_f32.to_le_bytes(), (-0.25_f32).to_le_bytes()].concat());
        let body = format!(
            r#"{{"object":"list","data":[{{"index":1,"embedding":[0.5,1e-3]}},{{"index":0,"embedding":"{packed}"}}],
                "model":"m","usage":{{"prompt_tokens":7,"total_tokens":7}}}}"#
        );
        let expected = Embedded { vectors: vec![vec![1.5, -0.25], vec![0.5, 1e-3]], tokens: Some(7) };
        assert_eq!(read(body.as_bytes(), 2), Ok(expected));
        assert_eq!(read(br#"{"data":[]}"#, 0), Ok(Embedded { vectors: vec![], tokens: None }));
    }

    #[test]
    fn malformed_answers_are_told_apart() {
        let cases = [
            ("<html>", "no list of embeddings"),
            (r#"{"data":[{"index":0,"embedding":[NaN]}]}"#, "no list"),
            (r#"{"data":[{"index":0,"embedding":[null]}]}"#, "no list"),
            (r#"{"data":[{"embedding":[1]}]}"#, "no list"),
            (r#"{"data":[]}"#, "0 embeddings for 1 texts"),
            (r#"{"data":[{"index":1,"embedding":[1]}]}"#, "index 1 for 1"),
            (r#"{"data":[{"index":0,"embedding":"AAA"}]}"#, "base64"),
            (r#"{"data":[{"index":0,"embedding":"AAAA"}]}"#, "3 bytes"),
        ];
        for (body, expected) in cases {
            let fault = read(body.as_bytes(), 1).unwrap_err();
            assert!(fault.contains(expected), "{body}: {fault}");
        }
        let twice = r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#;
        assert_eq!(read(twice.as_bytes(), 2), Err("two embeddings with index 0".to_owned()));
    }

    #[test]
    fn errors_are_read_from_json_or_shown_in_part() {
        let json = br#"{"error":{"message":"no money","type":"x","code":"insufficient_quota"}}"#;
        assert_eq!(read_error(json), ("no money".to_owned(), Some("insufficient_quota".to_owned())));
        assert_eq!(read_error(br#"{"error":{"message":"no","code":null}}"#), ("no".to_owned(), None));
        assert_eq!(read_error(b" Bad Gateway\n"), ("Bad Gateway".to_owned(), None));
        assert_eq!(read_error(&[b'x'; 5000]).0.len(), 300);
    }
}
