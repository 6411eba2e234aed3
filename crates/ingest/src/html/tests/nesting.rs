//! What is open where, and so what is left out: by examples, and by pages made from trees whose visible text is known.

use proptest::prelude::*;

use super::text;
use crate::html::document;
use crate::options::HtmlOptions;

#[test]
fn what_is_hidden_ends_where_its_element_does() {
    for (html, seen) in [
        ("<p hidden>x<p>All the rest", "All the rest"),
        ("<p hidden>x <b>y<div>rest</div>", "rest"),
        ("<p hidden>x<h2>rest</h2>", "rest"),
        ("<p hidden>x<table><tr><td>rest</table>", "rest"),
        ("<div><p hidden>x</div>rest", "rest"),
        ("<section><p hidden>x</section>rest", "rest"),
        ("<ul><li hidden>a<li>b</ul><p>text", "- b\n\ntext"),
        ("<ul><li hidden>a</ul>text", "text"),
        ("<ul><li hidden>a<ul><li>no<li>no</ul>no<li>b</ul>text", "- b\n\ntext"),
        ("<ul><li hidden><div>a<li>b</ul>", "- b"),
        ("<dl><dt hidden>a<dd>b<dt>c<dd hidden>d</dl>rest", "b\nc\n\nrest"),
        ("<dl><dd hidden>a<p>b<dt>c</dl>", "c"),
        ("<table><tr><td hidden>a<td>b<tr hidden><td>c<th>d<tr><td>e</table>rest", "b\ne\n\nrest"),
        ("<table><thead hidden><tr><td>a<tbody><tr><td>b<tfoot hidden><tr><td>c</table>rest", "b\n\nrest"),
        ("<table><caption hidden>a<tr><td>b</table>", "b"),
        ("<table><tr><td><div hidden>a<td>b</table>rest", "| b\n\nrest"),
        ("<table><div hidden>a<tr><td>b</table>", "b"),
        ("<table><tr><td hidden>a<table><tr><td>no<td>no</table>no<td>b</table>", "b"),
        ("<table hidden><tr><td>a<table><tr><td>no</table>no</table>rest", "rest"),
        ("<td hidden>a<p>rest", "a\n\nrest"),
        ("<datalist><option hidden>a<option>b</datalist>", "b"),
        ("<datalist><optgroup hidden><option>a<optgroup><option>b</datalist>", "b"),
        ("<ruby>漢<rp hidden>(<rt>kan<rp hidden>)</ruby>rest", "漢kanrest"),
        ("<h2 hidden>a<h2>b</h3>rest", "b\n\nrest"),
        ("<div><span hidden>a</div>rest", "rest"),
        ("<span><i hidden>a</span>rest", "rest"),
        ("<div><select><option>a</div>rest", "rest"),
        ("<select><option>a<select>rest", "rest"),
        ("<select><option>a<input>rest", "rest"),
        ("<div><video>a</div>rest", "rest"),
        ("<a class=headerlink>¶<a href=x>rest</a>", "rest"),
        ("<button hidden>a<button>rest</button>", "rest"),
        ("<form hidden>a<form>b</form>rest", "rest"),
        ("<form><p hidden>a</form>rest", "rest"),
        ("a<br hidden>b<hr hidden>c<img hidden>d", "abcd"),
        // The page is closed twice, as when two are put together.
        ("<div hidden>a</body></html><p>rest", "rest"),
    ] {
        assert_eq!(text(html), seen, "{html}");
    }
}

#[test]
fn what_is_hidden_does_not_end_before() {
    for html in [
        "<div hidden>no<p>no<p>no</div>yes",
        "<div hidden>no</p>no</span>no</li></td></table></ul>no</div>yes",
        "<ul><li hidden>no<ul><li>no</ul>no</ul>yes",
        "<ul><li hidden><section><li>no</section></ul>yes",
        "<table hidden><tr><td>no</div>no</table>yes",
        "<div><table hidden><tr><td>no</div>no</table>yes</div>",
        "<p hidden>no<button>no<p>no</button>no</p>yes",
        "<b>yes<div hidden>no</b>no</div></b>",
        "<form><div hidden>no</form>no<form></form>no</div>yes",
        "<form><div><div hidden>no</form>no</span>no</div>yes</div>",
        "<template><ul><li>no</ul><p>no<div>no</div></template>yes",
        "<ul><li>yes<template><li>no</li></template></ul>",
        "<svg><desc><p>no</p><div>no</div></desc><text>no</text></svg>yes",
        "<svg><svg>no</svg>no</svg>yes",
        "<div><svg><desc>no</div>no</desc>no</svg>yes</div>",
        "<form hidden><table><tr><td>no<form>no</table></form>yes",
        "<svg><foreignObject><p>no</p></foreignObject>no</svg>yes",
    ] {
        assert_eq!(text(html).trim_start_matches("- "), "yes", "{html}");
    }
}

#[test]
fn drawings_and_formulas_can_be_empty_or_unclosed() {
    for (html, seen) in [
        ("<svg/>rest", "rest"),
        ("<p>a<svg viewBox='0 0 1 1'/>b</p>rest", "ab\n\nrest"),
        ("<svg><path/><title/><style/><script/></svg>rest", "rest"),
        ("<svg><title>a</svg>rest", "rest"),
        ("<svg><style>p > b {}</style></svg>rest", "rest"),
        ("<svg><path><p>rest", "rest"),
        ("<p>a<svg><path></p>rest", "a\n\nrest"),
        ("<svg><font color=red>rest</font>", "rest"),
        ("<div><svg><g></div>rest", "rest"),
        ("<math hidden/>rest", "rest"),
        ("<math><mspace hidden/><mi>x</mi></math>rest", "xrest"),
        ("<math><mi hidden>x</mi><mo>=</mo></math>rest", "=rest"),
        ("<math hidden><mrow>x<p>rest", "rest"),
    ] {
        assert_eq!(text(html), seen, "{html}");
    }
    // Elsewhere the slash means nothing.
    assert_eq!(text("<div hidden/>a</div>rest"), "rest");
}

#[test]
fn every_element_of_xhtml_can_be_empty() {
    let body = "<script src=\"a.js\"/><title/><a name='x'/>one<p hidden='hidden'/><textarea/><iframe src='x'/><style/>two\
                <ul/><h1/><div aria-hidden='true'/><nav/>three<p>four</p>";
    let head = "<html xmlns=\"http://www.w3.org/1999/xhtml\">";
    for page in [
        format!("<?xml version=\"1.0\"?>\n<!DOCTYPE html>\n<html>{body}"),
        format!("<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\">{head}<head/><body>{body}</body></html>"),
    ] {
        assert_eq!(text(&page), "onetwo\n\nthree\n\nfour", "{page}");
    }
    let titled = format!("{head}<head><script src='a.js'/><title>Title</title></head><body>text</body></html>");
    assert_eq!(super::load(&titled).title.as_deref(), Some("Title"));
    assert_eq!(text(&format!("{head}<script>if (a < b) '<p>no</p>'</script>yes")), "yes");
}

#[test]
fn the_frame_of_a_page_ends_where_its_element_does() {
    let much = "much text ".repeat(50);
    for html in [
        format!("<p>{much}</p><div><nav>Home</div>rest"),
        format!("<p>{much}</p><div><aside>Ads<p>no</div>rest"),
        format!("<main><p>{much}</p><div><nav>toc</div>rest</main><p>no"),
        format!("<main>{much}<div><div></div></div></div>rest</main>no"),
        format!("<ul><li role=main><p>{much}</p>rest<li>no</ul>"),
        format!("<table><tr><td>no<td role=main>{much}rest<td>no</table>"),
        format!("<?xml version='1.0'?><nav/><p>{much}</p><aside/>rest"),
    ] {
        let seen = text(&html);
        assert!(seen.ends_with("rest") && !seen.contains("no"), "{html}: {seen}");
    }
}

/// A part of a page.
#[derive(Debug, Clone)]
enum Part {
    Word,
    /// An element that may be hidden, with its parts.
    Element(&'static str, bool, Vec<Part>),
    /// One without content.
    Empty(&'static str),
}

/// The forms of a page that mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    EveryEndTag,
    /// Without the end tags that can be left out.
    FewEndTags,
    Xhtml,
}

fn phrase() -> impl Strategy<Value = Part> {
    let empty = prop::sample::select(vec!["svg", "script", "textarea", "iframe", "select", "template", "video"]);
    prop_oneof![
        4 => Just(Part::Word),
        1 => any::<bool>().prop_map(|hidden| Part::Element("span", hidden, vec![Part::Word])),
        1 => any::<bool>().prop_map(|hidden| Part::Element("b", hidden, vec![Part::Word])),
        1 => empty.prop_map(Part::Empty),
    ]
}

fn phrases() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(phrase(), 0..3)
}

fn some<T: Strategy<Value = Part> + 'static>(parts: T) -> BoxedStrategy<Vec<Part>> {
    prop::collection::vec(parts, 0..4).boxed()
}

fn element(name: &'static str, parts: BoxedStrategy<Vec<Part>>) -> BoxedStrategy<Part> {
    (prop::bool::weighted(0.3), parts).prop_map(move |(hidden, parts)| Part::Element(name, hidden, parts)).boxed()
}

fn page() -> impl Strategy<Value = Vec<Part>> {
    let paragraph = element("p", phrases().boxed()).boxed();
    let flow = prop_oneof![paragraph.clone(), phrase()].prop_recursive(4, 60, 4, move |flow| {
        let cell = prop_oneof![element("td", some(flow.clone())), element("th", some(flow.clone()))];
        let row = element("tr", some(cell));
        let section = |name| element(name, some(row.clone()));
        let sections = some(prop_oneof![section("thead"), section("tbody"), section("tfoot")]);
        let said = prop_oneof![element("dt", phrases().boxed()), element("dd", some(flow.clone()))];
        // A term is followed by what is said of it.
        let said = said.prop_map(|part| match part {
            Part::Element("dt", ..) => vec![part, Part::Element("dd", false, vec![Part::Word])],
            other => vec![other],
        });
        let definitions = prop::collection::vec(said, 0..3).prop_map(|parts| parts.concat()).boxed();
        prop_oneof![
            3 => paragraph.clone(),
            1 => phrase(),
            2 => element("div", some(flow.clone())),
            1 => element("section", some(flow.clone())),
            2 => element("ul", some(element("li", some(flow.clone())))),
            2 => element("dl", definitions),
            2 => element("table", sections),
        ]
    });
    prop::collection::vec(flow, 0..5)
}

/// The words of a page, numbered, and those that are seen.
#[derive(Debug, Default)]
struct Words {
    count: usize,
    seen: Vec<String>,
}

/// Writes parts of a page in a form.
fn write(siblings: &[Part], form: Form, has_parent: bool, is_seen: bool, html: &mut String, words: &mut Words) {
    for (index, part) in siblings.iter().enumerate() {
        match part {
            Part::Word => {
                words.count += 1;
                let word = format!("w{}", words.count);
                html.push_str(&format!(" {word} "));
                if is_seen {
                    words.seen.push(word);
                }
            }
            Part::Empty(name) if form == Form::Xhtml || *name == "svg" => html.push_str(&format!("<{name}/>")),
            Part::Empty(name) => html.push_str(&format!("<{name}></{name}>")),
            Part::Element(name, hidden, parts) => {
                html.push_str(&format!("<{name}{}>", if *hidden { " hidden='hidden'" } else { "" }));
                write(parts, form, true, is_seen && !hidden, html, words);
                let is_left_out = match *name {
                    "li" | "dt" | "dd" | "td" | "th" | "tr" | "thead" | "tbody" | "tfoot" => true,
                    // By its parent's end tag, or by a block.
                    "p" => match siblings.get(index + 1) {
                        None => has_parent,
                        Some(Part::Element(next, ..)) => !matches!(*next, "span" | "b"),
                        Some(_) => false,
                    },
                    _ => false,
                };
                if !(is_left_out && form == Form::FewEndTags) {
                    html.push_str(&format!("</{name}>"));
                }
            }
        }
    }
}

/// A tag of an element that ends at its parent's end tag at the latest.
fn tag() -> impl Strategy<Value = String> {
    let names = [
        "p",
        "li",
        "ul",
        "dl",
        "dt",
        "dd",
        "h1",
        "span",
        "b",
        "a",
        "select",
        "option",
        "optgroup",
        "ruby",
        "rt",
        "button",
        "svg",
        "math",
        "g",
        "nav",
        "aside",
        "header",
        "section",
        "form",
        "video",
        "x-element",
        "br",
        "td",
    ];
    let forms =
        ["<name>", "<name hidden>", "<name aria-hidden=true>", "<name/>", "<name hidden/>", "</name>", "text<name>"];
    (prop::sample::select(names.to_vec()), prop::sample::select(forms.to_vec()))
        .prop_map(|(name, form)| form.replace("name", name))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_seen_is_what_the_tree_says(parts in page()) {
        for form in [Form::EveryEndTag, Form::FewEndTags, Form::Xhtml] {
            let mut html = String::from(if form == Form::Xhtml { "<?xml version='1.0'?>" } else { "" });
            let mut words = Words::default();
            write(&parts, form, false, true, &mut html, &mut words);
            let options = HtmlOptions { main_content_only: false };
            let seen = document(&html, &options).map(|document| document.text).unwrap_or_default();
            let seen: Vec<&str> = seen.split_whitespace().filter(|word| word.starts_with('w')).collect();
            prop_assert_eq!(seen, words.seen, "{}", html);
        }
    }

    #[test]
    fn text_after_an_element_is_seen_whatever_is_left_open_in_it(tags in prop::collection::vec(tag(), 0..30)) {
        let html = format!("<div>{}</div>last", tags.concat());
        prop_assert!(text(&html).ends_with("last"), "{}", html);
    }
}
