//! Declared retrievers that ask a language model before they search.

use serde::{Deserialize, Serialize};

use super::{RetrieverSpec, VectorStoreRetrieverSpec};

/// Default number of queries that a model is asked for, as in LangChain.
pub const DEFAULT_MAX_QUERIES: u32 = 3;
/// Most queries that a model may be asked for, or that a declaration may bring: each is a retrieval.
pub const MOST_QUERIES: u32 = 20;

/// Which model is asked, and what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AskSpec {
    /// The language model; none for the default one.
    pub model: Option<String>,
    /// The prompt, with placeholders such as `{query}`; none for the retriever's own.
    pub prompt: Option<String>,
}

/// Retrieves for several wordings of the query (LangChain's `MultiQueryRetriever`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MultiQuerySpec {
    /// Asked once for each query.
    pub retriever: Box<RetrieverSpec>,
    /// Of no use with `queries`.
    #[serde(default)]
    pub ask: AskSpec,
    /// Most wordings besides the query's own, 1 to [`MOST_QUERIES`]; default [`DEFAULT_MAX_QUERIES`].
    pub max_queries: Option<u32>,
    /// Shall the query itself be among them? Default true.
    pub include_original: Option<bool>,
    /// The wordings, where the caller has them; then no model is asked.
    pub queries: Vec<String>,
    /// Most hits, at least 1; none for all.
    pub k: Option<u32>,
}

/// Searches with the vector of a made-up answer (LangChain's `HypotheticalDocumentEmbedder`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HydeSpec {
    /// Searches by vector, somewhere in it.
    pub retriever: Box<RetrieverSpec>,
    /// Whom to ask for the answer.
    #[serde(default)]
    pub ask: AskSpec,
    /// Shall the vector be the mean of the answer's and the query's? Default false.
    pub include_query: Option<bool>,
}

/// Makes a query of its own out of one that needs the conversation before it (LangChain's history-aware retriever).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RephraseSpec {
    /// Gets the new query.
    pub retriever: Box<RetrieverSpec>,
    /// Whom to ask for it.
    #[serde(default)]
    pub ask: AskSpec,
}

/// Retrieves for the parts of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecomposeSpec {
    /// Asked once for each part.
    pub retriever: Box<RetrieverSpec>,
    /// Whom to ask for the parts.
    #[serde(default)]
    pub ask: AskSpec,
    /// Most parts, 1 to [`MOST_QUERIES`]; default [`DEFAULT_MAX_QUERIES`].
    pub max_queries: Option<u32>,
    /// Shall the question itself be among them? Default false.
    pub include_original: Option<bool>,
    /// Most hits, at least 1; none for all.
    pub k: Option<u32>,
}

/// Has a model write the query's conditions as a filter (LangChain's `SelfQueryRetriever`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfQuerySpec {
    /// The search. The model's filter is added to its own, and its `k` is the most that the model may ask for.
    pub search: VectorStoreRetrieverSpec,
    /// What the model may filter by; at least one.
    pub fields: Vec<FieldSpec>,
    /// Whom to ask.
    #[serde(default)]
    pub ask: AskSpec,
    /// What the documents are, for the prompt; empty for nothing.
    pub contents: String,
    /// What becomes of the retrieval when the model's answer is wrong.
    pub on_invalid: OnInvalid,
}

/// A metadata field that a model may filter by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldSpec {
    /// Path in the metadata.
    pub name: String,
    /// What is there.
    pub kind: FieldKind,
    /// What it means, for the prompt.
    pub description: String,
}

/// What is in a metadata field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A list of strings.
    StringList,
}

impl FieldKind {
    /// Name, in the spelling of the public contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::StringList => "string_list",
        }
    }
}

/// What becomes of a retrieval when a model's answer is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInvalid {
    /// It fails.
    #[default]
    Fail,
    /// It goes on with the query as it came and without the model's filter, with a warning.
    Ignore,
}
