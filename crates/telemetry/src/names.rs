//! Every name that leaves the process in a span or a metric, once.
//!
//! `toller.*` names are ours. The others follow OpenTelemetry's conventions for generative AI (development), databases (stable) and
//! RPC (release candidate), OpenInference's for traces of retrieval, and the attributes that LangSmith reads. They are written out
//! here since no crate has all of them in their present spelling.

/// Declares string constants, each with its doc line.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $value;)*
    };
}

/// Values of attributes that take one of a few words.
pub mod values {
    names! {
        /// [`super::GEN_AI_OPERATION_NAME`] of a retrieval.
        OPERATION_RETRIEVAL = "retrieval";
        /// [`super::GEN_AI_OPERATION_NAME`] of an embedding call.
        OPERATION_EMBEDDINGS = "embeddings";
        /// [`super::GEN_AI_OPERATION_NAME`] of scoring pairs; the convention defines none.
        OPERATION_RERANK = "rerank";
        /// [`super::GEN_AI_OPERATION_NAME`] of a question to a language model.
        OPERATION_CHAT = "chat";
        /// [`super::OPENINFERENCE_SPAN_KIND`] of a retrieval.
        OPENINFERENCE_RETRIEVER = "RETRIEVER";
        /// [`super::OPENINFERENCE_SPAN_KIND`] of an embedding call.
        OPENINFERENCE_EMBEDDING = "EMBEDDING";
        /// [`super::OPENINFERENCE_SPAN_KIND`] of scoring pairs.
        OPENINFERENCE_RERANKER = "RERANKER";
        /// [`super::OPENINFERENCE_SPAN_KIND`] of a question to a language model.
        OPENINFERENCE_LLM = "LLM";
        /// [`super::LANGSMITH_SPAN_KIND`] of a retrieval.
        LANGSMITH_RETRIEVER = "retriever";
        /// [`super::LANGSMITH_SPAN_KIND`] of an embedding call; set since LangSmith does not map the plural `embeddings`.
        LANGSMITH_EMBEDDING = "embedding";
        /// [`super::LANGSMITH_SPAN_KIND`] of a question to a language model.
        LANGSMITH_LLM = "llm";
        /// [`super::RPC_SYSTEM_NAME`] of every call.
        RPC_SYSTEM_GRPC = "grpc";
        /// [`super::RPC_METHOD`] of a method that the server does not have.
        RPC_METHOD_OTHER = "_OTHER";
        /// [`super::TOLLER_EMBEDDING_ROLE`] of texts to be found.
        ROLE_DOCUMENT = "document";
        /// [`super::TOLLER_EMBEDDING_ROLE`] of texts to find with.
        ROLE_QUERY = "query";
        /// Stands in for content that an `OPENINFERENCE_HIDE_*` variable hides.
        REDACTED = "__REDACTED__";
        /// [`super::INPUT_MIME_TYPE`] of a plain text.
        MIME_TEXT = "text/plain";
    }
}

// What tracing-opentelemetry reads from a span's fields.
names! {
    /// Field: the exported name of the span.
    OTEL_NAME = "otel.name";
    /// Field: the exported kind of the span (`server`, `client`, `internal`).
    OTEL_KIND = "otel.kind";
    /// Field: description of the error status of the span.
    OTEL_STATUS_DESCRIPTION = "otel.status_description";
}

// Toller's own attributes.
names! {
    /// Name of the retriever; its kind when it was declared without one.
    TOLLER_RETRIEVER_NAME = "toller.retriever.name";
    /// Kind of the retriever, such as `vector_store`.
    TOLLER_RETRIEVER_KIND = "toller.retriever.kind";
    /// How a vector store retriever chooses hits, such as `mmr`.
    TOLLER_RETRIEVER_SEARCH_TYPE = "toller.retriever.search_type";
    /// Most hits that were asked for (int).
    TOLLER_RETRIEVER_K = "toller.retriever.k";
    /// Hits that came back (int).
    TOLLER_RETRIEVER_HITS = "toller.retriever.hits";
    /// Score of the first hit (double).
    TOLLER_RETRIEVER_TOP_SCORE = "toller.retriever.top_score";
    /// Relevance of the first hit, in [0, 1] (double); absent for fused lists.
    TOLLER_RETRIEVER_TOP_RELEVANCE = "toller.retriever.top_relevance";
    /// Name of the store's backend, such as `memory`.
    TOLLER_STORE = "toller.store";
    /// Name of the collection.
    TOLLER_COLLECTION = "toller.collection";
    /// Who computes the vectors, such as `candle`.
    TOLLER_EMBEDDING_PROVIDER = "toller.embedding.provider";
    /// Name of the embedding model.
    TOLLER_EMBEDDING_MODEL = "toller.embedding.model";
    /// What the texts are embedded as: `document` or `query`.
    TOLLER_EMBEDDING_ROLE = "toller.embedding.role";
    /// Texts in one call or batch (int).
    TOLLER_EMBEDDING_TEXTS = "toller.embedding.texts";
    /// Tokens in one batch (int).
    TOLLER_EMBEDDING_TOKENS = "toller.embedding.tokens";
    /// Texts that were cut to the model's longest input (int).
    TOLLER_EMBEDDING_TRUNCATED = "toller.embedding.truncated";
    /// Who scores the pairs.
    TOLLER_RERANK_PROVIDER = "toller.rerank.provider";
    /// Documents that were scored against a query (int).
    TOLLER_RERANK_DOCUMENTS = "toller.rerank.documents";
    /// Pairs that were cut to the model's longest input (int).
    TOLLER_RERANK_TRUNCATED = "toller.rerank.truncated";
    /// What an operation does, such as `reembed`.
    TOLLER_OPERATION_KIND = "toller.operation.kind";
    /// The operation's id.
    TOLLER_OPERATION_ID = "toller.operation.id";
    /// Documents that the operation has done (int).
    TOLLER_OPERATION_DOCUMENTS = "toller.operation.documents";
    /// Candidates that maximal marginal relevance chose from (int).
    TOLLER_MMR_CANDIDATES = "toller.mmr.candidates";
    /// Trade-off of maximal marginal relevance: 1 is pure relevance (double).
    TOLLER_MMR_LAMBDA = "toller.mmr.lambda_mult";
    /// Most picks (int).
    TOLLER_MMR_K = "toller.mmr.k";
    /// How several lists become one, such as `rrf`.
    TOLLER_FUSION_METHOD = "toller.fusion.method";
    /// Lists that become one (int).
    TOLLER_FUSION_LISTS = "toller.fusion.lists";
    /// Hits of all the lists, each counted as often as it stands there (int).
    TOLLER_FUSION_CANDIDATES = "toller.fusion.candidates";
    /// Hits of the one list (int).
    TOLLER_FUSION_HITS = "toller.fusion.hits";
}

// OpenTelemetry, generative AI.
names! {
    /// `retrieval`, `embeddings`, `rerank` or `chat`.
    GEN_AI_OPERATION_NAME = "gen_ai.operation.name";
    /// Who answers: the embedding provider, or for a retrieval the store's backend.
    GEN_AI_PROVIDER_NAME = "gen_ai.provider.name";
    /// The embedding model.
    GEN_AI_REQUEST_MODEL = "gen_ai.request.model";
    /// What is searched: the collection.
    GEN_AI_DATA_SOURCE_ID = "gen_ai.data_source.id";
    /// Most hits (int): the newest spelling.
    GEN_AI_RETRIEVAL_TOP_K = "gen_ai.retrieval.top_k";
    /// Most hits (double): the spelling before it.
    GEN_AI_REQUEST_TOP_K = "gen_ai.request.top_k";
    /// The query's text; content, opt-in.
    GEN_AI_RETRIEVAL_QUERY_TEXT = "gen_ai.retrieval.query.text";
    /// JSON list of `{"id", "score"}`; content, opt-in.
    GEN_AI_RETRIEVAL_DOCUMENTS = "gen_ai.retrieval.documents";
    /// Dimension of the vectors (int).
    GEN_AI_EMBEDDINGS_DIMENSION_COUNT = "gen_ai.embeddings.dimension.count";
    /// Tokens that the model read (int).
    GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens";
    /// Tokens that the model wrote (int).
    GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
}

// OpenInference.
names! {
    /// `RETRIEVER`, `EMBEDDING`, `RERANKER` or `LLM`.
    OPENINFERENCE_SPAN_KIND = "openinference.span.kind";
    /// The query's text; content, opt-in.
    INPUT_VALUE = "input.value";
    /// Media type of [`INPUT_VALUE`].
    INPUT_MIME_TYPE = "input.mime_type";
    /// Tags (list of strings).
    TAG_TAGS = "tag.tags";
    /// The embedding model.
    EMBEDDING_MODEL_NAME = "embedding.model_name";
    /// The reranking model.
    RERANKER_MODEL_NAME = "reranker.model_name";
    /// The query's text; content, opt-in.
    RERANKER_QUERY = "reranker.query";
    /// Tokens that the model read (int).
    LLM_TOKEN_COUNT_PROMPT = "llm.token_count.prompt";
    /// Tokens that the model wrote (int).
    LLM_TOKEN_COUNT_COMPLETION = "llm.token_count.completion";
    /// The language model.
    LLM_MODEL_NAME = "llm.model_name";
    /// What the model answered; content, opt-in.
    OUTPUT_VALUE = "output.value";
    /// Hides query texts.
    ENV_HIDE_INPUTS = "OPENINFERENCE_HIDE_INPUTS";
    /// Hides the ids, texts and metadata of found documents.
    ENV_HIDE_OUTPUTS = "OPENINFERENCE_HIDE_OUTPUTS";
    /// Hides embedded texts.
    ENV_HIDE_EMBEDDINGS_TEXT = "OPENINFERENCE_HIDE_EMBEDDINGS_TEXT";
    /// Hides vectors.
    ENV_HIDE_EMBEDDINGS_VECTORS = "OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS";
}

/// One attribute of the document at `index` of a retrieval: `id`, `content`, `score` (double) or `metadata` (JSON).
pub fn retrieval_document(index: usize, attribute: &str) -> String {
    format!("retrieval.documents.{index}.document.{attribute}")
}

/// One attribute of a document at `index` that is scored: `content`.
pub fn reranker_input(index: usize, attribute: &str) -> String {
    format!("reranker.input_documents.{index}.document.{attribute}")
}

/// One attribute of the text at `index` of an embedding call: `text` or `vector` (list of doubles).
pub fn embedding_item(index: usize, attribute: &str) -> String {
    format!("embedding.embeddings.{index}.embedding.{attribute}")
}

// LangSmith.
names! {
    /// `retriever`, `embedding` or `llm`.
    LANGSMITH_SPAN_KIND = "langsmith.span.kind";
    /// Tags, separated by commas.
    LANGSMITH_SPAN_TAGS = "langsmith.span.tags";
    /// Name of the retriever.
    LANGSMITH_RETRIEVER_NAME = "langsmith.metadata.ls_retriever_name";
    /// Name of the store's backend.
    LANGSMITH_VECTOR_STORE_PROVIDER = "langsmith.metadata.ls_vector_store_provider";
    /// Who computes the vectors.
    LANGSMITH_EMBEDDING_PROVIDER = "langsmith.metadata.ls_embedding_provider";
    /// Name of the embedding model.
    LANGSMITH_EMBEDDING_MODEL = "langsmith.metadata.ls_embedding_model";
}

// OpenTelemetry, databases.
names! {
    /// The store's backend.
    DB_SYSTEM_NAME = "db.system.name";
    /// The collection.
    DB_COLLECTION_NAME = "db.collection.name";
    /// The operation, such as `search`.
    DB_OPERATION_NAME = "db.operation.name";
    /// Rows in a batched write, where it is more than one (int).
    DB_OPERATION_BATCH_SIZE = "db.operation.batch.size";
    /// Rows that came back (int).
    DB_RESPONSE_RETURNED_ROWS = "db.response.returned_rows";
}

// OpenTelemetry, RPC and network.
names! {
    /// `grpc`.
    RPC_SYSTEM_NAME = "rpc.system.name";
    /// Fully qualified method such as `toller.v1.Retrieval/Search`; `_OTHER` for one that the server does not have.
    RPC_METHOD = "rpc.method";
    /// What the client called, where [`RPC_METHOD`] is `_OTHER`.
    RPC_METHOD_ORIGINAL = "rpc.method_original";
    /// The status code's name, such as `DEADLINE_EXCEEDED`.
    RPC_STATUS_CODE = "rpc.status_code";
    /// The peer's address, without its port.
    NETWORK_PEER_ADDRESS = "network.peer.address";
    /// The peer's port (int).
    NETWORK_PEER_PORT = "network.peer.port";
    /// The client's address: the peer, since a gRPC server sees no other.
    CLIENT_ADDRESS = "client.address";
    /// The server's address, without its port.
    SERVER_ADDRESS = "server.address";
    /// The server's port (int).
    SERVER_PORT = "server.port";
    /// Class of the error, in the spelling of gRPC's status codes; absent when there is none.
    ERROR_TYPE = "error.type";
}

/// Names of metrics and of their labels, in Prometheus' spelling of the conventions' names.
pub mod metric {
    names! {
        /// Histogram, seconds: a server's answer to one call.
        RPC_SERVER_CALL_DURATION = "rpc_server_call_duration_seconds";
        /// Gauge: calls that a server is working on.
        RPC_SERVER_ACTIVE = "rpc_server_active_calls";
        /// Counter: calls that a server refused since it was at its limit.
        RPC_SERVER_REFUSED = "toller_server_refused_calls_total";
        /// Histogram, seconds: one embedding call.
        GEN_AI_OPERATION_DURATION = "gen_ai_client_operation_duration_seconds";
        /// Counter: tokens that a model read.
        EMBEDDING_TOKENS = "toller_embedding_tokens_total";
        /// Counter: texts that were embedded.
        EMBEDDING_TEXTS = "toller_embedding_texts_total";
        /// Counter: texts that were cut to the model's longest input.
        EMBEDDING_TRUNCATED = "toller_embedding_truncated_texts_total";
        /// Counter: embedding calls that failed, by class of error.
        EMBEDDING_ERRORS = "toller_embedding_errors_total";
        /// Histogram: texts in one call.
        EMBEDDING_CALL_TEXTS = "toller_embedding_call_texts";
        /// Histogram: texts in one forward pass.
        EMBEDDING_BATCH_TEXTS = "toller_embedding_batch_texts";
        /// Histogram: tokens in one forward pass.
        EMBEDDING_BATCH_TOKENS = "toller_embedding_batch_tokens";
        /// Histogram, seconds: one forward pass.
        EMBEDDING_BATCH_DURATION = "toller_embedding_batch_duration_seconds";
        /// Histogram, seconds: a text's wait for its forward pass, by role.
        EMBEDDING_QUEUE_WAIT = "toller_embedding_queue_wait_seconds";
        /// Gauge: tokens that wait for a forward pass, by role.
        EMBEDDING_QUEUE_TOKENS = "toller_embedding_queue_tokens";
        /// Histogram, seconds: scoring one query's documents.
        RERANK_DURATION = "toller_rerank_duration_seconds";
        /// Histogram: documents of one query.
        RERANK_DOCUMENTS = "toller_rerank_documents";
        /// Counter: tokens that a reranker read.
        RERANK_TOKENS = "toller_rerank_tokens_total";
        /// Counter: pairs that were cut to the model's longest input.
        RERANK_TRUNCATED = "toller_rerank_truncated_pairs_total";
        /// Counter: calls of a reranker that failed, by class of error.
        RERANK_ERRORS = "toller_rerank_errors_total";
        /// Counter: tokens that a language model read.
        LLM_INPUT_TOKENS = "toller_llm_input_tokens_total";
        /// Counter: tokens that a language model wrote.
        LLM_OUTPUT_TOKENS = "toller_llm_output_tokens_total";
        /// Histogram, seconds: one question to a language model.
        LLM_DURATION = "toller_llm_duration_seconds";
        /// Counter: questions to a language model that failed, by class of error.
        LLM_ERRORS = "toller_llm_errors_total";
        /// Counter: texts whose embedding was in the cache, by role.
        EMBEDDING_CACHE_HITS = "toller_embedding_cache_hits_total";
        /// Counter: texts whose embedding was not in the cache, by role.
        EMBEDDING_CACHE_MISSES = "toller_embedding_cache_misses_total";
        /// Gauge: bytes that the cache of embeddings holds.
        EMBEDDING_CACHE_BYTES = "toller_embedding_cache_bytes";
        /// Gauge: workers that a pool knows.
        POOL_WORKERS = "toller_pool_workers";
        /// Gauge: workers that a pool sends calls to.
        POOL_HEALTHY_WORKERS = "toller_pool_healthy_workers";
        /// Counter: workers that a pool stopped sending calls to, by reason.
        POOL_EJECTIONS = "toller_pool_ejections_total";
        /// Counter: calls that a pool sent to its workers, by status code.
        POOL_CALLS = "toller_pool_calls_total";
        /// Counter: calls that a pool sent again, to another worker or after a pause.
        POOL_RETRIES = "toller_pool_retries_total";
        /// Counter: calls that a pool did not send again since its retries were used up.
        POOL_RETRIES_REFUSED = "toller_pool_retries_refused_total";
        /// Counter: embedding requests that were not let into the queue, by role and reason.
        EMBEDDING_REFUSED = "toller_embedding_refused_requests_total";
        /// Counter: texts that shared the computing of the same text.
        EMBEDDING_JOINED_TEXTS = "toller_embedding_joined_texts_total";
        /// Counter: forward passes that ran in the middle of a less urgent one.
        EMBEDDING_PREEMPTIONS = "toller_embedding_preemptions_total";
        /// Histogram, seconds: one operation of a store.
        DB_OPERATION_DURATION = "db_client_operation_duration_seconds";
        /// Counter: operations of a store that failed, by class of error.
        STORE_ERRORS = "toller_store_errors_total";
        /// Counter: records that a store wrote.
        STORE_WRITTEN_RECORDS = "toller_store_written_records_total";
        /// Histogram, seconds: one retrieval, by kind of retriever.
        RETRIEVAL_DURATION = "toller_retrieval_duration_seconds";
        /// Histogram: hits of one retrieval.
        RETRIEVAL_HITS = "toller_retrieval_hits";
        /// Counter: retrievals that failed, by class of error.
        RETRIEVAL_ERRORS = "toller_retrieval_errors_total";
        /// Counter: index runs that ended, by outcome.
        INDEX_RUNS = "toller_index_runs_total";
        /// Histogram, seconds: one index run.
        INDEX_RUN_DURATION = "toller_index_run_duration_seconds";
        /// Counter: documents of committed index runs, by outcome.
        INDEX_DOCUMENTS = "toller_index_documents_total";
        /// Counter: chunks of committed index runs, by outcome.
        INDEX_CHUNKS = "toller_index_chunks_total";
        /// Counter: batches of spans that could not be delivered.
        TRACE_EXPORT_FAILURES = "toller_trace_export_failures_total";
    }

    /// Labels. Values come from closed sets (methods, codes, backends, kinds, configured models), never from a request.
    pub mod label {
        names! {
            /// Fully qualified method, or `_OTHER`.
            RPC_METHOD = "rpc_method";
            /// Name of the status code.
            RPC_STATUS_CODE = "rpc_status_code";
            /// Provider of the model.
            PROVIDER = "gen_ai_provider_name";
            /// Embedding model or reranker.
            MODEL = "gen_ai_request_model";
            /// Kind of generative operation.
            GEN_AI_OPERATION = "gen_ai_operation_name";
            /// `document` or `query`.
            ROLE = "role";
            /// The store's backend.
            DB_SYSTEM = "db_system_name";
            /// The store's operation.
            DB_OPERATION = "db_operation_name";
            /// Kind of retriever.
            RETRIEVER_KIND = "retriever_kind";
            /// Class of the error.
            ERROR_TYPE = "error_type";
            /// Why something was refused, or left out of a pool.
            REASON = "reason";
            /// How a run, a document or a chunk of it ended.
            OUTCOME = "outcome";
        }
    }
}
