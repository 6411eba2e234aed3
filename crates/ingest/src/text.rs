//! From the bytes of a file to text: UTF-8, with or without a byte order mark, or UTF-16 with one.

use crate::skip::SkipReason;
use crate::whitespace;

/// Decodes a text file. The byte order mark is no part of the text, so that offset 0 is the first character.
///
/// UTF-8 is checked in place; UTF-16 needs a second buffer.
pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<String, SkipReason> {
    let text = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => decode_utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => decode_utf16(rest, u16::from_be_bytes)?,
        _ => {
            let mark = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            bytes.drain(..mark);
            // A binary file is seldom valid UTF-8, and "binary" says more.
            if bytes.contains(&0) {
                return Err(SkipReason::Binary);
            }
            String::from_utf8(bytes)
                .map_err(|fault| SkipReason::InvalidUtf8 { at: mark + fault.utf8_error().valid_up_to() })?
        }
    };
    if text.contains('\0') {
        return Err(SkipReason::Binary);
    }
    if text.chars().all(whitespace::is_space) {
        return Err(SkipReason::Empty);
    }
    Ok(text)
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, SkipReason> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SkipReason::InvalidUtf16);
    }
    char::decode_utf16(pairs.iter().map(|pair| unit(*pair)))
        .collect::<Result<_, _>>()
        .map_err(|_| SkipReason::InvalidUtf16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(mark_and_text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        mark_and_text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn every_encoding_gives_the_same_text() {
        let text = "naïve 👍🏽\n";
        let marked = format!("\u{feff}{text}");
        for bytes in [
            text.as_bytes().to_vec(),
            marked.as_bytes().to_vec(),
            utf16(&marked, u16::to_le_bytes),
            utf16(&marked, u16::to_be_bytes),
        ] {
            assert_eq!(decode(bytes).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert!(matches!(decode(b"PK\x03\x04\0\xff".to_vec()), Err(SkipReason::Binary)));
        assert!(matches!(decode(utf16("\u{feff}a\0b", u16::to_le_bytes)), Err(SkipReason::Binary)));
        assert!(matches!(decode(b"caf\xe9 noir".to_vec()), Err(SkipReason::InvalidUtf8 { at: 3 })));
        assert!(matches!(decode(b"\xef\xbb\xbfcaf\xe9".to_vec()), Err(SkipReason::InvalidUtf8 { at: 6 })));
        assert!(matches!(decode(b"\xff\xfea".to_vec()), Err(SkipReason::InvalidUtf16)));
        assert!(matches!(decode(b"\xfe\xff\xd8\x00\x00a".to_vec()), Err(SkipReason::InvalidUtf16)));
    }

    #[test]
    fn no_text_is_empty() {
        for bytes in [&b""[..], b"\xef\xbb\xbf", b"\xff\xfe", b" \r\n\t\x1c"] {
            assert!(matches!(decode(bytes.to_vec()), Err(SkipReason::Empty)), "{bytes:?}");
        }
    }
}
