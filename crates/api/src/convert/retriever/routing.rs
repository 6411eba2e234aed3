//! Routers and fallback.

use toller_core::error::both;
use toller_core::retriever::{
    AskSpec, FallbackSpec, LlmRouterSpec, RouteSpec, RouterCondition, RouterRule, RouterSpec,
};
use toller_core::{Error, Result};

use super::{
    all_from_messages, child_from_message, children_from_message, children_to_message, retriever_name_from_message,
    retriever_to_message,
};
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

pub(super) fn llm_router_from_message(message: v1::LlmRouterRetriever) -> Result<LlmRouterSpec> {
    let routes = all_from_messages("routes", message.routes, route_from_message);
    let default = message.default_route.map(|name| retriever_name_from_message("default_route", &name)).transpose();
    let (routes, default_route) = both(routes, default)?;
    let ask = AskSpec { model: message.model, prompt: message.prompt };
    Ok(LlmRouterSpec { routes, ask, max_routes: message.max_routes, default_route, k: message.k })
}

fn route_from_message(message: v1::LlmRoute) -> Result<RouteSpec> {
    let name = retriever_name_from_message("name", &message.name);
    let (name, retriever) = both(name, child_from_message("retriever", message.retriever))?;
    Ok(RouteSpec { name, description: message.description, retriever })
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

pub(super) fn llm_router_to_message(spec: &LlmRouterSpec) -> v1::LlmRouterRetriever {
    let AskSpec { model, prompt } = spec.ask.clone();
    let route = |route: &RouteSpec| v1::LlmRoute {
        name: route.name.as_str().to_owned(),
        description: route.description.clone(),
        retriever: Some(retriever_to_message(&route.retriever)),
    };
    v1::LlmRouterRetriever {
        routes: spec.routes.iter().map(route).collect(),
        model,
        prompt,
        max_routes: spec.max_routes,
        default_route: spec.default_route.as_ref().map(|name| name.as_str().to_owned()),
        k: spec.k,
    }
}

pub(super) fn fallback_to_message(spec: &FallbackSpec) -> v1::FallbackRetriever {
    v1::FallbackRetriever {
        retrievers: children_to_message(&spec.retrievers),
        min_hits: spec.min_hits,
        min_relevance: spec.min_relevance,
    }
}
