//! The words of content streams and of character maps, one by one: nothing is nested, so nothing is recursive.

use std::ops::Range;

/// A word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word<'b> {
    Number(f64),
    Name(Vec<u8>),
    Text(Vec<u8>),
    ListStart,
    ListEnd,
    /// An operator, or anything else that is written in letters.
    Operator(&'b [u8]),
}

/// Reads words. Marks of dictionaries and what is no word are passed over. O(n) for all words together.
pub(super) struct Lexer<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Lexer<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Past the end of an image whose bytes stand in the content, after its operator `BI` was read.
    pub(super) fn skip_image(&mut self) {
        let ends =
            |window: &[u8]| matches!(window, [before, b'E', b'I', after] if is_space(*before) && is_space(*after));
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.windows(4).position(ends).map_or(rest.len(), |place| place + 3);
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn slice(&self, range: Range<usize>) -> &'b [u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// The bytes from here that are no delimiter and no space.
    fn regular(&mut self) -> &'b [u8] {
        let start = self.at;
        while self.peek(0).is_some_and(|byte| !is_space(byte) && !is_delimiter(byte)) {
            self.at += 1;
        }
        self.slice(start..self.at)
    }

    /// A text in parentheses; the opening one was read.
    fn literal(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut depth = 0_usize;
        while let Some(byte) = self.peek(0) {
            self.at += 1;
            match byte {
                b'(' => depth += 1,
                b')' if depth == 0 => return text,
                b')' => depth -= 1,
                b'\\' => {
                    self.escape(&mut text);
                    continue;
                }
                _ => {}
            }
            text.push(byte);
        }
        text
    }

    /// What follows a backslash.
    fn escape(&mut self, text: &mut Vec<u8>) {
        let Some(byte) = self.peek(0) else {
            return;
        };
        self.at += 1;
        match byte {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'\n' => {}
            b'\r' => self.at += usize::from(self.peek(0) == Some(b'\n')),
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    match self.peek(0) {
                        Some(digit @ b'0'..=b'7') => {
                            code = code * 8 + u32::from(digit - b'0');
                            self.at += 1;
                        }
                        _ => break,
                    }
                }
                text.push((code & 0xff) as u8);
            }
            other => text.push(other),
        }
    }

    /// A text of hexadecimal digits; the opening bracket was read.
    fn hexadecimal(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut half: Option<u8> = None;
        while let Some(byte) = self.peek(0) {
            self.at += 1;
            if byte == b'>' {
                break;
            }
            let Some(digit) = char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()) else {
                continue;
            };
            match half.take() {
                None => half = Some(digit << 4),
                Some(high) => text.push(high | digit),
            }
        }
        text.extend(half);
        text
    }

    fn name(&mut self) -> Vec<u8> {
        let written = self.regular();
        let mut name = Vec::with_capacity(written.len());
        let mut at = 0;
        while let Some(byte) = written.get(at) {
            let digits = written.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
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
        name
    }
}

impl<'b> Iterator for Lexer<'b> {
    type Item = Word<'b>;

    fn next(&mut self) -> Option<Word<'b>> {
        loop {
            let byte = self.peek(0)?;
            match byte {
                _ if is_space(byte) => self.at += 1,
                b'%' => {
                    while self.peek(0).is_some_and(|byte| byte != b'\n' && byte != b'\r') {
                        self.at += 1;
                    }
                }
                b'(' => {
                    self.at += 1;
                    return Some(Word::Text(self.literal()));
                }
                b'<' if self.peek(1) == Some(b'<') => self.at += 2,
                b'<' => {
                    self.at += 1;
                    return Some(Word::Text(self.hexadecimal()));
                }
                b'/' => {
                    self.at += 1;
                    return Some(Word::Name(self.name()));
                }
                b'[' => {
                    self.at += 1;
                    return Some(Word::ListStart);
                }
                b']' => {
                    self.at += 1;
                    return Some(Word::ListEnd);
                }
                b')' | b'>' | b'{' | b'}' => self.at += 1,
                _ => {
                    let word = self.regular();
                    return Some(number(word).map_or(Word::Operator(word), Word::Number));
                }
            }
        }
    }
}

/// A finite number; some files write `--5` or `1.2.3`, which is none.
fn number(word: &[u8]) -> Option<f64> {
    let begins = matches!(word.first()?, b'0'..=b'9' | b'+' | b'-' | b'.');
    let text = std::str::from_utf8(word).ok().filter(|_| begins)?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 12 | 0)
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_of_a_content_stream() {
        let content =
            b"BT /F#31 12 Tf % comment\n[(a\\(b\\)(c)\\101\\\r\n)-20.5<4 1g4>]TJ <</MCID 0>>BDC .5 -.5 --5 T*";
        let words: Vec<_> = Lexer::new(content).collect();
        assert_eq!(
            words,
            [
                Word::Operator(b"BT"),
                Word::Name(b"F1".to_vec()),
                Word::Number(12.0),
                Word::Operator(b"Tf"),
                Word::ListStart,
                Word::Text(b"a(b)(c)A".to_vec()),
                Word::Number(-20.5),
                Word::Text(b"A@".to_vec()),
                Word::ListEnd,
                Word::Operator(b"TJ"),
                Word::Name(b"MCID".to_vec()),
                Word::Number(0.0),
                Word::Operator(b"BDC"),
                Word::Number(0.5),
                Word::Number(-0.5),
                Word::Operator(b"--5"),
                Word::Operator(b"T*"),
            ]
        );
    }

    #[test]
    fn the_bytes_of_images_are_no_words() {
        let mut lexer = Lexer::new(b"BI /W 1 ID \x00EI(\xff EI\nQ");
        assert_eq!(lexer.next(), Some(Word::Operator(b"BI")));
        lexer.skip_image();
        assert_eq!(lexer.next(), Some(Word::Operator(b"Q")));
        assert_eq!(lexer.next(), None);
    }

    proptest! {
        #[test]
        fn every_word_takes_at_least_a_byte(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Lexer::new(&bytes).count() <= bytes.len());
        }
    }
}
