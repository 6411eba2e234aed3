//! One run: documents come in, what changed is embedded and staged, and one commit shows all of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use toller_core::context::{CancelOnDrop, Cancellation};
use toller_core::error::{Error, Result};
use toller_core::vector_store::ChangeSet;
use toller_core::{CollectionName, Document, DocumentId, DocumentStore, RequestContext, Vector};
use toller_ingest::SkipReason;
use toller_store::staging::Staging;
use toller_store::{CollectionHandle, Collections, RunTurn};
use tracing::warn;

use crate::known::{KnownIds, KnownVersions, Place};
use crate::parents::ParentRoom;
use crate::pipeline::Pipeline;
use crate::preparing::{Preparation, Prepared, Unusable};
use crate::progress::{Action, Board};
use crate::settings::{Cleanup, IndexSettings};
use crate::source_document::SourceDocument;
use crate::version::{Version, VersionHash, check_source, parse};

/// Reason of the error when a full run without documents would remove everything.
pub const EMPTY_FULL_RUN: &str = "EMPTY_FULL_RUN";

/// Ids or records that are read at a time.
const PAGE: usize = 1000;

/// Bytes of parents that are written at once: each write may wait for the disk.
const PARENT_BYTES: usize = 1 << 20;

/// Records whose vectors are looked at at a time.
const OLD_RECORDS: usize = 256;

/// A run that is under way. Dropping it leaves everything as readers see it; what it staged is found by the next run.
pub struct IndexRun {
    context: RequestContext,
    _cancel_when_dropped: CancelOnDrop,
    collection: CollectionHandle,
    settings: Arc<IndexSettings>,
    preparation: Preparation,
    /// What decides how documents are written, but for the documents.
    digest: String,
    model: String,
    /// None in a dry run.
    turn: Option<RunTurn>,
    staging: Staging,
    is_room_made: bool,
    parents: ParentRoom,
    /// Parents that are still to be written.
    waiting_parents: Vec<Document>,
    waiting_bytes: usize,
    known: KnownIds,
    staged: KnownIds,
    pipeline: Pipeline,
    board: Board,
    /// What came, by source.
    seen: BTreeMap<Arc<str>, BTreeSet<VersionHash>>,
    /// Sources of which nothing is removed.
    kept: BTreeSet<Arc<str>>,
    /// Sources of which everything is.
    removed: BTreeSet<Arc<str>>,
    /// Records to be moved into the collection.
    writes: Vec<DocumentId>,
    /// A document whose content goes on.
    unfinished: Option<SourceDocument>,
    /// The source of a document whose rest is passed over.
    passed_over: Option<String>,
}

impl IndexRun {
    /// Begins a run; waits for its turn. News are told on `board`.
    ///
    /// # Errors
    /// `NotFound` for the collection; `InvalidArgument` for settings; `FailedPrecondition` when the collection takes its vectors from the client or its
    /// model is not loaded, or while it is embedded anew; `Aborted` when another run is under way and this one does not wait.
    pub async fn begin(
        collections: &Collections,
        documents: Arc<dyn DocumentStore>,
        context: &RequestContext,
        name: &CollectionName,
        settings: IndexSettings,
        board: Board,
    ) -> Result<Self> {
        let collection = collections.open(context, name).await?;
        // What cannot be embedded is told before anything is read.
        collection.check_settled()?;
        let model = collection.embeddings()?;
        let preparation = Preparation::new(&settings, Arc::clone(model), collections.models())?;
        let turn = match settings.dry_run {
            true => None,
            false => Some(collection.run_turn(context, settings.conflict).await?),
        };
        // The run before this one may have changed what the collection is filled by.
        let collection = collections.open(context, name).await?;
        let broken = |fault: serde_json::Error| Error::Internal(format!("settings cannot be hashed: {fault}"));
        let cancellation = Cancellation::default();
        let cancel_when_dropped = cancellation.cancel_on_drop();
        let context = context.clone().with_cancellation(cancellation);
        let staging = collection.staging();
        Ok(Self {
            digest: settings.digest().map_err(broken)?,
            model: serde_json::to_string(&collection.spec().fingerprint).map_err(broken)?,
            parents: ParentRoom::new(collection.clone(), documents).with_grace(settings.parent_grace),
            known: KnownIds::new(Place::Collection(collection.clone())),
            staged: KnownIds::new(Place::Staging(staging.clone())),
            pipeline: Pipeline::new(collection.clone(), staging.clone(), context.clone(), board.clone()),
            waiting_parents: Vec::new(),
            waiting_bytes: 0,
            is_room_made: false,
            settings: Arc::new(settings),
            context,
            _cancel_when_dropped: cancel_when_dropped,
            collection,
            preparation,
            turn,
            staging,
            board,
            seen: BTreeMap::new(),
            kept: BTreeSet::new(),
            removed: BTreeSet::new(),
            writes: Vec::new(),
            unfinished: None,
            passed_over: None,
        })
    }

    /// Takes a document, or the next part of one. What is wrong with it is a problem on the board and ends nothing; until the model has room
    /// for more, this waits.
    ///
    /// # Errors
    /// What ends the run: a store or a model that fails, the caller's deadline.
    pub async fn add(&mut self, document: SourceDocument) -> Result<()> {
        self.context.check("during an index run")?;
        let Some(document) = self.joined(document) else { return Ok(()) };
        if let Err(fault) = document.check() {
            self.fail(&document.source, fault);
            return Ok(());
        }
        let document = Arc::new(document);
        let version = Version { source: document.shared_source(), hash: self.hash(&document).await? };
        if self.removed.contains(&version.source) {
            self.fail(&version.source, "it came after it was said to be gone; run the index again");
            return Ok(());
        }
        if !self.seen.entry(Arc::clone(&version.source)).or_default().insert(version.hash) {
            self.skip(&version);
            return Ok(());
        }
        let known = self.known.of_source(&self.context, &version.source).await?;
        let is_known = known.get(&version.hash).is_some_and(|known| known.is_whole());
        if is_known && !self.settings.force {
            self.skip(&version);
            return Ok(());
        }
        let action = if is_known { Action::Update } else { Action::Add };
        match self.preparation.prepare(&self.context, &document, &version).await? {
            Ok(prepared) => {
                for fault in &prepared.faults {
                    self.board.problem(&version.source, fault.as_str());
                }
                self.write(&version, prepared, &known, action).await
            }
            Err(Unusable::Empty) => {
                self.board.count(|progress| progress.failed += 1);
                self.board.problem(&version.source, SkipReason::Empty.to_string());
                Ok(())
            }
            Err(Unusable::Broken(fault)) => {
                self.fail(&version.source, fault);
                Ok(())
            }
        }
    }

    /// Reports a document that cannot be read at all; what was indexed of its source before stays.
    pub fn refuse(&mut self, source: &str, fault: impl Into<String>) {
        self.fail(source, fault);
    }

    /// Has everything of a source removed at the commit.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that no source has, or one that came in this run.
    pub fn remove(&mut self, source: &str) -> Result<()> {
        check_source(source).map_err(|fault| Error::invalid("removed_sources", fault))?;
        if self.seen.contains_key(source) {
            return Err(Error::invalid("removed_sources", format!("{source:?} came in this run already")));
        }
        self.removed.insert(source.into());
        Ok(())
    }

    /// Has everything of a source stay.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that no source has.
    pub fn keep(&mut self, source: &str) -> Result<()> {
        check_source(source).map_err(|fault| Error::invalid("kept_sources", fault))?;
        self.kept.insert(source.into());
        Ok(())
    }

    /// Shows everything at once, and ends the run.
    ///
    /// # Errors
    /// `FailedPrecondition` with [`EMPTY_FULL_RUN`]; `InvalidArgument` when the content of a document goes on; `Aborted` when
    /// the run lost its turn or the collection got another model; what the model and the store report. Then readers see what they saw before.
    pub async fn commit(mut self) -> Result<()> {
        if let Some(document) = &self.unfinished {
            let fault = format!("the content of {:?} goes on, and its rest did not come", document.source);
            return Err(Error::invalid("commit", fault));
        }
        self.pipeline.finish().await?;
        let delete = self.deletions().await?;
        let versions: BTreeSet<Version> = delete.iter().filter_map(version_of).collect();
        self.board.count(|progress| {
            progress.deleted = versions.len() as u64;
            progress.chunks_deleted = delete.len() as u64;
        });
        if self.settings.dry_run {
            self.tell_deletes(&delete);
            return Ok(());
        }
        if let Some(turn) = &self.turn {
            turn.check()?;
        }
        self.put_parents().await?;
        let writes = std::mem::take(&mut self.writes);
        let changed: BTreeSet<Arc<str>> = versions.into_iter().map(|version| version.source).collect();
        let was_to_be_swept = self.collection.is_to_be_swept(&self.context).await?;
        if !delete.is_empty() {
            // Before the commit, so that a process that is killed right after it is known to have left something.
            self.parents.mark_for_sweep(&self.context).await?;
        }
        if !writes.is_empty() || !delete.is_empty() {
            let upsert = self.staging.records(&self.context, writes);
            self.collection.apply(&self.context, ChangeSet { delete, upsert }).await?;
        }
        let sources = match self.settings.cleanup {
            // What was to be swept and was not, since a process was killed, may be of any source.
            _ if was_to_be_swept => None,
            Cleanup::Full => None,
            Cleanup::None | Cleanup::Incremental => Some(changed.into_iter().collect()),
        };
        // All of it is visible: what cannot be cleared away now is of no harm, and the next run clears it away.
        let cleared = self.staging.clear(&self.context).await;
        if let Err(fault) = cleared.and(self.parents.sweep_later(&self.context, sources).await) {
            warn!(%fault, collection = %self.collection.spec().name, "an index run was committed and left something behind");
        }
        Ok(())
    }

    /// The whole document, once its last part is here.
    fn joined(&mut self, document: SourceDocument) -> Option<SourceDocument> {
        if self.passed_over.take_if(|source| *source == document.source).is_some() {
            self.passed_over = document.continued.then_some(document.source);
            return None;
        }
        let joined = match self.unfinished.take() {
            None => document,
            Some(mut whole) if whole.source == document.source => {
                whole.continued = document.continued;
                let only_content = document.only_goes_on(&whole);
                let joined = only_content.then_some(()).ok_or_else(|| {
                    "what goes on with its content must have nothing but the source and content".to_owned()
                });
                if let Err(fault) = joined.and_then(|()| whole.content.append(document.content)) {
                    self.fail(&whole.source, fault);
                    self.passed_over = whole.continued.then_some(whole.source);
                    return None;
                }
                whole
            }
            Some(other) => {
                self.fail(&other.source, format!("its content goes on, and {:?} came in its place", document.source));
                document
            }
        };
        let (bytes, most) = (joined.content.as_bytes().len(), self.settings.max_document_bytes);
        if bytes > most {
            self.fail(&joined.source, format!("larger than {most} bytes (limits.max_document_bytes)"));
            self.passed_over = joined.continued.then_some(joined.source);
            return None;
        }
        if joined.continued {
            self.unfinished = Some(joined);
            return None;
        }
        Some(joined)
    }

    async fn hash(&self, document: &Arc<SourceDocument>) -> Result<VersionHash> {
        /// Bytes from which on hashing would hold up others on this thread.
        const LARGE: usize = 256 << 10;

        let broken = |fault| Error::Internal(format!("a document cannot be hashed: {fault}"));
        if document.content.as_bytes().len() < LARGE {
            return document.hash(&self.digest, &self.model).map_err(broken);
        }
        let (document, digest, model) = (Arc::clone(document), self.digest.clone(), self.model.clone());
        let hashed = tokio::task::spawn_blocking(move || document.hash(&digest, &model)).await;
        hashed.map_err(|fault| Error::Internal(format!("hashing a document ended: {fault}")))?.map_err(broken)
    }

    fn skip(&self, version: &Version) {
        self.board.count(|progress| progress.skipped += 1);
        if self.settings.dry_run {
            self.board.change(Action::Skip, &version.source, 0);
        }
    }

    /// Reports a document that could not be indexed; what was indexed of its source before stays.
    fn fail(&mut self, source: &str, fault: impl Into<String>) {
        self.board.count(|progress| progress.failed += 1);
        self.board.problem(source, fault);
        self.kept.insert(source.into());
    }

    async fn write(
        &mut self,
        version: &Version,
        prepared: Prepared,
        known: &KnownVersions,
        action: Action,
    ) -> Result<()> {
        let count = prepared.records.len() as u64;
        self.board.count(|progress| {
            match action {
                Action::Update => progress.updated += 1,
                Action::Add | Action::Skip | Action::Delete => progress.added += 1,
            }
            progress.chunks += count;
        });
        if self.settings.dry_run {
            self.board.change(action, &version.source, count);
            return Ok(());
        }
        if !self.is_room_made {
            self.staging.make(&self.context).await?;
            self.is_room_made = true;
        }
        // An earlier run that was cut off may have had them removed since.
        self.waiting_bytes += prepared.parents.iter().map(|parent| parent.page_content.len()).sum::<usize>();
        self.waiting_parents.extend(prepared.parents);
        if self.waiting_bytes >= PARENT_BYTES {
            self.put_parents().await?;
        }
        let staged = self.staged.of_source(&self.context, &version.source).await?;
        let staged: HashSet<DocumentId> = match staged.get(&version.hash) {
            Some(version) if !self.settings.force => version.ids.iter().cloned().collect(),
            _ => HashSet::new(),
        };
        let mut vectors = match self.settings.force {
            true => HashMap::new(),
            false => self.vectors_of_old(known, &prepared.records).await?,
        };
        for record in prepared.records {
            self.writes.push(record.id.clone());
            if staged.contains(&record.id) {
                self.board.count(|progress| progress.resumed += 1);
                continue;
            }
            let vector = vectors.remove(&record.page_content);
            if let Some(vector) = &vector {
                self.board.count(|progress| progress.reused += 1);
                // Equal texts have equal vectors.
                vectors.insert(record.page_content.clone(), vector.clone());
            }
            self.pipeline.push(record, vector).await?;
        }
        Ok(())
    }

    async fn put_parents(&mut self) -> Result<()> {
        self.waiting_bytes = 0;
        self.parents.put(&self.context, std::mem::take(&mut self.waiting_parents)).await
    }

    /// The vectors that older versions of the same source have for texts that come again.
    async fn vectors_of_old(&self, known: &KnownVersions, records: &[Document]) -> Result<HashMap<String, Vector>> {
        let mut vectors = HashMap::new();
        if known.is_empty() {
            return Ok(vectors);
        }
        let wanted: HashSet<&str> = records.iter().map(|record| record.page_content.as_str()).collect();
        let ids: Vec<DocumentId> = known.values().flat_map(|version| version.ids.iter().cloned()).collect();
        for some in ids.chunks(OLD_RECORDS) {
            for record in self.collection.get(&self.context, some).await?.into_iter().flatten() {
                let text = record.document.page_content.as_str();
                if wanted.contains(text) && !vectors.contains_key(text) {
                    vectors.insert(text.to_owned(), record.vector);
                }
            }
        }
        Ok(vectors)
    }

    /// What is to be removed at the commit.
    async fn deletions(&mut self) -> Result<Vec<DocumentId>> {
        let mut delete = Vec::new();
        if self.settings.cleanup == Cleanup::Full {
            let came = !self.seen.is_empty() || !self.kept.is_empty() || !self.removed.is_empty();
            self.each_id(|id, source, hash| {
                let is_gone = self.removed.contains(source)
                    || (!self.kept.contains(source)
                        && self.seen.get(source).is_none_or(|hashes| !hashes.contains(&hash)));
                if is_gone {
                    delete.push(id.clone());
                }
            })
            .await?;
            if !came && !delete.is_empty() && !self.settings.allow_empty_full {
                return Err(Error::FailedPrecondition {
                    reason: EMPTY_FULL_RUN,
                    message: format!(
                        "a full run without a document would remove all {} chunks that are indexed in collection \"{}\"; if that is meant, set allow_empty_full",
                        delete.len(),
                        self.collection.spec().name
                    ),
                });
            }
            return Ok(delete);
        }
        let mut sources: BTreeSet<Arc<str>> = self.removed.clone();
        if self.settings.cleanup == Cleanup::Incremental {
            sources.extend(self.seen.keys().filter(|source| !self.kept.contains(*source)).cloned());
        }
        for source in sources {
            let stays = self.seen.get(&source).filter(|_| !self.removed.contains(&source));
            for (hash, version) in self.known.of_source(&self.context, &source).await? {
                if stays.is_none_or(|hashes| !hashes.contains(&hash)) {
                    delete.extend(version.ids);
                }
            }
        }
        Ok(delete)
    }

    /// Hands out every record that a run made, of whatever source. O(records).
    async fn each_id(&self, mut take: impl FnMut(&DocumentId, &str, VersionHash)) -> Result<()> {
        let mut from: Option<DocumentId> = None;
        loop {
            self.context.check("during an index run")?;
            let page = self.known.page(&self.context, from.as_ref(), PAGE + 1).await?;
            for id in page.iter().take(PAGE) {
                if let Some(parts) = parse(id.as_str()) {
                    take(id, parts.source, parts.hash);
                }
            }
            match page.into_iter().nth(PAGE) {
                None => return Ok(()),
                next => from = next,
            }
        }
    }

    fn tell_deletes(&self, delete: &[DocumentId]) {
        let mut chunks: BTreeMap<Version, u64> = BTreeMap::new();
        for version in delete.iter().filter_map(version_of) {
            *chunks.entry(version).or_default() += 1;
        }
        for (version, chunks) in chunks {
            self.board.change(Action::Delete, &version.source, chunks);
        }
    }
}

fn version_of(id: &DocumentId) -> Option<Version> {
    parse(id.as_str()).map(|parts| Version { source: parts.source.into(), hash: parts.hash })
}
