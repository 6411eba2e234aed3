mod nesting;

use super::*;
use crate::options::HtmlOptions;

fn load(html: &str) -> LoadedDocument {
    document(html, &HtmlOptions::default()).unwrap()
}

fn text(html: &str) -> String {
    load(html).text
}

#[test]
fn blocks_stand_apart_and_inline_marks_do_not_break_words() {
    assert_eq!(
        text("<p>One <b>b</b>old <i>wo</i>rd.</p><div>Two<div>Three</div></div>Four"),
        "One bold word.\n\nTwo\n\nThree\n\nFour"
    );
    assert_eq!(text("a<br>b<br><br>c"), "a\nb\n\nc");
    assert_eq!(text("  <p>\n a \t b\n</p>\n\n<p>&nbsp;</p>c"), "a b\n\nc");
    assert_eq!(text("Donau&shy;dampf<wbr>schiff"), "Donaudampfschiff");
    assert_eq!(text("Donau<p>&shy;&shy;<p>Dampf"), "Donau\n\nDampf");
}

#[test]
fn a_word_of_soft_hyphens_is_no_block() {
    let LoadedDocument { text, structure, .. } = load("a <p>&shy;&shy;<p>");
    assert_eq!((text.as_str(), structure.levels().last().unwrap().as_slice()), ("a", &[0][..]));
}

#[test]
fn entities_are_decoded() {
    assert_eq!(text("<p>a &lt;b&gt; &amp; c&eacute; &#x1f415; &#8364; &notanentity;"), "a <b> & cé 🐕 € ¬anentity;");
}

#[test]
fn lists_have_marks_and_nested_ones_are_indented() {
    let html = "Before<ul><li>one<li>two <b>bold</b><ul><li>in</li><li><p>ner</p></li></ul></li><li>three</ul>after";
    assert_eq!(text(html), "Before\n\n- one\n- two bold\n  - in\n  - ner\n- three\n\nafter");
    assert_eq!(text("<ol><li></li><li>x</li></ol>"), "- x");
    assert_eq!(text("<dl><dt>term<dd>meaning</dl>"), "term\nmeaning");
}

#[test]
fn rows_of_tables_are_lines() {
    let html = "<table><caption>Dogs</caption><thead><tr><th>Name<th>Size</thead>\
                <tr><td><p>Toller</p><p>red</p></td><td></td><td>small</td></tr><tr><td><td>x</table>after";
    assert_eq!(text(html), "Dogs\nName | Size\nToller red |  | small\n| x\n\nafter");
}

#[test]
fn tables_for_layout_keep_the_lines_in_them() {
    let html = "<table><tr><td><table><tr><td>a<td>b</tr><tr><td>c<td>d</tr></table></td></tr></table>";
    assert_eq!(text(html), "a | b\nc | d");
    let frame = "<table><tr><td>Menu<td><h1>Title</h1>text<br>more<table><tr><td>1<td>2</table>end</table>";
    assert_eq!(text(frame), "Menu\n\nTitle\n\ntext\nmore\n\n1 | 2\n\nend");
}

#[test]
fn preformatted_text_stays_as_it_is() {
    let html = "<p>Run:<pre>\n  make  demo\n\n<b>ok</b>\n</pre>then";
    assert_eq!(text(html), "Run:\n\n  make  demo\n\nok\n\nthen");
}

#[test]
fn what_nobody_sees_is_left_out() {
    let html = "<style>p{}</style><script>if (a<b) '<p>no</p>'</script><template><p>no</template><noscript>no</noscript>\
                <svg><title>no</title><text>no</text></svg><p hidden>no</p><span aria-hidden=true>no</span>\
                <!-- no --><div hidden><div>no</div>no</div>yes";
    assert_eq!(text(html), "yes");
    assert_eq!(load(html).title, None);
}

#[test]
fn titles_are_of_the_page_or_of_its_first_heading() {
    assert_eq!(load("<title> Of the\n page </title><h1>Of the heading</h1>").title.as_deref(), Some("Of the page"));
    assert_eq!(load("<h2>Two</h2><h1></h1><h1>Of the <i>heading</i></h1>").title.as_deref(), Some("Of the heading"));
    assert_eq!(load("<h2>Two</h2>").title, None);
}

#[test]
fn headings_know_their_place() {
    let html = "<h1>Guide<a class=headerlink href=#guide>¶</a></h1><p>Intro.</p><div><h2>Ins<b>tall</b><br>it</h2>\
                <p>Run.</p></div><ul><li><h3>Item</h3>text</ul><table><tr><td><h4>cell</h4></table><h2></h2>";
    let loaded = load(html);
    assert_eq!(loaded.text, "Guide\n\nIntro.\n\nInstall it\n\nRun.\n\nItem\ntext\n\ncell");
    let seen: Vec<_> = loaded
        .structure
        .headings()
        .iter()
        .map(|heading| (heading.level, heading.title.as_str(), &loaded.text[heading.bytes.clone()]))
        .collect();
    assert_eq!(
        seen,
        [(1, "Guide", "Guide"), (2, "Install it", "Install it"), (3, "Item", "Item"), (4, "cell", "cell")]
    );
    let levels = loaded.structure.levels();
    assert_eq!(levels[0], [0]);
    assert_eq!(levels[1], [loaded.text.find("Install").unwrap()]);
    let blocks = ["Intro", "Run"].map(|block| loaded.text.find(block).unwrap());
    assert_eq!(levels[6], blocks);
}

#[test]
fn the_frame_of_a_page_is_left_out_where_there_is_other_text() {
    let html = "<header>Site</header><nav>Home</nav><p>The text.</p><aside>Ads</aside><footer>Imprint</footer>";
    assert_eq!(text(html), "The text.");
    let everything = HtmlOptions { main_content_only: false };
    assert_eq!(document(html, &everything).unwrap().text, "Site\n\nHome\n\nThe text.\n\nAds\n\nImprint");
    assert_eq!(text("<nav>Only <p>navigation</nav>"), "Only\n\nnavigation");
    let much = format!("<p>x</p><nav>{}</nav>", "link ".repeat(100));
    assert!(text(&much).ends_with("link"), "a page that is mostly navigation is kept whole");
}

#[test]
fn the_main_part_is_enough() {
    let html = "<div>Cookies</div><main><header><h1>T</h1></header><p>text</p><nav>toc</nav></main><div>Related</div>";
    assert_eq!(text(html), "T\n\ntext");
    let by_role = "<div>Side</div><div role=main><div>in</div><div>ner</div></div><div>After</div>";
    assert_eq!(text(by_role), "in\n\nner");
    let articles =
        "<p>Blog</p><article>one<footer>by me</footer></article><p>ad</p><article><header>2</header>two</article>";
    assert_eq!(text(articles), "one\n\n2\n\ntwo");
}

#[test]
fn tags_in_any_disorder_give_text() {
    for (html, expected) in [
        ("</div></main></nav></li></table></pre></h1>text", "text"),
        ("<li>a<td>b</ul>c", "- ab c"),
        ("<h1>a<h2>b", "a\n\nb"),
        ("<h1>a<p>b", "a\n\nb"),
        ("<h1><li>a<td><td>b", "a b"),
        ("<nav>a", "a"),
        ("<b", ""),
        ("a<b", "a"),
        ("<script>a", ""),
    ] {
        let found = document(html, &HtmlOptions::default()).map(|document| document.text).unwrap_or_default();
        assert_eq!(found, expected, "{html}");
    }
}

#[test]
fn a_page_without_text_is_empty() {
    for html in ["<p></p>", "<img src=x>", "<title>T</title>"] {
        assert!(matches!(document(html, &HtmlOptions::default()), Err(SkipReason::Empty)), "{html}");
    }
}
