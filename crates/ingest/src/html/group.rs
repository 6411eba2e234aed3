//! What elements of HTML are to the elements around them, and to what is read of a page.

/// A kind of open elements that is asked for. The first ones are those that the HTML standard's parser asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// No end tag within it ends what is outside.
    Scope,
    /// Nor does a start or end tag within it end a paragraph outside.
    Button,
    /// The standard's special elements: the end tag of a name that means nothing does not reach beyond them.
    Special,
    /// Special elements, but for `address`, `div` and `p`: an item that begins within it does not end that around it.
    Barrier,
    Paragraph,
    Heading,
    List,
    ListItem,
    /// A term or what is said of it.
    Definition,
    /// What parts of tables are counted from.
    Table,
    TableSection,
    TableRow,
    /// What has no other parts of its table in it.
    TableCell,
    Choice,
    Choices,
    RubyPart,
    /// Not of SVG or MathML.
    Html,
    /// Of SVG or MathML.
    Foreign,
    /// It is foreign, and has HTML in it.
    Integration,
    /// Its content is no text of the page.
    PassedOver,
    /// What all pages of a site have, outside of a main part or an article.
    Frame,
    /// The same within one.
    InnerFrame,
    /// It is no `main`, but says that it has the role.
    MainByRole,
}

/// How many there are.
pub(super) const GROUPS: usize = Group::MainByRole as usize + 1;

/// A set of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Groups(u32);

impl Groups {
    #[must_use]
    pub(super) fn with(self, group: Group) -> Self {
        Self(self.0 | 1 << group as u32)
    }

    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, group: Group) -> bool {
        self.0 & 1 << group as u32 != 0
    }

    pub(super) fn has_any_of(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Their numbers.
    pub(super) fn numbers(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let number = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(number as usize)
        })
    }
}

impl FromIterator<Group> for Groups {
    fn from_iter<T: IntoIterator<Item = Group>>(groups: T) -> Self {
        groups.into_iter().fold(Self::default(), Self::with)
    }
}

/// Those of an element of HTML.
pub(super) fn of_html(name: &[u8]) -> Groups {
    use Group::*;

    let groups: &[Group] = match name {
        b"address" | b"div" => &[Special],
        b"p" => &[Special, Paragraph],
        b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => &[Special, Barrier, Heading],
        b"ul" | b"ol" => &[Special, Barrier, List],
        b"li" => &[Special, Barrier, ListItem],
        b"dd" | b"dt" => &[Special, Barrier, Definition],
        b"table" | b"template" => &[Special, Barrier, Scope, Table],
        b"thead" | b"tbody" | b"tfoot" => &[Special, Barrier, TableSection],
        b"tr" => &[Special, Barrier, TableRow],
        b"td" | b"th" | b"caption" => &[Special, Barrier, Scope, TableCell],
        b"colgroup" => &[Special, Barrier, TableCell],
        b"applet" | b"marquee" | b"object" => &[Special, Barrier, Scope],
        b"button" => &[Special, Barrier, Button],
        b"option" => &[Choice],
        b"optgroup" => &[Choices],
        b"rb" | b"rp" | b"rt" | b"rtc" => &[RubyPart],
        b"article" | b"aside" | b"blockquote" | b"body" | b"center" | b"details" | b"dir" | b"dl" | b"fieldset"
        | b"figcaption" | b"figure" | b"footer" | b"form" | b"frameset" | b"header" | b"hgroup" | b"html"
        | b"iframe" | b"listing" | b"main" | b"menu" | b"nav" | b"noembed" | b"noframes" | b"noscript"
        | b"plaintext" | b"pre" | b"script" | b"search" | b"section" | b"select" | b"style" | b"summary"
        | b"textarea" | b"xmp" => &[Special, Barrier],
        _ => &[],
    };
    groups.iter().copied().chain([Html]).collect()
}

/// Those of an element of SVG or MathML.
pub(super) fn of_foreign(name: &[u8]) -> Groups {
    use Group::*;

    let groups: &[Group] = match name {
        b"foreignobject" | b"desc" | b"title" | b"mi" | b"mo" | b"mn" | b"ms" | b"mtext" => {
            &[Foreign, Integration, Special, Barrier, Scope]
        }
        _ => &[Foreign],
    };
    groups.iter().copied().collect()
}
