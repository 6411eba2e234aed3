//! Source code, cut by its syntax.

use crate::cascade::{Level, Merged, Rules, cascade};
use crate::error::Error;
use crate::language::Language;
use crate::length::Length;
use crate::recursive::check_size;
use crate::separator::{KeepSeparator, Separator};
use crate::splitter::{Chunk, Splitter};
use crate::strip::Strip;
use crate::structure::Structure;
use crate::syntax::syntax_joints;

/// Cuts source code by its syntax: between the items of the file first, between members and statements only where an item is longer than
/// a chunk; comments, attributes and decorators stay with what they are written above.
///
/// The syntax of C, C++, Go, Java, JavaScript, Python, Rust and TypeScript is known (tree-sitter's grammars), and errors in the code are
/// no matter. Other languages are cut at LangChain's separators for them, as [`crate::RecursiveSplitter`] does. What is still longer than
/// a chunk is cut at line ends, spaces and at last between graphemes, so that the size holds.
///
/// Chunks keep the indentation of their first line. There is no overlap. Structure changes nothing.
///
/// Cost: O(text). Code of more than 1 MiB, which no one has written, is cut as that of other languages.
#[derive(Debug, Clone)]
pub struct CodeSplitter {
    language: Language,
    rules: Rules,
    separators: Vec<Separator>,
}

impl CodeSplitter {
    /// Chunks of at most `chunk_size` code points, at least 1.
    ///
    /// # Errors
    /// When the size is 0.
    pub fn new(language: Language, chunk_size: usize) -> Result<Self, Error> {
        check_size(chunk_size, 0)?;
        let mut separators = language.separators()?;
        // A few lists (LaTeX, HTML) do not hold line ends.
        separators.retain(|separator| !separator.is_finest());
        separators.extend(["\n\n", "\n", " "].map(Separator::literal));
        separators.push(Separator::graphemes());
        let rules = Rules {
            chunk_size,
            chunk_overlap: 0,
            length: Length::CodePoints,
            keep_separator: KeepSeparator::Start,
            strip: Strip::BlankLines,
            merged: Merged::FittingStripped,
        };
        Ok(Self { language, rules, separators })
    }
}

impl CodeSplitter {
    /// The chunks, and the steps it took after the parser's.
    fn run<'t>(&self, text: &'t str) -> Result<(Vec<Chunk<'t>>, u64), Error> {
        let joints = syntax_joints(self.language, text, self.rules.chunk_size);
        let places = joints.iter().flatten().map(|places| Level::Places(places));
        // Where the syntax is known the language's own separators have nothing to add to it.
        let from = if joints.is_some() { self.separators.len().saturating_sub(4) } else { 0 };
        let levels: Vec<Level<'_>> = places.chain(self.separators.iter().skip(from).map(Level::Separator)).collect();
        cascade(text, &levels, &self.rules)
    }
}

impl Splitter for CodeSplitter {
    fn split_structured<'t>(&self, text: &'t str, _structure: &Structure) -> Result<Vec<Chunk<'t>>, Error> {
        Ok(self.run(text)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(language: Language, size: usize, text: &str) -> Vec<String> {
        let chunks = CodeSplitter::new(language, size).unwrap().split(text).unwrap();
        assert!(chunks.iter().all(|chunk| text[chunk.bytes.clone()] == *chunk.text));
        assert!(chunks.iter().all(|chunk| chunk.chars.len() <= size));
        chunks.into_iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    #[test]
    fn items_are_kept_whole() {
        let rust =
            "use std::fmt;\n\n/// One.\nfn one() -> u8 {\n    let a = 1;\n\n    a\n}\n\nfn two() {\n    three();\n}\n";
        let expected =
            ["use std::fmt;", "/// One.\nfn one() -> u8 {\n    let a = 1;\n\n    a\n}", "fn two() {\n    three();\n}"];
        assert_eq!(texts(Language::Rust, 50, rust), expected);
    }

    #[test]
    fn long_items_are_cut_between_members() {
        let python = "class A:\n    def one(self):\n        return 1\n\n    @cached\n    async def two(self):\n        return 2\n";
        let expected = [
            "class A:\n    def one(self):\n        return 1",
            "    @cached\n    async def two(self):\n        return 2",
        ];
        assert_eq!(texts(Language::Python, 60, python), expected);
    }

    #[test]
    fn one_line_is_cut_between_statements() {
        let javascript = "let a=1;let b=f(2,3);let c=4;";
        assert_eq!(texts(Language::JavaScript, 14, javascript), ["let a=1;", "let b=f(2,3);", "let c=4;"]);
    }

    #[test]
    fn a_string_is_cut_where_it_must_be() {
        let go = "package a\n\nvar s = `one two three four five six seven`\n";
        let chunks = texts(Language::Go, 20, go);
        assert_eq!(chunks.concat().replace(char::is_whitespace, ""), go.replace(char::is_whitespace, ""));
        assert_eq!(chunks[0], "package a");
    }

    #[test]
    fn other_languages_have_separators() {
        let lua = "local a = 1\n\nfunction b()\n  return a\nend\n\nfunction c()\n  return 2\nend\n";
        let expected = ["local a = 1", "function b()\n  return a\nend", "function c()\n  return 2\nend"];
        assert_eq!(texts(Language::Lua, 30, lua), expected);
    }

    #[test]
    fn cost_is_linear_in_the_text() {
        for unit in ["fn a() { b(); }\n", "x", "a(b(c(1)));", "  \n"] {
            let steps = |bytes: usize| {
                let code = unit.repeat(bytes / unit.len());
                CodeSplitter::new(Language::Rust, 100).unwrap().run(&code).unwrap().1
            };
            let (once, twice) = (steps(100_000), steps(200_000));
            assert!(twice <= once * 2 + once / 10, "{unit:?}: {once} steps for n, {twice} for 2n");
        }
    }

    #[test]
    fn parameters_are_checked_by_name() {
        let fault = CodeSplitter::new(Language::C, 0).unwrap_err().to_string();
        assert_eq!(fault, "chunk_size: must be at least 1, got 0");
    }
}
