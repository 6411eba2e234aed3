//! Flags that say how documents are cut, and the message they make.

use toller_api::v1;
use toller_api::v1::splitter;

use crate::error::Error;

/// The size of a chunk in code points where the command line does not say; the server's default.
const DEFAULT_CHUNK_SIZE: u32 = 1000;

/// A way to cut documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Code by its language, JSON by its values, all else by headings, paragraphs, lines, sentences and words
    Automatic,
    /// At the first of a list of separators that makes the parts small enough, then at the next
    Recursive,
    /// At one separator
    Character,
    /// Windows of the model's own tokens
    Token,
    /// Sections by their headings
    Headings,
    /// JSON by its values
    Json,
    /// Whole sentences
    Sentence,
    /// Where the meaning changes; embeds every sentence
    Semantic,
    /// Source code by its syntax
    Code,
    /// Not at all
    Whole,
}

impl Kind {
    /// As it is typed.
    fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Recursive => "recursive",
            Self::Character => "character",
            Self::Token => "token",
            Self::Headings => "headings",
            Self::Json => "json",
            Self::Sentence => "sentence",
            Self::Semantic => "semantic",
            Self::Code => "code",
            Self::Whole => "whole",
        }
    }

    fn has_chunk_size(self) -> bool {
        !matches!(self, Self::Semantic | Self::Whole)
    }

    fn has_chunk_overlap(self) -> bool {
        matches!(
            self,
            Self::Automatic | Self::Recursive | Self::Character | Self::Token | Self::Headings | Self::Sentence
        )
    }

    fn has_separators(self) -> bool {
        matches!(self, Self::Recursive | Self::Character)
    }

    fn has_language(self) -> bool {
        matches!(self, Self::Recursive | Self::Code)
    }
}

/// How documents are cut into chunks.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Splitting")]
pub(crate) struct SplitterFlags {
    /// How documents are cut into chunks
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Automatic)]
    splitter: Kind,
    /// Longest chunk, in characters (Unicode code points), or in tokens with `--splitter token` [default: 1000, or what the model reads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk_size: Option<u32>,
    /// Most of it that a chunk repeats of the one before [default: 15 % of the chunk size, at most 150]
    #[arg(long, value_name = "N")]
    chunk_overlap: Option<u32>,
    /// Programming or markup language, such as python, for the splitters recursive and code
    #[arg(long, value_name = "NAME")]
    language: Option<String>,
    /// Separator of the splitters recursive (repeatable, from coarse to fine) and character, as typed: $'\n' is a line end in most shells
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    separators: Vec<String>,
    /// Separators are regular expressions
    #[arg(long)]
    separator_regex: bool,
    /// Split chunks that are longer than the model reads further, by tokens, instead of embedding their beginning alone
    #[arg(long)]
    split_overlong: bool,
    /// Make chunks children of their documents: chunks are found, documents are what a retriever of parents returns
    #[arg(long)]
    parents: bool,
    /// Make chunks children of parts of documents, of so many characters at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "parents")]
    parent_chunk_size: Option<u32>,
}

impl SplitterFlags {
    /// The splitter.
    ///
    /// # Errors
    /// `Usage`, naming the flag that does not apply or is out of range.
    pub(crate) fn splitter(&self) -> Result<v1::Splitter, Error> {
        self.refuse_what_does_not_apply()?;
        let chunk_size = self.chunk_size;
        let kind = match self.splitter {
            Kind::Automatic => splitter::Kind::Automatic(v1::AutomaticSplitter {
                chunk_size,
                chunk_overlap: self.overlap_of_characters()?,
            }),
            Kind::Recursive => splitter::Kind::Recursive(v1::RecursiveSplitter {
                chunk_size,
                chunk_overlap: self.overlap_of_characters()?,
                separators: self.separators.clone(),
                is_separator_regex: self.separator_regex.then_some(true),
                language: self.language.clone().unwrap_or_default(),
                ..Default::default()
            }),
            Kind::Character => splitter::Kind::Character(v1::CharacterSplitter {
                chunk_size,
                chunk_overlap: self.overlap_of_characters()?,
                separator: self.one_separator()?,
                is_separator_regex: self.separator_regex.then_some(true),
                ..Default::default()
            }),
            Kind::Token => {
                if let (Some(size), Some(overlap)) = (chunk_size, self.chunk_overlap)
                    && overlap >= size
                {
                    return Err(usage(format!(
                        "--chunk-overlap: must be less than the chunk size of {size}, got {overlap}"
                    )));
                }
                splitter::Kind::Token(v1::TokenSplitter { chunk_size, chunk_overlap: self.chunk_overlap })
            }
            Kind::Headings => splitter::Kind::Headings(v1::HeadingSplitter {
                chunk_size,
                chunk_overlap: self.overlap_of_characters()?,
                ..Default::default()
            }),
            Kind::Json => splitter::Kind::Json(v1::JsonSplitter { chunk_size }),
            Kind::Sentence => splitter::Kind::Sentence(v1::SentenceSplitter {
                chunk_size,
                chunk_overlap: self.overlap_of_characters()?,
            }),
            Kind::Semantic => splitter::Kind::Semantic(v1::SemanticSplitter::default()),
            Kind::Code => {
                let Some(language) = self.language.clone() else {
                    return Err(usage(
                        "--splitter code needs --language; automatic takes that of each file".to_owned(),
                    ));
                };
                splitter::Kind::Code(v1::CodeSplitter { chunk_size, language })
            }
            Kind::Whole => splitter::Kind::Whole(v1::WholeDocument {}),
        };
        let overlong = if self.split_overlong { v1::OverlongChunks::Split } else { v1::OverlongChunks::Warn };
        Ok(v1::Splitter { kind: Some(kind), overlong: overlong.into() })
    }

    /// The parents of chunks; none where there are to be none. Parents that are parts do not overlap.
    ///
    /// # Errors
    /// `Usage` when a parent would be smaller than its chunks.
    pub(crate) fn parents(&self) -> Result<Option<v1::ParentIndexing>, Error> {
        if self.parents {
            return Ok(Some(v1::ParentIndexing { splitter: None }));
        }
        let Some(size) = self.parent_chunk_size else { return Ok(None) };
        let is_by_tokens = self.splitter == Kind::Token;
        if let Some(chunk_size) = self.chunk_size.filter(|chunk_size| *chunk_size > size && !is_by_tokens) {
            return Err(usage(format!(
                "--parent-chunk-size: must be at least the chunk size of {chunk_size}, got {size}"
            )));
        }
        let parts = v1::AutomaticSplitter { chunk_size: Some(size), chunk_overlap: Some(0) };
        let splitter = v1::Splitter { kind: Some(splitter::Kind::Automatic(parts)), ..Default::default() };
        Ok(Some(v1::ParentIndexing { splitter: Some(splitter) }))
    }

    /// Does most text stand in several chunks?
    pub(crate) fn overlaps_by_more_than_half(&self) -> bool {
        self.chunk_overlap.is_some_and(|overlap| overlap > self.chunk_size.unwrap_or(DEFAULT_CHUNK_SIZE) / 2)
    }

    fn refuse_what_does_not_apply(&self) -> Result<(), Error> {
        let kind = self.splitter;
        let flags = [
            ("--chunk-size", self.chunk_size.is_some(), kind.has_chunk_size()),
            ("--chunk-overlap", self.chunk_overlap.is_some(), kind.has_chunk_overlap()),
            ("--separators", !self.separators.is_empty(), kind.has_separators()),
            ("--separator-regex", self.separator_regex, kind.has_separators()),
            ("--language", self.language.is_some(), kind.has_language()),
        ];
        for (flag, is_given, applies) in flags {
            if is_given && !applies {
                return Err(usage(format!("{flag} does not apply to the splitter {}", kind.name())));
            }
        }
        if self.separator_regex && self.separators.is_empty() {
            return Err(usage("--separator-regex needs --separators".to_owned()));
        }
        if self.language.is_some() && !self.separators.is_empty() {
            return Err(usage("--language and --separators both say where to cut: give one of them".to_owned()));
        }
        Ok(())
    }

    /// None for the server's default.
    fn overlap_of_characters(&self) -> Result<Option<u32>, Error> {
        let size = self.chunk_size.unwrap_or(DEFAULT_CHUNK_SIZE);
        match self.chunk_overlap.filter(|overlap| *overlap > size) {
            Some(overlap) => {
                Err(usage(format!("--chunk-overlap: must be at most the chunk size of {size}, got {overlap}")))
            }
            None => Ok(self.chunk_overlap),
        }
    }

    fn one_separator(&self) -> Result<Option<String>, Error> {
        match self.separators.as_slice() {
            [] => Ok(None),
            [separator] => Ok(Some(separator.clone())),
            several => Err(usage(format!("--separators: the splitter character has one, got {}", several.len()))),
        }
    }
}

fn usage(fault: String) -> Error {
    Error::Usage(fault)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: SplitterFlags,
    }

    fn parse(line: &str) -> Result<SplitterFlags, clap::Error> {
        Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace())).map(|line| line.flags)
    }

    fn kind(line: &str) -> splitter::Kind {
        parse(line).unwrap().splitter().unwrap().kind.unwrap()
    }

    fn fault(line: &str) -> String {
        let flags = parse(line).unwrap();
        match (flags.splitter(), flags.parents()) {
            (Err(fault), _) | (_, Err(fault)) => fault.to_string(),
            _ => panic!("{line:?} must be refused"),
        }
    }

    #[test]
    fn every_kind_has_a_message() {
        let automatic = v1::AutomaticSplitter { chunk_size: None, chunk_overlap: None };
        assert_eq!(kind(""), splitter::Kind::Automatic(automatic));
        let recursive = v1::RecursiveSplitter {
            chunk_size: Some(200),
            chunk_overlap: Some(20),
            separators: vec!["a|b".to_owned(), "-".to_owned()],
            is_separator_regex: Some(true),
            ..Default::default()
        };
        assert_eq!(
            kind(
                "--splitter recursive --chunk-size 200 --chunk-overlap 20 --separators a|b --separators - --separator-regex"
            ),
            splitter::Kind::Recursive(recursive)
        );
        let character =
            v1::CharacterSplitter { separator: Some("--".to_owned()), chunk_overlap: Some(0), ..Default::default() };
        assert_eq!(
            kind("--splitter character --separators -- --chunk-overlap 0"),
            splitter::Kind::Character(character)
        );
        let token = v1::TokenSplitter { chunk_size: Some(100), chunk_overlap: None };
        assert_eq!(kind("--splitter token --chunk-size 100"), splitter::Kind::Token(token));
        let code = v1::CodeSplitter { chunk_size: Some(9), language: "rust".to_owned() };
        assert_eq!(kind("--splitter code --chunk-size 9 --language rust"), splitter::Kind::Code(code));
        assert!(matches!(kind("--splitter headings"), splitter::Kind::Headings(_)));
        assert!(matches!(kind("--splitter json"), splitter::Kind::Json(_)));
        assert!(matches!(kind("--splitter sentence"), splitter::Kind::Sentence(_)));
        assert!(matches!(kind("--splitter semantic"), splitter::Kind::Semantic(_)));
        assert!(matches!(kind("--splitter whole"), splitter::Kind::Whole(_)));
        assert!(parse("--splitter fair").is_err());
    }

    #[test]
    fn a_flag_that_does_not_apply_is_named() {
        for (line, flag) in [
            ("--splitter whole --chunk-size 5", "--chunk-size"),
            ("--splitter semantic --chunk-size 5", "--chunk-size"),
            ("--splitter json --chunk-overlap 5", "--chunk-overlap"),
            ("--splitter code --language go --chunk-overlap 5", "--chunk-overlap"),
            ("--separators x", "--separators"),
            ("--splitter token --separator-regex", "--separator-regex"),
            ("--splitter headings --language rust", "--language"),
        ] {
            let fault = fault(line);
            assert!(fault.starts_with(flag) && fault.contains("does not apply"), "{line}: {fault}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        assert!(parse("--chunk-size 0").is_err() && parse("--parents --parent-chunk-size 9").is_err());
        for (line, said) in [
            ("--chunk-size 10 --chunk-overlap 11", "--chunk-overlap: must be at most the chunk size of 10, got 11"),
            ("--splitter token --chunk-size 9 --chunk-overlap 9", "must be less than the chunk size of 9"),
            ("--splitter character --separators a --separators b", "has one, got 2"),
            ("--splitter recursive --separator-regex", "needs --separators"),
            ("--splitter code", "needs --language"),
            ("--splitter recursive --separators a --language go", "give one of them"),
            ("--chunk-size 10 --parent-chunk-size 9", "--parent-chunk-size: must be at least the chunk size of 10"),
        ] {
            let fault = fault(line);
            assert!(fault.contains(said), "{line}: {fault}");
        }
    }

    #[test]
    fn an_overlap_of_more_than_half_is_noticed() {
        assert!(parse("--chunk-size 10 --chunk-overlap 6").unwrap().overlaps_by_more_than_half());
        assert!(!parse("--chunk-overlap 500").unwrap().overlaps_by_more_than_half());
    }

    #[test]
    fn parents_are_documents_or_parts() {
        let parents = |line: &str| parse(line).unwrap().parents().unwrap();
        assert_eq!(parents(""), None);
        assert_eq!(parents("--parents"), Some(v1::ParentIndexing { splitter: None }));
        let parts = parents("--parent-chunk-size 4000").unwrap().splitter.unwrap().kind;
        let expected = v1::AutomaticSplitter { chunk_size: Some(4000), chunk_overlap: Some(0) };
        assert_eq!(parts, Some(splitter::Kind::Automatic(expected)));
        let overlong = parse("--split-overlong").unwrap().splitter().unwrap().overlong;
        assert_eq!(overlong, i32::from(v1::OverlongChunks::Split));
    }
}
