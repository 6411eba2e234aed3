//! The models of a process: one default of each kind, and others by the names that requests use.

use std::fmt;
use std::sync::Arc;

use crate::embeddings::Embeddings;
use crate::error::{Error, ResourceKind, Result};
use crate::fingerprint::Fingerprint;
use crate::language_model::LanguageModel;
use crate::reranker::Reranker;

/// Reason of the error when a text has to be embedded and this process has no model for it by default.
pub const NO_EMBEDDING_MODEL: &str = "NO_EMBEDDING_MODEL";

/// Reason of the error when pairs have to be scored and this process has no reranker by default.
pub const NO_RERANKER: &str = "NO_RERANKER";

/// Reason of the error when a language model has to be asked and this process has none by default.
pub const LLM_NOT_CONFIGURED: &str = "LLM_NOT_CONFIGURED";

/// Every model of a process, by kind. Cheap to clone.
///
/// ```
/// use toller_core::Models;
/// let none = Models::default();
/// assert!(none.embeddings.get(Some("a")).is_none() && none.rerankers.get(None).is_none());
/// ```
#[derive(Clone, Default)]
pub struct Models {
    /// Those that make vectors.
    pub embeddings: ModelSet<dyn Embeddings>,
    /// Those that score pairs.
    pub rerankers: ModelSet<dyn Reranker>,
    /// Those that answer questions.
    pub language_models: ModelSet<dyn LanguageModel>,
}

impl Models {
    /// The embedding model that a request names, or the default one.
    ///
    /// # Errors
    /// `NotFound` for a name that no embedding model has; `FailedPrecondition` with [`NO_EMBEDDING_MODEL`] without default.
    pub fn embedding_model(&self, name: Option<&str>) -> Result<&Arc<dyn Embeddings>> {
        self.embeddings.find(name, || Error::FailedPrecondition {
            reason: NO_EMBEDDING_MODEL,
            message: format!(
                "this server runs without a default embedding model; {}",
                self.embeddings.way_out("set embedding.provider and embedding.model")
            ),
        })
    }

    /// The reranker that a request names, or the default one.
    ///
    /// # Errors
    /// `NotFound` for a name that no reranker has; `FailedPrecondition` with [`NO_RERANKER`] without default.
    pub fn reranker(&self, name: Option<&str>) -> Result<&Arc<dyn Reranker>> {
        self.rerankers.find(name, || Error::FailedPrecondition {
            reason: NO_RERANKER,
            message: format!(
                "this server runs without a default reranker; {}",
                self.rerankers.way_out("set rerank.model")
            ),
        })
    }

    /// The language model that a request names, or the default one.
    ///
    /// # Errors
    /// `NotFound` for a name that no language model has; `FailedPrecondition` with [`LLM_NOT_CONFIGURED`] without default.
    pub fn language_model(&self, name: Option<&str>) -> Result<&Arc<dyn LanguageModel>> {
        self.language_models.find(name, || Error::FailedPrecondition {
            reason: LLM_NOT_CONFIGURED,
            message: format!(
                "this server runs without a language model; {}",
                self.language_models.way_out("set llm.address and llm.model")
            ),
        })
    }

    /// The embedding model whose vectors can be compared with those of `fingerprint`: the default one where it fits, else the
    /// first that does. O(models).
    pub fn compatible_with(&self, fingerprint: &Fingerprint) -> Option<&Arc<dyn Embeddings>> {
        let mut models = self.embeddings.iter().map(|loaded| loaded.model);
        models.find(|model| model.fingerprint().is_compatible_with(fingerprint))
    }
}

/// A process with one embedding model, which is the default under its own name.
impl From<Arc<dyn Embeddings>> for Models {
    fn from(model: Arc<dyn Embeddings>) -> Self {
        let name = model.fingerprint().model.clone();
        let entries = vec![Entry { name, is_default: true, model }];
        Self { embeddings: ModelSet { entries }, ..Self::default() }
    }
}

/// A process with one embedding model, or with none.
impl From<Option<Arc<dyn Embeddings>>> for Models {
    fn from(model: Option<Arc<dyn Embeddings>>) -> Self {
        model.map(Self::from).unwrap_or_default()
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Models")
            .field("embeddings", &self.embeddings.names())
            .field("rerankers", &self.rerankers.names())
            .field("language_models", &self.language_models.names())
            .finish()
    }
}

/// Models of one kind: no two have the same name, and at most one is the default.
pub struct ModelSet<M: ?Sized> {
    entries: Vec<Entry<M>>,
}

struct Entry<M: ?Sized> {
    name: String,
    is_default: bool,
    model: Arc<M>,
}

/// A model as a request sees it.
pub struct LoadedModel<'a, M: ?Sized> {
    /// The name that requests use.
    pub name: &'a str,
    /// Is it used where a request names none?
    pub is_default: bool,
    /// The model.
    pub model: &'a Arc<M>,
}

impl<M: ?Sized> ModelSet<M> {
    /// Adds the model that is used where a request names none.
    ///
    /// # Errors
    /// Says that the name is taken, or that there is a default already.
    pub fn add_default(&mut self, name: &str, model: Arc<M>) -> Result<(), String> {
        if let Some(other) = self.entries.iter().find(|entry| entry.is_default) {
            return Err(format!("{:?} is the default already", other.name));
        }
        self.add_entry(name, true, model)
    }

    /// Adds a model that requests name.
    ///
    /// # Errors
    /// Says that the name is taken.
    pub fn add(&mut self, name: &str, model: Arc<M>) -> Result<(), String> {
        self.add_entry(name, false, model)
    }

    fn add_entry(&mut self, name: &str, is_default: bool, model: Arc<M>) -> Result<(), String> {
        if self.entries.iter().any(|entry| entry.name == name) {
            return Err(format!("another model has the name {name:?} already"));
        }
        self.entries.push(Entry { name: name.to_owned(), is_default, model });
        Ok(())
    }

    /// The model of that name, or the default one.
    pub fn get(&self, name: Option<&str>) -> Option<&Arc<M>> {
        let is_wanted = |entry: &&Entry<M>| name.map_or(entry.is_default, |name| entry.name == name);
        self.entries.iter().find(is_wanted).map(|entry| &entry.model)
    }

    /// All models: the default one, and then the others in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = LoadedModel<'_, M>> {
        let of = |wanted: bool| self.entries.iter().filter(move |entry| entry.is_default == wanted);
        of(true).chain(of(false)).map(|Entry { name, is_default, model }| LoadedModel {
            name,
            is_default: *is_default,
            model,
        })
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All names, in the order of [`Self::iter`].
    pub fn names(&self) -> Vec<&str> {
        self.iter().map(|loaded| loaded.name).collect()
    }

    fn find(&self, name: Option<&str>, no_default: impl FnOnce() -> Error) -> Result<&Arc<M>> {
        match (self.get(name), name) {
            (Some(model), _) => Ok(model),
            (None, Some(name)) => Err(Error::NotFound { kind: ResourceKind::Model, name: name.to_owned() }),
            (None, None) => Err(no_default()),
        }
    }

    /// What a caller can do without a default model.
    fn way_out(&self, setting: &str) -> String {
        match self.names().as_slice() {
            [] => setting.to_owned(),
            names => format!("name one of {} in the request, or {setting}", names.join(", ")),
        }
    }
}

impl<M: ?Sized> Default for ModelSet<M> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<M: ?Sized> Clone for ModelSet<M> {
    fn clone(&self) -> Self {
        let entries = self.entries.iter().map(|Entry { name, is_default, model }| Entry {
            name: name.clone(),
            is_default: *is_default,
            model: Arc::clone(model),
        });
        Self { entries: entries.collect() }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::context::RequestContext;
    use crate::embeddings::{Embedding, EmbeddingRole};

    struct Fake(Fingerprint);

    #[async_trait]
    impl Embeddings for Fake {
        fn fingerprint(&self) -> &Fingerprint {
            &self.0
        }

        async fn embed(&self, _: &RequestContext, _: EmbeddingRole, _: Vec<String>) -> Result<Vec<Embedding>> {
            Ok(Vec::new())
        }
    }

    fn fake(model: &str, dimension: u32) -> Arc<dyn Embeddings> {
        let fingerprint =
            Fingerprint { provider: "fake".into(), model: model.into(), ..Fingerprint::client(dimension) };
        Arc::new(Fake(fingerprint))
    }

    #[test]
    fn requests_find_models_by_name_and_collections_by_fingerprint() {
        let mut models = Models::default();
        models.embeddings.add("small", fake("org/small", 2)).unwrap();
        models.embeddings.add_default("org/large", fake("org/large", 4)).unwrap();
        let model = |name| models.embedding_model(name).map(|model| model.fingerprint().model.clone());
        assert_eq!(model(None).unwrap(), "org/large");
        assert_eq!(model(Some("small")).unwrap(), "org/small");
        let missing = Error::NotFound { kind: ResourceKind::Model, name: "org/small".to_owned() };
        assert_eq!(model(Some("org/small")), Err(missing), "a configured name replaces the model's own");
        let found = models.compatible_with(fake("org/small", 2).fingerprint()).unwrap();
        assert_eq!(found.fingerprint().model, "org/small");
        assert!(models.compatible_with(fake("org/small", 3).fingerprint()).is_none());
        assert_eq!(models.embeddings.names(), ["org/large", "small"], "the default goes first");
    }

    #[test]
    fn names_are_unique_and_there_is_one_default() {
        let mut models = Models::from(fake("a", 2));
        assert!(models.embeddings.add("a", fake("b", 2)).unwrap_err().contains("\"a\""));
        assert!(models.embeddings.add_default("b", fake("b", 2)).unwrap_err().contains("\"a\""));
    }

    #[test]
    fn without_a_default_the_error_names_what_there_is() {
        let mut models = Models::default();
        let text = |models: &Models| models.embedding_model(None).map(drop).unwrap_err().to_string();
        assert!(text(&models).contains("embedding.model"), "{}", text(&models));
        models.embeddings.add("small", fake("org/small", 2)).unwrap();
        assert!(text(&models).contains("small"), "{}", text(&models));
        assert!(models.reranker(None).map(drop).unwrap_err().to_string().contains("rerank.model"));
        let missing = models.language_model(None).map(drop).unwrap_err();
        let Error::FailedPrecondition { reason, message } = &missing else { panic!("{missing:?}") };
        assert_eq!(*reason, LLM_NOT_CONFIGURED);
        assert!(message.contains("llm.address"), "{message}");
    }
}
