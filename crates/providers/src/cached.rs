//! A cache of embeddings in front of any `Embeddings`.
//!
//! One [`EmbeddingCache`] is bounded in bytes and may serve several models: its keys hold the fingerprint and the role beside
//! the text, so that no model gets another's vector and no query gets a document's.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use moka::sync::Cache;
use sha2::{Digest, Sha256};
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Embeddings, Error, Fingerprint, RequestContext, Result, Tokenizer};
use toller_telemetry::metrics::CacheMetrics;

/// SHA-256 of fingerprint, role and text. A cryptographic digest, since texts come from anybody: nobody can make a text
/// that is answered with another one's vector, and texts need not be kept.
type Key = [u8; 32];

/// Bytes of an entry beside its vector: key, counts, and what the cache keeps for each entry.
const ENTRY_BYTES: usize = size_of::<Key>() + size_of::<Embedding>() + 160;

/// Embeddings that were computed before, bounded in bytes. Entries that are asked for often stay.
pub struct EmbeddingCache {
    entries: Cache<Key, Arc<Embedding>>,
    metrics: CacheMetrics,
}

impl EmbeddingCache {
    /// An empty cache of at most `max_bytes`, vectors, keys and bookkeeping included; 0 keeps nothing.
    pub fn new(max_bytes: u64) -> Self {
        let entries = Cache::builder()
            .max_capacity(max_bytes)
            .weigher(|_: &Key, embedding: &Arc<Embedding>| weight(embedding))
            .build();
        Self { entries, metrics: CacheMetrics::new() }
    }

    /// Bytes that it holds, as far as its own bookkeeping has come.
    pub fn bytes(&self) -> u64 {
        self.entries.run_pending_tasks();
        self.entries.weighted_size()
    }
}

fn weight(embedding: &Embedding) -> u32 {
    let bytes = ENTRY_BYTES + embedding.vector.len() * size_of::<f32>();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Embeddings that ask the inner ones only for what the cache does not know.
///
/// Errors are never kept. Equal texts of one call are embedded once.
pub struct CachedEmbeddings {
    inner: Arc<dyn Embeddings>,
    cache: Arc<EmbeddingCache>,
    /// SHA-256 of the fingerprint: the beginning of what keys are computed from.
    fingerprint_digest: [u8; 32],
}

impl CachedEmbeddings {
    /// Decorates `inner`; `cache` may be shared with other models.
    pub fn new(inner: Arc<dyn Embeddings>, cache: Arc<EmbeddingCache>) -> Self {
        let fingerprint_digest = digest_of(inner.fingerprint());
        Self { inner, cache, fingerprint_digest }
    }

    fn key(&self, role: EmbeddingRole, text: &str) -> Key {
        let role = match role {
            EmbeddingRole::Document => b'd',
            EmbeddingRole::Query => b'q',
        };
        // Unambiguous without separators: all but the last part have a fixed length.
        Sha256::new().chain_update(self.fingerprint_digest).chain_update([role]).chain_update(text).finalize().into()
    }
}

/// Of all fields, each with its length before it where that varies.
fn digest_of(fingerprint: &Fingerprint) -> [u8; 32] {
    let Fingerprint {
        provider,
        model,
        revision,
        dimension,
        pooling,
        normalized,
        query_instruction,
        document_instruction,
        max_tokens,
        weights_sha256,
    } = fingerprint;
    let pooling = pooling.map_or_else(String::new, |pooling| pooling.to_string());
    let mut digest = Sha256::new()
        .chain_update(dimension.to_le_bytes())
        .chain_update(max_tokens.to_le_bytes())
        .chain_update([u8::from(*normalized)]);
    for text in [provider, model, revision, &pooling, query_instruction, document_instruction, weights_sha256] {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    digest.finalize().into()
}

#[async_trait]
impl Embeddings for CachedEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        self.inner.fingerprint()
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        /// Where the embedding of a text comes from.
        enum From {
            Cache(Arc<Embedding>),
            /// The position among what is asked of the inner embeddings.
            Inner(usize),
        }

        let mut sources = Vec::with_capacity(texts.len());
        let mut missing_keys = Vec::new();
        let mut missing_texts = Vec::new();
        let mut position_of = HashMap::new();
        for text in texts {
            let key = self.key(role, &text);
            if let Some(known) = self.cache.entries.get(&key) {
                sources.push(From::Cache(known));
                continue;
            }
            let position = *position_of.entry(key).or_insert_with(|| {
                missing_keys.push(key);
                missing_texts.push(text);
                missing_keys.len() - 1
            });
            sources.push(From::Inner(position));
        }
        let hits = sources.iter().filter(|source| matches!(source, From::Cache(_))).count();
        self.cache.metrics.record(role, hits, sources.len() - hits);

        let mut embedded = Vec::with_capacity(missing_keys.len());
        if !missing_texts.is_empty() {
            let answer = self.inner.embed(context, role, missing_texts).await?;
            if answer.len() != missing_keys.len() {
                let (got, wanted) = (answer.len(), missing_keys.len());
                return Err(Error::Internal(format!("the provider answered {got} vectors for {wanted} texts")));
            }
            for (key, embedding) in missing_keys.into_iter().zip(answer) {
                let embedding = Arc::new(embedding);
                self.cache.entries.insert(key, Arc::clone(&embedding));
                embedded.push(embedding);
            }
            self.cache.metrics.set_bytes(self.cache.entries.weighted_size());
        }

        let answer = sources.into_iter().map(|source| match source {
            From::Cache(known) => Ok(known.as_ref().clone()),
            From::Inner(position) => match embedded.get(position) {
                Some(embedding) => Ok(embedding.as_ref().clone()),
                None => Err(Error::Internal("an embedded text is missing from its own answer".to_owned())),
            },
        });
        answer.collect()
    }

    fn tokenizer(&self) -> Option<Arc<dyn Tokenizer>> {
        self.inner.tokenizer()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use proptest::prelude::*;
    use toller_core::Principal;

    use super::*;

    /// Embeds into what the text and the role are, remembers what it was asked, and fails on demand.
    struct Fake {
        fingerprint: Fingerprint,
        asked: Mutex<Vec<Vec<String>>>,
        fails: AtomicBool,
    }

    impl Fake {
        fn new(model: &str) -> Arc<Self> {
            let fingerprint = Fingerprint { model: model.to_owned(), ..Fingerprint::client(4) };
            Arc::new(Self { fingerprint, asked: Mutex::default(), fails: AtomicBool::new(false) })
        }

        fn asked(&self) -> Vec<Vec<String>> {
            std::mem::take(&mut self.asked.lock().unwrap())
        }

        fn embedding(&self, role: EmbeddingRole, text: &str) -> Embedding {
            let seed = Sha256::digest(format!("{role:?} {} {text}", self.fingerprint.model));
            let vector = seed.iter().take(4).map(|byte| f32::from(*byte)).collect();
            let length = u32::try_from(text.len()).unwrap();
            Embedding { vector, token_count: (length != 3).then_some(length), truncated: length > 4 }
        }
    }

    #[async_trait]
    impl Embeddings for Fake {
        fn fingerprint(&self) -> &Fingerprint {
            &self.fingerprint
        }

        async fn embed(&self, _: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
            if self.fails.load(Ordering::Relaxed) {
                return Err(Error::Unavailable("down".to_owned()));
            }
            let answer = texts.iter().map(|text| self.embedding(role, text)).collect();
            self.asked.lock().unwrap().push(texts);
            Ok(answer)
        }
    }

    fn embed(embeddings: &dyn Embeddings, role: EmbeddingRole, texts: &[&str]) -> Result<Vec<Embedding>> {
        let context = RequestContext::new(Principal::anonymous());
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        futures::executor::block_on(embeddings.embed(&context, role, texts))
    }

    #[test]
    fn only_misses_are_asked_for_once_and_in_one_call() {
        let fake = Fake::new("one");
        let cached = CachedEmbeddings::new(fake.clone(), Arc::new(EmbeddingCache::new(1 << 20)));
        embed(&cached, EmbeddingRole::Document, &["a", "b"]).unwrap();
        assert_eq!(fake.asked(), [["a", "b"]]);
        embed(&cached, EmbeddingRole::Document, &["c", "b", "c", "d", "a"]).unwrap();
        assert_eq!(fake.asked(), [["c", "d"]]);
        embed(&cached, EmbeddingRole::Document, &["d", "a"]).unwrap();
        assert_eq!(embed(&cached, EmbeddingRole::Document, &[]), Ok(Vec::new()));
        assert!(fake.asked().is_empty());
    }

    #[test]
    fn roles_and_models_are_kept_apart() {
        let cache = Arc::new(EmbeddingCache::new(1 << 20));
        let (one, two) = (Fake::new("one"), Fake::new("two"));
        let cached = CachedEmbeddings::new(one.clone(), Arc::clone(&cache));
        let other = CachedEmbeddings::new(two.clone(), cache);
        for round in 0..2 {
            for role in [EmbeddingRole::Document, EmbeddingRole::Query] {
                assert_eq!(embed(&cached, role, &["a"]).unwrap(), [one.embedding(role, "a")], "{round}");
                assert_eq!(embed(&other, role, &["a"]).unwrap(), [two.embedding(role, "a")], "{round}");
            }
        }
        assert_eq!((one.asked().len(), two.asked().len()), (2, 2));
    }

    #[test]
    fn every_field_of_the_fingerprint_is_part_of_the_key() {
        let base = Fingerprint::client(4);
        let text = || "x".to_owned();
        let others = [
            Fingerprint { provider: text(), ..base.clone() },
            Fingerprint { model: text(), ..base.clone() },
            Fingerprint { revision: text(), ..base.clone() },
            Fingerprint { dimension: 5, ..base.clone() },
            Fingerprint { pooling: Some(toller_core::fingerprint::Pooling::Cls), ..base.clone() },
            Fingerprint { normalized: true, ..base.clone() },
            Fingerprint { query_instruction: text(), ..base.clone() },
            Fingerprint { document_instruction: text(), ..base.clone() },
            Fingerprint { max_tokens: 5, ..base.clone() },
            Fingerprint { weights_sha256: text(), ..base.clone() },
        ];
        let digests: std::collections::HashSet<_> = others.iter().chain([&base]).map(digest_of).collect();
        assert_eq!(digests.len(), others.len() + 1);
    }

    #[test]
    fn errors_are_not_kept() {
        let fake = Fake::new("one");
        let cached = CachedEmbeddings::new(fake.clone(), Arc::new(EmbeddingCache::new(1 << 20)));
        fake.fails.store(true, Ordering::Relaxed);
        let refused = embed(&cached, EmbeddingRole::Query, &["a"]);
        assert_eq!(refused, Err(Error::Unavailable("down".to_owned())));
        fake.fails.store(false, Ordering::Relaxed);
        let expected = fake.embedding(EmbeddingRole::Query, "a");
        assert_eq!(embed(&cached, EmbeddingRole::Query, &["a"]), Ok(vec![expected.clone()]));
        fake.fails.store(true, Ordering::Relaxed);
        assert_eq!(embed(&cached, EmbeddingRole::Query, &["a"]), Ok(vec![expected]), "what is known needs no provider");
    }

    #[test]
    fn its_bytes_stay_within_the_bound() {
        let room = 8 * u64::try_from(ENTRY_BYTES + 16).unwrap();
        let cache = Arc::new(EmbeddingCache::new(room));
        let cached = CachedEmbeddings::new(Fake::new("one"), Arc::clone(&cache));
        for number in 0..1000 {
            embed(&cached, EmbeddingRole::Document, &[&format!("text {number}")]).unwrap();
        }
        assert!((1..=room).contains(&cache.bytes()), "{} of {room}", cache.bytes());
    }

    proptest! {
        /// Whatever the order, the repetitions and the room, answers are those of the embeddings themselves.
        #[test]
        fn answers_are_those_without_a_cache(
            calls in prop::collection::vec((any::<bool>(), prop::collection::vec("[ab]{0,6}", 0..8)), 1..12),
            entries in 0_u64..12,
        ) {
            let fake = Fake::new("one");
            let room = entries * u64::try_from(ENTRY_BYTES + 16).unwrap();
            let cached = CachedEmbeddings::new(fake.clone(), Arc::new(EmbeddingCache::new(room)));
            for (is_query, texts) in calls {
                let role = if is_query { EmbeddingRole::Query } else { EmbeddingRole::Document };
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let expected: Vec<_> = texts.iter().map(|text| fake.embedding(role, text)).collect();
                prop_assert_eq!(embed(&cached, role, &texts), Ok(expected));
                for call in fake.asked() {
                    let distinct: std::collections::HashSet<_> = call.iter().collect();
                    prop_assert_eq!(distinct.len(), call.len());
                }
            }
        }
    }
}
