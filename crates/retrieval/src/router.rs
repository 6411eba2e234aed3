//! The router: the first rule that holds chooses the retriever. No model is asked.

use async_trait::async_trait;
use regex::{Regex, RegexBuilder};
use toller_core::error::join_path;
use toller_core::retriever::{RouterCondition, RouterSpec};
use toller_core::{Filter, Metadata, Query, Result};

use crate::node::{Found, Node, Operator};
use crate::plan::Binder;
use crate::run::Run;

/// Largest compiled regular expression in bytes: more than any sensible one takes, and small beside a request.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Chooses a retriever.
pub(crate) struct Router {
    rules: Vec<(Condition, Node)>,
    default: Option<Node>,
}

enum Condition {
    /// In lower case.
    Contains(String),
    Regex(Regex),
    Length {
        min: usize,
        max: usize,
    },
    Metadata(Filter),
}

impl Router {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &RouterSpec) -> Result<Option<Self>> {
        if spec.rules.is_empty() {
            binder.fault(path, "rules", "must be at least 1, got 0");
        }
        let mut rules = Vec::with_capacity(spec.rules.len());
        for (index, rule) in spec.rules.iter().enumerate() {
            let rule_path = join_path(path, &format!("rules[{index}]"));
            let condition = Condition::bind(binder, &rule_path, &rule.condition);
            let node = binder.node(&rule.retriever, join_path(&rule_path, "retriever")).await?;
            rules.extend(condition.zip(node));
        }
        let default = match &spec.default_retriever {
            None => None,
            Some(default) => binder.node(default, join_path(path, "default_retriever")).await?,
        };
        let is_whole = rules.len() == spec.rules.len() && default.is_some() == spec.default_retriever.is_some();
        Ok((is_whole && !rules.is_empty()).then_some(Self { rules, default }))
    }
}

#[async_trait]
impl Operator for Router {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let chosen = self.rules.iter().find(|(condition, _)| condition.holds(query, run.metadata()));
        match chosen.map(|(_, node)| node).or(self.default.as_ref()) {
            Some(node) => node.run(run, query).await,
            None => {
                run.warn("no rule holds for this query, and there is no default_retriever");
                Ok(Vec::new())
            }
        }
    }
}

impl Condition {
    fn bind(binder: &mut Binder<'_>, path: &str, condition: &RouterCondition) -> Option<Self> {
        match condition {
            RouterCondition::Contains(text) if text.is_empty() => {
                binder.fault(path, "contains", "must not be empty");
                None
            }
            RouterCondition::Contains(text) => Some(Self::Contains(text.to_lowercase())),
            RouterCondition::Regex(pattern) => match RegexBuilder::new(pattern).size_limit(MAX_REGEX_BYTES).build() {
                Ok(regex) => Some(Self::Regex(regex)),
                Err(fault) => {
                    // The crate draws the pattern over several lines; the last one says what is wrong.
                    let fault = fault.to_string();
                    let last = fault.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    binder.fault(path, "regex", format!("is no regular expression: {last}"));
                    None
                }
            },
            RouterCondition::Length { min: None, max: None } => {
                binder.fault(path, "length", "must have a min or a max");
                None
            }
            RouterCondition::Length { min, max } => {
                let (min, max) = (min.unwrap_or(0) as usize, max.map_or(usize::MAX, |max| max as usize));
                if min > max {
                    binder.fault(path, "length", format!("can never hold: min {min} is above max {max}"));
                    return None;
                }
                Some(Self::Length { min, max })
            }
            RouterCondition::Metadata(filter) => {
                binder.check_filter(path, "metadata", Some(filter));
                Some(Self::Metadata(filter.clone()))
            }
        }
    }

    /// O(length of the text), or O(size of the filter).
    fn holds(&self, query: &Query, metadata: &Metadata) -> bool {
        match (self, query) {
            (Self::Metadata(filter), _) => filter.matches(metadata),
            (_, Query::Vector(_)) => false,
            (Self::Contains(part), Query::Text(text)) => text.to_lowercase().contains(part),
            (Self::Regex(regex), Query::Text(text)) => regex.is_match(text),
            (Self::Length { min, max }, Query::Text(text)) => (*min..=*max).contains(&text.chars().count()),
        }
    }
}
