//! What names a text or a part of it in the metadata of every chunk, and must not be longer than they.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

/// Most bytes of a title, of a heading and of a JSON pointer in metadata; longer ones are cut between two graphemes, and end with `…`.
pub const MAX_TITLE_BYTES: usize = 512;

/// Shows that something was cut off.
const CUT: char = '…';

/// As much of a title as is kept. O([`MAX_TITLE_BYTES`]) where graphemes are of the usual size.
pub(crate) fn bounded(title: &str) -> Cow<'_, str> {
    if title.len() <= MAX_TITLE_BYTES {
        return Cow::Borrowed(title);
    }
    let most = MAX_TITLE_BYTES - CUT.len_utf8();
    let mut end = 0;
    for grapheme in title.graphemes(true) {
        if end + grapheme.len() > most {
            break;
        }
        end += grapheme.len();
    }
    let kept = title.get(..end).unwrap_or_default().trim_end();
    Cow::Owned(format!("{kept}{CUT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_between_graphemes() {
        let most = "x".repeat(MAX_TITLE_BYTES);
        assert_eq!(bounded(&most), most);
        assert_eq!(bounded(&format!("{most}x")), format!("{}…", "x".repeat(509)));
        assert_eq!(bounded(&"e\u{301}".repeat(200)), format!("{}…", "e\u{301}".repeat(169)));
        assert_eq!(bounded(&format!("{} {}", "x".repeat(508), "y".repeat(9))), format!("{}…", "x".repeat(508)));
        assert_eq!(bounded(&format!("a{}", "\u{301}".repeat(1_000_000))), "…", "one grapheme is not cut");
    }
}
