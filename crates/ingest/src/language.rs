//! Separators of programming and markup languages.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::language_separators as separators;
use crate::separator::Separator;

/// A programming or markup language with a list of separators of its own, as LangChain's `from_language` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Language {
    /// `cpp`: C++.
    Cpp,
    /// `go`: Go.
    Go,
    /// `java`: Java.
    Java,
    /// `kotlin`: Kotlin.
    Kotlin,
    /// `js`: JavaScript.
    #[serde(rename = "js", alias = "javascript")]
    JavaScript,
    /// `ts`: TypeScript.
    #[serde(rename = "ts", alias = "typescript")]
    TypeScript,
    /// `php`: PHP.
    Php,
    /// `proto`: Protocol Buffers.
    #[serde(alias = "protobuf")]
    Proto,
    /// `python`: Python.
    Python,
    /// `r`: R.
    R,
    /// `rst`: reStructuredText.
    #[serde(rename = "rst", alias = "restructuredtext")]
    ReStructuredText,
    /// `ruby`: Ruby.
    Ruby,
    /// `rust`: Rust.
    Rust,
    /// `scala`: Scala.
    Scala,
    /// `swift`: Swift.
    Swift,
    /// `markdown`: Markdown.
    Markdown,
    /// `latex`: LaTeX.
    Latex,
    /// `html`: HTML.
    Html,
    /// `sol`: Solidity.
    #[serde(rename = "sol", alias = "solidity")]
    Solidity,
    /// `csharp`: C#.
    CSharp,
    /// `cobol`: COBOL.
    Cobol,
    /// `c`: C.
    C,
    /// `lua`: Lua.
    Lua,
    /// `haskell`: Haskell.
    Haskell,
    /// `elixir`: Elixir.
    Elixir,
    /// `powershell`: PowerShell.
    PowerShell,
    /// `visualbasic6`: Visual Basic 6.
    VisualBasic6,
}

/// How a language's list is read.
#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    /// Every separator is the very text. In a regular expression `|` of Haskell would be an alternative, and `.` of COBOL anything.
    Literal,
    /// Every separator is the very text, with backslashes doubled: an unescaped `{` and `$` of LaTeX mean themselves.
    Escaped,
    /// Regular expressions.
    Regex,
}

impl Language {
    /// Every language with its name, which is LangChain's.
    pub const NAMES: [(&'static str, Self); 27] = [
        ("cpp", Self::Cpp),
        ("go", Self::Go),
        ("java", Self::Java),
        ("kotlin", Self::Kotlin),
        ("js", Self::JavaScript),
        ("ts", Self::TypeScript),
        ("php", Self::Php),
        ("proto", Self::Proto),
        ("python", Self::Python),
        ("r", Self::R),
        ("rst", Self::ReStructuredText),
        ("ruby", Self::Ruby),
        ("rust", Self::Rust),
        ("scala", Self::Scala),
        ("swift", Self::Swift),
        ("markdown", Self::Markdown),
        ("latex", Self::Latex),
        ("html", Self::Html),
        ("sol", Self::Solidity),
        ("csharp", Self::CSharp),
        ("cobol", Self::Cobol),
        ("c", Self::C),
        ("lua", Self::Lua),
        ("haskell", Self::Haskell),
        ("elixir", Self::Elixir),
        ("powershell", Self::PowerShell),
        ("visualbasic6", Self::VisualBasic6),
    ];

    /// Other names that are understood.
    pub const ALIASES: [(&'static str, Self); 5] = [
        ("javascript", Self::JavaScript),
        ("typescript", Self::TypeScript),
        ("protobuf", Self::Proto),
        ("restructuredtext", Self::ReStructuredText),
        ("solidity", Self::Solidity),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, language)| *language == self).map_or("", |(name, _)| name)
    }

    /// The separators, coarse to fine, in Python's dialect, as LangChain has them.
    pub fn patterns(self) -> &'static [&'static str] {
        match self {
            Self::Cpp => separators::CPP,
            Self::Go => separators::GO,
            Self::Java => separators::JAVA,
            Self::Kotlin => separators::KOTLIN,
            Self::JavaScript => separators::JS,
            Self::TypeScript => separators::TS,
            Self::Php => separators::PHP,
            Self::Proto => separators::PROTO,
            Self::Python => separators::PYTHON,
            Self::R => separators::R,
            Self::ReStructuredText => separators::RST,
            Self::Ruby => separators::RUBY,
            Self::Rust => separators::RUST,
            Self::Scala => separators::SCALA,
            Self::Swift => separators::SWIFT,
            Self::Markdown => separators::MARKDOWN,
            Self::Latex => separators::LATEX,
            Self::Html => separators::HTML,
            Self::Solidity => separators::SOL,
            Self::CSharp => separators::CSHARP,
            Self::Cobol => separators::COBOL,
            Self::C => separators::C,
            Self::Lua => separators::LUA,
            Self::Haskell => separators::HASKELL,
            Self::Elixir => separators::ELIXIR,
            Self::PowerShell => separators::POWERSHELL,
            Self::VisualBasic6 => separators::VISUALBASIC6,
        }
    }

    /// The separators, coarse to fine.
    ///
    /// They are LangChain's, but mean what their authors meant where Python's dialect makes something else of them: `$` and `$$` of
    /// LaTeX are dollars (as expressions they match the end of the text), and `| ` of Haskell begins a guard.
    ///
    /// # Errors
    /// None in practice: the expressions are fixed and a test compiles them.
    pub fn separators(self) -> Result<Vec<Separator>, Error> {
        let dialect = match self {
            Self::R | Self::ReStructuredText | Self::Markdown | Self::VisualBasic6 => Dialect::Regex,
            Self::Latex => Dialect::Escaped,
            _ => Dialect::Literal,
        };
        let read = |pattern: &&str| match dialect {
            Dialect::Literal => Ok(Separator::literal(*pattern)),
            Dialect::Escaped => Ok(Separator::literal(pattern.replace(r"\\", r"\"))),
            Dialect::Regex if !pattern.contains(['\\', '[', '(', '+', '*', '.', '?', '{']) => {
                Ok(Separator::literal(*pattern))
            }
            Dialect::Regex => Separator::regex(pattern),
        };
        self.patterns().iter().map(read).collect()
    }
}

impl FromStr for Language {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let mut known_names = Self::NAMES.iter().chain(&Self::ALIASES);
        known_names.find(|(known, _)| *known == name).map(|(_, language)| *language).ok_or_else(|| {
            let known = Self::NAMES.map(|(known, _)| known).join(", ");
            Error::invalid("language", format!("must be one of {known}, got {name:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recursive::RecursiveSplitter;
    use crate::splitter::Splitter;

    fn texts(language: Language, size: usize, text: &str) -> Vec<String> {
        let builder = RecursiveSplitter::builder().chunk_size(size).chunk_overlap(0).language(language).unwrap();
        builder.build().unwrap().split(text).unwrap().into_iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    #[test]
    fn names_are_read_and_written() {
        for (name, language) in Language::NAMES {
            assert_eq!(name.parse::<Language>().unwrap(), language);
            assert_eq!(language.name(), name);
            assert_eq!(serde_json::to_value(language).unwrap(), name);
            assert!(!language.separators().unwrap().is_empty());
        }
        for (alias, language) in Language::ALIASES {
            assert_eq!(alias.parse::<Language>().unwrap(), language);
            assert_eq!(serde_json::from_value::<Language>(alias.into()).unwrap(), language);
        }
        let fault = "perl".parse::<Language>().unwrap_err().to_string();
        assert!(fault.starts_with("language: must be one of cpp, go,") && fault.ends_with("got \"perl\""), "{fault}");
    }

    #[test]
    fn functions_are_joints() {
        let python = "import os\n\ndef one():\n    return 1\n\ndef two():\n    return 2\n";
        assert_eq!(
            texts(Language::Python, 30, python),
            ["import os", "def one():\n    return 1", "def two():\n    return 2"]
        );
    }

    #[test]
    fn latex_is_cut_at_sections_and_dollars() {
        let latex = "Intro\n\\section{One}\nbody $x$ of it\n\\section{Two}\nmore";
        let expected = ["Intro", "\\section{One}\nbody $x", "$ of it", "\\section{Two}\nmore"];
        assert_eq!(texts(Language::Latex, 24, latex), expected);
    }

    #[test]
    fn look_ahead_keeps_the_ends_of_basic() {
        let basic = "Public Sub A()\nEnd Sub\nPublic Sub B()\nEnd Sub";
        assert_eq!(texts(Language::VisualBasic6, 26, basic), ["Public Sub A()\nEnd Sub", "Public Sub B()\nEnd Sub"]);
    }
}
