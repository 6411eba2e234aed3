//! What values must be, alone and together, beyond what their types say.

use toller_embedder::{Source, cpu};
use toller_serving::auth::ApiKeys;
use tonic::transport::Uri;

use super::{Config, ConfigError, EmbeddingProvider, LimitsConfig, Origins};

/// Least size of a message: room for one document with a vector of thousands of elements.
const MIN_MESSAGE_BYTES: usize = 65_536;

/// Longest drain: a day. Whoever writes more has mistaken the unit.
const MAX_DRAIN_MS: u64 = 24 * 60 * 60 * 1000;

/// Least and most tokens of the queue, as the embedder has them.
const QUEUE_TOKENS: std::ops::RangeInclusive<usize> = 1024..=1 << 30;

/// Settings that only a model in this process reads.
const CANDLE_ONLY: [&str; 9] = [
    "embedding.model",
    "embedding.revision",
    "embedding.query_instruction",
    "embedding.document_instruction",
    "embedding.pooling",
    "embedding.normalize",
    "embedding.max_tokens",
    "embedding.threads",
    "embedding.queue_tokens",
];

/// Checks everything; the first fault is the error.
pub(super) fn check(config: &Config, origins: &Origins<'_>) -> Result<(), ConfigError> {
    if config.data.dir.as_os_str().is_empty() {
        return Err(origins.invalid("data.dir", "must not be empty; write . for the working folder"));
    }
    for (key, value) in [
        ("server.drain_grace_ms", config.server.drain_grace_ms),
        ("server.drain_timeout_ms", config.server.drain_timeout_ms),
    ] {
        if value > MAX_DRAIN_MS {
            return Err(origins.invalid(key, format!("must be at most {MAX_DRAIN_MS}, a day, got {value}")));
        }
    }
    check_limits(&config.limits, origins)?;
    check_embedding(config, origins)?;
    check_log_level(&config.telemetry.log_level).map_err(|fault| origins.invalid("telemetry.log_level", fault))?;
    check_keys(config, origins)
}

fn check_limits(limits: &LimitsConfig, origins: &Origins<'_>) -> Result<(), ConfigError> {
    for (key, value, least) in [
        ("limits.max_message_bytes", limits.max_message_bytes, MIN_MESSAGE_BYTES),
        ("limits.max_documents", limits.max_documents, 1),
        ("limits.max_text_bytes", limits.max_text_bytes, 1),
        ("limits.max_metadata_bytes", limits.max_metadata_bytes, 1),
        ("limits.max_k", limits.max_k as usize, 1),
        ("limits.max_queries", limits.max_queries, 1),
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

fn check_embedding(config: &Config, origins: &Origins<'_>) -> Result<(), ConfigError> {
    let embedding = &config.embedding;
    if embedding.provider == EmbeddingProvider::Toller {
        check_address(embedding.address.as_deref())
            .map_err(|description| origins.invalid("embedding.address", description))?;
    }
    if embedding.provider != EmbeddingProvider::Candle
        && let Some(key) = CANDLE_ONLY.into_iter().find(|key| origins.of(key).is_some())
    {
        return Err(origins.invalid(key, "is of use with embedding.provider = \"candle\" only; leave it out"));
    }
    if embedding.provider != EmbeddingProvider::Toller {
        for (key, given) in [("embedding.address", &embedding.address), ("embedding.api_key", &embedding.api_key)] {
            if given.is_some() {
                return Err(origins.invalid(key, "is of use with embedding.provider = \"toller\" only; leave it out"));
            }
        }
    }
    match embedding.provider {
        EmbeddingProvider::None | EmbeddingProvider::Toller => Ok(()),
        EmbeddingProvider::Candle => check_local_model(config, origins),
    }
}

fn check_address(address: Option<&str>) -> Result<(), String> {
    let Some(address) = address else {
        return Err("must be given with embedding.provider = \"toller\", such as \"http://embedder:7700\"".to_owned());
    };
    let parsed: Option<Uri> = address.parse().ok();
    match parsed.as_ref().and_then(Uri::scheme_str) {
        Some("http") => Ok(()),
        Some("https") => Err(format!("must be an http:// URL, since TLS is not built in, got {address:?}")),
        _ => Err(format!("must be a URL such as http://embedder:7700, got {address:?}")),
    }
}

fn check_local_model(config: &Config, origins: &Origins<'_>) -> Result<(), ConfigError> {
    let embedding = &config.embedding;
    let model = &embedding.model;
    if model.is_empty() {
        return Err(origins.invalid("embedding.model", "must name a hub repository or a folder"));
    }
    if embedding.revision.is_some() {
        if let Ok(Source::Folder(_)) = Source::parse(model) {
            let description =
                format!("is of a hub repository, but embedding.model is the folder {model:?}; leave it out");
            return Err(origins.invalid("embedding.revision", description));
        }
        if model.contains('@') {
            let description = format!("is given twice, since embedding.model is {model:?}; leave one out");
            return Err(origins.invalid("embedding.revision", description));
        }
    }
    let processors = cpu::available();
    if embedding.threads > processors {
        let description = format!(
            "must be 0 to {processors}, the processors that this process may use (0 takes all), got {}",
            embedding.threads
        );
        return Err(origins.invalid("embedding.threads", description));
    }
    if !QUEUE_TOKENS.contains(&embedding.queue_tokens) {
        let (least, most) = (QUEUE_TOKENS.start(), QUEUE_TOKENS.end());
        let description = format!("must be {least} to {most}, got {}", embedding.queue_tokens);
        return Err(origins.invalid("embedding.queue_tokens", description));
    }
    if embedding.max_tokens == Some(0) {
        return Err(origins.invalid("embedding.max_tokens", "must be at least 1, got 0"));
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
    Ok(())
}
