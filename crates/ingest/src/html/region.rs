//! Where on a page its own text is, and where that which all pages of a site have.

use super::group::{Group, Groups};
use super::open::OpenElements;

/// Text of this many characters is a page's own, even when there is more in its navigation.
const ENOUGH_CHARACTERS: usize = 200;

/// Which text of a page is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// None: it is only looked at where it is.
    Nothing,
    Everything,
    /// That outside of navigation, page headers and footers, and asides.
    BesidesFrame,
    /// That in `main`, besides navigation, footers and asides in it.
    Main,
    /// The same of every `article`.
    Articles,
}

/// How much text of a page there is where.
pub(super) struct Regions {
    keep: Keep,
    /// Elements that begin a main part and did not end. They are counted by their tags and nothing else, so that an end tag too many
    /// within one does not cut its text off.
    main: usize,
    /// The same of articles.
    article: usize,
    all_characters: usize,
    main_characters: usize,
    article_characters: usize,
    unframed_characters: usize,
}

impl Regions {
    pub(super) fn new(keep: Keep) -> Self {
        Self {
            keep,
            main: 0,
            article: 0,
            all_characters: 0,
            main_characters: 0,
            article_characters: 0,
            unframed_characters: 0,
        }
    }

    /// What the element that begins is to the text in it.
    pub(super) fn open(&mut self, name: &[u8], role: Option<&[u8]>, open: &OpenElements) -> Groups {
        let has_role = name != b"main" && role.is_some_and(|role| role.eq_ignore_ascii_case(b"main"));
        let begins_main = has_role && !open.is_in(Group::MainByRole);
        let is_inside = has_role || self.in_main(open) || self.article > 0;
        let frame = match name {
            b"main" => {
                self.main += 1;
                None
            }
            b"article" => {
                self.article += 1;
                None
            }
            // The header of a main part or an article is of its text.
            b"header" => (!is_inside).then_some(Group::Frame),
            b"nav" | b"footer" | b"aside" => Some(if is_inside { Group::InnerFrame } else { Group::Frame }),
            _ => None,
        };
        frame.into_iter().chain(begins_main.then_some(Group::MainByRole)).collect()
    }

    pub(super) fn close(&mut self, name: &[u8]) {
        match name {
            b"main" => self.main = self.main.saturating_sub(1),
            b"article" => self.article = self.article.saturating_sub(1),
            _ => {}
        }
    }

    /// Counts a text, and says whether it is kept.
    pub(super) fn take(&mut self, text: &str, open: &OpenElements) -> bool {
        let is_noise = open.is_in(Group::InnerFrame);
        let is_framed = is_noise || open.is_in(Group::Frame);
        let (in_main, in_article) = (self.in_main(open) && !is_noise, self.article > 0 && !is_noise);
        if self.keep == Keep::Nothing {
            let characters = text.chars().filter(|character| !character.is_whitespace()).count();
            self.all_characters += characters;
            self.main_characters += if in_main { characters } else { 0 };
            self.article_characters += if in_article { characters } else { 0 };
            self.unframed_characters += if is_framed { 0 } else { characters };
        }
        match self.keep {
            Keep::Nothing => false,
            Keep::Everything => true,
            Keep::BesidesFrame => !is_framed,
            Keep::Main => in_main,
            Keep::Articles => in_article,
        }
    }

    /// What to keep, by where the text was: main part or articles, else all besides the frame, where that is enough text or a
    /// quarter of the page; else everything.
    pub(super) fn keep(&self) -> Keep {
        let is_enough = |characters: usize| {
            characters > 0 && (characters >= ENOUGH_CHARACTERS || characters >= self.all_characters / 4)
        };
        if is_enough(self.main_characters) {
            Keep::Main
        } else if is_enough(self.article_characters) {
            Keep::Articles
        } else if is_enough(self.unframed_characters) {
            Keep::BesidesFrame
        } else {
            Keep::Everything
        }
    }

    fn in_main(&self, open: &OpenElements) -> bool {
        self.main > 0 || open.is_in(Group::MainByRole)
    }
}
