//! Programming languages, told by the file's extension or its media type.

/// A language that source code is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // Each is what its name says; the table below has the rest.
pub enum CodeLanguage {
    C,
    Cobol,
    Cpp,
    CSharp,
    Css,
    Elixir,
    Go,
    Haskell,
    Java,
    JavaScript,
    Kotlin,
    Latex,
    Lua,
    Perl,
    Php,
    PowerShell,
    Protobuf,
    Python,
    R,
    Ruby,
    Rust,
    Scala,
    Shell,
    Solidity,
    Sql,
    Swift,
    Toml,
    TypeScript,
    VisualBasic,
    Xml,
    Yaml,
}

/// What is known of a language.
struct Row {
    language: CodeLanguage,
    /// As splitters name it, where they know it.
    name: &'static str,
    /// The first is the one that is given; the others are understood.
    media_types: &'static [&'static str],
    extensions: &'static [&'static str],
}

const fn row(
    language: CodeLanguage,
    name: &'static str,
    media_types: &'static [&'static str],
    extensions: &'static [&'static str],
) -> Row {
    Row { language, name, media_types, extensions }
}

/// In the order of the enum, so that a language finds its row by its number.
static ROWS: [Row; 31] = [
    row(CodeLanguage::C, "c", &["text/x-c", "text/x-csrc"], &["c", "h"]),
    row(CodeLanguage::Cobol, "cobol", &["text/x-cobol"], &["cob", "cbl", "cpy"]),
    row(CodeLanguage::Cpp, "cpp", &["text/x-c++", "text/x-c++src"], &["cpp", "cc", "cxx", "hpp", "hh", "hxx"]),
    row(CodeLanguage::CSharp, "csharp", &["text/x-csharp"], &["cs"]),
    row(CodeLanguage::Css, "css", &["text/css"], &["css", "scss"]),
    row(CodeLanguage::Elixir, "elixir", &["text/x-elixir"], &["ex", "exs"]),
    row(CodeLanguage::Go, "go", &["text/x-go"], &["go"]),
    row(CodeLanguage::Haskell, "haskell", &["text/x-haskell"], &["hs"]),
    row(CodeLanguage::Java, "java", &["text/x-java", "text/x-java-source"], &["java"]),
    row(CodeLanguage::JavaScript, "js", &["text/javascript", "application/javascript"], &["js", "mjs", "cjs", "jsx"]),
    row(CodeLanguage::Kotlin, "kotlin", &["text/x-kotlin"], &["kt", "kts"]),
    row(CodeLanguage::Latex, "latex", &["text/x-tex", "text/x-latex", "application/x-tex"], &["tex", "sty"]),
    row(CodeLanguage::Lua, "lua", &["text/x-lua"], &["lua"]),
    row(CodeLanguage::Perl, "perl", &["text/x-perl"], &["pl", "pm"]),
    row(CodeLanguage::Php, "php", &["text/x-php", "application/x-httpd-php"], &["php"]),
    row(CodeLanguage::PowerShell, "powershell", &["text/x-powershell"], &["ps1", "psm1"]),
    row(CodeLanguage::Protobuf, "proto", &["text/x-protobuf"], &["proto"]),
    row(CodeLanguage::Python, "python", &["text/x-python"], &["py", "pyi"]),
    row(CodeLanguage::R, "r", &["text/x-r"], &["r"]),
    row(CodeLanguage::Ruby, "ruby", &["text/x-ruby"], &["rb"]),
    row(CodeLanguage::Rust, "rust", &["text/x-rust"], &["rs"]),
    row(CodeLanguage::Scala, "scala", &["text/x-scala"], &["scala", "sc"]),
    row(CodeLanguage::Shell, "shell", &["text/x-sh", "application/x-sh"], &["sh", "bash", "zsh"]),
    row(CodeLanguage::Solidity, "sol", &["text/x-solidity"], &["sol"]),
    row(CodeLanguage::Sql, "sql", &["text/x-sql", "application/sql"], &["sql"]),
    row(CodeLanguage::Swift, "swift", &["text/x-swift"], &["swift"]),
    row(CodeLanguage::Toml, "toml", &["text/x-toml", "application/toml"], &["toml"]),
    row(CodeLanguage::TypeScript, "ts", &["text/x-typescript", "application/typescript"], &["ts", "mts", "cts", "tsx"]),
    row(CodeLanguage::VisualBasic, "visualbasic6", &["text/x-vb"], &["bas", "vb", "cls"]),
    row(CodeLanguage::Xml, "xml", &["text/xml", "application/xml"], &["xml", "xsd", "xsl"]),
    row(CodeLanguage::Yaml, "yaml", &["text/x-yaml", "application/yaml"], &["yaml", "yml"]),
];

impl CodeLanguage {
    /// Its name in metadata, such as `rust`, `cpp`, `js`: that of the splitters, where they know the language.
    pub fn name(self) -> &'static str {
        self.row().map_or("", |row| row.name)
    }

    /// Its media type, such as `text/x-rust`.
    pub fn media_type(self) -> &'static str {
        self.row().and_then(|row| row.media_types.first()).copied().unwrap_or("text/plain")
    }

    /// Told by an extension in small letters, without its dot.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.extensions.contains(&extension)).map(|row| row.language)
    }

    /// Told by a media type in small letters, without parameters.
    pub(crate) fn of_media_type(media_type: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.media_types.contains(&media_type)).map(|row| row.language)
    }

    fn row(self) -> Option<&'static Row> {
        ROWS.get(self as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_language_finds_its_own_row() {
        for row in &ROWS {
            assert_eq!(row.language.name(), row.name);
            for extension in row.extensions {
                assert_eq!(CodeLanguage::of_extension(extension), Some(row.language), "{extension}");
            }
            for media_type in row.media_types {
                assert_eq!(CodeLanguage::of_media_type(media_type), Some(row.language), "{media_type}");
            }
        }
    }

    #[test]
    fn names_are_given_once() {
        let names: BTreeSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }
}
