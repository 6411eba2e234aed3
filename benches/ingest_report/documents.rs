//! Documents of English words, each one different, which fall into chunks of known number.

use toller_benches::clustered::mixed;

/// Frequent words, most of them one token.
const WORDS: &str = "the of and to in is that for it as was with be by on not he his but at are this have from or had an they \
which one you were all her she there would their we him been has when who will no more if out so said what up its about into \
than them can only other time new some could these two may first then do any like my now over such our man me even most made \
after also did many fore must through years where much your way well down should because long each just state those people how \
too little good world make very year still see own work men day get here between both life being under three never know same";

/// A document of `chunks` paragraphs of about `length` bytes; no two documents have a paragraph in common.
pub fn text(document: u64, chunks: u64, length: usize) -> String {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut text = String::with_capacity((length + 2) * chunks as usize);
    for chunk in 0..chunks {
        let mut paragraph = format!("{document} {chunk}");
        let mut place = 0;
        while paragraph.len() + 8 < length {
            let random = mixed(mixed(document << 20 | chunk).wrapping_add(place)) as usize;
            paragraph.push(' ');
            paragraph.push_str(words[random % words.len()]);
            place += 1;
        }
        text.push_str(&paragraph);
        text.push_str(".\n\n");
    }
    text
}
