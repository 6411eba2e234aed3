//! Copies documents from the current generation to the one that is being filled, with vectors of its model.

use std::collections::HashMap;
use std::time::Duration;

use toller_core::context::Cancellation;
use toller_core::embeddings::Embedding;
use toller_core::error::{Error, Result};
use toller_core::{DocumentId, Record, Vector};
use tracing::warn;

use super::task::{Reembedding, Sides};
use crate::embedding;
use crate::operations::Halt;

/// Waits before what is full or out of reach is asked again, doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

impl Reembedding {
    /// Copies what was not copied yet.
    pub(super) async fn copy_all(&mut self, sides: &Sides) -> Result<(), Halt> {
        while !self.progress.copied {
            let from = self.progress.next.clone();
            let store = &self.foundation.store;
            let page = store.scroll(&self.context, &sides.source, None, from.as_ref(), self.foundation.reembed_batch);
            let page = self.log.unless_told(page).await?;
            let documents = page.records.len() as u64;
            self.copy(sides, page.records).await?;
            self.progress.copied = page.next.is_none();
            self.progress.next = page.next;
            let total = self.foundation.store.count(&self.context, &sides.source, None).await?;
            self.log.advance(documents, total, self.progress.clone());
            self.log.save().await?;
        }
        Ok(())
    }

    /// Copies these documents, but for those that were changed or deleted since they were read: they are in both generations
    /// as they are now, or in neither.
    pub(super) async fn copy(&mut self, sides: &Sides, records: Vec<Record>) -> Result<(), Halt> {
        if records.is_empty() {
            return Ok(());
        }
        let ids: Vec<DocumentId> = records.iter().map(|record| record.document.id.clone()).collect();
        let mut vectors = self.donated(sides, &records).await?;
        let mut rest: Vec<Record> = records.iter().filter(|r| !vectors.contains_key(&r.document.id)).cloned().collect();
        while !rest.is_empty() {
            let taken = self.embed(sides, &rest, &mut vectors).await?;
            rest.drain(..taken);
        }

        let fence = self.fence.clone();
        let _exclusive = fence.exclusive().await;
        self.check_mine().await?;
        let present = self.foundation.store.get(&self.context, &sides.source, &ids).await?;
        let mut copies = Vec::with_capacity(records.len());
        for (read, now) in records.iter().zip(present) {
            let Some(now) = now.filter(|now| now.document.page_content == read.document.page_content) else { continue };
            if let Some(vector) = vectors.remove(&now.document.id) {
                copies.push(Record { document: now.document, vector, named: now.named });
            }
        }
        self.foundation.store.upsert(&self.context, &sides.target, copies).await?;
        Ok(())
    }

    /// The vectors that an older generation of the same model has for the same texts.
    async fn donated(&mut self, sides: &Sides, records: &[Record]) -> Result<HashMap<DocumentId, Vector>, Halt> {
        let mut vectors = HashMap::new();
        let Some(donor) = &sides.donor else { return Ok(vectors) };
        let ids: Vec<DocumentId> = records.iter().map(|record| record.document.id.clone()).collect();
        let donated = match self.foundation.store.get(&self.context, donor, &ids).await {
            Err(Error::NotFound { .. }) => return Ok(vectors),
            other => other?,
        };
        for (record, old) in records.iter().zip(donated) {
            if let Some(old) = old.filter(|old| old.document.page_content == record.document.page_content) {
                vectors.insert(record.document.id.clone(), old.vector);
            }
        }
        Ok(vectors)
    }

    /// Embeds the first of these, as many as the model takes at once, and returns how many that were. What is full or out of
    /// reach is waited for.
    async fn embed(
        &mut self,
        sides: &Sides,
        records: &[Record],
        vectors: &mut HashMap<DocumentId, Vector>,
    ) -> Result<usize, Halt> {
        let mut count = records.len();
        let mut wait = FIRST_WAIT;
        loop {
            let batch = records.get(..count).unwrap_or(records);
            let texts = batch.iter().map(|record| record.document.page_content.clone()).collect();
            match self.embed_once(sides, texts).await {
                Ok(embeddings) => {
                    for (record, embedding) in batch.iter().zip(embeddings) {
                        let id = &record.document.id;
                        let vector =
                            embedding::vector_of(&sides.spec, &format!("document \"{id}\""), embedding.vector)?;
                        vectors.insert(id.clone(), vector);
                    }
                    return Ok(batch.len());
                }
                // Never to be taken at once; a text that is alone gives the fault itself.
                Err(Halt::Failed(Error::ResourceExhausted { retry_after: None, .. })) if count > 1 => count /= 2,
                Err(Halt::Failed(
                    fault @ (Error::ResourceExhausted { retry_after: Some(_), .. }
                    | Error::Unavailable(_)
                    | Error::DeadlineExceeded(_)),
                )) => {
                    let told = match &fault {
                        Error::ResourceExhausted { retry_after, .. } => *retry_after,
                        _ => None,
                    };
                    let pause = told.unwrap_or(wait).max(wait).min(LONGEST_WAIT);
                    warn!(operation = self.log.id(), %fault, ?pause, "an operation waits for its model");
                    let slept = async {
                        tokio::time::sleep(pause).await;
                        Ok(())
                    };
                    self.log.unless_told(slept).await?;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
                Err(halt) => return Err(halt),
            }
        }
    }

    async fn embed_once(&mut self, sides: &Sides, texts: Vec<String>) -> Result<Vec<Embedding>, Halt> {
        // The model hears of it when this is dropped.
        let cancellation = Cancellation::default();
        let _cancel_when_dropped = cancellation.cancel_on_drop();
        let context = self.context.clone().with_cancellation(cancellation);
        self.log.unless_told(embedding::embedded(&context, sides.model.as_ref(), texts)).await
    }
}
