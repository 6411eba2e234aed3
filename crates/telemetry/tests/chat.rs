//! The span of a question to a language model.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

mod collector;

use std::sync::Arc;

use async_trait::async_trait;
use collector::{Collector, attributes, int, string};
use toller_core::language_model::{Completion, CompletionOptions, TokenUsage};
use toller_core::{ChatMessage, LanguageModel, Principal, RequestContext, Result};
use toller_telemetry::ContentPolicy;
use toller_telemetry::setup::trace_layer;
use toller_telemetry::traced::TracedLanguageModel;
use toller_telemetry::traces::TraceSettings;
use tracing_subscriber::layer::SubscriberExt;

struct Talker;

#[async_trait]
impl LanguageModel for Talker {
    fn provider(&self) -> &str {
        "openai"
    }

    fn model(&self) -> &str {
        "talker"
    }

    async fn complete(&self, _: &RequestContext, _: &[ChatMessage], _: &CompletionOptions) -> Result<Completion> {
        let usage = TokenUsage { input: Some(7), output: Some(2) };
        Ok(Completion { text: "an answer".to_owned(), is_cut: false, usage })
    }
}

#[test]
fn a_question_is_a_span_with_its_usage_and_its_content_where_that_is_recorded() {
    for record in [false, true] {
        let collector = Collector::grpc();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = collector.url();
        let settings = TraceSettings::from_variables("test", record, |name| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.clone()),
            "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("grpc".to_owned()),
            _ => None,
        });
        let settings = settings.unwrap();
        let entered = runtime.enter();
        let provider = settings.provider("0").unwrap().unwrap();
        drop(entered);
        ContentPolicy { record, ..ContentPolicy::default() }.install();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(trace_layer(&provider)), || {
            let model = TracedLanguageModel::new(Arc::new(Talker));
            let context = RequestContext::new(Principal::anonymous());
            let messages = [ChatMessage::user("a question")];
            let options = CompletionOptions::default();
            let answer = runtime.block_on(model.complete(&context, &messages, &options));
            assert_eq!(answer.unwrap().text, "an answer");
        });
        provider.force_flush().unwrap();

        let found = attributes(&collector.span("chat talker").attributes);
        for (name, expected) in [
            ("gen_ai.operation.name", string("chat")),
            ("gen_ai.provider.name", string("openai")),
            ("gen_ai.request.model", string("talker")),
            ("gen_ai.usage.input_tokens", int(7)),
            ("gen_ai.usage.output_tokens", int(2)),
            ("openinference.span.kind", string("LLM")),
            ("langsmith.span.kind", string("llm")),
        ] {
            assert_eq!(found[name], expected, "{name}");
        }
        assert_eq!(found.get("input.value"), record.then(|| string("a question")).as_ref());
        assert_eq!(found.get("output.value"), record.then(|| string("an answer")).as_ref());
    }
}
