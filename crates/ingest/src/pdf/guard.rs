//! What a reader of PDF objects has to be protected from, looked for in the bytes before they are read.

use std::cell::Cell;

use lopdf::Object;

use crate::skip::SkipReason;

/// Largest number that a file may give for the width of a table or of the rows of a predictor: readers reserve as much.
const MAX_WIDTH: u64 = 1 << 20;
/// Bytes that all object streams together may come to.
const OBJECT_STREAM_BYTES: usize = 256 << 20;
/// Bytes that one object stream may come to, and what it may have however many there are.
const ONE_OBJECT_STREAM_BYTES: (usize, usize) = (64 << 10, 8 << 20);
/// Most words outside of streams: each may become an object of a hundred bytes.
const MAX_WORDS: usize = 3 << 20;
/// Objects are read once for each time that a table names them, and some are packed; all that is read may come to so many
/// times the file.
const READINGS: usize = 3;
/// What small files may have beyond that, since their objects may be packed tightly.
const LEAST_BYTES: usize = 32 << 20;
/// Bytes of encrypted objects that may be copied: a minute or so.
const MAX_COPIED_BYTES: usize = 100 << 30;
/// An object's share of memory in bytes of a file, however short it is written.
const OBJECT_BYTES: usize = 8;

/// How far a list of widths is followed.
const LOOKED_AT: usize = 4096;

/// What was found.
pub(super) struct Guard {
    object_streams: usize,
}

impl Guard {
    /// Reads the bytes once. O(n).
    ///
    /// # Errors
    /// When no real file has such.
    pub(super) fn look(bytes: &[u8]) -> Result<Self, SkipReason> {
        let mut object_streams = 0_usize;
        let mut words = 0_usize;
        let mut in_stream = false;
        let mut is_encrypted = false;
        let mut at = 0_usize;
        while let Some(byte) = bytes.get(at) {
            let rest = bytes.get(at..).unwrap_or_default();
            if in_stream {
                // Far from it, the next place to look at is found quickly.
                match rest.iter().position(|byte| *byte == b'e') {
                    None => break,
                    Some(skipped) => at += skipped,
                }
                let rest = bytes.get(at..).unwrap_or_default();
                if rest.starts_with(b"endstream") {
                    in_stream = false;
                    at += b"endstream".len();
                } else {
                    at += 1;
                }
                continue;
            }
            match byte {
                b'/' => {
                    words += 1;
                    let (name, length) = name(rest);
                    at += length;
                    match name.as_slice() {
                        b"ObjStm" | b"XRef" => object_streams += 1,
                        b"Encrypt" => is_encrypted = true,
                        b"W" | b"Columns" | b"Colors" | b"BitsPerComponent"
                            if has_impossible_widths(bytes.get(at..).unwrap_or_default()) =>
                        {
                            return Err(SkipReason::PdfTooComplex);
                        }
                        _ => {}
                    }
                    continue;
                }
                b's' if rest.starts_with(b"stream") => {
                    in_stream = true;
                    at += b"stream".len();
                    continue;
                }
                b' ' | b'\t' | b'\r' | b'\n' | b'[' | b'<' | b'(' => words += 1,
                _ => {}
            }
            at += 1;
        }
        if words > MAX_WORDS || (is_encrypted && copies_too_much(bytes)) {
            return Err(SkipReason::PdfTooComplex);
        }
        Ok(Self { object_streams })
    }

    /// Each may have its share.
    pub(super) fn most_bytes_of_an_object_stream(&self) -> usize {
        let (least, most) = ONE_OBJECT_STREAM_BYTES;
        (OBJECT_STREAM_BYTES / self.object_streams.max(1)).clamp(least, most)
    }
}

/// Of encrypted files each object is copied up to its end, for each row of the table that names it, before it is counted: may that
/// come to more than the file is worth? O(n).
fn copies_too_much(bytes: &[u8]) -> bool {
    // Objects that began and have not ended, the sum of the places where they began, and the first of those.
    let (mut open, mut begins, mut first) = (0_usize, 0_usize, None);
    let (mut copied, mut longest, mut rows) = (0_usize, 0_usize, 0_usize);
    for (place, window) in bytes.windows(4).enumerate() {
        match window {
            b"dobj" => {
                copied = copied.saturating_add(open.saturating_mul(place).saturating_sub(begins));
                longest = longest.max(first.map_or(0, |first| place - first));
                (open, begins, first) = (0, 0, None);
            }
            [_, b'o', b'b', b'j'] => {
                open += 1;
                begins = begins.saturating_add(place);
                first = first.or(Some(place));
            }
            [b'0'..=b'9', b' ', b'n', b' ' | b'\r' | b'\n'] => rows += 1,
            _ => {}
        }
    }
    copied = copied.saturating_add(open.saturating_mul(bytes.len()).saturating_sub(begins));
    longest = longest.max(first.map_or(0, |first| bytes.len() - first));
    copied > bytes.len().saturating_mul(READINGS).saturating_add(LEAST_BYTES)
        || rows.saturating_mul(longest) > MAX_COPIED_BYTES
}

/// The name that begins here, its escapes resolved as far as names that matter go, and how many bytes it takes.
fn name(bytes: &[u8]) -> (Vec<u8>, usize) {
    const LONGEST: usize = 20;
    let mut name = Vec::new();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_whitespace() || b"/[]<>(){}%\0".contains(byte) || name.len() == LONGEST {
            break;
        }
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) if *byte == b'#' => {
                name.push(escaped);
                at += 3;
            }
            _ => {
                name.push(*byte);
                at += 1;
            }
        }
    }
    (name, at)
}

/// Is the number that begins here, or one of the list, larger than any width? Or are all of a list nothing, so that a table
/// could have any number of rows without a byte?
fn has_impossible_widths(bytes: &[u8]) -> bool {
    let (mut widest, mut number, mut numbers) = (0_u64, 0_u64, 0_usize);
    let mut in_comment = false;
    let mut before = b' ';
    for byte in bytes.iter().take(LOOKED_AT) {
        match byte {
            b'\r' | b'\n' => in_comment = false,
            _ if in_comment => continue,
            b'%' => in_comment = true,
            b'0'..=b'9' => {
                if !before.is_ascii_digit() {
                    number = 0;
                    numbers += 1;
                }
                number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
                widest = widest.max(number);
            }
            b' ' | b'\t' | 0 | 12 | b'[' | b'+' | b'-' => {}
            b']' => return widest > MAX_WIDTH || (widest == 0 && numbers >= 3),
            _ => break,
        }
        before = *byte;
    }
    widest > MAX_WIDTH
}

thread_local! {
    /// What the objects of the file that this thread reads may still come to.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Begins to count for a file of so many bytes.
pub(super) fn begin(file_bytes: usize) {
    LEFT.set(file_bytes.saturating_mul(READINGS).saturating_add(LEAST_BYTES));
}

/// Counts an object that was read; false when there were too many.
pub(super) fn admits(object: &Object) -> bool {
    let left = LEFT.get().checked_sub(weight(object));
    LEFT.set(left.unwrap_or(0));
    left.is_some()
}

/// About the bytes that it took to write. Objects are nested a hundred deep at most.
fn weight(object: &Object) -> usize {
    let within = match object {
        Object::Array(items) => items.iter().map(weight).sum::<usize>(),
        Object::Dictionary(dictionary) => entries(dictionary),
        Object::Stream(stream) => entries(&stream.dict).saturating_add(stream.content.len()),
        Object::String(bytes, _) | Object::Name(bytes) => bytes.len(),
        _ => 0,
    };
    within.saturating_add(OBJECT_BYTES)
}

fn entries(dictionary: &lopdf::Dictionary) -> usize {
    dictionary.iter().map(|(name, value)| name.len().saturating_add(weight(value))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuses(bytes: &[u8]) -> bool {
        matches!(Guard::look(bytes), Err(SkipReason::PdfTooComplex))
    }

    #[test]
    fn widths_that_no_file_has_are_refused() {
        assert!(!refuses(b"<< /Type /XRef /W [1 4 2] >>"));
        assert!(!refuses(b"<< /W 12 0 R /Columns 612 >>"));
        assert!(refuses(b"<< /W [1 1000000000000 2] >>"));
        assert!(refuses(b"<</#57[1 99999999999999999999999999 2]>>"));
        assert!(refuses(b"<< /W [0 0 0] >>"));
        assert!(refuses(b"<< /W%[1\n[+0 -0%1\r0 ] >>"));
        assert!(!refuses(b"<< /W [0 0 500] /Columns 0 >>"));
        assert!(refuses(b"<< /DecodeParms << /Columns 2000000000 >> >>"));
        assert!(!refuses(b"stream /Columns 2000000000 endstream"));
        assert!(refuses(b"stream x endstream /Columns 2000000000"));
    }

    #[test]
    fn object_streams_share_what_there_is() {
        let most =
            |count: usize| Guard::look(&b"/Type/ObjStm ".repeat(count)).unwrap().most_bytes_of_an_object_stream();
        assert_eq!(most(0), 8 << 20);
        assert_eq!(most(64), 4 << 20);
        assert_eq!(most(100_000), 64 << 10);
        let escaped = Guard::look(&b"/Type/#4fbjStm ".repeat(64)).unwrap();
        assert_eq!(escaped.most_bytes_of_an_object_stream(), 4 << 20);
    }

    #[test]
    fn words_are_counted_outside_of_streams() {
        let many = b"1 ".repeat(MAX_WORDS + 1);
        assert!(refuses(&many));
        assert!(!refuses(&[b"stream\n".as_slice(), &many].concat()));
    }

    #[test]
    fn encrypted_objects_have_an_end() {
        let objects = |object: &str, count| format!("/Encrypt {}", object.repeat(count)).into_bytes();
        assert!(!refuses(&objects("1 0 obj <<>> endobj\n", 20_000)));
        assert!(refuses(&objects("1 0 obj <<>>\n", 20_000)));
        assert!(!refuses(&b"1 0 obj <<>>\n".repeat(20_000)), "those are not copied");
        let large = format!("1 0 obj ({}) endobj", "x".repeat(4 << 20));
        let rows = "0000000000 00000 n \n";
        assert!(!refuses(&objects(&(large.clone() + &rows.repeat(10)), 1)));
        assert!(refuses(&objects(&(large + &rows.repeat(50_000)), 1)));
    }

    #[test]
    fn readings_are_counted() {
        begin(10);
        let text = |length| Object::String(vec![0; length], lopdf::StringFormat::Literal);
        assert!(admits(&Object::Array(vec![text(LEAST_BYTES), Object::Null])));
        assert!(!admits(&Object::Null));
    }
}
