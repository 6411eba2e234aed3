//! Character maps: which letters a font's codes stand for, where its file says so.

use super::lexer::{Lexer, Word};

/// Most units of UTF-16 that one code stands for; ligatures have a few.
const MAX_UNITS: usize = 16;

/// A map from codes to letters. Ranges stay ranges, so that it is never larger than the text it is read from.
#[derive(Debug, Default)]
pub(super) struct ToUnicode {
    /// Ordered by their first codes.
    ranges: Vec<CodeRange>,
}

#[derive(Debug)]
struct CodeRange {
    first: u32,
    last: u32,
    /// UTF-16 of the first code; the others move its last unit on.
    units: Vec<u16>,
}

/// What the texts that are read belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Other,
    /// Pairs: a code, and its letters.
    Characters,
    /// Triples: the first and the last code, and the letters of the first or a list with those of each.
    Ranges,
}

impl ToUnicode {
    /// Reads a map; what is wrong in it is passed over. O(n log n).
    pub(super) fn parse(map: &[u8]) -> Self {
        let mut ranges = Vec::new();
        let mut section = Section::Other;
        let mut in_list = false;
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for word in Lexer::new(map) {
            match word {
                Word::Operator(b"beginbfchar") => section = Section::Characters,
                Word::Operator(b"beginbfrange") => section = Section::Ranges,
                Word::Operator(b"endbfchar" | b"endbfrange") => section = Section::Other,
                Word::ListStart => in_list = true,
                Word::ListEnd => {
                    in_list = false;
                    if let [first, _, each @ ..] = texts.as_slice() {
                        ranges.extend((code(first)..).zip(each).map(|(code, letters)| range(code, code, letters)));
                    }
                }
                Word::Text(text) if section != Section::Other => {
                    texts.push(text);
                    match (section, texts.as_slice()) {
                        (Section::Characters, [single, letters]) => {
                            ranges.push(range(code(single), code(single), letters));
                        }
                        (Section::Ranges, [first, last, letters]) if !in_list => {
                            ranges.push(range(code(first), code(last), letters));
                        }
                        // More is needed.
                        _ => continue,
                    }
                }
                _ => continue,
            }
            if !in_list {
                texts.clear();
            }
        }
        ranges.sort_by_key(|range: &CodeRange| range.first);
        Self { ranges }
    }

    /// Adds the letters of a code to a text; false when the map does not have it. O(log n).
    pub(super) fn write(&self, code: u32, text: &mut String) -> bool {
        let after = self.ranges.partition_point(|range| range.first <= code);
        let range = after.checked_sub(1).and_then(|place| self.ranges.get(place));
        let Some(range) = range.filter(|range| code <= range.last) else {
            return false;
        };
        let Some((last, before)) = range.units.split_last() else {
            return false;
        };
        // Codes and units have 16 bits in all maps that are right.
        let moved = last.wrapping_add((code - range.first) as u16);
        text.extend(char::decode_utf16(before.iter().copied().chain([moved])).filter_map(Result::ok));
        true
    }
}

fn range(first: u32, last: u32, letters: &[u8]) -> CodeRange {
    let (pairs, _) = letters.as_chunks::<2>();
    let units = match letters {
        // Some files write a letter of one byte.
        [byte] => vec![u16::from(*byte)],
        _ => pairs.iter().take(MAX_UNITS).map(|pair| u16::from_be_bytes(*pair)).collect(),
    };
    CodeRange { first, last, units }
}

/// Codes have four bytes at most.
fn code(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |code, byte| code << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(map: &ToUnicode, code: u32) -> Option<String> {
        let mut text = String::new();
        map.write(code, &mut text).then_some(text)
    }

    #[test]
    fn characters_ranges_and_lists() {
        let map = ToUnicode::parse(
            b"1 begincodespacerange <0000> <FFFF> endcodespacerange\n\
              2 beginbfchar <0003> <0020> <0010> <00660066> endbfchar\n\
              3 beginbfrange <0041> <0043> <0061> <0050> <0052> [<0031> <0032>] <0060> <0061> <D83DDC36> endbfrange",
        );
        for (code, expected) in [
            (0x03, Some(" ")),
            (0x10, Some("ff")),
            (0x41, Some("a")),
            (0x43, Some("c")),
            (0x44, None),
            (0x50, Some("1")),
            (0x51, Some("2")),
            (0x52, None),
            (0x61, Some("🐷")),
            (0x00, None),
            (0xffff_ffff, None),
        ] {
            assert_eq!(letters(&map, code).as_deref(), expected, "{code:x}");
        }
    }

    #[test]
    fn the_widest_range_takes_no_room() {
        let map = ToUnicode::parse(b"1 beginbfrange <00000000> <FFFFFFFF> <0041> endbfrange");
        assert_eq!(map.ranges.len(), 1);
        assert_eq!(letters(&map, 2).as_deref(), Some("C"));
    }

    #[test]
    fn what_is_wrong_is_passed_over() {
        for map in
            [&b"beginbfrange <01> <02>"[..], b"] [ beginbfrange <01> ] endbfrange", b"beginbfchar <01> <> endbfchar"]
        {
            assert_eq!(letters(&ToUnicode::parse(map), 1), None, "{map:?}");
        }
    }
}
