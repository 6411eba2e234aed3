//! The joints of source code, by its syntax.

use tree_sitter::{Node, Parser, Tree, TreeCursor};

use crate::language::Language;

/// Deepest nesting of syntax that has joints of its own; statements within functions within classes are at about eight.
const MAX_DEPTH: usize = 32;

/// Longest text whose syntax is looked at, in bytes: 1 MiB, far above any file that people write. Where the parser recovers from
/// error after error, as in prose that claims to be C++, a megabyte takes it seconds.
const MAX_BYTES: usize = 1 << 20;

/// Where the parts of source code begin, in bytes, ascending within each level, the coarsest level first; none for languages whose
/// syntax is not known here, and for texts of more than [`MAX_BYTES`]. O(text).
///
/// First come the nodes that begin a line, by depth, then the ones within lines. The first part of each node stays with what comes
/// before it (a function's name with its first statement), and so do bodies; a comment, an attribute or a decorator stays with what it
/// is written above. Code with errors in it has the joints of what is recognised. Nodes of at most `whole_bytes` bytes have no joints
/// within.
pub(crate) fn syntax_joints(language: Language, text: &str, whole_bytes: usize) -> Option<Vec<Vec<usize>>> {
    let tree = parse(language, text)?;
    let mut at_lines = vec![Vec::new(); MAX_DEPTH];
    let mut within_lines = vec![Vec::new(); MAX_DEPTH];
    let mut walk = Walk::new(&tree, whole_bytes);
    while let Some((node, before)) = walk.next_node() {
        if !node.is_named() || walk.is_body() {
            continue;
        }
        let Some(before) = before else { continue };
        let (start, begins_line) = line_start(text, node.start_byte());
        let levels = if begins_line { &mut at_lines } else { &mut within_lines };
        if !before.is_written_above(text, start)
            && let Some(level) = levels.get_mut(walk.depth() - 1)
        {
            level.push(start);
        }
    }
    at_lines.extend(within_lines);
    at_lines.retain(|level| !level.is_empty());
    Some(at_lines)
}

fn parse(language: Language, text: &str) -> Option<Tree> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let grammar = match language {
        Language::C => tree_sitter_c::LANGUAGE,
        Language::Cpp => tree_sitter_cpp::LANGUAGE,
        Language::Go => tree_sitter_go::LANGUAGE,
        Language::Java => tree_sitter_java::LANGUAGE,
        Language::JavaScript => tree_sitter_javascript::LANGUAGE,
        Language::Python => tree_sitter_python::LANGUAGE,
        Language::Rust => tree_sitter_rust::LANGUAGE,
        Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
        _ => return None,
    };
    let mut parser = Parser::new();
    // A grammar that is too old or too new for the parser would be noticed by the tests.
    parser.set_language(&grammar.into()).ok()?;
    parser.parse(text, None)
}

/// A named node that stands before another with the same parent.
#[derive(Clone, Copy)]
struct Before {
    end: usize,
    is_remark: bool,
}

impl Before {
    fn of(node: Node<'_>) -> Self {
        let kind = node.kind();
        let is_remark = ["comment", "attribute", "decorator", "annotation"].iter().any(|above| kind.contains(above));
        Self { end: node.end_byte(), is_remark }
    }

    /// Is it a remark on what begins at `start`, with no blank line between?
    fn is_written_above(self, text: &str, start: usize) -> bool {
        let gap = text.get(self.end..start).unwrap_or_default();
        // Some grammars have the line end in a comment, some do not.
        let in_comment = text.get(..self.end).unwrap_or_default().ends_with('\n');
        self.is_remark && gap.matches('\n').count() + usize::from(in_comment) <= 1
    }
}

/// The nodes below the root in the order of the text, each with the named one before it.
struct Walk<'t> {
    cursor: TreeCursor<'t>,
    whole_bytes: usize,
    /// For each depth the named node that came last among its siblings.
    last: Vec<Option<Before>>,
}

impl<'t> Walk<'t> {
    fn new(tree: &'t Tree, whole_bytes: usize) -> Self {
        Self { cursor: tree.walk(), whole_bytes, last: Vec::new() }
    }

    /// 1 for the children of the root.
    fn depth(&self) -> usize {
        self.last.len()
    }

    fn is_body(&self) -> bool {
        matches!(self.cursor.field_name(), Some("body" | "consequence"))
    }

    fn next_node(&mut self) -> Option<(Node<'t>, Option<Before>)> {
        let is_long = self.cursor.node().byte_range().len() > self.whole_bytes;
        if is_long && self.depth() < MAX_DEPTH && self.cursor.goto_first_child() {
            self.last.push(None);
        } else {
            while !self.cursor.goto_next_sibling() {
                self.last.pop();
                if !self.cursor.goto_parent() || self.last.is_empty() {
                    return None;
                }
            }
        }
        let node = self.cursor.node();
        let last = self.last.last_mut()?;
        let before = *last;
        if node.is_named() {
            *last = Some(Before::of(node));
        }
        Some((node, before))
    }
}

/// Where the line of a node begins, when nothing but indentation is before it; else where the node does.
fn line_start(text: &str, node_start: usize) -> (usize, bool) {
    let before = text.get(..node_start).unwrap_or_default();
    let indented = before.trim_end_matches([' ', '\t']);
    if indented.is_empty() || indented.ends_with('\n') { (indented.len(), true) } else { (node_start, false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grammar_is_read() {
        for (language, code) in [
            (Language::C, "int a;\nint b;\n"),
            (Language::Cpp, "class A {};\nclass B {};\n"),
            (Language::Go, "package a\n\nfunc b() {}\n"),
            (Language::Java, "class A {}\nclass B {}\n"),
            (Language::JavaScript, "let a = 1\nlet b = 2\n"),
            (Language::Python, "a = 1\nb = 2\n"),
            (Language::Rust, "fn a() {}\nfn b() {}\n"),
            (Language::TypeScript, "let a: A\ninterface B {}\n"),
        ] {
            let joints = syntax_joints(language, code, 0).unwrap();
            let second = code.rfind('\n').and_then(|end| code[..end].rfind('\n')).unwrap() + 1;
            assert_eq!(joints.first(), Some(&vec![second]), "{}", language.name());
        }
        assert_eq!(syntax_joints(Language::Cobol, "STOP RUN.", 0), None);
    }

    #[test]
    fn comments_and_attributes_stay_with_what_they_are_above() {
        let code = "use a;\n\n/// Docs.\n#[test]\nfn b() {}\n\n// Alone.\n\nfn c() {}\n";
        let joints = syntax_joints(Language::Rust, code, 0).unwrap();
        let at = |needle: &str| code.find(needle).unwrap();
        assert_eq!(joints[0], [at("/// Docs"), at("// Alone"), at("fn c")]);
    }

    #[test]
    fn what_is_short_has_no_joints_within() {
        let code = "fn a() { b(); c(); }\nfn d() {}\n";
        let second = code.rfind("fn").unwrap();
        assert_eq!(syntax_joints(Language::Rust, code, 30), Some(vec![vec![second]]));
        assert!(syntax_joints(Language::Rust, code, 0).unwrap().len() > 1);
    }

    #[test]
    fn very_long_texts_are_not_looked_at() {
        assert_eq!(syntax_joints(Language::Rust, &" ".repeat(MAX_BYTES + 1), 0), None);
    }

    #[test]
    fn deep_nesting_and_nonsense_end() {
        for code in ["(".repeat(20_000), "1+".repeat(20_000), "}{".repeat(2_000), "é ".repeat(2_000)] {
            assert!(syntax_joints(Language::JavaScript, &code, 0).unwrap().len() <= 2 * MAX_DEPTH);
        }
    }
}
