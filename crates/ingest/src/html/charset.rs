//! The encoding that a page says it is in.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, X_USER_DEFINED};
use html5gum::{DefaultEmitter, Token, Tokenizer};

use super::attribute;

/// Where pages have to say it, after the standard; some say it a little later.
const LOOKED_AT: usize = 4096;

/// The encoding of the first `meta` that names one; none when there is none. O(1).
pub(crate) fn charset(html: &[u8]) -> Option<&'static Encoding> {
    let start = html.get(..LOOKED_AT).unwrap_or(html);
    // The names are ASCII in all encodings that can be named.
    let start = String::from_utf8_lossy(start);
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    for token in Tokenizer::new_with_emitter(start.as_ref(), emitter) {
        let Ok(Token::StartTag(tag)) = token else {
            continue;
        };
        if tag.name.as_slice() != b"meta" {
            continue;
        }
        let label = attribute(&tag, b"charset").or_else(|| {
            let content = attribute(&tag, b"content")?;
            let is_type = attribute(&tag, b"http-equiv")?.eq_ignore_ascii_case(b"content-type");
            is_type
                .then(|| std::str::from_utf8(content).ok().and_then(crate::format::charset_of))
                .flatten()
                .map(str::as_bytes)
        });
        if let Some(encoding) = label.and_then(Encoding::for_label_no_replacement) {
            // A page whose first bytes could be read so far is in no such encoding.
            let cannot_be = [UTF_16LE, UTF_16BE, X_USER_DEFINED].contains(&encoding);
            return Some(if cannot_be { UTF_8 } else { encoding });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metas_name_encodings() {
        for (html, name) in [
            ("<meta charset=koi8-r>", Some("KOI8-R")),
            ("<meta http-equiv='Content-Type' content='text/html; charset=Shift_JIS'>", Some("Shift_JIS")),
            ("<META CHARSET=utf-16>", Some("UTF-8")),
            ("<meta charset=none><meta charset=gbk>", Some("GBK")),
            ("<!-- <meta charset=gbk> --><script>'<meta charset=gbk>'</script>", None),
            ("<meta name=charset content='text/html; charset=gbk'>", None),
        ] {
            assert_eq!(charset(html.as_bytes()).map(Encoding::name), name, "{html}");
        }
    }
}
