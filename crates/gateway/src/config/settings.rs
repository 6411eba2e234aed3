//! The table of settings: one row makes a key of the file, a flag and an environment variable.

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Key in the file, such as `server.listen`.
    pub key: &'static str,
    /// Default as text; empty for none.
    pub default: &'static str,
    /// What stands for the value in help texts.
    pub value_name: &'static str,
    /// One sentence, with unit and range.
    pub help: &'static str,
    pub(super) form: Form,
}

/// How a value given as text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Integer,
    Boolean,
}

impl Setting {
    /// The flag without its dashes, such as `server-listen`.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }

    /// The environment variable, such as `TOLLER_SERVER_LISTEN`.
    pub fn env(&self) -> String {
        format!("TOLLER_{}", self.key.replace('.', "_").to_uppercase())
    }
}

const fn text(key: &'static str, default: &'static str, value_name: &'static str, help: &'static str) -> Setting {
    Setting { key, default, value_name, help, form: Form::Text }
}

const fn integer(key: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { key, default, value_name: "N", help, form: Form::Integer }
}

const fn boolean(key: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { key, default, value_name: "BOOL", help, form: Form::Boolean }
}

/// Every setting but the lists, which stand in the file only: `auth.keys`, `embedding.models` and `rerank.models`.
pub static SETTINGS: &[Setting] = &[
    text("server.listen", "127.0.0.1:7700", "ADDR", "Address of the gRPC server; port 0 takes a free one"),
    integer(
        "server.drain_grace_ms",
        "0",
        "Milliseconds between saying NOT_SERVING and refusing new connections at shutdown",
    ),
    integer("server.drain_timeout_ms", "20000", "Milliseconds that running requests get to finish at shutdown"),
    boolean("auth.require_tenant", "false", "Refuse to start unless every API key has a tenant of its own"),
    text("data.dir", "toller-data", "DIR", "Folder of the data"),
    text(
        "store.backend",
        "edge",
        "NAME",
        "What keeps documents: edge (on disk, with an index), memory (in RAM, written to disk at an orderly shutdown only) or qdrant (a Qdrant server or cluster)",
    ),
    text(
        "store.durability",
        "fsync",
        "NAME",
        "What an acknowledged write survives, with edge: fsync (power loss) or process (a crash of the process; faster)",
    ),
    text(
        "store.qdrant.url",
        "http://localhost:6334",
        "URL",
        "Address of Qdrant's gRPC port, with qdrant; https for TLS",
    ),
    text("store.qdrant.api_key", "", "KEY", "API key for Qdrant"),
    text(
        "store.qdrant.ca_file",
        "",
        "FILE",
        "Certificates (PEM) that may vouch for Qdrant, instead of those of the machine",
    ),
    integer("store.qdrant.timeout_ms", "5000", "Milliseconds that one call to Qdrant may take, 1 to 600000"),
    text("store.qdrant.prefix", "toller_", "TEXT", "What the names of Toller's collections in Qdrant begin with"),
    integer(
        "store.qdrant.replication_factor",
        "",
        "Copies of each shard of a new collection, instead of what Qdrant is set to",
    ),
    integer("store.qdrant.shard_number", "", "Shards of a new collection, instead of what Qdrant is set to"),
    integer(
        "store.qdrant.write_consistency_factor",
        "",
        "Copies that must have a write before it counts, instead of more than half of them",
    ),
    boolean(
        "store.qdrant.on_disk",
        "false",
        "Keep vectors and payloads of new collections on disk instead of in memory",
    ),
    boolean("store.qdrant.exact", "false", "Search without approximation; slow in large collections"),
    text(
        "backup.spool_dir",
        "",
        "DIR",
        "Folder in which a backup puts one collection aside at a time, with room for the largest: instead of the data folder, or of the system's folder for temporary files with qdrant",
    ),
    text(
        "embedding.provider",
        "candle",
        "NAME",
        "Who computes vectors: candle (a model in this process), toller (embedding workers, or another Toller), openai (a service that speaks OpenAI's protocol), tei (text-embeddings-inference) or none",
    ),
    text(
        "embedding.model",
        "BAAI/bge-small-en-v1.5",
        "MODEL",
        "The model: a hub repository, or a folder in sentence-transformers layout",
    ),
    text("embedding.revision", "", "REV", "Commit, tag or branch of the hub repository"),
    text("embedding.query_instruction", "", "TEXT", "Put before every query, instead of the model's own instruction"),
    text(
        "embedding.document_instruction",
        "",
        "TEXT",
        "Put before every document, instead of the model's own instruction",
    ),
    text("embedding.pooling", "", "NAME", "cls or mean, instead of the model's own pooling"),
    boolean("embedding.normalize", "", "Scale vectors to unit length, instead of what the model's files say"),
    integer(
        "embedding.max_tokens",
        "",
        "Most tokens of a text, special tokens included, instead of the model's own limit",
    ),
    text(
        "embedding.dtype",
        "f32",
        "NAME",
        "Weights of the model's linear layers: f32, or int8 (faster, in less memory, a little less exact; on the CPU only)",
    ),
    text(
        "embedding.device",
        "cpu",
        "NAME",
        "What computes all models in this process: cpu, or cuda or metal in a program that was built with them",
    ),
    integer("embedding.workers", "1", "Batches that run at the same time; they share the threads"),
    integer("embedding.threads", "0", "Threads of all models and workers together; 0 is the CPU quota"),
    integer(
        "embedding.queue_tokens",
        "262144",
        "Most tokens that wait for the models; more is refused with RESOURCE_EXHAUSTED",
    ),
    integer("embedding.batch_tokens", "4096", "Most tokens of a forward pass, 16 to 1048576"),
    integer(
        "embedding.cache_bytes",
        "67108864",
        "Most bytes of vectors that are kept to be given again without a forward pass; 0 keeps none",
    ),
    integer(
        "embedding.dimensions",
        "",
        "Elements of a vector, for models of provider openai that can make shorter ones",
    ),
    text(
        "embedding.address",
        "",
        "URL",
        "Who is asked: for provider toller http://host:port, several with commas, or dns://name:port for all addresses of a name; for openai a URL such as https://api.openai.com/v1; for tei http://host:port",
    ),
    text("embedding.api_key", "", "KEY", "API key for who is asked"),
    text(
        "rerank.provider",
        "candle",
        "NAME",
        "Who reranks by default: candle (a model in this process, where one is named) or tei (text-embeddings-inference)",
    ),
    text("rerank.model", "", "MODEL", "The default reranker: a hub repository or a folder; without it there is none"),
    text("rerank.revision", "", "REV", "Commit, tag or branch of the reranker's hub repository"),
    integer(
        "rerank.max_tokens",
        "",
        "Most tokens of a query and a document together, special tokens included, instead of the reranker's own limit",
    ),
    text("rerank.dtype", "f32", "NAME", "Weights of the reranker's linear layers: f32 or int8"),
    text("rerank.address", "", "URL", "Address of the text-embeddings-inference server, such as http://reranker:8080"),
    text("rerank.api_key", "", "KEY", "API key for that server"),
    text(
        "llm.address",
        "",
        "URL",
        "The language model that retrievers may ask, of a service that speaks OpenAI's protocol, such as https://api.openai.com/v1; without it there is none",
    ),
    text("llm.model", "", "MODEL", "The language model's name, as the service knows it"),
    text("llm.api_key", "", "KEY", "API key for that service"),
    integer("llm.timeout_ms", "30000", "Longest time in milliseconds for one answer, 1 to 600000, with all tries"),
    boolean(
        "llm.structured_output",
        "true",
        "Ask for answers in JSON by a schema (response_format); for services that know it",
    ),
    integer("limits.max_message_bytes", "16777216", "Largest message in bytes, in and out; at least 65536"),
    integer("limits.max_documents", "1000", "Most documents or ids of one request"),
    integer("limits.max_text_bytes", "1048576", "Longest text in bytes"),
    integer(
        "limits.max_document_bytes",
        "67108864",
        "Largest document of an index run in bytes, as its source has it; one at a time is in memory",
    ),
    integer("limits.max_metadata_bytes", "65536", "Most metadata of one document in bytes, as encoded in protobuf"),
    integer("limits.max_k", "1000", "Largest k and fetch_k"),
    integer("limits.max_queries", "100", "Most queries of one BatchRetrieve"),
    integer("limits.max_retrievers", "64", "Most retrievers of one tree, what references name included"),
    integer("limits.max_filter_depth", "16", "Deepest nesting of a filter"),
    integer("limits.max_filter_nodes", "4096", "Most conditions and values of a filter"),
    integer(
        "limits.max_concurrent_requests",
        "256",
        "Most requests at a time; more are refused with RESOURCE_EXHAUSTED",
    ),
    integer("limits.default_deadline_ms", "60000", "Deadline in milliseconds of a request that brings none"),
    integer("limits.max_deadline_ms", "600000", "Latest deadline in milliseconds; later ones are brought forward"),
    text("telemetry.log_format", "human", "NAME", "human, or json (one object a line)"),
    text(
        "telemetry.log_level",
        "info",
        "LEVEL",
        "error, warn, info, debug, trace, or directives such as info,toller_store=debug",
    ),
    text("telemetry.metrics_listen", "127.0.0.1:7701", "ADDR", "Address of the Prometheus endpoint, or off"),
    boolean("telemetry.record_content", "false", "Put query texts and documents into spans"),
];
