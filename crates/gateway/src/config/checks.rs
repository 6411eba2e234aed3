//! What values must be, alone and together, beyond what their types say.

use std::collections::BTreeSet;

use toller_core::name::check_name;
use toller_embedder::{Source, cpu};
use toller_providers::WorkerAddresses;
use toller_serving::auth::ApiKeys;

use super::{
    Config, ConfigError, Dtype, EmbeddingConfig, EmbeddingProvider, LimitsConfig, NamedModelConfig,
    NamedRerankerConfig, Origins, Program, RerankConfig, RerankProvider, StoreBackend,
};

/// Least size of a message: room for one document with a vector of thousands of elements.
const MIN_MESSAGE_BYTES: usize = 65_536;

/// Longest drain: a day. Whoever writes more has mistaken the unit.
const MAX_DRAIN_MS: u64 = 24 * 60 * 60 * 1000;

/// Least and most tokens of the queue, as the embedder has them.
const QUEUE_TOKENS: std::ops::RangeInclusive<usize> = 1024..=1 << 30;

/// Least and most tokens of a forward pass, as the embedder has them.
const BATCH_TOKENS: std::ops::RangeInclusive<usize> = 16..=1 << 20;

/// Settings of the default model, and the providers that read them.
const READ_BY: [(&str, &[EmbeddingProvider]); 11] = {
    use EmbeddingProvider::{Candle, Openai, Tei, Toller};
    [
        ("embedding.model", &[Candle, Openai]),
        ("embedding.revision", &[Candle]),
        ("embedding.query_instruction", &[Candle, Openai, Tei]),
        ("embedding.document_instruction", &[Candle, Openai, Tei]),
        ("embedding.pooling", &[Candle]),
        ("embedding.normalize", &[Candle]),
        ("embedding.max_tokens", &[Candle]),
        ("embedding.dtype", &[Candle]),
        ("embedding.dimensions", &[Openai]),
        ("embedding.address", &[Toller, Openai, Tei]),
        ("embedding.api_key", &[Toller, Openai, Tei]),
    ]
};

/// Settings that any model in this process reads, and nothing else.
const LOCAL_ONLY: [&str; 5] =
    ["embedding.device", "embedding.workers", "embedding.threads", "embedding.queue_tokens", "embedding.batch_tokens"];

/// Checks everything; the first fault is the error.
pub(super) fn check(program: Program, config: &Config, origins: &Origins<'_>) -> Result<(), ConfigError> {
    if config.data.dir.as_os_str().is_empty() {
        return Err(origins.invalid("data.dir", "must not be empty; write . for the working folder"));
    }
    if config.backup.spool_dir.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
        return Err(origins.invalid("backup.spool_dir", "must not be empty; leave it out for the default"));
    }
    for (key, value) in [
        ("server.drain_grace_ms", config.server.drain_grace_ms),
        ("server.drain_timeout_ms", config.server.drain_timeout_ms),
    ] {
        if value > MAX_DRAIN_MS {
            return Err(origins.invalid(key, format!("must be at most {MAX_DRAIN_MS}, a day, got {value}")));
        }
    }
    const DURABILITY: &str = "store.durability";
    if config.store.backend != StoreBackend::Edge && origins.of(DURABILITY).is_some() {
        return Err(origins.invalid(DURABILITY, "is of use with store.backend = \"edge\" only; leave it out"));
    }
    config.store.qdrant.check(config.store.backend == StoreBackend::Qdrant, origins)?;
    const DATA_DIR: &str = "data.dir";
    if config.store.backend == StoreBackend::Qdrant && origins.of(DATA_DIR).is_some() {
        return Err(origins.invalid(DATA_DIR, "is of no use with store.backend = \"qdrant\"; leave it out"));
    }
    check_limits(&config.limits, origins)?;
    check_embedding(&config.embedding, origins)?;
    check_rerank(&config.rerank, origins)?;
    config.llm.check(origins)?;
    let has_local_model = config.embedding.has_local_model() || config.rerank.has_local_model();
    if has_local_model {
        check_engine(&config.embedding, origins)?;
    } else if let Some(key) = LOCAL_ONLY.into_iter().find(|key| origins.of(key).is_some()) {
        return Err(
            origins.invalid(key, "is of use with models in this process only, and none is configured; leave it out")
        );
    }
    const CACHE: &str = "embedding.cache_bytes";
    if config.embedding.provider == EmbeddingProvider::None
        && config.embedding.models.is_empty()
        && origins.of(CACHE).is_some()
    {
        return Err(origins.invalid(CACHE, "is of use with an embedding model only; leave it out"));
    }
    if program == Program::Embedder
        && config.embedding.provider == EmbeddingProvider::None
        && !has_local_model
        && config.rerank.provider == RerankProvider::Candle
    {
        return Err(origins.invalid("embedding.provider", "leaves the embedder nothing to serve; configure a model"));
    }
    check_log_level(&config.telemetry.log_level).map_err(|fault| origins.invalid("telemetry.log_level", fault))?;
    check_keys(config, origins)
}

fn check_limits(limits: &LimitsConfig, origins: &Origins<'_>) -> Result<(), ConfigError> {
    for (key, value, least) in [
        ("limits.max_message_bytes", limits.max_message_bytes, MIN_MESSAGE_BYTES),
        ("limits.max_documents", limits.max_documents, 1),
        ("limits.max_text_bytes", limits.max_text_bytes, 1),
        ("limits.max_document_bytes", limits.max_document_bytes, 1),
        ("limits.max_metadata_bytes", limits.max_metadata_bytes, 1),
        ("limits.max_k", limits.max_k as usize, 1),
        ("limits.max_queries", limits.max_queries, 1),
        ("limits.max_retrievers", limits.max_retrievers, 1),
        ("limits.max_filter_nodes", limits.max_filter_nodes, 1),
        ("limits.max_concurrent_requests", limits.max_concurrent_requests, 1),
    ] {
        if value < least {
            return Err(origins.invalid(key, format!("must be at least {least}, got {value}")));
        }
    }
    check_deadlines(limits, origins)
}

/// Two settings that contradict each other: the error names the one that was set, or both places.
fn check_deadlines(limits: &LimitsConfig, origins: &Origins<'_>) -> Result<(), ConfigError> {
    const DEFAULT: &str = "limits.default_deadline_ms";
    const MOST: &str = "limits.max_deadline_ms";
    let (default, most) = (limits.default_deadline_ms, limits.max_deadline_ms);
    if default != 0 && default <= most {
        return Ok(());
    }
    let set_in = |key| origins.of(key).map(|origin| format!(", set in {origin}")).unwrap_or_default();
    if default != 0 && origins.of(MOST).is_some() {
        let description = format!("must be at least {DEFAULT} ({default}{}), got {most}", set_in(DEFAULT));
        return Err(origins.invalid(MOST, description));
    }
    let description = format!("must be from 1 to {MOST} ({most}{}), got {default}", set_in(MOST));
    Err(origins.invalid(DEFAULT, description))
}

fn check_embedding(embedding: &EmbeddingConfig, origins: &Origins<'_>) -> Result<(), ConfigError> {
    let provider = embedding.provider;
    for (key, readers) in READ_BY {
        if !readers.contains(&provider) && origins.of(key).is_some() {
            let readers: Vec<String> = readers.iter().map(|reader| format!("{:?}", reader.as_str())).collect();
            let description =
                format!("is of use with embedding.provider = {} only; leave it out", readers.join(" or "));
            return Err(origins.invalid(key, description));
        }
    }
    let example = match provider {
        EmbeddingProvider::Toller => Some("http://embedder:7700"),
        EmbeddingProvider::Openai => Some("https://api.openai.com/v1"),
        EmbeddingProvider::Tei => Some("http://tei:8080"),
        EmbeddingProvider::Candle | EmbeddingProvider::None => None,
    };
    if let Some(example) = example {
        let name = provider.as_str();
        let invalid = |description| Err(origins.invalid("embedding.address", description));
        match &embedding.address {
            None => return invalid(format!("must be given with embedding.provider = {name:?}, such as {example:?}")),
            Some(address) if provider == EmbeddingProvider::Toller => {
                if let Err(fault) = address.parse::<WorkerAddresses>() {
                    return invalid(format!("cannot be used: {fault}"));
                }
            }
            Some(_) => {}
        }
    }
    if provider == EmbeddingProvider::Openai && origins.of("embedding.model").is_none() {
        let description =
            "must be given with embedding.provider = \"openai\": the model's name as the service knows it";
        return Err(origins.invalid("embedding.model", description));
    }
    if embedding.provider == EmbeddingProvider::Candle {
        check_model(
            &ModelKeys::of_section("embedding"),
            &LocalModel {
                model: &embedding.model,
                revision: embedding.revision.as_deref(),
                max_tokens: embedding.max_tokens,
            },
            origins,
        )?;
    }
    check_named(
        "embedding.models",
        embedding.models.iter().map(|entry| {
            let NamedModelConfig { name, model, revision, max_tokens, .. } = entry;
            (name.as_str(), LocalModel { model, revision: revision.as_deref(), max_tokens: *max_tokens })
        }),
        origins,
    )
}

fn check_rerank(rerank: &RerankConfig, origins: &Origins<'_>) -> Result<(), ConfigError> {
    let (asked, other): (&[&str], _) = match rerank.provider {
        RerankProvider::Candle => (&["rerank.address", "rerank.api_key"], "tei"),
        RerankProvider::Tei => (&["rerank.model", "rerank.revision", "rerank.max_tokens", "rerank.dtype"], "candle"),
    };
    if let Some(key) = asked.iter().find(|key| origins.of(key).is_some()) {
        let description = format!("is of use with rerank.provider = {other:?} only; leave it out");
        return Err(origins.invalid(key, description));
    }
    if rerank.provider == RerankProvider::Tei && rerank.address.is_none() {
        let description = "must be given with rerank.provider = \"tei\", such as \"http://reranker:8080\"";
        return Err(origins.invalid("rerank.address", description));
    }
    match &rerank.model {
        Some(model) => check_model(
            &ModelKeys::of_section("rerank"),
            &LocalModel { model, revision: rerank.revision.as_deref(), max_tokens: rerank.max_tokens },
            origins,
        )?,
        None => {
            let ignored = [
                ("rerank.revision", rerank.revision.is_some()),
                ("rerank.max_tokens", rerank.max_tokens.is_some()),
                ("rerank.dtype", rerank.dtype != Dtype::default()),
            ];
            if let Some((key, _)) = ignored.into_iter().find(|(_, given)| *given) {
                return Err(origins.invalid(key, "is of use with rerank.model only; leave it out"));
            }
        }
    }
    check_named(
        "rerank.models",
        rerank.models.iter().map(|entry| {
            let NamedRerankerConfig { name, model, revision, max_tokens, dtype: _ } = entry;
            (name.as_str(), LocalModel { model, revision: revision.as_deref(), max_tokens: *max_tokens })
        }),
        origins,
    )
}

/// The entries of a list of named models.
fn check_named<'a>(
    list: &str,
    entries: impl Iterator<Item = (&'a str, LocalModel<'a>)>,
    origins: &Origins<'_>,
) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for (index, (name, model)) in entries.enumerate() {
        let keys = ModelKeys::of_entry(list, index);
        let invalid = |description| keys.invalid(origins, "name", description);
        check_name(name).map_err(invalid)?;
        if !seen.insert(name) {
            return Err(invalid(format!("is the name of another entry already, got {name:?}")));
        }
        check_model(&keys, &model, origins)?;
    }
    Ok(())
}

/// What a model in this process is loaded from.
struct LocalModel<'a> {
    model: &'a str,
    revision: Option<&'a str>,
    max_tokens: Option<u32>,
}

/// The keys of one model: of a section or of an entry of a list.
struct ModelKeys {
    prefix: String,
    /// The key that figment knows the origin of: lists have one as a whole.
    list: Option<String>,
}

impl ModelKeys {
    fn of_section(section: &str) -> Self {
        Self { prefix: section.to_owned(), list: None }
    }

    fn of_entry(list: &str, index: usize) -> Self {
        Self { prefix: format!("{list}[{index}]"), list: Some(list.to_owned()) }
    }

    fn invalid(&self, origins: &Origins<'_>, field: &str, description: String) -> ConfigError {
        let key = format!("{}.{field}", self.prefix);
        let origin = origins.of(self.list.as_deref().unwrap_or(&key));
        let origin = origin.map(|origin| format!(" (in {origin})")).unwrap_or_default();
        ConfigError::Invalid { key, description, origin }
    }
}

fn check_model(keys: &ModelKeys, local: &LocalModel<'_>, origins: &Origins<'_>) -> Result<(), ConfigError> {
    let LocalModel { model, revision, max_tokens } = local;
    let invalid = |field, description: String| Err(keys.invalid(origins, field, description));
    if model.is_empty() {
        return invalid("model", "must name a hub repository or a folder".to_owned());
    }
    if revision.is_some() {
        let key = format!("{}.model", keys.prefix);
        if let Ok(Source::Folder(_)) = Source::parse(model) {
            return invalid(
                "revision",
                format!("is of a hub repository, but {key} is the folder {model:?}; leave it out"),
            );
        }
        if model.contains('@') {
            return invalid("revision", format!("is given twice, since {key} is {model:?}; leave one out"));
        }
    }
    if *max_tokens == Some(0) {
        return invalid("max_tokens", "must be at least 1, got 0".to_owned());
    }
    Ok(())
}

/// What all models in this process share.
fn check_engine(embedding: &EmbeddingConfig, origins: &Origins<'_>) -> Result<(), ConfigError> {
    let processors = cpu::available();
    if embedding.threads > processors {
        let description = format!(
            "must be 0 to {processors}, the processors that this process may use (0 takes all), got {}",
            embedding.threads
        );
        return Err(origins.invalid("embedding.threads", description));
    }
    let threads = if embedding.threads == 0 { processors } else { embedding.threads };
    if !(1..=threads).contains(&embedding.workers) {
        let description =
            format!("must be 1 to {threads}, since each worker takes one thread at least, got {}", embedding.workers);
        return Err(origins.invalid("embedding.workers", description));
    }
    for (key, range, value) in [
        ("embedding.queue_tokens", QUEUE_TOKENS, embedding.queue_tokens),
        ("embedding.batch_tokens", BATCH_TOKENS, embedding.batch_tokens),
    ] {
        if !range.contains(&value) {
            return Err(origins.invalid(key, format!("must be {} to {}, got {value}", range.start(), range.end())));
        }
    }
    Ok(())
}

/// A level, or pairs of target and level. A word alone, which the log filter would take for a target, is most often a
/// mistyped level.
fn check_log_level(directives: &str) -> Result<(), String> {
    const FORM: &str = "must be error, warn, info, debug, trace or off, or directives such as info,toller_store=debug";
    // Directives about spans have commas and equal signs of their own; the log filter judges those.
    if directives.contains('[') {
        return Ok(());
    }
    for directive in directives.split(',') {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level).trim().to_ascii_lowercase();
        if !matches!(level.as_str(), "error" | "warn" | "info" | "debug" | "trace" | "off") {
            return Err(format!("{FORM}, got {directive:?}"));
        }
    }
    Ok(())
}

fn check_keys(config: &Config, origins: &Origins<'_>) -> Result<(), ConfigError> {
    let mut keys = ApiKeys::default();
    for (index, key) in config.auth.keys.iter().enumerate() {
        if let Err(fault) = keys.add(&key.name, &key.sha256, key.tenant.clone(), key.role) {
            let origin = origins.of("auth.keys").map(|origin| format!(" (in {origin})")).unwrap_or_default();
            let description = fault.to_string();
            return Err(ConfigError::Invalid { key: format!("auth.keys[{index}]:"), description, origin });
        }
    }
    if !config.auth.require_tenant {
        return Ok(());
    }
    if config.auth.keys.is_empty() {
        return Err(
            origins.invalid("auth.require_tenant", "needs [[auth.keys]]: without any, every caller is of no tenant")
        );
    }
    match config.auth.keys.iter().find(|key| key.tenant.is_default()) {
        Some(key) => Err(origins
            .invalid("auth.require_tenant", format!("is set, and the key {:?} has no tenant; give it one", key.name))),
        None => Ok(()),
    }
}
