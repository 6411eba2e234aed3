//! Retrievers that ask a language model, and the conversation that they may need.

use toller_core::error::both;
use toller_core::retriever::{
    AskSpec, DecomposeSpec, FieldKind, FieldSpec, HydeSpec, MultiQuerySpec, OnInvalid, RephraseSpec, RetrieverSpec,
    SelfQuerySpec,
};
use toller_core::{ChatMessage, ChatRole, Error, Result};

use super::vector_store::vector_store_retriever_to_message;
use super::{all_from_messages, child_from_message, retriever_to_message, vector_store_retriever_from_message};
use crate::v1;

/// Most messages of a conversation.
const MAX_HISTORY: usize = 100;

/// A conversation from its messages. How long it may be is the caller's to check.
///
/// # Errors
/// `InvalidArgument` below `history`, of every fault.
pub fn history_from_messages(messages: Vec<v1::ChatMessage>) -> Result<Vec<ChatMessage>> {
    if messages.len() > MAX_HISTORY {
        return Err(Error::invalid("history", format!("must be at most {MAX_HISTORY}, got {}", messages.len())));
    }
    all_from_messages("history", messages, |message| {
        let role = match v1::ChatRole::try_from(message.role) {
            Ok(v1::ChatRole::System) => ChatRole::System,
            Ok(v1::ChatRole::User) => ChatRole::User,
            Ok(v1::ChatRole::Assistant) => ChatRole::Assistant,
            Ok(v1::ChatRole::Unspecified) => return Err(Error::invalid("role", "must be given")),
            Err(_) => return Err(Error::invalid("role", format!("unknown value {}", message.role))),
        };
        Ok(ChatMessage { role, content: message.content })
    })
}

/// The messages of a conversation.
pub fn history_to_messages(history: &[ChatMessage]) -> Vec<v1::ChatMessage> {
    let role = |role: ChatRole| match role {
        ChatRole::System => v1::ChatRole::System,
        ChatRole::User => v1::ChatRole::User,
        ChatRole::Assistant => v1::ChatRole::Assistant,
    };
    let message =
        |message: &ChatMessage| v1::ChatMessage { role: role(message.role).into(), content: message.content.clone() };
    history.iter().map(message).collect()
}

pub(super) fn multi_query_from_message(message: v1::MultiQueryRetriever) -> Result<MultiQuerySpec> {
    Ok(MultiQuerySpec {
        retriever: boxed_child(message.retriever)?,
        ask: AskSpec { model: message.model, prompt: message.prompt },
        max_queries: message.max_queries,
        include_original: message.include_original,
        queries: message.queries,
        k: message.k,
    })
}

pub(super) fn hyde_from_message(message: v1::HydeRetriever) -> Result<HydeSpec> {
    Ok(HydeSpec {
        retriever: boxed_child(message.retriever)?,
        ask: AskSpec { model: message.model, prompt: message.prompt },
        include_query: message.include_query,
    })
}

pub(super) fn rephrase_from_message(message: v1::RephraseRetriever) -> Result<RephraseSpec> {
    Ok(RephraseSpec {
        retriever: boxed_child(message.retriever)?,
        ask: AskSpec { model: message.model, prompt: message.prompt },
    })
}

pub(super) fn decompose_from_message(message: v1::DecomposeRetriever) -> Result<DecomposeSpec> {
    Ok(DecomposeSpec {
        retriever: boxed_child(message.retriever)?,
        ask: AskSpec { model: message.model, prompt: message.prompt },
        max_queries: message.max_queries,
        include_original: message.include_original,
        k: message.k,
    })
}

pub(super) fn self_query_from_message(message: v1::SelfQueryRetriever) -> Result<SelfQuerySpec> {
    let search = message.search.ok_or_else(|| Error::invalid("", "must be given"));
    let search = search.and_then(vector_store_retriever_from_message).map_err(|error| error.within("search"));
    let fields = all_from_messages("fields", message.fields, field_from_message);
    let on_invalid = match v1::OnInvalid::try_from(message.on_invalid) {
        Ok(v1::OnInvalid::Unspecified | v1::OnInvalid::Fail) => Ok(OnInvalid::Fail),
        Ok(v1::OnInvalid::Ignore) => Ok(OnInvalid::Ignore),
        Err(_) => Err(Error::invalid("on_invalid", format!("unknown value {}", message.on_invalid))),
    };
    let ((search, fields), on_invalid) = both(both(search, fields), on_invalid)?;
    let ask = AskSpec { model: message.model, prompt: message.prompt };
    Ok(SelfQuerySpec { search, fields, ask, contents: message.contents, on_invalid })
}

fn field_from_message(message: v1::MetadataField) -> Result<FieldSpec> {
    let kind = match v1::FieldType::try_from(message.r#type) {
        Ok(v1::FieldType::String) => FieldKind::String,
        Ok(v1::FieldType::Integer) => FieldKind::Integer,
        Ok(v1::FieldType::Number) => FieldKind::Number,
        Ok(v1::FieldType::Boolean) => FieldKind::Boolean,
        Ok(v1::FieldType::StringList) => FieldKind::StringList,
        Ok(v1::FieldType::Unspecified) => return Err(Error::invalid("type", "must be given")),
        Err(_) => return Err(Error::invalid("type", format!("unknown value {}", message.r#type))),
    };
    Ok(FieldSpec { name: message.name, kind, description: message.description })
}

fn boxed_child(message: Option<Box<v1::Retriever>>) -> Result<Box<RetrieverSpec>> {
    child_from_message("retriever", message.map(|message| *message)).map(Box::new)
}

pub(super) fn multi_query_to_message(spec: &MultiQuerySpec) -> v1::MultiQueryRetriever {
    let AskSpec { model, prompt } = spec.ask.clone();
    v1::MultiQueryRetriever {
        retriever: Some(Box::new(retriever_to_message(&spec.retriever))),
        model,
        prompt,
        max_queries: spec.max_queries,
        include_original: spec.include_original,
        queries: spec.queries.clone(),
        k: spec.k,
    }
}

pub(super) fn hyde_to_message(spec: &HydeSpec) -> v1::HydeRetriever {
    let AskSpec { model, prompt } = spec.ask.clone();
    v1::HydeRetriever {
        retriever: Some(Box::new(retriever_to_message(&spec.retriever))),
        model,
        prompt,
        include_query: spec.include_query,
    }
}

pub(super) fn rephrase_to_message(spec: &RephraseSpec) -> v1::RephraseRetriever {
    let AskSpec { model, prompt } = spec.ask.clone();
    v1::RephraseRetriever { retriever: Some(Box::new(retriever_to_message(&spec.retriever))), model, prompt }
}

pub(super) fn decompose_to_message(spec: &DecomposeSpec) -> v1::DecomposeRetriever {
    let AskSpec { model, prompt } = spec.ask.clone();
    v1::DecomposeRetriever {
        retriever: Some(Box::new(retriever_to_message(&spec.retriever))),
        model,
        prompt,
        max_queries: spec.max_queries,
        include_original: spec.include_original,
        k: spec.k,
    }
}

pub(super) fn self_query_to_message(spec: &SelfQuerySpec) -> v1::SelfQueryRetriever {
    let AskSpec { model, prompt } = spec.ask.clone();
    let on_invalid = match spec.on_invalid {
        // What is not said is not set, so that a round trip is one.
        OnInvalid::Fail => v1::OnInvalid::Unspecified,
        OnInvalid::Ignore => v1::OnInvalid::Ignore,
    };
    v1::SelfQueryRetriever {
        search: Some(vector_store_retriever_to_message(&spec.search)),
        fields: spec.fields.iter().map(field_to_message).collect(),
        model,
        prompt,
        contents: spec.contents.clone(),
        on_invalid: on_invalid.into(),
    }
}

fn field_to_message(field: &FieldSpec) -> v1::MetadataField {
    let kind = match field.kind {
        FieldKind::String => v1::FieldType::String,
        FieldKind::Integer => v1::FieldType::Integer,
        FieldKind::Number => v1::FieldType::Number,
        FieldKind::Boolean => v1::FieldType::Boolean,
        FieldKind::StringList => v1::FieldType::StringList,
    };
    v1::MetadataField { name: field.name.clone(), r#type: kind.into(), description: field.description.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::retriever_from_message;
    use super::*;
    use crate::v1::retriever::Kind;

    fn retriever(kind: Kind) -> v1::Retriever {
        v1::Retriever { kind: Some(kind), ..Default::default() }
    }

    fn leaf() -> Option<Box<v1::Retriever>> {
        Some(Box::new(retriever(Kind::Ref("docs".to_owned()))))
    }

    #[test]
    fn every_kind_survives_the_round_trip() {
        let text = |text: &str| Some(text.to_owned());
        let field = v1::MetadataField {
            name: "year".to_owned(),
            r#type: v1::FieldType::Integer.into(),
            description: "when it came out".to_owned(),
        };
        let search = v1::VectorStoreRetriever {
            collection: "docs".to_owned(),
            search_type: v1::SearchType::Similarity.into(),
            with_vectors: Some(false),
            ..Default::default()
        };
        let compressors = [
            v1::compressor::Kind::LlmExtract(v1::LlmExtract { model: text("m"), prompt: text("p") }),
            v1::compressor::Kind::LlmFilter(v1::LlmFilter { model: None, prompt: text("p") }),
            v1::compressor::Kind::LlmRerank(v1::LlmRerank { model: text("m"), prompt: None, top_n: Some(0) }),
        ];
        let compressors = compressors.map(|kind| v1::Compressor { kind: Some(kind), ..Default::default() });
        let kinds = [
            Kind::MultiQuery(Box::new(v1::MultiQueryRetriever {
                retriever: leaf(),
                model: text("m"),
                prompt: text("p"),
                max_queries: Some(0),
                include_original: Some(false),
                queries: vec!["a".to_owned()],
                k: Some(0),
            })),
            Kind::Hyde(Box::new(v1::HydeRetriever {
                retriever: leaf(),
                model: None,
                prompt: text("p"),
                include_query: Some(true),
            })),
            Kind::Rephrase(Box::new(v1::RephraseRetriever { retriever: leaf(), model: text("m"), prompt: None })),
            Kind::Decompose(Box::new(v1::DecomposeRetriever {
                retriever: leaf(),
                max_queries: Some(2),
                include_original: Some(true),
                k: Some(3),
                ..Default::default()
            })),
            Kind::SelfQuery(v1::SelfQueryRetriever {
                search: Some(search),
                fields: vec![field],
                contents: "films".to_owned(),
                on_invalid: v1::OnInvalid::Ignore.into(),
                ..Default::default()
            }),
            Kind::LlmRouter(v1::LlmRouterRetriever {
                routes: vec![v1::LlmRoute {
                    name: "docs".to_owned(),
                    description: "the guide".to_owned(),
                    retriever: leaf().map(|leaf| *leaf),
                }],
                model: text("m"),
                prompt: None,
                max_routes: Some(0),
                default_route: text("docs"),
                k: Some(0),
            }),
            Kind::ContextualCompression(Box::new(v1::ContextualCompressionRetriever {
                retriever: leaf(),
                compressors: compressors.into(),
            })),
        ];
        for kind in kinds {
            let message = retriever(kind);
            let spec = retriever_from_message(message.clone()).unwrap();
            assert_eq!(retriever_to_message(&spec), message);
        }
    }

    #[test]
    fn faults_carry_their_path() {
        let field = |number| v1::MetadataField { r#type: number, ..Default::default() };
        let self_query =
            v1::SelfQueryRetriever { fields: vec![field(0), field(99)], on_invalid: 9, ..Default::default() };
        let error = retriever_from_message(retriever(Kind::SelfQuery(self_query))).unwrap_err().to_string();
        for expected in [
            "self_query.search: must be given",
            "self_query.fields[0].type: must be given",
            "self_query.fields[1].type: unknown value 99",
            "self_query.on_invalid: unknown value 9",
        ] {
            assert!(error.contains(expected), "{error}");
        }
        let router = v1::LlmRouterRetriever {
            routes: vec![v1::LlmRoute::default()],
            default_route: Some("a b".to_owned()),
            ..Default::default()
        };
        let error = retriever_from_message(retriever(Kind::LlmRouter(router))).unwrap_err().to_string();
        for expected in ["routes[0].name: must be", "routes[0].retriever: must be given", "default_route: must be"] {
            assert!(error.contains(&format!("llm_router.{expected}")), "{error}");
        }
        let hyde = retriever(Kind::Hyde(Box::default()));
        let error = retriever_from_message(hyde).unwrap_err().to_string();
        assert_eq!(error, "hyde.retriever: must be given");
    }

    #[test]
    fn a_conversation_is_read_and_bounded() {
        let message = |role: i32| v1::ChatMessage { role, content: "text".to_owned() };
        let read = history_from_messages(vec![message(2), message(3)]).unwrap();
        assert_eq!(read.iter().map(|message| message.role.as_str()).collect::<Vec<_>>(), ["user", "assistant"]);
        assert_eq!(history_to_messages(&read), [message(2), message(3)]);
        let error = history_from_messages(vec![message(0), message(1), message(7)]).unwrap_err().to_string();
        assert!(error.contains("history[0].role: must be given"), "{error}");
        assert!(error.contains("history[2].role: unknown value 7"), "{error}");
        assert!(history_from_messages(vec![message(2); 101]).unwrap_err().to_string().contains("at most 100, got 101"));
    }
}
