//! Routers and fallback.

use serde::{Deserialize, Serialize};
use toller_api::convert::filter_to_message;
use toller_api::v1;
use toller_api::v1::router_rule::Condition;

use super::vector_store::shown_filter;
use super::{RetrieverFile, all_from_messages, all_to_messages, at_most_one};
use crate::error::Error;
use crate::filter::JsonFilter;

/// A retriever chosen by the query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Router {
    pub(super) rules: Vec<Rule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_retriever: Option<Box<RetrieverFile>>,
}

/// A condition and where it leads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(skip_serializing_if = "Option::is_none")]
    contains: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    regex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<JsonFilter>,
    retriever: RetrieverFile,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Length {
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
}

/// Retrievers that a language model chooses among.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LlmRouter {
    pub(super) routes: Vec<Route>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_routes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_route: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
}

/// A retriever with what can be found there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    name: String,
    description: String,
    retriever: RetrieverFile,
}

/// One retriever after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fallback {
    pub(super) retrievers: Vec<RetrieverFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_hits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_relevance: Option<f64>,
}

impl Router {
    pub(super) fn into_message(self) -> Result<v1::RouterRetriever, Error> {
        let default = self.default_retriever.map(|default| default.into_message().map(Box::new)).transpose()?;
        let rules = self.rules.into_iter().map(Rule::into_message).collect::<Result<_, _>>()?;
        Ok(v1::RouterRetriever { rules, default_retriever: default })
    }

    pub(super) fn from_message(message: v1::RouterRetriever) -> Result<Self, Error> {
        let default = message.default_retriever.map(|default| RetrieverFile::from_message(*default).map(Box::new));
        let rules = message.rules.into_iter().map(Rule::from_message).collect::<Result<_, _>>()?;
        Ok(Self { rules, default_retriever: default.transpose()? })
    }
}

impl Rule {
    fn into_message(self) -> Result<v1::RouterRule, Error> {
        let conditions = [
            self.contains.map(|text| Ok(Condition::Contains(text))),
            self.regex.map(|pattern| Ok(Condition::Regex(pattern))),
            self.length.map(|Length { min, max }| Ok(Condition::Length(v1::TextLength { min, max }))),
            self.metadata.map(|JsonFilter(filter)| Ok(Condition::Metadata(filter_to_message(&filter)))),
        ];
        let condition = at_most_one("the condition of a rule", "contains or regex", conditions)?;
        Ok(v1::RouterRule { condition, retriever: Some(self.retriever.into_message()?) })
    }

    fn from_message(message: v1::RouterRule) -> Result<Self, Error> {
        let retriever = RetrieverFile::from_message(message.retriever.unwrap_or_default())?;
        let mut rule = Self { contains: None, regex: None, length: None, metadata: None, retriever };
        match message.condition {
            None => {}
            Some(Condition::Contains(text)) => rule.contains = Some(text),
            Some(Condition::Regex(pattern)) => rule.regex = Some(pattern),
            Some(Condition::Length(v1::TextLength { min, max })) => rule.length = Some(Length { min, max }),
            Some(Condition::Metadata(filter)) => rule.metadata = shown_filter(Some(filter))?,
        }
        Ok(rule)
    }
}

impl LlmRouter {
    pub(super) fn into_message(self) -> Result<v1::LlmRouterRetriever, Error> {
        let Self { routes, model, prompt, max_routes, default_route, k } = self;
        let routes = routes.into_iter().map(Route::into_message).collect::<Result<_, _>>()?;
        Ok(v1::LlmRouterRetriever { routes, model, prompt, max_routes, default_route, k })
    }

    pub(super) fn from_message(message: v1::LlmRouterRetriever) -> Result<Self, Error> {
        let v1::LlmRouterRetriever { routes, model, prompt, max_routes, default_route, k } = message;
        let routes = routes.into_iter().map(Route::from_message).collect::<Result<_, _>>()?;
        Ok(Self { routes, model, prompt, max_routes, default_route, k })
    }
}

impl Route {
    fn into_message(self) -> Result<v1::LlmRoute, Error> {
        let Self { name, description, retriever } = self;
        Ok(v1::LlmRoute { name, description, retriever: Some(retriever.into_message()?) })
    }

    fn from_message(message: v1::LlmRoute) -> Result<Self, Error> {
        let v1::LlmRoute { name, description, retriever } = message;
        Ok(Self { name, description, retriever: RetrieverFile::from_message(retriever.unwrap_or_default())? })
    }
}

impl Fallback {
    pub(super) fn into_message(self) -> Result<v1::FallbackRetriever, Error> {
        let Self { retrievers, min_hits, min_relevance } = self;
        Ok(v1::FallbackRetriever { retrievers: all_to_messages(retrievers)?, min_hits, min_relevance })
    }

    pub(super) fn from_message(message: v1::FallbackRetriever) -> Result<Self, Error> {
        let v1::FallbackRetriever { retrievers, min_hits, min_relevance } = message;
        Ok(Self { retrievers: all_from_messages(retrievers)?, min_hits, min_relevance })
    }
}
