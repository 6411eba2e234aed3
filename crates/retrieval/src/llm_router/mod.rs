//! The router that asks: a language model chooses among described retrievers, and what the chosen ones find is fused (LangChain's
//! router chains, which take one route, and Eino's router retriever, whose fusion orders ties at random).

mod answer;

use async_trait::async_trait;
use serde_json::json;
use toller_core::error::join_path;
use toller_core::language_model::AnswerSchema;
use toller_core::retriever::{Fusion, LlmRouterSpec, MOST_ROUTES};
use toller_core::{Error, Query, Result};

use self::answer::Chosen;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::language_model::{Asker, PromptForm, text_of};
use crate::leg_fusion::{LegHits, fuse_legs};
use crate::legs::distinct_hits;
use crate::node::{Found, Node, Operator, run_all};
use crate::plan::Binder;
use crate::run::Run;
use crate::self_query::LLM_ANSWER_INVALID;

/// Fewest routes: of one there is nothing to choose.
const FEWEST_ROUTES: usize = 2;

const PROMPT: PromptForm = PromptForm {
    default: r#"Choose where to search for what a query asks. The places, with what can be found there:
{routes}

Answer with one JSON object and nothing else:
{{"routes": ["the name of a place"]}}

Name the places that may hold the answer, the best one first, {max_routes} at most, and no others. When none may, the list is empty.

Query: {query}"#,
    required: &["query", "routes"],
    optional: &["max_routes"],
};

/// Chooses retrievers by asking.
pub(crate) struct LlmRouter {
    routes: Vec<Route>,
    asker: Asker,
    most: usize,
    /// Its place among the routes.
    default: Option<usize>,
    k: Option<u32>,
}

struct Route {
    name: String,
    description: String,
    node: Node,
}

impl LlmRouter {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &LlmRouterSpec) -> Result<Option<Self>> {
        let before = binder.fault_count();
        check(binder, path, spec);
        let asker = Asker::bind_or_fault(binder, path, &spec.ask, &PROMPT)?;
        let mut routes = Vec::with_capacity(spec.routes.len());
        for (index, route) in spec.routes.iter().enumerate() {
            let node_path = join_path(path, &format!("routes[{index}].retriever"));
            let node = binder.node(&route.retriever, node_path).await?;
            routes.extend(node.map(|node| Route {
                name: route.name.as_str().to_owned(),
                description: route.description.trim().to_owned(),
                node,
            }));
        }
        let default = spec.default_route.as_ref();
        let default = default.and_then(|name| spec.routes.iter().position(|route| route.name == *name));
        let is_whole = binder.fault_count() == before;
        let most = spec.max_routes.map_or(spec.routes.len(), |most| most as usize);
        Ok(asker.filter(|_| is_whole).map(|asker| Self { routes, asker, most, default, k: spec.k }))
    }

    /// The routes for `text`, at least one; none when nothing fits and there is no default.
    ///
    /// # Errors
    /// What the model reports; `FailedPrecondition` for an answer that is of no use where there is no default.
    async fn choose(&self, run: &Run, text: &str) -> Result<Vec<&Route>> {
        let described = self.routes.iter().map(|route| format!("- {:?}: {}", route.name, route.description));
        let described = described.collect::<Vec<_>>().join("\n");
        let names: Vec<&str> = self.routes.iter().map(|route| route.name.as_str()).collect();
        let most = self.most.to_string();
        let values = [("query", text), ("routes", described.as_str()), ("max_routes", most.as_str())];
        let said = self.asker.ask(run, &values, Some(schema(&names))).await?;
        let default = self.default.and_then(|position| self.routes.get(position));
        match (answer::read(&said, &names), default) {
            (Ok(Chosen { positions, .. }), default) if positions.is_empty() => {
                let then = match default {
                    Some(default) => format!("the default {:?} was taken", default.name),
                    None => "there is no default_route".to_owned(),
                };
                run.warn(format!("the language model chose no route, and {then}"));
                Ok(default.into_iter().collect())
            }
            (Ok(chosen), _) => {
                if chosen.unknown > 0 {
                    run.warn(format!("{} routes that the language model chose do not exist", chosen.unknown));
                }
                let (count, most) = (chosen.positions.len(), self.most);
                if count > most {
                    run.warn(format!("the language model chose {count} routes, and the first {most} were taken"));
                }
                Ok(chosen.positions.iter().take(most).filter_map(|position| self.routes.get(*position)).collect())
            }
            (Err(fault), Some(default)) => {
                run.warn(format!(
                    "the default {:?} was taken, since the language model's answer {fault}",
                    default.name
                ));
                Ok(vec![default])
            }
            (Err(fault), None) => Err(Error::FailedPrecondition {
                reason: LLM_ANSWER_INVALID,
                message: format!("the language model's answer {fault}; a default_route would be taken instead"),
            }),
        }
    }
}

/// Faults of the message itself.
fn check(binder: &mut Binder<'_>, path: &str, spec: &LlmRouterSpec) {
    binder.check_count(path, "k", spec.k);
    let count = spec.routes.len();
    if !(FEWEST_ROUTES..=MOST_ROUTES).contains(&count) {
        binder.fault(path, "routes", format!("must be from {FEWEST_ROUTES} to {MOST_ROUTES}, got {count}"));
    }
    for (index, route) in spec.routes.iter().enumerate() {
        if spec.routes.iter().take(index).any(|earlier| earlier.name == route.name) {
            let description = format!("is the name of another route already, got {:?}", route.name.as_str());
            binder.fault(path, &format!("routes[{index}].name"), description);
        }
        if route.description.trim().is_empty() {
            binder.fault(path, &format!("routes[{index}].description"), "must not be empty: the model chooses by it");
        }
    }
    if let Some(most) = spec.max_routes.filter(|most| !(1..=count).contains(&(*most as usize))) {
        binder.fault(path, "max_routes", format!("must be from 1 to the number of routes, {count}, got {most}"));
    }
    if let Some(name) = spec.default_route.as_ref().filter(|name| spec.routes.iter().all(|route| route.name != **name))
    {
        binder.fault(path, "default_route", format!("must be the name of a route, got {:?}", name.as_str()));
    }
}

/// The form of the answer, in which no other route can be named.
fn schema(names: &[&str]) -> AnswerSchema {
    let routes = json!({"type": "array", "items": {"type": "string", "enum": names}});
    let json = json!({
        "type": "object", "additionalProperties": false, "required": ["routes"], "properties": {"routes": routes}
    });
    AnswerSchema { name: "routes", json: json.to_string() }
}

#[async_trait]
impl Operator for LlmRouter {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let text = text_of(query, "llm_router")?;
        let chosen = self.choose(run, text).await.map_err(Failure::from)?;
        let nodes: Vec<&Node> = chosen.iter().map(|route| &route.node).collect();
        let mut lists = run_all(&nodes, run, query).await?;
        if self.most == 1 {
            let mut hits = lists.pop().unwrap_or_default();
            hits.truncate(self.k.map_or(usize::MAX, |k| k as usize));
            return Ok(hits);
        }
        // One list is fused too, so that scores mean the same however many routes were chosen.
        let legs = chosen.iter().zip(lists);
        let legs =
            legs.map(|(route, hits)| LegHits::by_rank(route.name.clone(), distinct_hits(run, &Identity::Id, hits)));
        Ok(fuse_legs(Fusion::Rrf, legs.collect(), self.k))
    }
}
