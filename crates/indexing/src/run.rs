//! One run: documents come in, what changed is embedded and staged, and one commit shows all of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use toller_core::context::{CancelOnDrop, Cancellation};
use toller_core::error::{Error, Result};
use toller_core::vector_store::ChangeSet;
use toller_core::{CollectionName, Document, DocumentId, DocumentStore, Record, RequestContext, Value, Vector};
use toller_ingest::{SkipReason, key};
use toller_store::staging::Staging;
use toller_store::{CollectionHandle, Collections, RunTurn};
use tracing::warn;

use crate::draft::Draft;
use crate::joining::{Fault, Joined, Joiner};
use crate::known::{KnownIds, KnownVersion, KnownVersions, Place};
use crate::parents::{ParentRoom, SweepNote};
use crate::pipeline::{Pipeline, Refused};
use crate::preparing::{Preparation, Prepared, Unusable, Written};
use crate::progress::{Action, Board};
use crate::settings::{Cleanup, IndexSettings};
use crate::source_document::{RelatedText, SourceDocument};
use crate::version::{Part, Version, VersionHash, check_source, parse};

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
    /// Records of versions that are written again which the new ones do not replace.
    outdated: BTreeMap<Version, Vec<DocumentId>>,
    joiner: Joiner,
    /// What this run noted of parents that are to be swept; none as long as it wrote and removed none.
    sweep: Option<SweepNote>,
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
        let joiner = Joiner::new(settings.max_document_bytes);
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
            outdated: BTreeMap::new(),
            joiner,
            sweep: None,
        })
    }

    /// Takes a document, or the next part of one. What is wrong with it is a problem on the board and ends nothing; until the model has room
    /// for more, this waits.
    ///
    /// # Errors
    /// What ends the run: a store or a model that fails, the caller's deadline.
    pub async fn add(&mut self, document: SourceDocument) -> Result<()> {
        self.context.check("during an index run")?;
        let Joined { document, faults } = self.joiner.take(document);
        self.fail_all(faults);
        let Some(document) = document else { return Ok(()) };
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
        let staged = self.staged_of(&version).await?;
        let written = self.written(&document, staged.as_ref()).await?;
        match self.preparation.prepare(&self.context, &document, &version, written).await? {
            Ok(prepared) => {
                for fault in &prepared.faults {
                    self.board.problem(&version.source, fault.as_str());
                }
                self.write(&version, prepared, &known, staged, action).await
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

    /// Reports a document, or a part of one, that cannot be read at all; what was indexed of its source before stays. When its content goes on
    /// (`continued`), its other parts are passed over.
    pub fn refuse(&mut self, source: &str, continued: bool, fault: impl Into<String>) {
        let faults = self.joiner.refuse(source, continued, fault.into());
        self.fail_all(faults);
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
        if let Some(source) = self.joiner.unfinished() {
            let fault = format!("the content of {source:?} goes on, and its rest did not come");
            return Err(Error::invalid("commit", fault));
        }
        let refused = self.pipeline.finish().await?;
        let taken_back = self.take_back(refused).await?;
        let mut delete = self.deletions().await?;
        let outdated: Vec<DocumentId> = self.outdated.values().flatten().cloned().collect();
        let versions: BTreeSet<Version> = delete.iter().filter_map(version_of).collect();
        self.board.count(|progress| {
            progress.deleted = versions.len() as u64;
            progress.chunks_deleted = (delete.len() + outdated.len()) as u64;
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
        let mut changed: BTreeSet<Arc<str>> = versions.into_iter().map(|version| version.source).collect();
        changed.extend(taken_back);
        delete.extend(outdated);
        if !delete.is_empty() && self.parents.has_any(&self.context).await? {
            // Before the commit, so that a process that is killed right after it is known to have left something.
            self.note_sweep().await?;
        }
        if self.sweep.is_none() {
            // Of a process that was killed before it swept.
            let mark = self.collection.sweep_mark(&self.context).await?;
            self.sweep = mark.map(|mark| SweepNote { was_noted: true, mark });
        }
        if let Some(turn) = &self.turn {
            turn.check()?;
        }
        if !writes.is_empty() || !delete.is_empty() {
            let upsert = self.staging.records(&self.context, writes);
            self.collection.apply(&self.context, ChangeSet { delete, upsert }).await?;
        }
        // All of it is visible: what cannot be cleared away now is of no harm, and the next run clears it away.
        let mut cleared = self.staging.clear(&self.context).await;
        if let Some(note) = self.sweep {
            if changed.is_empty() && !note.was_noted {
                cleared = cleared.and(self.collection.clear_sweep_mark(&self.context, note.mark).await);
            } else {
                self.parents.sweep_sources_later(&self.context, note, Some(changed.into_iter().collect()));
            }
        }
        if let Err(fault) = cleared {
            warn!(%fault, collection = %self.collection.spec().name, "an index run was committed and left something behind");
        }
        Ok(())
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

    fn fail_all(&mut self, faults: Vec<Fault>) {
        for Fault { source, message } in faults {
            self.fail(&source, message);
        }
    }

    /// What an earlier run that did not come to its end has embedded of a version.
    async fn staged_of(&mut self, version: &Version) -> Result<Option<KnownVersion>> {
        if self.settings.dry_run || self.settings.force {
            return Ok(None);
        }
        Ok(self.staged.of_source(&self.context, &version.source).await?.remove(&version.hash))
    }

    /// Where what language models write about a document comes from: nobody is asked what was answered before.
    async fn written(&self, document: &SourceDocument, staged: Option<&KnownVersion>) -> Result<Written> {
        if self.settings.dry_run || !self.preparation.has_writers() {
            return Ok(Written::None);
        }
        let Some(staged) = staged.filter(|staged| staged.is_whole()) else { return Ok(Written::Ask) };
        // The caller's own texts are the last ones.
        let ids = staged.ids.len().saturating_sub(document.related.len());
        let mut found = BTreeMap::new();
        let mut records = self.staging.records(&self.context, staged.ids.clone());
        while let Some(some) = records.next().await? {
            for Record { document, .. } in some {
                let number = match parse(document.id.as_str()).map(|parts| parts.part) {
                    Some(Part::Record { number, .. }) => usize::try_from(number).unwrap_or(usize::MAX),
                    _ => continue,
                };
                if let Some(Value::String(kind)) = document.metadata.get(key::KIND).filter(|_| number < ids) {
                    let text = document.page_content.clone();
                    found.insert(number, RelatedText { kind: kind.clone(), text });
                }
            }
        }
        Ok(Written::Found(found))
    }

    async fn write(
        &mut self,
        version: &Version,
        prepared: Prepared,
        known: &KnownVersions,
        staged: Option<KnownVersion>,
        action: Action,
    ) -> Result<()> {
        let count = prepared.drafts.len() as u64;
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
        if !prepared.parents.is_empty() {
            // Before they are there, so that they are swept if this run does not come to its end.
            self.note_sweep().await?;
        }
        // An earlier run that was cut off may have had them removed since.
        self.waiting_bytes += prepared.parents.iter().map(|parent| parent.page_content.len()).sum::<usize>();
        let total = prepared.total();
        let Prepared { drafts, parents, .. } = prepared;
        self.waiting_parents.extend(parents);
        if self.waiting_bytes >= PARENT_BYTES {
            self.put_parents().await?;
        }
        let mut vectors = match self.settings.force {
            true => HashMap::new(),
            false => self.vectors_of_old(known, &drafts).await?,
        };
        let staged: HashSet<DocumentId> = staged.into_iter().flat_map(|staged| staged.ids).collect();
        let mut outdated: BTreeSet<DocumentId> =
            known.get(&version.hash).into_iter().flat_map(|known| known.ids.iter().cloned()).collect();
        for (number, draft) in drafts.into_iter().enumerate() {
            let id = version.record_id(number, total).map_err(|fault| Error::Internal(format!("an id {fault}")))?;
            outdated.remove(&id);
            self.writes.push(id.clone());
            if staged.contains(&id) {
                self.board.count(|progress| progress.resumed += 1);
                continue;
            }
            let vector = vectors.remove(&draft.text);
            if let Some(vector) = &vector {
                self.board.count(|progress| progress.reused += 1);
                // Equal texts have equal vectors.
                vectors.insert(draft.text.clone(), vector.clone());
            }
            self.pipeline.push(draft.into_document(id), vector).await?;
        }
        if !outdated.is_empty() {
            self.outdated.insert(version.clone(), outdated.into_iter().collect());
        }
        Ok(())
    }

    /// Leaves out documents of which the model refused a part, and gives their sources: what was indexed of them before stays.
    async fn take_back(&mut self, refused: Vec<Refused>) -> Result<Vec<Arc<str>>> {
        let mut faults: BTreeMap<Version, String> = BTreeMap::new();
        for Refused { id, fault } in refused {
            if let Some(version) = version_of(&id) {
                faults.entry(version).or_insert(fault);
            }
        }
        if faults.is_empty() {
            return Ok(Vec::new());
        }
        let mut taken_back: BTreeMap<Version, u64> = BTreeMap::new();
        self.writes.retain(|id| match version_of(id).filter(|version| faults.contains_key(version)) {
            None => true,
            Some(version) => {
                *taken_back.entry(version).or_default() += 1;
                false
            }
        });
        let sources = faults.keys().map(|version| Arc::clone(&version.source)).collect();
        for (version, fault) in faults {
            self.outdated.remove(&version);
            let known = self.known.of_source(&self.context, &version.source).await?;
            let was_known = known.get(&version.hash).is_some_and(KnownVersion::is_whole);
            let chunks = taken_back.get(&version).copied().unwrap_or_default();
            self.board.count(|progress| {
                let counted = if was_known { &mut progress.updated } else { &mut progress.added };
                *counted = counted.saturating_sub(1);
                progress.chunks = progress.chunks.saturating_sub(chunks);
            });
            self.fail(&version.source, format!("the model refuses a chunk of it: {fault}"));
        }
        Ok(sources)
    }

    /// Notes, once, that parents are about to come or to lose their children.
    async fn note_sweep(&mut self) -> Result<()> {
        if self.sweep.is_none() {
            self.sweep = Some(self.parents.note_sweep(&self.context).await?);
        }
        Ok(())
    }

    async fn put_parents(&mut self) -> Result<()> {
        self.waiting_bytes = 0;
        self.parents.put(&self.context, std::mem::take(&mut self.waiting_parents)).await
    }

    /// The vectors that older versions of the same source have for texts that come again.
    async fn vectors_of_old(&self, known: &KnownVersions, drafts: &[Draft]) -> Result<HashMap<String, Vector>> {
        let mut vectors = HashMap::new();
        if known.is_empty() {
            return Ok(vectors);
        }
        let wanted: HashSet<&str> = drafts.iter().map(|draft| draft.text.as_str()).collect();
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
