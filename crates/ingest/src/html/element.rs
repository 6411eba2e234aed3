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

/// Has it no content in HTML, so that no end tag comes?
pub(super) fn is_void(name: &[u8]) -> bool {
    matches!(kind(name), Kind::Void | Kind::LineBreak)
        || matches!(name, b"basefont" | b"bgsound" | b"frame" | b"hr" | b"image" | b"keygen")
}

/// Does it end the paragraph that it begins in?
pub(super) fn ends_paragraph(name: &[u8]) -> bool {
    matches!(
        name,
        b"address"
            | b"article"
            | b"aside"
            | b"blockquote"
            | b"center"
            | b"dd"
            | b"details"
            | b"dialog"
            | b"dir"
            | b"div"
            | b"dl"
            | b"dt"
            | b"fieldset"
            | b"figcaption"
            | b"figure"
            | b"footer"
            | b"form"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"header"
            | b"hgroup"
            | b"hr"
            | b"li"
            | b"listing"
            | b"main"
            | b"menu"
            | b"nav"
            | b"ol"
            | b"p"
            | b"plaintext"
            | b"pre"
            | b"search"
            | b"section"
            | b"summary"
            | b"table"
            | b"ul"
            | b"xmp"
    )
}

/// Is it about how a text looks, so that its end tag may come within blocks that began in it?
pub(super) fn is_formatting(name: &[u8]) -> bool {
    matches!(
        name,
        b"a" | b"b"
            | b"big"
            | b"code"
            | b"em"
            | b"font"
            | b"i"
            | b"nobr"
            | b"s"
            | b"small"
            | b"strike"
            | b"strong"
            | b"tt"
            | b"u"
    )
}

/// Can it not be of SVG or MathML, so that it ends a drawing or formula that it begins in?
pub(super) fn leaves_foreign(name: &[u8]) -> bool {
    matches!(
        name,
        b"b" | b"big"
            | b"blockquote"
            | b"body"
            | b"br"
            | b"center"
            | b"code"
            | b"dd"
            | b"div"
            | b"dl"
            | b"dt"
            | b"em"
            | b"embed"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"head"
            | b"hr"
            | b"i"
            | b"img"
            | b"li"
            | b"listing"
            | b"menu"
            | b"meta"
            | b"nobr"
            | b"ol"
            | b"p"
            | b"pre"
            | b"ruby"
            | b"s"
            | b"small"
            | b"span"
            | b"strong"
            | b"strike"
            | b"sub"
            | b"sup"
            | b"table"
            | b"tt"
            | b"u"
            | b"ul"
            | b"var"
    )
}
