//! Fonts: which letters their codes stand for, and how wide they are.

use std::collections::HashMap;
use std::sync::Arc;

use lopdf::{Dictionary, Document, Object};

use super::to_unicode::ToUnicode;

/// Most bytes of a character map.
const MAX_MAP_BYTES: usize = 4 << 20;
/// What reading a font costs beside its maps, in bytes of content.
const FONT_BYTES: usize = 8 << 10;
/// Fonts that are kept from page to page.
const MAX_FONTS: usize = 64;
/// Codes of a font whose codes have one byte.
const SIMPLE_CODES: usize = 256;
/// Width of a letter that has none, in thousandths of the font's size.
const USUAL_WIDTH: f64 = 500.0;
/// Most glyph widths of a font: there are no more codes.
const MAX_WIDTHS: usize = 1 << 16;

/// The fonts of a file that were read.
#[derive(Default)]
pub(super) struct Fonts {
    /// By where the file's dictionary of the font is in memory: it stays there.
    by_place: HashMap<usize, Arc<Font>>,
}

impl Fonts {
    /// The font that a page calls by a name, and how many bytes were read for it; none when there is no such.
    pub(super) fn get(
        &mut self,
        document: &Document,
        resources: Option<&Dictionary>,
        name: &[u8],
    ) -> Option<(Arc<Font>, usize)> {
        let fonts = resources?.get_deref(b"Font", document).and_then(Object::as_dict).ok()?;
        let dictionary = fonts.get_deref(name, document).and_then(Object::as_dict).ok()?;
        let place = std::ptr::from_ref(dictionary).addr();
        if let Some(font) = self.by_place.get(&place) {
            return Some((Arc::clone(font), 0));
        }
        let (font, bytes) = Font::read(document, dictionary);
        let font = Arc::new(font);
        if self.by_place.len() >= MAX_FONTS {
            self.by_place.clear();
        }
        self.by_place.insert(place, Arc::clone(&font));
        Some((font, bytes))
    }
}

/// What a font says of its codes.
pub(super) struct Font {
    to_unicode: Option<ToUnicode>,
    codes: Codes,
    widths: HashMap<u32, f64>,
    /// Of codes without a width; none when it has to be guessed from the letter.
    default_width: Option<f64>,
}

/// How codes are written and what they stand for where the character map does not say it.
enum Codes {
    /// One byte each.
    Simple(Vec<String>),
    /// Two bytes each; what they stand for is not known.
    Composite,
    /// Units of UTF-16.
    Utf16,
}

impl Font {
    /// With how many bytes that took, or what takes as long.
    fn read(document: &Document, font: &Dictionary) -> (Self, usize) {
        let map = font.get_deref(b"ToUnicode", document).and_then(Object::as_stream).ok();
        let packed_bytes = map.map_or(0, |map| map.content.len());
        let map = map.and_then(|map| map.get_plain_content_with_limit(MAX_MAP_BYTES).ok());
        let map_bytes = map.as_ref().map_or(packed_bytes, Vec::len);
        let to_unicode = map.map(|map| ToUnicode::parse(&map));
        let is_composite = name_in(document, font, b"Subtype") == Some(b"Type0");
        if is_composite {
            let encoding = name_in(document, font, b"Encoding").unwrap_or_default();
            let is_utf16 =
                encoding.windows(4).any(|part| part == b"UCS2") || encoding.windows(5).any(|part| part == b"UTF16");
            let codes = if is_utf16 { Codes::Utf16 } else { Codes::Composite };
            let descendant = font
                .get_deref(b"DescendantFonts", document)
                .and_then(Object::as_array)
                .ok()
                .and_then(|fonts| document.dereference(fonts.first()?).ok())
                .and_then(|(_, object)| object.as_dict().ok());
            let widths = descendant.map(|font| composite_widths(document, font)).unwrap_or_default();
            let default_width = descendant.and_then(|font| number_in(document, font, b"DW")).unwrap_or(1000.0);
            let bytes = FONT_BYTES + MAX_WIDTHS + map_bytes;
            return (Self { to_unicode, codes, widths, default_width: Some(default_width) }, bytes);
        }
        let widths = simple_widths(document, font);
        let is_fixed = font.get(b"BaseFont").and_then(Object::as_name).is_ok_and(|name| name.starts_with(b"Courier"));
        let default_width = if is_fixed { Some(600.0) } else { None };
        let codes = Codes::Simple(simple_codes(document, font));
        (Self { to_unicode, codes, widths, default_width }, FONT_BYTES + map_bytes)
    }

    /// How many bytes a code has.
    pub(super) fn code_bytes(&self) -> usize {
        match self.codes {
            Codes::Simple(_) => 1,
            Codes::Composite | Codes::Utf16 => 2,
        }
    }

    /// Adds the letters of a code to a text.
    pub(super) fn write(&self, code: u32, text: &mut String) {
        if self.to_unicode.as_ref().is_some_and(|map| map.write(code, text)) {
            return;
        }
        match &self.codes {
            Codes::Simple(letters) => {
                text.push_str(usize::try_from(code).ok().and_then(|code| letters.get(code)).map_or("", String::as_str));
            }
            Codes::Composite => {}
            Codes::Utf16 => text.extend(char::from_u32(code)),
        }
    }

    /// How far a code moves on, in thousandths of the font's size.
    pub(super) fn width(&self, code: u32, letters: &str) -> f64 {
        let given = self.widths.get(&code).copied().or(self.default_width);
        given.unwrap_or_else(|| letters.chars().next().map_or(USUAL_WIDTH, usual_width))
    }
}

/// About the width of a letter in a text face such as Helvetica or Times: those need not give their widths.
fn usual_width(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'f' | 't' | 'I' | '.' | ',' | ':' | ';' | '\'' | '!' | '|' | ' ' | '(' | ')' | '[' | ']'
        | '/' => 280.0,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 860.0,
        'A'..='Z' => 680.0,
        _ => USUAL_WIDTH,
    }
}

fn name_in<'d>(document: &'d Document, dictionary: &'d Dictionary, key: &[u8]) -> Option<&'d [u8]> {
    dictionary.get_deref(key, document).and_then(Object::as_name).ok()
}

fn number_in(document: &Document, dictionary: &Dictionary, key: &[u8]) -> Option<f64> {
    dictionary.get_deref(key, document).and_then(Object::as_float).ok().map(f64::from)
}

fn simple_widths(document: &Document, font: &Dictionary) -> HashMap<u32, f64> {
    let first = number_in(document, font, b"FirstChar").unwrap_or(0.0).clamp(0.0, 255.0) as u32;
    let Ok(widths) = font.get_deref(b"Widths", document).and_then(Object::as_array) else {
        return HashMap::new();
    };
    // The glyphs of these are drawn in a space of their own.
    let scale = font
        .get_deref(b"FontMatrix", document)
        .and_then(Object::as_array)
        .ok()
        .and_then(|matrix| matrix.first()?.as_float().ok())
        .map_or(1.0, |scale| f64::from(scale) * 1000.0);
    let widths = widths.iter().take(SIMPLE_CODES).map(|width| {
        let (_, width) = document.dereference(width).ok()?;
        width.as_float().ok().map(|width| f64::from(width) * scale)
    });
    (first..).zip(widths).filter_map(|(code, width)| Some((code, width?))).collect()
}

/// Widths of a composite font: `code [width …]` or `first last width`, one after the other.
fn composite_widths(document: &Document, font: &Dictionary) -> HashMap<u32, f64> {
    let mut widths = HashMap::new();
    let Ok(list) = font.get_deref(b"W", document).and_then(Object::as_array) else {
        return widths;
    };
    let mut numbers: Vec<f64> = Vec::new();
    // Codes that are named again and again count each time.
    let mut left = MAX_WIDTHS;
    for object in list.iter().take(MAX_WIDTHS) {
        let Ok((_, object)) = document.dereference(object) else {
            continue;
        };
        if let (Ok(each), [first]) = (object.as_array(), numbers.as_slice()) {
            for (code, width) in (*first as u32..).zip(each).take(left) {
                left -= 1;
                widths.extend(width.as_float().ok().map(|width| (code, f64::from(width))));
            }
            numbers.clear();
        } else if let Ok(number) = object.as_float() {
            numbers.push(f64::from(number));
        } else {
            numbers.clear();
        }
        if let [first, last, width] = *numbers.as_slice() {
            for code in (first as u32..=last as u32).take(left) {
                left -= 1;
                widths.insert(code, width);
            }
            numbers.clear();
        }
    }
    widths
}

/// What the codes of a simple font stand for: those of a named encoding, with the differences that the font gives.
fn simple_codes(document: &Document, font: &Dictionary) -> Vec<String> {
    let encoding = font.get_deref(b"Encoding", document).ok();
    let differences = encoding.and_then(|encoding| encoding.as_dict().ok());
    let base = match (encoding.and_then(|encoding| encoding.as_name().ok()), differences) {
        (Some(name), _) => Some(name),
        (None, Some(dictionary)) => name_in(document, dictionary, b"BaseEncoding"),
        (None, None) => None,
    };
    // TrueType fonts are made for it; the others have the standard encoding, or one of their own that only they know.
    let is_true_type = name_in(document, font, b"Subtype") == Some(b"TrueType");
    let usual: &[u8] = if is_true_type { b"WinAnsiEncoding" } else { b"StandardEncoding" };
    let mut codes = named_encoding(base.unwrap_or(usual));
    let list = differences.and_then(|dictionary| dictionary.get_deref(b"Differences", document).ok()?.as_array().ok());
    let mut code = 0_usize;
    for object in list.into_iter().flatten().take(2 * SIMPLE_CODES) {
        if let Ok(number) = object.as_i64() {
            code = usize::try_from(number).unwrap_or(SIMPLE_CODES);
        } else if let Ok(name) = object.as_name() {
            if let Some(letters) = codes.get_mut(code) {
                *letters = glyph_letters(name);
            }
            code = code.saturating_add(1);
        }
    }
    codes
}

/// The letters of all codes of an encoding that PDF has a name for.
fn named_encoding(name: &[u8]) -> Vec<String> {
    let font =
        Dictionary::from_iter([("Type", Object::Name(b"Font".to_vec())), ("Encoding", Object::Name(name.to_vec()))]);
    let mut letters = decoded(&font, 0..=255);
    // All of them have the space there, but not all tables do.
    if let Some(space) = letters.get_mut(usize::from(b' ')) {
        " ".clone_into(space);
    }
    letters
}

/// The letters of a glyph, by its name: those of Adobe's list, `uni0041`, `u1F415`, and ligatures as `f_i`.
fn glyph_letters(name: &[u8]) -> String {
    // What follows a point tells variants of a glyph apart.
    let name = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    name.split(|byte| *byte == b'_').map(component_letters).collect()
}

fn component_letters(name: &[u8]) -> String {
    let text = std::str::from_utf8(name).unwrap_or_default();
    let digits =
        text.strip_prefix("uni").or_else(|| text.strip_prefix('u')).filter(|digits| (4..=6).contains(&digits.len()));
    if let Some(letter) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32) {
        return letter.to_string();
    }
    let encoding = Dictionary::from_iter([
        ("Type", Object::Name(b"Encoding".to_vec())),
        ("Differences", Object::Array(vec![Object::Integer(0), Object::Name(name.to_vec())])),
    ]);
    let font =
        Dictionary::from_iter([("Type", Object::Name(b"Font".to_vec())), ("Encoding", Object::Dictionary(encoding))]);
    // The code 0 has no letter in the encoding that is used when the name is not known.
    decoded(&font, 0..=0).pop().unwrap_or_default()
}

fn decoded(font: &Dictionary, codes: std::ops::RangeInclusive<u8>) -> Vec<String> {
    let nothing = Document::new();
    let encoding = font.get_font_encoding(&nothing);
    codes
        .map(|code| match &encoding {
            Ok(encoding) => encoding.bytes_to_string(&[code]).unwrap_or_default(),
            Err(_) => String::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glyphs_have_names() {
        for (name, letters) in [
            ("A", "A"),
            ("eacute", "é"),
            ("f_i", "fi"),
            ("a.alt", "a"),
            ("uni20AC", "€"),
            ("u1F415", "🐕"),
            ("g123", ""),
            (".notdef", ""),
        ] {
            assert_eq!(glyph_letters(name.as_bytes()), letters, "{name}");
        }
    }

    #[test]
    fn encodings_have_names() {
        let letter = |name: &[u8], code: usize| named_encoding(name)[code].clone();
        assert_eq!(letter(b"WinAnsiEncoding", 0x80), "€");
        assert_eq!(letter(b"MacRomanEncoding", 0x8e), "é");
        assert_eq!(letter(b"StandardEncoding", 0x41), "A");
        for name in [&b"WinAnsiEncoding"[..], b"MacRomanEncoding", b"StandardEncoding"] {
            let printed: String = (0x20..0x7f).map(|code| letter(name, code)).collect();
            let ascii: String = (0x20..0x7f_u8).map(char::from).collect();
            let standard = ascii.replace('\'', "’").replace('`', "‘");
            assert!(printed == ascii || printed == standard, "{printed}");
        }
    }
}
