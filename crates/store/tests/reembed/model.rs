//! Models that give each text a vector of its own, and wait, or refuse, when they are told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use toller_core::embeddings::Embedding;
use toller_core::error::{Error, Result};
use toller_core::{EmbeddingRole, Embeddings, Fingerprint, Models, RequestContext};

use crate::ground::WRITER;

/// Gives a text a vector that follows from the text and the model's name.
pub(crate) struct TestModel {
    fingerprint: Fingerprint,
    /// What copies documents waits for a permit before each call; writers do not.
    gate: Semaphore,
    is_gated: bool,
    /// What the next calls answer instead of vectors.
    pub(crate) moods: Mutex<Vec<Mood>>,
    pub(crate) calls: AtomicUsize,
    pub(crate) texts: AtomicUsize,
}

/// What a model says instead of giving vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mood {
    /// The queue is full, until then if it says so.
    Full(Option<Duration>),
    /// Nobody answers.
    Unreachable,
}

impl TestModel {
    pub(crate) fn new(name: &str, dimension: u32) -> Arc<Self> {
        Self::make(name, dimension, false)
    }

    pub(crate) fn gated(name: &str, dimension: u32) -> Arc<Self> {
        Self::make(name, dimension, true)
    }

    fn make(name: &str, dimension: u32, is_gated: bool) -> Arc<Self> {
        let fingerprint = Fingerprint {
            provider: "test".to_owned(),
            model: name.to_owned(),
            weights_sha256: String::new(),
            ..Fingerprint::client(dimension)
        };
        Arc::new(Self {
            fingerprint,
            gate: Semaphore::new(0),
            is_gated,
            moods: Mutex::default(),
            calls: AtomicUsize::new(0),
            texts: AtomicUsize::new(0),
        })
    }

    /// Lets so many calls through.
    pub(crate) fn let_through(&self, calls: usize) {
        self.gate.add_permits(calls);
    }

    /// Lets no call through any more.
    pub(crate) fn close(&self) {
        self.gate.forget_permits(usize::MAX >> 3);
    }

    pub(crate) fn vector(&self, text: &str) -> Vec<f32> {
        let dimension = self.fingerprint.dimension as usize;
        if text == "nan" && self.fingerprint.model == "new" {
            return vec![f32::NAN; dimension];
        }
        let mut state = 0xcbf2_9ce4_8422_2325_u64;
        for byte in self.fingerprint.model.bytes().chain([0]).chain(text.bytes()) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 40) as f32 / (1_u64 << 24) as f32) - 0.5
        };
        (0..dimension).map(|_| next()).collect()
    }
}

#[async_trait]
impl Embeddings for TestModel {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, context: &RequestContext, _: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        if self.is_gated && &*context.principal().name != WRITER {
            self.gate.acquire().await.unwrap().forget();
        }
        let mood = self.moods.lock().unwrap().pop();
        match mood {
            Some(Mood::Full(retry_after)) => {
                return Err(Error::ResourceExhausted { what: "the queue is full".to_owned(), retry_after });
            }
            Some(Mood::Unreachable) => return Err(Error::Unavailable("nobody answers".to_owned())),
            None => {}
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.texts.fetch_add(texts.len(), Ordering::Relaxed);
        let embedding = |text: &String| Embedding { vector: self.vector(text), token_count: None, truncated: false };
        Ok(texts.iter().map(embedding).collect())
    }
}

/// A process with these models under their own names; the first is the default.
pub(crate) fn models(all: &[&Arc<TestModel>]) -> Models {
    let mut models = Models::default();
    for (index, model) in all.iter().enumerate() {
        let (name, shared) = (model.fingerprint.model.as_str(), Arc::clone(model) as Arc<dyn Embeddings>);
        if index == 0 {
            models.embeddings.add_default(name, shared).unwrap();
        } else {
            models.embeddings.add(name, shared).unwrap();
        }
    }
    models
}
