//! Different spellings of one word made the same: compatibility forms, case, accents.

use std::borrow::Cow;

use unicase::UniCase;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::decompose_canonical;

/// Whether I without a dot is the capital of i (as nearly everywhere) or of ı.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CapitalI {
    Dotless,
    Turkish,
}

/// The text in NFKC, case folded, without characters that do not show: close to Unicode's NFKC_Casefold (UAX 44).
/// O(length).
///
/// Full-width and half-width forms, ligatures and the like become their plain letters, ß becomes ss.
pub(super) fn case_folded(text: &str, capital_i: CapitalI) -> String {
    if text.is_ascii() && capital_i == CapitalI::Dotless {
        return text.to_ascii_lowercase();
    }
    let composed: String = text.nfkc().filter(|character| !is_invisible(*character)).collect();
    let composed = match capital_i {
        CapitalI::Dotless => composed,
        CapitalI::Turkish => composed.replace('I', "ı").replace('İ', "i"),
    };
    // Folding can take characters apart again.
    UniCase::unicode(composed).to_folded_case().nfkc().collect()
}

/// Soft hyphens, joiners and variation selectors: two texts that differ in them alone look the same.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// A case-folded word without the accents of Latin, Greek and Cyrillic letters: `café` is `cafe`. O(length).
///
/// Marks of other scripts are vowels rather than accents and stay. So do й and ї, which are letters of their own.
pub(super) fn without_accents(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return Cow::Borrowed(word);
    }
    let mut plain = String::with_capacity(word.len());
    for character in word.chars() {
        match character {
            'й' | 'ї' => plain.push(character),
            other => decompose_canonical(other, |part| push_plain(&mut plain, part)),
        }
    }
    Cow::Owned(plain.nfc().collect())
}

/// The rest of the letters is that of Lucene's ASCIIFoldingFilter, as far as people leave their marks out in typing.
fn push_plain(plain: &mut String, part: char) {
    match part {
        '\u{300}'..='\u{36f}' => {}
        'ı' => plain.push('i'),
        'ł' => plain.push('l'),
        'ø' => plain.push('o'),
        'đ' | 'ð' => plain.push('d'),
        'ħ' => plain.push('h'),
        'ŧ' => plain.push('t'),
        'æ' => plain.push_str("ae"),
        'œ' => plain.push_str("oe"),
        'þ' => plain.push_str("th"),
        other => plain.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatibility_forms_and_case_are_folded() {
        for (text, folded) in [
            ("Toller", "toller"),
            ("STRASSE Straße", "strasse strasse"),
            ("ＦＵＬＬ　ｗｉｄｔｈ", "full width"),
            ("ﬁre ½", "fire 1⁄2"),
            ("ΣΟΦΌΣ", "σοφόσ"),
            ("ｶﾞ", "ガ"),
            ("e\u{301}", "é"),
            ("co\u{ad}operate", "cooperate"),
            ("", ""),
        ] {
            assert_eq!(case_folded(text, CapitalI::Dotless), folded);
        }
        assert_eq!(case_folded("DIŞ İÇ", CapitalI::Turkish), "dış iç");
    }

    #[test]
    fn accents_go_and_letters_stay() {
        for (word, plain) in [
            ("café", "cafe"),
            ("żółć", "zolc"),
            ("smørrebrød", "smorrebrod"),
            ("œuvre", "oeuvre"),
            ("σοφόσ", "σοφοσ"),
            ("ёж", "еж"),
            ("мой", "мой"),
            ("việt", "viet"),
            ("हिन्दी", "हिन्दी"),
            ("مُدَرِّس", "مُدَرِّس"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_accents(word), plain);
        }
    }
}
