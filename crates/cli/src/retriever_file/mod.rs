//! A retriever in a file, as JSON or YAML: the field names of the contract, with filters in their JSON form.
//!
//! ```yaml
//! name: docs-both
//! ensemble:
//!   retrievers:
//!     - vector_store: {collection: docs, k: 20, filter: {lang: en}}
//!     - ref: notes
//!   weights: [0.7, 0.3]
//! ```
//!
//! Each family of retrievers is a file. An unknown key is an error with its path.

mod asking;
mod compression;
mod duration;
mod fusion;
mod keyword;
mod parents;
mod routing;
mod time_weighted;
mod vector_store;

use std::io::Read as _;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toller_api::v1;
use toller_api::v1::retriever::Kind;

use self::asking::{Decompose, Hyde, MultiQuery, Rephrase, SelfQuery};
use self::compression::ContextualCompression;
use self::duration::Timeout;
use self::fusion::{Ensemble, Merger};
use self::keyword::{Hybrid, Keyword};
use self::parents::{MultiVector, ParentDocument};
use self::routing::{Fallback, LlmRouter, Router};
use self::time_weighted::TimeWeighted;
use self::vector_store::VectorStore;
use crate::error::Error;
use crate::filter::check_integers;
use crate::names::OnError;

/// A retriever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetrieverFile {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Timeout>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_error: Option<OnError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_store: Option<VectorStore>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multi_vector: Option<Box<MultiVector>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_document: Option<ParentDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contextual_compression: Option<Box<ContextualCompression>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    merger: Option<Merger>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ensemble: Option<Ensemble>,
    #[serde(skip_serializing_if = "Option::is_none")]
    router: Option<Router>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<Fallback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_weighted: Option<Box<TimeWeighted>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyword: Option<Keyword>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hybrid: Option<Hybrid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multi_query: Option<Box<MultiQuery>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hyde: Option<Box<Hyde>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rephrase: Option<Box<Rephrase>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decompose: Option<Box<Decompose>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    self_query: Option<SelfQuery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_router: Option<LlmRouter>,
}

/// Reads JSON, which begins with a brace, or else YAML. Faults have the path of the field and the place in the text.
///
/// # Errors
/// Says what is wrong.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let at_path = |path: String, fault: String| if path == "." { fault } else { format!("{path}: {fault}") };
    // Of YAML this may also refuse such a number within a text without double quotes: rather that than another number in silence.
    check_integers(text)?;
    if text.trim_start().starts_with('{') {
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = serde_path_to_error::deserialize(&mut reader)
            .map_err(|fault| at_path(fault.path().to_string(), fault.into_inner().to_string()))?;
        reader.end().map_err(|fault| fault.to_string())?;
        return Ok(value);
    }
    let value: serde_json::Value = serde_saphyr::from_str(text).map_err(|fault| first_line(&fault.to_string()))?;
    serde_path_to_error::deserialize(value)
        .map_err(|fault| at_path(fault.path().to_string(), fault.into_inner().to_string()))
}

/// The fault itself, without the lines of the text that the reader of YAML adds, and its advice to programmers.
fn first_line(fault: &str) -> String {
    let line = fault.lines().next().unwrap_or_default().trim_start_matches("error: ");
    line.split(", set ").next().unwrap_or(line).to_owned()
}

impl RetrieverFile {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// `File`, or `Failed` with the path of the field where the text is not a retriever's.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(path)
        };
        let text = text.map_err(|source| Error::File { path: path.to_owned(), source })?;
        parse(&text).map_err(|fault| Error::Failed(format!("{}: {fault}", path.display())))
    }

    /// The message.
    ///
    /// # Errors
    /// `Failed` when some retriever in it is of two kinds at once; all else is the server's to check.
    pub(crate) fn into_message(self) -> Result<v1::Retriever, Error> {
        let kinds = [
            self.vector_store.map(|spec| Ok(Kind::VectorStore(spec.into_message()))),
            self.reference.map(|name| Ok(Kind::Ref(name))),
            self.multi_vector.map(|spec| spec.into_message().map(Box::new).map(Kind::MultiVector)),
            self.parent_document.map(|spec| spec.into_message().map(Kind::ParentDocument)),
            self.contextual_compression.map(|spec| spec.into_message().map(Box::new).map(Kind::ContextualCompression)),
            self.merger.map(|spec| spec.into_message().map(Kind::Merger)),
            self.ensemble.map(|spec| spec.into_message().map(Kind::Ensemble)),
            self.router.map(|spec| spec.into_message().map(Box::new).map(Kind::Router)),
            self.fallback.map(|spec| spec.into_message().map(Kind::Fallback)),
            self.time_weighted.map(|spec| spec.into_message().map(Box::new).map(Kind::TimeWeighted)),
            self.keyword.map(|spec| Ok(Kind::Keyword(spec.into_message()))),
            self.hybrid.map(|spec| Ok(Kind::Hybrid(spec.into_message()))),
            self.multi_query.map(|spec| spec.into_message().map(Box::new).map(Kind::MultiQuery)),
            self.hyde.map(|spec| spec.into_message().map(Box::new).map(Kind::Hyde)),
            self.rephrase.map(|spec| spec.into_message().map(Box::new).map(Kind::Rephrase)),
            self.decompose.map(|spec| spec.into_message().map(Box::new).map(Kind::Decompose)),
            self.self_query.map(|spec| Ok(Kind::SelfQuery(spec.into_message()))),
            self.llm_router.map(|spec| spec.into_message().map(Kind::LlmRouter)),
        ];
        Ok(v1::Retriever {
            name: self.name,
            tags: self.tags,
            timeout: self.timeout.map(Timeout::into_message),
            on_error: self.on_error.map_or(0, i32::from),
            kind: at_most_one("a retriever", "vector_store or ensemble", kinds)?,
        })
    }

    /// From its message.
    ///
    /// # Errors
    /// `Failed` when the server's retriever has something that this version does not know.
    pub(crate) fn from_message(message: v1::Retriever) -> Result<Self, Error> {
        let mut file = Self {
            name: message.name,
            tags: message.tags,
            timeout: message.timeout.map(Timeout::from_message).transpose()?,
            on_error: OnError::from_message(message.on_error),
            vector_store: None,
            reference: None,
            multi_vector: None,
            parent_document: None,
            contextual_compression: None,
            merger: None,
            ensemble: None,
            router: None,
            fallback: None,
            time_weighted: None,
            keyword: None,
            hybrid: None,
            multi_query: None,
            hyde: None,
            rephrase: None,
            decompose: None,
            self_query: None,
            llm_router: None,
        };
        match message.kind {
            None => {}
            Some(Kind::VectorStore(spec)) => file.vector_store = Some(VectorStore::from_message(spec)?),
            Some(Kind::Ref(name)) => file.reference = Some(name),
            Some(Kind::MultiVector(spec)) => file.multi_vector = Some(Box::new(MultiVector::from_message(*spec)?)),
            Some(Kind::ParentDocument(spec)) => file.parent_document = Some(ParentDocument::from_message(spec)?),
            Some(Kind::ContextualCompression(spec)) => {
                file.contextual_compression = Some(Box::new(ContextualCompression::from_message(*spec)?));
            }
            Some(Kind::Merger(spec)) => file.merger = Some(Merger::from_message(spec)?),
            Some(Kind::Ensemble(spec)) => file.ensemble = Some(Ensemble::from_message(spec)?),
            Some(Kind::Router(spec)) => file.router = Some(Router::from_message(*spec)?),
            Some(Kind::Fallback(spec)) => file.fallback = Some(Fallback::from_message(spec)?),
            Some(Kind::TimeWeighted(spec)) => file.time_weighted = Some(Box::new(TimeWeighted::from_message(*spec)?)),
            Some(Kind::Keyword(spec)) => file.keyword = Some(Keyword::from_message(spec)?),
            Some(Kind::Hybrid(spec)) => file.hybrid = Some(Hybrid::from_message(spec)?),
            Some(Kind::MultiQuery(spec)) => file.multi_query = Some(Box::new(MultiQuery::from_message(*spec)?)),
            Some(Kind::Hyde(spec)) => file.hyde = Some(Box::new(Hyde::from_message(*spec)?)),
            Some(Kind::Rephrase(spec)) => file.rephrase = Some(Box::new(Rephrase::from_message(*spec)?)),
            Some(Kind::Decompose(spec)) => file.decompose = Some(Box::new(Decompose::from_message(*spec)?)),
            Some(Kind::SelfQuery(spec)) => file.self_query = Some(SelfQuery::from_message(spec)?),
            Some(Kind::LlmRouter(spec)) => file.llm_router = Some(LlmRouter::from_message(spec)?),
        }
        Ok(file)
    }

    /// Its name; empty for none.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its tags.
    pub(crate) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// What it does, in a word, and on what.
    pub(crate) fn summary(&self) -> (&'static str, String) {
        let count = |retrievers: usize| format!("{retrievers} retrievers");
        if let Some(search) = &self.vector_store {
            ("vector_store", search.collection.clone())
        } else if let Some(name) = &self.reference {
            ("ref", name.clone())
        } else if let Some(spec) = &self.multi_vector {
            ("multi_vector", spec.retriever.summary().1)
        } else if let Some(spec) = &self.parent_document {
            ("parent_document", spec.search.collection.clone())
        } else if let Some(spec) = &self.contextual_compression {
            ("contextual_compression", spec.retriever.summary().1)
        } else if let Some(spec) = &self.merger {
            ("merger", count(spec.retrievers.len()))
        } else if let Some(spec) = &self.ensemble {
            ("ensemble", count(spec.retrievers.len()))
        } else if let Some(spec) = &self.router {
            ("router", format!("{} rules", spec.rules.len()))
        } else if let Some(spec) = &self.fallback {
            ("fallback", count(spec.retrievers.len()))
        } else if let Some(spec) = &self.time_weighted {
            ("time_weighted", spec.retriever.summary().1)
        } else if let Some(spec) = &self.keyword {
            ("keyword", spec.collection.clone())
        } else if let Some(spec) = &self.hybrid {
            ("hybrid", spec.collection.clone())
        } else if let Some(spec) = &self.multi_query {
            ("multi_query", spec.retriever.summary().1)
        } else if let Some(spec) = &self.hyde {
            ("hyde", spec.retriever.summary().1)
        } else if let Some(spec) = &self.rephrase {
            ("rephrase", spec.retriever.summary().1)
        } else if let Some(spec) = &self.decompose {
            ("decompose", spec.retriever.summary().1)
        } else if let Some(spec) = &self.self_query {
            ("self_query", spec.search.collection.clone())
        } else if let Some(spec) = &self.llm_router {
            ("llm_router", format!("{} routes", spec.routes.len()))
        } else {
            ("-", "-".to_owned())
        }
    }
}

/// The one kind that is given, of `what`; none for none.
fn at_most_one<K, const N: usize>(
    what: &str,
    such_as: &str,
    kinds: [Option<Result<K, Error>>; N],
) -> Result<Option<K>, Error> {
    let mut given = kinds.into_iter().flatten();
    match (given.next(), given.next()) {
        (_, Some(_)) => Err(Error::Failed(format!("{what} is of one kind, such as {such_as}, not of several"))),
        (kind, None) => kind.transpose(),
    }
}

fn all_to_messages(retrievers: Vec<RetrieverFile>) -> Result<Vec<v1::Retriever>, Error> {
    retrievers.into_iter().map(RetrieverFile::into_message).collect()
}

fn all_from_messages(messages: Vec<v1::Retriever>) -> Result<Vec<RetrieverFile>, Error> {
    messages.into_iter().map(RetrieverFile::from_message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_the_message_and_comes_back() {
        let text = r#"{"name":"docs-mmr","tags":["demo"],"vector_store":{"collection":"docs","search_type":"mmr","k":0,"lambda_mult":0.0,"filter":{"year":{"$gte":2020}},"relevance_fn":"half_cosine","with_vectors":false}}"#;
        let file: RetrieverFile = serde_json::from_str(text).unwrap();
        let message = file.clone().into_message().unwrap();
        let Some(Kind::VectorStore(search)) = &message.kind else { panic!("wrong kind") };
        assert_eq!((search.k, search.fetch_k, search.with_vectors), (Some(0), None, Some(false)));
        assert_eq!(search.search_type(), v1::SearchType::Mmr);
        let back = RetrieverFile::from_message(message).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        assert_eq!(back.summary(), ("vector_store", "docs".to_owned()));
    }

    #[test]
    fn references_and_faults() {
        let reference: RetrieverFile = serde_json::from_str(r#"{"ref":"other"}"#).unwrap();
        assert_eq!(reference.into_message().unwrap().kind, Some(Kind::Ref("other".to_owned())));
        let both = r#"{"ref":"a","vector_store":{"collection":"b"}}"#;
        assert!(serde_json::from_str::<RetrieverFile>(both).unwrap().into_message().is_err());
        for (text, expected) in [
            (r#"{"vector_store":{"collection":"a","kk":1}}"#, "vector_store.kk: unknown field `kk`"),
            // A threshold on a fused list would be one of nothing: it is no parameter, and so it is not ignored.
            (
                r#"{"ensemble":{"retrievers":[{"ref":"a"}],"score_threshold":0.4}}"#,
                "ensemble.score_threshold: unknown field",
            ),
            (r#"{"ensemble":{"retrievers":[{"ref":"a"},{"reff":"b"}]}}"#, "ensemble.retrievers[1].reff: unknown field"),
            ("ensemble:\n  retrievers:\n    - ref: a\n    - reff: b\n", "ensemble.retrievers[1].reff: unknown field"),
            ("vector_store: {collection: a, k: 1, k: 2}", "duplicate"),
            ("timeout: 5\nref: a", "timeout: "),
            ("timeout: 5 minutes\nref: a", "timeout: must be"),
            (r#"{"vector_store":{"collection":"a","search_type":"best"}}"#, "unknown variant `best`"),
            (r#"{"vector_store":{"collection":"a","filter":{"x":{"$gt3":1}}}}"#, "x.$gt3: unknown operator"),
            (r#"{"vector_store":{}}"#, "missing field `collection`"),
        ] {
            let fault = parse::<RetrieverFile>(text).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn every_kind_comes_back_and_yaml_is_the_same_as_json() {
        let tree = r#"{"name":"all","timeout":"1.5s","on_error":"skip","fallback":{"retrievers":[
            {"ensemble":{"retrievers":[{"vector_store":{"collection":"a"}},{"ref":"b"}],"weights":[0.5,0.0],"fusion":"min_max","id_key":"x","k":0}},
            {"merger":{"retrievers":[{"ref":"b"}],"allow_duplicates":false,"k":3}},
            {"multi_vector":{"retriever":{"ref":"b"},"parents":{"document_store":"texts"},"id_key":"p","k":2,"score":"mean"}},
            {"parent_document":{"search":{"collection":"a"},"parents":{"collection":"b"},"score":"max"}},
            {"contextual_compression":{"retriever":{"ref":"b"},"compressors":[
                {"on_error":"skip","rerank":{"top_n":2}},{"embeddings_filter":{"threshold":0.0,"k":1}},
                {"redundant_filter":{}},{"long_context_reorder":{}},{"extract":{"max_sentences":1,"model":"m"}}]}},
            {"router":{"rules":[{"contains":"x","retriever":{"ref":"b"}},{"regex":"^y","retriever":{"ref":"b"}},
                {"length":{"min":0,"max":9},"retriever":{"ref":"b"}},{"metadata":{"plan":"pro"},"retriever":{"ref":"b"}}],
                "default_retriever":{"ref":"c"}}},
            {"time_weighted":{"retriever":{"ref":"b"},"decay_rate":0.0,"timestamp_field":"at","k":1,"other_score_keys":["s"],"access_log":"seen"}},
            {"keyword":{"collection":"a","k":3,"filter":{"lang":"en"},"with_vectors":true}},
            {"hybrid":{"collection":"a","k":3,"leg_k":9,"vector_weight":0.0,"keyword_weight":2.0,"fusion":"min_max","filter":{"lang":"en"}}},
            {"multi_query":{"retriever":{"ref":"b"},"include_original":false,"queries":["x"],"k":2}},
            {"decompose":{"retriever":{"rephrase":{"retriever":{"ref":"b"}}},"model":"m","max_queries":0,"include_original":true}},
            {"hyde":{"retriever":{"ref":"b"},"prompt":"{query}","include_query":true}},
            {"contextual_compression":{"retriever":{"ref":"b"},"compressors":[
                {"llm_extract":{"model":"m"}},{"llm_filter":{"prompt":"p"}},{"on_error":"skip","llm_rerank":{"top_n":0}}]}},
            {"self_query":{"search":{"collection":"a"},"fields":[{"name":"year","type":"integer","description":"d"},
                {"name":"tags","type":"string_list"}],"contents":"films","on_invalid":"ignore"}},
            {"llm_router":{"routes":[{"name":"x","description":"d","retriever":{"ref":"b"}},
                {"name":"y","description":"e","retriever":{"ref":"c"}}],"model":"m","max_routes":1,"default_route":"y","k":0}}
            ],"min_hits":2,"min_relevance":0.0}}"#;
        let file: RetrieverFile = parse(tree).unwrap();
        let back = RetrieverFile::from_message(file.clone().into_message().unwrap()).unwrap();
        let plain: serde_json::Value = serde_json::from_str(tree).unwrap();
        assert_eq!(serde_json::to_value(&back).unwrap(), plain);
        // JSON is YAML; after a line that is none it is read as such.
        assert_eq!(parse::<RetrieverFile>(&format!("# a comment\n{tree}")).unwrap(), file);
        assert_eq!(back.summary(), ("fallback", "15 retrievers".to_owned()));
    }

    #[test]
    fn integers_of_yaml_are_exact_or_refused() {
        let filtered =
            |number: &str| parse::<RetrieverFile>(&format!("vector_store: {{collection: a, filter: {{x: {number}}}}}"));
        let exact = serde_json::to_value(filtered("9007199254740993").unwrap()).unwrap();
        assert_eq!(exact["vector_store"]["filter"]["x"], 9_007_199_254_740_993_i64);
        assert!(filtered("18446744073709551616").is_err());
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = RetrieverFile::read(Path::new("/nowhere/r.json")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/r.json"), "{error}");
    }
}
