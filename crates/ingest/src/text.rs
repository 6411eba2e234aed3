//! From the bytes of a file to text, whatever its encoding.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};

use crate::skip::SkipReason;
use crate::whitespace;

/// What is known of a file's encoding before its bytes are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Charset {
    /// The caller says so.
    Exactly(&'static Encoding),
    /// The file says so of itself; valid UTF-8 counts for more.
    Probably(&'static Encoding),
    /// Nothing.
    Unknown,
}

/// A text, and where it is from.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) text: String,
    /// The name of the encoding; none when it is UTF-8.
    pub(crate) encoding: Option<&'static str>,
}

/// Decodes a text file. The byte order mark is no part of the text, so that offset 0 is the first character.
///
/// A byte order mark decides; then what the caller says; then whether the bytes are UTF-8; then what the file says; and at last
/// the statistics of its bytes, as browsers have them. Nothing is replaced: what is not valid is refused. UTF-8 is checked in
/// place; other encodings need a second buffer. O(n).
pub(crate) fn decode(bytes: Vec<u8>, charset: Charset) -> Result<Decoded, SkipReason> {
    let decoded = decode_any(bytes, charset)?;
    if decoded.text.contains('\0') {
        return Err(SkipReason::Binary);
    }
    if whitespace::is_blank(&decoded.text) {
        return Err(SkipReason::Empty);
    }
    Ok(decoded)
}

fn decode_any(mut bytes: Vec<u8>, charset: Charset) -> Result<Decoded, SkipReason> {
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => return decode_utf16(rest, UTF_16LE),
        [0xfe, 0xff, rest @ ..] => return decode_utf16(rest, UTF_16BE),
        _ => {}
    }
    let mark = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    bytes.drain(..mark);
    match charset {
        Charset::Exactly(encoding) if mark == 0 && encoding != UTF_8 => return decode_as(&bytes, encoding),
        // Its text is ASCII, so it looks like UTF-8.
        Charset::Probably(encoding) if encoding == ISO_2022_JP && bytes.contains(&0x1b) => {
            return decode_as(&bytes, encoding);
        }
        _ => {}
    }
    // A binary file is seldom valid UTF-8, and "binary" says more.
    if bytes.contains(&0) {
        return Err(SkipReason::Binary);
    }
    let (bytes, valid_to) = match String::from_utf8(bytes) {
        Ok(text) => return Ok(Decoded { text, encoding: None }),
        Err(fault) => {
            let valid_to = fault.utf8_error().valid_up_to();
            (fault.into_bytes(), valid_to)
        }
    };
    if looks_binary(&bytes) {
        return Err(SkipReason::Binary);
    }
    let is_called_utf8 = matches!(charset, Charset::Exactly(encoding) if encoding == UTF_8);
    if mark > 0 || is_called_utf8 || is_damaged_utf8(&bytes) {
        return Err(SkipReason::InvalidUtf8 { at: mark + valid_to });
    }
    match charset {
        Charset::Probably(encoding) if encoding != UTF_8 => decode_as(&bytes, encoding),
        _ => decode_as(&bytes, guess(&bytes)),
    }
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny)
}

fn decode_as(bytes: &[u8], encoding: &'static Encoding) -> Result<Decoded, SkipReason> {
    if encoding == UTF_16LE || encoding == UTF_16BE {
        return decode_utf16(bytes, encoding);
    }
    match encoding.decode_without_bom_handling_and_without_replacement(bytes) {
        Some(text) => Ok(Decoded { text: text.into_owned(), encoding: Some(encoding.name()) }),
        None => Err(SkipReason::NotInEncoding { encoding: encoding.name() }),
    }
}

fn decode_utf16(bytes: &[u8], encoding: &'static Encoding) -> Result<Decoded, SkipReason> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SkipReason::InvalidUtf16);
    }
    let unit = if encoding == UTF_16LE { u16::from_le_bytes } else { u16::from_be_bytes };
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<String, _>>();
    text.map(|text| Decoded { text, encoding: Some(encoding.name()) }).map_err(|_| SkipReason::InvalidUtf16)
}

/// Is more than one byte in a hundred a control character that texts do not have? Of random bytes every tenth is.
fn looks_binary(bytes: &[u8]) -> bool {
    let is_control = |byte: &&u8| matches!(**byte, 0..=8 | 14..=26 | 28..=31 | 127);
    bytes.iter().filter(is_control).count() > bytes.len() / 100
}

/// Is it UTF-8 but for a few bytes? Texts in other encodings hardly ever have sequences that UTF-8 has too.
fn is_damaged_utf8(bytes: &[u8]) -> bool {
    let (mut whole, mut broken) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        whole += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    whole > broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(mark_and_text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        mark_and_text.encode_utf16().flat_map(bytes).collect()
    }

    fn decode_unknown(bytes: &[u8]) -> Result<Decoded, SkipReason> {
        decode(bytes.to_vec(), Charset::Unknown)
    }

    #[test]
    fn every_encoding_of_unicode_gives_the_same_text() {
        let text = "naïve 👍🏽\n";
        let marked = format!("\u{feff}{text}");
        for (bytes, encoding) in [
            (text.as_bytes().to_vec(), None),
            (marked.as_bytes().to_vec(), None),
            (utf16(&marked, u16::to_le_bytes), Some("UTF-16LE")),
            (utf16(&marked, u16::to_be_bytes), Some("UTF-16BE")),
        ] {
            let decoded = decode_unknown(&bytes).unwrap();
            assert_eq!((decoded.text.as_str(), decoded.encoding), (text, encoding));
        }
    }

    #[test]
    fn older_encodings_are_told_by_their_bytes() {
        for (label, text) in [
            ("windows-1252", "Der Fluß trägt Müll über Köln – „nicht schön“, sagte er am Abend."),
            ("windows-1251", "Собака приносит палку, которую бросил хозяин, и ждёт похвалы."),
            ("shift_jis", "犬は投げられた棒を取って来る。そして褒められるのを待つ。"),
            ("gbk", "狗把主人扔出去的棍子捡回来，然后等着被表扬。"),
            ("euc-kr", "개는 주인이 던진 막대기를 물어 온다. 그리고 칭찬을 기다린다."),
        ] {
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            let decoded = decode_unknown(&encoding.encode(text).0).unwrap();
            assert_eq!((decoded.text.as_str(), decoded.encoding), (text, Some(encoding.name())));
        }
    }

    #[test]
    fn what_the_caller_says_counts_and_what_the_file_says_is_a_hint() {
        let koi8 = Encoding::for_label(b"koi8-r").unwrap();
        let bytes = koi8.encode("да").0.into_owned();
        for charset in [Charset::Exactly(koi8), Charset::Probably(koi8)] {
            let decoded = decode(bytes.clone(), charset).unwrap();
            assert_eq!((decoded.text.as_str(), decoded.encoding), ("да", Some("KOI8-R")));
        }
        let utf8 = "да".as_bytes().to_vec();
        assert_eq!(decode(utf8.clone(), Charset::Probably(koi8)).unwrap().text, "да");
        assert_eq!(decode(utf8, Charset::Exactly(koi8)).unwrap().text, koi8.decode("да".as_bytes()).0);
        let without_mark = utf16("да", u16::to_be_bytes);
        assert_eq!(decode(without_mark, Charset::Exactly(UTF_16BE)).unwrap().text, "да");
        let japanese = b"\x1b$B8$\x1b(B".to_vec();
        assert_eq!(decode(japanese, Charset::Probably(ISO_2022_JP)).unwrap().text, "犬");
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert!(matches!(decode_unknown(b"PK\x03\x04\0\xff"), Err(SkipReason::Binary)));
        let noise: Vec<u8> = (0..2000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 16) as u8 | 1).collect();
        assert!(matches!(decode_unknown(&noise), Err(SkipReason::Binary)));
        assert!(matches!(decode_unknown(&utf16("\u{feff}a\0b", u16::to_le_bytes)), Err(SkipReason::Binary)));
        assert!(matches!(decode_unknown(b"\xef\xbb\xbfcaf\xe9"), Err(SkipReason::InvalidUtf8 { at: 6 })));
        assert!(matches!(
            decode_unknown("é è ê \u{e0}".as_bytes().split_last().unwrap().1),
            Err(SkipReason::InvalidUtf8 { at: 9 })
        ));
        assert!(matches!(decode(b"caf\xe9".to_vec(), Charset::Exactly(UTF_8)), Err(SkipReason::InvalidUtf8 { at: 3 })));
        assert!(matches!(decode_unknown(b"\xff\xfea"), Err(SkipReason::InvalidUtf16)));
        assert!(matches!(decode_unknown(b"\xfe\xff\xd8\x00\x00a"), Err(SkipReason::InvalidUtf16)));
        let shift_jis = Encoding::for_label(b"shift_jis").unwrap();
        assert!(matches!(
            decode(b"a\xff\xff".to_vec(), Charset::Exactly(shift_jis)),
            Err(SkipReason::NotInEncoding { encoding: "Shift_JIS" })
        ));
    }

    #[test]
    fn no_text_is_empty() {
        for bytes in [&b""[..], b"\xef\xbb\xbf", b"\xff\xfe", b" \r\n\t\x1c"] {
            assert!(matches!(decode_unknown(bytes), Err(SkipReason::Empty)), "{bytes:?}");
        }
    }
}
