//! The vectors of one run: each text is embedded once by each model in each role, however many nodes of a tree want it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use toller_core::{EmbeddingRole, Embeddings, Error, Fingerprint, RequestContext, Result};

/// The query vectors of one run. Nodes that want the same one at the same time wait for one embedding call; when the one that calls
/// gives up, such as at its timeout, the next one calls.
#[derive(Debug, Default)]
pub(crate) struct QueryMemo {
    /// A list: a tree has a handful of models and texts.
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    model: Fingerprint,
    role: EmbeddingRole,
    text: String,
    vector: Arc<OnceCell<Vec<f32>>>,
}

impl QueryMemo {
    /// The vector that `model` gives `text` in the role of a query.
    ///
    /// # Errors
    /// What embedding reports; then the next one who asks tries again.
    pub(crate) async fn vector(
        &self,
        context: &RequestContext,
        model: &dyn Embeddings,
        text: &str,
    ) -> Result<Vec<f32>> {
        self.vector_as(context, model, EmbeddingRole::Query, text).await
    }

    /// The vector that `model` gives `text` in `role`.
    ///
    /// # Errors
    /// As [`Self::vector`].
    pub(crate) async fn vector_as(
        &self,
        context: &RequestContext,
        model: &dyn Embeddings,
        role: EmbeddingRole,
        text: &str,
    ) -> Result<Vec<f32>> {
        let cell = self.cell(model.fingerprint(), role, text);
        let embed = || async {
            let embeddings = model.embed(context, role, vec![text.to_owned()]).await?;
            let [embedding] = <[_; 1]>::try_from(embeddings)
                .map_err(|all| Error::Internal(format!("the model gave {} vectors for one text", all.len())))?;
            Ok(embedding.vector)
        };
        cell.get_or_try_init(embed).await.cloned()
    }

    fn cell(&self, model: &Fingerprint, role: EmbeddingRole, text: &str) -> Arc<OnceCell<Vec<f32>>> {
        let mut entries = self.entries.lock();
        let is_wanted = |entry: &&Entry| entry.role == role && entry.text == text && entry.model == *model;
        if let Some(entry) = entries.iter().find(is_wanted) {
            return Arc::clone(&entry.vector);
        }
        let vector = Arc::default();
        entries.push(Entry { model: model.clone(), role, text: text.to_owned(), vector: Arc::clone(&vector) });
        vector
    }
}
