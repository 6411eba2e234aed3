//! Router and fallback.

use toller_core::error::both;
use toller_core::retriever::{FallbackSpec, RouterCondition, RouterRule, RouterSpec};
use toller_core::{Error, Result};

use super::{all_from_messages, child_from_message, children_from_message, children_to_message, retriever_to_message};
use crate::convert::filter::{filter_from_message, filter_to_message};
use crate::v1;
use crate::v1::router_rule::Condition;

pub(super) fn router_from_message(message: v1::RouterRetriever) -> Result<RouterSpec> {
    let default = message.default_retriever.map(|default| child_from_message("default_retriever", Some(*default)));
    let rules = all_from_messages("rules", message.rules, rule_from_message);
    let (rules, default) = both(rules, default.transpose())?;
    Ok(RouterSpec { rules, default_retriever: default.map(Box::new) })
}

fn rule_from_message(message: v1::RouterRule) -> Result<RouterRule> {
    let condition = match message.condition {
        None => Err(Error::invalid("", "must have a condition, such as contains")),
        Some(Condition::Contains(text)) => Ok(RouterCondition::Contains(text)),
        Some(Condition::Regex(pattern)) => Ok(RouterCondition::Regex(pattern)),
        Some(Condition::Length(v1::TextLength { min, max })) => Ok(RouterCondition::Length { min, max }),
        Some(Condition::Metadata(filter)) => {
            filter_from_message(filter).map(RouterCondition::Metadata).map_err(|error| error.within("metadata"))
        }
    };
    let (condition, retriever) = both(condition, child_from_message("retriever", message.retriever))?;
    Ok(RouterRule { condition, retriever })
}

pub(super) fn fallback_from_message(message: v1::FallbackRetriever) -> Result<FallbackSpec> {
    Ok(FallbackSpec {
        retrievers: children_from_message(message.retrievers)?,
        min_hits: message.min_hits,
        min_relevance: message.min_relevance,
    })
}

pub(super) fn router_to_message(spec: &RouterSpec) -> v1::RouterRetriever {
    v1::RouterRetriever {
        rules: spec.rules.iter().map(rule_to_message).collect(),
        default_retriever: spec.default_retriever.as_ref().map(|spec| Box::new(retriever_to_message(spec))),
    }
}

fn rule_to_message(rule: &RouterRule) -> v1::RouterRule {
    let condition = match &rule.condition {
        RouterCondition::Contains(text) => Condition::Contains(text.clone()),
        RouterCondition::Regex(pattern) => Condition::Regex(pattern.clone()),
        RouterCondition::Length { min, max } => Condition::Length(v1::TextLength { min: *min, max: *max }),
        RouterCondition::Metadata(filter) => Condition::Metadata(filter_to_message(filter)),
    };
    v1::RouterRule { condition: Some(condition), retriever: Some(retriever_to_message(&rule.retriever)) }
}

pub(super) fn fallback_to_message(spec: &FallbackSpec) -> v1::FallbackRetriever {
    v1::FallbackRetriever {
        retrievers: children_to_message(&spec.retrievers),
        min_hits: spec.min_hits,
        min_relevance: spec.min_relevance,
    }
}
