//! tokenizer.json for rerankers: a query and a document to the ids of one input.

use std::path::Path;

use crate::error::{Error, Result};
use crate::tokenizer;

/// The share of the longest input that a query may take, as in FlagEmbedding: 3/4, rounded down.
const QUERY_SHARE: (usize, usize) = (3, 4);

/// A query, ready to be paired with documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizedQuery {
    ids: Vec<u32>,
    truncated: bool,
}

/// A pair as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizedPair {
    /// Token ids, special tokens included.
    pub ids: Vec<u32>,
    /// Where the second segment begins, for models that know token types; `ids.len()` where the template has one type.
    pub second: usize,
    /// Was the query or the document cut?
    pub truncated: bool,
}

/// Turns pairs of a query and a document into token ids, in the pair template of tokenizer.json's post-processor.
///
/// Pairs are cut as in FlagEmbedding's `compute_score`: the query to 3/4 of the longest input, without counting special tokens,
/// then the document to what is left. (sentence-transformers' CrossEncoder cuts whichever is longer, so that both agree unless
/// the query alone is long.)
#[derive(Debug)]
pub struct PairTokenizer {
    inner: tokenizers::Tokenizer,
    template: PairTemplate,
    query_tokens: usize,
    /// Most tokens of query and document together, without special tokens.
    content_tokens: usize,
}

impl PairTokenizer {
    /// Reads the tokenizer.json at `path` for pairs of at most `max_tokens` tokens, special tokens included, and a model of
    /// `vocabulary` tokens.
    ///
    /// # Errors
    /// [`Error::FileMissing`], [`Error::Io`], [`Error::Json`] or [`Error::Tokenizer`] with the path; [`Error::Unsupported`] when
    /// the pair template is not one of two texts in their order; [`Error::Invalid`] when `max_tokens` leaves no room for a
    /// document after the longest query.
    pub fn read(path: &Path, max_tokens: usize, vocabulary: usize) -> Result<Self> {
        let (mut inner, _) = tokenizer::read_file(path, vocabulary)?;
        let template =
            PairTemplate::of(&inner).map_err(|problem| Error::unsupported(path, "post_processor", problem))?;
        let special_tokens = template.special_tokens();
        let query_tokens = max_tokens * QUERY_SHARE.0 / QUERY_SHARE.1;
        let content_tokens = max_tokens.saturating_sub(special_tokens);
        if content_tokens <= query_tokens {
            // The quarter that is left, rounded up, must hold one token more than the special ones.
            let least = special_tokens * QUERY_SHARE.1 + 1;
            let problem = format!(
                "must be at least {least}: the query may take 3/4 and the model adds {special_tokens} special tokens, got \
                 {max_tokens}"
            );
            return Err(Error::Invalid { field: "max_tokens", problem });
        }
        tokenizer::cut_after(&mut inner, content_tokens)
            .map_err(|problem| Error::Tokenizer { path: path.to_path_buf(), problem })?;
        Ok(Self { inner, template, query_tokens, content_tokens })
    }

    /// The ids of `text` as a query. Linear in the text's length.
    ///
    /// # Errors
    /// The tokenizer's own message; does not happen for vocabularies with an unknown token.
    pub fn query(&self, text: &str) -> std::result::Result<TokenizedQuery, String> {
        let mut ids = self.content(text)?;
        let truncated = ids.len() > self.query_tokens;
        ids.truncate(self.query_tokens);
        Ok(TokenizedQuery { ids, truncated })
    }

    /// The ids of `query` with `document`. Linear in the document's length; an empty document is a document.
    ///
    /// # Errors
    /// As [`PairTokenizer::query`].
    pub fn pair(&self, query: &TokenizedQuery, document: &str) -> std::result::Result<TokenizedPair, String> {
        let mut document_ids = self.content(document)?;
        let room = self.content_tokens.saturating_sub(query.ids.len());
        let truncated = query.truncated || document_ids.len() > room;
        document_ids.truncate(room);

        let template = &self.template;
        let mut ids = Vec::with_capacity(template.special_tokens() + query.ids.len() + document_ids.len());
        ids.extend_from_slice(&template.before);
        ids.extend_from_slice(&query.ids);
        let middle = ids.len();
        ids.extend_from_slice(&template.between);
        ids.extend_from_slice(&document_ids);
        ids.extend_from_slice(&template.after);
        let second = template.second_after.map_or(ids.len(), |specials| middle + specials);
        Ok(TokenizedPair { ids, second, truncated })
    }

    /// The ids of `text` alone, at most one more than all content may have.
    fn content(&self, text: &str) -> std::result::Result<Vec<u32>, String> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }
}

/// The special tokens around and between the two texts of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PairTemplate {
    before: Vec<u32>,
    between: Vec<u32>,
    after: Vec<u32>,
    /// Token type 1 begins after so many tokens of `between`; none when every token has type 0.
    second_after: Option<usize>,
}

impl PairTemplate {
    /// What the post-processor makes of a pair, learnt from one.
    fn of(tokenizer: &tokenizers::Tokenizer) -> std::result::Result<Self, String> {
        let encoding = tokenizer.encode(("a", "b"), true).map_err(|error| error.to_string())?;
        let sequences = encoding.get_sequence_ids();
        let range = |text: usize| {
            let start = sequences.iter().position(|sequence| *sequence == Some(text))?;
            let end = sequences.iter().rposition(|sequence| *sequence == Some(text))? + 1;
            Some((start, end))
        };
        let (Some(a), Some(b)) = (range(0), range(1)) else {
            return Err("has no template for a pair of texts: fetch the tokenizer.json of a reranker".to_owned());
        };
        let ids = encoding.get_ids();
        let part = |from: usize, to: usize| ids.get(from..to).map(<[u32]>::to_vec);
        let (Some(before), Some(between), Some(after)) = (part(0, a.0), part(a.1, b.0), part(b.1, ids.len())) else {
            return Err("must put the first text of a pair before the second".to_owned());
        };
        if between.is_empty() {
            return Err("must put a special token between the texts of a pair: fetch the tokenizer.json of a reranker"
                .to_owned());
        }
        let types = encoding.get_type_ids();
        let second_after = match types.iter().position(|kind| *kind != 0) {
            None => None,
            Some(second) => {
                let in_the_middle = second >= a.1 && second <= b.0;
                if !in_the_middle || types.iter().skip(second).any(|kind| *kind != 1) {
                    return Err(format!(
                        "must give token type 0 to the first text and 1 to the second, gives {types:?}"
                    ));
                }
                Some(second - a.1)
            }
        };
        Ok(Self { before, between, after, second_after })
    }

    fn special_tokens(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }
}
