//! What elements of HTML mean for the text.

/// What an element does to the text in and around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing: `b`, `span`, `a`, and what is not known.
    Inline,
    /// It has no content, and its end tag is left out: `img`, `input`.
    Void,
    /// Its content is no text of the page: `script`, `svg`.
    PassedOver,
    Title,
    /// A heading of level 1 to 6.
    Heading(u8),
    /// It stands apart, with a blank line before and after it.
    Block,
    /// It begins on a line of its own.
    Line,
    /// It ends a line, and has no content.
    LineBreak,
    List,
    ListItem,
    Preformatted,
    Table,
    TableRow,
    TableCell,
}

pub(super) fn kind(name: &[u8]) -> Kind {
    match name {
        b"title" => Kind::Title,
        b"h1" => Kind::Heading(1),
        b"h2" => Kind::Heading(2),
        b"h3" => Kind::Heading(3),
        b"h4" => Kind::Heading(4),
        b"h5" => Kind::Heading(5),
        b"h6" => Kind::Heading(6),
        b"script" | b"style" | b"template" | b"noscript" | b"svg" | b"iframe" | b"object" | b"canvas" | b"audio"
        | b"video" | b"select" | b"textarea" => Kind::PassedOver,
        b"area" | b"base" | b"col" | b"embed" | b"img" | b"input" | b"link" | b"meta" | b"param" | b"source"
        | b"track" | b"wbr" => Kind::Void,
        b"br" => Kind::LineBreak,
        b"address" | b"article" | b"aside" | b"blockquote" | b"body" | b"center" | b"details" | b"dialog" | b"div"
        | b"dl" | b"fieldset" | b"figure" | b"footer" | b"form" | b"head" | b"header" | b"hgroup" | b"hr" | b"html"
        | b"main" | b"nav" | b"p" | b"search" | b"section" => Kind::Block,
        b"caption" | b"dd" | b"dt" | b"figcaption" | b"legend" | b"option" | b"summary" => Kind::Line,
        b"ul" | b"ol" | b"menu" => Kind::List,
        b"li" => Kind::ListItem,
        b"pre" | b"listing" | b"xmp" => Kind::Preformatted,
        b"table" => Kind::Table,
        b"tr" => Kind::TableRow,
        b"td" | b"th" => Kind::TableCell,
        _ => Kind::Inline,
    }
}
