//! The joints of source code, by its syntax.

use tree_sitter::{Node, Parser, Tree, TreeCursor};

use crate::language::Language;

/// Deepest nesting of syntax that has joints of its own; statements within functions within classes are at about eight.
const MAX_DEPTH: usize = 32;

/// Where the parts of source code begin, in bytes, ascending within each level, the coarsest level first; none for languages whose
/// syntax is not known here. O(text).
///
/// First come the nodes that begin a line, by depth, then the ones within lines. The first part of each node stays with what comes
/// before it (a function's name with its first statement), and so do bodies; a comment, an attribute or a decorator stays with what it
/// is written above. Code with errors in it has the joints of what is recognised.
pub(crate) fn syntax_joints(language: Language, text: &str) -> Option<Vec<Vec<usize>>> {
    let tree = parse(language, text)?;
    let mut at_lines = vec![Vec::new(); MAX_DEPTH];
    let mut within_lines = vec![Vec::new(); MAX_DEPTH];
    let mut cursor = tree.walk();
    let mut depth = 0;
    while next_node(&mut cursor, &mut depth) {
        let node = cursor.node();
        if depth == 0 || !node.is_named() || is_joined_to_what_is_before(&cursor, node, text) {
            continue;
        }
        let (start, begins_line) = line_start(text, node.start_byte());
        let levels = if begins_line { &mut at_lines } else { &mut within_lines };
        if let Some(level) = levels.get_mut(depth - 1) {
            level.push(start);
        }
    }
    at_lines.extend(within_lines);
    at_lines.retain(|level| !level.is_empty());
    Some(at_lines)
}

fn parse(language: Language, text: &str) -> Option<Tree> {
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

/// Goes on to the next node in the order of the text, down to [`MAX_DEPTH`]; says whether there is one.
fn next_node(cursor: &mut TreeCursor<'_>, depth: &mut usize) -> bool {
    if *depth < MAX_DEPTH && cursor.goto_first_child() {
        *depth += 1;
        return true;
    }
    while !cursor.goto_next_sibling() {
        if !cursor.goto_parent() {
            return false;
        }
        *depth -= 1;
    }
    true
}

fn is_joined_to_what_is_before(cursor: &TreeCursor<'_>, node: Node<'_>, text: &str) -> bool {
    if matches!(cursor.field_name(), Some("body" | "consequence")) {
        return true;
    }
    let Some(before) = node.prev_named_sibling() else { return true };
    let kind = before.kind();
    let is_written_above = ["comment", "attribute", "decorator", "annotation"].iter().any(|above| kind.contains(above));
    let gap = text.get(before.end_byte()..node.start_byte()).unwrap_or_default();
    // Some grammars have the line end in a comment, some do not.
    let line_ends =
        gap.matches('\n').count() + usize::from(text.get(..before.end_byte()).unwrap_or_default().ends_with('\n'));
    is_written_above && line_ends <= 1
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
            let joints = syntax_joints(language, code).unwrap();
            let second = code.rfind('\n').and_then(|end| code[..end].rfind('\n')).unwrap() + 1;
            assert_eq!(joints.first(), Some(&vec![second]), "{}", language.name());
        }
        assert_eq!(syntax_joints(Language::Cobol, "STOP RUN."), None);
    }

    #[test]
    fn comments_and_attributes_stay_with_what_they_are_above() {
        let code = "use a;\n\n/// Docs.\n#[test]\nfn b() {}\n\n// Alone.\n\nfn c() {}\n";
        let joints = syntax_joints(Language::Rust, code).unwrap();
        let at = |needle: &str| code.find(needle).unwrap();
        assert_eq!(joints[0], [at("/// Docs"), at("// Alone"), at("fn c")]);
    }

    #[test]
    fn deep_nesting_and_nonsense_end() {
        for code in ["(".repeat(20_000), "1+".repeat(20_000), "}{".repeat(2_000), "é ".repeat(2_000)] {
            assert!(syntax_joints(Language::JavaScript, &code).unwrap().len() <= 2 * MAX_DEPTH);
        }
    }
}
