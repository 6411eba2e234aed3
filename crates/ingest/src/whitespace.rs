//! Whitespace as Python's `str.strip` knows it.

/// Is this a character that Python's `str.isspace` accepts? The Unicode property `White_Space`, plus U+001C to U+001F.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Is there nothing else in it?
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// How many bytes of whitespace `text` begins with.
pub(crate) fn leading(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_space).len()
}

/// How many bytes of whitespace `text` ends with.
pub(crate) fn trailing(text: &str) -> usize {
    text.len() - text.trim_end_matches(is_space).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code point for which CPython 3.11 says `chr(c).isspace()`.
    const PYTHON: [u32; 29] = [
        0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003,
        0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
    ];

    #[test]
    fn the_set_is_exactly_pythons() {
        let ours: Vec<u32> = (0..=0x0010_ffff).filter(|c| char::from_u32(*c).is_some_and(is_space)).collect();
        assert_eq!(ours, PYTHON);
    }

    #[test]
    fn both_ends_are_measured_in_bytes() {
        assert_eq!((leading("\u{3000}\u{1c}a "), trailing("\u{3000}\u{1c}a ")), (4, 1));
        assert_eq!((leading(" \n"), trailing(" \n")), (2, 2));
        assert_eq!(leading("\u{200b}a"), 0, "a zero width space is no whitespace in Python");
    }
}
