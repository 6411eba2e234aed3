//! Where on a page its own text is, and where that which all pages of a site have.

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

/// How many elements of each kind are open.
#[derive(Debug, Default)]
struct Frame {
    navigation: usize,
    header: usize,
    footer: usize,
    aside: usize,
}

impl Frame {
    fn count(&mut self, name: &[u8]) -> Option<&mut usize> {
        match name {
            b"nav" => Some(&mut self.navigation),
            b"header" => Some(&mut self.header),
            b"footer" => Some(&mut self.footer),
            b"aside" => Some(&mut self.aside),
            _ => None,
        }
    }
}

/// What is open at a place of a page, and how much text there is where. Each step takes the same time, however deep.
pub(super) struct Regions {
    keep: Keep,
    main: usize,
    article: usize,
    /// The element other than `main` that says it has the role, and how many of its name are open in it.
    main_by_role: Option<(Vec<u8>, usize)>,
    outside: Frame,
    /// Of what is open within a main part or an article.
    inside: Frame,
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
            main_by_role: None,
            outside: Frame::default(),
            inside: Frame::default(),
            all_characters: 0,
            main_characters: 0,
            article_characters: 0,
            unframed_characters: 0,
        }
    }

    pub(super) fn open(&mut self, name: &[u8], role: Option<&[u8]>) {
        match &mut self.main_by_role {
            Some((by_role, depth)) => *depth += usize::from(by_role.as_slice() == name),
            None if name != b"main" && role.is_some_and(|role| role.eq_ignore_ascii_case(b"main")) => {
                self.main_by_role = Some((name.to_owned(), 1));
            }
            None => {}
        }
        let is_inside = self.in_main() || self.in_article();
        match name {
            b"main" => self.main += 1,
            b"article" => self.article += 1,
            _ => {
                let frame = if is_inside { &mut self.inside } else { &mut self.outside };
                if let Some(count) = frame.count(name) {
                    *count += 1;
                }
            }
        }
    }

    pub(super) fn close(&mut self, name: &[u8]) {
        match name {
            b"main" => self.main = self.main.saturating_sub(1),
            b"article" => self.article = self.article.saturating_sub(1),
            _ => {
                let is_inside = self.inside.count(name).is_some_and(|count| *count > 0);
                let frame = if is_inside { &mut self.inside } else { &mut self.outside };
                if let Some(count) = frame.count(name) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        if let Some((by_role, depth)) = &mut self.main_by_role
            && by_role.as_slice() == name
        {
            *depth -= 1;
            if *depth == 0 {
                self.main_by_role = None;
            }
        }
        if !self.in_main() && !self.in_article() {
            // What was left open in it ends with it.
            self.inside = Frame::default();
        }
    }

    /// Counts a text, and says whether it is kept.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let is_noise = self.inside.navigation > 0 || self.inside.footer > 0 || self.inside.aside > 0;
        let Frame { navigation, header, footer, aside } = self.outside;
        let is_framed = is_noise || navigation > 0 || header > 0 || footer > 0 || aside > 0;
        let (in_main, in_article) = (self.in_main() && !is_noise, self.in_article() && !is_noise);
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

    fn in_main(&self) -> bool {
        self.main > 0 || self.main_by_role.is_some()
    }

    fn in_article(&self) -> bool {
        self.article > 0
    }
}
