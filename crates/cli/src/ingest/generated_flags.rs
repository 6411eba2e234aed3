//! Flags that have a language model write texts that lead to documents, and the messages they make.

use toller_api::v1;

use crate::error::Error;

/// Texts that a language model writes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Texts by a language model")]
pub(crate) struct GeneratedFlags {
    /// Have a language model sum up each document (each parent, where there are some); the summaries are found besides the chunks
    #[arg(long)]
    summaries: bool,
    /// Have a language model write so many questions that each document answers, 1 to 10; they are found besides the chunks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
    questions: Option<u32>,
    /// Language model of the server's configuration [default: its default]
    #[arg(long, value_name = "NAME")]
    language_model: Option<String>,
}

impl GeneratedFlags {
    /// The texts that are asked for.
    ///
    /// # Errors
    /// `Usage` when a language model is named and nothing for it to write.
    pub(crate) fn texts(&self) -> Result<Vec<v1::GeneratedTexts>, Error> {
        let of = |kind: v1::GeneratedKind, count| v1::GeneratedTexts {
            kind: kind.into(),
            language_model: self.language_model.clone().unwrap_or_default(),
            count,
        };
        let mut texts = Vec::new();
        if self.summaries {
            texts.push(of(v1::GeneratedKind::Summary, None));
        }
        if self.questions.is_some() {
            texts.push(of(v1::GeneratedKind::Questions, self.questions));
        }
        if texts.is_empty() && self.language_model.is_some() {
            return Err(Error::Usage("--language-model needs --summaries or --questions".to_owned()));
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: GeneratedFlags,
    }

    fn texts(line: &str) -> Result<Vec<v1::GeneratedTexts>, Error> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().flags.texts()
    }

    #[test]
    fn each_kind_names_its_model() {
        assert_eq!(texts("").unwrap(), []);
        let made = texts("--summaries --questions 5 --language-model small").unwrap();
        let kinds: Vec<_> = made.iter().map(|texts| (texts.kind(), texts.count)).collect();
        assert_eq!(kinds, [(v1::GeneratedKind::Summary, None), (v1::GeneratedKind::Questions, Some(5))]);
        assert!(made.iter().all(|texts| texts.language_model == "small"));
    }

    #[test]
    fn a_model_needs_something_to_write() {
        assert!(texts("--language-model small").unwrap_err().to_string().contains("--summaries"));
        assert!(Line::try_parse_from(["x", "--questions", "0"]).is_err());
        assert!(Line::try_parse_from(["x", "--questions", "11"]).is_err());
    }
}
